"""Export rules for recurrent layers.

Ours are given the projected inputs; ONNX's operators project them too. Where the projection is a `linear` its weight is
handed over, and elsewhere the weight is an identity. Gates come in another order there.
"""

from __future__ import annotations

import numpy as np

from internals.deploy.errors import FormatError
from internals.deploy.onnx.builder import Builder, Name, Value
from internals.deploy.onnx.rules.table import rule
from internals.graph import Node
from internals.tensor.results import RESULT

ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""Where ONNX's gates are found among ours: i, o, f, c in i, f, g, o; z, r, h in r, u, n."""


def _reordered(b: Builder, op: str, x: Name, units: int) -> Name:
    order = ORDER[op]
    if len(order) == 1:
        return x
    rows = np.concatenate([np.arange(units) + gate * units for gate in order])
    return b.op("Gather", x, b.constant(rows), axis=0)


def _operands(b: Builder, node: Node, x: Value, weight: Value, own_bias: Value | None) -> tuple[Name, Name, Name, Name]:
    """X, W, R and B of the operator."""
    op, units = node.op.name, int(node.inputs[-1 if own_bias is None else -2].shape[1])
    rows = units * len(ORDER[op])
    made = node.inputs[0]
    bias = b.constant(np.zeros(rows, x.dtype))
    if made.op.name == "linear" and all(isinstance(one, Node) for one in made.inputs[:2]):
        source = b.name_of(made.inputs[0])
        projection = b.op("Transpose", b.name_of(made.inputs[1]), perm=[1, 0])
        given = made.inputs[2]
        if isinstance(given, Node):
            vector = b.name_of(given) if given.ndim else b.op("Expand", b.name_of(given), b.integers([rows]))
            bias = _reordered(b, op, vector, units)
    else:
        source, projection = x.name, b.constant(np.eye(rows, dtype=x.dtype))
    w = b.unsqueeze(_reordered(b, op, projection, units), [0])
    r = b.unsqueeze(_reordered(b, op, weight.name, units), [0])
    recurrent = b.constant(np.zeros(rows, x.dtype))
    if own_bias is not None:
        recurrent = _reordered(b, op, own_bias.name, units)
    return source, w, r, b.unsqueeze(b.op("Concat", bias, recurrent, axis=0), [0])


@rule("rnn")
def _rnn(b: Builder, node: Node, x: Value, h0: Value, weight: Value) -> Name:
    source, w, r, bias = _operands(b, node, x, weight, None)
    activation = {"tanh": "Tanh", "relu": "Relu"}[node.attrs["nonlinearity"]]
    hidden = b.op(
        "RNN", source, w, r, bias, "", b.unsqueeze(h0, [0]), hidden_size=weight.shape[1], activations=[activation]
    )
    return b.squeeze(hidden, [1])


@rule("gru")
def _gru(b: Builder, node: Node, x: Value, h0: Value, weight: Value, bias: Value) -> list[Name]:
    if _uses(node, 1):
        return _unrolled_gru(b, node, x, h0, weight, bias)
    source, w, r, both = _operands(b, node, x, weight, bias)
    hidden = b.op(
        "GRU", source, w, r, both, "", b.unsqueeze(h0, [0]), hidden_size=weight.shape[1], linear_before_reset=1
    )
    return [b.squeeze(hidden, [1]), ""]


@rule("lstm")
def _lstm(b: Builder, node: Node, x: Value, h0: Value, c0: Value, weight: Value) -> list[Name]:
    if _uses(node, 2) or not all(_is_last(user) for user in _users(node, 1)):
        return _unrolled_lstm(b, node, x, h0, c0, weight)
    source, w, r, bias = _operands(b, node, x, weight, None)
    states = [b.unsqueeze(state, [0]) for state in (h0, c0)]
    hidden, _, last = b.ops("LSTM", 3, source, w, r, bias, "", *states, hidden_size=weight.shape[1])
    # Of the cell only the last step is there; whoever reads it takes that step of what has only one.
    return [b.squeeze(hidden, [1]), last, ""]


def _results(node: Node, index: int) -> list[Node]:
    return [
        one for one in node.graph.nodes if one.op is RESULT and one.inputs[0] is node and one.attrs["index"] == index
    ]


def _users(node: Node, index: int) -> list[Node]:
    picked = set(_results(node, index))
    return [one for one in node.graph.nodes if picked & {value for value in one.inputs if isinstance(value, Node)}]


def _uses(node: Node, index: int) -> bool:
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
