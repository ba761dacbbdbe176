"""The same graph in TensorFlow 1's style: each of our nodes, made again by TensorFlow's own operation.

Shapes, gradients and control flow are TensorFlow's from there on; nothing of ours is left but the list of nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from internals.graph import Graph, Node


def rows(tf: Any) -> dict[str, Callable[..., Any]]:
    """TensorFlow's operation for a row, ``(*inputs, **attrs)``."""
    return {
        "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "div": tf.divide, "pow": tf.pow, "neg": tf.negative,
        "exp": tf.exp, "log": tf.math.log, "tanh": tf.tanh, "sigmoid": tf.sigmoid, "relu": tf.nn.relu, "sqrt": tf.sqrt,
        "square": tf.square, "greater": tf.greater, "less": tf.less, "maximum": tf.maximum, "where": tf.where,
        "matmul": tf.matmul,
        "sum": lambda x, axis, keepdims: tf.reduce_sum(x, axis, keepdims),
        "mean": lambda x, axis, keepdims: tf.reduce_mean(x, axis, keepdims),
        "max": lambda x, axis, keepdims: tf.reduce_max(x, axis, keepdims),
        "reshape": lambda x, shape: tf.reshape(x, shape),
        "transpose": lambda x, axes: tf.transpose(x, axes or None),
        "softmax": lambda x, axis: tf.nn.softmax(x, axis),
        "log_softmax": lambda x, axis: tf.nn.log_softmax(x, axis),
        "concat": lambda *xs, axis: tf.concat(xs, axis),
        "getitem": lambda x, key: x[key],
        "cross_entropy": lambda x, y, **attrs: tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
        ),
        "conv2d": lambda x, w, stride, **attrs: tf.transpose(
            tf.nn.conv2d(tf.transpose(x, (0, 2, 3, 1)), tf.transpose(w, (2, 3, 1, 0)), stride, "VALID"), (0, 3, 1, 2)
        ),
    }  # fmt: skip


def beside(tf: Any, graph: Graph) -> tuple[Any, dict[Node, Any]]:
    """A ``tf.Graph`` of the same nodes, and which of its tensors stands for which node."""
    theirs = tf.Graph()
    with theirs.as_default():
        return theirs, _made(tf, graph.nodes, {})


def _made(tf: Any, nodes: list[Node], there: dict[Node, Any]) -> dict[Node, Any]:
    table = rows(tf)
    for node in nodes:
        if node in there:
            continue
        inputs = [there[value] if isinstance(value, Node) else value for value in node.inputs]
        kind = node.op.name
        if kind == "placeholder":
            there[node] = tf.compat.v1.placeholder(node.dtype, node.shape)
        elif kind == "constant":
            there[node] = tf.constant(np.asarray(node.attrs["value"]))
        elif kind == "variable":
            there[node] = tf.compat.v1.get_variable(
                node.name, initializer=tf.constant(np.asarray(node.attrs["initial"])), use_resource=True
            )
        elif kind == "result":
            there[node] = inputs[0][node.attrs["index"]]
        elif kind in ("cond", "while_loop", "scan"):
            there[node] = _controlled(tf, node, inputs)
        else:
            there[node] = table[kind](*inputs, **node.attrs)
    return there


def _controlled(tf: Any, node: Node, inputs: list[Any]) -> list[Any]:
    kind, functions, numbers = node.op.made  # type: ignore[attr-defined]

    def run(function: Any, values: list[Any]) -> list[Any]:
        there = _made(tf, function.graph.nodes, dict(zip(function.inputs, values, strict=True)))
        return [there[one] for one in function.outputs]

    if kind == "cond":
        split = 1 + len(functions["then"].inputs)
        return list(
            tf.cond(
                tf.reshape(inputs[0], ()),
                lambda: run(functions["then"], inputs[1:split]),
                lambda: run(functions["otherwise"], inputs[split:]),
            )
        )
    if kind == "while_loop":
        n = numbers["n"]
        test, step = functions["condition"], functions["body"]
        asked, used = inputs[n : n + len(test.captures)], inputs[n + len(test.captures) :]
        return list(
            tf.while_loop(
                lambda *state: tf.reshape(run(test, [*state, *asked])[0], ()),
                lambda *state: run(step, [*state, *used]),
                inputs[:n],
            )
        )
    n, m, body = numbers["n"], numbers["m"], functions["body"]
    used = inputs[n + m :]
    start = [*inputs[:n], *[tf.zeros(one.shape, one.dtype) for one in body.outputs[n:]]]
    found = tf.scan(
        lambda before, row: run(body, [*before[:n], *(row if m > 1 else [row]), *used]),
        tuple(inputs[n : n + m]) if m > 1 else inputs[n],
        start,
    )
    before = [tf.concat([one[None], after[:-1]], 0) for one, after in zip(inputs[:n], found[:n], strict=True)]
    return [*[one[-1] for one in found[:n]], *found[n:], *before]
