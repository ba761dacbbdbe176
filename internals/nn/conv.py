"""Layers that move a window over sequences and images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from internals import ops
from internals.nn.module import Module, parameter, positive, tensors
from internals.ops.conv import Sizes, sizes
from internals.ops.normalise import per_channel
from internals.tensor import Tensor


class _Conv(Module):
    """A convolution with learned weight and bias.

    Parameters
    ----------
    in_channels, out_channels : int
        x is (batch, in_channels, length) or (batch, in_channels, height, width).
    window : int, or one for each axis
    stride, padding, dilation : int, or one for each axis
    groups : int
        ``groups=in_channels`` is depthwise.
    bias : bool
    rng : numpy.random.Generator, optional
        Both start uniform within ``(in_channels / groups * window area) ** -0.5``, PyTorch's choice. The weight has
        PyTorch's layout too.
    """

    axes = 2
    transposed = False

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
        name, n = type(self).__name__, self.axes
        positive(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"{name}: {in_channels} -> {out_channels} channels don't divide into {groups} groups.")
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *sizes(name, "window", window, n, 1))
        self.settings: dict[str, Any] = {
            "stride": sizes(name, "stride", stride, n, 1),
            "padding": sizes(name, "padding", padding, n, 0),
            "dilation": sizes(name, "dilation", dilation, n, 1),
            "groups": groups,
        }
        rng = rng or np.random.default_rng()
        bound = float(np.prod(shape[1:])) ** -0.5
        self.weight = parameter(rng.uniform(-bound, bound, shape))
        self.bias = parameter(rng.uniform(-bound, bound, out_channels)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        name = f"conv{'_transpose' if self.transposed else ''}{self.axes}d"
        return per_channel(getattr(ops, name)(x, self.weight, **self.settings), None, self.bias)

    def extra_repr(self) -> str:
        first, second, *window = self.weight.shape
        inputs, outputs = first, second * self.settings["groups"]
        if not self.transposed:
            inputs, outputs = outputs, inputs
        return f"{inputs}, {outputs}, {tuple(window)}, bias={self.bias is not None}"


class Conv1d(_Conv):
    __doc__ = _Conv.__doc__
    axes = 1


class Conv2d(_Conv):
    __doc__ = _Conv.__doc__


class _ConvTranspose(_Conv):
    """The transpose of a convolution: a layer that enlarges.

    Parameters
    ----------
    in_channels, out_channels : int
        x is (batch, in_channels, length) or (batch, in_channels, height, width).
    window : int, or one for each axis
    stride, padding, output_padding, dilation : int, or one for each axis
        `output_padding`, below the stride, chooses among the sizes that a strided convolution would bring to that of x.
    groups : int
    bias : bool
    rng : numpy.random.Generator, optional
        Weight, (in_channels, out_channels / groups, window), and bias start as PyTorch's do.
    """

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, window: Sizes, *, output_padding: Sizes = 0, **settings: Any
    ) -> None:
        super().__init__(in_channels, out_channels, window, **settings)
        self.settings["output_padding"] = sizes(type(self).__name__, "output_padding", output_padding, self.axes, 0)


class ConvTranspose1d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    axes = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__


class _Pool(Module):
    def __init__(self, window: Sizes, *, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.settings = {"window": window, "stride": stride, "padding": padding}

    def extra_repr(self) -> str:
        return f"{self.settings['window']}"


class MaxPool2d(_Pool):
    """The largest entry under a window; see `ops.max_pool2d`."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.max_pool2d(x, **self.settings)


class AvgPool2d(_Pool):
    """The mean under a window; see `ops.avg_pool2d`."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.avg_pool2d(x, **self.settings)


class AdaptiveAvgPool2d(Module):
    """The means of as many equal parts as `size` says; see `ops.adaptive_avg_pool2d`."""

    def __init__(self, size: Sizes) -> None:
        self.size = sizes("AdaptiveAvgPool2d", "size", size, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return ops.adaptive_avg_pool2d(x, size=self.size)

    def extra_repr(self) -> str:
        return f"{self.size}"


class Flatten(Module):
    """Each example as one row: (batch, ...) to (batch, entries)."""

    def forward(self, x: Tensor) -> Tensor:
        tensors("Flatten", x=x)
        if x.ndim == 0:
            raise ValueError("Flatten: a 0-d tensor has no batch axis.")
        return ops.reshape(x, shape=(x.shape[0], math.prod(x.shape[1:])))
