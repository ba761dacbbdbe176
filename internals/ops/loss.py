"""The softmax family and losses, each one row, so that they are exact where their parts would overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.elementwise import exp, sigmoid
from internals.ops.index import one_hot
from internals.ops.reduce import mean, share, sum, wide
from internals.ops.shape import expand_dims, moveaxis, reshape
from internals.ops.spec import DEFAULT_FLOAT, Spec, normalise_axis
from internals.ops.table import row

REDUCTIONS = ("mean", "sum", "none")


def _softmax_infer(name: str) -> Any:
    def infer(x: Spec, *, axis: int = -1) -> Spec:
        normalise_axis(name, axis, x.ndim)
        return x

    return infer


def _shifted(xp: Any, x: Any, axis: int) -> Any:
    top = xp.max(x, axis=axis, keepdims=True) if x.shape[axis] else 0
    return x - top


def _softmax(xp: Any, x: Any, axis: int) -> Any:
    e = xp.exp(_shifted(xp, wide(x), axis))
    return (e / xp.sum(e, axis=axis, keepdims=True)).astype(x.dtype, copy=False)


def _log_softmax(xp: Any, x: Any, axis: int) -> Any:
    shifted = _shifted(xp, wide(x), axis)
    return (shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))).astype(x.dtype, copy=False)


softmax = row(
    "softmax",
    _softmax,
    vjp=lambda g, out, x, axis: out * (g - sum(g * out, axis=axis, keepdims=True)),
    jvp="symmetric",
    saves="out",
    infer=_softmax_infer("softmax"),
    dtypes="float",
    doc="exp(x) / sum(exp(x)) along an axis, without overflow. An entry of -inf has probability 0 and derivative 0; "
    "if all are -inf the result is NaN, as in PyTorch and TensorFlow.",
)

log_softmax = row(
    "log_softmax",
    _log_softmax,
    vjp=lambda g, out, x, axis: g - exp(out) * sum(g, axis=axis, keepdims=True),
    jvp=lambda t, out, x, axis: t - sum(exp(out) * t, axis=axis, keepdims=True),
    saves="out",
    infer=_softmax_infer("log_softmax"),
    dtypes="float",
    doc="log(softmax(x)), exact where softmax itself would round to 0.",
)


def _reduce(xp: Any, losses: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    total = xp.sum(losses, dtype=DEFAULT_FLOAT if losses.dtype.itemsize < 4 else losses.dtype)
    if reduction == "mean":
        total = total / losses.size if losses.size else total * float("nan")
    return total.astype(losses.dtype)


def _reduced_spec(name: str, shape: tuple[int, ...], dtype: Any, reduction: str) -> Spec:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: reduction {reduction!r} is not one of {', '.join(REDUCTIONS)}.")
    return Spec(shape if reduction == "none" else (), dtype)


def _share(g: Any, n: int, reduction: str) -> Any:
    """The cotangent of one example's loss, from that of the reduced loss."""
    return g * share(n) if reduction == "mean" else g


def _pushed(tangents: Any, reduction: str) -> Any:
    """The tangent of the reduced loss, from those of all examples."""
    return tangents if reduction == "none" else (mean if reduction == "mean" else sum)(tangents)


def _cross_entropy_infer(logits: Spec, target: Spec, *, reduction: str = "mean") -> Spec:
    if logits.ndim == 0:
        raise ValueError("cross_entropy: logits of shape () have no class axis; expected (C,), (N, C) or (N, C, ...).")
    if target.dtype.kind not in "iu":
        raise TypeError(f"cross_entropy: the target must hold class indices of an integer dtype, got {target.dtype}.")
    shape = logits.shape[:1] + logits.shape[2:] if logits.ndim > 1 else ()
    if target.shape != shape:
        raise ValueError(
            f"cross_entropy: logits of shape {logits.shape} need a target of shape {shape}, got {target.shape}."
        )
    return _reduced_spec("cross_entropy", shape, logits.dtype if logits.dtype.kind == "f" else DEFAULT_FLOAT, reduction)


def _class_axis(logits: Any) -> int:
    return 1 if logits.ndim > 1 else 0


