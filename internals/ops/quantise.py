"""Integers for reals: writing floats on a grid, reading them back, and products of integers that are exact.

``real = scale * (integer - zero_point)`` (Jacob et al. 2018, §2.1). Scale and zero point are inputs, as in ONNX's
QuantizeLinear: 0-d for a whole array, or (n,) for one per slice along `axis`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.conv import Sizes, _conv, conv2d
from internals.ops.elementwise import cast, greater_equal, less_equal, logical_and, round, sub, where
from internals.ops.reduce import sum
from internals.ops.shape import reshape
from internals.ops.spec import Shape, Spec, broadcast_shapes, is_floating, normalise_axis
from internals.ops.table import row

NARROW = (np.dtype(np.int8), np.dtype(np.uint8))
EXACT_IN_FLOAT32 = 1 << 24
"""Whole numbers up to here are exact in float32, whose product is the fastest there is: no BLAS has an integer one."""
LONGEST_SUM = (2**31 - 1) // 255**2
"""How many products of two numbers of at most 255 an int32 is sure to hold."""


def _along(value: Any, axis: int | None, ndim: int) -> Any:
    """One entry per slice, shaped so that it broadcasts against an array of `ndim` axes."""
    if axis is None or not hasattr(value, "ndim"):
        return value
    return value.reshape([-1 if i == axis % ndim else 1 for i in range(ndim)])


def _along_op(value: Any, axis: int | None, ndim: int) -> Any:
    if axis is None or not hasattr(value, "ndim"):
        return value
    return reshape(value, shape=tuple([-1 if i == axis % ndim else 1 for i in range(ndim)]))


def _check_scale(name: str, x: Spec, scale: Spec, zero_point: Spec, axis: int | None) -> None:
    wanted: Shape = () if axis is None else (x.shape[normalise_axis(name, axis, x.ndim)],)
    for what, spec in (("scale", scale), ("zero_point", zero_point)):
        if spec.shape != wanted:
            why = (
                "one number for the whole array; give axis for one per slice"
                if axis is None
                else f"one entry per slice of x, {x.shape}, along axis {axis}"
            )
            raise ValueError(f"{name}: the {what} has shape {spec.shape}; expected {wanted}, {why}.")
    if not is_floating(scale.dtype):
        raise TypeError(f"{name}: the scale must be floating, got {scale.dtype}.")
    if zero_point.dtype.kind not in "iu":
        raise TypeError(f"{name}: the zero_point must be an integer, got {zero_point.dtype}.")


def _check_floating(name: str, x: Spec) -> None:
    if not is_floating(x.dtype):
        raise TypeError(f"{name}: x must be floating, got {x.dtype}.")


# On a grid and back


def _steps(xp: Any, x: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    """The grid's numbers, not yet cut off."""
    scale = _along(xp.asarray(scale, dtype=x.dtype), axis, x.ndim)
    return xp.rint(x * (1 / scale)) + _along(xp.asarray(zero_point), axis, x.ndim).astype(x.dtype)


def _fake_quantise(xp: Any, x: Any, scale: Any, zero_point: Any, low: int, high: int, axis: int | None) -> Any:
    on_grid = xp.clip(_steps(xp, x, scale, zero_point, axis), low, high)
    zero_point = _along(xp.asarray(zero_point), axis, x.ndim).astype(x.dtype)
    return ((on_grid - zero_point) * _along(xp.asarray(scale, dtype=x.dtype), axis, x.ndim)).astype(x.dtype, copy=False)


def _fake_quantise_infer(
    x: Spec, scale: Spec, zero_point: Spec, *, low: int, high: int, axis: int | None = None
) -> Spec:
    _check_floating("fake_quantise", x)
    _check_scale("fake_quantise", x, scale, zero_point, axis)
    if not all(isinstance(end, int | np.integer) for end in (low, high)) or low >= high:
        raise ValueError(f"fake_quantise: low and high are integers, low < high; got {low!r} and {high!r}.")
    return x


def _straight_through(g: Any, out: Any, x: Any, scale: Any, zero_point: Any, low: int, high: int, axis: Any) -> Any:
    on_grid = round(x * (1 / _along_op(scale, axis, x.ndim))) + cast(
        _along_op(zero_point, axis, x.ndim), dtype=str(x.dtype)
    )
    return where(logical_and(greater_equal(on_grid, low), less_equal(on_grid, high)), g, 0.0)


