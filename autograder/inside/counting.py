"""Counting what a call costs, inside the sandbox: operations of NumPy, entries computed, and bytes held at the peak.

A driver hands the learner's function arrays of a meter, and returns what was counted beside the answer:

    with Meter() as meter:
        answer = names["f"](meter.array(x))
    return {"answer": bare(answer), "counted": meter.counted}

Counts do not depend on how busy the machine is. They are taken beside the learner's code, in its own process: no honest
answer escapes them, and one written to tamper with them could.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np


class Meter:
    """Counts while its block runs.

    Attributes
    ----------
    counted : dict
        ``operations``: how many operations ran on the meter's arrays and on what was made of them, an entry read or
        written by itself being one. ``entries``: how many entries they computed; a product of matrices counts each
        multiplication. ``bytes``: how many bytes were held at the same time, beyond those held at the start.
    """

    def __init__(self) -> None:
        self.counted: dict[str, int] = {"operations": 0, "entries": 0, "bytes": 0}

    def __enter__(self) -> Meter:
        self._traced = tracemalloc.is_tracing()
        if not self._traced:
            tracemalloc.start(1)
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *exc: object) -> None:
        if tracemalloc.is_tracing():  # else the code that ran has ended it
            self.counted["bytes"] = max(0, tracemalloc.get_traced_memory()[1] - self._before)
            if not self._traced:
                tracemalloc.stop()

    def array(self, values: Any) -> Counted:
        """The values as an array that is counted; memory is shared with an array that is given."""
        made = np.asarray(values).view(Counted)
        made.meter = self
        return made

    def add(self, entries: int) -> None:
        self.counted["operations"] += 1
        self.counted["entries"] += int(entries)


class Counted(np.ndarray):
    """An array that tells its meter what is done with it; what is computed from it does so too."""

    meter: Meter | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.meter = getattr(source, "meter", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.get("out", ())
        meter = _meter_of((*inputs, *out))
        if out:
            options["out"] = tuple(bare(one) for one in out)
        given = [bare(one) for one in inputs]
        result = getattr(ufunc, method)(*given, **options)
        if meter is not None:
            meter.add(_entries(ufunc, method, given, result))
        return out[0] if len(out) == 1 else out or _wrapped(result, meter)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        meter = self.meter or _meter_of([*arguments, *options.values()])
        before = meter.counted["operations"] if meter is not None else 0
        result = super().__array_function__(function, types, arguments, options)
        # What works with ufuncs has been counted by them, and a view costs nothing.
        if meter is not None and meter.counted["operations"] == before and isinstance(result, np.ndarray):
            given = [one for one in _flat(arguments) if isinstance(one, np.ndarray)]
            if not any(np.may_share_memory(result, one) for one in given):
                meter.add(max([result.size, *(one.size for one in given)]))
        return result

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if not isinstance(found, np.ndarray) and self.meter is not None:
            self.meter.add(1)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if self.meter is not None:
            self.meter.add(np.size(value))


def bare(value: Any) -> Any:
    """An array as NumPy has it, without a meter; anything else as it is, in tuples, lists and dicts too."""
    if isinstance(value, Counted):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(bare(one) for one in value)
    if type(value) is dict:
        return {name: bare(one) for name, one in value.items()}
    return value


def _meter_of(values: Any) -> Meter | None:
    return next((one.meter for one in _flat(values) if isinstance(one, Counted) and one.meter is not None), None)


def _flat(values: Any) -> list[Any]:
    """The values, and those in lists and tuples among them."""
    return [part for one in values for part in (one if type(one) in (tuple, list) else (one,))]


def _wrapped(result: Any, meter: Meter | None) -> Any:
    if isinstance(result, tuple):
        return tuple(_wrapped(one, meter) for one in result)
    if not isinstance(result, np.ndarray):
        return result
    made = result.view(Counted)
    made.meter = meter
    return made


def _entries(ufunc: np.ufunc, method: str, given: list[Any], result: Any) -> int:
    if ufunc is np.matmul:
        return int(np.size(result)) * int(np.shape(given[0])[-1])
    first = result[0] if isinstance(result, tuple) else result
    return max(int(np.size(given[0])), int(np.size(first)) if first is not None else 0)
