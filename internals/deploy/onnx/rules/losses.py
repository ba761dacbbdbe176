"""Export rules for losses."""

from __future__ import annotations

import numpy as np

from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import rule
from internals.graph import Node


def _reduced(b: Builder, losses: Name, ndim: int, reduction: str) -> Name:
    if reduction == "none":
        return losses
    return b.reduce("ReduceMean" if reduction == "mean" else "ReduceSum", losses, list(range(ndim)), False)


@rule("mse")
def _mse(b: Builder, node: Node, x: Value, y: Value) -> Name:
    off = b.op("Sub", x, y)
    return _reduced(b, b.op("Mul", off, off), x.ndim, node.attrs["reduction"])


@rule("l1")
def _l1(b: Builder, node: Node, x: Value, y: Value) -> Name:
    return _reduced(b, b.op("Abs", b.op("Sub", x, y)), x.ndim, node.attrs["reduction"])


@rule("huber")
def _huber(b: Builder, node: Node, x: Value, y: Value) -> Name:
    delta = float(node.attrs["delta"])
    off = b.op("Abs", b.op("Sub", x, y))
    near = b.op("Mul", b.op("Mul", off, off), b.like(0.5, x))
    far = b.op("Mul", b.op("Sub", off, b.like(delta / 2, x)), b.like(delta, x))
    losses = b.op("Where", b.op("LessOrEqual", off, b.like(delta, x)), near, far)
    return _reduced(b, losses, x.ndim, node.attrs["reduction"])


@rule("binary_cross_entropy")
def _binary_cross_entropy(b: Builder, node: Node, logits: Value, target: Value) -> Name:
    losses = b.op("Sub", b.op("Softplus", logits), b.op("Mul", logits, target))
    return _reduced(b, losses, logits.ndim, node.attrs["reduction"])


@rule("kl_div")
def _kl_div(b: Builder, node: Node, log_q: Value, p: Value) -> Name:
    if node.attrs["log_target"]:
        terms = b.op("Mul", b.op("Exp", p), b.op("Sub", p, log_q))
    else:  # 0 log 0 is 0
        some = b.op("Greater", p, b.like(0, p))
        log_p = b.op("Log", b.op("Where", some, p, b.like(1, p)))
        terms = b.op("Where", some, b.op("Mul", p, b.op("Sub", log_p, log_q)), b.like(0, p))
    if node.attrs["reduction"] != "batchmean":
        return _reduced(b, terms, log_q.ndim, node.attrs["reduction"])
    total = b.reduce("ReduceSum", terms, list(range(log_q.ndim)), False)
    return b.op("Div", total, b.count(log_q, [0], log_q.dtype))


@rule("cross_entropy", "weighted_cross_entropy", "nll")
def _cross_entropy(b: Builder, node: Node, x: Value, target: Value, *weight: Value) -> Name:
    ignored, reduction = int(node.attrs["ignore_index"]), node.attrs["reduction"]
    smoothing = float(node.attrs.get("label_smoothing", 0.0))
    classes: Value | Name = x
    labels: Value | Name = target
    if x.ndim == 1:  # one example, without an axis for it
        classes, labels = b.unsqueeze(x, [0]), b.unsqueeze(target, [0])
    plain = {"ignore_index": ignored, "reduction": reduction if not smoothing else "none"}
    if node.op.name == "nll":
        found = b.op("NegativeLogLikelihoodLoss", classes, labels, *weight, **plain)
    elif not smoothing and 0 in x.shape:  # onnxruntime's loss takes no empty batch
        log_p = b.op("LogSoftmax", classes, axis=1)
        found = b.op("NegativeLogLikelihoodLoss", log_p, labels, *weight, **plain)
    elif not smoothing:
        found = b.op("SoftmaxCrossEntropyLoss", classes, labels, *weight, **plain)
    else:
        found = _smoothed(b, node, x, classes, labels, weight, smoothing)
    return b.squeeze(found, [0]) if x.ndim == 1 and reduction == "none" else found


def _smoothed(
    b: Builder,
    node: Node,
    x: Value,
    logits: Value | Name,
    labels: Value | Name,
    weight: tuple[Value, ...],
    share: float,
) -> Name:
    """Part of the loss is that of the target, and part of it an even share of that of every class."""
    reduction, ignored = node.attrs["reduction"], b.constant(int(node.attrs["ignore_index"]), np.int64)
    ndim = max(x.ndim, 2)
    log_p = b.op("LogSoftmax", logits, axis=1)
    plain = {"ignore_index": int(node.attrs["ignore_index"]), "reduction": "none"}
    own = b.op("NegativeLogLikelihoodLoss", log_p, labels, *weight, **plain)
    shape = [1, -1] + [1] * (ndim - 2)
    every = b.op("Mul", log_p, b.reshape(weight[0], shape)) if weight else log_p
    rest = b.reduce("ReduceSum", every, [1], False)
    part = b.op("Div", b.like(share, x), b.count(x, [1 if x.ndim > 1 else 0], x.dtype))
    losses = b.op("Sub", b.op("Mul", own, b.like(1 - share, x)), b.op("Mul", rest, part))
    counts = b.op("Not", b.op("Equal", b.cast(labels, np.int64), ignored))
    losses = b.op("Where", counts, losses, b.like(0, x))
    if reduction == "none":
        return losses
    axes = list(range(ndim - 1))
    total = b.reduce("ReduceSum", losses, axes, False)
    if reduction == "sum":
        return total
    counted = b.cast(counts, x.dtype)
    if weight:
        safe = b.op("Where", counts, labels, b.cast(b.constant(0, np.int64), node.inputs[1].dtype))
        counted = b.op("Mul", counted, b.op("Gather", weight[0], safe))
    return b.op("Div", total, b.reduce("ReduceSum", counted, axes, False))
