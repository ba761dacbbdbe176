"""Variance, standard deviation and vector norms."""

from __future__ import annotations

import math
from typing import Any

from internals.ops.elementwise import abs, cast, sign, where
from internals.ops.reduce import Axis, accumulator, count, kept, mean, spread, sum, wide
from internals.ops.spec import Spec, normalise_axes
from internals.ops.table import row


def _reduced(name: str, x: Spec, axis: Axis, keepdims: bool) -> Spec:
    axes = normalise_axes(name, axis, x.ndim)
    return Spec(kept(x.shape, axes) if keepdims else tuple(n for i, n in enumerate(x.shape) if i not in axes), x.dtype)


def _per_entry(x: Any, axis: Axis, correction: float) -> float:
    """1 / (n - correction); NaN where that leaves nothing to divide by."""
    n = count(tuple(x.shape), axis)
    return 1 / (n - correction) if n > correction else math.nan


def _var(xp: Any, x: Any, axis: Axis, keepdims: bool, correction: float) -> Any:
    axes, held = normalise_axes("var", axis, x.ndim), wide(x)
    n = count(x.shape, axes)
    off = held - xp.sum(held, axis=axes, keepdims=True) / n if n else held
    variance = xp.sum(off * off, axis=axes, keepdims=keepdims) * _per_entry(x, axes, correction)
    return variance.astype(x.dtype, copy=False)


def _var_slope(x: Any, axis: Axis, correction: float) -> Any:
    return 2 * _per_entry(x, axis, correction) * (x - mean(x, axis=axis, keepdims=True))


def _correction(name: str, correction: Any) -> None:
    if not isinstance(correction, int | float):
        raise TypeError(f"{name}: correction must be a number, got {type(correction).__name__}.")


def _var_infer(x: Spec, *, axis: Axis = None, keepdims: bool = False, correction: float = 1) -> Spec:
    _correction("var", correction)
    return _reduced("var", x, axis, keepdims)


var = row(
    "var",
    _var,
    vjp=lambda g, out, x, axis, keepdims, correction: spread(g, x, axis) * _var_slope(x, axis, correction),
    jvp=lambda t, out, x, axis, keepdims, correction: sum(
        _var_slope(x, axis, correction) * t, axis=axis, keepdims=keepdims
    ),
    saves="x",
    infer=_var_infer,
    strict=True,
    dtypes="float",
    doc="Variance over axes: the squared distances from the mean, added up and divided by n - correction. The "
    "correction is 1 (of a sample) unless given, as in PyTorch; tf.math.reduce_variance and NumPy have 0 (of the whole "
    "population). NaN where n - correction is not positive.",
)


def _std_slope(out: Any, x: Any, axis: Axis, correction: float) -> Any:
    # Where all entries are equal the slope of the variance is 0, and so that of its root is taken to be.
    return _var_slope(x, axis, correction) / (2 * spread(where(out == 0, 1, out), x, axis))


def _std_infer(x: Spec, *, axis: Axis = None, keepdims: bool = False, correction: float = 1) -> Spec:
    _correction("std", correction)
    return _reduced("std", x, axis, keepdims)


std = row(
    "std",
    lambda xp, x, axis, keepdims, correction: xp.sqrt(_var(xp, wide(x), axis, keepdims, correction)).astype(
        x.dtype, copy=False
    ),
    vjp=lambda g, out, x, axis, keepdims, correction: spread(g, x, axis) * _std_slope(out, x, axis, correction),
    jvp=lambda t, out, x, axis, keepdims, correction: sum(
        _std_slope(out, x, axis, correction) * t, axis=axis, keepdims=keepdims
    ),
    saves="out x",
    infer=_std_infer,
    strict=True,
    dtypes="float",
    doc="Standard deviation over axes, the root of var, with the same correction: 1 unless given, as in PyTorch; "
    "tf.math.reduce_std has 0. Where all entries are equal the derivative is 0, as in PyTorch; TensorFlow gives NaN.",
)


def _norm_infer(x: Spec, *, p: float = 2, axis: Axis = None, keepdims: bool = False) -> Spec:
    if p not in (1, 2, math.inf):
        raise ValueError(f"norm: p must be 1, 2 or infinity, got {p!r}. Write others out: sum(abs(x) ** p) ** (1 / p).")
    result = _reduced("norm", x, axis, keepdims)
    if p == math.inf and count(x.shape, axis) == 0:
        raise ValueError(
            f"norm: a tensor of shape {x.shape} has no entries along axis {axis}, and the largest of nothing is not "
            "defined."
        )
    return result


def _norm(xp: Any, x: Any, p: float, axis: Axis, keepdims: bool) -> Any:
    axes, held = normalise_axes("norm", axis, x.ndim), xp.abs(wide(x))
    if p == 1:
        result = xp.sum(held, axis=axes, keepdims=keepdims)
    elif p == 2:
        result = xp.sqrt(xp.sum(held * held, axis=axes, keepdims=keepdims))
    else:
        result = xp.max(held, axis=axes, keepdims=keepdims)
    return result.astype(x.dtype, copy=False)


def _norm_slope(out: Any, x: Any, p: float, axis: Axis) -> Any:
    if p == 1:
        return sign(x)
    whole = spread(out, x, axis)
    if p == 2:
        return x / where(whole == 0, 1, whole)
    tied = cast(abs(x) == whole, dtype=accumulator(x.dtype))
    return cast(tied / sum(tied, axis=axis, keepdims=True), dtype=x.dtype) * sign(x)


norm = row(
    "norm",
    _norm,
    vjp=lambda g, out, x, p, axis, keepdims: spread(g, x, axis) * _norm_slope(out, x, p, axis),
    jvp=lambda t, out, x, p, axis, keepdims: sum(_norm_slope(out, x, p, axis) * t, axis=axis, keepdims=keepdims),
    saves="out x",
    infer=_norm_infer,
    strict=True,
    dtypes="float",
    doc="Vector norm over axes, of all entries unless given: the sum of absolute values (p = 1), the root of the sum "
    "of squares (2), the largest absolute value (infinity). At 0 the derivative is 0, as in PyTorch; TensorFlow gives "
    "NaN for p = 2. Two axes make one vector, as in torch.linalg.vector_norm; tf.norm takes them for a matrix.",
)
