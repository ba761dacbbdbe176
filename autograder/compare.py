"""Is an answer the expected one? Trusted: sees plain data only, whatever it was in the learner's process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from autograder.spec import FLOAT32, FLOAT64, Tolerance

Kind = Literal[
    "none", "container", "length", "keys", "scalar", "array", "type", "dtype", "shape", "nan", "inf", "value"
]
"""none: None came. container: list for tuple and the like. length, keys: of a container. scalar: a Python number for an
array. array: an array for something else. type: any other type. dtype, shape: of an array. nan, inf: elsewhere, or
of the wrong sign. value: numbers, strings or flags that differ."""

FLOAT16 = Tolerance(relative=5e-3, absolute=1e-3)
BY_DTYPE = {"float16": FLOAT16, "float32": FLOAT32, "complex64": FLOAT32}
"""Every other inexact dtype is held to FLOAT64."""


@dataclass(frozen=True)
class Mismatch:
    """One way in which an answer is not the expected one.

    `where` is the place in the answer, as Python writes it after the answer's name: ``""``, ``"[1]"``, ``"['w']"``.
    `want` and `got` are the parts that differ: whole arrays for a mismatch between arrays. `index` is the worst entry.
    """

    kind: Kind
    where: str
    message: str
    want: Any
    got: Any
    index: tuple[int, ...] | None = None


def compare(got: Any, want: Any, tolerance: Tolerance | None = None) -> list[Mismatch]:
    """Every mismatch between `got` and `want`; empty when they agree.

    Types are exact, with two exceptions that NumPy makes natural: a NumPy scalar and a 0-d array of the same dtype are
    the same, and a NumPy scalar stands for a Python number of its kind. Shape and dtype count. NaN equals NaN.

    Parameters
    ----------
    got, want : plain data
    tolerance : Tolerance, optional
        None takes one that fits the expected dtype, and allows for cancellation between large entries:
        ``|got - want| <= absolute * max(1, max |want|) + relative * |want|``.
    """
    return list(_compare(got, want, tolerance, ""))


_width: ContextVar[float] = ContextVar("_width", default=1.0)


@contextmanager
def loosened(factor: float) -> Iterator[None]:
    """Compare with every tolerance `factor` times as wide, in this thread, judges that call `compare` included."""
    before = _width.set(factor)
    try:
        yield
    finally:
        _width.reset(before)


def tolerance_for(dtype: np.dtype[Any]) -> Tolerance:
    """The tolerance of an expected array of this dtype."""
    return BY_DTYPE.get(dtype.name, FLOAT64)


def _compare(got: Any, want: Any, tolerance: Tolerance | None, where: str) -> Iterator[Mismatch]:
    if got is None and want is not None:
        yield Mismatch("none", where, f"{place(where)} is None; expected {describe(want)}.", want, got)
    elif isinstance(want, (np.ndarray, np.generic)):
        yield from _compare_arrays(got, want, tolerance, where)
    elif isinstance(want, (list, tuple)):
        yield from _compare_sequences(got, want, tolerance, where)
    elif isinstance(want, dict):
        yield from _compare_mappings(got, want, tolerance, where)
    else:
        yield from _compare_plain(got, want, tolerance, where)


def _compare_sequences(got: Any, want: Any, tolerance: Tolerance | None, where: str) -> Iterator[Mismatch]:
    if type(got) is not type(want):
        yield Mismatch("container", where, f"{place(where)} is {describe(got)}; expected {describe(want)}.", want, got)
    elif len(got) != len(want):
        yield Mismatch("length", where, f"{place(where)} has {count(len(got))}; expected {len(want)}.", want, got)
    else:
        for position, (one, other) in enumerate(zip(got, want, strict=True)):
            yield from _compare(one, other, tolerance, f"{where}[{position}]")


def _compare_mappings(got: Any, want: Any, tolerance: Tolerance | None, where: str) -> Iterator[Mismatch]:
    if not isinstance(got, dict):
        yield Mismatch("container", where, f"{place(where)} is {describe(got)}; expected {describe(want)}.", want, got)
        return
    lacking, extra = [key for key in want if key not in got], [key for key in got if key not in want]
    if lacking or extra:
        parts = [f"lacks {names(lacking)}"] if lacking else []
        parts += [f"has {names(extra)} that should not be there"] if extra else []
        yield Mismatch("keys", where, f"{place(where)} {' and '.join(parts)}.", want, got)
    for key in want:
        if key in got:
            yield from _compare(got[key], want[key], tolerance, f"{where}[{key!r}]")


def _compare_plain(got: Any, want: Any, tolerance: Tolerance | None, where: str) -> Iterator[Mismatch]:
    if isinstance(got, np.generic) or (
        isinstance(got, np.ndarray) and got.ndim == 0 and not isinstance(want, (str, bytes))
    ):
        got = got.item()
    if isinstance(want, float) and type(got) is float:
        yield from _compare_values(np.float64(got), np.float64(want), tolerance or FLOAT64, where)
    elif type(got) is not type(want):
        kind: Kind = "array" if isinstance(got, np.ndarray) else "type"
        yield Mismatch(kind, where, f"{place(where)} is {describe(got)}; expected {describe(want)}.", want, got)
    elif got != want:
        yield Mismatch("value", where, f"{place(where)} is {short(got)}; expected {short(want)}.", want, got)


def _compare_arrays(
    got: Any, want: np.ndarray | np.generic, tolerance: Tolerance | None, where: str
) -> Iterator[Mismatch]:
    if not isinstance(got, (np.ndarray, np.generic)):
        kind: Kind = (
            "scalar"
            if isinstance(got, (bool, int, float))
            else "container"
            if isinstance(got, (list, tuple, dict))
            else "type"
        )
        yield Mismatch(kind, where, f"{place(where)} is {describe(got)}; expected {describe(want)}.", want, got)
        return
    if got.dtype != want.dtype:
        yield Mismatch("dtype", where, f"{place(where)} has dtype {got.dtype}; expected {want.dtype}.", want, got)
    if got.shape != want.shape:
        yield Mismatch("shape", where, f"{place(where)} has shape {got.shape}; expected {want.shape}.", want, got)
    elif got.dtype.kind in "biufc" and want.dtype.kind in "biufc":
        yield from _compare_values(got, want, tolerance or tolerance_for(want.dtype), where, scaled=tolerance is None)
    elif not np.array_equal(got, want):
        yield Mismatch("value", where, f"{place(where)} has other entries than expected.", want, got)


def _compare_values(
    got: Any, want: Any, tolerance: Tolerance, where: str, *, scaled: bool = False
) -> Iterator[Mismatch]:
    """Numbers of one shape, entry by entry."""
    one, other = np.asarray(got), np.asarray(want)
    if one.size == 0:
        return
    if other.dtype.kind in "biu" and one.dtype.kind in "biu":
        error = (one != other).astype(float)
        allowed = np.zeros(error.shape)
    else:
        wide = np.complex128 if "c" in one.dtype.kind + other.dtype.kind else np.float64
        one, other = one.astype(wide), other.astype(wide)
        if (np.isnan(one) != np.isnan(other)).any():
            yield _at(np.isnan(one) != np.isnan(other), "nan", where, got, want)
            return
        finite = np.isfinite(other)
        infinite = ~finite & ~np.isnan(other) | ~np.isfinite(one) & ~np.isnan(one)
        if (infinite & (one != other)).any():
            yield _at(infinite & (one != other), "inf", where, got, want)
            return
        size = np.abs(np.where(finite, other, 0.0))
        error = np.abs(np.where(finite, one, 0.0) - np.where(finite, other, 0.0))
        floor = max(1.0, float(size.max())) if scaled else 1.0
        allowed = _width.get() * (tolerance.absolute * floor + tolerance.relative * size)
    wrong = error > allowed
    if wrong.any():
        yield _at(wrong, "value", where, got, want, excess=error - allowed)


def _at(wrong: np.ndarray, kind: Kind, where: str, got: Any, want: Any, excess: np.ndarray | None = None) -> Mismatch:
    """The mismatch at the worst of the entries marked `wrong`; the first of them where they are equally bad."""
    flat = int(np.argmax(wrong if excess is None else excess))
    index = tuple(int(place) for place in np.unravel_index(flat, wrong.shape))
    one, other = np.asarray(got)[index], np.asarray(want)[index]
    entry = f"{place(where)}{list(index) if index else ''}"
    many = f" ({int(wrong.sum())} of {wrong.size} entries are wrong)" if wrong.size > 1 else ""
    seen, due = number(one), number(other)
    if seen == due:
        seen, due = repr(one.item()), repr(other.item())
    return Mismatch(kind, where, f"{entry} is {seen}; expected {due}{many}.", want, got, index)


def place(where: str) -> str:
    return f"result{where}"


def count(length: int) -> str:
    return f"{length} entr{'y' if length == 1 else 'ies'}"


def names(keys: list[str]) -> str:
    return ", ".join(repr(key) for key in keys[:5]) + (" and more" if len(keys) > 5 else "")


def number(value: Any) -> str:
    """A number as a person would write it: enough digits to see the difference, no dtype around it."""
    value = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.7g}"
    return repr(value)


def short(value: Any, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def describe(value: Any) -> str:
    """What a value is, in words: ``a tuple of 2``, ``a float32 array of shape (3,)``."""
    if value is None:
        return "None"
    if isinstance(value, np.generic):
        return f"a {value.dtype} scalar"
    if isinstance(value, np.ndarray):
        return f"a {value.dtype} array of shape {value.shape}"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__} ({short(value)})"
