"""Export rules for rows of integers that stand for reals."""

from __future__ import annotations

import numpy as np

from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import rule
from internals.graph import Node
from internals.ops.conv import per_axis


def _point(b: Builder, zero_point: Value, dtype: np.dtype) -> Name:
    """A zero point in the dtype of what it belongs to, as ONNX wants it."""
    return zero_point.name if zero_point.dtype == dtype else b.cast(zero_point, dtype)


def _along(b: Builder, node: Node, x: Value, value: Name) -> Name:
    axis = node.attrs["axis"]
    if axis is None:
        return value
    return b.reshape(value, [-1 if i == int(axis) % x.ndim else 1 for i in range(x.ndim)])


@rule("fake_quantise")
def _fake_quantise(b: Builder, node: Node, x: Value, scale: Value, zero_point: Value) -> Name:
    inside, step, point = _steps(b, node, x, scale, zero_point, int(node.attrs["low"]), int(node.attrs["high"]))
    return b.op("Mul", b.op("Sub", inside, point), step)


def _steps(
    b: Builder, node: Node, x: Value, scale: Value, zero_point: Value, low: int, high: int
) -> tuple[Name, Name, Name]:
    """Steps between two bounds, the scale, and the zero point, all in the dtype of x."""
    step = _along(b, node, x, scale.name if scale.dtype == x.dtype else b.cast(scale, x.dtype))
    point = _along(b, node, x, b.cast(zero_point, x.dtype))
    steps = b.op("Add", b.op("Round", b.op("Mul", x, b.op("Reciprocal", step))), point)
    return b.op("Clip", steps, b.like(low, x), b.like(high, x)), step, point


@rule("quantise")
def _quantise(b: Builder, node: Node, x: Value, scale: Value, zero_point: Value) -> Name:
    if x.dtype != np.float32:  # what QuantizeLinear takes grew from operator set to operator set
        bounds = np.iinfo(node.dtype)
        return b.cast(_steps(b, node, x, scale, zero_point, bounds.min, bounds.max)[0], node.dtype)
    axis = node.attrs["axis"]
    along = None if axis is None else int(axis) % x.ndim
    return b.op("QuantizeLinear", x, scale, _point(b, zero_point, node.dtype), axis=along)


@rule("dequantise")
def _dequantise(b: Builder, node: Node, q: Value, scale: Value, zero_point: Value) -> Name:
    axis = node.attrs["axis"]
    if q.dtype.name in ("int8", "uint8", "int32") and scale.dtype == np.float32:
        along = None if axis is None else int(axis) % q.ndim
        return b.op("DequantizeLinear", q, scale, _point(b, zero_point, q.dtype), axis=along)
    steps = b.op("Sub", b.cast(q, scale.dtype), _along(b, node, q, b.cast(zero_point, scale.dtype)))
    return b.op("Mul", steps, _along(b, node, q, scale.name))


@rule("matmul_integer")
def _matmul_integer(b: Builder, node: Node, x: Value, w: Value, x_zero: Value, w_zero: Value) -> Name:
    if x.shape[-1] == 0:  # onnxruntime leaves a sum of nothing as the memory was
        return b.cast(b.op("MatMul", b.cast(x, np.float32), b.cast(w, np.float32)), np.int32)
    return b.op("MatMulInteger", x, w, _point(b, x_zero, x.dtype), _point(b, w_zero, w.dtype))


@rule("conv2d_integer")
def _conv_integer(b: Builder, node: Node, x: Value, w: Value, x_zero: Value, w_zero: Value) -> Name:
    """ConvInteger; onnxruntime has it for unsigned inputs, so signed ones are moved up by 128, with the zero point.

    Nor has onnxruntime zero points for each channel of the weight. They are taken off afterwards: the sum of
    (x - x_zero) (w - w_zero) is that of (x - x_zero) w less w_zero times that of x - x_zero, a convolution with ones.
    """
    padding = [int(one) for one in per_axis(node.attrs["padding"], 2)]
    groups = int(node.attrs["groups"])
    source, point = x.name, _point(b, x_zero, x.dtype)
    if x.dtype == np.int8:
        source, point = (_moved(b, one) for one in (source, point))

    def convolved(weight: Value | Name, weight_point: Name) -> Name:
        return b.op(
            "ConvInteger",
            source,
            weight,
            point,
            weight_point,
            strides=[int(one) for one in per_axis(node.attrs["stride"], 2)],
            pads=padding + padding,
            dilations=[int(one) for one in per_axis(node.attrs["dilation"], 2)],
            group=groups,
        )

    if not w_zero.shape:
        return convolved(w, _point(b, w_zero, w.dtype))
    whole = convolved(w, "")
    zeros = b.value_of(node.inputs[3])
    if zeros is not None and not zeros.any():
        return whole
    channels, *size = (int(one) for one in w.shape if one is not None)
    sums = convolved(b.constant(np.ones((groups, *size), np.uint8)), "")
    if groups > 1:
        sums = b.op("Gather", sums, b.constant(np.arange(channels) // (channels // groups)), axis=1)
    each = b.reshape(b.cast(w_zero, np.int32), [-1, 1, 1])
    return b.op("Sub", whole, b.op("Mul", sums, each))


def _moved(b: Builder, q: Name) -> Name:
    return b.cast(b.op("Add", b.cast(q, np.int32), b.constant(128, np.int32)), np.uint8)
