"""Convolution, its transpose, and its derivative by the weight: three rows whose rules are each other.

``<g, conv(x, w)>`` is linear in each of x, w and g. Leaving one of them out gives the three rows; whatever is asked of
one of them, by any input and to any order, is another of them.

A kernel lays the batch innermost, as (channels, height, width, batch). Each place of the window then meets its part of
the input in long runs of memory, the columns are gathered place by place, and one matrix product does the rest. The
result is a view with the batch first again, so a network keeps this layout from one layer to the next without copying.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from internals.ops.arrange import pad
from internals.ops.reduce import wide
from internals.ops.spec import Spec
from internals.ops.table import Op, row

Sizes = int | Sequence[int]

LONGEST_PRODUCT = 4096
"""How many columns a product on the cpu takes at once: OpenBLAS is slow at long, thin matrices."""


def sizes(name: str, what: str, value: Sizes, n: int, least: int) -> tuple[int, ...]:
    """One whole number per spatial axis; one alone stands for all.

    Raises
    ------
    TypeError, ValueError
        Not whole numbers, too few or many, or one below `least`.
    """
    each: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) else (value,) * n
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) for size in each):
        raise TypeError(f"{name}: {what} must be an integer, or one for each of {n} axes, got {value!r}.")
    if len(each) != n or min(each) < least:
        raise ValueError(f"{name}: {what} must be {least} or more, one for all or {n} of them, got {value!r}.")
    return tuple(int(size) for size in each)


def per_axis(value: Sizes, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int | np.integer) else tuple(value)


@lru_cache(maxsize=256)
def places(
    window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], counts: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each place of a window, and what it meets of the input as the window moves to `counts` positions."""
    axes = list(zip(stride, dilation, counts, strict=True))
    return [
        (place, tuple([slice(p * d, p * d + s * (n - 1) + 1, s) for p, (s, d, n) in zip(place, axes, strict=True)]))
        for place in np.ndindex(*window)
    ]