fake_quantise = row(
    "fake_quantise",
    _fake_quantise,
    vjp=(_straight_through, None, None),
    jvp="symmetric",
    saves=("x scale zero_point", "", ""),
    infer=_fake_quantise_infer,
    strict=True,
    doc="What is left of x after it was written in the integers low to high and read again, for training a network "
    "that will be quantised. The true derivative of this staircase is 0; the straight-through rule (Bengio et al. "
    "2013) lets the cotangent pass as it is where x rounds to a number of the grid, and stops it beyond. The scale is "
    "a constant that is not differentiated by. Ties go to even and the gradient ends half a step beyond the grid, as "
    "torch.fake_quantize_per_tensor_affine; TensorFlow's fake_quant_with_min_max_vars rounds ties up, takes a range in "
    "place of scale and zero point, and ends the gradient at the range itself.",
)


def _quantise(xp: Any, x: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    steps, limits = _steps(xp, x, scale, zero_point, axis), np.iinfo(zero_point.dtype)
    if xp is not np:  # to look for NaN would wait for the device
        steps = xp.where(xp.isnan(steps), 0, steps)
    elif np.isnan(steps).any():
        raise ValueError("quantise: x holds NaN, and no integer stands for it.")
    return xp.clip(steps, limits.min, limits.max).astype(zero_point.dtype)


def _quantise_infer(x: Spec, scale: Spec, zero_point: Spec, *, axis: int | None = None) -> Spec:
    _check_floating("quantise", x)
    _check_scale("quantise", x, scale, zero_point, axis)
    if zero_point.dtype not in NARROW:
        raise TypeError(
            f"quantise: the result has the dtype of zero_point, which must be int8 or uint8, got {zero_point.dtype}."
        )
    return Spec(x.shape, zero_point.dtype)


quantise = row(
    "quantise",
    _quantise,
    vjp=None,
    infer=_quantise_infer,
    strict=True,
    doc="The nearest integers of zero_point's dtype, int8 or uint8: round(x / scale) + zero_point, ties to even, what "
    "lies beyond at the ends, infinities too. NaN is an error on the cpu, and 0 on a device, which is not waited for. "
    "It multiplies by 1 / scale and rounds before it adds the zero point, as torch.fake_quantize does. "
    "torch.quantize_per_tensor adds first, and ONNX's QuantizeLinear and tf.quantization.quantize divide: at a tie, or "
    "next to one, they can be a step off.",
)


def _dequantise(xp: Any, q: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    scale = xp.asarray(scale, dtype=None if hasattr(scale, "dtype") else np.float32)
    steps = q.astype(np.int32, copy=False) - _along(xp.asarray(zero_point), axis, q.ndim).astype(np.int32)
    return steps.astype(scale.dtype) * _along(scale, axis, q.ndim)


def _dequantise_infer(q: Spec, scale: Spec, zero_point: Spec, *, axis: int | None = None) -> Spec:
    if q.dtype.kind not in "iu":
        raise TypeError(f"dequantise: expected integers, got {q.dtype}.")
    _check_scale("dequantise", q, scale, zero_point, axis)
    return Spec(q.shape, scale.dtype)


def _by_scale(g: Any, out: Any, q: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    steps = sub(cast(q, dtype=str(g.dtype)), cast(_along_op(zero_point, axis, q.ndim), dtype=str(g.dtype)))
    others = None if axis is None else [i for i in range(q.ndim) if i != axis % q.ndim]
    product = g * steps
    return product if others == [] else sum(product, axis=others)


dequantise = row(
    "dequantise",
    _dequantise,
    vjp=(None, _by_scale, None),
    jvp=(None, lambda t, out, q, scale, zero_point, axis: dequantise(q, t, zero_point, axis=axis), None),
    saves=("", "q zero_point", ""),
    infer=_dequantise_infer,
    strict=True,
    doc="The reals that integers stand for: (q - zero_point) * scale, in scale's dtype. torch.dequantize, ONNX's "
    "DequantizeLinear, tf.quantization.dequantize. It has a derivative by the scale, so that scales can be trained "
    "over fixed integers.",
)


# Products of integers


def _shifted(xp: Any, q: Any, zero_point: Any, exact: Any) -> Any:
    """``q - zero_point`` as floats, in which a product is fast."""
    floats = q.astype(exact)
    return floats if xp is np and not np.any(zero_point) else floats - xp.asarray(zero_point).astype(exact)


def _largest(xp: Any, q: Any, zero_point: Any) -> int:
    """A bound of ``|q - zero_point|``. What lies on another device is not read for it."""
    if xp is not np or not np.size(zero_point):
        return 255
    limits, middle = np.iinfo(q.dtype), np.asarray(zero_point, np.int32)
    return int(max((limits.max - middle).max(), (middle - limits.min).max()))


def _exact(xp: Any, x: Any, w: Any, x_zero: Any, w_zero: Any, length: int) -> Any:
    bound = length * _largest(xp, x, x_zero) * _largest(xp, w, w_zero)
    return np.float32 if bound <= EXACT_IN_FLOAT32 else np.float64


def _matmul_integer(xp: Any, x: Any, w: Any, x_zero_point: Any, w_zero_point: Any) -> Any:
    exact = _exact(xp, x, w, x_zero_point, w_zero_point, x.shape[-1])
    return xp.matmul(_shifted(xp, x, x_zero_point, exact), _shifted(xp, w, w_zero_point, exact)).astype(np.int32)


def _check_integers(name: str, x: Spec, w: Spec, x_zero_point: Spec, w_zero_point: Spec, columns: int) -> None:
    for what, spec, zero in (("x", x, x_zero_point), ("w", w, w_zero_point)):
        if spec.dtype not in NARROW:
            raise TypeError(f"{name}: {what} must be int8 or uint8, got {spec.dtype}. Use quantise on floats.")
        if zero.dtype.kind not in "iu":
            raise TypeError(f"{name}: the zero point of {what} must be an integer, got {zero.dtype}.")
    if x_zero_point.shape or w_zero_point.shape not in ((), (columns,)):
        raise ValueError(
            f"{name}: the zero points have shapes {x_zero_point.shape} and {w_zero_point.shape}; expected () for x, "
            f"and () or {(columns,)} for w."
        )


def _check_length(name: str, length: int) -> None:
    if length > LONGEST_SUM:
        raise ValueError(f"{name}: a sum of {length} products may not fit int32; split it into {LONGEST_SUM} at most.")


def _matmul_integer_infer(x: Spec, w: Spec, x_zero_point: Spec, w_zero_point: Spec) -> Spec:
    if x.ndim < 2 or w.ndim < 2 or x.shape[-1] != w.shape[-2]:
        raise ValueError(f"matmul_integer: (..., m, k) and (..., k, n) expected, got {x.shape} and {w.shape}.")
    _check_integers("matmul_integer", x, w, x_zero_point, w_zero_point, w.shape[-1])
    _check_length("matmul_integer", x.shape[-1])
    batch = broadcast_shapes("matmul_integer", x.shape[:-2], w.shape[:-2])
    return Spec((*batch, x.shape[-2], w.shape[-1]), np.int32)


matmul_integer = row(
    "matmul_integer",
    _matmul_integer,
    vjp=None,
    infer=_matmul_integer_infer,
    strict=True,
    doc="The exact product of int8 or uint8 matrices less their zero points, in int32: ONNX's MatMulInteger. x has one "
    "zero point, w one or one per column. TensorFlow has the product of integers, PyTorch torch._int_mm; both have "
    "kernels that subtract what the zero points put in afterwards.",
)


def _conv2d_integer(
    xp: Any, x: Any, w: Any, x_zero_point: Any, w_zero_point: Any, stride: Sizes, padding: Sizes, dilation: Sizes,
    groups: int,
) -> Any:  # fmt: skip
    exact = _exact(xp, x, w, x_zero_point, w_zero_point, int(np.prod(w.shape[1:], dtype=np.int64)))
    weight = _shifted(xp, w, _along(xp.asarray(w_zero_point), 0 if np.ndim(w_zero_point) else None, 4), exact)
    return _conv(xp, _shifted(xp, x, x_zero_point, exact), weight, stride, padding, dilation, groups).astype(np.int32)


def _conv2d_integer_infer(
    x: Spec, w: Spec, x_zero_point: Spec, w_zero_point: Spec, *, stride: Sizes = 1, padding: Sizes = 0,
    dilation: Sizes = 1, groups: int = 1,
) -> Spec:  # fmt: skip
    try:
        found = conv2d.infer(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    except (ValueError, TypeError) as error:
        raise type(error)(str(error).replace("conv2d:", "conv2d_integer:")) from None
    _check_integers("conv2d_integer", x, w, x_zero_point, w_zero_point, w.shape[0])
    _check_length("conv2d_integer", int(np.prod(w.shape[1:], dtype=np.int64)))
    return Spec(found.shape, np.int32)


conv2d_integer = row(
    "conv2d_integer",
    _conv2d_integer,
    vjp=None,
    infer=_conv2d_integer_infer,
    strict=True,
    doc="The exact convolution of int8 or uint8 arrays less their zero points, in int32: ONNX's ConvInteger. What is "
    "padded with stands for 0.0. x has one zero point, w one or one per output channel. Neither PyTorch nor TensorFlow "
    "has it alone; both have it with the rounding to int8 that follows.",
)
