"""Layers whose weights are integers. They run rows of the op table, so they trace, are saved and exported as any layer.

A layer takes floats and gives floats: between a layer's result and the next one's integers lie only rows that keep the
order of numbers, so nothing is rounded more often than where integers flow throughout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.deploy.compress.calibrate import MinMax, PerChannel
from internals.deploy.compress.pack import Packed4, pack4
from internals.deploy.compress.scale import NARROW_INT8, SMALLEST_SCALE, Grid, Quantisation
from internals.nn import Conv2d, Embedding, Linear, Module
from internals.ops.normalise import per_channel
from internals.tensor import Tensor

WEIGHT_AXIS: dict[type, int] = {Linear: 1, Conv2d: 0, Embedding: 0}
"""Along which axis of its weight a layer has one scale each: its outputs, or the rows of a table."""


def array_of(value: Tensor) -> np.ndarray:
    return value.detach().to("cpu").numpy()


class Activation(Module):
    """Writes what comes in as integers of 8 bits.

    Parameters
    ----------
    quantisation : Quantisation, optional
        One scale for all, chosen by calibration. None: of each batch its own range ("dynamic").
    """

    buffers = ("scale", "zero_point")

    def __init__(self, quantisation: Quantisation | None) -> None:
        self.dynamic = quantisation is None
        if quantisation is None:
            return
        if quantisation.axis is not None:
            raise ValueError("Activation: what comes in has one scale for all, not one per slice.")
        if quantisation.grid.dtype not in (np.int8, np.uint8):
            raise ValueError(f"Activation: the grid must fit int8 or uint8, got {quantisation.grid}.")
        self.low, self.high = quantisation.grid.low, quantisation.grid.high
        self.scale = Tensor(quantisation.scale.copy())
        self.zero_point = Tensor(quantisation.zero_point.astype(quantisation.grid.dtype))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The integers, their scale and their zero point."""
        if not self.dynamic:
            q = ops.quantise(x, self.scale, self.zero_point)
            limits = np.iinfo(self.zero_point.dtype)
            if (self.low, self.high) != (limits.min, limits.max):
                q = ops.clip(q, low=self.low, high=self.high)
            return q, self.scale, self.zero_point
        low, high = ops.minimum(ops.min(x), 0.0), ops.maximum(ops.max(x), 0.0)
        scale = ops.maximum((high - low) / 255.0, SMALLEST_SCALE)
        zero_point = ops.cast(ops.clip(-128.0 - ops.round(low / scale), low=-128, high=127), dtype="int8")
        return ops.quantise(x, scale, zero_point), scale, zero_point

    def extra_repr(self) -> str:
        return "dynamic" if self.dynamic else f"scale={self.scale.item():.4g}, zero_point={self.zero_point.item()}"


class _Quantised(Module):
    """A layer's integers: `weight`, its `scale` and `zero_point`, and the float `bias`."""

    buffers = ("weight", "scale", "zero_point", "bias")
    activation: Activation

    def _take(self, layer: Any, weight: Quantisation, activation: Quantisation | None) -> None:
        if weight.grid.dtype not in (np.int8, np.uint8):
            raise ValueError(f"{type(self).__name__}: the weight's grid must fit int8 or uint8, got {weight.grid}.")
        self.quantisation = weight
        self.weight = Tensor(weight.quantise(array_of(layer.weight)))
        self.scale = Tensor(weight.scale.copy())
        # One 0 for all where it is 0 everywhere: the convolutions of runtimes take no zero point per channel.
        zero_point = np.zeros((), np.int32) if weight.symmetric else weight.zero_point
        self.zero_point = Tensor(zero_point.astype(weight.grid.dtype))
        self.bias = None if layer.bias is None else Tensor(array_of(layer.bias).copy())
        self.activation = Activation(activation)

    def _real(self, steps: Tensor, scale: Tensor, axis: int) -> Tensor:
        """Sums of products as the reals that they stand for."""
        step = scale * self.scale
        zero = ops.zeros_like(ops.cast(step, dtype="int32"))
        return ops.dequantise(steps, step, zero, axis=axis if step.ndim else None)

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return sum(one.nbytes for one in map(array_of, (t for _, t in self.named_buffers())))


