"""Export rules for rows that work entry by entry."""

from __future__ import annotations

import math

import numpy as np

from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import rule, same
from internals.graph import Node

same(
    sub="Sub", div="Div", pow="Pow", neg="Neg", sign="Sign", reciprocal="Reciprocal", exp="Exp", log="Log", sqrt="Sqrt",
    sin="Sin", cos="Cos", tanh="Tanh", sigmoid="Sigmoid", softplus="Softplus", erf="Erf", softsign="Softsign",
    tan="Tan", asin="Asin", acos="Acos", atan="Atan", sinh="Sinh", cosh="Cosh", asinh="Asinh", acosh="Acosh",
    atanh="Atanh", clone="Identity", stop_gradient="Identity",
)  # fmt: skip

_ON_BOOLEANS = {
    "add": ("Add", "Or"),
    "mul": ("Mul", "And"),
    "maximum": ("Max", "Or"),
    "minimum": ("Min", "And"),
    "abs": ("Abs", "Identity"),
}


@rule(*_ON_BOOLEANS)
def _arithmetic(b: Builder, node: Node, *inputs: Value) -> Name:
    return b.op(_ON_BOOLEANS[node.op.name][inputs[0].dtype.kind == "b"], *inputs)


_ROUNDED = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}


@rule(*_ROUNDED)
def _rounded(b: Builder, node: Node, x: Value) -> Name:
    return b.op(_ROUNDED[node.op.name] if x.is_float else "Identity", x)


@rule("trunc")
def _trunc(b: Builder, node: Node, x: Value) -> Name:
    if not x.is_float:
        return b.op("Identity", x)
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))


