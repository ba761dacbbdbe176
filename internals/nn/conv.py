"""Layers that move a window over images."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.nn.module import Module
from internals.ops.conv import Sizes, sizes
from internals.ops.normalise import per_channel
from internals.tensor import Tensor


class Conv2d(Module):
    """A convolution with learned weight and bias.

    Parameters
    ----------
    in_channels, out_channels : int
        x is (batch, in_channels, height, width).
    window : int or (height, width)
    stride, padding, dilation : int or pair
    groups : int
        ``groups=in_channels`` is depthwise.
    bias : bool
    rng : numpy.random.Generator, optional
        Both start uniform within ``(in_channels / groups * window area) ** -0.5``, PyTorch's choice. The weight has
        PyTorch's layout too.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        window: Sizes,
        *,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        rng: np.random.Generator | None = None,
    ) -> None:
        for name, size in (("in_channels", in_channels), ("out_channels", out_channels), ("groups", groups)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"Conv2d: {name} must be a positive integer, got {size!r}.")
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"Conv2d: {in_channels} -> {out_channels} channels don't divide into {groups} groups.")
        shape = (out_channels, in_channels // groups, *sizes("Conv2d", "window", window, 2, 1))
        self.settings: dict[str, Any] = {
            "stride": sizes("Conv2d", "stride", stride, 2, 1),
            "padding": sizes("Conv2d", "padding", padding, 2, 0),
            "dilation": sizes("Conv2d", "dilation", dilation, 2, 1),
            "groups": groups,
        }
        rng = rng or np.random.default_rng()
        bound = float(np.prod(shape[1:])) ** -0.5
        self.weight = Tensor(rng.uniform(-bound, bound, shape), dtype=np.float32, requires_grad=True)
        self.bias = (
            Tensor(rng.uniform(-bound, bound, out_channels), dtype=np.float32, requires_grad=True) if bias else None
        )

    def forward(self, x: Tensor) -> Tensor:
        return per_channel(ops.conv2d(x, self.weight, **self.settings), None, self.bias)

    def __repr__(self) -> str:
        outputs, inputs, *window = self.weight.shape
        return f"Conv2d({inputs * self.settings['groups']}, {outputs}, {tuple(window)}, bias={self.bias is not None})"


class _Pool(Module):
    def __init__(self, window: Sizes, *, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.settings = {"window": window, "stride": stride, "padding": padding}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings['window']})"


class MaxPool2d(_Pool):
    """The largest entry under a window; see `ops.max_pool2d`."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.max_pool2d(x, **self.settings)


class AvgPool2d(_Pool):
    """The mean under a window; see `ops.avg_pool2d`."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.avg_pool2d(x, **self.settings)


class Flatten(Module):
    """Each example as one row: (batch, ...) to (batch, entries)."""

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 0:
            raise ValueError("Flatten: a 0-d tensor has no batch axis.")
        return ops.reshape(x, shape=(x.shape[0], x.size // x.shape[0] if x.shape[0] else 0))

    def __repr__(self) -> str:
        return "Flatten()"
