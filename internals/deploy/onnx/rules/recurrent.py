"""Export rules for recurrent layers.

Ours are given the projected inputs; ONNX's operators project them too. Where the projection is a `linear` its weight is
handed over, and elsewhere the weight is an identity. Gates come in another order there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import rule
from internals.graph import Node
from internals.tensor.results import RESULT

ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""Where ONNX's gates are found among ours: i, o, f, c in i, f, g, o; z, r, h in r, u, n."""


def _order(op: str, units: int) -> np.ndarray:
    return np.concatenate([np.arange(units) + gate * units for gate in ORDER[op]])


def _reordered(b: Builder, op: str, node: Node, units: int, what: str, *, turned: bool = False) -> Name:
    """A weight with its gates in ONNX's order, as one direction of several; `turned`, from (in, out) first.

    Made when the file is written, unless it depends on an input.
    """
    array = b.value_of(node)
    if array is not None:
        return b.weight(what, (array.T if turned else array)[_order(op, units)][None])
    name = b.op("Transpose", b.name_of(node), perm=[1, 0]) if turned else b.name_of(node)
    return b.unsqueeze(b.op("Gather", name, b.constant(_order(op, units)), axis=0), [0])


def _biases(b: Builder, op: str, given: list[Any], units: int, dtype: np.dtype) -> Name:
    """The input's bias and the state's, one behind the other; None for zeros."""
    rows = units * len(ORDER[op])
    arrays = [np.zeros(rows, dtype) if one is None else b.value_of(one) for one in given]
    if all(one is not None for one in arrays):
        whole = [np.broadcast_to(one, rows)[_order(op, units)] for one in arrays if one is not None]
        return b.weight("B", np.concatenate(whole)[None].astype(dtype))
    parts = []
    for one, array in zip(given, arrays, strict=True):
        name = b.constant(array) if array is not None else b.name_of(one)
        vector = b.op("Expand", name, b.integers([rows]))
        parts.append(b.op("Gather", vector, b.constant(_order(op, units)), axis=0))
    return b.unsqueeze(b.op("Concat", *parts, axis=0), [0])


def _operands(b: Builder, node: Node, x: Value, own_bias: Any = None) -> tuple[Name, Name, Name, Name]:
    """X, W, R and B of the operator."""
    op = node.op.name
    weight = node.inputs[-1 if own_bias is None else -2]
    units = int(weight.shape[1])
    rows = units * len(ORDER[op])
    made = node.inputs[0]
    bias = None
    if made.op.name == "linear" and all(isinstance(one, Node) for one in made.inputs[:2]):
        source, w = b.name_of(made.inputs[0]), _reordered(b, op, made.inputs[1], units, "W", turned=True)
        bias = made.inputs[2]
    else:
        source, w = x.name, b.constant(np.eye(rows, dtype=x.dtype)[_order(op, units)][None])
    r = _reordered(b, op, weight, units, "R")
    return source, w, r, _biases(b, op, [bias, own_bias], units, x.dtype)


@rule("rnn")
def _rnn(b: Builder, node: Node, x: Value, h0: Value, weight: Value) -> Name:
    source, w, r, bias = _operands(b, node, x)
    activation = {"tanh": "Tanh", "relu": "Relu"}[node.attrs["nonlinearity"]]
    hidden = b.op(
        "RNN", source, w, r, bias, "", b.unsqueeze(h0, [0]), hidden_size=weight.shape[1], activations=[activation]
    )
    return b.squeeze(hidden, [1])


@rule("gru")
def _gru(b: Builder, node: Node, x: Value, h0: Value, weight: Value, bias: Value) -> list[Name]:
    if is_used(node, 1):
        return _unrolled_gru(b, node, x, h0, weight, bias)
    source, w, r, both = _operands(b, node, x, node.inputs[3])
    hidden = b.op(
        "GRU", source, w, r, both, "", b.unsqueeze(h0, [0]), hidden_size=weight.shape[1], linear_before_reset=1
    )
    return [b.squeeze(hidden, [1]), ""]


