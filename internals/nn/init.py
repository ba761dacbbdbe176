"""Where parameters start: each function fills a Tensor in place and hands it back.

The names are PyTorch's. Fans are counted in the layouts used here: (in, out) of a matrix, as Linear has it, and
(out channels, in channels / groups, window) of a convolution.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from internals.tensor import Tensor, no_grad

GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an entry of a layer's result depends on, and how many results an input goes into.

    Raises
    ------
    ValueError
        The tensor has fewer than two axes.
    """
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError(f"init: a tensor of shape {shape} has no fans; expected a matrix or a convolution's weight.")
    if len(shape) == 2:
        return shape[0], shape[1]
    area = math.prod(shape[2:])
    return shape[1] * area, shape[0] * area


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """What keeps the variance through a nonlinearity: He et al. 2015 for relu and leaky_relu, else PyTorch's."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in GAINS:
        raise ValueError(f"init: no gain is known for {nonlinearity!r}; there are {', '.join(GAINS)} and leaky_relu.")
    return GAINS[nonlinearity]


def _fill(tensor: Tensor, values: Any) -> Tensor:
    if not isinstance(tensor, Tensor) or tensor.dtype.kind in "biu":
        what = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(f"init: expected a floating Tensor to fill, got {what}.")
    with no_grad():
        tensor[...] = Tensor(np.broadcast_to(values, tensor.shape), dtype=tensor.dtype, device=tensor.device)
    return tensor


def _drawn(rng: np.random.Generator | None) -> np.random.Generator:
    return np.random.default_rng() if rng is None else rng


def constant_(tensor: Tensor, value: float) -> Tensor:
    """All entries `value`."""
    return _fill(tensor, value)


def zeros_(tensor: Tensor) -> Tensor:
    """All entries 0."""
    return _fill(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """All entries 1."""
    return _fill(tensor, 1.0)


def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0, *, rng: np.random.Generator | None = None) -> Tensor:
    """Uniform between `low` and `high`."""
    if not low <= high:
        raise ValueError(f"uniform_: low {low} must not be above high {high}.")
    return _fill(tensor, _drawn(rng).uniform(low, high, tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, rng: np.random.Generator | None = None) -> Tensor:
    """Normal with this mean and standard deviation."""
    if not std >= 0:
        raise ValueError(f"normal_: std must not be negative, got {std}.")
    return _fill(tensor, _drawn(rng).normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    *,
    rng: np.random.Generator | None = None,
) -> Tensor:
    """Normal, what falls outside `low` and `high` drawn again.

    `std` is that before truncation, as in PyTorch. Keras's truncated normals cut at two deviations.

    Raises
    ------
    ValueError
        std is not positive, or the interval is empty or beyond 6 deviations from the mean, where nearly all is outside.
    """
    if not std > 0 or not low < high or (low - mean) / std > 6 or (mean - high) / std > 6:
        raise ValueError(f"trunc_normal_: std {std} must be positive and [{low}, {high}] reach near the mean {mean}.")
    rng = _drawn(rng)
    values = rng.normal(mean, std, tensor.shape)
    outside = (values < low) | (values > high)
    while outside.any():
        values[outside] = rng.normal(mean, std, int(outside.sum()))
        outside = (values < low) | (values > high)
    return _fill(tensor, values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, *, rng: np.random.Generator | None = None) -> Tensor:
    """Uniform within gain * sqrt(6 / (fan in + fan out)): Glorot & Bengio 2010, Keras's glorot_uniform."""
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, rng=rng)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, *, rng: np.random.Generator | None = None) -> Tensor:
    """Normal with deviation gain * sqrt(2 / (fan in + fan out)): Glorot & Bengio 2010.

    Keras's glorot_normal is truncated.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))), rng=rng)


def _kaiming(tensor: Tensor, mode: str, nonlinearity: str, slope: float) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"init: mode must be 'fan_in' or 'fan_out', got {mode!r}.")
    return gain(nonlinearity, slope) / math.sqrt(fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(
    tensor: Tensor,
    slope: float = 0.0,
    *,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    rng: np.random.Generator | None = None,
) -> Tensor:
    """Uniform with variance gain² / fan: He et al. 2015, Keras's he_uniform."""
    bound = math.sqrt(3) * _kaiming(tensor, mode, nonlinearity, slope)
    return uniform_(tensor, -bound, bound, rng=rng)


def kaiming_normal_(
    tensor: Tensor,
    slope: float = 0.0,
    *,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    rng: np.random.Generator | None = None,
) -> Tensor:
    """Normal with variance gain² / fan: He et al. 2015. Keras's he_normal is truncated."""
    return normal_(tensor, 0.0, _kaiming(tensor, mode, nonlinearity, slope), rng=rng)


def orthogonal_(tensor: Tensor, gain: float = 1.0, *, rng: np.random.Generator | None = None) -> Tensor:
    """Orthonormal rows or columns, whichever are fewer, times `gain` (Saxe et al. 2014).

    The first axis against all others together. Uniform over all such matrices (Mezzadri 2007).
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: a tensor of shape {tensor.shape} is no matrix; expected two axes or more.")
    rows = tensor.shape[0]
    columns = tensor.size // max(rows, 1)
    q, r = np.linalg.qr(_drawn(rng).standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.where(np.diag(r) < 0, -1, 1)
    return _fill(tensor, gain * np.reshape(q.T if rows < columns else q, tensor.shape))
