"""Export rules for rows that rearrange, pick and put entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import rule
from internals.graph import Node
from internals.ops.index import is_basic

_END = 2**63 - 1


@rule("reshape")
def _reshape(b: Builder, node: Node, x: Value) -> Name:
    shape = node.attrs["shape"]
    sizes = [int(one) for one in (shape if isinstance(shape, tuple | list) else (shape,))]
    if 0 in sizes and min(sizes) < 0:
        sizes = [0 if size is None else size for size in node.shape]
    if -2 in sizes:  # ONNX has 0 for it
        return b.op("Reshape", x, b.integers([0 if size == -2 else size for size in sizes]))
    return b.reshape(x, sizes)


@rule("transpose")
def _transpose(b: Builder, node: Node, x: Value) -> Name:
    axes = node.attrs["axes"]
    if not x.ndim:
        return b.op("Identity", x)
    perm = range(x.ndim)[::-1] if axes is None else [int(axis) % x.ndim for axis in axes]
    return b.op("Transpose", x, perm=list(perm))


@rule("broadcast_to")
def _broadcast_to(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Expand", x, b.integers([int(size) for size in node.attrs["shape"]]))


@rule("expand_dims")
def _expand_dims(b: Builder, node: Node, x: Value) -> Name:
    axis = node.attrs["axis"]
    return b.unsqueeze(x, [int(one) for one in (axis if isinstance(axis, tuple | list) else (axis,))])


@rule("squeeze")
def _squeeze(b: Builder, node: Node, x: Value) -> Name:
    axis = node.attrs["axis"]
    given = [i for i, size in enumerate(x.shape) if size == 1] if axis is None else axis
    axes = [int(one) % x.ndim for one in (given if isinstance(given, tuple | list) else (given,))]
    return b.squeeze(x, axes) if axes else b.op("Identity", x)


@rule("flip")
def _flip(b: Builder, node: Node, x: Value) -> Name:
    axis = node.attrs["axis"]
    given = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    axes = [int(one) % x.ndim for one in given]
    if not axes:
        return b.op("Identity", x)
    start, stop, step = ([one] * len(axes) for one in (-1, -_END, -1))
    return b.op("Slice", x, b.integers(start), b.integers(stop), b.integers(axes), b.integers(step))


@rule("concat")
def _concat(b: Builder, node: Node, *inputs: Value) -> Name:
    return b.op("Concat", *inputs, axis=int(node.attrs["axis"]) % inputs[0].ndim)


@rule("stack")
def _stack(b: Builder, node: Node, *inputs: Value) -> Name:
    axis = int(node.attrs["axis"]) % (inputs[0].ndim + 1)
    return b.op("Concat", *[b.unsqueeze(x, [axis]) for x in inputs], axis=axis)


# Picking by keys that are known


@rule("getitem")
def _getitem(b: Builder, node: Node, x: Value) -> Name:
    key = node.attrs["key"]
    if x.name in b.last_cells:
        return b.squeeze(x, [0])
    if is_basic(key):
        return _basic(b, x, key if isinstance(key, tuple) else (key,))
    parts = key if isinstance(key, tuple) else (key,)
    along = [i for i, part in enumerate(parts) if not (isinstance(part, slice) and part == slice(None))]
    if len(along) == 1 and getattr(parts[along[0]], "dtype", np.dtype(bool)).kind in "iu":
        return b.op("Gather", x, b.constant(np.asarray(parts[along[0]], np.int64)), axis=along[0])
    flat, lead = _flattened(b, node, x, x.shape)
    places = _places(node, x.shape, key, lead)
    return b.op("Gather", flat, b.constant(places), axis=lead)


def _basic(b: Builder, x: Value, key: tuple[Any, ...]) -> Name:
    """Slices in one operator, then integers, then new axes."""
    axes = sum(part is not None and part is not Ellipsis for part in key)
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key = (*key[:at], *[slice(None)] * (x.ndim - axes), *key[at + 1 :])
    else:
        key = (*key, *[slice(None)] * (x.ndim - axes))
    slices: list[tuple[int, int, int, int]] = []
    gone: list[tuple[int, int]] = []
    new: list[int] = []
    axis = place = 0
    for part in key:
        if part is None:
            new.append(place)
            place += 1
            continue
        if isinstance(part, slice):
            if part != slice(None):
                slices.append((axis, *_bounds(part)))
            place += 1
        else:
            gone.append((axis, int(part)))
        axis += 1
    found = x.name
    if slices:
        found = b.op("Slice", found, *[b.integers([one[i] for one in slices]) for i in (1, 2, 0, 3)])
    for axis, index in reversed(gone):
        alone = x.shape[axis] == 1
        found = b.squeeze(found, [axis]) if alone else b.op("Gather", found, b.constant(index, np.int64), axis=axis)
    return b.unsqueeze(found, new) if new else found if found != x.name else b.op("Identity", x)


def _bounds(part: slice) -> tuple[int, int, int]:
    step = 1 if part.step is None else int(part.step)
    start = (0 if step > 0 else _END) if part.start is None else int(part.start)
    stop = (_END if step > 0 else -_END) if part.stop is None else int(part.stop)
    return start, stop, step


def _flattened(b: Builder, node: Node, x: Value | Name, shape: tuple[Any, ...]) -> tuple[Name, int]:
    """The axes of known size as one; of the first axes one may be open, and is left as it is."""
    lead = 1 if shape and shape[0] is None else 0
    if None in shape[lead:]:
        raise FormatError(
            f"to_onnx: {node.name} ({node.op.name}, made at {node.where}) picks by an array in a value of shape "
            f"{shape}; only the first size may be open."
        )
    rest = math.prod(size for size in shape[lead:])
    return b.reshape(x, [-1] * lead + [rest]), lead


def _places(node: Node, shape: tuple[Any, ...], key: Any, lead: int) -> np.ndarray:
    """Where in the flattened axes the picked entries are."""
    if not lead:
        return np.arange(math.prod(shape)).reshape(shape)[key]
    parts = key if isinstance(key, tuple) else (key,)
    rows = np.arange(2)[:, None] * 10**9 + np.arange(math.prod(shape[1:]))
    found = rows.reshape(2, *shape[1:])[key] if isinstance(parts[0], slice) and parts[0] == slice(None) else rows[:0]
    if found.shape[:1] != (2,) or not np.array_equal(found[0] + 10**9, found[1]):
        raise FormatError(
            f"to_onnx: {node.name} ({node.op.name}, made at {node.where}) picks along the first axis, whose size is "
            "open, by an array. Give the size as a number."
        )
    return found[0]


@rule("index_put")
def _index_put(b: Builder, node: Node, x: Value, value: Value) -> Name:
    flat, lead = _flattened(b, node, x, x.shape)
    places = _places(node, x.shape, node.attrs["key"], lead)
    if lead:
        raise FormatError(f"to_onnx: {node.name} (made at {node.where}) writes into a value whose first size is open.")
    values = b.reshape(b.op("Expand", value, b.integers(places.shape)), [-1])
    put = b.op("ScatterElements", flat, b.constant(places.reshape(-1)), values, axis=0)
    return b.reshape(put, [int(size) for size in x.shape if size is not None])


@rule("unindex")
def _unindex(b: Builder, node: Node, g: Value) -> Name:
    shape = tuple(int(size) for size in node.attrs["shape"])
    places = _places(node, shape, node.attrs["key"], 0)
    zeros = b.filled(b.integers([math.prod(shape)]), 0, g.dtype)
    values = b.reshape(b.op("Expand", g, b.integers(places.shape)), [-1])
    put = b.op("ScatterElements", zeros, b.constant(places.reshape(-1)), values, axis=0, reduction="add")
    return b.reshape(put, shape)


# Picking by indices that are values


@rule("gather")
def _gather(b: Builder, node: Node, x: Value, index: Value) -> Name:
    return b.op("GatherElements", x, index, axis=int(node.attrs["axis"]) % x.ndim)


@rule("scatter_add")
def _scatter_add(b: Builder, node: Node, g: Value, index: Value) -> Name:
    axis = int(node.attrs["axis"]) % g.ndim
    zeros = b.filled(b.shape_of(g, {axis: int(node.attrs["size"])}), 0, g.dtype)
    return b.op("ScatterElements", zeros, index, g, axis=axis, reduction="add")


@rule("scatter")
def _scatter(b: Builder, node: Node, x: Value, index: Value, value: Value) -> Name:
    values = value.name if value.shape == index.shape else b.op("Expand", value, b.shape_of(index))
    return b.op("ScatterElements", x, index, values, axis=int(node.attrs["axis"]) % x.ndim)


@rule("take")
def _take(b: Builder, node: Node, x: Value, index: Value) -> Name:
    return b.op("Gather", x, index, axis=int(node.attrs["axis"]) % x.ndim)


@rule("untake")
def _untake(b: Builder, node: Node, g: Value, index: Value) -> Name:
    lead = int(node.attrs["axis"]) % (g.ndim - index.ndim + 1)
    trail = g.ndim - lead - index.ndim
    if not g.is_known:
        raise FormatError(f"to_onnx: {node.name} (untake, made at {node.where}) has open sizes; give them as numbers.")
    sizes = [int(size) for size in g.shape if size is not None]
    shape = [*sizes[:lead], math.prod(sizes[lead : lead + index.ndim]), *sizes[lead + index.ndim :]]
    rows = b.op("Expand", b.reshape(index, [1] * lead + [shape[lead]] + [1] * trail), b.integers(shape))
    target = [*shape[:lead], int(node.attrs["size"]), *shape[lead + 1 :]]
    zeros = b.filled(b.integers(target), 0, g.dtype)
    return b.op("ScatterElements", zeros, rows, b.reshape(g, shape), axis=lead, reduction="add")


@rule("one_hot")
def _one_hot(b: Builder, node: Node, index: Value) -> Name:
    # onnxruntime has it for few dtypes, and ONNX not of a single index.
    given = index.name if index.ndim else b.reshape(index, [1])
    kind = node.dtype if node.dtype.name in ("float32", "int64") else np.dtype(np.int64)
    values = b.constant(np.asarray([0, 1], kind))
    found = b.op("OneHot", given, b.constant(int(node.attrs["size"]), np.int64), values, axis=-1)
    found = found if index.ndim else b.squeeze(found, [0])
    return found if kind == node.dtype else b.cast(found, node.dtype)


# Filling in, cutting off, repeating


@rule("tril", "triu")
def _triangle(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Trilu", x, b.constant(int(node.attrs["k"]), np.int64), upper=int(node.op.name == "triu"))


def _matrices(b: Builder, node: Node, x: Value) -> tuple[int, int]:
    rows, columns = x.shape[-2:]
    if rows is None or columns is None:
        raise FormatError(f"to_onnx: {node.name} ({node.op.name}, made at {node.where}) has matrices of open size.")
    return rows, columns


def _last_axes(b: Builder, x: Value | Name, front: tuple[Any, ...], last: list[int]) -> Name:
    """Reshape, keeping the axes in front."""
    known = [size for size in front if size is not None]
    if len(known) == len(front):
        return b.reshape(x, [*known, *last])
    return b.op("Reshape", x, b.integers([0] * len(front) + last))


@rule("diagonal")
def _diagonal(b: Builder, node: Node, x: Value) -> Name:
    rows, columns = _matrices(b, node, x)
    places = np.diagonal(np.arange(rows * columns).reshape(rows, columns), node.attrs["offset"])
    flat = _last_axes(b, x, x.shape[:-2], [rows * columns])
    return b.op("Gather", flat, b.constant(places.copy()), axis=x.ndim - 2)


@rule("diag_embed")
def _diag_embed(b: Builder, node: Node, x: Value) -> Name:
    n, offset = x.shape[-1], int(node.attrs["offset"])
    rows, columns = (int(size) for size in node.shape[-2:])
    if n is None:
        raise FormatError(f"to_onnx: {node.name} (diag_embed, made at {node.where}) has a diagonal of open length.")
    places = np.full((rows, columns), n)
    along = np.arange(n)
    places[along + max(-offset, 0), along + max(offset, 0)] = along
    padded = b.op("Pad", x, b.integers([0] * (2 * x.ndim - 1) + [1]), b.like(0, x))  # its last entry is for the rest
    return b.op("Gather", padded, b.constant(places), axis=x.ndim - 1)


@rule("roll")
def _roll(b: Builder, node: Node, x: Value) -> Name:
    shift, axis = node.attrs["shift"], node.attrs["axis"]
    shifts = list(shift) if isinstance(shift, tuple | list) else [shift]
    if axis is None:
        flat = b.reshape(x, [-1])
        rolled = _rolled(b, node, flat, math.prod(x.shape) if x.is_known else None, 0, shifts[0])  # type: ignore[arg-type]
        return b.op("Reshape", rolled, b.shape_of(x), allowzero=1)
    found = x.name
    for one, by in zip(axis if isinstance(axis, tuple | list) else [axis], shifts, strict=True):
        found = _rolled(b, node, found, x.shape[int(one) % x.ndim], int(one) % x.ndim, by)
    return found


def _rolled(b: Builder, node: Node, x: Name, size: int | None, axis: int, shift: int) -> Name:
    if size is None:
        raise FormatError(f"to_onnx: {node.name} (roll, made at {node.where}) goes along an axis of open size.")
    cut = size - shift % size if size else 0
    return b.op("Concat", b.slice(x, axis, cut, _END), b.slice(x, axis, 0, cut), axis=axis)


@rule("pad")
def _pad(b: Builder, node: Node, x: Value) -> Name:
    width = node.attrs["width"]
    pairs = [(width, width)] * x.ndim if isinstance(width, int | np.integer) else list(width)
    pads = [int(pair[0]) for pair in pairs] + [int(pair[1]) for pair in pairs]
    return b.op("Pad", x, b.integers(pads), b.like(node.attrs["value"], x)) if pads else b.op("Identity", x)


@rule("repeat")
def _repeat(b: Builder, node: Node, x: Value) -> Name:
    axis, repeats = int(node.attrs["axis"]) % x.ndim, int(node.attrs["repeats"])
    apart = b.op(
        "Tile", b.unsqueeze(x, [axis + 1]), b.integers([1] * (axis + 1) + [repeats] + [1] * (x.ndim - axis - 1))
    )
    counts = b.integers([repeats if i == axis else 1 for i in range(x.ndim)])
    return b.op("Reshape", apart, b.op("Mul", b.shape_of(x), counts), allowzero=1)


@rule("tile")
def _tile(b: Builder, node: Node, x: Value) -> Name:
    reps = node.attrs["reps"]
    counts = [int(one) for one in (reps if isinstance(reps, tuple | list) else (reps,))]
    ndim = max(x.ndim, len(counts))
    source = b.unsqueeze(x, list(range(ndim - x.ndim))) if ndim > x.ndim else x.name
    return b.op("Tile", source, b.integers([1] * (ndim - len(counts)) + counts)) if ndim else b.op("Identity", x)
