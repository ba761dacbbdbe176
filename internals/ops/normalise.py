"""Normalisation: two rows, and the layers' functions that are made of them."""

from __future__ import annotations

from typing import Any

from internals.ops.elementwise import cast, rsqrt, square
from internals.ops.reduce import Axis, accumulator, count, mean, wide
from internals.ops.shape import reshape
from internals.ops.spec import Spec, normalise_axes
from internals.ops.table import row


def _mean(xp: Any, x: Any, axis: Axis) -> Any:
    axes = normalise_axes("", axis, x.ndim)
    return xp.sum(x, axis=axes, keepdims=True) * (1 / max(count(x.shape, axes), 1))


def _normalise(xp: Any, x: Any, axis: Axis, eps: float) -> Any:
    dtype, x = x.dtype, wide(x)
    centred = x - _mean(xp, x, axis)
    return (centred / xp.sqrt(_mean(xp, xp.square(centred), axis) + eps)).astype(dtype, copy=False)


def _rms_normalise(xp: Any, x: Any, axis: Axis, eps: float) -> Any:
    dtype, x = x.dtype, wide(x)
    return (x / xp.sqrt(_mean(xp, xp.square(x), axis) + eps)).astype(dtype, copy=False)


def _scale(x: Any, axis: Axis, eps: float, centre: bool) -> Any:
    """1 / standard deviation, in x's dtype, reckoned in a wide one."""
    broad = cast(x, dtype=accumulator(x.dtype)) if x.dtype.itemsize < 4 else x
    broad = broad - mean(broad, axis=axis, keepdims=True) if centre else broad
    scale = rsqrt(mean(square(broad), axis=axis, keepdims=True) + eps)
    return cast(scale, dtype=x.dtype) if scale.dtype != x.dtype else scale


def _normalise_vjp(g: Any, out: Any, x: Any, axis: Axis, eps: float) -> Any:
    along = out * mean(g * out, axis=axis, keepdims=True)
    return _scale(x, axis, eps, True) * (g - mean(g, axis=axis, keepdims=True) - along)


def _rms_normalise_vjp(g: Any, out: Any, x: Any, axis: Axis, eps: float) -> Any:
    return _scale(x, axis, eps, False) * (g - out * mean(g * out, axis=axis, keepdims=True))


def _infer(name: str) -> Any:
    def infer(x: Spec, *, axis: Axis, eps: float = 1e-5) -> Spec:
        normalise_axes(name, axis, x.ndim)
        if isinstance(eps, bool) or not isinstance(eps, int | float) or not eps >= 0:
            raise ValueError(f"{name}: eps must be a number that is not negative, got {eps!r}.")
        return x

    return infer


normalise = row(
    "normalise",
    _normalise,
    vjp=_normalise_vjp,
    jvp="symmetric",
    saves="out x",
    infer=_infer("normalise"),
    strict=True,
    dtypes="float",
    doc="(x - mean) / sqrt(variance + eps) over axes, the variance that of all entries (divided by n): the heart of "
    "batch, layer and group normalisation. PyTorch's layer_norm, without weights; TensorFlow's tf.nn.moments followed "
    "by tf.nn.batch_normalization.",
)

rms_normalise = row(
    "rms_normalise",
    _rms_normalise,
    vjp=_rms_normalise_vjp,
    jvp="symmetric",
    saves="out x",
    infer=_infer("rms_normalise"),
    strict=True,
    dtypes="float",
    doc="x / sqrt(mean(x * x) + eps) over axes (Zhang & Sennrich 2019): PyTorch's rms_norm, without weights; "
    "TensorFlow has none.",
)


def batch_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Normalise each channel over the batch and all positions (Ioffe & Szegedy 2015): the training form.

    Parameters
    ----------
    x : (batch, channels, ...)
    weight, bias : (channels,), optional
    """
    if x.ndim < 2:
        raise ValueError(f"batch_norm: x has shape {x.shape}; expected (batch, channels, ...).")
    return per_channel(normalise(x, axis=(0, *range(2, x.ndim)), eps=eps), weight, bias)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, ndim: int = 1, eps: float = 1e-5) -> Any:
    """Normalise each example over its last `ndim` axes (Ba et al. 2016); weight and bias have their shape."""
    if not 1 <= ndim <= x.ndim:
        raise ValueError(f"layer_norm: ndim is {ndim}, but x of shape {x.shape} has {x.ndim} axes.")
    return _affine(normalise(x, axis=tuple(range(-ndim, 0)), eps=eps), weight, bias)


def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """Normalise each example over groups of channels (Wu & He 2018); x is (batch, channels, ...)."""
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ValueError(f"group_norm: x of shape {x.shape} does not have channels for {groups} equal groups.")
    shape = tuple(x.shape)
    size = shape[1] // groups
    grouped = reshape(x, shape=(shape[0], groups, size, *shape[2:]))
    normal = reshape(normalise(grouped, axis=tuple(range(2, grouped.ndim)), eps=eps), shape=shape)
    return per_channel(normal, weight, bias)


def rms_norm(x: Any, weight: Any = None, *, eps: float = 1e-6) -> Any:
    """Divide each example by its root mean square over the last axis.

    PyTorch's eps, unless given, is the dtype's own: torch.finfo(x.dtype).eps.
    """
    return _affine(rms_normalise(x, axis=-1, eps=eps), weight, None)


def per_channel(x: Any, weight: Any, bias: Any) -> Any:
    """x, scaled and moved by one number for each channel; x is (batch, channels, ...)."""
    ones = (1,) * (x.ndim - 2)

    def spread(value: Any) -> Any:
        return None if value is None else reshape(value, shape=(*value.shape, *ones))

    return _affine(x, spread(weight), spread(bias))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias
