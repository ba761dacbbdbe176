"""Layers over images, and normalisation. Images are (batch, height, width, channels), Keras's default.

The ops have channels second; the axes are moved there and back, which copies nothing. With
``data_format="channels_first"`` images are (batch, channels, height, width), and nothing is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.front.layer import Layer, known, positive
from internals.front.layers import activation_of
from internals.front.symbol import Shape
from internals.tensor import Tensor, no_grad

Sizes = int | Sequence[int]


class _Window(Layer):
    """A window that moves over height and width."""

    window: tuple[int, int]
    strides: tuple[int, int]

    def prepare(self, window: Sizes, strides: Sizes, padding: str, data_format: str) -> None:
        kind = type(self).__name__
        if padding not in ("valid", "same"):
            raise ValueError(f"{kind}: padding must be 'valid' or 'same', got {padding!r}.")
        if data_format not in ("channels_last", "channels_first"):
            raise ValueError(f"{kind}: data_format must be 'channels_last' or 'channels_first', got {data_format!r}.")
        self.window, self.strides = _pair(kind, "window", window), _pair(kind, "strides", strides)
        self.last = data_format == "channels_last"
        self.same = padding == "same"

    def channels_second(self, x: Any) -> Any:
        if x.ndim != 4:
            kind = "height, width, channels" if self.last else "channels, height, width"
            raise ValueError(f"{self.name}: expected (batch, {kind}), got shape {x.shape}.")
        return ops.moveaxis(x, -1, 1) if self.last else x

    def channels_back(self, x: Any) -> Any:
        return ops.moveaxis(x, 1, -1) if self.last else x

    def borders(self, x: Any, dilation: Sequence[int] = (1, 1)) -> list[tuple[int, int]]:
        """What "same" puts before and after height and width: the larger half goes after, as in TensorFlow."""
        found = []
        for n, k, stride, d in zip(x.shape[2:], self.window, self.strides, dilation, strict=True):
            total = max((-(-n // stride) - 1) * stride + d * (k - 1) + 1 - n, 0) if self.same else 0
            found.append((total // 2, total - total // 2))
        return found


def _padded(x: Any, borders: Sequence[tuple[int, int]], value: float = 0.0) -> Any:
    if not any(before or after for before, after in borders):
        return x
    return ops.pad(x, width=((0, 0), (0, 0), *borders), value=value)


class Conv2D(_Window):
    """A convolution; see `internals.ops.conv2d`.

    Parameters
    ----------
    filters : int
        How many channels the result has.
    kernel_size, strides, dilation_rate : int or pair
    padding : {"valid", "same"}
    activation : str, optional
    use_bias : bool
    groups : int
    data_format : {"channels_last", "channels_first"}
        The kernel is (height, width, channels / groups, filters) in both, as in Keras.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        *,
        activation: str | None = None,
        use_bias: bool = True,
        dilation_rate: Sizes = 1,
        groups: int = 1,
        data_format: str = "channels_last",
        kernel_initializer: str = "glorot_uniform",
        name: str | None = None,
    ) -> None:
        super().__init__(
            name=name, filters=filters, kernel_size=kernel_size, strides=strides, padding=padding,
            activation=activation, use_bias=use_bias, dilation_rate=dilation_rate, groups=groups,
            data_format=data_format, kernel_initializer=kernel_initializer,
        )  # fmt: skip
        positive("Conv2D", filters=filters, groups=groups)
        self.prepare(kernel_size, strides, padding, data_format)
        self.dilation = _pair("Conv2D", "dilation_rate", dilation_rate)
        self.activation = activation_of(activation)

    def build(self, *shapes: Shape) -> None:
        if len(shapes[0]) != 4:
            raise ValueError(f"{self.name}: expected images of 3 axes and a batch axis, got shape {shapes[0]}.")
        channels = known(self.name, "the number of channels", shapes[0][-1 if self.last else 1])
        filters, groups = self.settings["filters"], self.settings["groups"]
        if channels % groups or filters % groups:
            raise ValueError(
                f"{self.name}: {channels} channels and {filters} filters don't divide into {groups} groups."
            )
        shape = (*self.window, channels // groups, filters)
        self.kernel = self.weight(shape, self.settings["kernel_initializer"])
        self.bias = self.weight((filters,), "zeros") if self.settings["use_bias"] else None

    def forward(self, x: Any) -> Any:
        x = self.channels_second(x)
        weight = ops.transpose(self.kernel, axes=(3, 2, 0, 1))
        x = _padded(x, self.borders(x, self.dilation))
        y = ops.conv2d(
            x, weight, stride=self.strides, padding=0, dilation=self.dilation, groups=self.settings["groups"]
        )
        if self.bias is not None:
            y = y + ops.reshape(self.bias, shape=(-1, 1, 1))
        return self.activation(self.channels_back(y))


class _Pooling(_Window):
    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: str = "valid",
        *,
        data_format: str = "channels_last",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name, pool_size=pool_size, strides=strides, padding=padding, data_format=data_format)
        self.prepare(pool_size, pool_size if strides is None else strides, padding, data_format)


