"""Where what was sent waits for who receives it: keyed by the step and the edge, so that steps never mix.

Whichever of the two comes first, waits. A tensor may arrive before its step is known here, since messages from
different peers come in any order; and after the step was given up, and is then thrown away.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

Arrival = Callable[[Any, "BaseException | None"], None]
"""``told(value, error)``: one of the two is given."""

REMEMBERED = 4096
"""How many steps that were given up are remembered, to know what arrives late."""


class Rendezvous:
    """Values of one task's steps, on their way from a send to its receive.

    Each key is sent once and received once in a step.
    """

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, dict[str, Arrival]] = {}
        self._ended: OrderedDict[str, BaseException] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, step: str, key: str, value: Any) -> None:
        """Hand in what was sent.

        Raises
        ------
        KeyError
            It was sent in this step already.
        """
        with self._lock:
            if step in self._ended:
                return
            told = self._waiting.get(step, {}).pop(key, None)
            if told is None:
                values = self._values.setdefault(step, {})
                if key in values:
                    raise KeyError(f"rendezvous: {key} was sent twice in step {step}; once is enough for all readers.")
                values[key] = value
            self._tidy(step)
        if told is not None:
            told(value, None)

    def when(self, step: str, key: str, told: Arrival) -> None:
        """Let ``told(value, None)`` be called, once, when a value is there; ``told(None, error)`` if the step ends."""
        with self._lock:
            error = self._ended.get(step)
            values = self._values.get(step, {})
            there = key in values
            value = values.pop(key, None)
            if error is None and not there:
                self._waiting.setdefault(step, {})[key] = told
            self._tidy(step)
        if error is not None:
            told(None, error)
        elif there:
            told(value, None)

    def abort(self, step: str, error: BaseException) -> list[str]:
        """Give a step up: who waits is told, what arrives later is dropped. The keys that were waited for."""
        with self._lock:
            if step in self._ended:
                return []
            self._ended[step] = error
            while len(self._ended) > REMEMBERED:
                self._ended.popitem(last=False)
            self._values.pop(step, None)
            waiting = self._waiting.pop(step, {})
        for told in waiting.values():
            told(None, error)
        return list(waiting)

    def ended(self, step: str) -> BaseException | None:
        """Why a step was given up; None for one that was not."""
        with self._lock:
            return self._ended.get(step)

    def __len__(self) -> int:
        """Values that wait for who receives them, and receives that wait for values."""
        with self._lock:
            return sum(map(len, self._values.values())) + sum(map(len, self._waiting.values()))

    def _tidy(self, step: str) -> None:
        for kept in (self._values, self._waiting):
            if step in kept and not kept[step]:
                del kept[step]
