"""Gradients in fewer bytes: only the largest entries, or 8 bits each; what is left out is sent later.

A gradient is noise around a direction, and most of its entries are small. Sending a hundredth of it and *keeping the
rest* loses little: the rest is added to the next gradient, so that every entry arrives in the end.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

BLOCK = 1024
"""Entries that share one scale of 8-bit numbers."""


class Compression(Protocol):
    """How the entries of a gradient are written.

    Attributes
    ----------
    name : str
        What tells the server how to read it.
    feedback : bool
        Whether what was lost is added to the next gradient.
    """

    name: str
    feedback: bool

    def encode(self, gradient: np.ndarray) -> list[np.ndarray]: ...


class TopK:
    """The entries of largest magnitude, as positions and values.

    Parameters
    ----------
    ratio : float
        Part of the entries that is sent, in (0, 1]; at least one entry.
    feedback : bool
        False throws the rest away, which is biased and stops training from converging; for comparison.

    References
    ----------
    Lin et al. (2018), Deep gradient compression, without its momentum correction. Stich, Cordonnier, Jaggi (2018),
    Sparsified SGD with memory, prove that the memory restores the convergence rate.
    """

    name = "topk"

    def __init__(self, ratio: float = 0.01, *, feedback: bool = True) -> None:
        if not isinstance(ratio, int | float) or not 0 < ratio <= 1:
            raise ValueError(f"TopK: ratio is the part of a gradient that is sent, in (0, 1]; got {ratio!r}")
        self.ratio = ratio
        self.feedback = feedback

    def encode(self, gradient: np.ndarray) -> list[np.ndarray]:
        count = min(gradient.size, max(1, math.ceil(self.ratio * gradient.size)))
        if count == gradient.size:
            places = np.arange(gradient.size)
        else:
            places = np.argpartition(np.abs(gradient), gradient.size - count)[gradient.size - count :]
            places.sort()
        # Four bytes for a position: a piece of more entries than they can count is larger than a message.
        return [places.astype(np.uint32), gradient[places]]


class EightBit:
    """Each entry a whole number from -127 to 127, times a scale that 1,024 entries share.

    The scale is the largest magnitude of the block over 127, so that no entry is off by more than half a scale:
    1/254 of its block's largest magnitude.

    Parameters
    ----------
    feedback : bool

    References
    ----------
    Dettmers (2016), 8-bit approximations for parallelism in deep learning. The feedback is that of Seide et al. (2014),
    1-bit stochastic gradient descent.
    """

    name = "8bit"

    def __init__(self, *, feedback: bool = True) -> None:
        self.feedback = feedback

    def encode(self, gradient: np.ndarray) -> list[np.ndarray]:
        whole = _in_blocks(gradient)
        scales = np.abs(whole).max(axis=1) / gradient.dtype.type(127)
        safe = np.where(scales > 0, scales, 1)
        numbers = np.rint(whole / safe[:, None]).clip(-127, 127).astype(np.int8)
        return [numbers.reshape(-1)[: gradient.size], scales]


def decode(name: str, arrays: list[np.ndarray], size: int, dtype: np.dtype) -> np.ndarray:
    """The gradient that was written as `arrays`.

    Parameters
    ----------
    name : {"plain", "topk", "8bit"}
    size : int
        Entries of the gradient.
    dtype : dtype

    Raises
    ------
    ValueError, TypeError
        The arrays are not what `name` writes for a gradient of this size and dtype.
    """
    if name == "plain":
        (gradient,) = _checked(name, arrays, 1)
        return gradient
    if name == "topk":
        places, values = _checked(name, arrays, 2)
        if places.dtype.kind != "u" or places.shape != values.shape or values.dtype != dtype or places.ndim != 1:
            raise TypeError(f"topk: positions {places.dtype} {places.shape}, values {values.dtype} {values.shape}")
        if places.size and places.max() >= size:
            raise ValueError(f"topk: position {places.max()} in a gradient of {size} entries")
        gradient = np.zeros(size, dtype)
        gradient[places] = values
        return gradient
    if name == "8bit":
        numbers, scales = _checked(name, arrays, 2)
        if numbers.dtype != np.int8 or numbers.shape != (size,) or scales.dtype != dtype:
            raise TypeError(f"8bit: {numbers.dtype} {numbers.shape} and scales {scales.dtype} for {size} {dtype}")
        if scales.shape != (-(-size // BLOCK),):
            raise ValueError(f"8bit: {scales.size} scales for {size} entries; one for each {BLOCK} is expected")
        return (_in_blocks(numbers) * scales[:, None]).reshape(-1)[:size]
    raise ValueError(f"there is no compression {name!r}; there are plain, topk and 8bit")


class Memory:
    """What compression left out so far, of each piece: error feedback."""

    def __init__(self) -> None:
        self._rest: dict[Any, np.ndarray] = {}

    def encode(self, key: Any, gradient: np.ndarray, how: Compression) -> list[np.ndarray]:
        """Encode the gradient with what was left of earlier ones, and keep what is left out now."""
        if not how.feedback:
            return how.encode(gradient)
        rest = self._rest.get(key)
        whole = gradient if rest is None else gradient + rest
        arrays = how.encode(whole)
        self._rest[key] = whole - decode(how.name, arrays, whole.size, whole.dtype)
        return arrays

    def clear(self) -> None:
        """Forget everything, as when training goes back to a checkpoint."""
        self._rest.clear()


def _in_blocks(flat: np.ndarray) -> np.ndarray:
    blocks = -(-flat.size // BLOCK)
    whole = np.zeros(blocks * BLOCK, flat.dtype)
    whole[: flat.size] = flat
    return whole.reshape(blocks, BLOCK)


def _checked(name: str, arrays: list[np.ndarray], count: int) -> list[np.ndarray]:
    if len(arrays) != count:
        raise ValueError(f"{name}: {len(arrays)} arrays, expected {count}")
    return arrays
