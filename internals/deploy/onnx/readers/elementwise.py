"""Import rules for operators that work entry by entry."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from internals import ops
from internals.deploy.errors import FormatError
from internals.deploy.onnx.readers.table import READERS, Call, known, reads
from internals.ops.spec import as_dtype, is_floating

_SAME: dict[str, Callable[..., Any]] = {
    "Neg": ops.neg, "Sign": ops.sign, "Reciprocal": ops.reciprocal, "Exp": ops.exp, "Log": ops.log, "Sqrt": ops.sqrt,
    "Sin": ops.sin, "Cos": ops.cos, "Tan": ops.tan, "Asin": ops.asin, "Acos": ops.acos, "Atan": ops.atan,
    "Sinh": ops.sinh, "Cosh": ops.cosh, "Asinh": ops.asinh, "Acosh": ops.acosh, "Atanh": ops.atanh, "Tanh": ops.tanh,
    "Sigmoid": ops.sigmoid, "Softplus": ops.softplus, "Softsign": ops.softsign, "Erf": ops.erf, "Relu": ops.relu,
    "Not": ops.logical_not, "Floor": ops.floor, "Ceil": ops.ceil, "Round": ops.round, "Abs": ops.abs,
    "IsNaN": ops.isnan, "Add": ops.add, "Sub": ops.sub, "Mul": ops.mul, "And": ops.logical_and, "Or": ops.logical_or,
    "Xor": ops.not_equal, "Equal": ops.equal, "Less": ops.less, "LessOrEqual": ops.less_equal,
    "Greater": ops.greater, "GreaterOrEqual": ops.greater_equal, "Where": ops.where,
}  # fmt: skip


def _plainly(row: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, *inputs: row(*inputs)


for _kind, _row in _SAME.items():
    READERS[_kind] = _plainly(_row)


@reads("Identity")
def _identity(call: Call, x: Any) -> Any:
    return x


def as_type(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else ops.cast(x, dtype=np.dtype(dtype))


@reads("Div")
def _div(call: Call, x: Any, y: Any) -> Any:
    if is_floating(x.dtype):
        return ops.div(x, y)
    # Whole numbers, rounded towards 0.
    return as_type(ops.trunc(ops.div(as_type(x, np.float64), as_type(y, np.float64))), x.dtype)


@reads("Pow")
def _pow(call: Call, x: Any, y: Any) -> Any:
    return as_type(ops.pow(x, y), x.dtype)


@reads("Mod")
def _mod(call: Call, x: Any, y: Any) -> Any:
    if not call.get("fmod", 0):
        return ops.remainder(x, y)
    return ops.mul(ops.sign(x), ops.remainder(ops.abs(x), ops.abs(y))) if x.dtype.kind != "u" else ops.remainder(x, y)


@reads("Max", "Min", "Sum", "Mean")
def _several(call: Call, *inputs: Any) -> Any:
    row = {"Max": ops.maximum, "Min": ops.minimum}.get(call.kind, ops.add)
    found = functools.reduce(row, inputs)
    return ops.mul(found, _number(1 / len(inputs), found)) if call.kind == "Mean" else found


def _number(value: float, like: Any) -> Any:
    """A number in the dtype of a value."""
    return known(value, like.dtype)


@reads("Cast", "CastLike")
def _cast(call: Call, x: Any, like: Any = None) -> Any:
    dtype = like.dtype if like is not None else numpy_type(call.get("to"))
    return as_type(x, dtype)


def numpy_type(code: int) -> np.dtype:
    """The dtype of one of ONNX's codes for the types of entries.

    Raises
    ------
    FormatError
        Arrays here have no such entries.
    """
    if code not in TYPES:
        raise FormatError(f"it has entries of ONNX's type {code}, which arrays here have not")
    return as_dtype("from_onnx", TYPES[code])


TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip


@reads("IsInf")
def _isinf(call: Call, x: Any) -> Any:
    found = ops.isinf(x)
    if not call.get("detect_negative", 1):
        found = ops.logical_and(found, ops.greater(x, _number(0, x)))
    if not call.get("detect_positive", 1):
        found = ops.logical_and(found, ops.less(x, _number(0, x)))
    return found


@reads("Clip")
def _clip(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    if call.opset < 11:
        low, high = ((None if v is None else _number(v, x)) for v in (call.get("min"), call.get("max")))
    if all(one is None or isinstance(one, np.ndarray) for one in (low, high)):
        bounds: dict[str, Any] = {
            name: None if v is None else np.asarray(v).item() for name, v in (("low", low), ("high", high))
        }
        if low is None and high is None:
            return x
        both = bounds["low"] is not None and bounds["high"] is not None
        if not both or bounds["low"] <= bounds["high"]:
            return ops.clip(x, **bounds)
    x = x if low is None else ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


# Activations


@reads("Gelu")
def _gelu(call: Call, x: Any) -> Any:
    return ops.gelu_tanh(x) if call.get("approximate", "none") == "tanh" else ops.gelu(x)


@reads("LeakyRelu")
def _leaky_relu(call: Call, x: Any) -> Any:
    return ops.leaky_relu(x, slope=call.get("alpha", 0.01))


@reads("PRelu")
def _prelu(call: Call, x: Any, slope: Any) -> Any:
    return ops.where(ops.less(x, _number(0, x)), ops.mul(x, slope), x)


@reads("Elu")
def _elu(call: Call, x: Any) -> Any:
    return ops.elu(x, alpha=call.get("alpha", 1.0))


@reads("Selu")
def _selu(call: Call, x: Any) -> Any:
    gamma = call.get("gamma", 1.0507010221481323)
    return ops.mul(ops.elu(x, alpha=call.get("alpha", 1.6732631921768188)), _number(gamma, x))


@reads("Celu")
def _celu(call: Call, x: Any) -> Any:
    alpha = call.get("alpha", 1.0)
    return (
        ops.mul(ops.elu(ops.mul(x, _number(1 / alpha, x)), alpha=1.0), _number(alpha, x))
        if alpha < 0
        else ops.add(
            ops.relu(x),
            ops.minimum(ops.mul(ops.expm1(ops.mul(x, _number(1 / alpha, x))), _number(alpha, x)), _number(0, x)),
        )
    )


@reads("ThresholdedRelu")
def _thresholded_relu(call: Call, x: Any) -> Any:
    return ops.where(ops.greater(x, _number(call.get("alpha", 1.0), x)), x, _number(0, x))


@reads("HardSigmoid")
def _hard_sigmoid(call: Call, x: Any) -> Any:
    line = ops.add(ops.mul(x, _number(call.get("alpha", 0.2), x)), _number(call.get("beta", 0.5), x))
    return ops.clip(line, low=0.0, high=1.0)


@reads("HardSwish")
def _hard_swish(call: Call, x: Any) -> Any:
    line = ops.add(ops.mul(x, _number(1 / 6, x)), _number(0.5, x))
    return ops.mul(x, ops.clip(line, low=0.0, high=1.0))


@reads("Mish")
def _mish(call: Call, x: Any) -> Any:
    return ops.mul(x, ops.tanh(ops.softplus(x)))


@reads("Swish")
def _swish(call: Call, x: Any) -> Any:
    alpha = call.get("alpha", 1.0)
    return ops.silu(x) if alpha == 1 else ops.mul(x, ops.sigmoid(ops.mul(x, _number(alpha, x))))


@reads("Shrink")
def _shrink(call: Call, x: Any) -> Any:
    bias, edge = call.get("bias", 0.0), call.get("lambd", 0.5)
    kind = x.dtype
    x = x if is_floating(kind) else as_type(x, np.float32)
    low = ops.where(ops.less(x, _number(-edge, x)), ops.add(x, _number(bias, x)), _number(0, x))
    return as_type(ops.where(ops.greater(x, _number(edge, x)), ops.sub(x, _number(bias, x)), low), kind)


@reads("Dropout")
def _dropout(call: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    rate = 0.5 if ratio is None else float(call.known(ratio, "ratio"))
    if training is not None and bool(call.known(training, "training mode")) and rate:
        raise call.refuse("it is in training mode and draws random numbers; a model that is read only evaluates")
    return [x, ops.equal(ops.zeros_like(x), ops.zeros_like(x))][: max(call.outputs, 1)]
