"""The same graphs in TensorFlow's sessions: values, gradients and training are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensorflow_graph import beside

from internals import ops, optim
from internals.graph import Graph, Session, cond, gradients, minimize, scan, while_loop

pytestmark = pytest.mark.slow

X, W = (6, 4), (4, 4)


def perceptron(g: Graph, x: Any, w: Any) -> Any:
    return ops.cross_entropy(ops.relu(x @ w + w[0]) @ w, g.constant(np.array([0, 1, 2, 3, 0, 1])))


def arranged(g: Graph, x: Any, w: Any) -> Any:
    joined = ops.concat([x.T, w, (x @ w).reshape(4, 6)], axis=1)
    return (ops.softmax(joined[1:], axis=1) * joined[:3].tanh()).sum(axis=0).max() + joined.mean(axis=1)[2]


def chosen(g: Graph, x: Any, w: Any) -> Any:
    return ops.where(x > 0.0, ops.square(x @ w), x * 0.5).sum() + ops.maximum(x, 0.1).log().mean()


def convolved(g: Graph, x: Any, w: Any) -> Any:
    return (ops.conv2d(x.reshape(2, 1, 3, 4), w.reshape(4, 1, 2, 2)).tanh() ** 2).sum()


def branched(g: Graph, x: Any, w: Any) -> Any:
    return cond(x.sum() > 0.0, lambda: (x @ w).tanh().sum(), lambda: (w * w).sum() * x[0].sum())


def looped(g: Graph, x: Any, w: Any) -> Any:
    last, _ = while_loop(lambda v, n: n < 5, lambda v, n: [(v @ w).tanh() + v * 0.5, n + 1], [x, g.constant(0)])
    return (last * last).sum()


def until(g: Graph, x: Any, w: Any) -> Any:
    (last,) = while_loop(lambda v: ops.square(v).sum() > 0.5, lambda v: [v * 0.7], [x])
    return (last @ w).sum()


def scanned(g: Graph, x: Any, w: Any) -> Any:
    (last,), (rows,) = scan(lambda c, r: ([(c[0] @ w + r[0]).tanh()], [c[0] * r[0]]), [x[:1]], [x])
    return (last**2.0).sum() + rows.sum()


def two_rows(g: Graph, x: Any, w: Any) -> Any:
    (last,), _ = scan(lambda c, r: ([c[0] * r[0] + r[1]], []), [w[0]], [x, x.tanh()])
    return last.sum()


GRAPHS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (perceptron, arranged, chosen, convolved, branched, looped, until, scanned, two_rows)
}


def built(name: str) -> tuple[Any, ...]:
    graph = Graph()
    with graph:
        x = graph.placeholder(X, np.float64, name="x")
        w = graph.variable(np.random.default_rng().standard_normal(W) / 2, name="w")
        return graph, x, w, GRAPHS[name](graph, x, w)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", GRAPHS)
def test_values_and_gradients(name: str, sign: int, tf: Any) -> None:
    graph, x, w, loss = built(name)
    theirs, there = beside(tf, graph)
    value = sign * np.abs(np.random.default_rng().standard_normal(X))
    with theirs.as_default():
        wanted = [there[loss], *tf.compat.v1.gradients(there[loss], [there[x], there[w]])]
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            found = [one if one is not None else tf.constant(0.0) for one in wanted]
            want = session.run([tf.convert_to_tensor(one) for one in found], {there[x]: value})
    with graph:
        ours = [loss, *gradients(loss, [x, w])]
    assert [one is None for one in ours] == [one is None for one in wanted]
    with Session(graph) as session:
        session.initialise()
        came = session.run([one for one in ours if one is not None], {x: value})
    for got, other in zip(came, [a for a, b in zip(want, ours, strict=True) if b is not None], strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["SGD", "momentum", "Adam"])
def test_training(name: str, tf: Any) -> None:
    graph, x, w, loss = built("perceptron")
    theirs, there = beside(tf, graph)
    rule, settings = {
        "SGD": (optim.SGD, {"lr": 0.1}),
        "momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        "Adam": (optim.Adam, {"lr": 0.01}),
    }[name]
    v1 = tf.compat.v1.train
    other = {
        "SGD": lambda: v1.GradientDescentOptimizer(0.1),
        "momentum": lambda: v1.MomentumOptimizer(0.1, 0.9),
        "Adam": lambda: v1.AdamOptimizer(0.01),
    }[name]
    with graph:
        train = minimize(loss, [w], rule, **settings)
    values = np.random.default_rng().standard_normal((8, *X))
    with theirs.as_default():
        step = other().minimize(there[loss])
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            want = [session.run([there[loss], step], {there[x]: value})[0] for value in values]
    with Session(graph) as session:
        session.initialise()
        came = [session.run([loss, train], {x: value})[0] for value in values]
    np.testing.assert_allclose(came, want, rtol=1e-4 if name == "Adam" else 1e-5)  # epsilon stands elsewhere


def test_pruning_keeps_the_same_nodes(tf: Any) -> None:
    """What our session plans is what TensorFlow's `extract_sub_graph` keeps."""
    graph = Graph()
    with graph:
        x = graph.placeholder((3,), np.float64, name="x")
        a, b = x.exp(), x.tanh()
        c, _ = a * 2.0, a + b
        out = c.sum()
    theirs, there = beside(tf, graph)
    kept = tf.compat.v1.graph_util.extract_sub_graph(theirs.as_graph_def(), [there[out].op.name])
    operations = [node.op for node in kept.node if node.op not in ("Const", "Placeholder")]
    plan = Session(graph, passes=()).plan([out], {x: np.ones(3)})
    assert [step.name for step in plan.steps] == [a.name, c.name, out.name]
    assert sorted(operations) == sorted(["Exp", "Mul", "Sum"])
