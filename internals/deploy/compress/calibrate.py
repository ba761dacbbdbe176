"""Choosing a range from what passes by: all of it, nearly all of it, or that which keeps most of its information."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from internals.deploy.compress.scale import INT8, Grid, Quantisation, affine, symmetric


class Observer(ABC):
    """Looks at batches of one tensor, and then says how to quantise it.

    Parameters
    ----------
    grid : Grid
    scheme : {"affine", "symmetric"}
    """

    def __init__(self, grid: Grid = INT8, scheme: str = "affine") -> None:
        if scheme not in ("affine", "symmetric"):
            raise ValueError(f"{type(self).__name__}: scheme is 'affine' or 'symmetric', not {scheme!r}.")
        self.grid = grid
        self.scheme = scheme
        self.seen = 0

    def observe(self, x: Any) -> None:
        """Take a batch into account. Empty ones change nothing; NaN and infinities are refused."""
        x = np.asarray(x)
        if x.dtype.kind != "f":
            raise TypeError(f"{type(self).__name__}: expected floats, got {x.dtype}.")
        if not np.isfinite(x).all():
            raise ValueError(f"{type(self).__name__}: the batch holds NaN or infinity, so it has no range.")
        if x.size:
            self._take(x.astype(np.float32, copy=False))
            self.seen += x.size

    @property
    def axis(self) -> int | None:
        """Along which there is one scale per slice."""
        return None

    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """The chosen ends."""
        if not self.seen:
            raise ValueError(f"{type(self).__name__}: nothing was observed yet; run calibration batches first.")
        return self._range()

    def quantisation(self) -> Quantisation:
        """How to quantise what was seen."""
        low, high = self.range()
        return (affine if self.scheme == "affine" else symmetric)(low, high, self.grid, self.axis)

    @abstractmethod
    def _take(self, x: np.ndarray) -> None: ...

    @abstractmethod
    def _range(self) -> tuple[np.ndarray, np.ndarray]: ...


class MinMax(Observer):
    """The whole range seen. One outlier stretches it."""

    _low: Any
    _high: Any

    def _take(self, x: np.ndarray) -> None:
        low, high = x.min(), x.max()
        self._low = low if not self.seen else min(low, self._low)
        self._high = high if not self.seen else max(high, self._high)

    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self._low), np.asarray(self._high)


class MovingAverage(MinMax):
    """The batches' ranges, averaged: ``new = old + momentum * (batch - old)``.

    Parameters
    ----------
    momentum : float
        0.01 is PyTorch's.
    """

    def __init__(self, grid: Grid = INT8, scheme: str = "affine", momentum: float = 0.01) -> None:
        super().__init__(grid, scheme)
        if not 0 < momentum <= 1:
            raise ValueError(f"MovingAverage: momentum is in (0, 1], not {momentum}.")
        self.momentum = np.float32(momentum)

    def _take(self, x: np.ndarray) -> None:
        low, high = x.min(), x.max()
        self._low = low if not self.seen else self._low + self.momentum * (low - self._low)
        self._high = high if not self.seen else self._high + self.momentum * (high - self._high)


class PerChannel(Observer):
    """The whole range of each slice along an axis: for weights, whose rows differ by much.

    Parameters
    ----------
    axis : int
    """

    def __init__(self, axis: int, grid: Grid = INT8, scheme: str = "symmetric") -> None:
        super().__init__(grid, scheme)
        self._axis = axis
        self._low = self._high = np.zeros(0, np.float32)

    @property
    def axis(self) -> int | None:
        return self._axis

    def _take(self, x: np.ndarray) -> None:
        if not -x.ndim <= self._axis < x.ndim:
            raise ValueError(f"PerChannel: an array of shape {x.shape} has no axis {self._axis}.")
        rest = tuple(k for k in range(x.ndim) if k != self._axis % x.ndim)
        low, high = x.min(rest), x.max(rest)
        if self.seen and low.shape != self._low.shape:
            raise ValueError(f"PerChannel: {len(low)} slices came after {len(self._low)}.")
        self._low = low if not self.seen else np.minimum(low, self._low)
        self._high = high if not self.seen else np.maximum(high, self._high)

    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        return self._low, self._high


class Histogram(Observer):
    """Counts what was seen in equal bins, which double in width when a batch goes beyond them.

    Parameters
    ----------
    bins : int
        An even number.
    """

    def __init__(self, grid: Grid = INT8, scheme: str = "affine", bins: int = 2048) -> None:
        super().__init__(grid, scheme)
        if bins < 2 or bins % 2:
            raise ValueError(f"{type(self).__name__}: bins is an even number from 2 up, not {bins}.")
        self.counts = np.zeros(bins, np.int64)
        self._half = 0.0

    def _take(self, x: np.ndarray) -> None:
        largest = float(np.abs(x).max())
        if self._half == 0 and largest > 0:
            zeros = self.counts.sum()
            self._half = largest
            self.counts[len(self.counts) // 2] = zeros
        while largest > self._half > 0:
            self._double()
        if self._half == 0:  # only zeros so far
            self.counts[len(self.counts) // 2] += x.size
            return
        # In float32 the borders of bins of very small or large numbers would meet, or be infinite.
        self.counts += np.histogram(x.astype(np.float64), len(self.counts), (-self._half, self._half))[0]

    def _double(self) -> None:
        """Twice the range: two bins become one, around the middle."""
        n = len(self.counts)
        padded = np.concatenate([np.zeros(n // 2, np.int64), self.counts, np.zeros(n // 2, np.int64)])
        self.counts = padded.reshape(n, 2).sum(1)
        self._half *= 2

    @property
    def edges(self) -> np.ndarray:
        """(bins + 1,) The borders of the bins."""
        return np.linspace(-self._half, self._half, len(self.counts) + 1)


class Percentile(Histogram):
    """The range that leaves out as much at either end as is said.

    Parameters
    ----------
    percentile : float
        99.99: one in ten thousand lies outside, half of them at either end.
    """

    def __init__(self, percentile: float = 99.99, grid: Grid = INT8, scheme: str = "affine", bins: int = 2048) -> None:
        super().__init__(grid, scheme, bins)
        if not 50 < percentile <= 100:
            raise ValueError(f"Percentile: percentile is in (50, 100], not {percentile}.")
        self.percentile = percentile

    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        total = self.counts.sum()
        outside = total * (1 - self.percentile / 100) / 2
        below = np.cumsum(self.counts)
        above = np.cumsum(self.counts[::-1])
        first = int(np.searchsorted(below, outside, side="right"))
        last = len(self.counts) - int(np.searchsorted(above, outside, side="right"))
        edges = self.edges.astype(np.float32)
        return np.asarray(edges[min(first, last - 1)]), np.asarray(edges[last])


class Entropy(Histogram):
    """The range whose quantised distribution differs least from what was seen, by Kullback-Leibler divergence.

    Wide ranges make coarse steps; narrow ones cut off. The range between them that loses least information is tried
    out, on the histogram of magnitudes (Migacz 2017, "8-bit Inference with TensorRT").
    """

    def _range(self) -> tuple[np.ndarray, np.ndarray]:
        half = len(self.counts) // 2
        magnitudes = self.counts[half:] + self.counts[:half][::-1]
        edges = self.edges[half:]
        below, above = self.counts[:half].any(), self.counts[half + 1 :].any()
        one_sided = self.scheme == "affine" and not (below and above)
        best, levels = len(magnitudes), self.grid.levels if one_sided else (self.grid.levels + 1) // 2
        if best > levels:
            candidates = [*range(levels, best, max(1, (best - levels) // 256)), best]
            divergences = [_divergence(magnitudes, k, levels) for k in candidates]
            best = candidates[int(np.argmin(divergences))]
        limit = np.float32(edges[best])
        return np.asarray(-limit if below else np.float32(0)), np.asarray(
            limit if above or not below else np.float32(0)
        )


def _divergence(counts: np.ndarray, kept: int, levels: int) -> float:
    """KL divergence between the first `kept` bins (what lies beyond clipped into the last) and their `levels` means."""
    p = counts[:kept].astype(np.float64)
    group = np.arange(kept) * levels // kept
    full = np.bincount(group, counts[:kept], levels)
    filled = np.bincount(group, counts[:kept] > 0, levels)
    q = np.where(counts[:kept] > 0, (full / np.maximum(filled, 1))[group], 0.0)
    p[-1] += counts[kept:].sum()
    if not p.sum() or not q.sum():
        return float("inf")
    p, q = p / p.sum(), q / q.sum()
    here = p > 0
    # A clipped bin may be empty in q: a little is given to it, or it would be infinitely surprising.
    return float(np.sum(p[here] * np.log(p[here] / np.maximum(q[here], 1e-12))))


OBSERVERS: dict[str, type[Observer]] = {
    "minmax": MinMax,
    "average": MovingAverage,
    "percentile": Percentile,
    "entropy": Entropy,
}
