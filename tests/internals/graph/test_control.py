"""Conditions and loops as operations: what the same Python does, with the same derivatives, in a graph and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, grad, ops
from internals.graph import Function, Graph, GraphError, Session, cond, gradients, scan, while_loop
from internals.graph.function import as_op
from internals.graph.split import Split, split_op


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape)


# One program, written with our operations, and with Python's own for torch


def recurrent(w: Any, h: Any, x: Any) -> Any:
    def step(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        after = (carry[0] @ w + row[0]).tanh()
        return [after], [after * row[0]]

    (last,), (outputs,) = scan(step, [h], [x])
    return (last * last).sum() + outputs.sum()


def recurrent_torch(w: Any, h: Any, x: Any) -> Any:
    outputs = []
    for row in x:
        h = (h @ w + row).tanh()
        outputs.append(h * row)
    return (h * h).sum() + torch.stack(outputs).sum()


def chosen(w: Any, h: Any, x: Any) -> Any:
    return cond(h.sum() > 0, lambda: ((h @ w) * x[0]).sum(), lambda: (w * w).sum() * x.sum())


def chosen_torch(w: Any, h: Any, x: Any) -> Any:
    return ((h @ w) * x[0]).sum() if h.sum() > 0 else (w * w).sum() * x.sum()


def nested(w: Any, h: Any, x: Any) -> Any:
    def step(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        after = cond(row[0].sum() > 0, lambda: (carry[0] @ w).tanh(), lambda: carry[0] * row[0])
        return [after], []

    (last,), _ = scan(step, [h], [x])
    return (last**3).sum()


def nested_torch(w: Any, h: Any, x: Any) -> Any:
    for row in x:
        h = (h @ w).tanh() if row.sum() > 0 else h * row
    return (h**3).sum()


PROGRAMS = {
    "scan": (recurrent, recurrent_torch),
    "cond": (chosen, chosen_torch),
    "cond in scan": (nested, nested_torch),
}


def torch_derivatives(program: Callable[..., Any], values: list[np.ndarray]) -> list[np.ndarray]:
    leaves = [torch.tensor(value, requires_grad=True) for value in values]
    result = program(*leaves)
    first = torch.autograd.grad(result, leaves, create_graph=True, materialize_grads=True)
    square = sum((one * one).sum() for one in first)
    second = torch.autograd.grad(square, leaves, materialize_grads=True)
    return [one.detach().numpy() for one in (result, *first, *second)]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_to_second_order_as_torch(name: str, sign: int) -> None:
    """Eagerly and in a graph."""
    ours, theirs = PROGRAMS[name]
    values = [random(3, 3), sign * np.abs(random(2, 3)), random(4, 2, 3)]
    want = torch_derivatives(theirs, values)

    leaves = [Tensor(value, requires_grad=True) for value in values]
    result = ours(*leaves)
    first = grad(result, leaves, create_graph=True)
    second = grad(sum(((one * one).sum() for one in first), Tensor(0.0)), leaves)
    eager = [one.detach().numpy() for one in (result, *first, *second)]

    graph = Graph()
    with graph:
        nodes = [graph.placeholder(value.shape, np.float64) for value in values]
        loss = ours(*nodes)
        slopes = gradients(loss, nodes)
        square = sum(((one * one).sum() for one in slopes), graph.constant(0.0))
        fetches = [loss, *slopes, *gradients(square, nodes)]
    came = Session(graph).run(fetches, dict(zip(nodes, values, strict=True)))

    for got in (eager, came):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def halved(x: Any, factor: Any, count: Any) -> list[Any]:
    return while_loop(lambda x, n: x.sum() > 1.0, lambda x, n: [x * factor, n + 1], [x, count])


def test_a_loop_runs_as_long_as_it_must_and_its_gradient_goes_back_through_each_round() -> None:
    start = np.abs(random(3)) * 50 + 10
    leaf, factor = Tensor(start, requires_grad=True), Tensor(np.array(0.5), requires_grad=True)
    last, count = halved(leaf, factor, Tensor(0))
    x, f, rounds = torch.tensor(start, requires_grad=True), torch.tensor(0.5, requires_grad=True), 0
    y = x
    while y.sum() > 1.0:
        y, rounds = y * f, rounds + 1
    weights = random(3)
    want = torch.autograd.grad((y * torch.tensor(weights)).sum(), [x, f])
    assert count.item() == rounds > 3
    for got, other in zip(grad((last * Tensor(weights)).sum(), [leaf, factor]), want, strict=True):
        np.testing.assert_allclose(got.numpy(), other.numpy(), rtol=1e-5)

    graph = Graph()
    with graph:
        node, constant = graph.placeholder((3,), np.float64), graph.constant(0.5, np.float64)
        end, times = halved(node, constant, graph.constant(0))
        slopes = gradients((end * graph.constant(weights)).sum(), [node, constant])
    came = Session(graph).run([times, *slopes], {node: start})
    assert came[0] == rounds
    for got, other in zip(came[1:], want, strict=True):
        np.testing.assert_allclose(got, other.numpy(), rtol=1e-5)


def test_a_scan_of_no_rows_is_the_carry() -> None:
    h = Tensor(random(3), requires_grad=True)
    (last,), (outputs,) = scan(lambda c, r: ([c[0] * r[0]], [c[0]]), [h], [Tensor(np.zeros((0, 3)))])
    assert outputs.shape == (0, 3)
    start = random(3)
    np.testing.assert_array_equal(grad(last, h, Tensor(start)).numpy(), start)


x, flag = Tensor([1.0, 2.0], requires_grad=True), Tensor(True)
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: cond(x, lambda: x, lambda: x), r"cond: the condition must be one boolean, got float32\[2\]"),
    (lambda: cond(True, lambda: x, lambda: x), "must be one boolean, got bool"),
    (lambda: cond(flag, lambda: x, lambda: x[0]), r"branches differ: float32\[2\] and float32\[\] \(made at"),
    (lambda: cond(flag, lambda: [x, x], lambda: x), "branches differ"),
    (lambda: cond(flag, lambda: "x", lambda: x), "a body gave str"),
    (lambda: while_loop(lambda v: v, lambda v: [v], [x]), "while_loop: the condition must be one boolean"),
    (lambda: while_loop(lambda v: v.sum() > 0, lambda v: [v[:1]], [x]), "state before and after the body differ"),
    (lambda: while_loop(lambda v: v.sum() > 0, lambda v: [v + 1], [x], most=50), "still running after 50 iterations"),
    (lambda: scan(lambda c, r: (c, []), [x], [x, Tensor([1.0])]), "need one known length"),
    (lambda: scan(lambda c, r: (c, []), [x], [Tensor(1.0)]), "need one known length"),
    (lambda: scan(lambda c, r: ([c[0].sum()], []), [x], [x]), "carry before and after the body differ"),
    (lambda: grad(grad(halved(x, Tensor(0.5), Tensor(0))[0].sum(), x, create_graph=True).sum(), x, allow_unused=True),
     "its gradient has no gradient"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


@pytest.mark.parametrize("known", [True, False], ids=["known", "open"])
@pytest.mark.parametrize("outside", ["none", "cond", "scan"])
def test_what_is_refused_inside_a_branch_or_a_body_speaks_for_itself(outside: str, known: bool) -> None:
    """With open sizes, that comes out when the graph is run, from as many operations as are around it."""

    def looped(value: Any) -> Any:
        return while_loop(lambda v: v.sum() < 9, lambda v: [v * v + 1], [value])[0]

    around: dict[str, Callable[[Any], Any]] = {
        "none": looped,
        "cond": lambda value: cond(value.sum() > 0, lambda: looped(value), lambda: value),
        "scan": lambda value: scan(lambda c, r: ([looped(c[0])], []), [value], [Tensor(random(2))])[0][0],
    }
    with Graph() as graph:
        start = graph.placeholder((3,) if known else (None,), np.float32)
        (once,) = gradients(around[outside](start).sum(), start)
        with pytest.raises(GraphError, match="^([^()]*made at [^()]*: )?while_loop: its gradient has no gradient"):
            Session(graph).run(gradients((once * once).sum(), start), {start: random(3).astype(np.float32)})


def test_pythons_if_in_a_body_is_refused_with_the_way_out() -> None:
    with pytest.raises(GraphError, match="Use cond or while_loop"):
        while_loop(lambda v: v.sum() > 0, lambda v: [v - 1 if v[0] > 2 else v - 2], [x])


# A function as one operation


def layered(x: Any, w: Any, b: Any) -> list[Any]:
    hidden = (x @ w + b).tanh()
    return [ops.layer_norm(hidden, b, w[0], ndim=1, eps=1e-5).sum(axis=0), hidden.exp().mean()]


@pytest.mark.parametrize("make", [as_op, split_op])
def test_a_function_as_one_operation_has_the_derivatives_of_its_body(make: Callable[..., Any]) -> None:
    values = [random(4, 3), random(3, 5), random(5)]
    function, _ = Function.build(layered, [Tensor(value) for value in values])
    found = []
    for run in (layered, lambda *leaves: make(function)(list(leaves))):
        leaves = [Tensor(value, requires_grad=True) for value in values]
        vector, scalar = run(*leaves)[:2]
        loss = (vector * vector).sum() * scalar
        first = grad(loss, leaves, create_graph=True)
        only = grad(run(*leaves)[1] * 3.0, leaves)
        second = grad(sum(((one * one).sum() for one in first), Tensor(0.0)), leaves)
        found.append([one.detach().numpy() for one in (loss, *first, *only, *second)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_the_backward_part_computes_nothing_twice() -> None:
    function, _ = Function.build(layered, [Tensor(random(*shape)) for shape in ((4, 3), (3, 5), (5,))])
    split = Split(function)
    assert [node.op.name for node in split.forward.plan([n.shape for n in split.inputs]).nodes].count("tanh") == 1
    assert not {"tanh", "exp"} & {node.op.name for node in split.backward.graph.nodes}
    assert any(node.op.name == "tanh" for node in split.kept)


def test_a_scan_of_open_sizes_has_a_gradient() -> None:
    """Also where the run is made inside ``with graph:``: its nodes are no nodes of that graph."""
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 2), name="x")
        rows = Tensor(np.float32([2, 3, 4]))
        (last,), (squares,) = scan(lambda c, r: ([c[0] * r[0]], [c[0] * c[0]]), [x], [rows])
        (slope,) = gradients(last.sum() + squares.sum(), [x])
        with Session(graph) as session:
            for size in (1, 4):
                value = np.random.default_rng(size).standard_normal((size, 2)).astype(np.float32)
                nodes = len(graph)
                found = session.run(slope, {x: value})
                assert len(graph) == nodes
                np.testing.assert_allclose(found, 24 + 2 * value * (1 + 4 + 36), rtol=1e-5)
