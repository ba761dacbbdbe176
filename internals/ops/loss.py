"""The softmax family, and losses that compare two tensors entry by entry; each exact where its parts would overflow."""

from __future__ import annotations

from typing import Any

from internals.ops.elementwise import clip, exp, log, sigmoid, sign, softplus, where
from internals.ops.reduce import mean, share, sum, wide
from internals.ops.shape import reshape
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


def log_softmax_of(xp: Any, x: Any, axis: int) -> Any:
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
    log_softmax_of,
    vjp=lambda g, out, x, axis: g - exp(out) * sum(g, axis=axis, keepdims=True),
    jvp=lambda t, out, x, axis: t - sum(exp(out) * t, axis=axis, keepdims=True),
    saves="out",
    infer=_softmax_infer("log_softmax"),
    dtypes="float",
    doc="log(softmax(x)), exact where softmax itself would round to 0.",
)


def reduced(xp: Any, losses: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    total = xp.sum(losses, dtype=DEFAULT_FLOAT if losses.dtype.itemsize < 4 else losses.dtype)
    if reduction == "mean":
        total = total / losses.size if losses.size else total * float("nan")
    return total.astype(losses.dtype)


def reduced_spec(name: str, shape: tuple[int, ...], dtype: Any, reduction: str) -> Spec:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: reduction {reduction!r} is not one of {', '.join(REDUCTIONS)}.")
    return Spec(shape if reduction == "none" else (), dtype)


def shared(g: Any, n: int, reduction: str) -> Any:
    """The cotangent of one example's loss, from that of the reduced loss."""
    return g * share(n) if reduction == "mean" else g


def pushed(tangents: Any, reduction: str) -> Any:
    """The tangent of the reduced loss, from those of all examples."""
    return tangents if reduction == "none" else (mean if reduction == "mean" else sum)(tangents)


def _mse_infer(x: Spec, y: Spec, *, reduction: str = "mean") -> Spec:
    if x.shape != y.shape:
        raise ValueError(f"mse: shapes {x.shape} and {y.shape} differ. A loss does not broadcast; reshape one of them.")
    return reduced_spec("mse", x.shape, x.dtype, reduction)


def _difference(g: Any, x: Any, y: Any, reduction: str) -> Any:
    return shared(g, x.size, reduction) * 2 * (x - y) if x.size else x - y


mse = row(
    "mse",
    lambda xp, x, y, reduction: reduced(xp, xp.square(x - y), reduction),
    vjp=(
        lambda g, out, x, y, reduction: _difference(g, x, y, reduction),
        lambda g, out, x, y, reduction: -_difference(g, x, y, reduction),
    ),
    jvp=(
        lambda t, out, x, y, reduction: pushed(2 * (x - y) * t, reduction),
        lambda t, out, x, y, reduction: pushed(-2 * (x - y) * t, reduction),
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
    return reduced_spec("binary_cross_entropy", logits.shape, logits.dtype, reduction)


binary_cross_entropy = row(
    "binary_cross_entropy",
    lambda xp, logits, target, reduction: reduced(xp, xp.logaddexp(0, logits) - logits * target, reduction),
    vjp=(
        lambda g, out, x, t, reduction: (
            shared(g, x.size, reduction) * (sigmoid(x) - t) if x.size else reshape(x, shape=tuple(x.shape))
        ),
        lambda g, out, x, t, reduction: (
            shared(g, x.size, reduction) * -x if x.size else reshape(x, shape=tuple(x.shape))
        ),
    ),
    jvp=(
        lambda t, out, x, y, reduction: pushed((sigmoid(x) - y) * t, reduction),
        lambda t, out, x, y, reduction: pushed(-x * t, reduction),
    ),
    saves=("logits target", "logits"),
    infer=_bce_infer,
    strict=True,
    dtypes="float",
    doc="-t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) from logits x, without overflow; mean, sum or none.",
)


def _same_shape(name: str, x: Spec, y: Spec) -> None:
    if x.shape != y.shape:
        raise ValueError(
            f"{name}: shapes {x.shape} and {y.shape} differ. A loss does not broadcast; reshape one of them."
        )


def _l1_infer(x: Spec, y: Spec, *, reduction: str = "mean") -> Spec:
    _same_shape("l1", x, y)
    return reduced_spec("l1", x.shape, x.dtype, reduction)


l1 = row(
    "l1",
    lambda xp, x, y, reduction: reduced(xp, xp.abs(x - y), reduction),
    vjp=(
        lambda g, out, x, y, reduction: shared(g, x.size, reduction) * sign(x - y),
        lambda g, out, x, y, reduction: shared(g, x.size, reduction) * sign(y - x),
    ),
    jvp=(
        lambda t, out, x, y, reduction: pushed(sign(x - y) * t, reduction),
        lambda t, out, x, y, reduction: pushed(sign(y - x) * t, reduction),
    ),
    saves="x y",
    infer=_l1_infer,
    strict=True,
    dtypes="float",
    doc="Absolute difference; mean, sum or none. The derivative where the two are equal is 0. PyTorch's l1_loss, "
    "Keras's mean_absolute_error; shapes must be equal, as in mse.",
)


def _huber_infer(x: Spec, y: Spec, *, delta: float = 1.0, reduction: str = "mean") -> Spec:
    _same_shape("huber", x, y)
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not delta > 0:
        raise ValueError(f"huber: delta must be a positive number, got {delta!r}.")
    return reduced_spec("huber", x.shape, x.dtype, reduction)


def _huber(xp: Any, x: Any, y: Any, delta: float, reduction: str) -> Any:
    size = xp.abs(x - y)
    near = xp.minimum(size, delta)
    return reduced(xp, near * (size - 0.5 * near), reduction)


huber = row(
    "huber",
    _huber,
    vjp=(
        lambda g, out, x, y, delta, reduction: shared(g, x.size, reduction) * clip(x - y, low=-delta, high=delta),
        lambda g, out, x, y, delta, reduction: shared(g, x.size, reduction) * clip(y - x, low=-delta, high=delta),
    ),
    jvp=(
        lambda t, out, x, y, delta, reduction: pushed(clip(x - y, low=-delta, high=delta) * t, reduction),
        lambda t, out, x, y, delta, reduction: pushed(clip(y - x, low=-delta, high=delta) * t, reduction),
    ),
    saves="x y",
    infer=_huber_infer,
    strict=True,
    dtypes="float",
    doc="Half the squared difference up to a difference of delta, and from there on a line of slope delta (Huber "
    "1964); mean, sum or none. PyTorch's huber_loss, Keras's Huber; smooth_l1 of PyTorch is this, divided by delta.",
)


def smooth_l1(x: Any, y: Any, *, beta: float = 1.0, reduction: str = "mean") -> Any:
    """The Huber loss divided by its delta, here beta: the slope far out is 1 (Girshick 2015)."""
    return huber(x, y, delta=beta, reduction=reduction) * (1 / beta)


def _kl_infer(log_q: Spec, p: Spec, *, log_target: bool = False, reduction: str = "mean") -> Spec:
    _same_shape("kl_div", log_q, p)
    if reduction == "batchmean":
        if log_q.ndim == 0:
            raise ValueError("kl_div: a 0-d input has no batch to take the mean over; use another reduction.")
        return Spec((), log_q.dtype)
    return reduced_spec("kl_div", log_q.shape, log_q.dtype, reduction)


def _kl(xp: Any, log_q: Any, p: Any, log_target: bool, reduction: str) -> Any:
    # 0 log 0 is 0.
    terms = xp.exp(p) * (p - log_q) if log_target else xp.where(p > 0, p * (xp.log(xp.where(p > 0, p, 1)) - log_q), 0)
    losses = terms.astype(log_q.dtype, copy=False)
    if reduction != "batchmean":
        return reduced(xp, losses, reduction)
    n = losses.shape[0]
    total = reduced(xp, wide(losses), "sum")
    return (total / n if n else total * float("nan")).astype(losses.dtype)


def _kl_share(x: Any, reduction: str) -> float:
    n = x.size if reduction == "mean" else x.shape[0] if reduction == "batchmean" else 1
    return share(n)


def _kl_by_target(log_q: Any, p: Any, log_target: bool) -> Any:
    if log_target:
        return exp(p) * (p - log_q + 1)
    return where(p > 0, log(where(p > 0, p, 1)) + 1 - log_q, 0)


def _kl_by_input(p: Any, log_target: bool) -> Any:
    return -exp(p) if log_target else where(p > 0, -p, 0)


def _kl_pushed(tangents: Any, reduction: str) -> Any:
    return tangents if reduction == "none" else sum(tangents) * _kl_share(tangents, reduction)


kl_div = row(
    "kl_div",
    _kl,
    vjp=(
        lambda g, out, q, p, log_target, reduction: g * _kl_share(q, reduction) * _kl_by_input(p, log_target),
        lambda g, out, q, p, log_target, reduction: g * _kl_share(q, reduction) * _kl_by_target(q, p, log_target),
    ),
    jvp=(
        lambda t, out, q, p, log_target, reduction: _kl_pushed(_kl_by_input(p, log_target) * t, reduction),
        lambda t, out, q, p, log_target, reduction: _kl_pushed(_kl_by_target(q, p, log_target) * t, reduction),
    ),
    saves=("p", "log_q p"),
    infer=_kl_infer,
    strict=True,
    dtypes="float",
    doc="p (log p - log q), from log q first and then p, or log p if log_target: the divergence of q from p (Kullback "
    "& Leibler 1951). A p of 0 gives 0, and has derivative 0. mean is over all entries; batchmean, over the first "
    "axis, is the one of the definition. PyTorch's kl_div; Keras's kl_divergence takes p first and neither as a "
    "logarithm.",
)


def weighted_binary_cross_entropy(logits: Any, target: Any, pos_weight: Any, *, reduction: str = "mean") -> Any:
    """binary_cross_entropy with the loss of positives multiplied, so that rare ones count for more.

    Parameters
    ----------
    logits, target : of one shape
    pos_weight : number, or something that broadcasts to that shape
    reduction : {"mean", "sum", "none"}

    PyTorch's binary_cross_entropy_with_logits with pos_weight; tf.nn.weighted_cross_entropy_with_logits.
    """
    reduced_spec("weighted_binary_cross_entropy", (), logits.dtype, reduction)
    if tuple(logits.shape) != tuple(target.shape):
        raise ValueError(
            f"weighted_binary_cross_entropy: logits of shape {logits.shape} and targets of shape {target.shape} differ."
        )
    losses = (1 - target) * logits + (1 + (pos_weight - 1) * target) * softplus(-logits)
    if tuple(losses.shape) != tuple(logits.shape):
        raise ValueError(
            f"weighted_binary_cross_entropy: pos_weight of shape {pos_weight.shape} does not broadcast to "
            f"{logits.shape}."
        )
    return pushed(losses, reduction)
