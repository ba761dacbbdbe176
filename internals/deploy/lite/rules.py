"""How each operation of graphs is written in those of lite models."""

from __future__ import annotations

import numpy as np

from internals.deploy.lite.lowering import FLAT, IMAGE, PLAIN, Lowering, Rule
from internals.deploy.lite.runtime.kernels import RELU, RELU6
from internals.graph import Node
from internals.ops.conv import per_axis

FUNCTIONS = {"relu": 0, "sigmoid": 2, "tanh": 3}


def _conv2d(b: Lowering, node: Node) -> tuple[int, str]:
    weight = b.constant_of(node, 1, "weight")
    x, attrs = b.image(node.inputs[0]), node.attrs
    stride, padding, dilation = (
        per_axis(attrs.get(k, d), 2) for k, d in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    groups, channels = attrs.get("groups", 1), b.shape(x)[3]
    depthwise = groups == channels == weight.shape[0] and groups > 1
    if groups != 1 and not depthwise:
        raise b.error(node, f"has {groups} groups of {channels} channels; lite models have 1, or one for each channel")
    laid = weight[:, 0].transpose(1, 2, 0) if depthwise else weight.transpose(0, 2, 3, 1)
    n, height, width = b.shape(x)[:3]
    counts = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, p, d, k, s in zip((height, width), padding, dilation, weight.shape[2:], stride, strict=True)
    ]
    settings = (0, *stride, *dilation, padding[0], padding[0], padding[1], padding[1])
    inputs = [x, b.constant(laid), b.constant(np.zeros(weight.shape[0]))]
    return b.put("Depthwise" if depthwise else "Conv2d", inputs, (n, *counts, weight.shape[0]), settings), IMAGE


def _linear(b: Lowering, node: Node) -> tuple[int, str]:
    weight = b.constant_of(node, 1, "weight")
    if weight.ndim != 2:
        raise b.error(node, f"its second operand has shape {weight.shape}; lite models multiply by a matrix")
    bias = b.constant_of(node, 2, "bias") if len(node.inputs) > 2 else np.float32(0)
    number, layout = b.values[node.inputs[0]]
    if layout == FLAT:
        height, width, channels = b.flat[number]
        rows = weight.reshape(channels, height, width, -1).transpose(1, 2, 0, 3)
        weight = rows.reshape(weight.shape)
    else:
        number = b.plain(node.inputs[0])
    bias = np.broadcast_to(bias, weight.shape[1:])
    inputs = [number, b.constant(weight.T), b.constant(bias)]
    return b.put("FullyConnected", inputs, (*b.shape(number)[:-1], weight.shape[1]), (0,)), PLAIN


def _binary(kind: str, negated: bool = False, inverted: bool = False) -> Rule:
    def rule(b: Lowering, node: Node) -> tuple[int, str]:
        first, second = node.inputs
        known = b.array(second)
        if known is None and not (negated or inverted) and b.array(first) is not None:
            first, second, known = second, first, b.array(first)
        if known is not None and isinstance(first, Node):
            known = known.astype(np.float32)
            return b.combine(node, kind, -known if negated else 1 / known if inverted else known, first)
        if negated or inverted or known is not None:
            raise b.error(node, "lite models subtract and divide by constants only")
        same = b.values[first][1] == b.values[second][1] == IMAGE
        numbers = [b.image(one) if same else b.plain(one) for one in (first, second)]
        if len(b.shape(numbers[0])) < len(b.shape(numbers[1])):
            numbers.reverse()
        shapes = [b.shape(one) for one in numbers]
        if shapes[0] != shapes[1]:
            raise b.error(node, f"two values of shapes {first.shape} and {second.shape} would have to be repeated")
        return b.put(kind, numbers, shapes[0], (0,)), IMAGE if same else PLAIN

    return rule


def _function(b: Lowering, node: Node) -> tuple[int, str]:
    name = node.op.name
    if name == "relu":
        return b.activate(node, RELU, FUNCTIONS[name])
    number, layout = b.values[node.inputs[0]]
    return b.put("Unary", [number], b.shape(number), (FUNCTIONS[name],)), layout


def _clip(b: Lowering, node: Node) -> tuple[int, str]:
    low, high = node.attrs.get("low"), node.attrs.get("high")
    if low == 0 and high is None:
        return b.activate(node, RELU, 0)
    if low == 0 and high == 6:
        return b.activate(node, RELU6, 1)
    raise b.error(node, f"clips to {low} and {high}; lite models have 0 and 6, or 0 alone")


