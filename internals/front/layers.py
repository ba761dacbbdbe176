"""Layers without windows or time: dense, activations, dropout, shapes, merging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.front.layer import Layer, known, positive
from internals.front.names import choose
from internals.front.symbol import Shape
from internals.ops.seed import draw_seed
from internals.ops.spec import is_floating
from internals.tensor import Tensor

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda x: x,
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
    "softmax": lambda x: ops.softmax(x, axis=-1),
    "log_softmax": lambda x: ops.log_softmax(x, axis=-1),
    "gelu": ops.gelu,
    "elu": ops.elu,
    "silu": ops.silu,
    "swish": ops.silu,
    "softplus": ops.softplus,
    "softsign": ops.softsign,
    "leaky_relu": lambda x: ops.leaky_relu(x, slope=0.2),
    "exponential": ops.exp,
}
"""By Keras's names and with Keras's defaults."""


def activation_of(wanted: str | None) -> Callable[[Any], Any]:
    """The activation of a name; None is "linear"."""
    return choose("activation", "linear" if wanted is None else wanted, ACTIVATIONS)


class Dense(Layer):
    """``activation(x @ kernel + bias)``.

    Parameters
    ----------
    units : int
        x is (batch, ..., features), the result (batch, ..., units).
    activation : str, optional
    use_bias : bool
    kernel_initializer : str
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        *,
        use_bias: bool = True,
        kernel_initializer: str = "glorot_uniform",
        name: str | None = None,
    ) -> None:
        super().__init__(
            name=name, units=units, activation=activation, use_bias=use_bias, kernel_initializer=kernel_initializer
        )
        positive("Dense", units=units)
        self.activation = activation_of(activation)

    def build(self, *shapes: Shape) -> None:
        features, units = known(self.name, "the last axis", shapes[0][-1]), self.settings["units"]
        self.kernel = self.weight((features, units), self.settings["kernel_initializer"])
        self.bias = self.weight((units,), "zeros") if self.settings["use_bias"] else None

    def forward(self, x: Any) -> Any:
        if len(x.shape) < 2 or x.shape[-1] != self.kernel.shape[0]:
            raise ValueError(
                f"{self.name}: an input of shape {x.shape} does not end in the {self.kernel.shape[0]} features that "
                "the layer was built for."
            )
        return self.activation(ops.linear(x, self.kernel, 0.0 if self.bias is None else self.bias))


class Activation(Layer):
    """An activation as a layer of its own."""

    def __init__(self, activation: str, *, name: str | None = None) -> None:
        super().__init__(name=name, activation=activation)
        self.activation = activation_of(activation)

    def forward(self, x: Any) -> Any:
        return self.activation(x)


class ReLU(Layer):
    """``max(x, 0)``."""

    def forward(self, x: Any) -> Any:
        return ops.relu(x)


class Softmax(Layer):
    """Softmax over the last axis."""

    def forward(self, x: Any) -> Any:
        return ops.softmax(x, axis=-1)


class Dropout(Layer):
    """In training, each entry is zero with probability `rate`, and the others are divided by ``1 - rate``."""

    def __init__(self, rate: float, *, seed: int | None = None, name: str | None = None) -> None:
        super().__init__(name=name, rate=rate, seed=seed)
        if not isinstance(rate, int | float) or not 0 <= rate < 1:
            raise ValueError(f"Dropout: rate must be in [0, 1), got {rate!r}.")
        if seed is not None:
            self.rng = np.random.default_rng(seed)

    def forward(self, x: Any) -> Any:
        rate = self.settings["rate"]
        return ops.dropout(x, p=rate, seed=draw_seed(self.random())) if self.training and rate else x


class Flatten(Layer):
    """Each example as one row."""

    def forward(self, x: Any) -> Any:
        return ops.reshape(x, shape=(x.shape[0], int(np.prod(x.shape[1:]))))


