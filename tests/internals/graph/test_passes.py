"""Each pass leaves out what it should, and nothing that changes a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import ops
from internals.graph import Graph, Session, gradients
from internals.graph.passes import PASSES, rewrite


def perceptron(x: Any, graph: Graph) -> Any:
    w = graph.constant(np.random.default_rng(0).standard_normal((3, 5)))
    loss = ops.log_softmax((x @ w).tanh() * 2.0 + 0.0, axis=1).mean()
    return [loss, *gradients(loss, [x, w])]


# What is built, the pass, and which operations are left

CASES: dict[str, tuple[Callable[..., Any], str, list[str]]] = {
    "constants": (lambda x, g: [x + (g.constant([1.0, 2.0, 3.0], np.float64) * 2.0).exp()], "fold", ["add"]),
    "python numbers": (lambda x, g: [x * g.constant(2.0, np.float64).sqrt()], "fold", ["mul"]),
    "nothing constant": (lambda x, g: [x.exp()], "fold", ["exp"]),
    "the same twice": (lambda x, g: [x.exp() + x.exp()], "share", ["exp", "add"]),
    "the same, deeper": (lambda x, g: [(x * 2.0).sum(axis=0) * (x * 2.0).sum(axis=0)], "share", ["mul", "sum", "mul"]),
    "other attributes": (lambda x, g: [x.sum(axis=0).sum() + x.sum(axis=1).sum()], "share", ["sum"] * 4 + ["add"]),
    "minus zero is not zero": (lambda x, g: [x / 0.0 + x / -0.0], "share", ["div", "div", "add"]),
    "True is not 1": (lambda x, g: [(x * 1).sum() + (x * True).sum()], "share", ["mul", "sum", "mul", "sum", "add"]),
    "plus zero, times one": (lambda x, g: [((x + 0) * 1.0 - 0.0) / 1], "simplify", []),
    "zero plus, one times": (lambda x, g: [1 * (0 + x)], "simplify", []),
    "one over is not one times": (lambda x, g: [1.0 / x], "simplify", ["div"]),
    "times ones": (lambda x, g: [x * ops.ones_like(x)], "simplify", []),
    "a wider result": (lambda x, g: [x[:1] * g.constant(np.ones((4, 3)))], "simplify", ["getitem", "mul"]),
    "the shape it has": (lambda x, g: [x.reshape(4, 3).broadcast_to(4, 3)], "simplify", []),
    "there and back": (lambda x, g: [-(-x).T.T.reshape(12).reshape(4, 3)], "simplify", []),
    "turned twice, otherwise": (lambda x, g: [x.reshape(2, 2, 3).permute(1, 2, 0).permute(1, 2, 0)], "simplify",
                                ["reshape", "transpose", "transpose"]),
    "what is not asked for": (lambda x, g: [x.exp(), x.log()][:1], "share", ["exp"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_left(name: str) -> None:
    build, one, left = CASES[name]
    graph = Graph()
    with graph:
        x = graph.placeholder((4, 3), np.float64, name="x")
        fetches = build(x, graph)
    value = np.random.default_rng().uniform(0.5, 2, (4, 3))
    before, after = (Session(graph, passes=passes) for passes in ((), (one,)))
    plan = after.plan(fetches, {x: value})
    assert [node.op.name for node in plan.nodes if node.op.name not in ("placeholder", "constant")] == left
    with np.errstate(all="ignore"):
        for got, want in zip(after.run(fetches, {x: value}), before.run(fetches, {x: value}), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("passes", [*[(name,) for name in PASSES], tuple(PASSES)], ids="+".join)
def test_a_model_and_its_gradients_keep_their_values(passes: tuple[str, ...]) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((4, 3), np.float64)
        fetches = perceptron(x, graph)
    value = np.random.default_rng().standard_normal((4, 3))
    plain, changed = Session(graph, passes=()), Session(graph, passes=passes)
    for got, want in zip(changed.run(fetches, {x: value}), plain.run(fetches, {x: value}), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
    assert len(changed.plan(fetches, {x: value}).steps) <= len(plain.plan(fetches, {x: value}).steps)


def test_what_a_pass_did_can_be_read() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((4, 3), np.float64)
        y = x.exp() + x.exp() * 1.0
    found = rewrite(graph.nodes, [y], ["simplify", "share"])
    assert found.sizes == {"simplify": (5, 4), "share": (4, 3)}


def test_an_unknown_pass_is_named() -> None:
    graph = Graph()
    with pytest.raises(ValueError, match="no pass called 'fuse'; there are fold, simplify, share"):
        Session(graph, passes=("fuse",)).run([])
