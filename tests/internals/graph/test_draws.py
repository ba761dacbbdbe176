"""What is drawn inside a loop or a branch is drawn anew, in each round and in each run; its gradient has its mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frameworks import tf

from internals import Tensor, nn, ops
from internals.autodiff import grad
from internals.graph import Graph, Session, cond, from_json, gradients, scan, to_json, while_loop
from internals.trace import function

ROUNDS, WIDTH = 5, 64
DROP = nn.Dropout(0.5)


def scanned(x: Any) -> Any:
    """One row for each round."""
    rows = ops.zeros_like(ops.expand_dims(x, axis=0)) + Tensor(np.zeros((ROUNDS, 1), np.float32))
    _, (out,) = scan(lambda carry, row: (carry, [DROP(row[0] + x)]), [], [rows])
    return out


def looped(x: Any) -> Any:
    """The same by a while loop that writes each round in its row."""
    table = ops.zeros_like(ops.expand_dims(x, axis=0)) + Tensor(np.zeros((ROUNDS, 1), np.float32))
    places = Tensor(np.eye(ROUNDS, dtype=np.float32))

    def body(i: Any, table: Any, x: Any) -> list[Any]:
        here = ops.take(places, i, axis=0).reshape(ROUNDS, 1)
        return [i + 1, table + here * DROP(x), x]

    return while_loop(lambda i, table, x: i < ROUNDS, body, [Tensor(0), table, x])[1]


def nested(x: Any) -> Any:
    """Rounds of rounds, of which the last inner one is kept."""

    def outer(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        inner = while_loop(lambda i, y: i < 2, lambda i, y: [i + 1, DROP(x + y * 0.0)], [Tensor(0), row[0]])
        return carry, [inner[1]]

    rows = ops.zeros_like(ops.expand_dims(x, axis=0)) + Tensor(np.zeros((ROUNDS, 1), np.float32))
    return scan(outer, [], [rows])[1][0]


def branched(x: Any) -> Any:
    """A branch in each round."""
    rows = ops.zeros_like(ops.expand_dims(x, axis=0)) + Tensor(np.zeros((ROUNDS, 1), np.float32))

    def body(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        return carry, [cond(x.sum() < 1e9, lambda: DROP(x + row[0]), lambda: x * 3.0)]

    return scan(body, [], [rows])[1][0]


BODIES = [scanned, looped, nested, branched]
X = np.random.default_rng(0).uniform(1, 2, WIDTH).astype(np.float32)


def masks(found: Any) -> list[bytes]:
    """Which entries of each row were kept; they were scaled, and not otherwise changed."""
    kept = np.asarray(found) != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_allclose(found, np.where(kept, 2 * X, 0), rtol=1e-6)
    return [row.tobytes() for row in kept]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.__name__)
def test_in_a_session(body: Callable[..., Any], threads: int) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((WIDTH,), name="x")
        out = body(x)
        weights = graph.constant(np.random.default_rng(1).standard_normal(out.shape).astype(np.float32))
        (slope,) = gradients((out * weights).sum(), [x])
    seen = set()
    for built in (graph, from_json(to_json(graph))):
        with Session(built, threads=threads) as session:
            wanted = [built.by_name[one.name] for one in (out, slope, weights)]
            first = set()
            for _ in range(3):
                value, by_x, w = session.run(wanted, {built.by_name["x"]: X})
                first.update(masks(value))
                np.testing.assert_allclose(by_x, (w * value / X).sum(0), rtol=1e-4, atol=1e-5)
        assert len(first) == 3 * ROUNDS
        seen |= first
    assert len(seen) == 3 * ROUNDS  # a graph from a file draws what the one that was written draws


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.__name__)
def test_traced_and_at_once(body: Callable[..., Any]) -> None:
    for run in (function(body), body):
        seen = set()
        for _ in range(3):
            x = Tensor(X, requires_grad=True)
            out = run(x)
            seen.update(masks(out.detach().numpy()))
            out.sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), (out.detach().numpy() / X).sum(0), rtol=1e-4)
        assert len(seen) == 3 * ROUNDS


def test_a_python_loop_that_became_part_of_the_graph_draws_in_each_round() -> None:
    net = nn.Sequential(nn.Dropout(0.5))

    @function
    def dropped(x: Any, n: Any) -> Any:
        out = x * 0
        for i in range(n):
            out = out * 3 + net(x) / x / 2 * (i >= 0)
        return out

    def digits(value: np.ndarray, n: int) -> np.ndarray:
        return np.round(value).astype(int)[:, None] // 3 ** np.arange(n) % 3

    seen = set()
    for _ in range(3):
        found = digits(dropped(Tensor(X), Tensor(4)).numpy(), 4)
        assert set(np.unique(found)) == {0, 1}
        seen.update(row.tobytes() for row in found.T)
    assert len(seen) == 12
    net.eval()
    assert set(np.unique(digits(2 * dropped(Tensor(X), Tensor(4)).numpy(), 4))) == {1}


def test_a_seed_that_is_written_down_is_that_seed_as_in_python() -> None:
    def dropped(x: Any, n: Any) -> Any:
        total = x * 0
        for _ in range(n):
            total = total + ops.dropout(x, p=0.5, seed=7)
        if total.sum() > 0:
            total = total + ops.dropout(x, p=0.5, seed=9)
        return total

    for n in (0, 1, 3):
        want = dropped(Tensor(X), n).numpy()
        np.testing.assert_array_equal(function(dropped)(Tensor(X), Tensor(n)).numpy(), want)


def test_a_second_derivative_has_the_masks_of_the_first() -> None:
    def total(x: Any) -> Any:
        out = scan(lambda carry, row: ([DROP(carry[0] * x)], []), [x], [Tensor(np.zeros(3, np.float32))])[0][0]
        return out.sum()

    x = Tensor(X, requires_grad=True)
    value = function(total)(x)
    (first,) = grad(value, [x], create_graph=True)
    (second,) = grad(first.sum(), [x])
    kept = first.detach().numpy() != 0
    np.testing.assert_allclose(first.detach().numpy()[kept], 4 * 8 * X[kept] ** 3, rtol=1e-4)
    np.testing.assert_allclose(second.numpy()[kept], 12 * 8 * X[kept] ** 2, rtol=1e-4)
    assert not second.numpy()[~kept].any()


@pytest.mark.slow
def test_tensorflow_draws_in_each_round_too() -> None:
    with tf.Graph().as_default():
        x = tf.constant(X)
        rows = tf.map_fn(lambda _: tf.nn.dropout(x, 0.5), tf.zeros((ROUNDS, WIDTH)))
        with tf.compat.v1.Session() as session:
            seen = {row for _ in range(3) for row in masks(session.run(rows))}
    assert len(seen) == 3 * ROUNDS
