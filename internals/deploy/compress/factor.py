"""Fewer numbers for a weight: values shared from a small table, or a product of two thin matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from internals.nn import Linear, Module
from internals.nn.module import parameter
from internals.tensor import Tensor


@dataclass(frozen=True)
class Shared:
    """A weight whose entries are indices into a table of values.

    Attributes
    ----------
    table : (k,) float32
    indices : unsigned integers, in the weight's shape
    """

    table: np.ndarray
    indices: np.ndarray

    def dequantise(self) -> np.ndarray:
        """The weight: float32, the indices' shape."""
        return self.table[self.indices]

    @property
    def bits(self) -> int:
        """Of an index."""
        return max(len(self.table) - 1, 1).bit_length()

    @property
    def nbytes(self) -> int:
        """Bytes with the indices packed to `bits` each."""
        return self.table.nbytes + -(-self.indices.size * self.bits // 8)


def share(weight: np.ndarray, values: int, rounds: int = 50) -> Shared:
    """Let a weight's entries share `values` numbers: the centres of its clusters (k-means in one dimension).

    Parameters
    ----------
    weight : array of floats, finite, any shape but empty
    values : int
        1 to 65,536.
    rounds : int
        Of Lloyd's algorithm at most; it stops when nothing moves.

    Notes
    -----
    Centres start evenly between the least and the greatest entry, which keeps the rare large weights (Han et al.
    2016, "Deep Compression", §3.2).
    """
    weight = np.asarray(weight)
    if weight.dtype.kind != "f" or not weight.size:
        raise TypeError(f"share: an array of floats with an entry is expected, got {weight.dtype} {weight.shape}.")
    if not 1 <= values <= 1 << 16:
        raise ValueError(f"share: values must be 1 to 65536, not {values}.")
    if not np.isfinite(weight).all():
        raise ValueError("share: the weight holds NaN or infinity.")
    flat = np.sort(weight, axis=None).astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(flat)])
    centres = np.linspace(flat[0], flat[-1], values)
    for _ in range(rounds):
        borders = np.concatenate([[0], np.searchsorted(flat, (centres[1:] + centres[:-1]) / 2), [flat.size]])
        counts = np.diff(borders)
        means = np.diff(sums[borders]) / np.maximum(counts, 1)
        moved = np.where(counts > 0, means, centres)  # a centre that nothing is near stays
        if np.array_equal(moved, centres):
            break
        centres = np.sort(moved)
    table = centres.astype(np.float32)
    indices = np.searchsorted((centres[1:] + centres[:-1]) / 2, weight.astype(np.float64))
    return Shared(table, indices.astype(np.uint8 if values <= 256 else np.uint16))


class LowRankLinear(Module):
    """``x @ first @ second + bias``: a `Linear` of rank r, by r (in + out) numbers in place of in * out.

    Parameters
    ----------
    first : (in_features, r) Tensor
    second : (r, out_features) Tensor
    bias : (out_features,) Tensor, optional
    """

    def __init__(self, first: Tensor, second: Tensor, bias: Tensor | None) -> None:
        self.first, self.second, self.bias = first, second, bias

    def forward(self, x: Tensor) -> Tensor:
        out = x @ self.first @ self.second
        return out if self.bias is None else out + self.bias

    def extra_repr(self) -> str:
        return f"{self.first.shape[0]}, {self.second.shape[1]}, rank={self.first.shape[1]}"


def low_rank(layer: Linear, rank: int) -> LowRankLinear:
    """The `Linear` of this rank that is nearest to `layer`, in the sum of squares (Eckart and Young 1936).

    Both factors get the square root of the singular values, so that they train at one rate.
    """
    weight = layer.weight.detach().to("cpu").numpy()
    if not 1 <= rank <= min(weight.shape):
        raise ValueError(f"low_rank: rank must be 1 to {min(weight.shape)} for a weight of {weight.shape}, not {rank}.")
    u, s, v = np.linalg.svd(weight, full_matrices=False)
    root = np.sqrt(s[:rank])
    device = layer.weight.device
    first, second = (
        parameter((u[:, :rank] * root).astype(weight.dtype)),
        parameter((root[:, None] * v[:rank]).astype(weight.dtype)),
    )
    bias = None if layer.bias is None else parameter(layer.bias.detach().to("cpu").numpy().copy())
    module = LowRankLinear(first, second, bias)
    return module if str(device) == "cpu" else module.to(device)
