"""Import rules for operators that rearrange, pick and put entries, and for what is known of shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.deploy.onnx.readers.elementwise import as_type, numpy_type
from internals.deploy.onnx.readers.table import Call, known, reads
from internals.ops.spec import broadcast_shapes, is_floating
from internals.tensor import Tensor


@reads("Constant")
def _constant(call: Call) -> Any:
    for name, dtype in (("value", None), ("value_float", np.float32), ("value_floats", np.float32),
                        ("value_int", np.int64), ("value_ints", np.int64)):  # fmt: skip
        if name in call.attrs:
            return known(call.attrs[name], dtype)
    raise call.refuse(f"it holds {', '.join(call.attrs) or 'nothing'}, which is no array of numbers")


@reads("Shape")
def _shape(call: Call, x: Any) -> Any:
    return known(tuple(x.shape)[call.get("start", 0) : call.get("end", x.ndim)], np.int64)


@reads("Size")
def _size(call: Call, x: Any) -> Any:
    return known(math.prod(x.shape), np.int64)


@reads("ConstantOfShape")
def _constant_of_shape(call: Call, shape: Any) -> Any:
    value = call.get("value")
    value = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return known(np.full(call.bounded(call.integers(shape, "shape")), value.reshape(())[()], value.dtype))


@reads("Range")
def _range(call: Call, *ends: Any) -> Any:
    start, stop, step = (call.known(one, "range").reshape(()).item() for one in ends)
    call.bounded([max(0, math.ceil((float(stop) - float(start)) / float(step)))])
    return known(np.arange(start, stop, step, dtype=ends[0].dtype))


@reads("EyeLike")
def _eye_like(call: Call, x: Any) -> Any:
    dtype = numpy_type(call.get("dtype")) if call.get("dtype") else x.dtype
    rows, columns = call.bounded(x.shape)
    return known(np.eye(rows, columns, call.get("k", 0), dtype))


@reads("Reshape")
def _reshape(call: Call, x: Any, shape: Any = None) -> Any:
    sizes = call.get("shape") if call.opset < 5 else call.integers(shape, "shape")
    if not call.get("allowzero", 0):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    if -1 in sizes:  # found out here, so that another size may be the one that is open
        rest = math.prod(size for size in sizes if size != -1)
        left = math.prod(x.shape) // rest if rest else 0
        sizes = [left if size == -1 else size for size in sizes]
    return ops.reshape(x, shape=tuple(int(size) for size in sizes))


@reads("Flatten")
def _flatten(call: Call, x: Any) -> Any:
    axis = int(call.get("axis", 1))
    axis = axis + x.ndim if axis < 0 else axis
    return ops.reshape(x, shape=(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@reads("Transpose")
def _transpose(call: Call, x: Any) -> Any:
    perm = call.get("perm")
    return ops.transpose(x, axes=tuple(range(x.ndim))[::-1] if perm is None else tuple(perm))


@reads("Squeeze")
def _squeeze(call: Call, x: Any, given: Any = None) -> Any:
    axes = call.axes(x.ndim, given, 13)
    return ops.squeeze(x, axis=None if axes is None else tuple(axes))


@reads("Unsqueeze")
def _unsqueeze(call: Call, x: Any, given: Any = None) -> Any:
    axes = call.get("axes") if call.opset < 13 else call.integers(given, "axes")
    for axis in sorted(int(one) % (x.ndim + len(axes)) for one in axes):
        x = ops.expand_dims(x, axis=axis)
    return x


@reads("Concat")
def _concat(call: Call, *inputs: Any) -> Any:
    return ops.concat(list(inputs), axis=int(call.get("axis")) % inputs[0].ndim)


@reads("Split")
def _split(call: Call, x: Any, given: Any = None) -> Any:
    axis = int(call.get("axis", 0)) % x.ndim
    sizes = call.get("split") if call.opset < 13 else None if given is None else call.integers(given, "sizes")
    if sizes is None:
        parts = call.counted(int(call.get("num_outputs", call.outputs)), "parts")
        step = -(-x.shape[axis] // parts)
        sizes = [step] * (parts - 1) + [x.shape[axis] - step * (parts - 1)]
    found, start = [], 0
    for size in sizes:
        found.append(ops.getitem(x, key=(slice(None),) * axis + (slice(start, start + size),)))
        start += size
    return found


@reads("Slice")
def _slice(call: Call, x: Any, *given: Any) -> Any:
    if call.opset < 10:
        starts, stops, axes, steps = call.get("starts"), call.get("ends"), call.get("axes"), None
    else:
        parts = [None if one is None else call.integers(one, "bounds") for one in (*given, None, None)][:4]
        starts, stops, axes, steps = parts[0], parts[1], parts[2], parts[3]
    key: list[Any] = [slice(None)] * x.ndim
    for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        axis, step = (axes[i] if axes else i), (steps[i] if steps else 1)
        n = x.shape[axis]
        key[axis] = _normal(slice(start, stop, step), n)
    return ops.getitem(x, key=tuple(key))


def _normal(part: slice, n: int) -> slice:
    """The same slice, with bounds that reach the end left out, so that it is the same for other sizes."""
    start, stop, step = part.start, part.stop, part.step
    if step > 0:
        start, stop = None if start == 0 or start <= -(2**31) else start, None if stop >= 2**31 - 1 else stop
    else:
        start, stop = None if start >= 2**31 - 1 or start == -1 else start, None if stop <= -(2**31) else stop
    if stop is not None and step > 0 and stop == n:
        stop = None if stop < 0 else stop
    return slice(start, stop, None if step == 1 else step)


@reads("Expand")
def _expand(call: Call, x: Any, shape: Any) -> Any:
    target = broadcast_shapes("Expand", tuple(x.shape), tuple(call.integers(shape, "shape")))
    return x if target == tuple(x.shape) else ops.broadcast_to(x, shape=target)


@reads("Tile")
def _tile(call: Call, x: Any, repeats: Any) -> Any:
    return ops.tile(x, reps=tuple(call.integers(repeats, "repeats")))


@reads("Trilu")
def _trilu(call: Call, x: Any, k: Any = None) -> Any:
    row = ops.triu if call.get("upper", 1) else ops.tril
    return row(x, k=0 if k is None else int(call.known(k, "k").reshape(())))


@reads("Pad")
def _pad(call: Call, x: Any, pads: Any = None, value: Any = None, given: Any = None) -> Any:
    if call.opset < 11:
        widths, fill = call.get("pads"), call.get("value", 0.0)
    else:
        widths = call.integers(pads, "pads")
        fill = 0 if value is None else call.known(value, "value").reshape(())[()].item()
    axes = list(range(x.ndim)) if given is None else [a % x.ndim for a in call.integers(given, "axes")]
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        pairs[axis] = widths[i], widths[i + len(axes)]
    mode = call.get("mode", "constant")
    if mode == "constant":
        if min(min(pair) for pair in pairs) < 0:  # cut off rather than added
            key = tuple(slice(max(-b, 0), n - max(-e, 0)) for (b, e), n in zip(pairs, x.shape, strict=True))
            x = ops.getitem(x, key=key)
        return ops.pad(x, width=tuple((max(b, 0), max(e, 0)) for b, e in pairs), value=fill)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            call.bounded([max(0, before) + x.shape[axis] + max(0, after)])
            where = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode]
            places = np.pad(np.arange(x.shape[axis]), (before, after), mode=where)  # type: ignore[call-overload]
            x = ops.take(x, known(places), axis=axis)
    return x


@reads("DepthToSpace", "SpaceToDepth")
def _blocks(call: Call, x: Any) -> Any:
    n, c, h, w = x.shape
    b = int(call.get("blocksize"))
    if call.kind == "SpaceToDepth":
        apart = ops.reshape(x, shape=(n, c, h // b, b, w // b, b))
        order = (0, 1, 3, 5, 2, 4) if call.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
        return ops.reshape(ops.transpose(apart, axes=order), shape=(n, c * b * b, h // b, w // b))
    if call.get("mode", "DCR") == "DCR":
        apart = ops.transpose(ops.reshape(x, shape=(n, b, b, c // b**2, h, w)), axes=(0, 3, 4, 1, 5, 2))
    else:
        apart = ops.transpose(ops.reshape(x, shape=(n, c // b**2, b, b, h, w)), axes=(0, 1, 4, 2, 5, 3))
    return ops.reshape(apart, shape=(n, c // b**2, h * b, w * b))


# Picking by indices


@reads("Gather")
def _gather(call: Call, x: Any, index: Any) -> Any:
    axis = int(call.get("axis", 0)) % x.ndim
    if isinstance(index, np.ndarray) and index.ndim == 0 and not isinstance(x, np.ndarray):
        return ops.getitem(x, key=(slice(None),) * axis + (int(index),))
    if isinstance(x, np.ndarray) and x.ndim > 1 and is_floating(x.dtype):
        x = Tensor(np.asarray(x))  # a table, whose rows may be counted by a size that is open; no shape
    return ops.take(x, index, axis=axis)


def _from_front(index: Any, size: int) -> Any:
    """Indices, those that count from the back counted from the front."""
    if isinstance(index, np.ndarray) and (index.size == 0 or index.min() >= 0):
        return index
    zero, n = known(0, index.dtype), known(size, index.dtype)
    return ops.where(ops.less(index, zero), ops.add(index, n), index)


@reads("GatherElements")
def _gather_elements(call: Call, x: Any, index: Any) -> Any:
    axis = int(call.get("axis", 0)) % x.ndim
    return ops.gather(x, _from_front(index, x.shape[axis]), axis=axis)


@reads("Scatter", "ScatterElements")
def _scatter(call: Call, x: Any, index: Any, value: Any) -> Any:
    axis, reduction = int(call.get("axis", 0)) % x.ndim, call.get("reduction", "none")
    index = _from_front(index, x.shape[axis])
    if reduction == "none":
        return ops.scatter(x, index, value, axis=axis)
    return _scattered(call, x, index, value, axis, reduction)


def _scattered(call: Call, x: Any, index: Any, value: Any, axis: int, reduction: str) -> Any:
    """Entries that are combined with what was there; several may come to one place."""
    others = tuple(n for i, n in enumerate(x.shape) if i != axis)
    came = tuple(n for i, n in enumerate(index.shape) if i != axis)
    if others != came:
        width = [(0, 0) if i == axis else (0, n - m) for i, (n, m) in enumerate(zip(x.shape, index.shape, strict=True))]
        index, value = ops.pad(index, width=tuple(width), value=x.shape[axis]), ops.pad(value, width=tuple(width))
    places = ops.reshape(known(np.arange(*call.bounded([x.shape[axis]]))), shape=(1,) * x.ndim + (-1,))
    hot = ops.equal(ops.expand_dims(as_type(index, np.int64), axis=x.ndim), places)
    neutral = {"add": 0, "mul": 1, "max": _least(x.dtype), "min": _most(x.dtype)}[reduction]
    spread = ops.where(hot, ops.expand_dims(value, axis=x.ndim), known(neutral, x.dtype))
    row: Any = {"add": ops.sum, "mul": ops.prod, "max": ops.max, "min": ops.min}[reduction]
    found = ops.moveaxis(as_type(row(spread, axis=axis), x.dtype), -1, axis)
    join: Any = {"add": ops.add, "mul": ops.mul, "max": ops.maximum, "min": ops.minimum}[reduction]
    return join(x, found)


def _least(dtype: np.dtype) -> Any:
    return -np.inf if is_floating(dtype) else np.iinfo(dtype).min


def _most(dtype: np.dtype) -> Any:
    return np.inf if is_floating(dtype) else np.iinfo(dtype).max


def _flat_places(index: Any, shape: Sequence[int]) -> Any:
    """Places in the flattened first axes, from index tuples in the last axis of `index`."""
    total = None
    for i, size in enumerate(shape):
        part = _from_front(ops.getitem(index, key=(Ellipsis, i)), size)
        step = math.prod(shape[i + 1 :])
        part = part if step == 1 else ops.mul(part, known(step, np.int64))
        total = part if total is None else ops.add(total, part)
    return total


@reads("GatherND")
def _gather_nd(call: Call, x: Any, index: Any) -> Any:
    batch, index = int(call.get("batch_dims", 0)), as_type(index, np.int64)
    depth = index.shape[-1]
    places = _flat_places(index, x.shape[batch : batch + depth])
    rest = tuple(x.shape[batch + depth :])
    inner, outer = math.prod(x.shape[batch : batch + depth]), math.prod(x.shape[:batch])
    flat = ops.reshape(x, shape=(outer * inner, *rest))
    if batch:
        lead = np.arange(*call.bounded([outer])).reshape(*x.shape[:batch], *[1] * (places.ndim - batch)) * inner
        places = ops.add(places, known(lead, np.int64))
    return ops.take(flat, places, axis=0)


@reads("ScatterND")
def _scatter_nd(call: Call, x: Any, index: Any, value: Any) -> Any:
    index, reduction = as_type(index, np.int64), call.get("reduction", "none")
    depth = index.shape[-1]
    count, rest = math.prod(index.shape[:-1]), math.prod(x.shape[depth:])
    places = ops.reshape(_flat_places(index, x.shape[:depth]), shape=(count, 1))
    places = ops.broadcast_to(places, shape=(count, rest))
    flat = ops.reshape(x, shape=(math.prod(x.shape[:depth]), rest))
    values = ops.reshape(value, shape=(count, rest))
    if reduction == "none":
        found = ops.scatter(flat, places, values, axis=0)
    else:
        found = _scattered(call, flat, places, values, 0, reduction)
    return ops.reshape(found, shape=tuple(x.shape))


@reads("OneHot")
def _one_hot(call: Call, index: Any, depth: Any, values: Any) -> Any:
    size = int(call.known(depth, "depth").reshape(()))
    whole = as_type(index, np.int64)
    inside = ops.logical_and(ops.less(whole, known(size, np.int64)), ops.greater_equal(whole, known(-size, np.int64)))
    hot = ops.one_hot(ops.remainder(whole, known(size, np.int64)), size=size, dtype=np.int64)
    hot = ops.logical_and(ops.greater(hot, known(0, np.int64)), ops.expand_dims(inside, axis=index.ndim))
    found = ops.where(hot, ops.getitem(values, key=1), ops.getitem(values, key=0))
    axis = int(call.get("axis", -1))
    axis = axis + found.ndim if axis < 0 else axis
    return found if axis == found.ndim - 1 else ops.moveaxis(found, -1, axis)


@reads("ReverseSequence")
def _reverse_sequence(call: Call, x: Any, lengths: Any) -> Any:
    time, batch = int(call.get("time_axis", 0)), int(call.get("batch_axis", 1))
    ends = as_type(lengths, np.int64)
    steps = ops.reshape(
        known(np.arange(*call.bounded([x.shape[time]]))), shape=tuple(-1 if i == time else 1 for i in range(x.ndim))
    )
    ends = ops.reshape(ends, shape=tuple(-1 if i == batch else 1 for i in range(x.ndim)))
    places = ops.where(ops.less(steps, ends), ops.sub(ops.sub(ends, known(1, np.int64)), steps), steps)
    return ops.gather(x, ops.broadcast_to(places, shape=tuple(x.shape)), axis=time)