class QuantisedLinear(_Quantised):
    """A `Linear` of integers: ``x`` is written in 8 bits, multiplied exactly, and read as floats again.

    Parameters
    ----------
    layer : Linear
    weight : Quantisation
        One scale for all, or one per column (axis 1).
    activation : Quantisation, optional
        Of what comes in; None: each batch's own range.
    """

    def __init__(self, layer: Linear, weight: Quantisation, activation: Quantisation | None = None) -> None:
        if weight.axis not in (None, 1, -1):
            raise ValueError(f"QuantisedLinear: one scale per column is axis 1 of the weight, not {weight.axis}.")
        self._take(layer, weight, activation)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 0 or x.shape[-1] != self.weight.shape[0]:
            raise ValueError(
                f"QuantisedLinear: an input of shape {x.shape} does not end in in_features = {self.weight.shape[0]}."
            )
        q, scale, zero_point = self.activation(x if x.ndim > 1 else ops.expand_dims(x, axis=0))
        out = self._real(ops.matmul_integer(q, self.weight, zero_point, self.zero_point), scale, -1)
        out = out if self.bias is None else out + self.bias
        return out if x.ndim > 1 else ops.squeeze(out, axis=0)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}, {self.weight.dtype}"


class QuantisedConv2d(_Quantised):
    """A `Conv2d` of integers; see `QuantisedLinear`. One scale per output channel is axis 0 of the weight."""

    def __init__(self, layer: Conv2d, weight: Quantisation, activation: Quantisation | None = None) -> None:
        if weight.axis not in (None, 0, -4):
            raise ValueError(f"QuantisedConv2d: one scale per channel is axis 0 of the weight, not {weight.axis}.")
        self.settings = dict(layer.settings)
        self._take(layer, weight, activation)

    def forward(self, x: Tensor) -> Tensor:
        q, scale, zero_point = self.activation(x)
        steps = ops.conv2d_integer(q, self.weight, zero_point, self.zero_point, **self.settings)
        return per_channel(self._real(steps, scale, 1), None, self.bias)

    def extra_repr(self) -> str:
        outputs, inputs, *window = self.weight.shape
        return f"{inputs * self.settings['groups']}, {outputs}, {tuple(window)}, {self.weight.dtype}"


class QuantisedEmbedding(Module):
    """An `Embedding` of int8, with one scale per row; a row is read as floats when it is looked up."""

    buffers = ("weight", "scale")

    def __init__(self, layer: Embedding, grid: Grid = NARROW_INT8) -> None:
        observer = PerChannel(0, grid)
        observer.observe(array_of(layer.weight))
        weight = observer.quantisation()
        self.weight, self.scale = Tensor(weight.quantise(array_of(layer.weight))), Tensor(weight.scale.copy())

    def forward(self, ids: Tensor) -> Tensor:
        rows = ops.cast(ops.take(self.weight, ids, axis=0), dtype="float32")
        return rows * ops.expand_dims(ops.take(self.scale, ids, axis=0), axis=-1)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}, {self.weight.dtype}"


class Linear4(Module):
    """A `Linear` whose weight lies in four bits, two numbers to a byte, and is unpacked when it is used.

    Parameters
    ----------
    layer : Linear
    group : int
        Rows of the weight that share a scale.
    """

    buffers = ("data", "scale", "zero_point", "bias")

    def __init__(self, layer: Linear, group: int = 32) -> None:
        self.packed: Packed4 = pack4(array_of(layer.weight), group)
        self.data, self.scale = Tensor(self.packed.data), Tensor(self.packed.scale)
        self.zero_point = Tensor(self.packed.zero_point)
        self.bias = None if layer.bias is None else Tensor(array_of(layer.bias).copy())

    def weights(self) -> Tensor:
        """(in_features, out_features) float32: the weight, unpacked."""
        (rows, columns), group = self.packed.shape, self.packed.group
        both = ops.cast(self.data, dtype="float32")
        second = ops.floor(both * 0.0625)
        halves = ops.stack([both - second * 16.0, second], axis=1)
        numbers = ops.reshape(halves, shape=(2 * self.data.shape[0], columns))[:rows]
        scale, zero_point = (ops.repeat(one, repeats=group, axis=0)[:rows] for one in (self.scale, self.zero_point))
        return (numbers - zero_point) * scale

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weights(), 0.0 if self.bias is None else self.bias)

    def extra_repr(self) -> str:
        return f"{self.packed.shape[0]}, {self.packed.shape[1]}, 4 bits, group={self.packed.group}"


def weight_quantisation(layer: Module, per_channel: bool, grid: Grid, scheme: str) -> Quantisation:
    """How a layer's weight is written, by its own range.

    Parameters
    ----------
    layer : Linear, Conv2d or Embedding
    per_channel : bool
        One scale per output, or one for all.
    scheme : {"symmetric", "affine"}
    """
    weight = array_of(layer.weight)  # type: ignore[attr-defined]
    observer = PerChannel(WEIGHT_AXIS[type(layer)], grid, scheme) if per_channel else MinMax(grid, scheme)
    observer.observe(weight)
    return observer.quantisation()


def nbytes(model: Module) -> int:
    """Bytes of all parameters and buffers of a model."""
    return sum(array_of(one).nbytes for _, one in [*model.named_parameters(), *model.named_buffers()])