class MaxPooling2D(_Pooling):
    """The largest entry under each window; the stride is the window unless given."""

    def forward(self, x: Any) -> Any:
        x = self.channels_second(x)
        x = _padded(x, self.borders(x), float("-inf"))
        return self.channels_back(ops.max_pool2d(x, window=self.window, stride=self.strides, padding=0))


class AveragePooling2D(_Pooling):
    """The mean under each window, of what is image; the stride is the window unless given."""

    def forward(self, x: Any) -> Any:
        x = self.channels_second(x)
        borders = self.borders(x)
        y = ops.avg_pool2d(_padded(x, borders), window=self.window, stride=self.strides, padding=0)
        if any(map(any, borders)):
            image = np.pad(np.ones((1, 1, *x.shape[2:]), np.float32), ((0, 0), (0, 0), *borders))
            share = ops.avg_pool2d(image, window=self.window, stride=self.strides, padding=0)
            y = y * Tensor(1 / share, device=getattr(x, "device", "cpu"))
        return self.channels_back(y)


class GlobalAveragePooling2D(Layer):
    """The mean of each channel over height and width."""

    def forward(self, x: Any) -> Any:
        return ops.mean(x, axis=(1, 2))


class GlobalMaxPooling2D(Layer):
    """The largest entry of each channel."""

    def forward(self, x: Any) -> Any:
        return ops.max(x, axis=(1, 2))


class GlobalAveragePooling1D(Layer):
    """The mean over time: (batch, time, features) to (batch, features)."""

    def forward(self, x: Any) -> Any:
        return ops.mean(x, axis=1)


class BatchNormalization(Layer):
    """Normalise along one axis: over the batch in training, by moving statistics otherwise.

    Parameters
    ----------
    axis : int
        That of the channels.
    momentum : float
        The share of the old moving statistics that stays. The moving variance is the biased one, as in Keras.
    epsilon : float
    """

    buffers = ("moving_mean", "moving_variance")

    def __init__(
        self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, *, name: str | None = None
    ) -> None:
        super().__init__(name=name, axis=axis, momentum=momentum, epsilon=epsilon)
        if not isinstance(momentum, int | float) or not 0 <= momentum <= 1:
            raise ValueError(f"BatchNormalization: momentum must be in [0, 1], got {momentum!r}.")

    def build(self, *shapes: Shape) -> None:
        size = known(self.name, f"axis {self.settings['axis']}", shapes[0][self.settings["axis"]])
        self.gamma, self.beta = self.weight((size,), "ones"), self.weight((size,), "zeros")
        self.moving_mean = self.weight((size,), "zeros", train=False)
        self.moving_variance = self.weight((size,), "ones", train=False)

    def forward(self, x: Any) -> Any:
        axis = self.settings["axis"] % x.ndim
        others = tuple(i for i in range(x.ndim) if i != axis)
        shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))

        def spread(value: Any) -> Any:
            return ops.reshape(value, shape=shape)

        epsilon = self.settings["epsilon"]
        if self.training:
            self._note(x, others)
            return ops.normalise(x, axis=others, eps=epsilon) * spread(self.gamma) + spread(self.beta)
        scale = self.gamma * ops.rsqrt(self.moving_variance + epsilon)
        return x * spread(scale) + spread(self.beta - self.moving_mean * scale)

    def _note(self, x: Any, others: tuple[int, ...]) -> None:
        with no_grad():
            mean = ops.mean(x, axis=others, keepdims=True)
            variance = ops.mean(ops.square(x - mean), axis=others)
            momentum = self.settings["momentum"]
            for moving, newest in ((self.moving_mean, mean), (self.moving_variance, variance)):
                moving *= momentum
                moving += ops.reshape(newest, shape=(-1,)) * (1 - momentum)


class LayerNormalization(Layer):
    """Normalise each example over its last axis, then scale and move it."""

    def __init__(self, epsilon: float = 1e-3, *, name: str | None = None) -> None:
        super().__init__(name=name, epsilon=epsilon)

    def build(self, *shapes: Shape) -> None:
        size = known(self.name, "the last axis", shapes[0][-1])
        self.gamma, self.beta = self.weight((size,), "ones"), self.weight((size,), "zeros")

    def forward(self, x: Any) -> Any:
        return ops.layer_norm(x, self.gamma, self.beta, eps=self.settings["epsilon"])


def _pair(kind: str, name: str, sizes: Sizes) -> tuple[int, int]:
    pair = (sizes, sizes) if isinstance(sizes, int) else tuple(sizes)
    if len(pair) != 2:
        raise ValueError(f"{kind}: {name} must be one number or two, got {sizes!r}.")
    positive(kind, **{name: pair[0]})
    positive(kind, **{name: pair[1]})
    return pair[0], pair[1]
