"""A session on a cluster gives what a session in one process gives, to the bit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed_graphs import GRAPHS, ONE, PS0, PS1, TASKS, TWO, Built, perceptron, ping_pong

from internals import ops, optim
from internals.distributed import runtime
from internals.distributed.transport import Faults
from internals.graph import (
    Graph,
    GraphError,
    Session,
    Timeline,
    assign,
    assign_add,
    cond,
    gradients,
    minimize,
)
from internals.graph.session import DEFAULT

Build = Callable[[bool, np.random.Generator], Built]


@pytest.fixture(scope="module")
def cluster() -> Iterator[runtime.InprocCluster]:
    with runtime.InprocCluster(TASKS, threads=2) as made:
        yield made


@pytest.fixture(autouse=True)
def forgotten(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test finds tasks without variables, and leaves nothing waiting."""
    yield
    if "cluster" in request.fixturenames:
        for server in request.getfixturevalue("cluster").servers.values():
            server.worker.state.values.clear()
            assert len(server.worker.rendezvous) == 0, "a step left something behind"


def values(session: Session, built: Built, runs: int) -> list[Any]:
    _, fetches, feeds = built
    session.initialise()
    return [session.run(fetches, feeds) for _ in range(runs)]


def check_equal(got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want)
    for run_got, run_want in zip(got, want, strict=True):
        for one, other in zip(run_got, run_want, strict=True):
            if other is None:
                assert one is None
                continue
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("passes", [(), DEFAULT], ids=["no pass", "all passes"])
@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_the_values_are_those_of_one_process(cluster: runtime.InprocCluster, build: Build, passes: Any) -> None:
    here = build(False, np.random.default_rng(7))
    with Session(here[0], passes=passes) as session:
        want = values(session, here, 3)
    there = build(True, np.random.default_rng(7))
    with cluster.session(there[0], passes=passes) as remote:
        check_equal(values(remote, there, 3), want)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_on_random_devices(cluster: runtime.InprocCluster, seed: int) -> None:
    def build(placed: bool) -> Built:
        rng = np.random.default_rng(seed)
        graph = Graph()
        devices = [ONE, TWO, PS0, PS1, f"{ONE}/sim:0", f"{TWO}/sim:1", None]
        with graph:
            x = graph.placeholder((None, 5), name="x")
            nodes = [x]
            with graph.device(PS0 if placed else None):
                nodes.append(graph.variable(rng.standard_normal((5, 5)).astype(np.float32), name="w"))
            fetched = []
            for _ in range(25):
                device = devices[rng.integers(len(devices))]
                one, other = (nodes[i] for i in rng.integers(len(nodes), size=2))
                kind = rng.integers(4)
                after = [nodes[i] for i in rng.integers(2, len(nodes), size=1)] if len(nodes) > 4 else []
                with graph.device(device if placed else None), graph.after(after):
                    if kind == 0:
                        made = ops.matmul(one, nodes[1]).tanh()
                    elif kind == 1 and one is not nodes[1] and other is not nodes[1]:
                        made = one * 0.5 - other
                    elif kind == 2:
                        made = assign_add(nodes[1], nodes[1] * 0.125)
                    else:
                        made = ops.relu(one) + 0.25
                if kind == 2:
                    fetched.append(made)
                else:
                    nodes.append(made)
            wanted = [nodes[i] for i in rng.integers(len(nodes), size=4)]
            ends = [node for node in wanted if node is not x]
        return graph, [*wanted, *fetched, *ends], {x: rng.standard_normal((5, 5)).astype(np.float32)}

    here, there = build(False), build(True)
    with Session(here[0]) as session, cluster.session(there[0]) as remote:
        check_equal(values(remote, there, 4), values(session, here, 4))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("build", [perceptron, ping_pong], ids=lambda build: build.__name__)
def test_late_messages_change_nothing(build: Build, seed: int) -> None:
    here = build(False, np.random.default_rng(7))
    with Session(here[0]) as session:
        want = values(session, here, 5)
    there = build(True, np.random.default_rng(7))
    with (
        runtime.InprocCluster(TASKS, faults=Faults(jitter=0.01, seed=seed)) as slow,
        slow.session(there[0]) as remote,
    ):
        check_equal(values(remote, there, 5), want)
        assert not any(len(server.worker.rendezvous) for server in slow.servers.values())


@pytest.mark.slow
def test_gradients_across_a_border(cluster: runtime.InprocCluster) -> None:
    def build(placed: bool) -> Built:
        rng = np.random.default_rng(3)
        graph = Graph()
        with graph:
            x = graph.placeholder((4, 3), np.float64, name="x")
            with graph.device(TWO if placed else None):
                hidden = (x * x).tanh()
            with graph.device(PS1 if placed else None):
                y = cond(hidden.sum() > 0.0, lambda: (hidden * x).sum(), lambda: hidden.sum())
            (slope,) = gradients(y, [x])
            (curve,) = gradients((slope * slope).sum(), [x])
        return graph, [slope, curve], {x: rng.standard_normal((4, 3))}

    here, there = build(False), build(True)
    with Session(here[0]) as session, cluster.session(there[0]) as remote:
        check_equal(values(remote, there, 1), values(session, here, 1))


