"""The models of `every_way_models` as nets of layers, and two layers that the style does not bring."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals import ops
from internals.layers import Argument, Form
from internals.layers.layer import Layer, pull


@dataclass(frozen=True)
class AsLayers:
    """A configuration, and what its parameters are called in the module."""

    config: Any
    names: dict[str, str]
    """From the module's names to the net's."""
    sequence: bool = False
    """Whether x is a batch of sequences."""
    labelled: str = "y"
    """The data layer of the target; empty if there is none."""
    text: dict[str, Argument] = field(default_factory=dict)
    """What is fed besides."""
    extra: dict[str, type[Layer]] = field(default_factory=dict)
    """Types of layers that the configuration uses and that are written for it."""


def prefixed(**layers: str) -> dict[str, str]:
    """Weights and biases of layers that are called something else in the module."""
    return {f"{there}.{role}": f"{here}.{role}" for here, there in layers.items() for role in ("weight", "bias")}


class Attention(Layer):
    """Self-attention of sequences that are equally long; the bottom holds queries, keys and values side by side.

    Three factors of one sum come from the same bottom, and how many terms the sum has depends on the batch: no mixed
    layer of projections says that.
    """

    def setup(self, x: Form, *, heads: int) -> Form:
        self.heads = heads
        return Form((x.size // 3,), sequence=True)

    def forward(self, x: Argument) -> Any:
        batch, time = x.examples, int(x.lengths[0])
        parts = ops.reshape(x.value, shape=(batch, time, 3, self.heads, -1))
        self.turned = ops.transpose(parts, axes=(2, 0, 3, 1, 4))
        self.found = ops.scaled_dot_product(*self.turned, 0.0)
        rows = ops.transpose(self.found, axes=(0, 2, 1, 3))
        return ops.reshape(rows, shape=(batch * time, self.form_size))

    @property
    def form_size(self) -> int:
        return self.turned.shape[2] * self.turned.shape[4]

    def backward(self, g: Any, x: Argument) -> None:
        batch, heads, time, depth = self.found.shape
        g = ops.transpose(ops.reshape(g, shape=(batch, time, heads, depth)), axes=(0, 2, 1, 3))
        by_parts = ops.stack(pull(ops.scaled_dot_product, g, self.found, [*self.turned, 0.0])[:3], axis=0)
        by_rows = ops.transpose(by_parts, axes=(1, 3, 0, 2, 4))
        x.accumulate(ops.reshape(by_rows, shape=tuple(x.value.shape)))


class LayerNorm(Layer):
    """Each step normalised over its own numbers (Ba, Kiros & Hinton 2016)."""

    roles = ("weight", "bias")

    def setup(self, x: Form) -> Form:
        self.weight = self.parameter("weight", x.shape, init="constant", value=1.0)
        self.bias = self.parameter("bias", x.shape, init="constant")
        return x

    def forward(self, x: Argument) -> Any:
        self.normal = ops.normalise(x.value, axis=(-1,), eps=1e-5)
        return self.normal * self.weight.value + self.bias.value

    def backward(self, g: Any, x: Argument) -> None:
        self.bias.accumulate(ops.sum(g, axis=0))
        self.weight.accumulate(ops.sum(g * self.normal, axis=0))
        by_normal = g * self.weight.value
        x.accumulate(pull(ops.normalise, by_normal, self.normal, [x.value], axis=(-1,), eps=1e-5)[0])


MLP = AsLayers(
    """
    layer { name: "x" type: "data" shape: 6 }
    layer { name: "y" type: "data" ids: 3 }
    layer { name: "hidden" type: "fc" bottom: "x" size: 8 act: "tanh" }
    layer { name: "out" type: "fc" bottom: "hidden" size: 3 }
    layer { name: "loss" type: "softmax_with_loss" bottom: "out" bottom: "y" }
    """,
    prefixed(hidden="0", out="2"),
)

CNN = AsLayers(
    """
    layer { name: "x" type: "data" shape: [2, 4, 4] }
    layer { name: "y" type: "data" ids: 3 }
    layer { name: "conv" type: "conv" bottom: "x" channels: 3 window: 3 padding: 1 act: "relu" }
    layer { name: "pool" type: "pool" bottom: "conv" window: 2 }
    layer { name: "out" type: "fc" bottom: "pool" size: 3 }
    layer { name: "loss" type: "softmax_with_loss" bottom: "out" bottom: "y" }
    """,
    prefixed(conv="0", out="4"),
)

LSTM = AsLayers(
    """
    layer { name: "x" type: "data" shape: 3 sequence: true }
    layer { name: "y" type: "data" ids: 3 }
    layer { name: "gates" type: "fc" bottom: "x" size: 16 }
    layer { name: "memory" type: "lstmemory" bottom: "gates" bias: false }
    layer { name: "last" type: "sequence_pool" bottom: "memory" pool: "last" }
    layer { name: "out" type: "fc" bottom: "last" size: 3 }
    layer { name: "loss" type: "softmax_with_loss" bottom: "out" bottom: "y" }
    """,
    prefixed(gates="gates", out="out") | {"recurrent": "memory.weight"},
    sequence=True,
)

TRANSFORMER = AsLayers(
    """
    layer { name: "x" type: "data" shape: 4 sequence: true }
    layer { name: "y" type: "data" shape: 4 sequence: true }
    layer { name: "qkv" type: "fc" bottom: "x" size: 12 }
    layer { name: "heads" type: "attention" bottom: "qkv" heads: 2 }
    layer { name: "proj" type: "fc" bottom: "heads" size: 4 }
    layer { name: "one" type: "sum" bottom: "x" bottom: "proj" }
    layer { name: "norm1" type: "layer_norm" bottom: "one" }
    layer { name: "wide" type: "fc" bottom: "norm1" size: 6 act: "relu" }
    layer { name: "narrow" type: "fc" bottom: "wide" size: 4 }
    layer { name: "two" type: "sum" bottom: "norm1" bottom: "narrow" }
    layer { name: "norm2" type: "layer_norm" bottom: "two" }
    layer { name: "loss" type: "square_error" bottom: "norm2" bottom: "y" }
    """,
    prefixed(proj="self_attn.out_proj", norm1="norm1", norm2="norm2", wide="linear1", narrow="linear2")
    | {f"self_attn.in_proj_{role}": f"qkv.{role}" for role in ("weight", "bias")},
    sequence=True,
    extra={"attention": Attention, "layer_norm": LayerNorm},
)

NO_DECISIONS = (
    "each layer runs once in each pass, in an order that is found before any data is there; a net can't ask a value "
    "how often to run a layer"
)


def batch_for(written: AsLayers, x: np.ndarray | None, target: np.ndarray) -> dict[str, Any]:
    """What the net is fed; the gradient by x is wanted."""
    batch: dict[str, Any] = dict(written.text)
    if x is not None:
        batch["x"] = fed(x, written.sequence)
        batch["x"].wants = True
    if written.labelled:
        batch[written.labelled] = fed(target, written.sequence and target.ndim > 2)
    return batch


def fed(array: np.ndarray, sequence: bool) -> Argument:
    """A batch as an Argument; sequences that are equally long one after another."""
    if not sequence:
        return Argument(ids=array) if array.dtype.kind in "iu" else Argument(array)
    batch, time = array.shape[:2]
    return Argument(array.reshape(batch * time, *array.shape[2:]), starts=np.arange(batch + 1) * time)
