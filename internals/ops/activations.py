"""Activation functions beyond relu, sigmoid and tanh, and the error function that one of them is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from internals.ops.elementwise import abs, clip, exp, sigmoid, tanh, unary, where
from internals.ops.reduce import wide
from internals.ops.spec import Spec, is_floating
from internals.ops.table import row

# Rational approximations of erf(x) / x for |x| <= 1/2, in x * x, and of erfc(x) exp(x * x) above, in x; highest power
# first (W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23, 1969).
_NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_FAR = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)


# erf(x) / x for |x| <= 4 in x * x, lowest power first: fitted by weighted least squares, relative error 2.5e-8.
# One ratio for all x is what float32 can use: 3 times as fast, and within 5e-7.
_SINGLE = (
    (1.1283791065216064, 0.1935398429632187, 0.05310104414820671, 0.0038831159472465515, 0.00028456002473831177,
     1.9868136860168306e-06),
    (1.0, 0.5048527717590332, 0.11534783244132996, 0.015206797048449516, 0.0011855142656713724, 3.7420191802084446e-05),
)  # fmt: skip

BLOCK = 1 << 14
"""How many entries a long formula takes at once on the cpu, so that what is between its steps stays in the cache."""


def in_blocks(kernel: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An element-wise kernel of many steps, run block by block on the cpu."""

    def blockwise(xp: Any, x: Any) -> Any:
        if xp is not np or not isinstance(x, np.ndarray) or x.size <= BLOCK:
            return kernel(xp, x)
        flat, out = np.ravel(x), np.empty(x.size, x.dtype)
        for start in range(0, x.size, BLOCK):
            out[start : start + BLOCK] = kernel(xp, flat[start : start + BLOCK])
        return np.reshape(out, x.shape)

    return blockwise


def _ratio(x: Any, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Any:
    above, below = coefficients
    top, bottom = x * above[0], x * below[0]
    for a, b in zip(above[1:-1], below[1:-1], strict=True):
        top, bottom = (top + a) * x, (bottom + b) * x
    return (top + above[-1]) / (bottom + below[-1])


def _single_erf(xp: Any, x: Any) -> Any:
    x = xp.clip(x, -4, 4)
    square = x * x
    (*above, top), (*below, bottom) = _SINGLE
    top, bottom = top * square, bottom * square
    for a, b in zip(above[:0:-1], below[:0:-1], strict=True):
        top += a
        top *= square
        bottom += b
        bottom *= square
    return xp.clip(x * (top + above[0]) / (bottom + below[0]), -1, 1)


def _erf(xp: Any, x: Any) -> Any:
    x, dtype = wide(x) if hasattr(x, "dtype") else x, getattr(x, "dtype", None)
    if dtype is not None and x.dtype == np.float32:
        return _single_erf(xp, x).astype(dtype, copy=False)
    # From 6 on erf is 1 to the last digit, and x * x must not overflow.
    size = xp.minimum(xp.abs(x), 6)
    near = x * _ratio(size * size, _NEAR)
    far = xp.copysign(1 - xp.exp(-size * size) * _ratio(size, _FAR), x)
    result = xp.where(size <= 0.5, near, far)
    return result if dtype is None or not is_floating(dtype) else result.astype(dtype, copy=False)


erf = unary(
    "erf",
    in_blocks(_erf),
    vjp=lambda g, out, x: g * (2 / math.sqrt(math.pi)) * exp(-x * x),
    saves="x",
    dtypes="float",
    expr="erf({0})",
    doc="Error function: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.",
)


# atanh(erf(x / sqrt(2))) / x in x * x, lowest power first, fitted by weighted least squares: in float32 it gives
# the normal distribution to 1e-7 with one tanh.
_NORMAL = (
    *(0.7978849411010742, 0.03633308410644531, -3.259471486671828e-05, -5.530640555662103e-05),
    *(3.964801635447657e-06, -1.322695339922575e-07, 1.7563954735067e-09),
)


def _normal_below(xp: Any, x: Any) -> Any:
    """How much of the standard normal distribution lies below x."""
    if getattr(x, "dtype", None) != np.float32:
        return 0.5 * (1 + _erf(xp, x * math.sqrt(0.5)))
    near = xp.clip(x, -6, 6)  # from where on the tanh is 1
    square = near * near
    inner = _NORMAL[-1] * square
    for coefficient in _NORMAL[-2:0:-1]:
        inner += coefficient
        inner *= square
    inner += _NORMAL[0]
    inner *= near
    inner = xp.tanh(inner)
    inner += 1
    inner *= 0.5
    return inner


def _normal_at(xp: Any, x: Any) -> Any:
    """The density of the standard normal distribution."""
    return xp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


gelu_slope = unary(
    "gelu_slope",
    in_blocks(lambda xp, x: _normal_below(xp, x) + x * _normal_at(xp, x)),
    vjp=lambda g, out, x: g * (2 - x * x) * exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi)),
    saves="x",
    dtypes="float",
    expr="0.5 * (1 + erf({0} * 0.70710678118654752440)) + {0} * exp(-0.5 * {0} * {0}) * 0.39894228040143267794",
    doc="The derivative of gelu, as one row: the share of the standard normal distribution below x, and x times its "
    "density. Frameworks have it inside gelu's backward pass.",
)

