"""Arrays as nested lists of Python numbers, for JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FEW = 64
"""Up to so many numbers, one by one is faster."""
EXACT = (1e-13, 1e15)
"""Between these, the powers of ten that are needed are exact in float64."""


def plain_list(array: np.ndarray) -> Any:
    """Nested lists of Python numbers, float32 in its shortest form; texts for what JSON has no number for."""
    if array.dtype.kind in "biu":
        return array.tolist()
    if array.dtype != np.float64:
        array = shortest(array.astype(np.float32))
    if np.isfinite(array).all():
        return array.tolist()
    return _with_texts(array.tolist())


def shortest(single: np.ndarray) -> np.ndarray:
    """float64 whose decimal text reads back to the same float32, without twelve digits of noise.

    Parameters
    ----------
    single : array of float32
    """
    numbers = single.ravel()
    if numbers.size <= FEW:
        return _one_by_one(numbers).reshape(single.shape)
    found = numbers.astype(np.float64)
    size = np.abs(found)
    left = np.flatnonzero((size >= EXACT[0]) & (size < EXACT[1]))
    before_point = np.floor(np.log10(size, out=np.zeros_like(size), where=size > 0))
    others = np.ones(numbers.size, bool)
    others[left] = False
    # A whole number and a power of ten that float64 holds exactly give, divided, the float64 that is nearest to their
    # decimal text. Nine digits tell every float32 from every other.
    for digits in (6, 7, 8, 9):
        power = digits - 1 - before_point[left]
        scale = 10.0 ** np.abs(power)
        exact = found[left]
        rounded = np.where(power >= 0, np.rint(exact * scale) / scale, np.rint(exact / scale) * scale)
        same = rounded.astype(np.float32) == numbers[left]
        found[left[same]] = rounded[same]
        left = left[~same]
    others[left] = True
    others &= (size > 0) & np.isfinite(size)
    found[others] = _one_by_one(numbers[others])
    return found.reshape(single.shape)


def _one_by_one(numbers: np.ndarray) -> np.ndarray:
    return np.array([float(str(one)) for one in numbers], np.float64)


def _with_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_texts(one) for one in value]
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
