"""Pooling: rows that sum up the entries under a moving window by one number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from internals.ops.conv import Sizes, batch_first, batch_last, inside, per_axis, places, positions, sizes
from internals.ops.elementwise import masked
from internals.ops.reduce import wide
from internals.ops.spec import Spec, is_floating
from internals.ops.table import row

Window = dict[str, Any]
"""The attributes ``window``, ``stride`` and ``padding`` of a pooling row."""


def _settings(name: str, window: Sizes, stride: Sizes | None, padding: Sizes) -> tuple[tuple[int, ...], ...]:
    size = sizes(name, "window", window, 2, 1)
    step = size if stride is None else sizes(name, "stride", stride, 2, 1)
    border = sizes(name, "padding", padding, 2, 0)
    if any(2 * p > k for p, k in zip(border, size, strict=True)):
        raise ValueError(f"{name}: padding {border} is more than half of the window {size}: some would see no input.")
    return size, step, border


def _pooled(name: str, size: Sequence[int], window: Sizes, stride: Sizes | None, padding: Sizes) -> tuple[int, ...]:
    """The positions of the window."""
    k, s, p = _settings(name, window, stride, padding)
    counts = positions(size, k, s, p, 1)
    if min(counts) < 1:
        raise ValueError(f"{name}: a window of {k} does not fit into an input of {tuple(size)} with padding {p}.")
    return counts


def _four(name: str, what: str, value: Spec) -> None:
    if value.ndim != 4:
        raise ValueError(f"{name}: {what} has shape {value.shape}; expected (batch, channels, height, width).")


def _numbers(name: str, what: str, value: Spec) -> None:
    if value.dtype.kind == "b":
        raise TypeError(f"{name}: {what} must be numbers, got booleans. Cast them: {what}.to('float32').")


def _fits(name: str, g: Spec, size: Sequence[int], window: Sizes, stride: Sizes | None, padding: Sizes) -> Spec:
    """What an unpooled `g` is like."""
    _four(name, "g", g)
    _numbers(name, "g", g)
    whole = sizes(name, "size", size, 2, 1)
    counts = _pooled(name, whole, window, stride, padding)
    if g.shape[2:] != counts:
        raise ValueError(
            f"{name}: g of shape {g.shape} does not come from pooling a size of {whole}; that is {counts}."
        )
    return Spec((*g.shape[:2], *whole), g.dtype)


def _steps(size: Sequence[int], window: Sizes, stride: Sizes | None, padding: Sizes) -> Iterator[tuple[slice, ...]]:
    """For each place of the window, what it meets of the bordered input, batch last."""
    k = per_axis(window, 2)
    s = k if stride is None else per_axis(stride, 2)
    for _, where in places(k, s, (1, 1), positions(size, k, s, padding, 1)):
        yield (slice(None), *where)


def _met(xp: Any, x: Any, window: Sizes, stride: Sizes | None, padding: Sizes, fill: float) -> list[Any]:
    """For each place of the window, the entries it meets at all positions: (channels, height, width, batch)."""
    bordered = batch_last(xp, x, per_axis(padding, 2), fill)
    return [bordered[where] for where in _steps(x.shape[2:], window, stride, padding)]


def _scattered(
    xp: Any,
    g: Any,
    size: Sequence[int],
    window: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    share: Callable[[int, Any], Any],
) -> Any:
    """Zeros of `size`, to which each place of the window adds ``share(place, g)`` where it was."""
    border = per_axis(padding, 2)
    g = batch_last(xp, g, (0, 0))
    whole = xp.zeros((g.shape[0], *[n + 2 * p for n, p in zip(size, border, strict=True)], g.shape[-1]), g.dtype)
    for place, where in enumerate(_steps(size, window, stride, padding)):
        whole[where] += share(place, g)
    return batch_first(xp, whole[inside(border, size)])


def _lowest(dtype: np.dtype) -> float:
    """What padding is to a maximum."""
    return float("-inf") if is_floating(dtype) else np.iinfo(dtype).min


def _max_pool(xp: Any, x: Any, window: Sizes, stride: Sizes | None, padding: Sizes) -> Any:
    first, *others = _met(xp, x, window, stride, padding, _lowest(x.dtype))
    best = first.copy()
    for other in others:
        best = xp.maximum(best, other)
    return batch_first(xp, best)


def _max_index(xp: Any, x: Any, window: Sizes, stride: Sizes | None, padding: Sizes) -> Any:
    best, *others = _met(xp, x, window, stride, padding, _lowest(x.dtype))
    index = xp.zeros(best.shape, np.int64)
    for place, other in enumerate(others, 1):
        larger = xp.logical_or(other > best, xp.isnan(other))
        index = xp.maximum(index, larger * place)  # places only grow, and this is faster than choosing
        best = xp.maximum(best, other)
    return batch_first(xp, index)


def _pick(xp: Any, x: Any, index: Any, window: Sizes, stride: Sizes | None, padding: Sizes) -> Any:
    index = batch_last(xp, index, (0, 0))
    result = xp.zeros(index.shape, x.dtype)
    for place, met in enumerate(_met(xp, x, window, stride, padding, 0)):
        result = xp.where(index == place, met, result)
    return batch_first(xp, result)


def _unpool(
    xp: Any, g: Any, index: Any, size: Sequence[int], window: Sizes, stride: Sizes | None, padding: Sizes
) -> Any:
    index = batch_last(xp, index, (0, 0))
    return _scattered(xp, g, size, window, stride, padding, lambda place, g: masked(xp, index == place, g))


def _pool_infer(name: str, dtype: Any = None) -> Any:
    def infer(x: Spec, *, window: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> Spec:
        _four(name, "x", x)
        _numbers(name, "x", x)
        return Spec((*x.shape[:2], *_pooled(name, x.shape[2:], window, stride, padding)), dtype or x.dtype)

    return infer


def _pick_infer(x: Spec, index: Spec, *, window: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> Spec:
    _four("pick2d", "x", x)
    shape = (*x.shape[:2], *_pooled("pick2d", x.shape[2:], window, stride, padding))
    _check_index("pick2d", index, shape)
    return Spec(shape, x.dtype)


def _check_index(name: str, index: Spec, shape: tuple[int, ...]) -> None:
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: the index must be of an integer dtype, got {index.dtype}.")
    if index.shape != shape:
        raise ValueError(f"{name}: the index has shape {index.shape}; expected one for each position, {shape}.")


def _unpool_infer(
    g: Spec, index: Spec, *, size: Sequence[int], window: Sizes, stride: Sizes | None = None, padding: Sizes = 0
) -> Spec:
    spec = _fits("unpool2d", g, size, window, stride, padding)
    _check_index("unpool2d", index, g.shape)
    return spec


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}: count_include_pad must be True or False, got {value!r}.")


def _avg_pool_infer(
    x: Spec, *, window: Sizes, stride: Sizes | None = None, padding: Sizes = 0, count_include_pad: bool = True
) -> Spec:
    _four("avg_pool2d", "x", x)
    _flag("avg_pool2d", count_include_pad)
    return Spec((*x.shape[:2], *_pooled("avg_pool2d", x.shape[2:], window, stride, padding)), x.dtype)


def _avg_unpool_infer(
    g: Spec,
    *,
    size: Sequence[int],
    window: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    count_include_pad: bool = True,
) -> Spec:
    _flag("avg_unpool2d", count_include_pad)
    return _fits("avg_unpool2d", g, size, window, stride, padding)


max_pool2d = row(
    "max_pool2d",
    _max_pool,
    vjp=lambda g, out, x, **where: unpool2d(g, max_pool2d_index(x, **where), size=tuple(x.shape[2:]), **where),
    jvp=lambda t, out, x, **where: pick2d(t, max_pool2d_index(x, **where), **where),
    saves="x",
    infer=_pool_infer("max_pool2d"),
    strict=True,
    doc="The largest entry under a window that moves by `stride` (its own size unless given). The first of several "
    "gets the whole cotangent, as in PyTorch and TensorFlow. NaN is the largest, as in PyTorch; TensorFlow passes it "
    "over. Padding is -inf, on both sides.",
)

max_pool2d_index = row(
    "max_pool2d_index",
    _max_index,
    vjp=None,
    infer=_pool_infer("max_pool2d_index", np.int64),
    strict=True,
    doc="Where in its window max_pool2d finds the largest entry, counted row by row. PyTorch's return_indices and "
    "tf.nn.max_pool_with_argmax count in the whole input.",
)

pick2d = row(
    "pick2d",
    _pick,
    vjp=(lambda g, out, x, index, **where: unpool2d(g, index, size=tuple(x.shape[2:]), **where), None),
    jvp="linear",
    saves="index",
    infer=_pick_infer,
    strict=True,
    doc="The entry at the given place of each position of a window; 0 in the padding.",
)

unpool2d = row(
    "unpool2d",
    _unpool,
    vjp=(lambda v, out, g, index, size, **where: pick2d(v, index, **where), None),
    jvp="linear",
    saves="index",
    infer=_unpool_infer,
    strict=True,
    doc="Zeros of `size`, with g added at the given place of each position of a window: the derivative of pick2d.",
)


def _counts(
    xp: Any,
    dtype: Any,
    size: Sequence[int],
    window: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    count_include_pad: bool,
) -> Any:
    """How many entries each mean is over: the window's, or of them those that are not padding."""
    k, p = per_axis(window, 2), per_axis(padding, 2)
    if count_include_pad or not any(p):
        return k[0] * k[1]
    s = k if stride is None else per_axis(stride, 2)
    met = [
        [min(i * s[axis] - p[axis] + k[axis], size[axis]) - max(i * s[axis] - p[axis], 0) for i in range(n)]
        for axis, n in enumerate(positions(size, k, s, p, 1))
    ]
    rows, columns = (xp.asarray(each, dtype=dtype) for each in met)
    return rows[:, None] * columns


