"""Who knows the answers of ``lab18_serving``: simulations found in two ways, and torch and TensorFlow for the model."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

Events = list[list[Any]]


# --- the batcher: a queue that is carried along ---------------------------------------------------


def due_queue(numpy: Any, size: int, wait: int, events: Events) -> list[Any]:
    """One event after the other."""
    return bounded_queue(numpy, size, wait, 10**9, events, says=False)


def bounded_queue(numpy: Any, size: int, wait: int, queue: int, events: Events, *, says: bool = True) -> list[Any]:
    """One event after the other, with what waits in a deque."""
    waiting: deque[tuple[str, int, int, Any]] = deque()
    trace: list[Any] = []
    count = 0
    for what, now, *rest in events:
        total = sum(one[2] for one in waiting)
        if what == "submit":
            rows, deadline = rest[0], (rest[1] if len(rest) > 1 else None)
            room = not waiting or total + rows <= queue
            if room:
                waiting.append((f"r{count}", now, rows, deadline))
            count += 1
            trace.append(room if says else None)
        elif what == "expire":
            gone = [one for one in waiting if one[3] is not None and one[3] <= now]
            waiting = deque(one for one in waiting if one not in gone)
            trace.append([one[0] for one in gone])
        elif what == "next":
            when = None if not waiting else now if total >= size else max(now, waiting[0][1] + wait)
            trace.append(None if when is None else float(when))
        else:
            batch: list[str] = []
            if waiting and (total >= size or now - waiting[0][1] >= wait):
                rows = 0
                while waiting and (not batch or rows + waiting[0][2] <= size):
                    name, _, more, _ = waiting.popleft()
                    batch.append(name)
                    rows += more
            trace.append(batch)
    return trace


# --- the batcher again: everything from the history, at each event --------------------------------


def due_history(torch: Any, size: int, wait: int, events: Events) -> list[Any]:
    """What waits is found anew at each event, by prefix sums."""
    return bounded_history(torch, size, wait, 10**9, events, says=False)


def bounded_history(torch: Any, size: int, wait: int, queue: int, events: Events, *, says: bool = True) -> list[Any]:
    """Each request has the event at which it left, if it did; nothing is kept in order but their numbers."""
    made = [one for one in events if one[0] == "submit"]
    rows = torch.tensor([one[2] for one in made], dtype=torch.long)
    arrived = torch.tensor([one[1] for one in made], dtype=torch.long)
    ends = torch.tensor([one[3] if len(one) > 3 and one[3] is not None else 2**60 for one in made], dtype=torch.long)
    there = torch.zeros(len(made), dtype=torch.bool)
    trace: list[Any] = []
    count = 0
    for what, now, *_ in events:
        index = torch.nonzero(there).flatten()
        total = int(rows[index].sum())
        if what == "submit":
            room = total == 0 or total + int(rows[count]) <= queue
            there[count] = room
            count += 1
            trace.append(room if says else None)
        elif what == "expire":
            gone = index[ends[index] <= now]
            there[gone] = False
            trace.append([f"r{i}" for i in gone.tolist()])
        else:
            full = total >= size
            oldest = int(arrived[index].min()) if len(index) else 0
            if what == "next":
                trace.append(None if not len(index) else float(max(now, now if full else oldest + wait)))
                continue
            fits = torch.cumsum(rows[index], 0) <= size
            fits[:1] = True
            taken = index[fits] if len(index) and (full or oldest + wait <= now) else index[:0]
            there[taken] = False
            trace.append([f"r{i}" for i in taken.tolist()])
    return trace


# --- padding: each sequence alone -----------------------------------------------------------------


def _called(sequences: list[np.ndarray]) -> list[list[Any]]:
    if not sequences:
        return []
    longest, first = max(len(one) for one in sequences), sequences[0]
    return [[len(sequences), longest, first.shape[1], first.dtype.name]]


def padded_numpy(numpy: Any, sequences: list[np.ndarray], weight: np.ndarray, bias: np.ndarray) -> dict[str, Any]:
    """No batch and no fill at all."""
    places = [np.tanh(one @ weight + bias) for one in sequences]
    return {"answers": [[one, one.mean(axis=0)] for one in places], "called": _called(sequences)}


def padded_torch(torch: Any, sequences: list[np.ndarray], weight: np.ndarray, bias: np.ndarray) -> dict[str, Any]:
    """Each alone, in torch."""
    layer = [torch.from_numpy(np.array(one)) for one in (weight, bias)]
    places = [torch.tanh(torch.from_numpy(np.array(one)) @ layer[0] + layer[1]) for one in sequences]
    return {"answers": [[one.numpy(), one.mean(0).numpy()] for one in places], "called": _called(sequences)}


def padded_tensorflow(tf: Any, sequences: list[np.ndarray], weight: np.ndarray, bias: np.ndarray) -> dict[str, Any]:
    """Each alone, in TensorFlow."""
    places = [tf.tanh(tf.constant(one) @ tf.constant(weight) + tf.constant(bias)) for one in sequences]
    answers = [[one.numpy(), tf.reduce_mean(one, axis=0).numpy()] for one in places]
    return {"answers": answers, "called": _called(sequences)}


# --- versions -------------------------------------------------------------------------------------


def switch_states(numpy: Any, events: Events) -> list[Any]:
    """A state for each version, carried along."""
    state: dict[int, str] = {}
    users: dict[int, int] = {}
    begun: list[int | None] = []
    live: int | None = None
    trace: list[Any] = []
    for what, *rest in events:
        answer: Any = None
        if what == "begin":
            begun.append(live)
            if live is not None:
                users[live] = users.get(live, 0) + 1
            answer = live
        elif what == "done":
            version = begun[rest[0]]
            if version is not None:
                users[version] -= 1
        elif what == "drop":
            answer = sorted(v for v, s in state.items() if s == "warm" and v != live and not users.get(v))
            for version in answer:
                state[version] = "gone"
        else:
            state[rest[0]] = what
            if what == "warm" and (live is None or rest[0] > live):
                live = rest[0]
        trace.append(answer)
    return trace


def switch_history(torch: Any, events: Events) -> list[Any]:
    """Everything from the events before: live is the largest that was warm, in use is begun and not done."""
    trace: list[Any] = []
    for at, (what, *_) in enumerate(events):
        before = events[:at]
        warm = [one[1] for one in before if one[0] == "warm"]
        live = int(torch.tensor(warm).max()) if warm else None
        if what == "begin":
            trace.append(live)
        elif what == "drop":
            given = [answer for one, answer in zip(before, trace, strict=True) if one[0] == "begin"]
            open_ones = set(range(len(given))) - {one[1] for one in before if one[0] == "done"}
            in_use = {given[i] for i in open_ones}
            gone = {v for one, answer in zip(before, trace, strict=True) if one[0] == "drop" for v in answer}
            trace.append(sorted(set(warm) - {live} - in_use - gone))
        else:
            trace.append(None)
    return trace
