"""The cases of quantised computation. Scales are powers of two, so that float32 and float64 have the same grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from conv_cases import tf_conv2d
from op_case import Case
from op_samples import Sample, Values, on


def scales(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([0.125, 0.25, 0.5], shape)


def between(low: int, high: int, dtype: str) -> Values:
    """Whole numbers, both ends included."""
    return lambda rng, shape: np.asarray(rng.integers(low, high + 1, shape), dtype)


def wide(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Beyond the ends of a small grid now and then."""
    return 3 * rng.standard_normal(shape)


def coarse(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([0.25, 0.5], shape)


def off_ties(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Never half-way between two steps of `coarse`, also in half precision: there torch rounds another way."""
    return (2 * rng.integers(-64, 64, shape) + 1) / 16


INT8, UINT8 = between(-128, 127, "int8"), between(0, 255, "uint8")
POINT8, POINT_U8, POINT32 = between(-9, 9, "int8"), between(100, 150, "uint8"), between(-3, 3, "int32")


def scaled(*samples: tuple[tuple[int, ...], int | None], **attrs: Any) -> list[Sample]:
    """An array with scale and zero point: one for all, or one for each slice along an axis."""
    return [
        on(shape, *[() if axis is None else (shape[axis],)] * 2, **attrs, **({} if axis is None else {"axis": axis}))
        for shape, axis in samples
    ]


SHAPES = [((), None), ((0,), None), ((1,), None), ((1, 1), 0), ((0, 3), 1), ((2, 3, 4), None), ((3,), 0)]
SHAPES = [*SHAPES, ((2, 3, 4), 1), ((2, 3, 4), -1)]


def along(values: Any, axis: int | None, ndim: int) -> list[int]:
    return [-1 if axis is not None and i == axis % ndim else 1 for i in range(ndim)]


def torch_fake_quantise(t: Any, x: Any, scale: Any, zero_point: Any, low: int, high: int, axis: int | None) -> Any:
    if axis is None:
        return t.fake_quantize_per_tensor_affine(x, scale.float(), zero_point, low, high)
    return t.fake_quantize_per_channel_affine(x, scale.float(), zero_point, axis % x.ndim, low, high)


def tf_fake_quantise(f: Any, x: Any, scale: Any, zero_point: Any, low: int, high: int, axis: int | None) -> Any:
    ndim = len(x.shape)
    scale, zero_point = (f.reshape(one, along(one, axis, ndim)) for one in (scale, f.cast(zero_point, x.dtype)))
    steps = f.round(x / scale) + zero_point
    passed = f.where((steps >= low) & (steps <= high), x, f.zeros_like(x))
    return passed + f.stop_gradient((f.clip_by_value(steps, low, high) - zero_point) * scale - passed)


def torch_quantise(t: Any, x: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    dtype = t.qint8 if zero_point.dtype == t.int8 else t.quint8
    if axis is None:
        return t.quantize_per_tensor(x.float(), scale.float(), zero_point.int(), dtype).int_repr()
    return t.quantize_per_channel(x.float(), scale.float(), zero_point.int(), axis % x.ndim, dtype).int_repr()


def tf_quantise(f: Any, x: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    ndim = len(x.shape)
    scale, zero = (f.reshape(one, along(one, axis, ndim)) for one in (scale, f.cast(zero_point, x.dtype)))
    return f.saturate_cast(f.round(x / scale) + zero, zero_point.dtype)


def torch_dequantise(t: Any, q: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    scale, zero_point = (one.reshape(along(one, axis, q.ndim)) for one in (scale, zero_point.int()))
    return ((q.int() - zero_point) * scale).reshape(q.shape)


def tf_dequantise(f: Any, q: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    ndim = len(q.shape)
    scale, zero = (f.reshape(one, along(one, axis, ndim)) for one in (scale, f.cast(zero_point, f.int32)))
    return f.reshape(f.cast(f.cast(q, f.int32) - zero, scale.dtype) * scale, q.shape)


def torch_matmul_integer(t: Any, x: Any, w: Any, x_zero: Any, w_zero: Any) -> Any:
    return t.matmul(x.int() - x_zero.int(), w.int() - w_zero.int())


def tf_matmul_integer(f: Any, x: Any, w: Any, x_zero: Any, w_zero: Any) -> Any:
    x, w, x_zero, w_zero = (f.cast(one, f.int32) for one in (x, w, x_zero, w_zero))
    return f.matmul(x - x_zero, w - w_zero)


def torch_conv2d_integer(t: Any, x: Any, w: Any, x_zero: Any, w_zero: Any, **attrs: Any) -> Any:
    x, w = x.double() - x_zero.double(), w.double() - w_zero.double()
    return t.nn.functional.conv2d(x, w, **attrs).int()


def tf_conv2d_integer(f: Any, x: Any, w: Any, x_zero: Any, w_zero: Any, **attrs: Any) -> Any:
    x, w, x_zero, w_zero = (f.cast(one, f.float64) for one in (x, w, x_zero, w_zero))
    return f.cast(tf_conv2d(f, x - x_zero, w - w_zero, **attrs), f.int32)


MATRICES = [
    on((1, 1), (1, 1), (), ()), on((0, 3), (3, 2), (), ()), on((2, 1), (1, 4), (), (4,)), on((4, 3), (3, 5), (), (5,)),
    on((2, 600), (600, 2), (), ()), on((2, 4, 3), (3, 5), (), ()), on((2, 4, 3), (2, 3, 5), (), ()),
]  # fmt: skip
IMAGES = [
    on((1, 1, 1, 1), (1, 1, 1, 1), (), ()), on((0, 2, 4, 4), (3, 2, 3, 3), (), ()),
    on((2, 4, 5, 6), (6, 2, 3, 2), (), (), stride=(2, 1), padding=1, groups=2),
    on((2, 3, 6, 5), (4, 3, 3, 3), (), (), padding=(1, 2), dilation=(2, 1)),
    on((2, 30, 4, 4), (2, 30, 3, 3), (), (), padding=1),
]  # fmt: skip

QUANTISE = [
    Case("fake_quantise", torch_fake_quantise, tf_fake_quantise, scaled(*SHAPES, low=-8, high=7),
         (wide, scales, POINT32), wrt=(0,), staircase=True),
    Case("quantise", torch_quantise, tf_quantise, scaled(*SHAPES), (off_ties, coarse, INT8)),
    Case("quantise", torch_quantise, tf_quantise, scaled(*SHAPES), (off_ties, coarse, UINT8)),
    Case("dequantise", torch_dequantise, tf_dequantise, scaled(*SHAPES), (INT8, scales, POINT8)),
    Case("dequantise", torch_dequantise, tf_dequantise, scaled(*SHAPES), (UINT8, scales, POINT_U8)),
    Case("matmul_integer", torch_matmul_integer, tf_matmul_integer, MATRICES, (INT8, INT8, POINT8, POINT8)),
    Case("matmul_integer", torch_matmul_integer, tf_matmul_integer, MATRICES, (UINT8, INT8, POINT_U8, POINT8)),
    Case("conv2d_integer", torch_conv2d_integer, tf_conv2d_integer, IMAGES, (INT8, INT8, POINT8, POINT8)),
    Case("conv2d_integer", torch_conv2d_integer, tf_conv2d_integer, IMAGES, (UINT8, INT8, POINT_U8, POINT8)),
]  # fmt: skip
