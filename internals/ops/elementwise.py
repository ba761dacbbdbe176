"""Element-wise rows: each entry of the result depends on one entry of each input, after broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.spec import Spec, as_arrays, as_dtype, broadcast_shapes, is_floating, promote
from internals.ops.table import Op, row


def elementwise(name: str, kernel: Any, *, dtypes: str = "promote", **columns: Any) -> Op:
    """A row whose inputs broadcast together; shape and dtype of the result follow from that."""
    if columns.pop("inputs", 2) == 1:

        def infer(x: Spec) -> Spec:
            return Spec(x.shape, bool if dtypes == "compare" else x.dtype)
    else:

        def infer(x: Spec, y: Spec) -> Spec:  # type: ignore[misc]  # the arity is what differs
            return Spec(broadcast_shapes(name, x.shape, y.shape), bool if dtypes == "compare" else x.dtype)

    jvp = None if columns.get("vjp") is None else "symmetric"
    return row(name, kernel, infer=infer, jvp=jvp, dtypes=dtypes, broadcasts=True, **columns)


def unary(name: str, kernel: Any, **columns: Any) -> Op:
    return elementwise(name, kernel, inputs=1, **columns)


# Arithmetic

add = elementwise("add", "add", vjp=(lambda g, out, x, y: g, lambda g, out, x, y: g), expr="{0} + {1}", doc="Sum.")

sub = elementwise(
    "sub",
    "subtract",
    vjp=(lambda g, out, x, y: g, lambda g, out, x, y: -g),
    dtypes="number",
    expr="{0} - {1}",
    doc="Difference.",
)

mul = elementwise(
    "mul",
    "multiply",
    vjp=(lambda g, out, x, y: g * y, lambda g, out, x, y: g * x),
    saves=("y", "x"),
    expr="{0} * {1}",
    doc="Product.",
)

div = elementwise(
    "div",
    "true_divide",
    vjp=(lambda g, out, x, y: g / y, lambda g, out, x, y: -g * x / (y * y)),
    saves=("y", "x y"),
    dtypes="float",
    expr="{0} / {1}",
    doc="Quotient. Integers divide to float32, as in PyTorch; NumPy and TensorFlow give float64.",
)


def _pow(xp: Any, x: Any, y: Any) -> Any:
    try:
        return x**y
    except ValueError as error:
        if "negative integer power" not in str(error):
            raise
        raise ValueError(
            "pow: integers to negative integer powers are not allowed, since most are no integers. Cast the base: "
            "x.to('float32')."
        ) from None


pow = elementwise(
    "pow",
    _pow,
    vjp=(
        # The inner where keeps 0**-1 away: it is infinite, and 0 times infinity is NaN.
        lambda g, out, x, y: where(y == 0, zeros_like(g), g * y * x ** where(y == 0, 1, y - 1)),
        lambda g, out, x, y: g * out * log(where((y >= 0) & (x == 0), ones_like(out), x)),
    ),
    saves=("x y", "out x y"),
    dtypes="number",
    expr="pow({0}, {1})",
    doc="Power. The derivative by x is 0 wherever the exponent is 0, also at 0**0, as in PyTorch; TensorFlow gives NaN "
    "at 0**0. The derivative by the exponent is 0 where the base is 0 and the exponent is not negative, and NaN where "
    "the base is negative, as in PyTorch; TensorFlow gives 0 there. Integers to a negative power are refused, as in "
    "TensorFlow; PyTorch gives 0.",
)

neg = unary("neg", "negative", vjp=lambda g, out, x: -g, dtypes="number", expr="-{0}", doc="Negative.")

abs = unary(
    "abs",
    "abs",
    vjp=lambda g, out, x: g * sign(x),
    saves="x",
    expr="fabs({0})",
    doc="Absolute value. The derivative at 0 is 0.",
)

sign = unary(
    "sign",
    "sign",
    vjp=lambda g, out, x: zeros_like(g),
    dtypes="number",
    expr="({0} != {0} ? {0} : ({0} > 0) - ({0} < 0))",
    doc="Sign: -1, 0 or 1; its derivative is 0 everywhere. NaN has the sign NaN, as in TensorFlow; PyTorch gives 0.",
)

square = unary(
    "square",
    "square",
    vjp=lambda g, out, x: g * 2 * x,
    saves="x",
    dtypes="number",
    expr="{0} * {0}",
    doc="x * x.",
)

reciprocal = unary(
    "reciprocal",
    lambda xp, x: 1 / x,
    vjp=lambda g, out, x: -g * out * out,
    saves="out",
    dtypes="float",
    expr="1 / {0}",
    doc="1 / x.",
)

floor = unary(
    "floor",
    "floor",
    vjp=lambda g, out, x: zeros_like(g),
    expr="floor({0})",
    doc="Largest integer not above x; its derivative is 0 everywhere.",
)

ceil = unary(
    "ceil",
    "ceil",
    vjp=lambda g, out, x: zeros_like(g),
    expr="ceil({0})",
    doc="Smallest integer not below x; its derivative is 0 everywhere.",
)

round = unary(
    "round",
    "round",
    vjp=lambda g, out, x: zeros_like(g),
    dtypes="number",
    expr="nearbyint({0})",
    doc="Nearest integer, halves to even; its derivative is 0 everywhere.",
)

# Exponentials and their kin

exp = unary(
    "exp", "exp", vjp=lambda g, out, x: g * out, saves="out", dtypes="float", expr="exp({0})", doc="Exponential."
)

expm1 = unary(
    "expm1",
    "expm1",
    vjp=lambda g, out, x: g * (out + 1),
    saves="out",
    dtypes="float",
    expr="expm1({0})",
    doc="exp(x) - 1, exact near 0.",
)

log = unary(
    "log", "log", vjp=lambda g, out, x: g / x, saves="x", dtypes="float", expr="log({0})", doc="Natural logarithm."
)

log1p = unary(
    "log1p",
    "log1p",
    vjp=lambda g, out, x: g / (1 + x),
    saves="x",
    dtypes="float",
    expr="log1p({0})",
    doc="log(1 + x), exact near 0.",
)

sqrt = unary(
    "sqrt",
    "sqrt",
    vjp=lambda g, out, x: g / (2 * out),
    saves="out",
    dtypes="float",
    expr="sqrt({0})",
    doc="Square root. The derivative at 0 is infinite and at a negative number NaN, and a zero cotangent does not "
    "hide it: where(x > 0, sqrt(x), 0) has NaN at -1, here as in PyTorch and TensorFlow. Put the where inside as "
    "well: sqrt(where(x > 0, x, 1)).",
)

rsqrt = unary(
    "rsqrt",
    lambda xp, x: 1 / xp.sqrt(x),
    vjp=lambda g, out, x: g * -0.5 * out * out * out,
    saves="out",
    dtypes="float",
    expr="1 / sqrt({0})",
    doc="1 / sqrt(x).",
)

sin = unary(
    "sin",
    "sin",
    vjp=lambda g, out, x: g * cos(x),
    saves="x",
    dtypes="float",
    expr="sin({0})",
    doc="Sine; x in radians.",
)

cos = unary(
    "cos",
    "cos",
    vjp=lambda g, out, x: -g * sin(x),
    saves="x",
    dtypes="float",
    expr="cos({0})",
    doc="Cosine; x in radians.",
)

tanh = unary(
    "tanh",
    "tanh",
    vjp=lambda g, out, x: g * (1 - out * out),
    saves="out",
    dtypes="float",
    expr="tanh({0})",
    doc="Hyperbolic tangent.",
)


def _sigmoid(xp: Any, x: Any) -> Any:
    # Half a tanh would not overflow, but lose the digits of a result near 0; 1 / infinity is the 0 that is wanted.
    with np.errstate(over="ignore"):
        return 1 / (1 + xp.exp(-x))


sigmoid = unary(
    "sigmoid",
    _sigmoid,
    vjp=lambda g, out, x: g * out * (1 - out),
    saves="out",
    dtypes="float",
    expr="({0} >= 0 ? 1 / (1 + exp(-{0})) : exp({0}) / (1 + exp({0})))",
    doc="1 / (1 + exp(-x)).",
)

softplus = unary(
    "softplus",
    lambda xp, x: xp.logaddexp(0, x),
    vjp=lambda g, out, x: g * sigmoid(x),
    saves="x",
    dtypes="float",
    expr="fmax({0}, 0) + log1p(exp(-fabs({0})))",
    doc="log(1 + exp(x)).",
)

relu = unary(
    "relu",
    lambda xp, x: xp.maximum(x, 0),
    vjp=lambda g, out, x: where(out > 0, g, 0),
    saves="out",
    dtypes="number",
    expr="({0} < 0 ? 0 : {0})",
    doc="max(x, 0). The derivative at 0 is 0; at NaN it is 0 as in TensorFlow, where PyTorch passes the cotangent on.",
)

# Choosing

maximum = elementwise(
    "maximum",
    "maximum",
    vjp=(
        lambda g, out, x, y: where(x < y, 0, where(x == y, 0.5 * g, g)),
        lambda g, out, x, y: where(x > y, 0, where(x == y, 0.5 * g, g)),
    ),
    saves="x y",
    expr="({0} >= {1} || {0} != {0} ? {0} : {1})",
    doc="The larger of two. At a tie each input gets half the cotangent, as in PyTorch; TensorFlow gives all of it to "
    "the first. Where one is NaN so is the result, and both get the whole cotangent, as in PyTorch; TensorFlow gives "
    "it to the second.",
)

minimum = elementwise(
    "minimum",
    "minimum",
    vjp=(
        lambda g, out, x, y: where(x > y, 0, where(x == y, 0.5 * g, g)),
        lambda g, out, x, y: where(x < y, 0, where(x == y, 0.5 * g, g)),
    ),
    saves="x y",
    expr="({0} <= {1} || {0} != {0} ? {0} : {1})",
    doc="The smaller of two. At a tie each input gets half the cotangent, as in PyTorch; TensorFlow gives all of it "
    "to the first.",
)


def _clip_infer(x: Spec, *, low: float | None = None, high: float | None = None) -> Spec:
    if low is None and high is None:
        raise ValueError("clip: neither low nor high was given; give at least one bound.")
    for bound in (low, high):
        if bound is not None and not isinstance(bound, bool | int | float | np.generic):
            raise TypeError(f"clip: bounds are numbers, got {type(bound).__name__}. Use clamp for bounds in tensors.")
    return Spec(x.shape, promote([x] + [bound for bound in (low, high) if bound is not None]))


def _clip(xp: Any, x: Any, low: float | None, high: float | None) -> Any:
    dtype = promote([x] + [bound for bound in (low, high) if bound is not None])
    return xp.clip(x, low, high).astype(dtype, copy=False)


clip = row(
    "clip",
    _clip,
    vjp=lambda g, out, x, low, high: where(inside(x, low, high), g, 0),
    jvp="symmetric",
    saves="x",
    infer=_clip_infer,
    strict=True,
    doc="x, kept between low and high; either may be None. The derivative is 1 at the bounds themselves, as in "
    "PyTorch and TensorFlow.",
)


def inside(x: Any, low: float | None, high: float | None) -> Any:
    """Where low <= x <= high; a bound that is None always holds."""
    if low is None:
        return x <= high
    return x >= low if high is None else (x >= low) & (x <= high)


def _where_infer(condition: Spec, x: Spec, y: Spec) -> Spec:
    if condition.dtype != np.bool_:
        raise TypeError(
            f"where: the condition must be boolean, got {condition.dtype}. Write it as a comparison: where(c != 0, x, "
            "y)."
        )
    if x.dtype != y.dtype:
        raise TypeError(f"where: x is {x.dtype} and y {y.dtype}. Cast one to the other's dtype.")
    return Spec(broadcast_shapes("where", condition.shape, x.shape, y.shape), x.dtype)


def masked(xp: Any, c: Any, x: Any) -> Any:
    """x where the condition holds, else 0.

    On the cpu the bits are multiplied by 1 or 0: NumPy's where branches at every entry, which is slow if the condition
    has no pattern.
    """
    quick = xp is np and type(x) is np.ndarray and type(c) is np.ndarray and x.size > 1000
    if quick and x.shape == c.shape and x.dtype.kind == "f":
        return (x.view(f"i{x.itemsize}") * c).view(x.dtype)
    return xp.where(c, x, 0)


def _where(xp: Any, c: Any, x: Any, y: Any) -> Any:
    c = c if hasattr(c, "dtype") else xp.asarray(c)
    if not hasattr(x, "dtype") and not hasattr(y, "dtype"):
        x, y = as_arrays(xp, (x, y))
    if type(y) is int and y == 0:
        return masked(xp, c, x)
    if type(x) is int and x == 0 and type(y) is np.ndarray:
        return masked(xp, ~c, y)
    return xp.where(c, x, y)


where = row(
    "where",
    _where,
    vjp=(None, lambda g, out, c, x, y: where(c, g, 0), lambda g, out, c, x, y: where(c, 0, g)),
    jvp="symmetric",
    saves="condition",
    infer=_where_infer,
    strict=True,
    dtypes="branches",
    broadcasts=True,
    expr="({0} ? {1} : {2})",
    doc="x where the condition holds, else y. A cotangent of 0 goes to the branch not taken; if that branch is "
    "infinite or NaN, so is 0 times its derivative (see sqrt).",
)

# Comparisons and logic: boolean results, no derivative

equal = elementwise("equal", "equal", vjp=None, dtypes="compare", expr="{0} == {1}", doc="x == y.")
not_equal = elementwise("not_equal", "not_equal", vjp=None, dtypes="compare", expr="{0} != {1}", doc="x != y.")
less = elementwise("less", "less", vjp=None, dtypes="compare", expr="{0} < {1}", doc="x < y.")
less_equal = elementwise("less_equal", "less_equal", vjp=None, dtypes="compare", expr="{0} <= {1}", doc="x <= y.")
greater = elementwise("greater", "greater", vjp=None, dtypes="compare", expr="{0} > {1}", doc="x > y.")
greater_equal = elementwise(
    "greater_equal", "greater_equal", vjp=None, dtypes="compare", expr="{0} >= {1}", doc="x >= y."
)
logical_and = elementwise("logical_and", "logical_and", vjp=None, dtypes="compare", expr="{0} && {1}", doc="Both hold.")
logical_or = elementwise(
    "logical_or", "logical_or", vjp=None, dtypes="compare", expr="{0} || {1}", doc="One or both hold."
)
logical_not = unary("logical_not", "logical_not", vjp=None, dtypes="compare", expr="!{0}", doc="Does not hold.")
isnan = unary("isnan", "isnan", vjp=None, dtypes="compare", expr="{0} != {0}", doc="Is not a number.")

# Copies


def _cast_infer(x: Spec, *, dtype: Any) -> Spec:
    result = Spec(x.shape, as_dtype("cast", dtype))
    if result.dtype.kind not in "biu" and not is_floating(result.dtype):
        raise TypeError(f"cast: {result.dtype} is not supported; expected booleans, integers or floating numbers.")
    return result


cast = row(
    "cast",
    lambda xp, x, dtype: x.astype(dtype),
    vjp=lambda g, out, x, dtype: cast(g, dtype=x.dtype),
    jvp="linear",
    infer=_cast_infer,
    strict=True,
    doc="x in another dtype. Between floating dtypes the cotangent is cast back; to an integer or boolean the "
    "derivative is lost, so the result does not require a gradient.",
)

zeros_like = unary("zeros_like", "zeros_like", vjp=None, expr="0", doc="Zeros, of x's shape and dtype.")

ones_like = unary("ones_like", "ones_like", vjp=None, expr="1", doc="Ones, of x's shape and dtype.")

clone = unary(
    "clone", lambda xp, x: x.copy(), vjp=lambda g, out, x: g, expr="{0}", doc="A copy that shares no memory with x."
)