@rule("lstm")
def _lstm(b: Builder, node: Node, x: Value, h0: Value, c0: Value, weight: Value) -> list[Name]:
    if is_used(node, 2) or not all(_is_last(user) for user in _users(node, 1)):
        return _unrolled_lstm(b, node, x, h0, c0, weight)
    source, w, r, bias = _operands(b, node, x)
    states = [b.unsqueeze(state, [0]) for state in (h0, c0)]
    hidden, _, last = b.ops("LSTM", 3, source, w, r, bias, "", *states, hidden_size=weight.shape[1])
    b.last_cells.add(last)  # of the cell only the last step is there, and is all that is read
    return [b.squeeze(hidden, [1]), last, ""]


def _results(node: Node, index: int) -> list[Node]:
    return [
        one for one in node.graph.nodes if one.op is RESULT and one.inputs[0] is node and one.attrs["index"] == index
    ]


def _users(node: Node, index: int) -> list[Node]:
    picked = set(_results(node, index))
    return [one for one in node.graph.nodes if picked & {value for value in one.inputs if isinstance(value, Node)}]


def is_used(node: Node, index: int) -> bool:
    wanted: set[Node] = getattr(node.graph, "wanted", set())
    return bool(_users(node, index)) or bool(wanted & set(_results(node, index)))


def _is_last(user: Node) -> bool:
    return user.op.name == "getitem" and user.attrs["key"] == -1


# Step by step, for who asks for what the operators do not give


def _steps(node: Node, x: Value) -> int:
    if x.shape[0] is None:
        raise FormatError(
            f"to_onnx: {node.name} ({node.op.name}, made at {node.where}): its cells or gates are used at every step, "
            "which ONNX's operator does not give, and the number of steps is open. Give it as a number."
        )
    return x.shape[0]


def _part(b: Builder, x: Name, index: int, units: int) -> Name:
    return b.slice(x, 1, index * units, (index + 1) * units)


def _stacked(b: Builder, steps: list[Name]) -> Name:
    return b.op("Concat", *[b.unsqueeze(one, [0]) for one in steps], axis=0)


def _unrolled_lstm(b: Builder, node: Node, x: Value, h0: Value, c0: Value, weight: Value) -> list[Name]:
    units, steps = int(node.inputs[3].shape[1]), _steps(node, x)
    turned = b.op("Transpose", weight, perm=[1, 0])
    h, c = h0.name, c0.name
    found: tuple[list[Name], list[Name], list[Name]] = [], [], []
    for t in range(steps):
        a = b.op("Add", b.op("Gather", x, b.constant(t, np.int64), axis=0), b.op("MatMul", h, turned))
        i, f, o = (b.op("Sigmoid", _part(b, a, gate, units)) for gate in (0, 1, 3))
        g = b.op("Tanh", _part(b, a, 2, units))
        c = b.op("Add", b.op("Mul", f, c), b.op("Mul", i, g))
        h = b.op("Mul", o, b.op("Tanh", c))
        for kept, one in zip(found, (h, c, b.op("Concat", i, f, g, o, axis=1)), strict=True):
            kept.append(one)
    return [_stacked(b, one) for one in found]


def _unrolled_gru(b: Builder, node: Node, x: Value, h0: Value, weight: Value, bias: Value) -> list[Name]:
    units, steps = int(node.inputs[2].shape[1]), _steps(node, x)
    turned = b.op("Transpose", weight, perm=[1, 0])
    h = h0.name
    hidden: list[Name] = []
    gates: list[Name] = []
    for t in range(steps):
        row = b.op("Gather", x, b.constant(t, np.int64), axis=0)
        product = b.op("Add", b.op("MatMul", h, turned), bias)
        r, u = (b.op("Sigmoid", b.op("Add", _part(b, product, i, units), _part(b, row, i, units))) for i in (0, 1))
        inner = _part(b, product, 2, units)
        n = b.op("Tanh", b.op("Add", b.op("Mul", r, inner), _part(b, row, 2, units)))
        h = b.op("Add", n, b.op("Mul", u, b.op("Sub", h, n)))
        hidden.append(h)
        gates.append(b.op("Concat", r, u, n, inner, axis=1))
    return [_stacked(b, hidden), _stacked(b, gates)]