class Reshape(Layer):
    """Each example in another shape, of which one size may be -1."""

    def __init__(self, target_shape: Sequence[int], *, name: str | None = None) -> None:
        super().__init__(name=name, target_shape=list(target_shape))

    def forward(self, x: Any) -> Any:
        sizes, entries = list(self.settings["target_shape"]), int(np.prod(x.shape[1:]))
        if -1 in sizes:
            rest = int(np.prod([size for size in sizes if size != -1]))
            sizes[sizes.index(-1)] = entries // max(rest, 1)
        if int(np.prod(sizes)) != entries:
            raise ValueError(f"{self.name}: {x.shape[1:]} has {entries} entries and does not fill {tuple(sizes)}.")
        return ops.reshape(x, shape=(x.shape[0], *sizes))


class Rescaling(Layer):
    """``x * scale + offset``, such as pixels to [0, 1]."""

    def __init__(self, scale: float, offset: float = 0.0, *, name: str | None = None) -> None:
        super().__init__(name=name, scale=scale, offset=offset)

    def forward(self, x: Any) -> Any:
        x = ops.cast(x, dtype=np.float32) if x.dtype.kind in "biu" else x
        return x * float(self.settings["scale"]) + float(self.settings["offset"])


class Embedding(Layer):
    """A learned row for each of `input_dim` tokens: (batch, ...) integers to (batch, ..., output_dim)."""

    def __init__(
        self, input_dim: int, output_dim: int, *, embeddings_initializer: str = "uniform", name: str | None = None
    ) -> None:
        super().__init__(
            name=name, input_dim=input_dim, output_dim=output_dim, embeddings_initializer=embeddings_initializer
        )
        positive("Embedding", input_dim=input_dim, output_dim=output_dim)

    def build(self, *shapes: Shape) -> None:
        shape = (self.settings["input_dim"], self.settings["output_dim"])
        self.embeddings = self.weight(shape, self.settings["embeddings_initializer"])

    def forward(self, x: Any) -> Any:
        tokens = ops.cast(x, dtype=np.int64) if is_floating(x.dtype) else x
        if isinstance(tokens, Tensor) and isinstance(tokens.data, np.ndarray) and tokens.size:
            least, most = tokens.data.min(), tokens.data.max()
            if least < 0 or most >= self.settings["input_dim"]:
                raise ValueError(
                    f"{self.name}: tokens go from {least} to {most}, but there are rows 0 to "
                    f"{self.settings['input_dim'] - 1}. Make input_dim larger, or look at the tokenizer."
                )
        return ops.take(self.embeddings, tokens, axis=0)


class _Merge(Layer):
    """Several inputs made one."""

    def merge(self, values: Sequence[Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no merge; write one.")

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) < 2:
            raise ValueError(f"{self.name}: expected two inputs or more, got {len(inputs)}.")
        return self.merge(inputs)


class Add(_Merge):
    """The sum of all inputs."""

    def merge(self, values: Sequence[Any]) -> Any:
        return _folded(ops.add, values)


class Subtract(_Merge):
    """The first input less the second."""

    def merge(self, values: Sequence[Any]) -> Any:
        return _folded(ops.sub, values)


class Multiply(_Merge):
    """The product of all inputs, entry by entry."""

    def merge(self, values: Sequence[Any]) -> Any:
        return _folded(ops.mul, values)


class Maximum(_Merge):
    """The largest of all inputs, entry by entry."""

    def merge(self, values: Sequence[Any]) -> Any:
        return _folded(ops.maximum, values)


class Average(_Merge):
    """The mean of all inputs."""

    def merge(self, values: Sequence[Any]) -> Any:
        return _folded(ops.add, values) * (1 / len(values))


class Concatenate(_Merge):
    """The inputs side by side along an axis."""

    def __init__(self, *, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name=name, axis=axis)

    def merge(self, values: Sequence[Any]) -> Any:
        return ops.concat(list(values), axis=self.settings["axis"])


def _folded(op: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = op(total, value)
    return total
