"""What a thread has to do: at once, or at a time; and a bell that wakes it from waiting for sockets."""

from __future__ import annotations

import heapq
import itertools
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from internals.distributed.transport.endpoint import logger


class Agenda:
    """Actions for one thread, which any thread may add to.

    Parameters
    ----------
    owner : str
        Named in what is logged.

    Attributes
    ----------
    bell : socket
        Readable when something was added.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.bell, self._ring = socket.socketpair()
        self.bell.setblocking(False)
        self._ring.setblocking(False)
        self._now: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()

    def add(self, action: Callable[[], None], delay: float = 0.0, *, ring: bool = True) -> None:
        """Put `action` on the agenda, `delay` seconds from now; wake the thread, unless it is the caller."""
        if delay > 0:
            with self._lock:
                heapq.heappush(self._timers, (time.monotonic() + delay, next(self._order), action))
        else:
            self._now.append(action)
        if ring:
            try:
                self._ring.send(b"\0")
            except OSError:
                pass  # it is full: it rings already; or closed: nobody is there to hear it

    def left(self, limit: int | None) -> int | None:
        """Milliseconds until something is to be done, `limit` at most."""
        if self._now:
            return 0
        with self._lock:
            if not self._timers:
                return limit
            due = max(0, int(1000 * (self._timers[0][0] - time.monotonic())) + 1)
        return due if limit is None else min(due, limit)

    def heard(self) -> None:
        """Stop the bell."""
        try:
            while self.bell.recv(4096):
                pass
        except BlockingIOError:
            pass

    def work(self) -> None:
        """Do what is due, and was there when this was called."""
        with self._lock:
            while self._timers and self._timers[0][0] <= time.monotonic():
                self._now.append(heapq.heappop(self._timers)[2])
        for _ in range(len(self._now)):
            try:
                self._now.popleft()()
            except Exception:  # noqa: BLE001  one thing that fails must not keep the thread from the next
                logger.exception("%s: failed in its own thread", self.owner)

    def close(self) -> None:
        self._now.clear()
        self.bell.close()
        self._ring.close()
