"""More element-wise functions: trigonometric, hyperbolic, and of two or three variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.elementwise import elementwise, sigmoid, sqrt, unary, where, zeros_like
from internals.ops.spec import Spec, broadcast_shapes
from internals.ops.table import row

LN_2, LN_10 = float(np.log(2)), float(np.log(10))

tan = unary(
    "tan",
    "tan",
    vjp=lambda g, out, x: g * (1 + out * out),
    saves="out",
    dtypes="float",
    expr="tan({0})",
    doc="Tangent; x in radians.",
)

asin = unary(
    "asin",
    "arcsin",
    vjp=lambda g, out, x: g / sqrt((1 - x) * (1 + x)),
    saves="x",
    dtypes="float",
    expr="asin({0})",
    doc="Angle between -pi/2 and pi/2 whose sine is x; NaN outside -1 to 1. The derivative at -1 and 1 is infinite.",
)

acos = unary(
    "acos",
    "arccos",
    vjp=lambda g, out, x: -g / sqrt((1 - x) * (1 + x)),
    saves="x",
    dtypes="float",
    expr="acos({0})",
    doc="Angle between 0 and pi whose cosine is x; NaN outside -1 to 1. The derivative at -1 and 1 is infinite.",
)

atan = unary(
    "atan",
    "arctan",
    vjp=lambda g, out, x: g / (1 + x * x),
    saves="x",
    dtypes="float",
    expr="atan({0})",
    doc="Angle between -pi/2 and pi/2 whose tangent is x.",
)

sinh = unary(
    "sinh",
    "sinh",
    vjp=lambda g, out, x: g * cosh(x),
    saves="x",
    dtypes="float",
    expr="sinh({0})",
    doc="Hyperbolic sine.",
)

cosh = unary(
    "cosh",
    "cosh",
    vjp=lambda g, out, x: g * sinh(x),
    saves="x",
    dtypes="float",
    expr="cosh({0})",
    doc="Hyperbolic cosine.",
)

asinh = unary(
    "asinh",
    "arcsinh",
    vjp=lambda g, out, x: g / hypot(x, 1),
    saves="x",
    dtypes="float",
    expr="asinh({0})",
    doc="Inverse of sinh.",
)

acosh = unary(
    "acosh",
    "arccosh",
    vjp=lambda g, out, x: g / (sqrt(x - 1) * sqrt(x + 1)),
    saves="x",
    dtypes="float",
    expr="acosh({0})",
    doc="The inverse of cosh that is not negative; NaN below 1. The derivative at 1 is infinite.",
)

atanh = unary(
    "atanh",
    "arctanh",
    vjp=lambda g, out, x: g / ((1 - x) * (1 + x)),
    saves="x",
    dtypes="float",
    expr="atanh({0})",
    doc="Inverse of tanh; infinite at -1 and 1, NaN outside.",
)

log2 = unary(
    "log2",
    "log2",
    vjp=lambda g, out, x: g / (x * LN_2),
    saves="x",
    dtypes="float",
    expr="log2({0})",
    doc="Logarithm to base 2.",
)

log10 = unary(
    "log10",
    "log10",
    vjp=lambda g, out, x: g / (x * LN_10),
    saves="x",
    dtypes="float",
    expr="log10({0})",
    doc="Logarithm to base 10.",
)

exp2 = unary(
    "exp2",
    "exp2",
    vjp=lambda g, out, x: g * out * LN_2,
    saves="out",
    dtypes="float",
    expr="exp2({0})",
    doc="2 to the power of x.",
)

trunc = unary(
    "trunc",
    "trunc",
    vjp=lambda g, out, x: zeros_like(g),
    expr="trunc({0})",
    doc="The integer part, x rounded towards 0; its derivative is 0 everywhere.",
)

isinf = unary(
    "isinf",
    "isinf",
    vjp=None,
    dtypes="compare",
    expr="{0} == {0} && {0} - {0} != 0",
    doc="Is inf or -inf.",
)

isfinite = unary(
    "isfinite",
    "isfinite",
    vjp=None,
    dtypes="compare",
    expr="{0} - {0} == 0",
    doc="Is neither infinite nor NaN.",
)

hypot = elementwise(
    "hypot",
    "hypot",
    vjp=(lambda g, out, x, y: g * (x / out), lambda g, out, x, y: g * (y / out)),
    saves=("out x", "out y"),
    dtypes="float",
    expr="hypot({0}, {1})",
    doc="sqrt(x * x + y * y), without overflow. The derivative where both are 0 is NaN.",
)


def _atan2_infer(y: Spec, x: Spec) -> Spec:
    return Spec(broadcast_shapes("atan2", y.shape, x.shape), y.dtype)


atan2 = row(
    "atan2",
    "arctan2",
    vjp=(
        lambda g, out, y, x: g * (x / hypot(x, y)) / hypot(x, y),
        lambda g, out, y, x: -g * (y / hypot(x, y)) / hypot(x, y),
    ),
    jvp="symmetric",
    saves="y x",
    infer=_atan2_infer,
    dtypes="float",
    broadcasts=True,
    expr="atan2({0}, {1})",
    doc="Angle from the positive x axis to the point (x, y), between -pi and pi. The derivative at the origin is NaN.",
)


def _checked(name: str, kernel: str) -> Any:
    """The kernel of that name, for which the entries of `y` that are whole numbers are not 0."""

    def run(xp: Any, x: Any, y: Any) -> Any:
        if xp is np and np.result_type(x, y).kind in "iu" and not np.all(y):
            raise ValueError(f"{name}: an integer was divided by 0. Divide by something else, or cast to a float.")
        return getattr(xp, kernel)(x, y)

    return run


floor_divide = elementwise(
    "floor_divide",
    _checked("floor_divide", "floor_divide"),
    vjp=(lambda g, out, x, y: zeros_like(g), lambda g, out, x, y: zeros_like(g)),
    dtypes="number",
    expr="({1} == 0 ? {0} / {1} : nearbyint(({0} - fmod({0}, {1})) / {1}) - "
    "(fmod({0}, {1}) != 0 && (fmod({0}, {1}) < 0) != ({1} < 0)))",
    doc="The whole number of y in x, rounded down, as Python's //, torch.floor_divide and tf.math.floordiv have it; "
    "its derivative is 0 everywhere, as that of torch.div(x, y, rounding_mode='floor'). Integers are not divided by 0.",
)

remainder = elementwise(
    "remainder",
    _checked("remainder", "remainder"),
    vjp=(lambda g, out, x, y: g, lambda g, out, x, y: -g * floor_divide(x, y)),
    saves=("", "x y"),
    dtypes="number",
    expr="(fmod({0}, {1}) != 0 && (fmod({0}, {1}) < 0) != ({1} < 0) ? fmod({0}, {1}) + {1} : fmod({0}, {1}))",
    doc="What is left of x after taking away a whole number of y: x - x // y * y, of the sign of y, as Python's "
    "%, torch.remainder and tf.math.floormod have it; C's fmod has the sign of x. Integers are not divided by 0.",
)

logaddexp = elementwise(
    "logaddexp",
    "logaddexp",
    vjp=(lambda g, out, x, y: g * sigmoid(x - y), lambda g, out, x, y: g * sigmoid(y - x)),
    saves="x y",
    dtypes="float",
    expr="({0} == {1} ? {0} + log(2.) : fmax({0}, {1}) + log1p(exp(-fabs({0} - {1}))))",
    doc="log(exp(x) + exp(y)), without overflow. The derivative where both are -inf is NaN, as in PyTorch and "
    "TensorFlow; logsumexp has 0 there.",
)


def _lerp_infer(x: Spec, y: Spec, weight: Spec) -> Spec:
    return Spec(broadcast_shapes("lerp", x.shape, y.shape, weight.shape), x.dtype)


def _lerp(xp: Any, x: Any, y: Any, weight: Any) -> Any:
    step = y - x
    # From the nearer end, so that a weight of 1 gives y itself.
    return xp.where(xp.abs(weight) < 0.5, x + weight * step, y - step * (1 - weight))


lerp = row(
    "lerp",
    _lerp,
    vjp=(
        lambda g, out, x, y, weight: g * (1 - weight),
        lambda g, out, x, y, weight: g * weight,
        lambda g, out, x, y, weight: g * (y - x),
    ),
    jvp="symmetric",
    saves=("weight", "weight", "x y"),
    infer=_lerp_infer,
    dtypes="float",
    broadcasts=True,
    expr="(fabs({2}) < 0.5 ? {0} + {2} * ({1} - {0}) : {1} - ({1} - {0}) * (1 - {2}))",
    doc="From x to y by a weight: x + weight * (y - x), exactly x at 0 and exactly y at 1. The weight may lie outside "
    "0 to 1.",
)


def _clamp_infer(x: Spec, low: Spec, high: Spec) -> Spec:
    return Spec(broadcast_shapes("clamp", x.shape, low.shape, high.shape), x.dtype)


clamp = row(
    "clamp",
    lambda xp, x, low, high: xp.minimum(xp.maximum(x, low), high),
    vjp=(
        lambda g, out, x, low, high: where((x >= low) & (x <= high), g, 0),
        lambda g, out, x, low, high: where((x < low) & (low < high), g, 0),
        lambda g, out, x, low, high: where((x > high) | (high < low), g, 0),
    ),
    jvp="symmetric",
    saves="x low high",
    infer=_clamp_infer,
    dtypes="promote",
    broadcasts=True,
    expr="({0} != {0} ? {0} : {1} != {1} ? {1} : {2} != {2} ? {2} : fmin(fmax({0}, {1}), {2}))",
    doc="x, kept between bounds that are tensors and broadcast: clip for bounds that are computed. An entry at a bound "
    "has the derivative 1, and the bound 0, as in PyTorch and TensorFlow; one that is outside hands its cotangent to "
    "the bound it was moved to. Where low is above high the result is high.",
)


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """x, with `value` where the boolean mask is true; shapes broadcast.

    Parameters
    ----------
    value : number, or something that broadcasts to x
        Entries that are replaced get no cotangent; a value that is a tensor gets theirs.
    """
    return where(mask, value, x)
