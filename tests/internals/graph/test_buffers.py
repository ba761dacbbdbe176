"""Results written over dead inputs, and convolutions in pieces: the same numbers from less memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from internals import ops, optim
from internals.graph import Graph, Session, apply_gradients, gradients, minimize
from internals.graph.buffers import tiled


def grown(graph: Graph, rng: np.random.Generator, steps: int) -> tuple[list[Any], list[Any]]:
    """A random graph of large arrays: views, shared inputs, fetches in the middle, element-wise rows, sums."""
    leaves = [graph.placeholder((64, 96), name="x"), graph.variable(rng.standard_normal((64, 96)), dtype=np.float32)]
    nodes = [*leaves, graph.constant(rng.standard_normal((64, 96)).astype(np.float32))]
    for _ in range(steps):
        one, two = (nodes[i] for i in rng.integers(max(0, len(nodes) - 6), len(nodes), 2))
        if one.shape != two.shape:
            one = one.T if one.T.shape == two.shape else two
        nodes.append(
            [
                lambda a, b: a + b,
                lambda a, b: a * b * 0.5,
                lambda a, b: -a,
                lambda a, b: a.T,
                lambda a, b: ops.minimum(a.T.exp(), 2.0),
                lambda a, b: ops.relu(a - b),
                lambda a, b: a.tanh() + a,
                lambda a, b: a[::-1] * 1.5,
                lambda a, b: a.reshape(-1).reshape(a.shape) - b,
                lambda a, b: a + b.mean(axis=0),
                lambda a, b: ops.sigmoid(a) / (b * b + 1.0),
                lambda a, b: ops.where(a > b, a - b, 0),
                lambda a, b: ops.where(a > 0.5, 0, -b),
                lambda a, b: ops.where(a > b, a * 2.0, b),
            ][rng.integers(14)](one, two)
        )
    count = int(rng.integers(1, 4))
    fetches = [nodes[i] for i in rng.integers(3, len(nodes), count)]
    return [leaves[0]], fetches


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", [*range(6), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 40)]])
def test_random_graphs_have_the_values_of_no_pass_to_the_bit(seed: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph()
    with graph:
        (x,), fetches = grown(graph, rng, 30)
    value = rng.standard_normal((64, 96)).astype(np.float32)
    plain, reused = Session(graph, passes=()), Session(graph, passes=("reuse",), threads=threads)
    for session in (plain, reused):
        session.initialise()
    with reused:
        for _ in range(3):
            copy = value.copy()
            for got, want in zip(reused.run(fetches, {x: value}), plain.run(fetches, {x: value}), strict=True):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(value, copy)


def peak(run: Any) -> int:
    run()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_chain_needs_one_buffer() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((256, 256), name="x")
        y = x * 2.0
        for _ in range(10):
            y = (y + 1.0).tanh()
        y = y.sum()
    value = np.ones((256, 256), np.float32)
    before, after = (Session(graph, passes=passes) for passes in ((), ("reuse",)))
    assert peak(lambda: before.run(y, {x: value})) > 1.9 * value.nbytes
    assert peak(lambda: after.run(y, {x: value})) < 1.2 * value.nbytes


CONVOLUTIONS = {
    "1d": (ops.conv1d, (40, 3, 600), (4, 3, 9), {"padding": 2}),
    "2d": (ops.conv2d, (40, 3, 20, 20), (6, 3, 5, 5), {"stride": 2}),
    "groups": (ops.conv2d, (40, 4, 20, 20), (8, 2, 3, 3), {"groups": 2, "dilation": 2}),
    "transposed": (ops.conv_transpose2d, (40, 6, 12, 12), (6, 4, 5, 5), {"stride": 2, "output_padding": 1}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_in_pieces_has_the_same_values_and_gradients(name: str) -> None:
    row, x_shape, w_shape, attrs = CONVOLUTIONS[name]
    rng = np.random.default_rng()
    graph = Graph()
    with graph:
        x, w = graph.placeholder(x_shape, np.float64), graph.placeholder(w_shape, np.float64)
        out = row(x, w, **attrs)
        loss = (out * graph.constant(rng.standard_normal(out.shape))).sum()
        fetches = [out, *gradients(loss, [x, w])]
    feeds = {node: rng.standard_normal(node.shape) for node in (x, w)}
    whole, pieces = Session(graph, passes=()), Session(graph, passes=("tile",))
    assert any(tiled(node) for node in pieces.plan(fetches, feeds).nodes)
    for got, want in zip(pieces.run(fetches, feeds), whole.run(fetches, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
        assert list(np.argsort(got.strides)) == list(np.argsort(want.strides))


def test_a_step_of_a_convolutional_network_peaks_lower() -> None:
    rng = np.random.default_rng()
    graph = Graph()
    with graph:
        x, y = graph.placeholder((64, 1, 28, 28)), graph.placeholder((64,), np.int64)
        w = graph.variable(rng.standard_normal((6, 1, 5, 5)).astype(np.float32) / 5)
        v = graph.variable(rng.standard_normal((864, 10)).astype(np.float32) / 30)
        loss = ops.cross_entropy(ops.max_pool2d(ops.relu(ops.conv2d(x, w)), 2).reshape(64, -1) @ v, y)
        train = minimize(loss, lr=0.1)
    feeds = {x: rng.standard_normal(x.shape).astype(np.float32), y: rng.integers(0, 10, 64)}
    peaks, losses = [], []
    for passes in ((), ("reuse", "tile")):
        session = Session(graph, passes=passes)
        session.initialise()
        peaks.append(peak(lambda session=session: session.run([loss, train], feeds)))
        losses.append(session.run(loss, feeds))
    assert peaks[1] < 0.7 * peaks[0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam])
@pytest.mark.parametrize("settings", [{}, {"weight_decay": 0.1}, {"maximize": True}])
@pytest.mark.parametrize("fetched", [False, True], ids=["spare", "fetched"])
def test_a_gradient_is_written_over_only_if_nobody_else_has_it(optimizer: Any, settings: Any, fetched: bool) -> None:
    """The optimizer takes the gradient's memory for its step; one that is fetched, or read elsewhere, stays."""
    rng = np.random.default_rng()
    graph = Graph()
    with graph:
        x = graph.placeholder((8, 96), name="x")
        w = graph.variable(rng.standard_normal((96, 80)).astype(np.float32) / 9)
        (slope,) = gradients(((x @ w) ** 2).mean(), [w])
        train = apply_gradients([(slope, w)], optimizer, lr=0.1, **settings)
        with graph.after([train]):
            size = (slope * slope).sum()
    value = rng.standard_normal((8, 96)).astype(np.float32)
    found = []
    for passes in ((), ("reuse",)):
        with Session(graph, passes=passes) as session:
            session.initialise()
            wanted = [train, w, *([slope, size] if fetched else [])]
            for _ in range(3):
                found.append(session.run(wanted, {x: value})[1:])
            found.append([session.values[w.name].copy()])
    for got, want in zip(found[4:], found[:4], strict=True):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3)])
@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam])
def test_any_shape_is_written_over_or_left_alone(shape: tuple[int, ...], optimizer: Any) -> None:
    """What NumPy computes from arrays without axes is no array: it has no memory to write to."""
    start = np.random.default_rng().standard_normal(shape)
    found = []
    for passes in ((), ("reuse",)):
        graph = Graph()
        with graph:
            v = graph.variable(start)
            chain = ops.relu(-(v * v) + 2.0) * 3.0
            lr = graph.placeholder((), np.float64)
            train = minimize((v * v).sum(), [v], optimizer, lr=lr)
        session = Session(graph, passes=passes)
        session.initialise()
        for rate in (0.4, 0.2):
            session.run(train, {lr: rate})
        found += [session.run([v, chain])]
    for plain, reused in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, reused)
