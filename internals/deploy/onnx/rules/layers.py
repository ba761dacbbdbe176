"""Export rules for products, convolutions, pools, normalisation and attention."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import axes_of, rule, same
from internals.graph import Node
from internals.ops.conv import per_axis

same(matmul="MatMul", det="Det")


@rule("linear")
def _linear(b: Builder, node: Node, x: Value, weight: Value, bias: Value) -> Name:
    without = not isinstance(node.inputs[2], Node) and node.inputs[2] == 0
    if x.ndim == 2 and not without and bias.ndim == 1 and x.is_float:
        return b.op("Gemm", x, weight, bias)
    product = b.op("MatMul", x, weight)
    return product if without else b.op("Add", product, bias)


@rule("einsum")
def _einsum(b: Builder, node: Node, *inputs: Value) -> Name:
    return b.op("Einsum", *inputs, equation=node.attrs["equation"].replace(" ", ""))


@rule("outer")
def _outer(b: Builder, node: Node, x: Value, y: Value) -> Name:
    return b.op("Mul", b.unsqueeze(x, [1]), y)


@rule("tensordot")
def _tensordot(b: Builder, node: Node, x: Value, y: Value) -> Name:
    axes = node.attrs["axes"]
    if isinstance(axes, int | np.integer):
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        pairs = [one if isinstance(one, tuple | list) else (one,) for one in axes]
        left, right = [int(i) % x.ndim for i in pairs[0]], [int(i) % y.ndim for i in pairs[1]]
    mine = string.ascii_lowercase[: x.ndim]
    other = list(string.ascii_uppercase[: y.ndim])
    for i, j in zip(left, right, strict=True):
        other[j] = mine[i]
    kept = [c for i, c in enumerate(mine) if i not in left] + [c for j, c in enumerate(other) if j not in right]
    return b.op("Einsum", x, y, equation=f"{mine},{''.join(other)}->{''.join(kept)}")


def _window(node: Node, n: int) -> dict[str, Any]:
    """Strides, dilations, padding and groups, as ONNX has them."""
    padding = [int(one) for one in per_axis(node.attrs["padding"], n)]
    return {
        "strides": [int(one) for one in per_axis(node.attrs["stride"], n)],
        "dilations": [int(one) for one in per_axis(node.attrs["dilation"], n)],
        "pads": padding + padding,
        "group": int(node.attrs["groups"]),
    }


@rule("conv1d", "conv2d")
def _conv(b: Builder, node: Node, x: Value, weight: Value) -> Name:
    return b.op("Conv", x, weight, kernel_shape=_kernel(weight), **_window(node, x.ndim - 2))


def _kernel(weight: Value) -> list[int] | None:
    sizes = [size for size in weight.shape[2:] if size is not None]
    return sizes if len(sizes) == weight.ndim - 2 else None


@rule("conv_transpose1d", "conv_transpose2d")
def _conv_transpose(b: Builder, node: Node, x: Value, weight: Value) -> Name:
    more = [int(one) for one in per_axis(node.attrs["output_padding"], x.ndim - 2)]
    return b.op(
        "ConvTranspose", x, weight, kernel_shape=_kernel(weight), output_padding=more, **_window(node, x.ndim - 2)
    )


@rule("max_pool2d", "avg_pool2d")
def _pool(b: Builder, node: Node, x: Value) -> Name:
    window = [int(one) for one in per_axis(node.attrs["window"], 2)]
    stride = node.attrs["stride"]
    padding = [int(one) for one in per_axis(node.attrs["padding"], 2)]
    attrs: dict[str, Any] = {
        "kernel_shape": window,
        "strides": window if stride is None else [int(one) for one in per_axis(stride, 2)],
        "pads": padding + padding,
    }
    if node.op.name == "avg_pool2d":
        return b.op("AveragePool", x, count_include_pad=int(node.attrs["count_include_pad"]), **attrs)
    if x.is_float:
        return b.op("MaxPool", x, **attrs)
    return b.cast(b.op("MaxPool", b.cast(x, np.float64), **attrs), x.dtype)


@rule("adaptive_avg_pool2d")
def _adaptive_avg_pool(b: Builder, node: Node, x: Value) -> Name:
    size = per_axis(node.attrs["size"], 2)
    if tuple(size) == (1, 1):
        return b.op("GlobalAveragePool", x)
    found = x.name
    for axis, m in zip((2, 3), size, strict=True):
        n = x.shape[axis]
        if n is None:
            raise FormatError(
                f"to_onnx: {node.name} (adaptive_avg_pool2d, made at {node.where}) has an open height or width."
            )
        parts = [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
        means = [b.reduce("ReduceMean", b.slice(found, axis, start, stop), [axis], True) for start, stop in parts]
        found = b.op("Concat", *means, axis=axis)
    return found


@rule("normalise")
def _normalise(b: Builder, node: Node, x: Value) -> Name:
    axes, eps = sorted(axes_of(node, x)), float(node.attrs["eps"])
    sizes = [size for axis, size in enumerate(x.shape) if axis in axes and size is not None]
    if axes and axes == list(range(axes[0], x.ndim)) and len(sizes) == len(axes) and 0 not in sizes:
        return b.op("LayerNormalization", x, b.constant(np.ones(sizes, x.dtype)), axis=axes[0], epsilon=eps)
    off = b.op("Sub", x, b.reduce("ReduceMean", x, axes, True)) if axes else b.op("Sub", x, x)
    return b.op("Div", off, _root(b, x, off, axes, eps))


@rule("rms_normalise")
def _rms_normalise(b: Builder, node: Node, x: Value) -> Name:
    return b.op("Div", x, _root(b, x, x.name, axes_of(node, x), float(node.attrs["eps"])))


def _root(b: Builder, x: Value, off: Name, axes: list[int], eps: float) -> Name:
    """sqrt(mean(off * off) + eps)."""
    square = b.op("Mul", off, off)
    mean = b.reduce("ReduceMean", square, axes, True) if axes else square
    return b.op("Sqrt", b.op("Add", mean, b.like(eps, x)))


@rule("scaled_dot_product")
def _attention(b: Builder, node: Node, q: Value, k: Value, v: Value, mask: Value) -> Name:
    scale = node.attrs["scale"]
    scale = max(q.shape[-1] or 1, 1) ** -0.5 if scale is None else scale
    swap = [*range(k.ndim - 2), k.ndim - 1, k.ndim - 2]
    scores = b.op("MatMul", b.op("Mul", q, b.like(scale, q)), b.op("Transpose", k, perm=swap))
    allowed: Name = ""
    if mask.ndim and mask.dtype.kind == "b":
        allowed = mask.name
    elif isinstance(node.inputs[3], Node) or node.inputs[3] != 0:
        scores = b.op("Add", scores, mask.name if mask.dtype == q.dtype else b.cast(mask, q.dtype))
        allowed = b.op("Greater", scores, b.like(-np.inf, q))
    if node.attrs["causal"]:
        ones = b.filled(b.op("Shape", scores), 1, q.dtype)
        seen = b.cast(b.op("Trilu", ones, upper=0), bool)
        allowed = b.op("And", allowed, seen) if allowed else seen
    if not allowed:
        return b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
    # A query that may see no key has probabilities of 0, and softmax alone would share them out evenly.
    least = b.like(-6e4 if q.dtype == np.float16 else -1e30, q)
    p = b.op("Softmax", b.op("Where", allowed, scores, least), axis=-1)
    return b.op("MatMul", b.op("Mul", p, b.cast(allowed, q.dtype)), v)
