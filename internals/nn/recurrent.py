"""Recurrent layers: one step of each (cells), and all steps of several layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.nn.module import Module, parameter, positive, tensors
from internals.nn.normalise import Dropout
from internals.tensor import Tensor


class _Elman:
    """h = tanh(W x + b + U h + c), or relu."""

    gates, states = 1, 1

    def run(self, x: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        return (ops.rnn(x if bias is None else x + bias, states[0], weight, nonlinearity=self.nonlinearity),)

    nonlinearity = "tanh"


class _LongShortTerm:
    """Long short-term memory; the states are h and c."""

    gates, states = 4, 2

    def run(self, x: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        return ops.lstm(x if bias is None else x + bias, *states, weight)[:2]


class _Gated:
    """Gated recurrent unit."""

    gates, states = 3, 1

    def run(self, x: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        if bias is None:
            bias = _zeros(x, weight.shape[0])
        return ops.gru(x, states[0], weight, bias)[:1]


def _zeros(like: Tensor, *shape: int) -> Tensor:
    return Tensor(np.zeros(shape, like.dtype), device=like.device)


def _projected(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product with the input's weight for all steps at once."""
    return ops.linear(x, weight.T, 0.0 if bias is None else bias)


class _Recurrent(Module):
    """Layers of a recurrent network over all steps of a sequence.

    Parameters
    ----------
    input_size, hidden_size : int
        x is (time, batch, input_size), or (batch, time, input_size) with `batch_first`.
    num_layers : int
        Each reads the outputs of the one below.
    bias : bool
    batch_first : bool
        Affects x and the outputs, not the states; as in PyTorch.
    dropout : float
        Between layers, in training.
    bidirectional : bool
        Each layer also runs from the end to the beginning, and the outputs are side by side.
    rng : numpy.random.Generator, optional
        All parameters start uniform within hidden_size ** -0.5, PyTorch's choice; Keras has glorot_uniform, orthogonal
        and zeros. Names and layouts are PyTorch's: weight_ih_l0 is (gates * hidden_size, input_size).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        rng: np.random.Generator | None = None,
    ) -> None:
        positive(type(self).__name__, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.directions = batch_first, 2 if bidirectional else 1
        rng = rng or np.random.default_rng()
        self.dropout = Dropout(dropout, rng=rng)
        bound, rows = hidden_size**-0.5, self.gates * hidden_size
        for layer in range(num_layers):
            width = hidden_size * self.directions if layer else input_size
            for end in ("", "_reverse")[: self.directions]:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{end}", parameter(rng.uniform(-bound, bound, shape)))

    gates: int
    states: int

    def run(self, x: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def forward(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, Any]:
        """Run over a batch of sequences.

        Parameters
        ----------
        x : Tensor, (time, batch, input_size), or (batch, time, input_size) with `batch_first`
        state : Tensor, (num_layers * directions, batch, hidden_size), optional
            What to begin with, zeros unless given; of an LSTM a pair of such, hidden and cell.
        lengths : integers, (batch,), optional
            How many steps of each sequence count, 1 or more. Outputs beyond are 0, and the last states are those at
            the end of each sequence: what PyTorch does with a packed sequence.

        Returns
        -------
        outputs : Tensor, (time, batch, directions * hidden_size), or batch first
        state : as `state`, after the last step
        """
        name = type(self).__name__
        tensors(name, x=x)
        if x.ndim != 3 or x.shape[-1] != self.input_size:
            axes = "batch, time" if self.batch_first else "time, batch"
            raise ValueError(f"{name}: x has shape {x.shape}; expected ({axes}, {self.input_size}).")
        if x.dtype.kind in "biu":
            raise TypeError(f"{name}: x must be floating, got {x.dtype}; embed indices first.")
        x = ops.swapaxes(x, 0, 1) if self.batch_first else x
        if not x.shape[0]:
            raise ValueError(f"{name}: x has no steps; a sequence has one or more.")
        first = self._first_states(x, state)
        ends = None if lengths is None else _Ends(name, lengths, x)
        last: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            if layer:
                x = self.dropout(x)
            outputs = []
            for direction in range(self.directions):
                out, states = self._layer(x, layer, direction, [one[len(last)] for one in first], ends)
                outputs.append(out)
                last.append(states)
            x = outputs[0] if self.directions == 1 else ops.concat(outputs, axis=-1)
        x = ops.swapaxes(x, 0, 1) if self.batch_first else x
        stacked = tuple(ops.stack([states[i] for states in last], axis=0) for i in range(self.states))
        return x, stacked[0] if self.states == 1 else stacked

    def _layer(
        self, x: Tensor, layer: int, direction: int, states: list[Tensor], ends: _Ends | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """One layer in one direction: its outputs, and its states after the last step."""
        weight_ih, weight_hh, bias_ih, bias_hh = (
            getattr(self, f"{name}_l{layer}{'_reverse' if direction else ''}", None)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        assert weight_ih is not None
        assert weight_hh is not None
        x = _turned(x, ends) if direction else x
        if self.gates != 3 and bias_hh is not None:  # one sum of vectors rather than two of all steps
            bias_ih, bias_hh = bias_ih + bias_hh, None
        results = self.run(_projected(x, weight_ih, bias_ih), states, weight_hh, bias_hh)
        last = tuple(one[-1] if ends is None else ends.last(one) for one in results)
        out = results[0] if ends is None else ends.only(results[0])
        return _turned(out, ends) if direction else out, last

    def _first_states(self, x: Tensor, state: Any) -> list[Tensor]:
        shape = (self.num_layers * self.directions, x.shape[1], self.hidden_size)
        if state is None:
            return [_zeros(x, *shape)] * self.states
        given = list(state) if self.states > 1 and isinstance(state, tuple | list) else [state]
        if len(given) != self.states or not all(isinstance(one, Tensor) for one in given):
            wanted = "one Tensor" if self.states == 1 else "a pair of Tensors, (hidden, cell)"
            raise TypeError(f"{type(self).__name__}: the state must be {wanted}.")
        for one in given:
            if one.shape != shape:
                raise ValueError(
                    f"{type(self).__name__}: a state has shape {one.shape}; expected (layers * directions, batch, "
                    f"hidden_size), {shape}."
                )
        return given

    def extra_repr(self) -> str:
        more = f", num_layers={self.num_layers}" if self.num_layers > 1 else ""
        return f"{self.input_size}, {self.hidden_size}{more}" + (", bidirectional=True" if self.directions == 2 else "")

    def _shown_parts(self, parts: list[tuple[str, str]]) -> list[str]:
        return [f"dropout={self.dropout.p}"] if self.dropout.p else []


class _Ends:
    """Where each sequence of a batch ends."""

    def __init__(self, name: str, lengths: Any, x: Tensor) -> None:
        steps, batch = x.shape[:2]
        values = np.asarray(lengths.to("cpu").numpy() if isinstance(lengths, Tensor) else lengths)
        if values.dtype.kind not in "iu" or values.shape != (batch,):
            raise ValueError(f"{name}: lengths must be {batch} integers, one for each sequence, got {lengths!r}.")
        if values.size and not 1 <= values.min() <= values.max() <= steps:
            raise ValueError(f"{name}: lengths go from {values.min()} to {values.max()}; a sequence has 1 to {steps}.")
        time = np.arange(steps)[:, None]
        self._here = time < values
        device = x.device
        self._rows = Tensor(np.arange(batch), device=device)
        self._last = Tensor(values.astype(np.int64) - 1, device=device)
        self.turned = Tensor(np.where(self._here, values - 1 - time, time), device=device)

    def last(self, x: Tensor) -> Tensor:
        """Each sequence's last step."""
        return x[self._last, self._rows]

    def only(self, x: Tensor) -> Tensor:
        """x with zeros behind the ends."""
        return x * Tensor(self._here[..., None].astype(x.dtype), device=x.device)

    def reversed(self, x: Tensor) -> Tensor:
        """Each sequence from its end to its beginning; what is behind the end stays there."""
        return x[self.turned, self._rows]


