"""Losses over a class axis, whose target is a class index for each example."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.elementwise import cast, maximum, where
from internals.ops.index import one_hot
from internals.ops.lookup import take
from internals.ops.loss import log_softmax, log_softmax_of, reduced_spec, softmax
from internals.ops.reduce import accumulator, mean, sum
from internals.ops.shape import expand_dims, moveaxis
from internals.ops.spec import Spec
from internals.ops.table import Op, row


def _class_axis(x: Any) -> int:
    return 1 if x.ndim > 1 else 0


def _labels(xp: Any, name: str, target: Any, classes: int, ignore_index: int) -> tuple[Any, Any]:
    """Which targets count (None: all of them), and the targets, with 0 for those that do not."""
    if isinstance(target, np.ndarray | np.generic):
        if not target.size or (target.min() >= 0 and target.max() < classes and not 0 <= ignore_index < classes):
            return None, target
        labels = np.asarray(target)
        counted = labels[labels != ignore_index]
        if counted.size and (counted.min() < 0 or counted.max() >= classes):
            raise ValueError(
                f"{name}: targets go from {counted.min()} to {counted.max()}, but there are classes 0 to {classes - 1} "
                f"and ignore_index is {ignore_index}."
            )
    counts = target != ignore_index
    return counts, xp.where(counts, target, 0)


def _losses(
    xp: Any, name: str, log_p: Any, target: Any, weight: Any, reduction: str, ignore_index: int, smoothing: float
) -> Any:
    axis = _class_axis(log_p)
    counts, labels = _labels(xp, name, target, log_p.shape[axis], ignore_index)
    if log_p.ndim == 2:  # the usual case, and the faster way
        losses = -log_p[xp.arange(log_p.shape[0]), labels]
    else:
        losses = -xp.squeeze(xp.take_along_axis(log_p, xp.expand_dims(labels, axis), axis), axis=axis)
    share = None
    if weight is not None:
        weight = weight.astype(log_p.dtype, copy=False)
        share = xp.take(weight, labels)
        losses = losses * share
        log_p = log_p * weight.reshape((-1,) + (1,) * max(log_p.ndim - 2, 0))
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing / log_p.shape[axis] * xp.sum(log_p, axis=axis)
    if counts is not None:
        losses = xp.where(counts, losses, 0).astype(losses.dtype, copy=False)
        share = counts if share is None else share * counts
    if reduction == "none":
        return losses
    held = accumulator(losses.dtype)
    total = xp.sum(losses, dtype=held)
    if reduction == "mean" and share is None:
        total = total / losses.size if losses.size else total * float("nan")
    elif reduction == "mean":
        with np.errstate(invalid="ignore"):  # the mean of none is NaN, as it is for an empty batch
            total = total / xp.sum(share, dtype=held)
    return total.astype(losses.dtype)


def _wanted(x: Any, target: Any, weight: Any, smoothing: float) -> Any:
    """How much each log-probability counts in the loss of its example: 1 at the target, if there is nothing else."""
    axis = _class_axis(x)
    classes = x.shape[axis]
    hot = one_hot(target, size=classes, dtype=x.dtype)
    hot = (1 - smoothing) * hot + smoothing / classes if smoothing else hot
    hot = hot if weight is None else hot * cast(weight, dtype=x.dtype)
    return moveaxis(hot, -1, axis) if axis != x.ndim - 1 else hot


def _share(x: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """What each example's loss is multiplied by in the reduced one: 0 if it is ignored, 1 / n in a mean of n."""
    counts = target != ignore_index
    if reduction != "mean":
        return cast(counts, dtype=x.dtype)
    held = accumulator(x.dtype)
    if weight is None:
        total = cast(maximum(sum(counts), 1), dtype=held)  # of no examples there is nothing to divide
    else:
        total = sum(where(counts, take(cast(weight, dtype=held), where(counts, target, 0)), 0))
        total = where(total == 0, 1, total)
    return cast(counts / total, dtype=x.dtype)


def _by_example(g: Any, x: Any) -> Any:
    return expand_dims(g, axis=_class_axis(x))


def _cross_entropy_slope(x: Any, target: Any, weight: Any, smoothing: float) -> Any:
    axis = _class_axis(x)
    wanted = _wanted(x, target, weight, smoothing)
    p = softmax(x, axis=axis)
    return (p if weight is None else p * sum(wanted, axis=axis, keepdims=True)) - wanted


def _nll_slope(x: Any, target: Any, weight: Any, smoothing: float) -> Any:
    return -_wanted(x, target, weight, smoothing)


def _pulled(
    slope: Any,
    g: Any,
    x: Any,
    target: Any,
    weight: Any,
    reduction: str,
    ignore_index: int,
    label_smoothing: float = 0.0,
) -> Any:
    share = g * _share(x, target, weight, reduction, ignore_index)
    return _by_example(share, x) * slope(x, target, weight, label_smoothing)


def _pushed(
    slope: Any,
    t: Any,
    x: Any,
    target: Any,
    weight: Any,
    reduction: str,
    ignore_index: int,
    label_smoothing: float = 0.0,
) -> Any:
    tangents = sum(slope(x, target, weight, label_smoothing) * t, axis=_class_axis(x))
    tangents = tangents * _share(x, target, weight, reduction, ignore_index)
    return tangents if reduction == "none" else sum(tangents)


