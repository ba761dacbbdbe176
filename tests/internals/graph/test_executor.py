"""Several threads, several devices: the same values, whatever runs at once; and a record of what did."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pytest

from internals import device, ops
from internals.graph import Graph, GraphError, Session, Timeline, assign, gradients, read


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape)


def branches(graph: Graph, x: Any, count: int = 4) -> list[Any]:
    """Independent branches that meet, with their gradients."""
    weights = [graph.variable(random(6, 6)) for _ in range(count)]
    loss = sum(((x @ w).tanh() @ w).sum() for w in weights)
    return [loss, *gradients(loss, weights)]


@pytest.mark.parametrize("threads", [2, 5])
def test_values_do_not_depend_on_the_threads(threads: int) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 6), np.float64)
        fetches = branches(graph, x)
    alone, many = Session(graph), Session(graph, threads=threads)
    for session in (alone, many):
        session.initialise()
    for _ in range(20):
        value = random(3, 6)
        for got, want in zip(many.run(fetches, {x: value}), alone.run(fetches, {x: value}), strict=True):
            np.testing.assert_array_equal(got, want)


def test_independent_steps_run_at_once() -> None:
    """Both wait for the other: with one thread, neither would ever go on."""
    both = threading.Barrier(2)

    def wait(xp: Any, x: Any) -> Any:
        both.wait(timeout=20)
        return x + 1

    meet = ops.Op("meet", wait, vjp=None, infer=lambda x: x)
    graph = Graph()
    with graph:
        x = graph.placeholder((2,))
        left, right = graph.add(meet, (x * 2,)), graph.add(meet, (x * 3,))
        out = left + right
    timeline = Timeline()
    value = np.ones(2, np.float32)
    np.testing.assert_array_equal(Session(graph, threads=2).run(out, {x: value}, timeline=timeline), [7, 7])
    one, other = [event for event in timeline.events if event.name.startswith("meet")]
    assert max(one.start, other.start) < min(one.end, other.end)
    assert one.lane != other.lane


def test_nodes_run_where_they_were_asked_to_and_copies_are_made_once() -> None:
    first, second = device("sim:0"), device("sim:1")
    graph = Graph()
    with graph:
        x = graph.placeholder((2, 3), name="x")
        with graph.device("sim:0"):
            w = graph.variable(np.ones((3, 3)), dtype=np.float32, name="w")
            hidden = x @ w
        with graph.device("sim:1"):
            out = (hidden * 2.0 + hidden).sum(axis=0)
        loss = (out * out).sum()
        (slope,) = gradients(loss, [w])
    session = Session(graph, threads=2)
    session.initialise()
    value = random(2, 3).astype(np.float32)
    plan = session.plan([out], {x: value})
    assert [str(step.place) for step in plan.steps if " to " not in step.name] == ["sim:0", "sim:1", "sim:1", "sim:1"]
    assert [step.name for step in plan.steps if " to " in step.name] == ["x to sim:0", "matmul to sim:1"]
    for one in (first, second):
        one.reset()
    timeline = Timeline()
    got = session.run([loss, slope], {x: value}, timeline=timeline)
    assert first.counters.launches >= 2
    assert second.counters.launches >= 4
    hidden_sum = (value @ np.ones((3, 3), np.float32)).sum(axis=0) * 3
    np.testing.assert_allclose(got[0], (hidden_sum**2).sum(), rtol=1e-5)
    by_hand = value.T @ np.broadcast_to(3 * 2 * hidden_sum, (2, 3))
    np.testing.assert_allclose(got[1], by_hand, rtol=1e-4)
    assert {event.lane.split(", ")[1] for event in timeline.events} >= {"sim:0", "sim:1"}


def test_what_is_dead_is_freed() -> None:
    sim = device("sim:0")
    graph = Graph()
    with graph:
        x = y = graph.placeholder((64, 64))
        for _ in range(20):
            y = (y * 1.5).tanh()
    for threads in (1, 3):
        session, value = Session(graph, device="sim:0", threads=threads), np.ones((64, 64), np.float32)
        session.run(y, {x: value})
        sim.reset()
        before = sim.counters.allocated
        session.run(y, {x: value})
        assert sim.counters.peak - before <= 4 * value.nbytes
        assert sim.counters.allocated == before


def test_assignments_keep_their_order() -> None:
    graph = Graph()
    with graph:
        v = graph.variable(np.ones(3))
        first = assign(v, v + 1.0)
        second = assign(v, v * 10.0)
        with graph.after([first]):
            between = read(v)
    session = Session(graph, threads=4)
    for _ in range(30):
        session.initialise()
        session.run([first, second])
        np.testing.assert_array_equal(session.run(v), [10, 10, 10])
    session.initialise()
    np.testing.assert_array_equal(session.run([first, between])[1], [2, 2, 2])


def test_runs_of_several_threads_do_not_disturb_each_other() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 6), np.float64)
        fetches = branches(graph, x)
    session = Session(graph, threads=2)
    session.initialise()
    wrong: list[Any] = []

    def use(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(15):
            value = rng.standard_normal((seed + 1, 6))
            loss = session.run(fetches, {x: value})[0]
            want = sum(((np.tanh(value @ w) @ w).sum()) for w in session.values.values())
            if not np.isclose(loss, want):
                wrong.append((loss, want))

    users = [threading.Thread(target=use, args=(seed,)) for seed in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


def test_an_error_in_one_thread_reaches_the_caller_and_ends_the_run() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), np.int64)
        table = graph.constant(np.ones((3, 2)))
        fetches = [ops.take(table, x), *[(x * i).sum() for i in range(2, 9)]]
    before = set(threading.enumerate())  # some of which may end meanwhile: an earlier test's
    with Session(graph, threads=3) as session:
        for _ in range(5):  # its threads go on to the next run
            with pytest.raises(GraphError, match=r"take \(made at test_executor.py:\d+\): index 7"):
                session.run(fetches, {x: np.array([0, 7])})
            assert session.run(fetches[1], {x: np.array([0, 7])}) == 14
        assert len(set(threading.enumerate()) - before) <= 2
    assert not set(threading.enumerate()) - before


def test_a_timeline_is_what_a_browser_reads() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        y = (x * 2).exp()
    timeline = Timeline()
    Session(graph).run(y, {x: np.ones(2, np.float32)}, timeline=timeline)
    events = json.loads(timeline.to_chrome())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [span["name"] for span in spans] == ["mul", "exp"]
    assert spans[0]["ts"] + spans[0]["dur"] <= spans[1]["ts"]
    assert {event["args"]["name"] for event in events if event["ph"] == "M"} == {"thread 1, cpu"}


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_are_a_positive_integer(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads must be a positive integer"):
        Session(Graph(), threads=threads)


def test_a_variable_without_a_value_is_named_with_its_line() -> None:
    graph = Graph()
    with graph:
        v = graph.variable([1.0], name="v")
    with pytest.raises(GraphError, match=r"variable v \(made at test_executor.py:\d+\) has no value yet"):
        Session(graph, threads=2).run(v * 2)
