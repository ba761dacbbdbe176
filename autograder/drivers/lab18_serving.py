"""Drivers for ``lab18_serving``: calls of what the learner wrote, under a clock of our own; plain data in and out.

No answers here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


class Request:
    """What waits: it has a number of rows, and maybe a deadline."""

    def __init__(self, name: str, rows: int, deadline: int | None = None) -> None:
        self.name, self.rows, self.deadline = name, rows, deadline

    def __repr__(self) -> str:
        return self.name


def due(names: Names, size: int, wait: int, events: list[list[Any]]) -> list[Any]:
    """What the learner's batcher gives at each event: ``[what, now, ...]``."""
    return _played(names["Batcher"](size, wait), events)


def bounded(names: Names, size: int, wait: int, queue: int, events: list[list[Any]]) -> list[Any]:
    """The same of the bounded one."""
    return _played(names["BoundedBatcher"](size, wait, queue), events)


def _played(batcher: Any, events: list[list[Any]]) -> list[Any]:
    trace: list[Any] = []
    made: list[Request] = []
    for what, now, *rest in events:
        if what == "submit":
            made.append(Request(f"r{len(made)}", *rest))
            answer = _plain(batcher.submit(now, made[-1]))
            trace.append(answer if isinstance(answer, bool | None) else _kind(answer))
        elif what == "next":
            answer = _plain(batcher.next_due())
            if not (answer is None or (isinstance(answer, int | float) and not isinstance(answer, bool))):
                raise TypeError(f"next_due returned {_kind(answer)}; expected a time, or None.")
            trace.append(None if answer is None else float(max(answer, now)))
        else:
            trace.append(_names(what, getattr(batcher, what)(now)))
    return trace


def _names(what: str, answer: Any) -> list[str]:
    if not isinstance(answer, list | tuple):
        raise TypeError(f"{what} returned {_kind(answer)}; expected a list of requests.")
    for one in answer:
        if not isinstance(one, Request):
            raise TypeError(f"{what} returned a list with {_kind(one)} in it; expected the requests themselves.")
    return [one.name for one in answer]


def padded(names: Names, sequences: list[np.ndarray], weight: np.ndarray, bias: np.ndarray) -> dict[str, Any]:
    """The answers to sequences that ran as one batch, and the shapes and dtypes the model was called with."""
    called: list[list[Any]] = []

    def model(batch: Any) -> Any:
        if not sequences:
            raise ValueError("the model was called, though there are no sequences.")
        if np.ndim(batch) != 3:
            raise ValueError(f"the model was given {np.ndim(batch)} axes; it takes (requests, places, features).")
        called.append([*np.shape(batch), np.asarray(batch).dtype.name])
        return np.tanh(np.asarray(batch) @ weight + bias)

    found = names["answers"](model, [np.array(one) for one in sequences])
    if not isinstance(found, list | tuple):
        raise TypeError(f"answers returned {_kind(found)}; expected a list with a pair for each sequence.")
    pairs = []
    for pair in found:
        if not (isinstance(pair, list | tuple) and len(pair) == 2):
            raise TypeError(f"answers returned a list with {_kind(pair)} in it; expected pairs (places, mean).")
        pairs.append([np.array(one) for one in pair])
    return {"answers": pairs, "called": called}


def switch(names: Names, events: list[list[Any]]) -> list[Any]:
    """What the learner's registry gives at each event: ``[what]`` or ``[what, number]``."""
    versions = names["Versions"]()
    begun: list[Any] = []
    trace: list[Any] = []
    for what, *rest in events:
        if what == "begin":
            begun.append(_plain(versions.begin()))
            trace.append(_number("begin", begun[-1]))
        elif what == "done":
            if begun[rest[0]] is not None:
                versions.done(begun[rest[0]])
            trace.append(None)
        elif what == "drop":
            answer = versions.drop()
            if not isinstance(answer, list | tuple | set):
                raise TypeError(f"drop returned {_kind(answer)}; expected a list of versions.")
            trace.append(sorted(_number("drop", _plain(one)) or 0 for one in answer))
        else:
            getattr(versions, what)(*rest)
            trace.append(None)
    return trace


def _plain(value: Any) -> Any:
    """A number or truth value of NumPy's as Python's own: the task does not ask which."""
    return value.item() if isinstance(value, np.generic) else value


def _number(what: str, answer: Any) -> int | None:
    if answer is not None and (isinstance(answer, bool) or not isinstance(answer, int)):
        raise TypeError(f"{what} gave {_kind(answer)}; expected the number of a version.")
    return answer


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