def _check(name: str, x: Spec, target: Spec, reduction: str, ignore_index: int, smoothing: float) -> Spec:
    if x.ndim == 0:
        raise ValueError(f"{name}: an input of shape () has no class axis; expected (C,), (N, C) or (N, C, ...).")
    if x.dtype.kind in "biu":
        raise TypeError(f"{name}: the input must be floating, got {x.dtype}. Cast it: x.to('float32').")
    if target.dtype.kind not in "iu":
        raise TypeError(f"{name}: the target must hold class indices of an integer dtype, got {target.dtype}.")
    shape = x.shape[:1] + x.shape[2:] if x.ndim > 1 else ()
    if target.shape != shape:
        raise ValueError(f"{name}: an input of shape {x.shape} needs a target of shape {shape}, got {target.shape}.")
    if not isinstance(ignore_index, int | np.integer):
        raise TypeError(f"{name}: ignore_index must be an integer, got {ignore_index!r}.")
    if not isinstance(smoothing, int | float) or not 0 <= smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing must be a number between 0 and 1, got {smoothing!r}.")
    return reduced_spec(name, shape, x.dtype, reduction)


def _check_weight(name: str, x: Spec, weight: Spec) -> None:
    classes = x.shape[_class_axis(x)]
    if weight.shape != (classes,):
        raise ValueError(f"{name}: one weight for each of {classes} classes is expected, got shape {weight.shape}.")


def _unweighted(name: str, slope: Any, log_p: Any, infer: Any, doc: str) -> Op:
    def vjp(g: Any, out: Any, x: Any, target: Any, **attrs: Any) -> Any:
        return _pulled(slope, g, x, target, None, **attrs)

    def jvp(t: Any, out: Any, x: Any, target: Any, **attrs: Any) -> Any:
        return _pushed(slope, t, x, target, None, **attrs)

    def kernel(xp: Any, x: Any, target: Any, reduction: str, ignore_index: int, label_smoothing: float = 0.0) -> Any:
        return _losses(xp, name, log_p(xp, x, _class_axis(x)), target, None, reduction, ignore_index, label_smoothing)

    saves = "logits target" if name == "cross_entropy" else "target"
    return row(name, kernel, vjp=(vjp, None), jvp=(jvp, None), saves=saves, infer=infer, strict=True, doc=doc)


def _cross_entropy_infer(
    logits: Spec, target: Spec, *, reduction: str = "mean", ignore_index: int = -100, label_smoothing: float = 0.0
) -> Spec:
    return _check("cross_entropy", logits, target, reduction, ignore_index, label_smoothing)


cross_entropy = _unweighted(
    "cross_entropy",
    _cross_entropy_slope,
    log_softmax_of,
    _cross_entropy_infer,
    "-log softmax(logits)[target]; classes along axis 1 (axis 0 of a 1-D input), targets as integers; mean, sum or "
    "none. Targets equal to ignore_index count for nothing; the mean over no target is NaN, as of an empty batch, and "
    "its derivative 0. label_smoothing spreads that share of each target evenly over all classes (Szegedy et al. "
    "2016). PyTorch's layout and settings; TensorFlow's sparse_softmax_cross_entropy_with_logits has classes last, "
    "does not reduce, and has neither setting.",
)


def _nll_infer(log_p: Spec, target: Spec, *, reduction: str = "mean", ignore_index: int = -100) -> Spec:
    return _check("nll", log_p, target, reduction, ignore_index, 0.0)


nll = _unweighted(
    "nll",
    _nll_slope,
    lambda xp, x, axis: x,
    _nll_infer,
    "-log_p[target], of log-probabilities such as log_softmax gives: PyTorch's nll_loss. Axes, reductions and "
    "ignore_index as in cross_entropy. TensorFlow has none; a gather stands for it in the tests.",
)


def _weighted_infer(
    logits: Spec,
    target: Spec,
    weight: Spec,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Spec:
    _check_weight("weighted_cross_entropy", logits, weight) if logits.ndim else None
    return _check("weighted_cross_entropy", logits, target, reduction, ignore_index, label_smoothing)


weighted_cross_entropy = row(
    "weighted_cross_entropy",
    lambda xp, logits, target, weight, reduction, ignore_index, label_smoothing: _losses(
        xp,
        "weighted_cross_entropy",
        log_softmax_of(xp, logits, _class_axis(logits)),
        target,
        weight,
        reduction,
        ignore_index,
        label_smoothing,
    ),
    vjp=(lambda g, out, *given, **attrs: _pulled(_cross_entropy_slope, g, *given, **attrs), None, None),
    jvp=(lambda t, out, *given, **attrs: _pushed(_cross_entropy_slope, t, *given, **attrs), None, None),
    saves="logits target weight",
    infer=_weighted_infer,
    strict=True,
    doc="cross_entropy with a weight for each class, a constant that is not differentiated by. A mean is divided by "
    "the weights of the targets, not by their number: PyTorch's cross_entropy with weight. TensorFlow multiplies each "
    "example's loss by a weight instead.",
)


def soft_cross_entropy(logits: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Cross-entropy with a probability for each class as the target; differentiable by both.

    Parameters
    ----------
    logits, target : (C,), (N, C) or (N, C, ...), of one shape
    reduction : {"mean", "sum", "none"}
        The mean is over examples.

    Raises
    ------
    ValueError
        The shapes differ, or the reduction is none of these.
    """
    if tuple(logits.shape) != tuple(target.shape) or not logits.ndim:
        raise ValueError(
            f"soft_cross_entropy: logits of shape {logits.shape} need a target of that shape, with the classes along "
            f"axis 1, got {target.shape}."
        )
    reduced_spec("soft_cross_entropy", (), logits.dtype, reduction)
    axis = _class_axis(logits)
    losses = -sum(target * log_softmax(logits, axis=axis), axis=axis)
    return losses if reduction == "none" else (mean if reduction == "mean" else sum)(losses)
