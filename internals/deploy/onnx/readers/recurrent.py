"""Import rules for recurrent layers, whose gates come in another order here.

What the rows of ours are, is made of them: an LSTM without peepholes, a GRU whose reset gate acts after the product.
The other forms are written out step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from internals import ops
from internals.deploy.onnx.readers.table import Call, known, reads

ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where our gates are found among ONNX's: i, f, g, o in i, o, f, c; r, u, n in z, r, h."""
_DEFAULT = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@reads("LSTM", "GRU", "RNN")
def _recurrent(
    call: Call, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None,
    peepholes: Any = None,
) -> Any:  # fmt: skip
    if call.get("layout", 0):
        x = ops.swapaxes(x, 0, 1)
        h0, c0 = (None if one is None else ops.swapaxes(one, 0, 1) for one in (h0, c0))
    if lengths is not None:
        counts = call.integers(lengths, "sequence lengths")
        if any(one != x.shape[0] for one in counts):
            raise call.refuse("its sequences differ in length")
    for setting in ("clip", "input_forget"):
        if call.get(setting):
            raise call.refuse(f"it has the setting {setting}")
    direction = call.get("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    given = call.get("activations") or _DEFAULT[call.kind] * count
    size = len(_DEFAULT[call.kind])
    outputs, hidden, cells = [], [], []
    for i in range(count):
        backwards = direction == "reverse" or i == 1
        own = [None if one is None else ops.getitem(one, key=i) for one in (w, r, bias, h0, c0, peepholes)]
        steps = ops.flip(x, axis=0) if backwards else x
        y, last = _direction(call, steps, own, given[i * size : (i + 1) * size])
        hidden.append(ops.getitem(y, key=-1))
        cells.append(last)
        outputs.append(ops.flip(y, axis=0) if backwards else y)
    found = [_together(outputs, 1), _together(hidden, 0)]
    found += [_together(cells, 0)] if call.kind == "LSTM" else []
    if call.get("layout", 0):
        found = [ops.transpose(found[0], axes=(2, 0, 1, 3)), *[ops.swapaxes(one, 0, 1) for one in found[1:]]]
    return found[: call.outputs]


def _together(parts: list[Any], axis: int) -> Any:
    return ops.stack(parts, axis=axis) if len(parts) > 1 else ops.expand_dims(parts[0], axis=axis)


def _ours(kind: str, value: Any, units: int) -> Any:
    order = ORDER[kind]
    if len(order) == 1:
        return value
    rows = np.concatenate([np.arange(units) + gate * units for gate in order])
    return ops.take(value, known(rows), axis=0)


def _direction(call: Call, x: Any, own: list[Any], activations: list[str]) -> tuple[Any, Any]:
    """Outputs of all steps, and the last cell of an LSTM."""
    kind = call.kind
    w, r, bias, h0, c0, peepholes = own
    units, rows = r.shape[1], call.bounded(r.shape[:1])[0]
    by_input, by_state = (None, None) if bias is None else (_half(bias, 0, rows), _half(bias, 1, rows))
    zeros = ops.broadcast_to(known(0, x.dtype), shape=(x.shape[1], units))
    h0, c0 = (zeros if one is None else one for one in (h0, c0))
    w, r = _ours(kind, w, units), _ours(kind, r, units)
    by_input, by_state = (None if one is None else _ours(kind, one, units) for one in (by_input, by_state))
    plain = activations == _DEFAULT[kind] or (kind == "RNN" and activations == ["Relu"])
    if kind == "GRU":
        projected = ops.linear(x, ops.transpose(w), 0.0 if by_input is None else by_input)
        by_state = known(np.zeros(rows), x.dtype) if by_state is None else by_state
        if plain and call.get("linear_before_reset", 0):
            return ops.gru(projected, h0, r, by_state).hidden, None
        call.counted(x.shape[0], "steps")
        return _gru_before(call, projected, h0, r, by_state, [_activation(call, one) for one in activations]), None
    both = by_input if by_state is None else ops.add(by_input, by_state)
    projected = ops.linear(x, ops.transpose(w), 0.0 if both is None else both)
    if kind == "RNN":
        if not plain:
            call.counted(x.shape[0], "steps")
            return _elman(projected, h0, r, _activation(call, activations[0])), None
        return ops.rnn(projected, h0, r, nonlinearity=activations[0].lower()), None
    if plain and peepholes is None:
        found = ops.lstm(projected, h0, c0, r)
        return found.hidden, ops.getitem(found.cell, key=-1)
    call.counted(x.shape[0], "steps")
    return _lstm_steps(projected, h0, c0, r, peepholes, [_activation(call, one) for one in activations])


def _half(bias: Any, which: int, rows: int) -> Any:
    return ops.getitem(bias, key=slice(which * rows, (which + 1) * rows))


def _activation(call: Call, name: str) -> Callable[[Any], Any]:
    rows: dict[str, Callable[[Any], Any]] = {"sigmoid": ops.sigmoid, "tanh": ops.tanh, "relu": ops.relu,
                                             "softsign": ops.softsign, "softplus": ops.softplus}  # fmt: skip
    if name.lower() not in rows:
        raise call.refuse(f"its activation is {name}; here there are {', '.join(rows)}")
    return rows[name.lower()]


def _elman(x: Any, h: Any, r: Any, f: Callable[[Any], Any]) -> Any:
    steps = []
    for t in range(x.shape[0]):
        h = f(ops.add(ops.getitem(x, key=t), ops.matmul(h, ops.transpose(r))))
        steps.append(h)
    return ops.stack(steps, axis=0)


def _gate(a: Any, i: int, units: int) -> Any:
    return ops.getitem(a, key=(slice(None), slice(i * units, (i + 1) * units)))


def _gru_before(call: Call, x: Any, h: Any, r: Any, bias: Any, f: list[Callable[[Any], Any]]) -> Any:
    """The GRU of the paper: the reset gate acts on the state, before the product; or with other activations."""
    units, steps = r.shape[1], []
    gates, candidate = (
        ops.transpose(ops.getitem(r, key=part)) for part in (slice(0, 2 * units), slice(2 * units, None))
    )
    bias_gates, bias_candidate = (
        ops.getitem(bias, key=slice(0, 2 * units)),
        ops.getitem(bias, key=slice(2 * units, None)),
    )
    for t in range(x.shape[0]):
        row = ops.getitem(x, key=t)
        a = f[0](ops.add(ops.add(_gate(row, 0, 2 * units), ops.matmul(h, gates)), bias_gates))
        reset, update = _gate(a, 0, units), _gate(a, 1, units)
        if call.get("linear_before_reset", 0):
            inner = ops.mul(reset, ops.add(ops.matmul(h, candidate), bias_candidate))
        else:
            inner = ops.add(ops.matmul(ops.mul(reset, h), candidate), bias_candidate)
        n = f[1](ops.add(_gate(row, 2, units), inner))
        h = ops.add(n, ops.mul(update, ops.sub(h, n)))
        steps.append(h)
    return ops.stack(steps, axis=0)


def _lstm_steps(x: Any, h: Any, c: Any, r: Any, p: Any, f: list[Callable[[Any], Any]]) -> tuple[Any, Any]:
    """The LSTM whose gates also see the cell (Gers & Schmidhuber 2000), or with other activations."""
    units, steps = r.shape[1], []
    peep = [None] * 3 if p is None else [ops.getitem(p, key=slice(i * units, (i + 1) * units)) for i in range(3)]
    in_, out, forget = peep

    def seen(a: Any, weight: Any, cell: Any) -> Any:
        return a if weight is None else ops.add(a, ops.mul(weight, cell))

    for t in range(x.shape[0]):
        a = ops.add(ops.getitem(x, key=t), ops.matmul(h, ops.transpose(r)))
        i = f[0](seen(_gate(a, 0, units), in_, c))
        keep = f[0](seen(_gate(a, 1, units), forget, c))
        c = ops.add(ops.mul(keep, c), ops.mul(i, f[1](_gate(a, 2, units))))
        h = ops.mul(f[0](seen(_gate(a, 3, units), out, c)), f[2](c))
        steps.append(h)
    return ops.stack(steps, axis=0), c
