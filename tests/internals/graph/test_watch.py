"""Watchpoints stop or note where a value first goes wrong, and say which line made the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import Tensor, device, ops
from internals.graph import (
    Graph,
    GraphError,
    Session,
    Stopped,
    always,
    cond,
    gradients,
    has_inf_or_nan,
    has_nan,
    has_shape,
    outside,
    scan,
    while_loop,
)


def built() -> tuple[Graph, Any, Any]:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 2), name="x")
        with graph.scope("layer"):
            logs = x.log()
            scaled = logs * 0.0
        loss = (scaled + x).sum()
    return graph, x, loss


GOOD, ZERO = np.ones((3, 2), np.float32), np.zeros((3, 2), np.float32)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("pattern", "condition", "value", "node"),
    [
        ("*", has_nan, ZERO, "layer/mul"),
        ("layer/*", has_nan, ZERO, "layer/mul"),
        ("*", outside(-5, 5), ZERO, "layer/log"),
        ("sum", outside(0, 5), GOOD, "sum"),
        ("*", has_shape(None, 2), GOOD, "layer/log"),
        ("sum", has_shape(), GOOD, "sum"),
        ("*", lambda value: value.ndim == 0 and value > 5, GOOD, "sum"),
        ("layer/mul", always, GOOD, "layer/mul"),
    ],
)
def test_a_run_stops_at_the_first_hit(pattern: str, condition: Any, value: Any, node: str, threads: int) -> None:
    graph, x, loss = built()
    with Session(graph, threads=threads) as session, np.errstate(all="ignore"):
        watch = session.watch(pattern, condition)
        with pytest.raises(Stopped, match=rf"watch: {node} \(made at test_watch.py:\d+, ") as stopped:
            session.run(loss, {x: value})
        assert stopped.value.hit is watch.hits[-1]
        assert stopped.value.hit.node == node
        watch.remove()
        session.run(loss, {x: value})


def test_passes_hide_no_node_from_a_watchpoint() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        y = (x * 1.0 + 0.0).exp()
    session = Session(graph)
    assert [step.name for step in session.plan([y], {x: GOOD[0]}).steps] == ["exp"]
    watch = session.watch("*", always, stop=False)
    session.run(y, {x: GOOD[0]})
    assert [hit.node for hit in watch.hits] == ["mul", "add", "exp"]
    assert session.run(y, {x: GOOD[0]})[0] == np.exp(np.float32(1))
    assert len(watch.hits) == 6


def test_what_is_noted_is_a_copy_and_the_last_hundred() -> None:
    graph, x, loss = built()
    session = Session(graph)
    watch = session.watch(loss, always, stop=False)
    for number in range(105):
        session.run(loss, {x: GOOD * (number + 1)})
    assert len(watch.hits) == 100
    assert watch.hits[-1].value == 105 * 6
    assert "was computed: float32[] 630." in str(watch.hits[-1])


def test_the_nodes_of_a_gradient_are_watched_with_the_line_of_their_operation() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None,), name="x")
        root = ops.sqrt(x)
        (slope,) = gradients(root.sum(), [x])
    session = Session(graph)
    session.watch("*", has_nan)
    with np.errstate(all="ignore"):
        session.run(root, {x: np.zeros(2, np.float32)})
        session.watch("*")
        with pytest.raises(Stopped, match=r"float32\[2\] \[inf, inf\]"):
            session.run(slope, {x: np.zeros(2, np.float32)})


def test_on_a_device() -> None:
    graph, x, loss = built()
    session = Session(graph, device="sim:0")
    session.watch("*", outside(-1, 1))
    with pytest.raises(Stopped, match=r"watch: sum .* is not within \[-1, 1\]: float32\[\] 6"):
        session.run(loss, {x: GOOD})
    device("sim:0")


def test_a_listing_has_every_value_of_a_run() -> None:
    graph, x, loss = built()
    with np.errstate(all="ignore"):
        listing = Session(graph).listing(loss, {x: ZERO})
    assert [seen.node.name for seen in listing] == ["layer/log", "layer/mul", "add", "sum"]
    assert np.isnan(listing["layer/mul"]).all()
    np.testing.assert_array_equal(listing[0].value, np.full((3, 2), -np.inf))
    lines = str(listing).splitlines()
    assert "layer/mul" in lines[1]
    assert "6 NaN" in lines[1]
    assert "test_watch.py:" in lines[1]
    with pytest.raises(KeyError, match="'nothing' was not computed"):
        listing["nothing"]


WRONG: list[tuple[Callable[[Session, Any], Any], str]] = [
    (lambda s, x: s.watch("laier/*"), "no node of the graph is called 'laier/"),
    (lambda s, x: s.watch("*", 3), "must be a function of an array, got 3"),
    (lambda s, x: s.listing(x), "is needed and was not fed"),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message[:24] for _, message in WRONG])
def test_refused(make: Callable[..., Any], message: str) -> None:
    graph, x, _ = built()
    with pytest.raises(GraphError, match=message):
        make(Session(graph), x)


def test_a_condition_that_fails_says_at_which_node() -> None:
    graph, x, loss = built()
    session = Session(graph)
    session.watch("layer/log", lambda value: value.no_such_thing)
    with pytest.raises(GraphError, match=r"layer/log \(made at .*no_such_thing"):
        session.run(loss, {x: GOOD})


def with_bodies(x: Any) -> dict[str, Any]:
    """Zero becomes NaN in the second round of each loop, and in one of two branches."""
    start = x * 1.0
    looped = while_loop(lambda i, y: i < 4, lambda i, y: [i + 1, ((y - i).log() * 0.0 + 1.0) * y], [Tensor(0), start])
    scanned = scan(lambda c, r: ([c[0] * (r[0] - 1.0).log()], [c[0]]), [start], [Tensor(np.float32([5, 1, 7]))])
    branch = cond(x.sum() > 0, lambda: (x - x).log(), lambda: x * 2.0)
    inner = cond(x.sum() > 0, lambda: while_loop(lambda y: y.sum() > 0, lambda y: [(y - y).log()], [x])[0], lambda: x)
    return {"while_loop": looped[1], "scan": scanned[0][0], "cond": branch, "nested": inner}


BODIES = {
    "while_loop": "while_loop/body/log",
    "scan": "scan/body/log",
    "cond": "cond/then/log",
    "nested": "cond_1/then/while_loop/body/log",
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("which", BODIES)
def test_a_watchpoint_reaches_into_bodies(which: str, threads: int) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None,), name="x")
        out = with_bodies(x)[which]
    value = np.float32([1, 1])
    with Session(graph, threads=threads) as session, np.errstate(all="ignore"):
        for pattern in ("*", BODIES[which], f"*{BODIES[which].rpartition('/')[0]}/*"):
            watch = session.watch(pattern, has_inf_or_nan)
            with pytest.raises(Stopped, match=rf"watch: {BODIES[which]} \(made at test_watch.py:\d+, log of "):
                session.run(out, {x: value})
            assert watch.hits[-1].node == BODIES[which]
            watch.remove()
        noted = session.watch(BODIES[which], always, stop=False)
        session.run(out, {x: value})
        assert len(noted.hits) == {"while_loop": 4, "scan": 3}.get(which, len(noted.hits))
        with pytest.raises(GraphError, match="no node of the graph is called 'while_loop/body/nothing'"):
            session.watch("while_loop/body/nothing")
        listing = session.listing(out, {x: value})
        seen = [one.value for one in listing if one.name == BODIES[which]]
        assert any(not np.isfinite(one).all() for one in seen)
        np.testing.assert_array_equal(listing[BODIES[which]], seen[0])
        assert BODIES[which] in str(listing)


@pytest.mark.parametrize("which", ["while_loop", "scan", "cond"])
def test_a_watchpoint_reaches_into_the_gradients_of_bodies(which: str) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        body = lambda y: (y * 0.5).sqrt()  # noqa: E731
        out = {
            "while_loop": lambda: while_loop(lambda i, y: i < 2, lambda i, y: [i + 1, body(y)], [Tensor(0), x])[1],
            "scan": lambda: scan(lambda c, r: ([body(c[0])], []), [x], [Tensor(np.zeros(2, np.float32))])[0][0],
            "cond": lambda: cond(x.sum() >= 0, lambda: body(x), lambda: x),
        }[which]()
        (slope,) = gradients(out.sum(), [x])
    with Session(graph) as session, np.errstate(all="ignore"):
        session.run(slope, {x: np.zeros(2, np.float32)})
        session.watch("*", has_inf_or_nan)
        with pytest.raises(Stopped, match=r"made at test_watch.py:\d+, .*") as stopped:
            session.run(slope, {x: np.zeros(2, np.float32)})
        assert "/" in stopped.value.hit.node
        session.run(out, {x: np.zeros(2, np.float32)})  # the values themselves are fine


def test_a_watched_loop_has_the_values_of_one_that_is_not() -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((None,), name="x")
        fetches = list(with_bodies(x).values())
        fetches += [one for one in gradients(fetches[0].sum() + fetches[1].sum(), [x]) if one is not None]
    value = np.float32([3.5, 9.25])
    with Session(graph, passes=()) as session, np.errstate(all="ignore"):
        want = session.run(fetches, {x: value})
        session.watch("*", always, stop=False)
        for got, one in zip(session.run(fetches, {x: value}), want, strict=True):
            np.testing.assert_array_equal(got, one)