gelu = unary(
    "gelu",
    in_blocks(lambda xp, x: x * _normal_below(xp, x)),
    vjp=lambda g, out, x: g * gelu_slope(x),
    saves="x",
    dtypes="float",
    expr="0.5 * {0} * (1 + erf({0} * 0.70710678118654752440))",
    doc="x times the share of the standard normal distribution below x (Hendrycks & Gimpel 2016). The exact form, the "
    "default of torch.nn.functional.gelu, tf.nn.gelu and Keras alike; gelu_tanh is the approximate one.",
)

_SLOPE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _gelu_tanh(xp: Any, x: Any) -> Any:
    # Beyond 20 the tanh is 1 to the last digit, and x * x * x would overflow float16.
    near = xp.clip(x, -20, 20)
    return 0.5 * x * (1 + xp.tanh(_SLOPE * (near + _CUBIC * near * near * near)))


def _gelu_tanh_vjp(g: Any, out: Any, x: Any) -> Any:
    near = clip(x, -20, 20)
    t = tanh(_SLOPE * (near + _CUBIC * near * near * near))
    return g * 0.5 * (1 + t + near * (1 - t * t) * _SLOPE * (1 + 3 * _CUBIC * near * near))


gelu_tanh = unary(
    "gelu_tanh",
    in_blocks(_gelu_tanh),
    vjp=_gelu_tanh_vjp,
    saves="x",
    dtypes="float",
    expr="0.5 * {0} * (1 + tanh(0.79788456080286535588 * ({0} + 0.044715 * {0} * {0} * {0})))",
    doc="gelu with a tanh in place of the normal distribution, the form that GPT-2 was trained with: PyTorch's and "
    "TensorFlow's gelu with approximate='tanh' and approximate=True.",
)


def _silu_vjp(g: Any, out: Any, x: Any) -> Any:
    s = sigmoid(x)
    return g * s * (1 + x * (1 - s))


silu = unary(
    "silu",
    lambda xp, x: x * sigmoid.kernel(xp, x),
    vjp=_silu_vjp,
    saves="x",
    dtypes="float",
    expr="({0} >= 0 ? {0} / (1 + exp(-{0})) : {0} * exp({0}) / (1 + exp({0})))",
    doc="x * sigmoid(x), also called swish.",
)

softsign = unary(
    "softsign",
    lambda xp, x: x / (1 + xp.abs(x)),
    vjp=lambda g, out, x: g / (1 + abs(x)) / (1 + abs(x)),
    saves="x",
    dtypes="float",
    expr="{0} / (1 + fabs({0}))",
    doc="x / (1 + abs(x)).",
)


def _number(name: str, attr: str, value: Any) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"{name}: {attr} must be a number, got {type(value).__name__}.")


def _leaky_relu_infer(x: Spec, *, slope: float = 0.01) -> Spec:
    _number("leaky_relu", "slope", slope)
    return x


leaky_relu = row(
    "leaky_relu",
    lambda xp, x, slope: xp.where(x > 0, x, slope * x),
    vjp=lambda g, out, x, slope: where(x > 0, g, slope * g),
    jvp="symmetric",
    saves="x",
    infer=_leaky_relu_infer,
    strict=True,
    dtypes="float",
    expr="({0} > 0 ? {0} : {slope} * {0})",
    doc="x where it is positive, else slope * x; the derivative at 0 is the slope. The slope is 0.01 unless given, as "
    "in PyTorch; TensorFlow has 0.2.",
)


def _elu_infer(x: Spec, *, alpha: float = 1.0) -> Spec:
    _number("elu", "alpha", alpha)
    return x


elu = row(
    "elu",
    lambda xp, x, alpha: xp.where(x > 0, x, alpha * xp.expm1(xp.minimum(x, 0))),
    # The inner where keeps exp from overflowing in the branch that is not taken.
    vjp=lambda g, out, x, alpha: where(x > 0, g, g * alpha * exp(where(x > 0, 0, x))),
    jvp="symmetric",
    saves="x",
    infer=_elu_infer,
    strict=True,
    dtypes="float",
    expr="({0} > 0 ? {0} : {alpha} * expm1({0}))",
    doc="x where it is positive, else alpha * (exp(x) - 1).",
)