@rule("relu")
def _relu(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Relu", x) if x.is_float else b.op("Max", x, b.like(0, x))


@rule("square")
def _square(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Mul", x, x)


@rule("rsqrt")
def _rsqrt(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Reciprocal", b.op("Sqrt", x))


@rule("expm1")
def _expm1(b: Builder, node: Node, x: Value) -> Name:
    # tanh(x / 2) (exp(x) + 1), where exp(x) - 1 would lose the digits of a small x.
    return b.op("Mul", b.op("Tanh", b.op("Mul", x, b.like(0.5, x))), b.op("Add", b.op("Exp", x), b.like(1, x)))


@rule("log1p")
def _log1p(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Log", b.op("Add", x, b.like(1, x)))


@rule("log2", "log10")
def _log_to_base(b: Builder, node: Node, x: Value) -> Name:
    base = {"log2": 2, "log10": 10}[node.op.name]
    return b.op("Mul", b.op("Log", x), b.like(1 / math.log(base), x))


@rule("exp2")
def _exp2(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Pow", b.like(2, x), x)


@rule("clip")
def _clip(b: Builder, node: Node, x: Value) -> Name:
    low, high = node.attrs["low"], node.attrs["high"]
    if x.dtype != node.dtype:  # integers with a bound that is none
        x = Value(b.cast(x, node.dtype), x.shape, node.dtype)
    if low is None and high is None:
        return b.op("Identity", x)
    # Not Clip alone: with bounds the wrong way round it is undefined there, and the upper one here.
    if low is not None and high is not None and low <= high and x.is_float:
        return b.op("Clip", x, b.like(low, x), b.like(high, x))
    found: Value | Name = x
    if low is not None:
        found = b.op("Max", found, b.like(low, x))
    if high is not None:
        found = b.op("Min", found, b.like(high, x))
    return found if isinstance(found, str) else found.name


@rule("clamp")
def _clamp(b: Builder, node: Node, x: Value, low: Value, high: Value) -> Name:
    return b.op("Min", b.op("Max", x, low), high)


@rule("where")
def _where(b: Builder, node: Node, condition: Value, x: Value, y: Value) -> Name:
    return b.op("Where", _truth(b, condition), x, y)


def _truth(b: Builder, x: Value) -> Value | Name:
    return x if x.dtype.kind == "b" else b.cast(x, bool)


_COMPARED = {
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}


@rule(*_COMPARED, "not_equal")
def _compared(b: Builder, node: Node, *inputs: Value) -> Name:
    operator = _COMPARED.get(node.op.name, "Equal")
    sides = [b.cast(x, np.int32) if x.dtype.kind == "b" and operator != "Equal" else x for x in inputs]
    found = b.op(operator, *sides)
    return b.op("Not", found) if node.op.name == "not_equal" else found


_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_not": "Not"}


@rule(*_LOGIC)
def _logic(b: Builder, node: Node, *inputs: Value) -> Name:
    return b.op(_LOGIC[node.op.name], *[_truth(b, x) for x in inputs])


@rule("isnan", "isinf", "isfinite")
def _kind_of_number(b: Builder, node: Node, x: Value) -> Name:
    if not x.is_float:  # an integer is always one
        all_true = b.op("Equal", x, x)
        return all_true if node.op.name == "isfinite" else b.op("Not", all_true)
    if node.op.name == "isnan":
        return b.op("IsNaN", x)
    # IsInf takes all floating numbers from operator set 20 on only.
    endless = b.op("Equal", b.op("Abs", x), b.like(math.inf, x))
    return endless if node.op.name == "isinf" else b.op("Not", b.op("Or", b.op("IsNaN", x), endless))


@rule("cast")
def _cast(b: Builder, node: Node, x: Value) -> Name:
    return b.cast(x, node.dtype)


@rule("zeros_like", "ones_like")
def _constant_like(b: Builder, node: Node, x: Value) -> Name:
    return b.filled(b.op("Shape", x), int(node.op.name == "ones_like"), x.dtype)


# Activations that are several operators


@rule("gelu")
def _gelu(b: Builder, node: Node, x: Value) -> Name:
    if b.opset >= 20:
        return b.op("Gelu", x)
    phi = b.op("Add", b.op("Erf", b.op("Mul", x, b.like(math.sqrt(0.5), x))), b.like(1, x))
    return b.op("Mul", b.op("Mul", x, b.like(0.5, x)), phi)


@rule("gelu_tanh")
def _gelu_tanh(b: Builder, node: Node, x: Value) -> Name:
    if b.opset >= 20:
        return b.op("Gelu", x, approximate="tanh")
    cube = b.op("Mul", b.op("Mul", b.op("Mul", x, x), x), b.like(0.044715, x))
    inner = b.op("Mul", b.op("Add", x, cube), b.like(math.sqrt(2 / math.pi), x))
    return b.op("Mul", b.op("Mul", x, b.like(0.5, x)), b.op("Add", b.op("Tanh", inner), b.like(1, x)))


@rule("gelu_slope")
def _gelu_slope(b: Builder, node: Node, x: Value) -> Name:
    below = b.op(
        "Mul", b.op("Add", b.op("Erf", b.op("Mul", x, b.like(math.sqrt(0.5), x))), b.like(1, x)), b.like(0.5, x)
    )
    bell = b.op("Exp", b.op("Mul", b.op("Mul", x, x), b.like(-0.5, x)))
    return b.op("Add", below, b.op("Mul", b.op("Mul", x, bell), b.like(1 / math.sqrt(2 * math.pi), x)))


@rule("silu")
def _silu(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Mul", x, b.op("Sigmoid", x))


@rule("leaky_relu")
def _leaky_relu(b: Builder, node: Node, x: Value) -> Name:
    return b.op("LeakyRelu", x, alpha=float(node.attrs["slope"]))


@rule("elu")
def _elu(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Elu", x, alpha=float(node.attrs["alpha"]))


# Functions of two


@rule("hypot")
def _hypot(b: Builder, node: Node, x: Value, y: Value) -> Name:
    # Scaled by the larger, so that squares do not overflow; where both are 0 there is nothing to scale.
    one, two, endless = b.op("Abs", x), b.op("Abs", y), b.like(math.inf, x)
    large, small = b.op("Max", one, two), b.op("Min", one, two)
    none = b.op("Equal", large, b.like(0, x))
    part = b.op("Div", small, b.op("Where", none, b.like(1, x), large))
    found = b.op("Mul", large, b.op("Sqrt", b.op("Add", b.op("Mul", part, part), b.like(1, x))))
    # One that is infinite is enough, whatever the other.
    either = b.op("Or", b.op("Equal", one, endless), b.op("Equal", two, endless))
    return b.op("Where", either, endless, found)


@rule("atan2")
def _atan2(b: Builder, node: Node, y: Value, x: Value) -> Name:
    # In the first quadrant, where equal sides are 45 degrees though both be infinite; then in its own.
    up, along = b.op("Abs", y), b.op("Abs", x)
    slope = b.op("Where", b.op("Equal", up, along), b.op("Sign", along), b.op("Div", up, along))
    angle = b.op("Atan", slope)
    turned = b.op("Where", _negative(b, x), b.op("Sub", b.like(math.pi, x), angle), angle)
    # A product keeps the sign of a zero; onnxruntime's Where does not.
    return b.op("Mul", turned, b.op("Where", _negative(b, y), b.like(-1, y), b.like(1, y)))


def _negative(b: Builder, x: Value) -> Name:
    """Which numbers have the sign; -0 has, and its reciprocal tells."""
    zero = b.like(0, x)
    return b.op("Or", b.op("Less", x, zero), b.op("Less", b.op("Reciprocal", x), zero))


@rule("floor_divide")
def _floor_divide(b: Builder, node: Node, x: Value, y: Value) -> Name:
    if not x.is_float:
        return b.op("Div", b.op("Sub", x, b.op("Mod", x, y)), y)
    rest, moves = _rest(b, x, y)
    whole = b.op("Round", b.op("Div", b.op("Sub", x, rest), y))
    return b.op(
        "Where",
        b.op("Equal", y, b.like(0, y)),
        b.op("Div", x, y),
        b.op("Where", moves, b.op("Sub", whole, b.like(1, x)), whole),
    )


@rule("remainder")
def _remainder(b: Builder, node: Node, x: Value, y: Value) -> Name:
    if not x.is_float:
        return b.op("Mod", x, y)
    rest, moves = _rest(b, x, y)
    return b.op("Where", moves, b.op("Add", rest, y), rest)


def _rest(b: Builder, x: Value, y: Value) -> tuple[Name, Name]:
    """What is left of x, of the sign of x as Mod has it; and whether that of y is the other, so that one y more is."""
    rest, zero = b.op("Mod", x, y, fmod=1), b.like(0, x)
    differs = b.op("Xor", b.op("Less", rest, zero), b.op("Less", y, zero))
    return rest, b.op("And", differs, b.op("Not", b.op("Equal", rest, zero)))


@rule("logaddexp")
def _logaddexp(b: Builder, node: Node, x: Value, y: Value) -> Name:
    # Where both are the same, which may be infinite, their difference is taken to be 0.
    apart = b.op("Where", b.op("Equal", x, y), b.like(0, x), b.op("Abs", b.op("Sub", x, y)))
    rest = b.op("Log", b.op("Add", b.op("Exp", b.op("Neg", apart)), b.like(1, x)))
    return b.op("Add", b.op("Max", x, y), rest)


@rule("lerp")
def _lerp(b: Builder, node: Node, x: Value, y: Value, weight: Value) -> Name:
    step, one = b.op("Sub", y, x), b.like(1, x)
    from_y = b.op("Sub", y, b.op("Mul", step, b.op("Sub", one, weight)))
    nearer = b.op("Less", b.op("Abs", weight), b.like(0.5, weight))
    return b.op("Where", nearer, b.op("Add", x, b.op("Mul", weight, step)), from_y)
