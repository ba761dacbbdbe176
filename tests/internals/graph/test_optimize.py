"""Optimizers as nodes move variables as `internals.optim` moves parameters, to the bit; what they remember is saved."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import Tensor, device, nn, ops, optim
from internals.graph import (
    Graph,
    GraphError,
    Session,
    apply_gradients,
    assign,
    assign_add,
    assign_sub,
    gradients,
    minimize,
    read,
)

RULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "SGD": (optim.SGD, {"lr": 0.1}),
    "decay, up": (optim.SGD, {"lr": 0.01, "weight_decay": 0.1, "maximize": True}),
    "momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    "nesterov": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adam": (optim.Adam, {"lr": 0.01}),
    "amsgrad": (optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.01}),
    "AdamW": (optim.AdamW, {"lr": 0.01}),
    "Lion": (optim.Lion, {"lr": 0.01}),
    "RMSProp": (optim.RMSProp, {"lr": 0.01}),
}


def model(x: Any, y: Any, w: Any, b: Any, v: Any) -> Any:
    return ops.cross_entropy(ops.tanh(x @ w + b) @ v, y)


def values(dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng()
    return [rng.standard_normal(shape).astype(dtype) for shape in ((4, 5), (5,), (5, 3))]


def batches(count: int, dtype: Any = np.float32) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng()
    return [(rng.standard_normal((6, 4)).astype(dtype), rng.integers(0, 3, 6)) for _ in range(count)]


def built(starts: list[np.ndarray], rule: Any, settings: dict[str, Any]) -> tuple[Any, ...]:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 4), starts[0].dtype, name="x")
        y = graph.placeholder((None,), np.int64, name="y")
        weights = [graph.variable(start, name=name) for start, name in zip(starts, "wbv", strict=True)]
        loss = model(x, y, *weights)
        return graph, x, y, weights, loss, minimize(loss, optimizer=rule, **settings)


@pytest.mark.parametrize("where", ["cpu", "sim:0", "threads"])
@pytest.mark.parametrize("name", RULES)
def test_steps_are_those_of_the_optimizer_to_the_bit(name: str, where: str) -> None:
    rule, settings = RULES[name]
    starts = values()
    graph, x, y, weights, loss, train = built(starts, rule, settings)
    threads = 3 if where == "threads" else 1
    session = Session(graph, passes=(), threads=threads, device="cpu" if threads > 1 else where)
    session.initialise()
    leaves = [Tensor(start, requires_grad=True) for start in starts]
    stepper = rule(leaves, **settings)
    for images, labels in batches(5):
        found = model(Tensor(images), Tensor(labels), *leaves)
        stepper.zero_grad()
        found.backward()
        stepper.step()
        came, _ = session.run([loss, train], {x: images, y: labels})
        assert came == found.item()
        for node, leaf in zip(weights, leaves, strict=True):
            np.testing.assert_array_equal(session.run(node), leaf.detach().numpy())
    for start, kept in zip(starts, [node.attrs["initial"] for node in weights], strict=True):
        np.testing.assert_array_equal(start, kept)


def test_a_run_sees_each_variable_as_it_was_whoever_moves_it() -> None:
    """What is fetched, held by the caller or read by another step is not moved along."""
    graph, x, y, weights, _, train = built(values(), optim.SGD, {"lr": 0.5, "momentum": 0.9})
    session = Session(graph)
    session.initialise()
    (images, labels), feeds = batches(1)[0], {}
    feeds = {x: images, y: labels}
    session.run(train, feeds)
    before = session.run(weights[0])
    held, copy = session.values["w"], before.copy()
    inside, _ = session.run([weights[0], train], feeds)
    np.testing.assert_array_equal(inside, copy)
    np.testing.assert_array_equal(before, copy)
    np.testing.assert_array_equal(held, copy)
    assert not np.array_equal(session.run(weights[0]), copy)
    del held
    kept = session.values["w"]
    address = kept.__array_interface__["data"]
    del kept
    session.run(train, feeds)
    assert session.values["w"].__array_interface__["data"] == address  # nobody looks: moved where it is


def test_what_is_handed_out_is_the_callers() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2, 2), name="x")
        v, c = graph.variable(np.ones((2, 2)), name="v", dtype=np.float32), graph.constant(np.ones((2, 2)))
        fetches = [v, c, v.T, c.T, x, assign(v, x), read(v)]
    session = Session(graph)
    session.initialise()
    fed = np.full((2, 2), 3, np.float32)
    want = [one.copy() for one in session.run(fetches, {x: fed})]
    session.initialise()
    for one in session.run(fetches, {x: fed}):
        one[...] = -7
    assert (fed == 3).all()
    session.initialise()
    for got, other in zip(session.run(fetches, {x: fed}), want, strict=True):
        np.testing.assert_array_equal(got, other)
    fed[...] = 9
    np.testing.assert_array_equal(session.run(v), np.full((2, 2), 3))


def test_a_step_size_may_be_a_node() -> None:
    starts = values(np.float64)
    graph = Graph()
    with graph:
        x, y = graph.placeholder((None, 4), np.float64), graph.placeholder((None,), np.int64)
        lr = graph.placeholder((), np.float64)
        weights = [graph.variable(start) for start in starts]
        train = minimize(model(x, y, *weights), weights, optim.Adam, lr=lr)
    leaves = [Tensor(start, requires_grad=True) for start in starts]
    stepper, session = optim.Adam(leaves, lr=0.1), Session(graph, passes=())
    session.initialise()
    for rate, (images, labels) in zip((0.1, 0.05, 0.01), batches(3, np.float64), strict=True):
        stepper.lr = rate
        stepper.zero_grad()
        model(Tensor(images), Tensor(labels), *leaves).backward()
        stepper.step()
        session.run(train, {x: images, y: labels, lr: rate})
    for node, leaf in zip(weights, leaves, strict=True):
        np.testing.assert_array_equal(session.run(node), leaf.detach().numpy())


def test_gradients_may_be_changed_on_the_way() -> None:
    graph = Graph()
    with graph:
        v = graph.variable(np.array([3.0, 4.0]), name="v")
        (slope,) = gradients((v * v).sum() / 2, [v])
        train = apply_gradients([(slope / ops.sqrt((slope * slope).sum()), v)], lr=5.0)
    session = Session(graph)
    session.initialise()
    session.run(train)
    np.testing.assert_allclose(session.run(v), [0, 0], atol=1e-6)


def test_many_threads_train_one_session() -> None:
    """No step is lost: as many as there were runs."""
    graph = Graph()
    with graph:
        v = graph.variable(np.zeros(1000), name="v")
        count = assign_add(graph.variable(0, name="count"), 1)
        train = apply_gradients([(ops.ones_like(v), v)], optim.Adam, lr=1e-3)
    session = Session(graph, threads=2)
    session.initialise()

    def work() -> None:
        for _ in range(25):
            seen = session.run([v, train, count])[0]
            assert (seen == seen[0]).all()  # a step moves all of it, or nothing yet

    users = [threading.Thread(target=work) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert session.values["v/Adam/step"] == session.values["count"] == 100


def test_adding_sees_what_ran_before_it() -> None:
    graph = Graph()
    with graph:
        v = graph.variable(np.array([1.0, 2.0]), name="v")
        one, two = assign_add(v, np.array([10.0, 10.0])), assign_sub(v, np.array([1.0, 2.0]))
        late = assign_add(v, np.array([5.0, 5.0]))
    session = Session(graph)
    session.initialise()
    np.testing.assert_array_equal(session.run([v, one, two, late])[2:], [[10, 10], [15, 15]])
    np.testing.assert_array_equal(session.run(v), [15, 15])


def test_a_variable_may_start_from_a_node() -> None:
    graph = Graph()
    with graph:
        a = graph.variable(np.full(3, 2.0), name="a")
        b = graph.variable(a.exp() * 2, name="b")
        c = graph.variable(b + a, name="c")
    session = Session(graph)
    session.initialise()
    np.testing.assert_allclose(session.run(c), 2 * np.exp(np.full(3, 2.0)) + 2, rtol=1e-6)


# Dropout


def dropped(x: Any) -> Any:
    return ops.dropout(x, p=0.5, seed=3)


def test_each_run_draws_anew_and_its_gradient_sees_the_same() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((200,), np.float64)
        twice = dropped(dropped(x) * 1.5)
        (slope,) = gradients(twice.sum(), [x])
        frozen = ops.dropout(graph.constant(np.ones(200)), p=0.5, seed=4)
    session = Session(graph)
    value = np.ones(200)
    outs = []
    for _ in range(4):
        out, grad, other = session.run([twice, slope, frozen], {x: value})
        np.testing.assert_array_equal((out > 0), (grad > 0))
        outs.append((out, other))
    eager = dropped(dropped(Tensor(value)) * 1.5).numpy()
    np.testing.assert_array_equal(outs[0][0], eager)  # the first run is the eager one
    for place in range(2):
        assert len({one[place].tobytes() for one in outs}) == 4
    again = Session(graph)
    for out, _ in outs:
        np.testing.assert_array_equal(again.run(twice, {x: value}), out)


def test_a_module_trains_in_a_session_with_dropout() -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5))
    graph = Graph()
    with graph:
        x = graph.placeholder((8, 4))
        out = network(x)
    session = Session(graph)
    value = np.random.default_rng().standard_normal((8, 4)).astype(np.float32)
    assert not np.array_equal(session.run(out, {x: value}), session.run(out, {x: value}))


# Files


def test_a_run_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    starts, rows = values(), batches(6)
    graph, x, y, weights, loss, train = built(starts, optim.Adam, {"lr": 0.01})
    path = tmp_path / "run.safetensors"
    whole, first, second = (Session(graph, device=place) for place in ("cpu", "cpu", "sim:0"))
    whole.initialise()
    first.initialise()
    for images, labels in rows:
        whole.run(train, {x: images, y: labels})
    for images, labels in rows[:3]:
        first.run(train, {x: images, y: labels})
    first.save(path)
    os.chmod(path, 0o640)
    first.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    second.restore(path)
    for images, labels in rows[3:]:
        second.run(train, {x: images, y: labels})
    feeds = {x: rows[0][0], y: rows[0][1]}
    for got, want in zip(second.run([loss, *weights], feeds), whole.run([loss, *weights], feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    second.restore(path, weights[:1])
    np.testing.assert_array_equal(second.run(weights[0]), first.run(weights[0]))
    device("sim:0")


def test_a_file_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    graph = Graph()
    with graph:
        small = graph.variable(np.ones(2), name="a")
    other = Graph()
    with other:
        first, _ = other.variable(np.zeros(2), name="a"), other.variable(np.zeros(2), name="b")
        large = other.variable(np.zeros(5), name="c")
    session, theirs = Session(graph), Session(other)
    with pytest.raises(GraphError, match="no value yet"):
        session.save(tmp_path / "none")
    session.initialise()
    theirs.initialise()
    session.save(tmp_path / "run")
    with pytest.raises(GraphError, match=r"has no b \(made at test_optimize.py:\d+\); it has a"):
        theirs.restore(tmp_path / "run")
    theirs.save(tmp_path / "wide", [first, large])
    np.testing.assert_array_equal(theirs.run(first), [0, 0])
    graph.by_name["c"] = graph.by_name["a"]
    bad = Graph()
    with bad:
        bad.variable(np.zeros(3), name="c")
    with pytest.raises(GraphError, match=r"does not fit float64\[5\]"):
        Session(bad).restore(tmp_path / "wide")
    (tmp_path / "half").write_bytes((tmp_path / "run").read_bytes()[:-3])
    with pytest.raises(ValueError, match="only a part of one"):
        session.restore(tmp_path / "half")
    np.testing.assert_array_equal(session.run(small), [1, 1])


WRONG: list[tuple[Callable[[Graph, Any, Any], Any], type[Exception], str]] = [
    (lambda g, v, x: minimize(v, [v], lr=0.1), GraphError, r"must be a node of one value, got <v: .*made at test_opt"),
    (lambda g, v, x: minimize(x.sum(), lr=0.1), GraphError, "computed from none of the variables"),
    (lambda g, v, x: minimize(x.sum(), [v], lr=0.1), GraphError, "computed from none of the variables"),
    (lambda g, v, x: minimize(v.sum(), [x], lr=0.1), GraphError, "only a variable can be given a value"),
    (lambda g, v, x: minimize(v.sum(), [v], lr=x), GraphError, "lr must be one floating value"),
    (lambda g, v, x: minimize(v.sum(), [v], lr=-1.0), ValueError, "lr"),
    (lambda g, v, x: minimize(v.sum(), [v], lr=0.1, speed=3), TypeError, "speed"),
    (lambda g, v, x: minimize(v.sum(), [v], optim.Adam, lr=0.1, betas=(0.9, 1.5)), ValueError, "betas must be in"),
    (lambda g, v, x: minimize(3.0, [v], lr=0.1), GraphError, "got float"),
    (lambda g, v, x: apply_gradients([(v[:1], v)], lr=0.1), GraphError, r"is no gradient of <v: variable"),
    (lambda g, v, x: apply_gradients([(None, v)], lr=0.1), GraphError, "no variable has a gradient"),
    (lambda g, v, x: assign_add(x, 1.0), GraphError, "assign_add: x .*only a variable"),
    (lambda g, v, x: assign_sub(v, np.ones(3)), GraphError, "assign_add: .* does not fit"),
    (lambda g, v, x: assign(3, 1.0), GraphError, "expected a variable, got int"),
    (lambda g, v, x: read(x), GraphError, "read: x"),
    (lambda g, v, x: g.variable(g.placeholder((None,))), GraphError, "of a known shape"),
    (lambda g, v, x: Session(g).run(minimize(v.sum(), [v], lr=0.1)), GraphError, "variable v .* has no value yet"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "message"), WRONG, ids=[message[:34] for _, _, message in WRONG])
def test_refused(make: Callable[..., Any], kind: type[Exception], message: str) -> None:
    graph = Graph()
    with graph:
        v, x = graph.variable(np.ones(2), name="v"), graph.placeholder((2,), np.float64, name="x")
        with pytest.raises(kind, match=message):
            make(graph, v, x)
