"""Layers over time: (batch, time, features)."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.front.layer import Layer, known, positive
from internals.front.symbol import Shape


class _Recurrent(Layer):
    """What recurrent layers have in common: the input projected at all steps at once, and what is given back."""

    gates = 1

    def __init__(self, units: int, *, return_sequences: bool = False, name: str | None = None) -> None:
        super().__init__(name=name, units=units, return_sequences=return_sequences)
        positive(type(self).__name__, units=units)

    def build(self, *shapes: Shape) -> None:
        if len(shapes[0]) != 3:
            raise ValueError(f"{self.name}: expected (batch, time, features), got shape {shapes[0]}.")
        features, units = known(self.name, "the number of features", shapes[0][-1]), self.settings["units"]
        self.kernel = self.weight((features, self.gates * units), "glorot_uniform")
        self.recurrent_kernel = self.weight((units, self.gates * units), "orthogonal")
        self.bias = self.weight(*self.first_bias(units))

    def first_bias(self, units: int) -> tuple[tuple[int, ...], Any]:
        return (self.gates * units,), "zeros"

    def projected(self, x: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
        """(time, batch, gates * units), and a state of zeros to start from."""
        if x.ndim != 3 or x.shape[2] != kernel.shape[0]:
            raise ValueError(f"{self.name}: expected (batch, time, {kernel.shape[0]}), got shape {x.shape}.")
        if x.shape[1] == 0:
            raise ValueError(f"{self.name}: a sequence of no steps has no last state; got shape {x.shape}.")
        steps = ops.moveaxis(ops.linear(x, kernel, bias), 1, 0)
        return steps, ops.zeros_like(steps[0, :, : self.settings["units"]])

    def given_back(self, hidden: Any) -> Any:
        return ops.moveaxis(hidden, 0, 1) if self.settings["return_sequences"] else hidden[-1]


class SimpleRNN(_Recurrent):
    """``h = tanh(x @ kernel + h @ recurrent_kernel + bias)`` at each step (Elman 1990)."""

    def forward(self, x: Any) -> Any:
        steps, start = self.projected(x, self.kernel, self.bias)
        return self.given_back(ops.rnn(steps, start, ops.transpose(self.recurrent_kernel), nonlinearity="tanh"))


class LSTM(_Recurrent):
    """Long short-term memory; see `internals.ops.lstm`. The gates are in the order input, forget, cell, output.

    The bias of the forget gate starts at 1 (Jozefowicz et al. 2015), as in Keras.
    """

    gates = 4

    def first_bias(self, units: int) -> tuple[tuple[int, ...], Any]:
        return (4 * units,), lambda rng, shape: np.repeat([0.0, 1.0, 0.0, 0.0], units)

    def forward(self, x: Any) -> Any:
        steps, start = self.projected(x, self.kernel, self.bias)
        hidden, _, _ = ops.lstm(steps, start, start, ops.transpose(self.recurrent_kernel))
        return self.given_back(hidden)


class GRU(_Recurrent):
    """Gated recurrent unit, Keras's form with ``reset_after=True``; the gates are in the order update, reset, new.

    See `internals.ops.gru`, whose order is reset, update, new.
    """

    gates = 3

    def first_bias(self, units: int) -> tuple[tuple[int, ...], Any]:
        return (2, 3 * units), "zeros"

    def forward(self, x: Any) -> Any:
        reset_first = [self._reset_first(weight) for weight in (self.kernel, self.recurrent_kernel, self.bias)]
        kernel, recurrent, bias = reset_first
        steps, start = self.projected(x, kernel, bias[0])
        hidden, _ = ops.gru(steps, start, ops.transpose(recurrent), bias[1])
        return self.given_back(hidden)

    def _reset_first(self, weight: Any) -> Any:
        n = self.settings["units"]
        return ops.concat([weight[:, n : 2 * n], weight[:, :n], weight[:, 2 * n :]], axis=-1)


class MultiHeadAttention(Layer):
    """Attention of several heads (Vaswani et al. 2017, 3.2.2): ``layer(query, value, key)``, the key being the value.

    Parameters
    ----------
    num_heads, key_dim : int
        Each head works in `key_dim` dimensions.
    value_dim : int, optional
        As `key_dim` unless given.
    use_bias : bool
    causal : bool
        A step sees itself and what was before. (In Keras an argument of the call, use_causal_mask.)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *,
        value_dim: int | None = None,
        use_bias: bool = True,
        causal: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            name=name, num_heads=num_heads, key_dim=key_dim, value_dim=value_dim, use_bias=use_bias, causal=causal
        )
        positive("MultiHeadAttention", num_heads=num_heads, key_dim=key_dim, value_dim=value_dim or key_dim)

    def build(self, *shapes: Shape) -> None:
        heads, depth = self.settings["num_heads"], self.settings["key_dim"]
        value_depth = self.settings["value_dim"] or depth
        query, value = shapes[0], shapes[min(1, len(shapes) - 1)]
        sources = {"query": (query, depth), "key": (shapes[-1], depth), "value": (value, value_depth)}
        for part, (shape, size) in sources.items():
            if len(shape) != 3:
                raise ValueError(f"{self.name}: the {part} must be (batch, time, features), got shape {shape}.")
            features = known(self.name, f"the {part}'s number of features", shape[-1])
            self._projection(part, (features, heads, size), (heads, size))
        last = known(self.name, "the query's number of features", query[-1])
        self._projection("output", (heads, value_depth, last), (last,))

    def _projection(self, part: str, kernel: tuple[int, ...], bias: tuple[int, ...]) -> None:
        setattr(self, f"{part}_kernel", self.weight(kernel, "glorot_uniform"))
        if self.settings["use_bias"]:
            setattr(self, f"{part}_bias", self.weight(bias, "zeros"))

    def forward(self, query: Any, value: Any = None, key: Any = None) -> Any:
        value = query if value is None else value
        key = value if key is None else key
        q, k, v = (self._heads(x, part) for x, part in ((query, "query"), (key, "key"), (value, "value")))
        mixed = ops.moveaxis(ops.attention(q, k, v, causal=self.settings["causal"]), 1, 2)
        kernel, bias = self._output()
        flat = ops.reshape(mixed, shape=(*mixed.shape[:2], -1))
        return ops.linear(flat, ops.reshape(kernel, shape=(-1, kernel.shape[-1])), bias)

    def _output(self) -> tuple[Any, Any]:
        weights = vars(self)
        return weights["output_kernel"], weights.get("output_bias", 0.0)

    def _heads(self, x: Any, part: str) -> Any:
        """(batch, heads, time, depth)."""
        kernel, bias = getattr(self, f"{part}_kernel"), getattr(self, f"{part}_bias", None)
        if x.ndim != 3 or x.shape[-1] != kernel.shape[0]:
            raise ValueError(f"{self.name}: the {part} must be (batch, time, {kernel.shape[0]}), got {x.shape}.")
        flat = 0.0 if bias is None else ops.reshape(bias, shape=(-1,))
        y = ops.linear(x, ops.reshape(kernel, shape=(kernel.shape[0], -1)), flat)
        return ops.moveaxis(ops.reshape(y, shape=(*y.shape[:2], *kernel.shape[1:])), 2, 1)
