"""Drivers for ``lab17_quantise``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


def scale_point(names: Names, low: np.ndarray, high: np.ndarray, symmetric: bool) -> dict[str, np.ndarray]:
    """Scale and zero point that the learner's function chooses."""
    found = names["scale_and_zero_point"](np.array(low), np.array(high), symmetric)
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise TypeError(f"scale_and_zero_point returned {_kind(found)}; expected a pair (scale, zero_point).")
    return {
        "scale": _array("the scale", found[0], "f").astype(np.float64),
        "zero_point": _array("the zero point", found[1], "iu").astype(np.int64),
    }


def integers(
    names: Names, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int | None
) -> dict[str, np.ndarray]:
    """x in integers, and read again."""
    given = np.array(x)
    q = _array("quantise's result", names["quantise"](given, np.array(scale), np.array(zero_point), axis), "iuf")
    if not np.array_equal(given, x):
        raise ValueError("quantise wrote into x; it has to make a new array.")
    back = names["dequantise"](np.array(q), np.array(scale), np.array(zero_point), axis)
    return {"q": q, "back": _array("dequantise's result", back, "iuf")}


def product(
    names: Names,
    qx: np.ndarray,
    qw: np.ndarray,
    x: tuple[np.ndarray, np.ndarray],
    w: tuple[np.ndarray, np.ndarray],
    y: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """The integers of the product."""
    pairs = [tuple(np.array(one) for one in pair) for pair in (x, w, y)]
    found = names["int8_matmul"](np.array(qx), np.array(qw), *pairs)
    return _array("int8_matmul's result", found, "iuf")


def calibrate(names: Names, batches: list[np.ndarray], percentile: float) -> list[float]:
    """The range that the learner's function chooses."""
    found = names["calibrate"]([np.array(batch) for batch in batches], percentile)
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise TypeError(f"calibrate returned {_kind(found)}; expected a pair (low, high).")
    return [float(_array(name, one, "fiu")) for name, one in zip(("low", "high"), found, strict=True)]


def straight_through(
    names: Names, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, g: np.ndarray
) -> dict[str, np.ndarray]:
    """x after rounding, and the cotangent that goes on."""
    rounded = names["fake_quantise"](np.array(x), np.array(scale), np.array(zero_point))
    passed = names["fake_quantise_backward"](np.array(g), np.array(x), np.array(scale), np.array(zero_point))
    return {"y": _array("fake_quantise's result", rounded, "iuf"), "g": _array("the cotangent", passed, "iuf")}


def _array(what: str, value: Any, kinds: str) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in kinds:
        wanted = "integers" if kinds == "iu" else "floats" if kinds == "f" else "numbers"
        came = f"an array of {array.dtype}" if array.ndim else f"{_kind(value)} {array}"
        raise TypeError(f"{what} is {came}; expected {wanted}.")
    return np.array(array)


def _kind(value: Any) -> str:
    return type(value).__name__
