"""Answers to the task `due`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: E402, F811

# %% right: a deque and a running count


class Batcher:
    def __init__(self, size, wait):
        from collections import deque

        self.size, self.wait = size, wait
        self.requests, self.times, self.count = deque(), deque(), 0

    def submit(self, now, request):
        self.requests.append(request)
        self.times.append(now)
        self.count += request.rows

    def next_due(self):
        if self.count >= self.size:
            return float("-inf")
        return self.times[0] + self.wait if self.times else None

    def take(self, now):
        due = self.next_due()
        if due is None or now < due:
            return ()
        room, batch = self.size, []
        while self.requests:
            if batch and self.requests[0].rows > room:
                break
            room -= self.requests[0].rows
            batch.append(self.requests.popleft())
            self.times.popleft()
        self.count -= sum(one.rows for one in batch)
        return tuple(batch)


# %% right: a dict from number to arrival, and prefix sums


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.made, self.there = size, wait, 0, {}

    def submit(self, now, request):
        self.there[self.made] = (now, request)
        self.made += 1

    def next_due(self):
        if not self.there:
            return None
        total = sum(request.rows for _, request in self.there.values())
        return min(now for now, _ in self.there.values()) + (0 if total >= self.size else self.wait)

    def take(self, now):
        import itertools

        if self.next_due() is None or self.next_due() > now:
            return []
        numbers = list(self.there)
        ends = list(itertools.accumulate(self.there[n][1].rows for n in numbers))
        chosen = [n for n, end in zip(numbers, ends, strict=True) if end <= self.size] or numbers[:1]
        return [self.there.pop(n)[1] for n in chosen]


# %% wrong: not written | has not been filled


class Batcher:
    def __init__(self, size, wait):
        raise NotImplementedError("your code here")


# %% wrong: waits for a full batch for ever | waited long enough|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[0][0] if sum(one.rows for _, one in self.waiting) >= self.size else float("inf")

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[0][1].rows <= self.size):
            batch.append(self.waiting.pop(0)[1])
            total += batch[-1].rows
        return batch


# %% wrong: the bound counts from the last arrival | waited long enough|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[-1][0] + self.wait * (sum(one.rows for _, one in self.waiting) < self.size)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[0][1].rows <= self.size):
            batch.append(self.waiting.pop(0)[1])
            total += batch[-1].rows
        return batch


# %% wrong: the bound counts from the last batch | waited long enough|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting, self.since = size, wait, [], 0

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        return self.since + self.wait * (sum(one.rows for _, one in self.waiting) < self.size)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[0][1].rows <= self.size):
            batch.append(self.waiting.pop(0)[1])
            total += batch[-1].rows
        self.since = now
        return batch


# %% wrong: one row more than the size | more than the size|a batch is full|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[0][0] + self.wait * (sum(one.rows for _, one in self.waiting) < self.size)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[0][1].rows <= self.size + 1):
            batch.append(self.waiting.pop(0)[1])
            total += batch[-1].rows
        return batch


# %% wrong: full only beyond the size | a batch is full|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[0][0] + self.wait * (not sum(one.rows for _, one in self.waiting) > self.size)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[0][1].rows <= self.size):
            batch.append(self.waiting.pop(0)[1])
            total += batch[-1].rows
        return batch


# %% wrong: one row less than the size | more fit


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[0][0] + self.wait * (sum(one.rows for _, one in self.waiting) < self.size)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[0][1].rows < self.size):
            batch.append(self.waiting.pop(0)[1])
            total += batch[-1].rows
        return batch


# %% wrong: due one millisecond late | waited long enough


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def rows(self):
        return sum(request.rows for _, request in self.waiting)

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[0][0] + self.wait * (not self.rows() >= self.size)

    def take(self, now):
        if not self.waiting or (self.next_due() >= now and self.rows() < self.size):
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[0][1].rows <= self.size):
            batch.append(self.waiting.pop(0)[1])
            total += batch[-1].rows
        return batch


# %% wrong: the newest first | first come, first served|in order of arrival|none overtakes


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[0][0] + self.wait * (sum(one.rows for _, one in self.waiting) < self.size)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + self.waiting[-1][1].rows <= self.size):
            request = self.waiting.pop()[1]
            batch.append(request)
            total += request.rows
        return batch


# %% wrong: small ones overtake | none overtakes


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        full = sum(request.rows for _, request in self.waiting) >= self.size
        return self.waiting[0][0] + (0 if full else self.wait)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, left, total = [], [], 0
        for arrived, request in self.waiting:
            if not batch or total + request.rows <= self.size:
                batch.append(request)
                total += request.rows
            else:
                left.append((arrived, request))
        self.waiting = left
        return batch


# %% wrong: counts requests and not rows | a batch is full|more than the size|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def rows(self):
        return len(self.waiting)

    def next_due(self):
        if not self.waiting:
            return None
        return self.waiting[0][0] + self.wait * (not self.rows() >= self.size)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.waiting and (not batch or total + 1 <= self.size):
            request = self.waiting.pop(0)[1]
            batch.append(request)
            total += 1
        return batch


# %% wrong: what is taken still waits | do not wait any more|nothing waits|next batch is due|none overtakes


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.waiting = size, wait, []

    def submit(self, now, request):
        self.waiting.append((now, request))

    def next_due(self):
        if not self.waiting:
            return None
        full = sum(request.rows for _, request in self.waiting) >= self.size
        return self.waiting[0][0] + (0 if full else self.wait)

    def take(self, now):
        if not self.waiting or self.next_due() > now:
            return []
        batch, total = [], 0
        for _, request in self.waiting:
            if batch and total + request.rows > self.size:
                break
            batch.append(request)
            total += request.rows
        return batch


# %% right: times and rows in NumPy arrays, so that answers are NumPy's numbers

import numpy as np


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait = np.int64(size), np.int64(wait)
        self.times, self.rows, self.requests = np.zeros(0, np.int64), np.zeros(0, np.int64), []

    def submit(self, now, request):
        self.times = np.append(self.times, np.int64(now))
        self.rows = np.append(self.rows, np.int64(request.rows))
        self.requests.append(request)

    def next_due(self):
        if not self.requests:
            return None
        return self.times[0] if self.rows.sum() >= self.size else self.times[0] + self.wait

    def take(self, now):
        if not self.requests or self.next_due() > now:
            return []
        count = max(1, int((np.cumsum(self.rows) <= self.size).sum()))
        batch, self.requests = self.requests[:count], self.requests[count:]
        self.times, self.rows = self.times[count:], self.rows[count:]
        return batch


# %% wrong: the clock starts anew when a batch is taken | waited long enough|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.requests, self.oldest = size, wait, [], None

    def submit(self, now, request):
        self.oldest = self.oldest if self.requests else now
        self.requests.append(request)

    def next_due(self):
        if not self.requests:
            return None
        full = sum(request.rows for request in self.requests) >= self.size
        return self.oldest if full else self.oldest + self.wait

    def take(self, now):
        if not self.requests or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.requests and (not batch or total + self.requests[0].rows <= self.size):
            batch.append(self.requests.pop(0))
            total += batch[-1].rows
        self.oldest = now
        return batch


# %% wrong: the first one's time stays when it is taken | not waited long enough|next batch is due


class Batcher:
    def __init__(self, size, wait):
        self.size, self.wait, self.requests, self.oldest = size, wait, [], None

    def submit(self, now, request):
        self.oldest = self.oldest if self.requests else now
        self.requests.append(request)

    def next_due(self):
        if not self.requests:
            return None
        full = sum(request.rows for request in self.requests) >= self.size
        return self.oldest if full else self.oldest + self.wait

    def take(self, now):
        if not self.requests or self.next_due() > now:
            return []
        batch, total = [], 0
        while self.requests and (not batch or total + self.requests[0].rows <= self.size):
            batch.append(self.requests.pop(0))
            total += batch[-1].rows
        return batch