def _avg_pool(xp: Any, x: Any, window: Sizes, stride: Sizes | None, padding: Sizes, count_include_pad: bool) -> Any:
    first, *others = _met(xp, wide(x), window, stride, padding, 0)
    total = first.copy()
    for other in others:
        total += other
    counts = _counts(xp, total.dtype, x.shape[2:], window, stride, padding, count_include_pad)
    return (batch_first(xp, total) / counts).astype(x.dtype, copy=False)


def _avg_unpool(
    xp: Any,
    g: Any,
    size: Sequence[int],
    window: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    count_include_pad: bool,
) -> Any:
    part = wide(g)
    part = part / _counts(xp, part.dtype, per_axis(size, 2), window, stride, padding, count_include_pad)
    return _scattered(xp, part, size, window, stride, padding, lambda place, g: g).astype(g.dtype, copy=False)


avg_pool2d = row(
    "avg_pool2d",
    _avg_pool,
    vjp=lambda g, out, x, **where: avg_unpool2d(g, size=tuple(x.shape[2:]), **where),
    jvp="linear",
    infer=_avg_pool_infer,
    strict=True,
    dtypes="float",
    doc="The mean of the entries under a window that moves by `stride` (its own size unless given). Zeros of the "
    "padding count unless count_include_pad is False, as in PyTorch; TensorFlow's 'SAME' leaves them out.",
)

