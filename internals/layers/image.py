"""Layers of images; an example is (channels, height, width)."""

from __future__ import annotations

from typing import Any

from internals import ops
from internals.device import Array
from internals.layers.argument import Argument, Form, Parameter
from internals.layers.dense import positive
from internals.layers.layer import Layer, layer, pull
from internals.ops import Spec

POOLING = {"max": ops.max_pool2d, "average": ops.avg_pool2d}
"""Pooling types, and the row of the op table that does each."""


def pair(value: Any) -> Any:
    """A size for each axis, from a list of a configuration."""
    return tuple(value) if isinstance(value, list) else value


def _image(what: str, x: Form) -> None:
    if len(x.shape) != 3 or x.ids or x.sequence:
        raise ValueError(f"a {what} layer needs images, channels x height x width, but its bottom is {x}.")


@layer("conv")
class Convolution(Layer):
    """A window of weights moved over an image."""

    roles = ("weight", "bias")
    weight: Parameter
    bias: Parameter | None

    def setup(self, x: Form, *, channels: int, window: Any, stride: Any = 1, padding: Any = 0, groups: int = 1) -> Form:
        _image("conv", x)
        positive(channels=channels, groups=groups)
        if x.shape[0] % groups or channels % groups:
            raise ValueError(f"{x.shape[0]} and {channels} channels don't divide into {groups} groups.")
        size = pair(window) if isinstance(window, list | tuple) else (window, window)
        for one in size:
            positive(window=one)
        shape = (channels, x.shape[0] // groups, *size)
        self.where = {"stride": pair(stride), "padding": pair(padding), "groups": groups}
        spec = ops.conv2d.infer(Spec((1, *x.shape), "float32"), Spec(shape, "float32"), dilation=1, **self.where)
        self.weight = self.parameter("weight", shape, fan_in=shape[1] * shape[2] * shape[3])
        self.bias = self.optional("bias", (channels,), init="constant")
        return Form(spec.shape[1:])

    def forward(self, x: Argument) -> Array:
        out = ops.conv2d(x.value, self.weight.value, **self.where)
        return out if self.bias is None else out + ops.reshape(self.bias.value, shape=(-1, 1, 1))

    def backward(self, g: Array, x: Argument) -> None:
        if self.bias is not None:
            channels = self.bias.value.shape
            self.bias.accumulate(ops.reshape(ops.unbroadcast(g, (*channels, 1, 1)), shape=channels))
        by_x, by_weight = pull(ops.conv2d, g, None, [x.value, self.weight.value], [x.wants, True], **self.where)
        self.weight.accumulate(by_weight)
        x.accumulate(by_x)


@layer("pool")
class Pool(Layer):
    """The largest entry, or the mean, under a window."""

    def setup(self, x: Form, *, window: Any, pool: str = "max", stride: Any = None, padding: Any = 0) -> Form:
        _image("pool", x)
        if pool not in POOLING:
            raise ValueError(f"pool {pool!r} is not one of {', '.join(POOLING)}.")
        self.row = POOLING[pool]
        self.where = {"window": pair(window), "stride": pair(stride), "padding": pair(padding)}
        return Form(self.row.infer(Spec((1, *x.shape), "float32"), **self.where).shape[1:])

    def forward(self, x: Argument) -> Array:
        return self.row(x.value, **self.where)

    def backward(self, g: Array, x: Argument) -> None:
        x.accumulate(pull(self.row, g, None, [x.value], **self.where)[0])


@layer("lrn")
class LocalResponseNorm(Layer):
    """Each entry divided by a power of what its neighbours among the channels have (Krizhevsky et al. 2012, 3.3).

    ``y_i = x_i / (k + alpha / window * sum of x_j ** 2) ** beta``, j in the window around i; Caffe's LRN across
    channels and PaddlePaddle's img_cmrnorm.
    """

    def setup(self, x: Form, *, window: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Form:
        _image("lrn", x)
        positive(window=window)
        if window % 2 == 0:
            raise ValueError(f"window must be odd, as many channels on either side, got {window}.")
        for name, value in {"alpha": alpha, "beta": beta, "k": k}.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{name} must be a number, got {value!r}.")
        if not (k > 0 and alpha >= 0):
            raise ValueError(f"k must be positive and alpha not negative, got {k!r} and {alpha!r}.")
        self.window, self.alpha, self.beta, self.k = window, alpha, beta, k
        return x

    def _summed(self, value: Array) -> Array:
        """The sum over the window around each channel."""
        side, channels = self.window // 2, value.shape[1]
        wide = ops.pad(value, width=((0, 0), (side, side), (0, 0), (0, 0)))
        parts = [ops.getitem(wide, key=(slice(None), slice(i, i + channels))) for i in range(self.window)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def forward(self, x: Argument) -> Array:
        self.scale = self._summed(x.value * x.value) * (self.alpha / self.window) + self.k
        self.power = self.scale**-self.beta
        return x.value * self.power

    def backward(self, g: Array, x: Argument) -> None:
        if x.wants:
            shared = self._summed(g * x.value * self.power / self.scale)
            x.accumulate(g * self.power - x.value * shared * (2 * self.alpha * self.beta / self.window))