def _turned(x: Tensor, ends: _Ends | None) -> Tensor:
    return ops.flip(x, axis=0) if ends is None else ends.reversed(x)


class RNN(_Elman, _Recurrent):
    __doc__ = _Recurrent.__doc__

    def __init__(self, input_size: int, hidden_size: int, *, nonlinearity: str = "tanh", **settings: Any) -> None:
        _check_nonlinearity("RNN", nonlinearity)
        super().__init__(input_size, hidden_size, **settings)
        self.nonlinearity = nonlinearity


class LSTM(_LongShortTerm, _Recurrent):
    __doc__ = _Recurrent.__doc__


class GRU(_Gated, _Recurrent):
    __doc__ = _Recurrent.__doc__


def _check_nonlinearity(name: str, nonlinearity: str) -> None:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"{name}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}.")


class _Cell(Module):
    """One step of a recurrent network.

    Parameters
    ----------
    input_size, hidden_size : int
        x is (batch, input_size), a state (batch, hidden_size).
    bias : bool
    rng : numpy.random.Generator, optional
        As in the layer of the same kind.
    """

    gates: int
    states: int

    def __init__(
        self, input_size: int, hidden_size: int, *, bias: bool = True, rng: np.random.Generator | None = None
    ) -> None:
        positive(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        rng, bound, rows = rng or np.random.default_rng(), hidden_size**-0.5, self.gates * hidden_size
        self.weight_ih = parameter(rng.uniform(-bound, bound, (rows, input_size)))
        self.weight_hh = parameter(rng.uniform(-bound, bound, (rows, hidden_size)))
        self.bias_ih = parameter(rng.uniform(-bound, bound, rows)) if bias else None
        self.bias_hh = parameter(rng.uniform(-bound, bound, rows)) if bias else None

    def run(self, x: Tensor, states: list[Tensor], weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def forward(self, x: Tensor, state: Any = None) -> Any:
        """The next state, from x and the state (zeros unless given); of an LSTMCell both are pairs."""
        width, hidden = self.weight_ih.shape[1], self.weight_hh.shape[1]
        name = type(self).__name__
        tensors(name, x=x)
        if x.ndim != 2 or x.shape[1] != width:
            raise ValueError(f"{name}: x has shape {x.shape}; expected (batch, {width}).")
        if state is None:
            state = [_zeros(x, x.shape[0], hidden)] * self.states
        states = list(state) if isinstance(state, tuple | list) else [state]
        if len(states) != self.states or any(one.shape != (x.shape[0], hidden) for one in states):
            shapes = ", ".join(str(one.shape) for one in states)
            raise ValueError(f"{name}: expected {self.states} state(s) of shape {(x.shape[0], hidden)}, got {shapes}.")
        projected = ops.expand_dims(_projected(x, self.weight_ih, self.bias_ih), axis=0)
        results = tuple(one[0] for one in self.run(projected, states, self.weight_hh, self.bias_hh))
        return results[0] if self.states == 1 else results

    def extra_repr(self) -> str:
        return f"{self.weight_ih.shape[1]}, {self.weight_hh.shape[1]}"


class RNNCell(_Elman, _Cell):
    __doc__ = _Cell.__doc__

    def __init__(self, input_size: int, hidden_size: int, *, nonlinearity: str = "tanh", **settings: Any) -> None:
        _check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, **settings)
        self.nonlinearity = nonlinearity


class LSTMCell(_LongShortTerm, _Cell):
    __doc__ = _Cell.__doc__


class GRUCell(_Gated, _Cell):
    __doc__ = _Cell.__doc__
