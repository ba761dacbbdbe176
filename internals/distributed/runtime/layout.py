"""An array on its way: its entries in the order in which they lie in memory, so that it arrives laid out as it left.

A sum is taken in the order of memory. If a transposed view arrived as a fresh array, the reader's sums would differ in
their last bits from those of a session in one process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.device import device_of


def packed(value: Any) -> tuple[np.ndarray, list[int]]:
    """The array on the host, with its axes in the order of memory, and which of its axes each of them is."""
    array = value if isinstance(value, np.ndarray) else np.asarray(device_of(value).to_host(value))
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    return array.transpose(order), order


def unpacked(array: np.ndarray, order: list[int]) -> np.ndarray:
    """The array that was packed, in memory of its own.

    Raises
    ------
    ValueError
        The order is none of the array's axes.
    """
    if sorted(order) != list(range(array.ndim)):
        raise ValueError(f"layout: {order} is no order of {array.ndim} axes.")
    return np.array(array, order="C").transpose(np.argsort(order) if order else ())
