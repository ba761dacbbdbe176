"""Import rules for reductions, softmax, losses and what puts entries in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from internals import ops
from internals.deploy.onnx.readers.elementwise import as_type
from internals.deploy.onnx.readers.table import Call, known, reads
from internals.ops.spec import is_floating


def _axes(call: Call, x: Any, given: Any) -> tuple[int, ...] | None:
    """None stands for no reduction at all."""
    axes = call.axes(x.ndim, given, 13 if call.kind == "ReduceSum" else 18)
    if not axes:
        return None if call.get("noop_with_empty_axes", 0) else tuple(range(x.ndim))
    return tuple(axes)


_PLAIN = {"ReduceSum": ops.sum, "ReduceMean": ops.mean, "ReduceMax": ops.max, "ReduceMin": ops.min,
          "ReduceLogSumExp": ops.logsumexp}  # fmt: skip


@reads(*_PLAIN, "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare")
def _reduce(call: Call, x: Any, given: Any = None) -> Any:
    axes, keepdims, kind, dtype = _axes(call, x, given), bool(call.get("keepdims", 1)), call.kind, x.dtype
    whole = not is_floating(dtype)
    if kind in ("ReduceL2", "ReduceLogSumExp", "ReduceLogSum", "ReduceMean") and whole:
        x = as_type(x, np.float64)
    source = {
        "ReduceL1": lambda: ops.abs(x), "ReduceL2": lambda: ops.mul(x, x), "ReduceSumSquare": lambda: ops.mul(x, x),
    }.get(kind, lambda: x)()  # fmt: skip
    if axes is None:
        found = {"ReduceL2": ops.sqrt, "ReduceLogSum": ops.log}.get(kind, lambda one: one)(source)
        return as_type(found, dtype)
    if kind in ("ReduceMax", "ReduceMin"):
        return _extreme(call, x, axes, keepdims)
    if kind == "ReduceProd":
        found = source
        for axis in sorted(axes, reverse=True):
            found = ops.prod(found, axis=axis, keepdims=keepdims)
    elif kind in _PLAIN:
        found = _PLAIN[kind](source, axis=axes, keepdims=keepdims)
    else:
        total = ops.sum(source, axis=axes, keepdims=keepdims)
        found = {"ReduceL2": ops.sqrt, "ReduceLogSum": ops.log}.get(kind, lambda one: one)(total)
    return as_type(found, dtype)


def _extreme(call: Call, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    largest = call.kind == "ReduceMax"
    if x.dtype.kind == "b":
        return (ops.any if largest else ops.all)(x, axis=axes, keepdims=keepdims)
    if all(x.shape[axis] for axis in axes):
        return (ops.max if largest else ops.min)(x, axis=axes, keepdims=keepdims)
    # Of no entries: the least number there is, or the largest.
    limit = _limits(x.dtype)[0 if largest else 1]
    shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
    return ops.broadcast_to(known(limit, x.dtype), shape=tuple(shape))


def _limits(dtype: np.dtype) -> tuple[float, float]:
    if is_floating(dtype):
        return -math.inf, math.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


@reads("ArgMax", "ArgMin")
def _place(call: Call, x: Any) -> Any:
    axis, keepdims = int(call.get("axis", 0)) % x.ndim, bool(call.get("keepdims", 1))
    row = ops.argmax if call.kind == "ArgMax" else ops.argmin
    if not call.get("select_last_index", 0):
        return row(x, axis=axis, keepdims=keepdims)
    return ops.sub(known(x.shape[axis] - 1, np.int64), row(ops.flip(x, axis=axis), axis=axis, keepdims=keepdims))


@reads("Softmax", "LogSoftmax", "Hardmax")
def _softmax(call: Call, x: Any) -> Any:
    axis = int(call.get("axis", -1 if call.opset >= 13 else 1)) % max(x.ndim, 1)
    shape = tuple(x.shape)
    if call.opset < 13:  # over all axes from this one on, as one
        x, axis = ops.reshape(x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:]))), 1
    if call.kind == "Hardmax":
        hot = ops.one_hot(ops.argmax(x, axis=axis), size=x.shape[axis], dtype=x.dtype)
        found = ops.moveaxis(hot, -1, axis) if axis != x.ndim - 1 else hot
    else:
        found = (ops.softmax if call.kind == "Softmax" else ops.log_softmax)(x, axis=axis)
    return ops.reshape(found, shape=shape) if tuple(found.shape) != shape else found


@reads("CumSum", "CumProd")
def _running(call: Call, x: Any, axis: Any) -> Any:
    along = int(call.known(axis, "axis").reshape(())) % x.ndim
    source = ops.flip(x, axis=along) if call.get("reverse", 0) else x
    if call.get("exclusive", 0):
        rest: list[Any] = [slice(None)] * x.ndim
        rest[along] = slice(0, x.shape[along] - 1)
        first: list[Any] = [slice(None)] * x.ndim
        first[along] = slice(0, 1)
        start = (ops.zeros_like if call.kind == "CumSum" else ops.ones_like)(ops.getitem(source, key=tuple(first)))
        source = ops.concat([start, ops.getitem(source, key=tuple(rest))], axis=along)
    found = (ops.cumsum if call.kind == "CumSum" else ops.cumprod)(source, axis=along)
    return as_type(ops.flip(found, axis=along) if call.get("reverse", 0) else found, x.dtype)


@reads("TopK")
def _topk(call: Call, x: Any, k: Any = None) -> Any:
    count = int(call.get("k")) if call.opset < 10 else call.integers(k, "k")[0]
    axis = int(call.get("axis", -1)) % x.ndim
    found = ops.topk(x, k=count, axis=axis, largest=bool(call.get("largest", 1)))
    return [found.values, found.indices]


@reads("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def _loss(call: Call, x: Any, target: Any, weight: Any = None) -> Any:
    reduction, ignored = call.get("reduction", "mean"), call.get("ignore_index", -100)
    target = target if target.dtype.kind == "i" else as_type(target, np.int64)
    is_nll = call.kind == "NegativeLogLikelihoodLoss"
    log_p = x if is_nll else ops.log_softmax(x, axis=1)
    if weight is not None:
        loss = _weighted(log_p, target, weight, reduction, ignored)
    elif is_nll:
        loss = ops.nll(x, target, reduction=reduction, ignore_index=ignored)
    else:
        loss = ops.cross_entropy(x, target, reduction=reduction, ignore_index=ignored)
    return [loss, log_p][: call.outputs]


def _weighted(log_p: Any, target: Any, weight: Any, reduction: str, ignored: int) -> Any:
    counts = ops.not_equal(target, known(ignored, target.dtype))
    share = ops.where(
        counts, ops.take(weight, ops.where(counts, target, known(0, target.dtype))), known(0, weight.dtype)
    )
    each = ops.mul(ops.nll(log_p, target, reduction="none", ignore_index=ignored), share)
    if reduction == "none":
        return each
    return ops.sum(each) if reduction == "sum" else ops.div(ops.sum(each), ops.sum(share))
