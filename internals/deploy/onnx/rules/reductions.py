"""Export rules for reductions, softmax and what puts entries in order."""

from __future__ import annotations

import math

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import axes_of, rule
from internals.graph import Node

_PLAIN = {"mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "logsumexp": "ReduceLogSumExp"}


@rule(*_PLAIN)
def _reduced(b: Builder, node: Node, x: Value) -> Name:
    source = b.cast(x, np.int32) if x.dtype.kind == "b" else x.name
    axes, keepdims = axes_of(node, x), node.attrs["keepdims"]
    if node.op.name == "mean" and 0 in [x.shape[axis] for axis in axes]:  # NaN, where onnxruntime's ReduceMean has 0
        return b.op("Div", b.reduce("ReduceSum", source, axes, keepdims), b.count(x, axes, x.dtype))
    found = b.reduce(_PLAIN[node.op.name], source, axes, keepdims)
    return b.cast(found, bool) if x.dtype.kind == "b" else found


@rule("sum", "prod")
def _added(b: Builder, node: Node, x: Value) -> Name:
    source = b.cast(x, node.dtype) if x.dtype != node.dtype else x.name
    kind = "ReduceSum" if node.op.name == "sum" else "ReduceProd"
    return b.reduce(kind, source, axes_of(node, x), node.attrs["keepdims"])


@rule("any", "all")
def _some_or_every(b: Builder, node: Node, x: Value) -> Name:
    truth = x.name if x.dtype.kind == "b" else b.cast(x, bool)
    wanted = truth if node.op.name == "any" else b.op("Not", truth)
    counted = b.reduce("ReduceSum", b.cast(wanted, np.int32), axes_of(node, x), node.attrs["keepdims"])
    some = b.op("Greater", counted, b.constant(0, np.int32))
    return some if node.op.name == "any" else b.op("Not", some)


@rule("argmax", "argmin")
def _place(b: Builder, node: Node, x: Value) -> Name:
    kind = "ArgMax" if node.op.name == "argmax" else "ArgMin"
    axis, keepdims = node.attrs["axis"], node.attrs["keepdims"]
    if axis is None or not x.ndim:
        found = b.op(kind, b.reshape(x, [-1]), axis=0, keepdims=0)
        return b.reshape(found, [1] * x.ndim) if keepdims else found
    return b.op(kind, x, axis=int(axis) % x.ndim, keepdims=int(keepdims))


@rule("var", "std")
def _variance(b: Builder, node: Node, x: Value) -> Name:
    axes, keepdims, correction = axes_of(node, x), node.attrs["keepdims"], node.attrs["correction"]
    off = b.op("Sub", x, b.reduce("ReduceMean", x, axes, True))
    total = b.reduce("ReduceSum", b.op("Mul", off, off), axes, keepdims)
    n = b.op("Sub", b.count(x, axes, x.dtype), b.like(correction, x))
    zero = b.like(0, x)
    divisor = b.op("Where", b.op("Greater", n, zero), n, b.like(math.nan, x))
    found = b.op("Div", total, divisor)
    return b.op("Sqrt", found) if node.op.name == "std" else found


@rule("norm")
def _norm(b: Builder, node: Node, x: Value) -> Name:
    axes, keepdims, p = axes_of(node, x), node.attrs["keepdims"], node.attrs["p"]
    if p == math.inf or not axes:
        return b.reduce("ReduceMax", b.op("Abs", x), axes, keepdims)
    return b.reduce("ReduceL1" if p == 1 else "ReduceL2", x, axes, keepdims)


@rule("softmax", "log_softmax")
def _softmax(b: Builder, node: Node, x: Value) -> Name:
    kind = "Softmax" if node.op.name == "softmax" else "LogSoftmax"
    return b.op(kind, x, axis=int(node.attrs["axis"]) % max(x.ndim, 1))


@rule("cumsum", "cumprod")
def _running(b: Builder, node: Node, x: Value) -> Name:
    """A running sum, or a running product, which ONNX has from operator set 26 on."""
    if node.op.name == "cumprod" and b.opset < 26:
        raise FormatError(
            f"to_onnx: {node.name} (made at {node.where}) is cumprod, which ONNX has from operator set 26 on; this is "
            f"{b.opset}. Pass opset=26."
        )
    source = b.cast(x, node.dtype) if x.dtype != node.dtype else x.name
    kind = "CumSum" if node.op.name == "cumsum" else "CumProd"
    return b.op(kind, source, b.constant(int(node.attrs["axis"]) % x.ndim, np.int64))


@rule("sort", "argsort", "topk")
def _ordered(b: Builder, node: Node, x: Value) -> Name | list[Name]:
    """TopK; of equal entries the one of the lower index comes first, in ONNX as here."""
    axis = int(node.attrs["axis"]) % x.ndim
    size = node.attrs["k"] if node.op.name == "topk" else x.shape[axis]
    largest = node.attrs["largest"] if node.op.name == "topk" else node.attrs["descending"]
    k = b.integers([size]) if size is not None else b.slice(b.op("Shape", x), 0, axis, axis + 1)
    values, indices = b.ops("TopK", 2, x, k, axis=axis, largest=int(largest), sorted=1)
    return indices if node.op.name == "argsort" else [values, indices]
