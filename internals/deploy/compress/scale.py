"""Integers that stand for real numbers: ``real = scale * (integer - zero_point)``.

Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", §2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SMALLEST_SCALE = float(np.finfo(np.float32).eps)
"""What a scale is at least, so that a range of one number can be divided by: PyTorch's choice."""


@dataclass(frozen=True)
class Grid:
    """The integers that may be used.

    Attributes
    ----------
    low, high : int
        The ends, both included. ``Grid(-127, 127)`` leaves -128 out, so that it is its own mirror: TensorFlow Lite's
        choice for weights.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if not -(2**31) <= self.low <= 0 < self.high < 2**31 or self.high - self.low > 2**31:
            raise ValueError(f"Grid: {self.low} to {self.high} does not hold 0, or is wider than 31 bits.")

    @property
    def dtype(self) -> np.dtype:
        """The smallest integer dtype that holds it."""
        for name in ("int8", "uint8", "int16", "uint16"):
            limits = np.iinfo(name)
            if limits.min <= self.low and self.high <= limits.max:
                return np.dtype(name)
        return np.dtype(np.int32)

    @property
    def levels(self) -> int:
        """How many steps lie between the ends."""
        return self.high - self.low

    @property
    def bits(self) -> int:
        """How many bits tell its numbers apart."""
        return self.levels.bit_length()


INT8 = Grid(-128, 127)
UINT8 = Grid(0, 255)
NARROW_INT8 = Grid(-127, 127)
INT4 = Grid(-8, 7)


@dataclass(frozen=True)
class Quantisation:
    """How an array is written in integers.

    Attributes
    ----------
    scale : numpy.ndarray
        float32: () for one scale per tensor, (n,) for one per slice along `axis`. In units of the array.
    zero_point : numpy.ndarray
        int32, shaped like `scale`: the integer that stands for 0.0, which is always exact (padding is zeros).
    grid : Grid
    axis : int, optional
    """

    scale: np.ndarray
    zero_point: np.ndarray
    grid: Grid = INT8
    axis: int | None = None

    def __post_init__(self) -> None:
        scale = np.asarray(self.scale, np.float32)
        zero_point = np.asarray(self.zero_point, np.int32)
        if scale.shape != zero_point.shape or scale.ndim != (0 if self.axis is None else 1):
            raise ValueError(
                f"Quantisation: scale {scale.shape} and zero_point {zero_point.shape} must both be "
                f"{'()' if self.axis is None else '(n,), one entry per slice'}."
            )
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError(f"Quantisation: every scale must be positive and finite, got {scale}.")
        if ((zero_point < self.grid.low) | (zero_point > self.grid.high)).any():
            raise ValueError(f"Quantisation: a zero_point lies outside {self.grid.low} to {self.grid.high}.")
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "zero_point", zero_point)

    @property
    def symmetric(self) -> bool:
        """Whether 0.0 is the integer 0 everywhere, so that a product needs no correction."""
        return not self.zero_point.any()

    def _along(self, values: np.ndarray, ndim: int) -> np.ndarray:
        if self.axis is None:
            return values
        shape = [1] * ndim
        shape[self.axis] = -1
        return values.reshape(shape)

    def _check(self, name: str, x: np.ndarray) -> None:
        if self.axis is None:
            return
        if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] != self.scale.size:
            raise ValueError(
                f"{name}: an array of shape {x.shape} does not have {self.scale.size} slices along axis {self.axis}."
            )

    def quantise(self, x: Any) -> np.ndarray:
        """The nearest integers (ties to even), at the ends of the grid for what lies beyond.

        Parameters
        ----------
        x : array_like
            Floats, any shape. NaN is refused, since no integer stands for it; infinities go to the ends.

        Returns
        -------
        numpy.ndarray
            Of the grid's dtype, x's shape.
        """
        x = _floats("quantise", x)
        self._check("quantise", x)
        if np.isnan(x).any():
            raise ValueError("quantise: the array holds NaN, and no integer stands for it.")
        scaled = np.rint(x * (np.float32(1) / self._along(self.scale, x.ndim)))
        low, high = float(self.grid.low), float(self.grid.high)
        zero_point = self._along(self.zero_point, x.ndim)
        return np.clip(scaled + zero_point, low, high).astype(self.grid.dtype)

    def dequantise(self, q: np.ndarray) -> np.ndarray:
        """The real numbers that integers stand for: float32, q's shape."""
        q = np.asarray(q)
        if q.dtype.kind not in "iu":
            raise TypeError(f"dequantise: expected integers, got {q.dtype}.")
        self._check("dequantise", q)
        steps = q.astype(np.int32) - self._along(self.zero_point, q.ndim)
        return steps.astype(np.float32) * self._along(self.scale, q.ndim)

    def rounded(self, x: Any) -> np.ndarray:
        """What is left of `x` after it was written in integers and read again; float32."""
        return self.dequantise(self.quantise(x))


def _floats(name: str, x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype.kind != "f":
        raise TypeError(f"{name}: expected floats, got {x.dtype}.")
    return x.astype(np.float32, copy=False)


def affine(low: Any, high: Any, grid: Grid = INT8, axis: int | None = None) -> Quantisation:
    """The quantisation whose ends are `low` and `high`, widened to hold 0 (Jacob et al. 2018, eq. 1).

    Parameters
    ----------
    low, high : float or (n,) array_like
        The least and the greatest number that is to be written; (n,) for one range per slice along `axis`.
    """
    low, high = _range("affine", low, high, axis)
    low, high = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
    with np.errstate(over="ignore"):  # a range beyond float32 is told of as a scale that is infinite
        scale = np.maximum((high - low) / np.float32(grid.levels), np.float32(SMALLEST_SCALE))
    zero_point = np.clip(grid.low - np.rint(low / scale), grid.low, grid.high)
    return Quantisation(scale, zero_point.astype(np.int32), grid, axis)


def symmetric(low: Any, high: Any, grid: Grid = NARROW_INT8, axis: int | None = None) -> Quantisation:
    """The quantisation around 0 that holds `low` and `high`.

    With the default grid the scale is ``max(|low|, |high|) / 127``, TensorFlow Lite's; with `INT8` it is
    ``max(|low|, |high|) / 127.5``, PyTorch's, by which the greatest number is half a step beyond the grid.
    """
    low, high = _range("symmetric", low, high, axis)
    largest = np.maximum(np.maximum(-low, high), np.float32(0))
    scale = np.maximum(largest / np.float32(grid.levels / 2), np.float32(SMALLEST_SCALE))
    middle = (grid.low + grid.high + 1) // 2  # 0 for signed grids, 128 for 0 to 255
    return Quantisation(scale, np.full(scale.shape, middle, np.int32), grid, axis)


def _range(name: str, low: Any, high: Any, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
    if low.shape != high.shape or low.ndim != (0 if axis is None else 1):
        raise ValueError(
            f"{name}: low {low.shape} and high {high.shape} must both be {'()' if axis is None else '(n,)'}."
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise ValueError(f"{name}: low and high must be finite, and low <= high; got {low} and {high}.")
    return low, high
