"""Weights in four bits: two to a byte, with one scale per group of rows; unpacked when they are used.

What limits a large model's speed at batch 1 is reading its weights, so a quarter of the bytes pays even though the
product itself is done in float32 (Frantar et al. 2023, GPTQ; Lin et al. 2024, AWQ).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from internals.deploy.compress.scale import SMALLEST_SCALE


@dataclass(frozen=True)
class Packed4:
    """A (k, n) matrix in four bits.

    Attributes
    ----------
    data : (ceil(k / 2), n) uint8
        Rows 2i in the low half of a byte, 2i + 1 in the high one.
    scale, zero_point : (groups, n) float32
        ``real = scale * (integer - zero_point)``, per column and group of `group` rows.
    shape : (k, n)
    group : int
    """

    data: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray
    shape: tuple[int, int]
    group: int

    @property
    def nbytes(self) -> int:
        """Bytes, scales included."""
        return self.data.nbytes + self.scale.nbytes + self.zero_point.nbytes

    def unpack(self) -> np.ndarray:
        """(k, n) uint8, 0 to 15."""
        out = np.empty((self.data.shape[0] * 2, self.shape[1]), np.uint8)
        out[0::2] = self.data & 0xF
        out[1::2] = self.data >> 4
        return out[: self.shape[0]]

    def dequantise(self) -> np.ndarray:
        """(k, n) float32."""
        group = np.arange(self.shape[0]) // self.group
        return (self.unpack().astype(np.float32) - self.zero_point[group]) * self.scale[group]


def pack4(weight: np.ndarray, group: int = 32) -> Packed4:
    """Write a matrix in four bits: per column and group of rows, 16 levels between its least and greatest number.

    Parameters
    ----------
    weight : (k, n) floats, finite
    group : int
        Rows that share a scale; smaller is finer, and costs 8 bytes per group and column.
    """
    weight = np.asarray(weight)
    if weight.ndim != 2 or weight.dtype.kind != "f":
        raise TypeError(f"pack4: a matrix of floats is expected, got {weight.dtype} {weight.shape}.")
    if group < 1:
        raise ValueError(f"pack4: group must be at least 1, not {group}.")
    if not np.isfinite(weight).all():
        raise ValueError("pack4: the matrix holds NaN or infinity.")
    weight = weight.astype(np.float32, copy=False)
    k, n = weight.shape
    groups = -(-k // group)
    padded = np.zeros((groups * group, n), np.float32)
    padded[:k] = weight
    if k % group:
        padded[k:] = weight[-1]  # a row that is there already changes no range
    blocks = padded.reshape(groups, group, n)
    low = np.minimum(blocks.min(1), 0) if groups else np.zeros((0, n), np.float32)
    high = np.maximum(blocks.max(1), 0) if groups else np.zeros((0, n), np.float32)
    scale = np.maximum((high - low) / np.float32(15), np.float32(SMALLEST_SCALE))
    zero_point = np.rint(-low / scale)
    q = (
        np.clip(np.rint(blocks / scale[:, None]) + zero_point[:, None], 0, 15)
        .astype(np.uint8)
        .reshape(groups * group, n)[:k]
    )
    if k % 2:
        q = np.concatenate([q, np.zeros((1, n), np.uint8)])
    return Packed4(q[0::2] | (q[1::2] << 4), scale, zero_point, (k, n), group)
