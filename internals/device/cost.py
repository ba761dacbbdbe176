"""What a kernel of the simulated accelerator has to move and to compute, from its name and its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

WRITING = frozenset(["__setitem__", "at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"])
"""NumPy functions that write into an array they are given."""

PICKING = frozenset(["pick", "take", "take_along_axis"])
"""Functions that read no more of their first array than they return."""

CUBIC = frozenset(["cholesky", "det", "eigh", "inv", "qr", "slogdet", "solve", "svd"])
"""Functions on matrices that take some n³ operations."""


def bytes_moved(name: str, inputs: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> int:
    """Bytes that are read and written: every input and every result once."""
    written = sum(array.nbytes for array in results)
    if name in PICKING:
        return 2 * written + sum(array.nbytes for array in inputs[1:])
    if name in WRITING and len(inputs) > 1:
        return 2 * sum(array.nbytes for array in inputs[1:])
    read = sum([_nbytes_in_memory(array) for array in {id(array): array for array in inputs}.values()])
    return read + (written if results else max((array.nbytes for array in inputs), default=0))


def operations(name: str, args: Sequence[Any], inputs: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> float:
    """Arithmetic operations: 2 for each multiply and add of a product of matrices, 1 for each entry of all else."""
    entries = max((array.size for array in (*inputs, *results)), default=0)
    if len(inputs) >= 2 and results:
        if name == "matmul":
            return 2.0 * results[0].size * inputs[0].shape[-1]
        if name in ("dot", "inner", "tensordot", "vdot"):
            # (m, k) and (k, n) to (m, n): m k · k n · m n is the square of m k n.
            return 2.0 * sqrt(inputs[0].size * inputs[1].size * results[0].size)
    if name == "einsum" and args and isinstance(args[0], str):
        return float(len(inputs) * _index_space(args[0], inputs))
    if name in CUBIC and inputs and inputs[0].ndim >= 2:
        return float(inputs[0].size * min(inputs[0].shape[-2:]))
    return float(entries)


def _index_space(subscripts: str, inputs: Sequence[np.ndarray]) -> int:
    """How many values all indices of an einsum take together."""
    extents: dict[str, int] = {}
    for term, array in zip(subscripts.replace(" ", "").partition("->")[0].split(","), inputs, strict=False):
        before, dots, after = term.partition("...")
        shape = array.shape
        named = [*zip(before, shape, strict=False)]
        named += zip(after[::-1], shape[::-1], strict=False)
        if dots:
            middle = shape[len(before) : len(shape) - len(after)]
            named += [(f"...{len(middle) - axis}", size) for axis, size in enumerate(middle)]
        for index, size in named:
            extents[index] = max(size, extents.get(index, 1))
    return prod(extents.values())


def _nbytes_in_memory(array: np.ndarray) -> int:
    """Bytes that lie in memory; what is broadcast counts once."""
    if 0 not in array.strides:
        return array.nbytes
    return array.itemsize * prod(
        size for size, stride in zip(array.shape, array.strides, strict=True) if stride != 0 or size == 0
    )