# --- the cut ------------------------------------------------------------------------------------------


def test_a_tensor_is_sent_once_to_each_device(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        with graph.device(ONE):
            sent = x.exp()
        with graph.device(TWO):
            readers = [sent * float(i) for i in range(5)]
        with graph.device(PS0):
            other = sent + 1.0
        with graph.device(TWO), graph.after([sent]):
            ordered = x * 3.0
    with cluster.session(graph) as session:
        parts = session.parts([*readers, other, ordered], {x: np.zeros(2, np.float32)})
    sends = [tuple(step) for steps, _ in parts.values() for step in steps if step[0] == "send"]
    assert sorted(sends) == [("send", "exp", f"{PS0}/cpu:0"), ("send", "exp", f"{TWO}/cpu:0")]


def test_a_control_edge_moves_no_data(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((1000, 100), name="x")
        with graph.device(ONE):
            first = x.exp()
        with graph.after([first]), graph.device(TWO):
            then = x[0] * 2.0
    with cluster.session(graph) as session:
        parts = session.parts(then, {x: np.zeros((1000, 100), np.float32)})
        received = parts[f"{TWO}/cpu:0"][1].by_name[first.name]
    assert received.shape == (0,), "only that it ran is told"


def test_only_what_the_fetches_need_is_placed(cluster: runtime.InprocCluster) -> None:
    graph, (_, _, w, _), _ = perceptron(True, np.random.default_rng(0))
    with cluster.session(graph) as session:
        parts = session.parts(w)
        assert {name: [step[1] for step in steps] for name, (steps, _) in parts.items()} == {f"{PS0}/cpu:0": ["w"]}
        session.initialise()
        assert session.run(w).shape == (6, 8)


def test_parts_are_registered_once(cluster: runtime.InprocCluster) -> None:
    built = ping_pong(True, np.random.default_rng(0))
    worker = cluster.servers["worker:1"].worker
    with cluster.session(built[0]) as session:
        before = set(worker._handles)
        for _ in range(3):
            session.run(built[1], built[2])
        assert len(set(worker._handles) - before) == 1
        session.run(built[1] * 2, built[2])
        assert len(set(worker._handles) - before) == 2
    assert set(worker._handles) == before, "a session that is closed leaves nothing"


# --- variables ----------------------------------------------------------------------------------------


def test_variables_are_shared_by_clients_and_stay(cluster: runtime.InprocCluster) -> None:
    built = [perceptron(True, np.random.default_rng(2)) for _ in range(2)]
    one = cluster.session(built[0][0])
    two = cluster.session(built[1][0], master="worker:1")
    assert set(one.uninitialised()) >= {"w", "b", "v"}
    assert one.uninitialised()["w"] == f"{PS0}/cpu:0"
    one.initialise()
    assert two.uninitialised() == {}
    (_, fetches, feeds), (_, others, other_feeds) = built
    one.run(fetches, feeds)
    np.testing.assert_array_equal(one.run(fetches[2]), two.run(others[2]))
    one.close()
    assert two.run(others[0], other_feeds) is not None
    two.close()
    assert set(cluster.servers["ps:0"].worker.state.values) >= {"w", "b"}
    assert "v" in cluster.servers["ps:1"].worker.state.values
    assert not cluster.servers["worker:0"].worker.state.values


def test_what_an_optimizer_remembers_is_beside_its_variable(cluster: runtime.InprocCluster) -> None:
    built = perceptron(True, np.random.default_rng(2))
    with cluster.session(built[0]) as session:
        session.initialise()
        session.run(built[1], built[2])
        kept = cluster.servers["ps:1"].worker.state.values
        assert set(kept) == {"v", "v/Adam/step", "v/Adam/m", "v/Adam/v"}
        assert kept["v/Adam/step"] == 1
        assert session.run(built[0].by_name["v/Adam/step"]) == 1


@pytest.mark.slow
def test_save_and_restore(cluster: runtime.InprocCluster, tmp_path: Path) -> None:
    built = perceptron(True, np.random.default_rng(2))
    with cluster.session(built[0]) as session:
        session.initialise()
        session.run(built[1], built[2])
        session.save(tmp_path / "all.safetensors")
        want = [session.run(built[1], built[2]) for _ in range(2)]
        session.restore(tmp_path / "all.safetensors")
        check_equal([session.run(built[1], built[2]) for _ in range(2)], want)
    here = perceptron(False, np.random.default_rng(9))
    with Session(here[0]) as local:
        local.restore(tmp_path / "all.safetensors")
        check_equal([local.run(here[1], here[2])[2:3]], [want[0][2:3]])


@pytest.mark.slow
def test_several_clients_run_steps_at_once(cluster: runtime.InprocCluster) -> None:
    """Each adds to one variable; no step is lost, and none sees another's values on the way."""
    failures: list[BaseException] = []

    def client(number: int) -> None:
        try:
            graph = Graph()
            with graph:
                x = graph.placeholder((3,), np.float64, name="x")
                with graph.device(PS0):
                    total = graph.variable(np.zeros(3), name="total")
                with graph.device(TWO):
                    doubled = x * 2.0
                with graph.device(ONE):
                    more = assign_add(total, doubled * 0.5)
                    back = doubled - x
            with cluster.session(graph, master=f"worker:{number % 2}") as session:
                for run in range(10):
                    value = np.float64([number, run, 1])
                    _, came = session.run([more, back], {x: value})
                    np.testing.assert_array_equal(came, value)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    cluster.servers["ps:0"].worker.state.values["total"] = np.zeros(3)
    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    np.testing.assert_array_equal(cluster.servers["ps:0"].worker.state.values["total"], [10 * 6, 4 * 45, 40])


def test_nodes_can_be_added_later(cluster: runtime.InprocCluster) -> None:
    graph, fetches, feeds = ping_pong(True, np.random.default_rng(0))
    with cluster.session(graph) as session:
        value = session.run(fetches[0], feeds)
        with graph, graph.device(TWO):
            more = fetches[0] * 2.0
        np.testing.assert_array_equal(session.run(more, feeds), value * 2)
        np.testing.assert_array_equal(session.run(fetches[0], feeds), value)


def test_assign_and_minimize_run_where_the_variable_is(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        with graph.device(PS1):
            v = graph.variable(np.float64([1.0, 2.0]), name="v")
        with graph.device(ONE):
            step = assign(v, v * 3.0)
            train = minimize((v * v).sum(), optimizer=optim.SGD, lr=0.25)
    with cluster.session(graph) as session:
        session.initialise()
        parts = session.parts([step, train])
        ran = {name: [s[1] for s in steps if s[0] == "run"] for name, (steps, _) in parts.items()}
        assert {"assign", "apply"} <= set(ran[f"{PS1}/cpu:0"])
        np.testing.assert_array_equal(session.run(step), [3.0, 6.0])
        session.run(train)
        np.testing.assert_array_equal(session.run(v), [1.5, 3.0])


# --- the timeline -------------------------------------------------------------------------------------


def test_a_timeline_has_every_task_on_one_clock() -> None:
    """Clocks that are hours apart; what is sent arrives after it was made and before it is read."""
    graph = Graph()
    with graph:
        x = graph.placeholder((200, 200), name="x")
        with graph.device(ONE):
            made = (x @ x).tanh()
        with graph.device(TWO):
            there = made + 1.0
    with runtime.InprocCluster(TASKS) as cluster:
        cluster.kill("worker", 1)
        cluster.start("worker", 1, clock=lambda: time.perf_counter() - 7200.0)
        with cluster.session(graph) as session:
            timeline = Timeline()
            matrix = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)
            session.run(there, {x: matrix}, timeline=timeline)
    events = {event.name: event for event in timeline.events}
    assert {event.lane for event in timeline.events} == {f"{ONE}/cpu:0", f"{TWO}/cpu:0", f"{ONE}/cpu:0 to {TWO}/cpu:0"}
    assert events["tanh"].end <= events["send tanh"].start + 0.01
    assert events["send tanh"].end <= events["add"].start + 0.01
    assert max(event.end for event in timeline.events) < 60.0


def test_what_is_placed_far_away_can_be_fed(cluster: runtime.InprocCluster) -> None:
    """A placeholder on one task that another reads; a node that is fed is not computed, wherever it would have been."""
    graph = Graph()
    with graph:
        with graph.device(TWO):
            x = graph.placeholder((None, 2), name="x")
            made = x.exp()
        with graph.device(ONE):
            here = x * 2.0
            far = made + 1.0
    rng = np.random.default_rng(0)
    value, hidden = (rng.standard_normal((3, 2)).astype(np.float32) for _ in range(2))
    with cluster.session(graph) as session:
        np.testing.assert_array_equal(session.run([here, x], {x: value}), [value * 2, value])
        np.testing.assert_array_equal(session.run(far, {made: hidden}), hidden + 1)
        assert session.run([], {x: value}) == []
        assert session.run(here, {x: value[:0]}).shape == (0, 2)
        with pytest.raises(GraphError, match="x .*needed and was not fed"):
            session.run(far)
