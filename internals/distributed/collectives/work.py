"""A collective that was started and not waited for."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from internals.distributed.errors import DeadlineExceeded


class Work:
    """A collective on its way.

    Attributes
    ----------
    text : str
        What was called.
    began, ended : float
        ``time.perf_counter()`` when its first message could go and when its result was there; NaN until then.
    """

    def __init__(self, text: str, body: Callable[[], Any]) -> None:
        self.text = text
        self.began = self.ended = float("nan")
        self._body: Callable[[], Any] | None = body
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether `wait` would return, or raise, at once."""
        return self._done.is_set()

    def wait(self, deadline: float | None = None) -> Any:
        """What the collective returns. Until then, the array belongs to it: neither read nor write it.

        Parameters
        ----------
        deadline : float, optional
            Seconds to wait here at most. The collective's own waits, for each message, have the group's deadline.

        Raises
        ------
        MismatchError, PeerLost, DeadlineExceeded
            As the collective would have raised.
        """
        if not self._done.wait(deadline):
            raise DeadlineExceeded(f"{self.text} is not done after {deadline:g} s")
        if self._error is not None:
            raise self._error
        return self._result

    def run(self) -> None:
        """Do it, in whichever thread calls this."""
        body, self._body = self._body, None
        assert body is not None
        self.began = time.perf_counter()
        try:
            self._result = body()
        except BaseException as error:  # noqa: BLE001  raised again by wait
            self._error = error
        self.ended = time.perf_counter()
        self._done.set()

    def __repr__(self) -> str:
        return f"<{self.text}: {'done' if self.done else 'on its way'}>"


IDLE = 2.0
"""Seconds after which a thread that has nothing to do ends; the next call starts another."""


class Line:
    """Works waiting for their turn: one thread does them in the order in which they were started.

    All ranks start them in one order, so all do them in one order, and no two wait for each other in a circle.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._last: Work | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def idle(self) -> bool:
        """Whether all that was put in is done."""
        return self._last is None or self._last.done

    def put(self, work: Work) -> None:
        with self._lock:
            self._last = work
            self._waiting.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            try:
                work = self._waiting.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._thread = None
                        return
                continue
            work.run()
            del work  # it holds the arrays, and the group
