"""Tensors from nothing: constants, ranges, and random numbers.

Random numbers come from a `numpy.random.Generator` that the caller holds, never from a global one; they are drawn on
the host, so that the same seed gives the same numbers on every device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.device import Device
from internals.ops.spec import DEFAULT_FLOAT
from internals.tensor.tensor import Tensor

Shape = int | Sequence[int]


def _sizes(name: str, shape: Shape) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in sizes):
        raise TypeError(f"{name}: a shape is made of integers, got {shape!r}.")
    if any(n < 0 for n in sizes):
        raise ValueError(f"{name}: sizes can't be negative, got {shape!r}.")
    return tuple(int(n) for n in sizes)


def full(
    shape: Shape,
    value: float,
    *,
    dtype: Any = None,
    device: str | Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with one value everywhere.

    Parameters
    ----------
    shape : int or sequence of int
    value : number
        Its kind decides the dtype, where none is given: float32, int64 or bool.

    Raises
    ------
    TypeError, ValueError
        A size is no integer, or negative; the value is no number.
    """
    if not isinstance(value, bool | int | float | np.generic):
        raise TypeError(f"full: the value must be a number, got {type(value).__name__}.")
    sizes = _sizes("full", shape)
    one = Tensor(value, dtype=dtype)
    return Tensor(np.full(sizes, one.data), device=device, requires_grad=requires_grad)


def zeros(shape: Shape, *, dtype: Any = DEFAULT_FLOAT, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros; float32 unless another dtype is given."""
    return full(_sizes("zeros", shape), 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones(shape: Shape, *, dtype: Any = DEFAULT_FLOAT, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones; float32 unless another dtype is given."""
    return full(_sizes("ones", shape), 1, dtype=dtype, device=device, requires_grad=requires_grad)


def eye(
    rows: int,
    columns: int | None = None,
    *,
    dtype: Any = DEFAULT_FLOAT,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on its diagonal; square unless a number of columns is given."""
    height, width = _sizes("eye", (rows, rows if columns is None else columns))
    return Tensor(np.eye(height, width), dtype=dtype, device=device, requires_grad=requires_grad)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from `start` on, below `stop`, a `step` apart; from 0 if only one is given.

    Of integers int64, else float32, unless a dtype is given. A float step may give an entry more or less than expected;
    linspace counts.

    Raises
    ------
    TypeError, ValueError
        One of them is no number; the step is 0.
    """
    first, end = (0, start) if stop is None else (start, stop)
    for value in (first, end, step):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise TypeError(f"arange: start, stop and step must be numbers, got {type(value).__name__}.")
    if not step:
        raise ValueError("arange: a step of 0 leads nowhere.")
    numbers = np.arange(first, end, step)
    kind = DEFAULT_FLOAT if numbers.dtype.kind == "f" else np.dtype(np.int64)
    return Tensor(numbers, dtype=kind if dtype is None else dtype, device=device, requires_grad=requires_grad)


def linspace(
    start: float,
    stop: float,
    count: int,
    *,
    dtype: Any = DEFAULT_FLOAT,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """So many numbers from `start` to `stop`, both included, the same step apart."""
    (n,) = _sizes("linspace", count)
    return Tensor(np.linspace(start, stop, n), dtype=dtype, device=device, requires_grad=requires_grad)


def normal(
    shape: Shape,
    *,
    rng: np.random.Generator,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: Any = DEFAULT_FLOAT,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers of a normal distribution, drawn from `rng`."""
    numbers = mean + std * _generator("normal", rng).standard_normal(_sizes("normal", shape))
    return Tensor(numbers, dtype=dtype, device=device, requires_grad=requires_grad)


def uniform(
    shape: Shape,
    *,
    rng: np.random.Generator,
    low: float = 0.0,
    high: float = 1.0,
    dtype: Any = DEFAULT_FLOAT,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers spread evenly from `low` up to `high`, drawn from `rng`."""
    numbers = _generator("uniform", rng).uniform(low, high, _sizes("uniform", shape))
    return Tensor(numbers, dtype=dtype, device=device, requires_grad=requires_grad)


def _generator(name: str, rng: Any) -> np.random.Generator:
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"{name}: rng must be a numpy.random.Generator, got {type(rng).__name__}. Make one: "
            "numpy.random.default_rng(seed)."
        )
    return rng
