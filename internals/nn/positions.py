"""Positions in a sequence, added to what stands there."""

from __future__ import annotations

import numpy as np

from internals.nn.module import Module, parameter, positive, tensors
from internals.tensor import Tensor


class _Positions(Module):
    """Add to each step of a sequence a vector for its position.

    Parameters
    ----------
    max_length, dim : int
        x is (batch, time, dim), of up to max_length steps.
    """

    weight: Tensor

    def forward(self, x: Tensor) -> Tensor:
        longest, dim = self.weight.shape
        tensors(type(self).__name__, x=x)
        if x.ndim < 2 or x.shape[-1] != dim or x.shape[-2] > longest:
            raise ValueError(
                f"{type(self).__name__}: x has shape {x.shape}; expected (..., time, {dim}) of up to {longest} steps."
            )
        return x + self.weight[: x.shape[-2]]

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class SinusoidalPositions(_Positions):
    """Add sines and cosines of the position, of wavelengths from 2 pi to 10,000 * 2 pi (Vaswani et al. 2017, 3.5).

    Parameters
    ----------
    max_length, dim : int
        x is (batch, time, dim), of up to max_length steps. Even features are sines, odd ones cosines.
    """

    buffers = ("weight",)

    def __init__(self, max_length: int, dim: int) -> None:
        positive("SinusoidalPositions", max_length=max_length, dim=dim)
        rate = 10_000.0 ** (-2 * (np.arange(dim) // 2) / dim)
        angle = np.arange(max_length)[:, None] * rate
        table = np.where(np.arange(dim) % 2, np.cos(angle), np.sin(angle))
        self.weight = Tensor(table, dtype=np.float32)


class LearnedPositions(_Positions):
    """Add a learned vector for each position.

    Parameters
    ----------
    max_length, dim : int
        x is (batch, time, dim), of up to max_length steps.
    rng : numpy.random.Generator, optional
        Starts normal with deviation 0.02, as in GPT-2 (Radford et al. 2019).
    """

    def __init__(self, max_length: int, dim: int, *, rng: np.random.Generator | None = None) -> None:
        positive("LearnedPositions", max_length=max_length, dim=dim)
        self.weight = parameter((rng or np.random.default_rng()).normal(0, 0.02, (max_length, dim)))
