"""Dynamic batching: which waiting requests run together, and when. It has no clock and no threads of its own.

A model takes little longer for 32 rows than for one, so requests that arrive near each other are run as one batch. Two
bounds say when a batch is due: it has ``size`` rows, or its oldest request has waited ``wait`` seconds. With ``wait=0``
a request that finds a worker free runs at once, and batches form of what arrives while all workers are busy.

A wait that is always there helps a server that is loaded, and holds up the few clients of one that is not. ``linger``
is one that sets in by itself: for so many seconds at most, a batch waits until as many requests are there as lately
were there at once. That pays where the server's own process has much to do: requests together cost it less than one by
one. Clients that wait for their answers are held up little: when all are there, nobody else is waited for. When some of
them go away, one wait in which nobody comes is enough to notice. It ends at once when a request comes that can't join
the others, that can't wait so long, or for which there is no room.

It is made for one worker, which is idle meanwhile. Of several, one would be idle while all wait to be the batch of
another.

Requests run together only if they have one key (a signature, and the shapes that must agree); those of one key stand in
a lane, first come, first served: a request that does not fit into a batch is never overtaken by a smaller one behind
it. Among lanes that are due, the one whose first request has waited longest goes first, so that no lane starves
another.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from internals.deploy.serve.errors import QueueFull

CROWD = 4
"""Requests together from which on `Batcher.linger` waits for as many again; where there are fewer, none is held up."""


@dataclass(eq=False)
class Request:
    """A request that waits.

    Attributes
    ----------
    rows : int
        Its share of a batch, at least 1.
    key : hashable
        What must be equal for requests to run together.
    deadline : float
        In seconds of the clock that `Batcher` is told; after it nobody waits for the answer.
    payload : object
        The batcher does not look at it.
    alone : bool
        It can't be joined with others.
    arrived : float
        Set by `Batcher.submit`.
    """

    rows: int
    key: Hashable = None
    deadline: float = math.inf
    payload: Any = None
    alone: bool = False
    arrived: float = math.nan


class Batcher:
    """A bounded queue that gives out batches.

    Parameters
    ----------
    size : int
        Most rows of a batch. A request that has more is a batch of its own.
    wait : float
        Seconds that a request waits at most for others, while a worker is free.
    queue : int
        Most rows that wait; a request that would be more is refused, unless nothing else waits.
    linger : float
        Seconds that it waits at most while fewer are there than lately were, if those were at least `CROWD` and had the
        key that all have who wait now.

    Attributes
    ----------
    rows : int
        Rows that wait.
    crowd : int
        Requests of the latest batch's key that lately waited together: the most that a `take` found. It is what the
        latest found, if those are fewer than `CROWD`, or if nobody had come for half of `linger`.

    Raises
    ------
    ValueError
    """

    def __init__(self, *, size: int = 32, wait: float = 0.0, queue: int = 1024, linger: float = 0.0) -> None:
        for name, value in (("size", size), ("queue", queue)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"Batcher: {name} must be a whole number of rows, at least 1, got {value!r}.")
        for name, seconds in (("wait", wait), ("linger", linger)):
            if not 0 <= seconds < math.inf:
                raise ValueError(f"Batcher: {name} must be seconds, 0 or more, got {seconds!r}.")
        self.size, self.wait, self.queue, self.linger = size, wait, queue, linger
        self.rows = self.crowd = 0
        self._waiting, self._latest, self._crowded = 0, -math.inf, object()
        self._lanes: dict[Hashable, deque[Request]] = {}
        self._in_lane: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """Requests that wait."""
        return self._waiting

    def submit(self, now: float, request: Request) -> None:
        """Put a request at the end of its lane.

        Raises
        ------
        QueueFull
            The queue has no room for its rows.
        ValueError
            It has no rows.
        """
        if request.rows < 1:
            raise ValueError(f"Batcher: a request must have at least 1 row, got {request.rows!r}.")
        no_room = self.rows > 0 and self.rows + request.rows > self.queue
        if no_room or request.deadline - now < 2 * self.linger:
            self.crowd = 0
        if no_room:
            raise QueueFull(f"{self.rows} rows wait and the queue holds {self.queue}: no room for {request.rows} more.")
        request.arrived = self._latest = now
        self._lanes.setdefault(request.key, deque()).append(request)
        self._count(request, 1)

    def take(self, now: float) -> list[Request]:
        """The batch that is due, oldest first; none is an empty list. Call it while a worker is free."""
        due = [lane for key, lane in self._lanes.items() if self._due_at(key) <= now]
        if not due:
            return []
        lane = min(due, key=lambda one: one[0].arrived)
        if not lane[0].alone:
            self._learn(now, lane[0].key)
        batch, rows = [lane[0]], lane[0].rows
        for request in islice(lane, 1, None):
            rows += request.rows
            if rows > self.size or request.alone or batch[0].alone:
                break
            batch.append(request)
        for request in batch:
            lane.popleft()
            self._count(request, -1)
        return batch

    def next_due(self) -> float | None:
        """When `take` will have a batch if nothing else arrives; None if nothing waits."""
        return min((self._due_at(key) for key in self._lanes), default=None)

    def expire(self, now: float) -> list[Request]:
        """Take out the requests whose deadline has come."""
        gone = [request for lane in self._lanes.values() for request in lane if request.deadline <= now]
        for request in gone:
            self.cancel(request)
        return gone

    def next_expiry(self) -> float | None:
        """When the next deadline comes; None if no request has one."""
        soonest = min((one.deadline for lane in self._lanes.values() for one in lane), default=math.inf)
        return soonest if soonest < math.inf else None

    def cancel(self, request: Request) -> bool:
        """Take out a request nobody waits for any more; False if it does not wait here, as when it runs already."""
        lane = self._lanes.get(request.key)
        if lane is None or request not in lane:
            return False
        lane.remove(request)
        self._count(request, -1)
        return True

    def clear(self) -> list[Request]:
        """Take out all that waits."""
        gone = [request for lane in self._lanes.values() for request in lane]
        for request in gone:
            self.cancel(request)
        return gone

    def _count(self, request: Request, sign: int) -> None:
        key = request.key
        self._waiting += sign
        self.rows += sign * request.rows
        self._in_lane[key] = self._in_lane.get(key, 0) + sign * request.rows
        if not self._lanes[key]:
            del self._lanes[key], self._in_lane[key]

    def _due_at(self, key: Hashable) -> float:
        first = self._lanes[key][0]
        if first.alone or self._in_lane[key] >= self.size:
            return -math.inf
        return first.arrived + (max(self.wait, self.linger) if self._lingers(key) else self.wait)

    def _lingers(self, key: Hashable) -> bool:
        return CROWD <= self.crowd > self._waiting and len(self._lanes) == 1 and key == self._crowded

    def _learn(self, now: float, key: Hashable) -> None:
        found = len(self._lanes[key])
        forgets = found < CROWD or key != self._crowded or now - self._latest >= self.linger / 2
        self.crowd, self._crowded = found if forgets else max(found, self.crowd), key