avg_unpool2d = row(
    "avg_unpool2d",
    _avg_unpool,
    vjp=lambda v, out, g, size, **where: avg_pool2d(v, **where),
    jvp="linear",
    infer=_avg_unpool_infer,
    strict=True,
    dtypes="float",
    doc="Each entry of g shared out evenly over its window in an input of `size`: the derivative of avg_pool2d.",
)


def _parts(n: int, m: int) -> list[tuple[int, int]]:
    """n entries in m parts that are as equal as can be; they overlap where m does not divide n."""
    return [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def _adaptive(xp: Any, x: Any, size: Sizes) -> Any:
    (height, width), source = per_axis(size, 2), wide(x)
    rows = [xp.mean(source[:, :, a:b], axis=2, keepdims=True) for a, b in _parts(x.shape[2], height)]
    tall = xp.concatenate(rows, axis=2)
    columns = [xp.mean(tall[..., a:b], axis=3, keepdims=True) for a, b in _parts(x.shape[3], width)]
    return xp.concatenate(columns, axis=3).astype(x.dtype, copy=False)


def _adaptive_unpool(xp: Any, g: Any, size: Sizes) -> Any:
    height, width = per_axis(size, 2)
    source = wide(g)
    wider = xp.zeros((*g.shape[:3], width), source.dtype)
    for i, (a, b) in enumerate(_parts(width, g.shape[3])):
        wider[..., a:b] += source[..., i : i + 1] / (b - a)
    result = xp.zeros((*g.shape[:2], height, width), source.dtype)
    for i, (a, b) in enumerate(_parts(height, g.shape[2])):
        result[:, :, a:b] += wider[:, :, i : i + 1] / (b - a)
    return result.astype(g.dtype, copy=False)


def _adaptive_infer(name: str, what: str) -> Any:
    def check(spec: Spec, size: Sizes) -> Spec:
        _four(name, what, spec)
        if not spec.shape[2] or not spec.shape[3]:
            raise ValueError(f"{name}: {what} of shape {spec.shape} has nothing to average.")
        return Spec((*spec.shape[:2], *sizes(name, "size", size, 2, 1)), spec.dtype)

    if what == "g":
        return lambda g, *, size: check(g, size)
    return lambda x, *, size: check(x, size)


adaptive_avg_pool2d = row(
    "adaptive_avg_pool2d",
    _adaptive,
    vjp=lambda g, out, x, size: adaptive_avg_unpool2d(g, size=tuple(x.shape[2:])),
    jvp="linear",
    infer=_adaptive_infer("adaptive_avg_pool2d", "x"),
    strict=True,
    dtypes="float",
    doc="Means over a grid of `size` windows that are as equal as can be, and overlap where they can't be: PyTorch's "
    "rule. TensorFlow has none; its reduce_mean is the case of size 1.",
)

adaptive_avg_unpool2d = row(
    "adaptive_avg_unpool2d",
    _adaptive_unpool,
    vjp=lambda v, out, g, size: adaptive_avg_pool2d(v, size=tuple(g.shape[2:])),
    jvp="linear",
    infer=_adaptive_infer("adaptive_avg_unpool2d", "g"),
    strict=True,
    dtypes="float",
    doc="Each entry of g shared out evenly over its part of an input of `size`: the derivative of adaptive_avg_pool2d.",
)
