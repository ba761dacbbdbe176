"""Import rules for operators on integers that stand for reals."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.deploy.onnx.readers.layers import pads_of, per_axis
from internals.deploy.onnx.readers.table import Call, known, reads


def _axis(call: Call, x: Any, scale: Any) -> int | None:
    """The axis along which there is a scale for each slice; None where there is one for all."""
    if call.get("block_size", 0):
        raise call.refuse("it has a scale for each block; here there is one for all, or one for each slice")
    return None if scale.ndim == 0 else int(call.get("axis", 1)) % x.ndim


def _flat(value: Any, axis: int | None) -> Any:
    return ops.reshape(value, shape=()) if axis is None and value.ndim else value


@reads("QuantizeLinear")
def _quantise(call: Call, x: Any, scale: Any, zero_point: Any = None) -> Any:
    point = known(np.zeros(call.bounded(scale.shape)), np.uint8) if zero_point is None else zero_point
    axis = _axis(call, x, scale)
    return ops.quantise(x, _flat(scale, axis), _flat(point, axis), axis=axis)


@reads("DequantizeLinear")
def _dequantise(call: Call, q: Any, scale: Any, zero_point: Any = None) -> Any:
    point = known(np.zeros(call.bounded(scale.shape)), q.dtype) if zero_point is None else zero_point
    axis = _axis(call, q, scale)
    return ops.dequantise(q, _flat(scale, axis), _flat(point, axis), axis=axis)


def _points(x: Any, w: Any, x_zero: Any, w_zero: Any) -> tuple[Any, Any]:
    x_zero = known(0, x.dtype) if x_zero is None else x_zero
    w_zero = known(0, w.dtype) if w_zero is None else w_zero
    return tuple(ops.reshape(one, shape=()) if one.shape == (1,) else one for one in (x_zero, w_zero))


@reads("MatMulInteger")
def _matmul_integer(call: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    return ops.matmul_integer(x, w, *_points(x, w, x_zero, w_zero))


@reads("ConvInteger")
def _conv_integer(call: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    n = x.ndim - 2
    if n != 2:
        raise call.refuse(f"it has {n} spatial axes; the row here has 2")
    strides, holes = per_axis(call, "strides", n), per_axis(call, "dilations", n)
    pads = pads_of(call, x.shape[2:], w.shape[2:], strides, holes)
    if any(before != after for before, after in pads):
        zero = 0 if x_zero is None else int(call.known(x_zero, "zero point of x, beside unlike padding,").reshape(()))
        x, pads = ops.pad(x, width=((0, 0), (0, 0), *map(tuple, pads)), value=zero), [(0, 0)] * n
    return ops.conv2d_integer(
        x,
        w,
        *_points(x, w, x_zero, w_zero),
        stride=tuple(strides),
        padding=tuple(before for before, _ in pads),
        dilation=tuple(holes),
        groups=int(call.get("group", 1)),
    )
