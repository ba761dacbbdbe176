"""Answers to the task `bounded`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: built on the batcher


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% right: from the ground up


class BoundedBatcher:
    def __init__(self, size, wait, queue):
        self.size, self.wait, self.queue, self.line = size, wait, queue, []

    def total(self):
        return sum(request.rows for _, request in self.line)

    def submit(self, now, request):
        fits = not self.line or self.total() + request.rows <= self.queue
        if fits:
            self.line.append((now, request))
        return fits

    def next_due(self):
        return min((now for now, _ in self.line), default=None)

    def expire(self, now):
        gone = []
        for pair in list(self.line):
            deadline = pair[1].deadline
            if deadline is not None and now >= deadline:
                self.line.remove(pair)
                gone.append(pair[1])
        return gone

    def take(self, now):
        if not self.line or (self.total() < self.size and now - self.line[0][0] < self.wait):
            return []
        count, rows = 1, self.line[0][1].rows
        while count < len(self.line) and rows + self.line[count][1].rows <= self.size:
            rows += self.line[count][1].rows
            count += 1
        batch, self.line = self.line[:count], self.line[count:]
        return [request for _, request in batch]


# %% wrong: not written | has not been filled


class BoundedBatcher:
    def __init__(self, size, wait, queue):
        raise NotImplementedError("your code here")


# %% wrong: no bound | bound is in rows


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: says False and takes it all the same | bound is in rows|nothing waits|expected|was refused


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            super().submit(now, request)
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: one row more | bound is in rows


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue + 1:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: one row less | it was refused, though it fits


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows >= self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: refuses a large one though nothing waits | though nothing waits


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: counts requests | bound is in rows|though it fits


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = len(self.waiting)
        if waiting and waiting + 1 > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: a deadline that has come has not | A deadline of \d+ has come


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline < now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: tells what is late and keeps it | do not wait any more|the deadline has come|expected|without|fits


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        return [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]


# %% wrong: what is late is forgotten | the deadline has come


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return []


# %% wrong: says nothing when it takes | expected True if the request was taken


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return None

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late


# %% wrong: take drops what is late | expected|no batch|more fit|the deadline has come


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(arrived, one) for arrived, one in self.waiting if one not in late]
        return late

    def take(self, now):
        self.expire(now)
        return super().take(now)


# %% wrong: expiring makes the rest arrive again | waited long enough|no batch


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [(now, one) for _, one in self.waiting if one not in late]
        return late


# %% wrong: refuses what is late already | refused, though nothing waits|refused, though it fits


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        rows = self.rows()
        if rows and rows + request.rows > self.queue:
            return False
        if request.deadline is not None and request.deadline <= now:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline is not None and one.deadline <= now]
        self.waiting = [pair for pair in self.waiting if pair[1] not in late]
        return late


# %% wrong: looks only at the first | the deadline has come


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        rows = self.rows()
        if rows and rows + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = []
        while self.waiting and self.waiting[0][1].deadline is not None and self.waiting[0][1].deadline <= now:
            late.append(self.waiting.pop(0)[1])
        return late


# %% wrong: takes out of the list it walks along | the deadline has come


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = []
        for pair in self.waiting:
            if pair[1].deadline is not None and pair[1].deadline <= now:
                self.waiting.remove(pair)
                late.append(pair[1])
        return late


# %% wrong: a deadline of 0 taken for none | the deadline has come


class BoundedBatcher(Batcher):
    def __init__(self, size, wait, queue):
        super().__init__(size, wait)
        self.queue = queue

    def submit(self, now, request):
        waiting = sum(one.rows for _, one in self.waiting)
        if waiting and waiting + request.rows > self.queue:
            return False
        super().submit(now, request)
        return True

    def expire(self, now):
        late = [one for _, one in self.waiting if one.deadline and one.deadline <= now]
        self.waiting = [pair for pair in self.waiting if pair[1] not in late]
        return late