def positions(size: Sequence[int], window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> tuple[int, ...]:
    """How many positions a window can take along each axis."""
    n = len(size)
    axes = zip(size, per_axis(window, n), per_axis(stride, n), per_axis(padding, n), per_axis(dilation, n), strict=True)
    return tuple([(length + 2 * p - d * (k - 1) - 1) // s + 1 for length, k, s, p, d in axes])


def batch_last(xp: Any, x: Any, padding: Sequence[int], fill: float = 0) -> Any:
    """(batch, channels, ...) as (channels, ..., batch) in one piece of memory, with a border of `fill`."""
    x = xp.moveaxis(x, 0, -1)
    if not any(padding):
        return xp.ascontiguousarray(x)
    shape = (x.shape[0], *[n + 2 * p for n, p in zip(x.shape[1:-1], padding, strict=True)], x.shape[-1])
    padded = xp.full(shape, fill, x.dtype)
    padded[inside(padding, x.shape[1:-1])] = x
    return padded


def inside(padding: Sequence[int], size: Sequence[int]) -> tuple[slice, ...]:
    """What lies within the border, batch last."""
    return (slice(None), *[slice(p, p + n) for p, n in zip(padding, size, strict=True)])


def batch_first(xp: Any, x: Any) -> Any:
    return xp.moveaxis(x, -1, 0)


def _columns(
    xp: Any, x: Any, window: Sequence[int], counts: tuple[int, ...], stride: Sizes, padding: Sizes, dilation: Sizes
) -> Any:
    """What the window meets: (channels, *window, *counts, batch)."""
    n = len(window)
    padded = batch_last(xp, x, per_axis(padding, n))
    columns = xp.empty((x.shape[1], *window, *counts, x.shape[0]), x.dtype)
    for place, where in places(tuple(window), per_axis(stride, n), per_axis(dilation, n), counts):
        columns[(slice(None), *place)] = padded[(slice(None), *where)]
    return columns


def _pieces(xp: Any, length: int) -> list[slice]:
    step = LONGEST_PRODUCT if xp is np else max(length, 1)
    return [slice(start, start + step) for start in range(0, length, step)]


def _volume(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _conv(xp: Any, x: Any, weight: Any, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Any:
    dtype, x, weight = x.dtype, wide(x), wide(weight)
    window, outputs = weight.shape[2:], weight.shape[0]
    counts = positions(x.shape[2:], window, stride, padding, dilation)
    columns = _columns(xp, x, window, counts, stride, padding, dilation)
    depth, length = _volume(weight.shape[1:]), _volume(counts) * x.shape[0]
    kernels = xp.reshape(weight, (groups, outputs // groups, depth))
    columns = xp.reshape(columns, (groups, depth, length))
    product = xp.empty((groups, outputs // groups, length), x.dtype)
    for part in _pieces(xp, length):
        xp.matmul(kernels, columns[:, :, part], out=product[:, :, part])
    return batch_first(xp, xp.reshape(product, (outputs, *counts, x.shape[0]))).astype(dtype, copy=False)


def _conv_transpose(
    xp: Any, x: Any, weight: Any, stride: Sizes, padding: Sizes, output_padding: Sizes, dilation: Sizes, groups: int
) -> Any:
    dtype, x, weight = x.dtype, wide(x), wide(weight)
    window, counts, n = weight.shape[2:], x.shape[2:], x.ndim - 2
    stride, padding, dilation = per_axis(stride, n), per_axis(padding, n), per_axis(dilation, n)
    depth, inputs = _volume(weight.shape[1:]), x.shape[1] // groups
    product = xp.matmul(
        xp.swapaxes(xp.reshape(weight, (groups, inputs, depth)), 1, 2),
        xp.reshape(batch_last(xp, x, (0,) * n), (groups, inputs, _volume(counts) * x.shape[0])),
    )
    columns = xp.reshape(product, (weight.shape[1] * groups, *window, *counts, x.shape[0]))
    axes = zip(counts, stride, dilation, window, per_axis(output_padding, n), strict=True)
    whole = [(o - 1) * s + d * (k - 1) + 1 + more for o, s, d, k, more in axes]
    result = xp.zeros((columns.shape[0], *whole, x.shape[0]), x.dtype)
    for place, where in places(window, stride, dilation, counts):
        result[(slice(None), *where)] += columns[(slice(None), *place)]
    size = [length - 2 * p for length, p in zip(whole, padding, strict=True)]
    return batch_first(xp, result[inside(padding, size)]).astype(dtype, copy=False)


def _conv_weight(
    xp: Any, x: Any, g: Any, size: Sequence[int], stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Any:
    dtype, x, g = x.dtype, wide(x), wide(g)
    counts, n, outputs = g.shape[2:], g.ndim - 2, g.shape[1]
    channels, length = x.shape[1] // groups, _volume(counts) * x.shape[0]
    columns = _columns(xp, x, size, counts, stride, padding, dilation)
    columns = xp.swapaxes(xp.reshape(columns, (groups, channels * _volume(size), length)), 1, 2)
    rows = xp.reshape(batch_last(xp, g, (0,) * n), (groups, outputs // groups, length))
    product = xp.zeros((groups, outputs // groups, channels * _volume(size)), x.dtype)
    for part in _pieces(xp, length):
        product += xp.matmul(rows[:, :, part], columns[:, part])
    return xp.reshape(product, (outputs, channels, *size)).astype(dtype, copy=False)


def _check(name: str, n: int, x: Spec, weight: Spec, groups: int, second: str = "weight") -> None:
    """The ranks, and whether groups is a number of groups."""
    for what, spec, layout in (("x", x, "(batch, channels"), (second, weight, "(out channels, in channels / groups")):
        if second == "g":
            layout = "(batch, channels"
        if spec.ndim != n + 2:
            axes = ", ".join([layout, *("height", "width")[2 - n :]])
            raise ValueError(f"{name}: {what} has shape {spec.shape}; expected {n + 2} axes, {axes}).")
    if not isinstance(groups, int | np.integer) or groups < 1:
        raise ValueError(f"{name}: groups must be a positive integer, got {groups!r}.")


def _divided(name: str, what: str, channels: int, groups: int) -> None:
    if channels % groups:
        raise ValueError(f"{name}: {channels} {what} channels can't be divided into {groups} groups.")


def _fitting(name: str, x: Spec, window: tuple[int, ...], settings: tuple[Any, ...]) -> tuple[int, ...]:
    """The positions of a window that the input is large enough for."""
    counts = positions(x.shape[2:], window, *settings)
    if min(counts) < 1 or min(window) < 1:
        raise ValueError(
            f"{name}: a window of {window} (dilation {settings[2]}) does not fit into an input of {x.shape[2:]} with "
            f"padding {settings[1]}. Pad more, or take a smaller window."
        )
    return counts


def _settings(name: str, n: int, stride: Sizes, padding: Sizes, dilation: Sizes) -> tuple[Any, ...]:
    return (
        sizes(name, "stride", stride, n, 1),
        sizes(name, "padding", padding, n, 0),
        sizes(name, "dilation", dilation, n, 1),
    )


def _left_over(x: Any, window: Sequence[int], counts: Sequence[int], attrs: dict[str, Any]) -> tuple[int, ...]:
    """How much of the input lies behind the last position of the window: the transpose must add it."""
    n = len(window)
    axes = zip(
        x.shape[2:],
        window,
        counts,
        *[per_axis(attrs[name], n) for name in ("stride", "padding", "dilation")],
        strict=True,
    )
    return tuple([size + 2 * p - (o - 1) * s - d * (k - 1) - 1 for size, k, o, s, p, d in axes])


def convolutions(n: int) -> tuple[Op, Op, Op]:
    """The three rows for n spatial axes."""
    name, transposed, by_weight = f"conv{n}d", f"conv_transpose{n}d", f"conv{n}d_weight"

    def conv_infer(
        x: Spec, weight: Spec, *, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1
    ) -> Spec:
        _check(name, n, x, weight, groups)
        settings = _settings(name, n, stride, padding, dilation)
        if x.shape[1] != weight.shape[1] * groups:
            raise ValueError(
                f"{name}: x of shape {x.shape} has {x.shape[1]} channels, but the weight of shape {weight.shape} "
                f"with {groups} group(s) is for {weight.shape[1] * groups}."
            )
        _divided(name, "output", weight.shape[0], groups)
        return Spec((x.shape[0], weight.shape[0], *_fitting(name, x, weight.shape[2:], settings)), x.dtype)

    def transpose_infer(
        x: Spec,
        weight: Spec,
        *,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Spec:
        _check(transposed, n, x, weight, groups)
        steps, borders, holes = _settings(transposed, n, stride, padding, dilation)
        more = sizes(transposed, "output_padding", output_padding, n, 0)
        if x.shape[1] != weight.shape[0]:
            raise ValueError(
                f"{transposed}: x of shape {x.shape} has {x.shape[1]} channels, but the weight of shape "
                f"{weight.shape} is for {weight.shape[0]}. It has the layout of {name}'s weight, which this transposes."
            )
        _divided(transposed, "input", x.shape[1], groups)
        if any(extra >= s for extra, s in zip(more, steps, strict=True)):
            raise ValueError(f"{transposed}: output_padding {more} must be smaller than the stride {steps}.")
        axes = zip(x.shape[2:], steps, borders, holes, weight.shape[2:], more, strict=True)
        size = [(o - 1) * s - 2 * p + d * (k - 1) + 1 + extra for o, s, p, d, k, extra in axes]
        if min(size) < 1 or min(x.shape[2:]) < 1:
            raise ValueError(f"{transposed}: the result would have size {tuple(size)}; pad less, or use a larger x.")
        return Spec((x.shape[0], weight.shape[1] * groups, *size), x.dtype)

    def weight_infer(
        x: Spec,
        g: Spec,
        *,
        size: Sequence[int],
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Spec:
        _check(by_weight, n, x, g, groups, "g")
        window = sizes(by_weight, "size", size, n, 1)
        counts = _fitting(by_weight, x, window, _settings(by_weight, n, stride, padding, dilation))
        if g.shape[0] != x.shape[0] or g.shape[2:] != counts:
            raise ValueError(
                f"{by_weight}: g of shape {g.shape} is no cotangent for x of shape {x.shape} and a window of "
                f"{window}; expected batch {x.shape[0]} and size {counts}."
            )
        _divided(by_weight, "input", x.shape[1], groups)
        _divided(by_weight, "output", g.shape[1], groups)
        return Spec((g.shape[1], x.shape[1] // groups, *window), x.dtype)

    def by_input(g: Any, weight: Any, x: Any, window: Sequence[int], attrs: dict[str, Any]) -> Any:
        return transpose(g, weight, output_padding=_left_over(x, window, g.shape[2:], attrs), **attrs)

    def shared(attrs: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in attrs.items() if key not in ("output_padding", "size")}

    conv = row(
        name,
        _conv,
        vjp=(
            lambda g, out, x, weight, **attrs: by_input(g, weight, x, weight.shape[2:], attrs),
            lambda g, out, x, weight, **attrs: weight_row(x, g, size=tuple(weight.shape[2:]), **attrs),
        ),
        jvp="bilinear",
        saves=("weight", "x"),
        infer=conv_infer,
        strict=True,
        dtypes="promote",
        doc=f"Convolution over {n} spatial axes, as deep learning has it: the weight is not flipped. "
        "x is (batch, channels, ...), the weight (out channels, in channels / groups, ...), `padding` zeros go on both "
        "sides: PyTorch's layout. TensorFlow has channels last in both, and pads 'SAME' on the right more than on the "
        "left. groups = channels is a depthwise convolution.",
    )
    transpose = row(
        transposed,
        _conv_transpose,
        vjp=(
            lambda g, out, x, weight, **attrs: conv(g, weight, **shared(attrs)),
            lambda g, out, x, weight, **attrs: weight_row(g, x, size=tuple(weight.shape[2:]), **shared(attrs)),
        ),
        jvp="bilinear",
        saves=("weight", "x"),
        infer=transpose_infer,
        strict=True,
        dtypes="promote",
        doc=f"The transpose of {name}: its derivative by the input, and a layer that enlarges. The weight is that of "
        f"the {name} it transposes. Strided positions leave a rest of the size open; output_padding chooses it, as in "
        "PyTorch (there below stride or dilation, here below stride). TensorFlow is told the whole output shape.",
    )
    weight_row = row(
        by_weight,
        _conv_weight,
        vjp=(
            lambda v, out, x, g, size, **attrs: by_input(g, v, x, size, attrs),
            lambda v, out, x, g, size, **attrs: conv(x, v, **attrs),
        ),
        jvp="bilinear",
        saves=("g", "x"),
        infer=weight_infer,
        strict=True,
        dtypes="promote",
        doc=f"The derivative of {name} by its weight, for a cotangent g of its result: PyTorch's "
        f"torch.nn.grad.{by_weight}, TensorFlow's tf.raw_ops.Conv2DBackpropFilter.",
    )
    return conv, transpose, weight_row


conv1d, conv_transpose1d, conv1d_weight = convolutions(1)
conv2d, conv_transpose2d, conv2d_weight = convolutions(2)


def pad_same(x: Any, window: Sizes, *, stride: Sizes = 1, dilation: Sizes = 1, value: float = 0) -> Any:
    """A border with which a window that moves by `stride` takes size / stride positions, rounded up.

    An odd one goes behind: TensorFlow's padding 'SAME', and for stride 1 PyTorch's padding='same'. The result goes into
    a convolution or a pool without padding; for a maximum the value is -inf.

    Parameters
    ----------
    x : (batch, channels, ...), of one spatial axis or more
    """
    n = x.ndim - 2
    if n < 1:
        raise ValueError(f"pad_same: x has shape {tuple(x.shape)}; expected (batch, channels, ...).")
    each = zip(
        x.shape[2:],
        sizes("pad_same", "window", window, n, 1),
        sizes("pad_same", "stride", stride, n, 1),
        sizes("pad_same", "dilation", dilation, n, 1),
        strict=True,
    )
    short = [max(((size + s - 1) // s - 1) * s + d * (k - 1) + 1 - size, 0) for size, k, s, d in each]
    return pad(x, width=((0, 0), (0, 0), *[(total // 2, total - total // 2) for total in short]), value=value)