def _cross_entropy(xp: Any, logits: Any, target: Any, reduction: str) -> Any:
    axis = _class_axis(logits)
    classes = logits.shape[axis]
    if isinstance(target, np.ndarray | np.generic) and target.size and (target.min() < 0 or target.max() >= classes):
        raise ValueError(
            f"cross_entropy: targets go from {target.min()} to {target.max()}, but there are classes 0 to "
            f"{classes - 1}."
        )
    picked = xp.take_along_axis(_log_softmax(xp, logits, axis), xp.expand_dims(target, axis), axis)
    return _reduce(xp, -xp.squeeze(picked, axis=axis), reduction)


def _cross_entropy_vjp(g: Any, out: Any, logits: Any, target: Any, reduction: str) -> Any:
    axis = _class_axis(logits)
    n = logits.size // logits.shape[axis] if logits.shape[axis] else 0
    g = _share(g, n, reduction) if n else g
    if reduction == "none":
        g = expand_dims(g, axis=axis)
    hot = moveaxis(one_hot(target, size=logits.shape[axis], dtype=logits.dtype), -1, axis)
    return g * (softmax(logits, axis=axis) - hot)


def _cross_entropy_jvp(t: Any, out: Any, logits: Any, target: Any, reduction: str) -> Any:
    axis = _class_axis(logits)
    hot = moveaxis(one_hot(target, size=logits.shape[axis], dtype=logits.dtype), -1, axis)
    return _pushed(sum((softmax(logits, axis=axis) - hot) * t, axis=axis), reduction)


cross_entropy = row(
    "cross_entropy",
    _cross_entropy,
    vjp=(_cross_entropy_vjp, None),
    jvp=(_cross_entropy_jvp, None),
    saves="logits target",
    infer=_cross_entropy_infer,
    strict=True,
    doc="-log softmax(logits)[target]; classes along axis 1 (axis 0 of a 1-D input), targets as integers; mean, sum "
    "or none. PyTorch's layout; TensorFlow's sparse_softmax_cross_entropy_with_logits has classes last and does not "
    "reduce.",
)


def _mse_infer(x: Spec, y: Spec, *, reduction: str = "mean") -> Spec:
    if x.shape != y.shape:
        raise ValueError(f"mse: shapes {x.shape} and {y.shape} differ. A loss does not broadcast; reshape one of them.")
    return _reduced_spec("mse", x.shape, x.dtype, reduction)


def _difference(g: Any, x: Any, y: Any, reduction: str) -> Any:
    return _share(g, x.size, reduction) * 2 * (x - y) if x.size else x - y


mse = row(
    "mse",
    lambda xp, x, y, reduction: _reduce(xp, xp.square(x - y), reduction),
    vjp=(
        lambda g, out, x, y, reduction: _difference(g, x, y, reduction),
        lambda g, out, x, y, reduction: -_difference(g, x, y, reduction),
    ),
    jvp=(
        lambda t, out, x, y, reduction: _pushed(2 * (x - y) * t, reduction),
        lambda t, out, x, y, reduction: _pushed(-2 * (x - y) * t, reduction),
    ),
    saves="x y",
    infer=_mse_infer,
    strict=True,
    dtypes="float",
    doc="Squared difference; mean, sum or none. Shapes must be equal: PyTorch (with a warning) and TensorFlow "
    "broadcast, a frequent source of silent errors.",
)


def _bce_infer(logits: Spec, target: Spec, *, reduction: str = "mean") -> Spec:
    if logits.shape != target.shape:
        raise ValueError(
            f"binary_cross_entropy: logits of shape {logits.shape} and targets of shape {target.shape} differ."
        )
    return _reduced_spec("binary_cross_entropy", logits.shape, logits.dtype, reduction)


binary_cross_entropy = row(
    "binary_cross_entropy",
    lambda xp, logits, target, reduction: _reduce(xp, xp.logaddexp(0, logits) - logits * target, reduction),
    vjp=(
        lambda g, out, x, t, reduction: (
            _share(g, x.size, reduction) * (sigmoid(x) - t) if x.size else reshape(x, shape=tuple(x.shape))
        ),
        lambda g, out, x, t, reduction: (
            _share(g, x.size, reduction) * -x if x.size else reshape(x, shape=tuple(x.shape))
        ),
    ),
    jvp=(
        lambda t, out, x, y, reduction: _pushed((sigmoid(x) - y) * t, reduction),
        lambda t, out, x, y, reduction: _pushed(-x * t, reduction),
    ),
    saves=("logits target", "logits"),
    infer=_bce_infer,
    strict=True,
    dtypes="float",
    doc="-t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) from logits x, without overflow; mean, sum or none.",
)