def _pool(kind: str) -> Rule:
    def rule(b: Lowering, node: Node) -> tuple[int, str]:
        x, attrs = b.image(node.inputs[0]), node.attrs
        window = per_axis(attrs["window"], 2)
        stride, padding = per_axis(attrs.get("stride") or window, 2), per_axis(attrs.get("padding", 0), 2)
        n, height, width, channels = b.shape(x)
        counts = [
            (size + 2 * p - k) // s + 1 for size, p, k, s in zip((height, width), padding, window, stride, strict=True)
        ]
        settings = (*window, *stride, padding[0], padding[0], padding[1], padding[1])
        if kind == "AveragePool" and not attrs.get("count_include_pad", True):
            settings = (*settings, 0)
        return b.put(kind, [x], (n, *counts, channels), settings), IMAGE

    return rule


def _adaptive(b: Lowering, node: Node) -> tuple[int, str]:
    if per_axis(node.attrs["size"], 2) != (1, 1):
        raise b.error(node, f"pools to {node.attrs['size']}; lite models have 1")
    x = b.image(node.inputs[0])
    n, channels = b.shape(x)[0], b.shape(x)[3]
    return b.put("Reshape", [b.put("Mean", [x], (n, channels))], (n, 1, 1, channels)), IMAGE


def _mean(b: Lowering, node: Node) -> tuple[int, str]:
    source, axes = node.inputs[0], node.attrs.get("axis")
    rank = len(source.shape)
    axes = (axes,) if isinstance(axes, int) else tuple(axes or range(rank))
    axes = tuple(sorted(axis % rank for axis in axes))
    if rank == 4 and axes == (2, 3):
        x, layout = b.image(source), IMAGE
    elif rank > 2 and axes == tuple(range(1, rank - 1)):
        x, layout = b.plain(source), PLAIN
    else:
        raise b.error(node, f"is over axes {axes} of {rank}; lite models have those of an image or a sequence")
    n, channels = b.shape(x)[0], b.shape(x)[-1]
    number = b.put("Mean", [x], (n, channels))
    if not node.attrs.get("keepdims"):
        return number, PLAIN
    return b.put("Reshape", [number], (n, *(1,) * (rank - 2), channels)), layout


