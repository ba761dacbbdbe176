"""Layers of sequences, which lie one after another without padding; see `Argument`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.device import Array, device_of
from internals.layers.argument import Argument, Form, Parameter
from internals.layers.dense import flag, numbers
from internals.layers.layer import Layer, layer, pull
from internals.layers.mixed import with_zeros


def table_of_steps(lengths: np.ndarray, starts: np.ndarray, *, reverse: bool = False, last: bool = False) -> np.ndarray:
    """Which row each sequence has at each time, (time, sequences).

    Behind the end of a sequence stands the number of rows, or with `last` the sequence's last row again. With
    `reverse` each sequence runs from its end to its beginning.
    """
    time = np.arange(lengths.max(initial=0))[:, None]
    there = time < lengths
    along = lengths - 1 - time if reverse else time
    beyond = starts[1:] - 1 if last else np.full(len(lengths), starts[-1])
    return np.where(there, starts[:-1] + along, beyond)


class Memory(Layer):
    """A recurrent network over each sequence, as one layer; the bottom holds the projected inputs, gate by gate."""

    roles = ("weight", "bias")
    weight: Parameter
    bias: Parameter | None
    word: str
    gates: int

    def setup(self, x: Form, *, reverse: bool = False) -> Form:
        numbers(self.word, x)
        if not x.sequence or len(x.shape) != 1 or x.size % self.gates:
            wide = f"{self.gates} * size" if self.gates > 1 else "size"
            raise ValueError(f"a layer of type {self.word} needs sequences of {wide} numbers, but its bottom is {x}.")
        flag(reverse=reverse)
        self.reverse, self.size = reverse, x.size // self.gates
        self.weight = self.parameter("weight", (x.size, self.size), fan_in=self.size)
        self.bias = self.optional("bias", (x.size,), init="constant")
        return Form((self.size,), sequence=True)

    def steps_of(self, padded: Array, h0: Array) -> Array:
        """Run the row; its inputs and its results are kept."""
        raise NotImplementedError

    def steps_back(self, by_hidden: Array) -> Array:
        """The gradient by the padded inputs; those by parameters that the row has are added."""
        raise NotImplementedError

    bias_in_row = False
    """Whether the row adds the bias itself."""

    def forward(self, x: Argument) -> Array:
        assert x.starts is not None
        device = device_of(x.value)
        steps = table_of_steps(x.lengths, x.starts, reverse=self.reverse)
        time, batch = steps.shape
        # Where in (time, batch), read as one row, each step of each sequence went.
        places = np.empty(x.value.shape[0], np.int64)
        inside = steps < len(places)
        places[steps[inside]] = np.flatnonzero(inside)
        self.steps, self.places = device.from_host(steps), device.from_host(places)
        value = x.value if self.bias is None or self.bias_in_row else x.value + self.bias.value
        padded = ops.take(with_zeros(value), self.steps, axis=0)
        hidden = self.steps_of(padded, device.from_host(np.zeros((batch, self.size), value.dtype)))
        return ops.take(ops.reshape(hidden, shape=(time * batch, self.size)), self.places, axis=0)

    def backward(self, g: Array, x: Argument) -> None:
        time, batch = self.steps.shape
        rows = ops.untake(g, self.places, axis=0, size=time * batch)
        by_padded = self.steps_back(ops.reshape(rows, shape=(time, batch, self.size)))
        count = x.value.shape[0]
        by_value = ops.untake(by_padded, self.steps, axis=0, size=count + 1)[:count]
        if self.bias is not None and not self.bias_in_row:
            self.bias.accumulate(ops.sum(by_value, axis=(0,)))
        x.accumulate(by_value)


@layer("lstmemory")
class LongShortTerm(Memory):
    """Long short-term memory; the gates are i, f, g, o."""

    word, gates = "lstmemory", 4

    def steps_of(self, padded: Array, h0: Array) -> Array:
        self.inputs = [padded, h0, h0, self.weight.value]
        self.out = ops.lstm(*self.inputs)
        return self.out.hidden

    def steps_back(self, by_hidden: Array) -> Array:
        wanted = [True, False, False, True]
        by_padded, _, _, by_weight = pull(ops.lstm, (by_hidden, None, None), self.out, self.inputs, wanted)
        self.weight.accumulate(by_weight)
        return by_padded


@layer("grumemory")
class Gated(Memory):
    """Gated recurrent units; the gates are r, u, n, and the bias is that of the product with the state."""

    word, gates, bias_in_row = "grumemory", 3, True

    def steps_of(self, padded: Array, h0: Array) -> Array:
        bias = ops.zeros_like(self.weight.value[:, 0]) if self.bias is None else self.bias.value
        self.inputs = [padded, h0, self.weight.value, bias]
        self.out = ops.gru(*self.inputs)
        return self.out.hidden

    def steps_back(self, by_hidden: Array) -> Array:
        wanted = [True, False, True, self.bias is not None]
        by_padded, _, by_weight, by_bias = pull(ops.gru, (by_hidden, None), self.out, self.inputs, wanted)
        self.weight.accumulate(by_weight)
        if self.bias is not None:
            self.bias.accumulate(by_bias)
        return by_padded


@layer("recurrent")
class Recurrent(Memory):
    """``h = f(x + W h)``, where f is tanh or relu (Elman 1990)."""

    word, gates = "recurrent", 1

    def setup(self, x: Form, *, reverse: bool = False, nonlinearity: str = "tanh") -> Form:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity {nonlinearity!r} is not one of tanh, relu.")
        self.attrs = {"nonlinearity": nonlinearity}
        return super().setup(x, reverse=reverse)

    def steps_of(self, padded: Array, h0: Array) -> Array:
        self.inputs = [padded, h0, self.weight.value]
        self.out = ops.rnn(*self.inputs, **self.attrs)
        return self.out

    def steps_back(self, by_hidden: Array) -> Array:
        wanted = [True, False, True]
        by_padded, _, by_weight = pull(ops.rnn, by_hidden, self.out, self.inputs, wanted, **self.attrs)
        self.weight.accumulate(by_weight)
        return by_padded


@layer("sequence_pool")
class SequencePool(Layer):
    """One row for each sequence: its largest entries, their mean or sum, its first or its last step."""

    kinds = ("max", "average", "sum", "last", "first")

    def setup(self, x: Form, *, pool: str = "max") -> Form:
        numbers("sequence_pool", x)
        if not x.sequence:
            raise ValueError(f"a sequence_pool layer needs sequences, but its bottom is {x}.")
        if pool not in self.kinds:
            raise ValueError(f"pool {pool!r} is not one of {', '.join(self.kinds)}.")
        self.pool = pool
        return Form(x.shape)

    def forward(self, x: Argument) -> Array:
        assert x.starts is not None
        device = device_of(x.value)
        if self.pool in ("first", "last"):
            rows = x.starts[:-1] if self.pool == "first" else x.starts[1:] - 1
            self.steps = device.from_host(rows)
            return ops.take(x.value, self.steps, axis=0)
        # A maximum meets the last step again where a sequence has ended, a sum meets zeros.
        self.steps = device.from_host(table_of_steps(x.lengths, x.starts, last=self.pool == "max"))
        self.padded = ops.take(x.value if self.pool == "max" else with_zeros(x.value), self.steps, axis=0)
        if self.pool == "max":
            self.best = ops.max(self.padded, axis=0)
            return self.best
        total = ops.sum(self.padded, axis=0)
        if self.pool == "sum":
            return total
        shares = (1 / x.lengths).astype(x.value.dtype).reshape(-1, *(1,) * (x.value.ndim - 1))
        self.shares = device.from_host(shares)
        return total * self.shares

    def backward(self, g: Array, x: Argument) -> None:
        count = x.value.shape[0]
        if self.pool in ("first", "last"):
            x.accumulate(ops.untake(g, self.steps, axis=0, size=count))
        elif self.pool == "max":
            by_padded = pull(ops.max, g, self.best, [self.padded], axis=0)[0]
            x.accumulate(ops.untake(by_padded, self.steps, axis=0, size=count))
        else:
            g = g if self.pool == "sum" else g * self.shares
            spread = ops.broadcast_to(g, shape=(self.steps.shape[0], *g.shape))
            x.accumulate(ops.untake(spread, self.steps, axis=0, size=count + 1)[:count])


def batch_of(sequences: Sequence[Any], *, ids: bool) -> Argument:
    """Sequences put one after another.

    Parameters
    ----------
    sequences : sequence of (arrays or lists), each with one step or more
    ids : bool
        Whether they are ids, or rows of numbers.
    """
    starts = np.concatenate([[0], np.cumsum([len(one) for one in sequences])]).astype(np.int64)
    rows = np.concatenate([np.asarray(one) for one in sequences])
    return Argument(ids=rows, starts=starts) if ids else Argument(rows, starts=starts)
