"""The cases of convolutions. torch has our layout; tensorflow has channels last, and pads by another rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import Sample, on


def pairs(*values: Any) -> list[list[int]]:
    return [list(value) if isinstance(value, tuple | list) else [value, value] for value in values]


def channels_last(f: Any, x: Any) -> Any:
    return f.transpose(x, [0, 2, 3, 1])


def channels_first(f: Any, x: Any) -> Any:
    return f.transpose(x, [0, 3, 1, 2])


def bordered(f: Any, x: Any, padding: list[int]) -> Any:
    """x, channels last, with zeros around."""
    return f.pad(x, [[0, 0], [padding[0]] * 2, [padding[1]] * 2, [0, 0]])


def filters(f: Any, weight: Any, dilation: list[int]) -> Any:
    """tensorflow's filter, the holes of a dilation filled with zeros: on a cpu it has no gradient for dilation."""
    kernel = f.transpose(weight, [2, 3, 1, 0])
    for axis, d in enumerate(dilation):
        where = [[p * d] for p in range(kernel.shape[axis])]
        moved = f.experimental.numpy.moveaxis(kernel, axis, 0)
        spread = f.scatter_nd(where, moved, [(moved.shape[0] - 1) * d + 1, *moved.shape[1:]])
        kernel = f.experimental.numpy.moveaxis(spread, 0, axis)
    return kernel


def tf_conv2d(f: Any, x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    stride, padding, dilation = pairs(stride, padding, dilation)
    parts = zip(f.split(x, groups, axis=1), f.split(weight, groups, axis=0), strict=True)
    found = [
        f.nn.conv2d(bordered(f, channels_last(f, a), padding), filters(f, w, dilation), stride, "VALID")
        for a, w in parts
    ]
    return channels_first(f, f.concat(found, axis=3))


def tf_conv_transpose2d(
    f: Any, x: Any, weight: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> Any:
    stride, padding, more, dilation = pairs(stride, padding, output_padding, dilation)
    found = []
    for a, w in zip(f.split(x, groups, axis=1), f.split(weight, groups, axis=0), strict=True):
        kernel = filters(f, w, dilation)
        size = [(n - 1) * s + k + m for n, s, k, m in zip(a.shape[2:], stride, kernel.shape[:2], more, strict=True)]
        whole = f.nn.conv2d_transpose(
            channels_last(f, a), kernel, [a.shape[0], *size, kernel.shape[2]], stride, "VALID"
        )
        (top, left), (height, width) = padding, size
        found.append(whole[:, top : height - top, left : width - left])
    return channels_first(f, f.concat(found, axis=3))


def tf_conv2d_weight(f: Any, x: Any, g: Any, size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    stride, padding, dilation = pairs(stride, padding, dilation)
    found = []
    for a, b in zip(f.split(x, groups, axis=1), f.split(g, groups, axis=1), strict=True):
        window = [d * (k - 1) + 1 for d, k in zip(dilation, size, strict=True)]
        kernel = f.raw_ops.Conv2DBackpropFilter(
            input=bordered(f, channels_last(f, a), padding),
            filter_sizes=[*window, a.shape[1], b.shape[1]],
            out_backprop=channels_last(f, b),
            strides=[1, *stride, 1],
            padding="VALID",
        )
        found.append(f.transpose(kernel[:: dilation[0], :: dilation[1]], [3, 2, 0, 1]))
    return f.concat(found, axis=0)


def flat(two: Any, framework: Any, x: Any, y: Any, **attrs: Any) -> Any:
    """One spatial axis as two, the first of size 1."""
    neutral = {"size": 1, "padding": 0, "output_padding": 0, "stride": 1, "dilation": 1}
    both = {
        name: value if name == "groups" else (neutral[name], *np.atleast_1d(value).tolist())
        for name, value in attrs.items()
    }
    return framework.squeeze(two(framework, framework.expand_dims(x, 2), framework.expand_dims(y, 2), **both), 2)


def in_one(two: Any) -> Any:
    return lambda framework, x, y, **attrs: flat(two, framework, x, y, **attrs)


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose sums tensorflow, which adds up float16 in float16, still gets right to 0.004."""
    return 0.3 * rng.standard_normal(shape)


CONV1D = [
    on((1, 1, 1), (1, 1, 1)),
    on((0, 2, 4), (3, 2, 2), padding=[1]),
    on((2, 4, 7), (2, 2, 3), stride=2, padding=1, dilation=2, groups=2),
]
CONV2D = [
    on((1, 1, 1, 1), (1, 1, 1, 1)),
    on((0, 1, 3, 3), (2, 1, 2, 2)),
    on((1, 3, 5, 6), (2, 3, 3, 2), stride=2, padding=(1, 0), dilation=(1, 2)),
    on((1, 2, 3, 4), (4, 1, 2, 3), groups=2, padding=1),
    on((2, 2, 3, 4), (3, 2, 2, 3)),
]
TRANSPOSE1D = [
    on((1, 1, 1), (1, 1, 1)),
    on((0, 2, 4), (2, 3, 2), padding=1),
    on((2, 4, 3), (4, 2, 3), stride=3, padding=1, output_padding=2, dilation=2, groups=2),
]
TRANSPOSE2D = [
    on((1, 1, 1, 1), (1, 1, 1, 1)),
    on((0, 2, 3, 3), (2, 1, 2, 2)),
    on((1, 4, 2, 2), (4, 1, 3, 2), stride=(2, 3), padding=1, output_padding=(1, 2), dilation=(1, 2), groups=2),
    on((2, 3, 3, 2), (3, 2, 2, 3)),
]


def by_weight(samples: list[Sample], torch_like: Any) -> list[Sample]:
    """The same convolutions, called with a cotangent in place of the weight."""
    made = []
    for (x, weight), attrs in samples:
        made.append(((x, torch_like(x, weight, attrs)), attrs | {"size": weight[2:]}))
    return made


def result_shape(x: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any]) -> tuple[int, ...]:
    import torch

    two = torch.nn.functional.conv2d if len(x) == 4 else torch.nn.functional.conv1d
    return tuple(two(torch.zeros(x), torch.zeros(weight), **attrs).shape)


def torch_weight(name: str) -> Any:
    return lambda t, x, g, size, **attrs: getattr(t.nn.grad, name)(
        x, (g.shape[1], x.shape[1] // attrs["groups"], *size), g, **attrs
    )


FUNCTIONAL = "nn.functional."

CONV_CASES = [
    Case("conv1d", FUNCTIONAL + "conv1d", in_one(tf_conv2d), CONV1D),
    Case("conv2d", FUNCTIONAL + "conv2d", tf_conv2d, CONV2D, small, also=("float16",)),
    Case("conv_transpose1d", FUNCTIONAL + "conv_transpose1d", in_one(tf_conv_transpose2d), TRANSPOSE1D),
    Case("conv_transpose2d", FUNCTIONAL + "conv_transpose2d", tf_conv_transpose2d, TRANSPOSE2D),
    Case("conv1d_weight", torch_weight("conv1d_weight"), in_one(tf_conv2d_weight), by_weight(CONV1D, result_shape)),
    Case("conv2d_weight", torch_weight("conv2d_weight"), tf_conv2d_weight, by_weight(CONV2D, result_shape)),
]