def _reshape(b: Lowering, node: Node) -> tuple[int, str]:
    number, layout = b.values[node.inputs[0]]
    sizes = node.shape
    if layout == IMAGE and len(sizes) == 2:
        n, height, width, channels = b.shape(number)
        if sizes[1] == height * width * channels:
            number = b.put("Reshape", [number], (n, sizes[1]))
            b.flat[number] = height, width, channels
            return number, FLAT
    number = b.plain(node.inputs[0])
    held = int(np.prod(b.shape(number)))  # below 0: that many for each of the batch
    rest = int(np.prod([size for size in sizes[1:] if size is not None], dtype=int))
    if any(size is None for size in sizes[1:]) or not rest or held % rest:
        raise b.error(node, f"has shape {sizes}; only the first size may be open")
    shape = (held // rest, *sizes[1:]) if sizes else ()
    return b.put("Reshape", [number], shape), PLAIN


def _softmax(b: Lowering, node: Node) -> tuple[int, str]:
    number, layout = b.values[node.inputs[0]]
    rank = len(b.shape(number))
    axis = node.attrs.get("axis", -1) % rank
    if layout == IMAGE and axis != 1:
        number, layout = b.plain(node.inputs[0]), PLAIN
    if layout == FLAT:
        number, layout = b.plain(node.inputs[0]), PLAIN
    if layout == PLAIN and axis != rank - 1:
        raise b.error(node, f"is along axis {axis} of {rank}; lite models have the last, or an image's channels")
    return b.put("Softmax", [number], b.shape(number)), layout


def _transpose(b: Lowering, node: Node) -> tuple[int, str]:
    number = b.plain(node.inputs[0])
    shape = b.shape(number)
    axes = node.attrs.get("axes")
    order = tuple(axis % len(shape) for axis in axes) if axes is not None else tuple(range(len(shape)))[::-1]
    return b.put("Transpose", [number], [shape[i] for i in order], order), PLAIN


def _pad(b: Lowering, node: Node) -> tuple[int, str]:
    if node.attrs.get("value", 0) != 0:
        raise b.error(node, "pads with another number than 0")
    number, layout = b.values[node.inputs[0]]
    if layout == FLAT:
        number, layout = b.plain(node.inputs[0]), PLAIN
    shape, width = b.shape(number), node.attrs["width"]
    pairs = [(width, width)] * len(shape) if isinstance(width, int) else [tuple(pair) for pair in width]
    if layout == IMAGE:
        pairs = [pairs[i] for i in (0, 2, 3, 1)]
    if shape[0] < 0 and any(pairs[0]):
        raise b.error(node, "pads the batch")
    out = [size + sum(pair) for size, pair in zip(shape, pairs, strict=True)]
    return b.put("Pad", [number], out, [one for pair in pairs for one in pair]), layout


def _concat(b: Lowering, node: Node) -> tuple[int, str]:
    if any(b.array(one) is not None for one in node.inputs):
        raise b.error(node, "one part is a constant")
    images = all(b.values[one][1] == IMAGE for one in node.inputs)
    numbers = [b.image(one) if images else b.plain(one) for one in node.inputs]
    shapes = [b.shape(one) for one in numbers]
    axis = node.attrs.get("axis", 0) % len(shapes[0])
    axis = {0: 0, 1: 3, 2: 1, 3: 2}[axis] if images else axis
    total = sum(shape[axis] for shape in shapes)
    out = (*shapes[0][:axis], total, *shapes[0][axis + 1 :])
    return b.put("Concat", numbers, out, (axis,)), IMAGE if images else PLAIN


def _take(b: Lowering, node: Node) -> tuple[int, str]:
    table = b.constant_of(node, 0, "table")
    index = b.plain(node.inputs[1])
    if node.attrs.get("axis", 0) != 0 or table.ndim != 2:
        raise b.error(node, "lite models take rows of a matrix")
    return b.put("Gather", [b.constant(table), index], (*b.shape(index), table.shape[1])), PLAIN


def _getitem(b: Lowering, node: Node) -> tuple[int, str]:
    """Slices by one, and places of axes that then go."""
    key = node.attrs["key"]
    number = b.plain(node.inputs[0])
    shape, kept = b.shape(number), []
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) > len(shape) or not all(isinstance(one, slice | int) for one in parts):
        raise b.error(node, f"picks by {key!r}; lite models have slices by one, and places")
    for axis, part in enumerate(parts):
        if part == slice(None):
            kept.append(axis)
            continue
        if shape[axis] < 0:
            raise b.error(node, "picks from the batch")
        if isinstance(part, int):
            start, stop, step = part % shape[axis], part % shape[axis] + 1, 1
        else:
            start, stop, step = part.indices(shape[axis])
            kept.append(axis)
        if step != 1:
            raise b.error(node, f"picks by steps of {step}; lite models have steps of 1")
        shape = (*shape[:axis], max(0, stop - start), *shape[axis + 1 :])
        number = b.put("Part", [number], shape, (axis, start))
    left = [shape[axis] for axis in (*kept, *range(len(parts), len(shape)))]
    return (b.put("Reshape", [number], left) if len(left) < len(shape) else number), PLAIN


def _lstm(b: Lowering, node: Node) -> tuple[int, str]:
    if any(one not in b.zeros for one in node.inputs[1:3]):
        raise b.error(node, "its states do not begin as zeros; in lite models they do")
    number, weight = b.plain(node.inputs[0]), b.constant_of(node, 3, "weight")
    return b.put("Lstm", [number, b.constant(weight)], (*b.shape(number)[:2], weight.shape[1])), PLAIN


def _result(b: Lowering, node: Node) -> tuple[int, str]:
    if node.attrs["index"] != 0:
        raise b.error(node, f"is result {node.attrs['index']} of {node.inputs[0].name}; lite models keep the first")
    return b.values[node.inputs[0]]


RULES: dict[str, Rule] = {
    "conv2d": _conv2d,
    "linear": _linear,
    "matmul": _linear,
    "add": _binary("Add"),
    "sub": _binary("Add", negated=True),
    "mul": _binary("Multiply"),
    "div": _binary("Multiply", inverted=True),
    **dict.fromkeys(FUNCTIONS, _function),
    "clip": _clip,
    "max_pool2d": _pool("MaxPool"),
    "avg_pool2d": _pool("AveragePool"),
    "adaptive_avg_pool2d": _adaptive,
    "mean": _mean,
    "reshape": _reshape,
    "softmax": _softmax,
    "transpose": _transpose,
    "pad": _pad,
    "concat": _concat,
    "take": _take,
    "getitem": _getitem,
    "lstm": _lstm,
    "result": _result,
}
"""How each operation of graphs is written."""
