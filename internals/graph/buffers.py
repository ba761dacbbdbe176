"""Less memory for the same numbers: a result written over an input that is dead, and workspaces cut in pieces.

Both are decisions that eager code can't make. That nobody will read an input again is known from the graph; that
nobody outside holds it is asked when the step runs, of Python's count of references.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.device import Array
from internals.graph.node import Node
from internals.ops.table import TABLE

SMALLEST_REUSED = 1 << 14
"""Bytes. The allocator hands out smaller blocks faster than they are asked for."""

LARGEST_WORKSPACE = 1 << 20
"""Bytes. A convolution lays out each window it meets; what is larger than this is done for a part of the batch."""


def _masked(condition: Any, x: Any, y: Any, out: Array) -> Any:
    """`internals.ops.elementwise.masked` over x's memory, where that is what the row does."""
    if out is not x or type(y) is not int or y != 0 or condition.shape != x.shape or x.dtype.kind != "f":
        return TABLE["where"].on_numpy(condition, x, y)
    bits = x.view(f"i{x.itemsize}")
    np.multiply(bits, condition, out=bits)
    return x


_IN_PLACE: dict[str, Callable[..., Any]] = {"relu": lambda x, out: np.maximum(x, 0, out=out), "where": _masked}


def in_place(node: Node) -> Callable[..., Any] | None:
    """The row's kernel on the cpu in the form that takes ``out``; None where there is none, or it does not pay."""
    if isinstance(node.dtype, tuple) or not node.is_known or node.dtype.itemsize == 2:
        return None
    if node.size * node.dtype.itemsize < SMALLEST_REUSED or TABLE.get(node.op.name) is not node.op or node.attrs:
        return None
    kernel = node.op.on_numpy
    return kernel if isinstance(kernel, np.ufunc) and kernel.nout == 1 else _IN_PLACE.get(node.op.name)


def candidates(node: Node) -> list[int]:
    """The inputs whose memory has the size and dtype of the result."""
    return [
        position
        for position, value in enumerate(node.inputs)
        if isinstance(value, Node) and value.shape == node.shape and value.dtype == node.dtype
    ]


def _references_when_alone() -> int:
    slots = [np.empty(1)]
    inputs = [slots[i] for i in (0,)]
    return _references(inputs[0])


def _references(array: Any) -> int:
    return sys.getrefcount(array)


_ALONE = _references_when_alone()
"""What `_references` counts of an array that is in the slots and in the list of inputs, and nowhere else."""


def write_over(kernel: Callable[..., Any], into: Callable[..., Any], inputs: list[Any], position: int) -> Any:
    """Run a kernel, over the input at `position` if only the run holds it, else into new memory.

    A view holds what it is a view of, and so is counted. An array that is laid out in another order is left alone,
    since the result would be, too, and sums over it would be taken in another order. What NumPy computed from arrays
    without axes is a number of its kind, which can't be written to.
    """
    alone = _references(inputs[position]) <= _ALONE and type(inputs[position]) is np.ndarray
    if not alone or not all(map(_is_plain, inputs)) or inputs[position].base is not None:
        return kernel(*inputs)
    return into(*inputs, out=inputs[position])


def _is_plain(value: Any) -> bool:
    if type(value) is np.ndarray:
        return value.flags.c_contiguous and value.flags.writeable
    return isinstance(value, bool | int | float | np.generic)


# Convolutions in pieces


def tiled(node: Node) -> Callable[..., Array] | None:
    """A kernel that does a convolution for a part of the batch at a time; None where its workspace is small."""
    kind = node.op.name.replace("1d", "").replace("2d", "")
    known = TABLE.get(node.op.name) is node.op and node.is_known
    if kind not in ("conv", "conv_transpose", "conv_weight") or not known or node.dtype.itemsize == 2:
        return None
    x, second = node.inputs
    if kind == "conv":  # columns are (channels, *window, *positions) for each example
        sizes = x.shape[1], *second.shape[2:], *node.shape[2:]
    elif kind == "conv_transpose":
        sizes = node.shape[1], *second.shape[2:], *x.shape[2:]
    else:
        sizes = x.shape[1], *node.shape[2:], *second.shape[2:]
    workspace, batch = math.prod(sizes) * node.dtype.itemsize, x.shape[0]
    at_once = max(1, LARGEST_WORKSPACE // max(workspace, 1))
    if at_once >= batch:
        return None
    kernel = node.op.on_numpy
    parts = [slice(start, start + at_once) for start in range(0, batch, at_once)]
    return _summed(kernel, parts) if kind == "conv_weight" else _joined(kernel, parts, node)


def _joined(kernel: Callable[..., Array], parts: Sequence[slice], node: Node) -> Callable[..., Array]:
    shape = node.shape

    def run(x: Array, weight: Array, **attrs: Any) -> Array:
        # Batch last in memory, as the kernels leave it.
        result = np.moveaxis(np.empty((*shape[1:], shape[0]), x.dtype), -1, 0)
        for part in parts:
            result[part] = kernel(x[part], weight, **attrs)
        return result

    return run


def _summed(kernel: Callable[..., Array], parts: Sequence[slice]) -> Callable[..., Array]:
    def run(x: Array, g: Array, **attrs: Any) -> Array:
        first, *others = parts
        total = kernel(x[first], g[first], **attrs)
        for part in others:
            total += kernel(x[part], g[part], **attrs)
        return total

    return run
