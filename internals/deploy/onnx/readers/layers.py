"""Import rules for products, convolutions, pools and normalisation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.deploy.onnx.readers.table import Call, known, reads
from internals.ops.spec import is_floating


@reads("MatMul")
def _matmul(call: Call, x: Any, y: Any) -> Any:
    return ops.matmul(x, y)


@reads("Det")
def _det(call: Call, x: Any) -> Any:
    return ops.det(x)


@reads("Gemm")
def _gemm(call: Call, x: Any, weight: Any, bias: Any = None) -> Any:
    x = ops.transpose(x) if call.get("transA", 0) else x
    weight = ops.transpose(weight) if call.get("transB", 0) else weight
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    if alpha == 1 and beta == 1 and bias is not None and bias.shape == (weight.shape[1],) and is_floating(x.dtype):
        return ops.linear(x, weight, bias)
    found = ops.matmul(x, weight)
    found = found if alpha == 1 else ops.mul(found, known(alpha, x.dtype))
    if bias is None or beta == 0:
        return found
    return ops.add(found, bias if beta == 1 else ops.mul(bias, known(beta, x.dtype)))


@reads("Einsum")
def _einsum(call: Call, *inputs: Any) -> Any:
    given, _, result = call.get("equation").replace(" ", "").partition("->")
    terms = given.split(",")
    if "..." in given:
        widest = max(
            x.ndim - len(term.replace("...", "")) for term, x in zip(terms, inputs, strict=True) if "..." in term
        )
        letters = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in given][:widest]
        terms = [
            term.replace("...", "".join(letters[widest - (x.ndim - len(term.replace("...", ""))) :]))
            for term, x in zip(terms, inputs, strict=True)
        ]
        result = result.replace("...", "".join(letters))
    tensors = []
    for i, x in enumerate(inputs):
        term = terms[i]
        if len(term) >= 2 and term[-1] == term[-2] and term.count(term[-1]) == 2:
            x, terms[i] = ops.diagonal(x), term[:-1]
        tensors.append(x)
    arrow = "->" in call.get("equation")
    return ops.einsum(tensors, equation=",".join(terms) + (f"->{result}" if arrow else ""))


# Windows


def pads_of(
    call: Call, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], holes: Sequence[int]
) -> Any:
    """What is added before and after each spatial axis."""
    n, auto = len(kernel), call.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = call.get("pads") or [0] * (2 * n)
        return list(zip(pads[:n], pads[n:], strict=True))
    if auto == "VALID":
        return [(0, 0)] * n
    found = []
    for size, k, s, d in zip(sizes, kernel, strides, holes, strict=True):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        half = total // 2
        found.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
    return found


def per_axis(call: Call, name: str, n: int) -> list[int]:
    return [int(one) for one in call.get(name) or [1] * n]


@reads("Conv")
def _conv(call: Call, x: Any, weight: Any, bias: Any = None) -> Any:
    n = x.ndim - 2
    if n not in (1, 2):
        raise call.refuse(f"it has {n} spatial axes; rows here have 1 or 2")
    strides, holes = per_axis(call, "strides", n), per_axis(call, "dilations", n)
    pads = pads_of(call, x.shape[2:], weight.shape[2:], strides, holes)
    x, padding = _symmetric(x, pads, 0.0)
    row = ops.conv1d if n == 1 else ops.conv2d
    found = row(
        x, weight, stride=tuple(strides), padding=padding, dilation=tuple(holes), groups=int(call.get("group", 1))
    )
    return _with_bias(found, bias, n)


def _symmetric(x: Any, pads: Any, fill: float) -> tuple[Any, tuple[int, ...]]:
    """x, and padding that is the same on both sides; what is not is added to x first."""
    if all(before == after >= 0 for before, after in pads):
        return x, tuple(before for before, _ in pads)
    return ops.pad(x, width=((0, 0), (0, 0), *pads), value=fill), (0,) * len(pads)


def _with_bias(found: Any, bias: Any, n: int) -> Any:
    return found if bias is None else ops.add(found, ops.reshape(bias, shape=(-1,) + (1,) * n))


@reads("ConvTranspose")
def _conv_transpose(call: Call, x: Any, weight: Any, bias: Any = None) -> Any:
    n = x.ndim - 2
    if n not in (1, 2):
        raise call.refuse(f"it has {n} spatial axes; rows here have 1 or 2")
    strides, holes = per_axis(call, "strides", n), per_axis(call, "dilations", n)
    more = [int(one) for one in call.get("output_padding") or [0] * n]
    whole = [
        (size - 1) * s + d * (k - 1) + 1
        for size, s, d, k in zip(x.shape[2:], strides, holes, weight.shape[2:], strict=True)
    ]
    wanted, auto = call.get("output_shape"), call.get("auto_pad", "NOTSET")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * s for size, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        rest = [one + extra - want for one, extra, want in zip(whole, more, wanted[-n:], strict=True)]
        halves = [(r // 2, r - r // 2) for r in rest]
        pads = [(b, e) if auto == "SAME_UPPER" else (e, b) for b, e in halves]
    else:
        pads = pads_of(call, x.shape[2:], weight.shape[2:], strides, holes)
    row = ops.conv_transpose1d if n == 1 else ops.conv_transpose2d
    settings: dict[str, Any] = {"stride": tuple(strides), "dilation": tuple(holes), "groups": int(call.get("group", 1))}
    plain = all(b == e >= 0 for b, e in pads) and all(m < s for m, s in zip(more, strides, strict=True))
    if plain:
        padding = tuple(b for b, _ in pads)
        return _with_bias(row(x, weight, padding=padding, output_padding=tuple(more), **settings), bias, n)
    found = row(x, weight, **settings)
    width = [(max(-b, 0), max(m - e, 0)) for (b, e), m in zip(pads, more, strict=True)]
    found = ops.pad(found, width=((0, 0), (0, 0), *width)) if any(map(any, width)) else found
    key = [slice(max(b, 0), max(b, 0) + size + m - b - e) for (b, e), size, m in zip(pads, whole, more, strict=True)]
    return _with_bias(ops.getitem(found, key=(slice(None), slice(None), *key)), bias, n)


@reads("MaxPool", "AveragePool", "LpPool")
def _pool(call: Call, x: Any) -> Any:
    n = x.ndim - 2
    kernel = [int(one) for one in call.get("kernel_shape")]
    strides, holes = per_axis(call, "strides", n), per_axis(call, "dilations", n)
    pads = pads_of(call, x.shape[2:], kernel, strides, holes)
    if call.outputs > 1:
        raise call.refuse(
            "it gives the places of the maxima too, counted in the whole input; rows here count in windows"
        )
    plain = (
        n == 2 and set(holes) == {1} and not call.get("ceil_mode", 0) and call.kind != "LpPool"
        and all(b == e and 2 * b <= k for (b, e), k in zip(pads, kernel, strict=True))
    )  # fmt: skip
    if plain:
        window: dict[str, Any] = {
            "window": tuple(kernel), "stride": tuple(strides), "padding": tuple(b for b, _ in pads)
        }  # fmt: skip
        if call.kind == "MaxPool":
            return ops.max_pool2d(x, **window)
        return ops.avg_pool2d(x, count_include_pad=bool(call.get("count_include_pad", 0)), **window)
    return _pooled(call, x, kernel, strides, holes, pads)


def _pooled(call: Call, x: Any, kernel: Any, strides: Any, holes: Any, pads: Any) -> Any:
    """A pool over any number of axes, place by place of the window."""
    call.counted(math.prod(kernel), "places in its window")
    sizes = x.shape[2:]
    counts, after = [], []
    for size, k, s, d, (b, e) in zip(sizes, kernel, strides, holes, pads, strict=True):
        room = size + b + e - d * (k - 1) - 1
        count = (-(-room // s) if call.get("ceil_mode", 0) else room // s) + 1
        if call.get("ceil_mode", 0) and (count - 1) * s >= size + b:
            count -= 1  # a window that would begin in the padding behind
        counts.append(count)
        after.append(max((count - 1) * s + d * (k - 1) + 1 - size - b, e))
    width = ((0, 0), (0, 0), *[(b, a) for (b, _), a in zip(pads, after, strict=True)])
    fill: Any = 0
    if call.kind == "MaxPool":
        fill = float("-inf") if is_floating(x.dtype) else int(np.iinfo(x.dtype).min)
    p = float(call.get("p", 2))
    if call.kind == "LpPool":
        x = ops.pow(ops.abs(x), known(p, x.dtype))

    def met(value: Any) -> list[Any]:
        found = []
        for place in itertools.product(*[range(k) for k in kernel]):
            key = [
                slice(i * d, i * d + (c - 1) * s + 1, s)
                for i, d, c, s in zip(place, holes, counts, strides, strict=True)
            ]
            found.append(ops.getitem(value, key=(slice(None), slice(None), *key)))
        return found

    pieces = met(ops.pad(x, width=width, value=fill))
    total = pieces[0]
    for piece in pieces[1:]:
        total = ops.maximum(total, piece) if call.kind == "MaxPool" else ops.add(total, piece)
    if call.kind == "MaxPool":
        return total
    if call.kind == "LpPool":
        return ops.pow(total, known(1 / p, x.dtype))
    call.bounded([size + b + a for size, (b, _), a in zip(sizes, pads, after, strict=True)])
    inner = np.ones((1, 1, *sizes), x.dtype)
    if call.get("count_include_pad", 0):
        inner = np.pad(inner, ((0, 0), (0, 0), *pads), constant_values=1)
        width = ((0, 0), (0, 0), *[(0, a - e) for (_, e), a in zip(pads, after, strict=True)])
    ones = met(known(np.pad(inner, width)))
    return ops.div(total, known(sum(np.asarray(one) for one in ones)))


@reads("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(call: Call, x: Any) -> Any:
    if call.kind == "GlobalAveragePool" and x.ndim == 4:
        return ops.adaptive_avg_pool2d(x, size=1)
    row = ops.mean if call.kind == "GlobalAveragePool" else ops.max
    return row(x, axis=tuple(range(2, x.ndim)), keepdims=True)


# Normalisation


def _channels(x: Any, value: Any) -> Any:
    """A value for each channel, so that it broadcasts to x."""
    return ops.reshape(value, shape=(-1,) + (1,) * (x.ndim - 2))


def _eps(call: Call, default: float = 1e-5) -> float:
    return float(call.get("epsilon", default))


@reads("BatchNormalization")
def _batch_norm(call: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    if not call.get("training_mode", 0):
        root = ops.sqrt(ops.add(var, known(_eps(call), var.dtype)))
        off = ops.sub(x, _channels(x, mean))
        return ops.add(ops.mul(off, _channels(x, ops.div(scale, root))), _channels(x, bias))
    axes = tuple(i for i in range(x.ndim) if i != 1)
    momentum = float(call.get("momentum", 0.9))
    found = ops.normalise(x, axis=axes, eps=_eps(call))
    own = ops.mean(x, axis=axes), ops.var(x, axis=axes, correction=0)
    kept = [
        ops.add(ops.mul(was, known(momentum, was.dtype)), ops.mul(now, known(1 - momentum, now.dtype)))
        for was, now in zip((mean, var), own, strict=True)
    ]
    return [ops.add(ops.mul(found, _channels(x, scale)), _channels(x, bias)), *kept][: call.outputs]


@reads("InstanceNormalization")
def _instance_norm(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    found = ops.normalise(x, axis=tuple(range(2, x.ndim)), eps=_eps(call))
    return ops.add(ops.mul(found, _channels(x, scale)), _channels(x, bias))


@reads("GroupNormalization")
def _group_norm(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    groups, shape = int(call.get("num_groups")), tuple(x.shape)
    apart = ops.reshape(x, shape=(shape[0], groups, -1))
    found = ops.reshape(ops.normalise(apart, axis=2, eps=_eps(call)), shape=shape)
    if scale.shape[0] != shape[1]:  # before operator set 21 there was one for each group
        scale, bias = (ops.repeat(one, repeats=shape[1] // groups, axis=0) for one in (scale, bias))
    return ops.add(ops.mul(found, _channels(x, scale)), _channels(x, bias))


@reads("LayerNormalization")
def _layer_norm(call: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    axis = int(call.get("axis", -1)) % x.ndim
    axes = tuple(range(axis, x.ndim))
    found = ops.normalise(x, axis=axes, eps=_eps(call))
    if not (isinstance(scale, np.ndarray) and np.all(scale == 1)):
        found = ops.mul(found, scale)
    found = found if bias is None else ops.add(found, bias)
    if call.outputs == 1:
        return found
    mean = ops.mean(x, axis=axes, keepdims=True)
    spread = ops.var(x, axis=axes, keepdims=True, correction=0)
    return [found, mean, ops.rsqrt(ops.add(spread, known(_eps(call), x.dtype)))][: call.outputs]


@reads("RMSNormalization")
def _rms_norm(call: Call, x: Any, scale: Any) -> Any:
    axis = int(call.get("axis", -1)) % x.ndim
    return ops.mul(ops.rms_normalise(x, axis=tuple(range(axis, x.ndim)), eps=_eps(call)), scale)


@reads("LpNormalization")
def _lp_norm(call: Call, x: Any) -> Any:
    axis = int(call.get("axis", -1)) % x.ndim
    length = ops.norm(x, p=int(call.get("p", 2)), axis=axis, keepdims=True)
    zero = ops.equal(length, known(0, x.dtype))
    return ops.div(x, ops.where(zero, known(1, x.dtype), length))


@reads("MeanVarianceNormalization")
def _mean_variance(call: Call, x: Any) -> Any:
    axes = tuple(call.get("axes") or (0, 2, 3))
    off = ops.sub(x, ops.mean(x, axis=axes, keepdims=True))
    root = ops.sqrt(ops.mean(ops.mul(off, off), axis=axes, keepdims=True))
    return ops.div(off, ops.add(root, known(1e-9, x.dtype)))


@reads("LRN")
def _local_response(call: Call, x: Any) -> Any:
    size = call.counted(int(call.get("size")), "neighbours")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    width = ((0, 0), (before, after), *[(0, 0)] * (x.ndim - 2))
    square = ops.pad(ops.mul(x, x), width=width)
    total = ops.getitem(square, key=(slice(None), slice(0, x.shape[1])))
    for i in range(1, size):
        total = ops.add(total, ops.getitem(square, key=(slice(None), slice(i, i + x.shape[1]))))
    alpha, beta, bias = (float(call.get(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    scale = ops.add(ops.mul(total, known(alpha / size, x.dtype)), known(bias, x.dtype))
    return ops.div(x, ops.pow(scale, known(beta, x.dtype)))
