"""Tasks that die, are late, differ, or are sent nonsense: each time an error with a name, and the next step runs."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed_graphs import ONE, PS0, TASKS, TWO, perceptron

from internals.distributed import runtime
from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost, RemoteError
from internals.distributed.transport import Faults, Message, Network
from internals.graph import Graph, GraphError, while_loop

pytestmark = pytest.mark.slow


def slow_on(device: str) -> tuple[Graph, Any, Any, Any]:
    """A loop of as many turns as are fed, on a device; something on worker 0 waits for it, something on it for that."""
    graph = Graph()
    with graph:
        turns = graph.placeholder((), np.int64, name="turns")
        with graph.device(ONE):
            start = turns + 0
        with graph.device(device):
            (last,) = while_loop(lambda n: n < start, lambda n: [n + 1], [graph.constant(0)], most=100_000_000)
        with graph.device(ONE):
            after = last + 1
    return graph, turns, last, after


@pytest.mark.parametrize("victim", ["worker:1", "ps:0"])
def test_a_task_that_dies_ends_the_step_by_name_and_the_next_runs_when_it_is_back(victim: str) -> None:
    job, _, task = victim.partition(":")
    graph, turns, _, after = slow_on(f"/job:{job}/task:{task}")
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph) as session:
        assert session.run(after, {turns: 5}) == 6
        failed: list[BaseException] = []
        worker, came, dead = cluster.servers[victim].worker, threading.Event(), threading.Event()
        send = worker._send

        def send_when_dead(*told: Any) -> None:
            came.set()
            assert dead.wait(60)
            send(*told)

        worker._send = send_when_dead  # type: ignore[method-assign]

        def run() -> None:
            try:
                session.run(after, {turns: 7})
            except DistributedError as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert came.wait(60)
        cluster.network.kill(victim)
        dead.set()
        cluster.servers.pop(victim).close()
        thread.join(60)
        assert not thread.is_alive()
        (error,) = failed
        assert isinstance(error, PeerLost)
        assert error.peer == victim
        for _ in range(2):  # not after the run's deadline, which is long
            with pytest.raises(PeerLost, match=f"lost {victim}: .*it is not back at inproc") as told:
                session.run(after, {turns: 5}, deadline=3600.0)
            assert told.value.peer == victim
        cluster.start(job, int(task))
        assert session.run(after, {turns: 5}) == 6
        assert not any(len(server.worker.rendezvous) for server in cluster.servers.values())


def test_the_variables_of_a_task_that_died_are_gone_and_come_back_from_a_file(tmp_path: Path) -> None:
    graph, fetches, feeds = perceptron(True, np.random.default_rng(4))
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph) as session:
        session.initialise()
        session.run(fetches, feeds)
        session.save(tmp_path / "step 1.safetensors")
        want = session.run(fetches, feeds)
        cluster.kill("ps", 1)
        cluster.start("ps", 1)
        with pytest.raises(GraphError, match=r"the variable v\S* .*no value yet.*\(on ps:1\)"):
            session.run(fetches, feeds)
        assert session.uninitialised() == dict.fromkeys(
            ("v", "v/Adam/step", "v/Adam/m", "v/Adam/v"), "/job:ps/task:1/cpu:0"
        )
        session.restore(tmp_path / "step 1.safetensors")
        for one, other in zip(session.run(fetches, feeds), want, strict=True):
            np.testing.assert_array_equal(one, other) if other is not None else None


def test_a_task_that_starts_again_unseen_between_two_steps() -> None:
    graph, turns, _, after = slow_on(TWO)
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph) as session:
        assert session.run(after, {turns: 5}) == 6
        for _ in range(3):
            cluster.kill("worker", 1)
            cluster.start("worker", 1)
            assert session.run(after, {turns: 7}) == 8


def test_a_master_that_dies() -> None:
    graph, fetches, feeds = perceptron(True, np.random.default_rng(4))
    with runtime.InprocCluster(TASKS) as cluster:
        session = cluster.session(graph, master="worker:1")
        session.initialise()
        cluster.kill("worker", 1)
        with pytest.raises(PeerLost, match="worker:1"):
            session.run(fetches, feeds)
        session.close()
        with pytest.raises(GraphError, match="closed"):
            session.run(fetches, feeds)
        cluster.start("worker", 1)
        with cluster.session(graph, master="worker:1") as other:
            assert other.run(fetches, feeds)[0] is not None, "the variables are where they were"


@pytest.mark.parametrize("seen", [True, False])
def test_a_session_outlives_its_master(seen: bool) -> None:
    """Whether a run fails while the master is away or not; nodes that were added meanwhile are known to it too."""
    graph, fetches, feeds = perceptron(True, np.random.default_rng(4))
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph, master="worker:1") as session:
        session.initialise()
        session.run(fetches, feeds)
        want = session.run([node for node in graph.variables if node.device], {})
        cluster.kill("worker", 1)
        for _ in range(2 * seen):
            with pytest.raises(PeerLost, match="worker:1"):
                session.run(fetches, feeds, deadline=3600.0)
        cluster.start("worker", 1)
        with graph:
            more = graph.constant(np.float64(2.5)) * 2.0
        assert session.run(more) == 5.0
        assert session.uninitialised() == {}, "the parameter servers are others"
        for one, other in zip(session.run([node for node in graph.variables if node.device], {}), want, strict=True):
            np.testing.assert_array_equal(one, other)
        assert session.run(fetches, feeds)[0] is not None


def test_a_master_that_has_forgotten_the_session_is_sent_it_again() -> None:
    graph, fetches, feeds = perceptron(True, np.random.default_rng(4))
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph) as session:
        session.initialise()
        cluster.servers["worker:0"].master._sessions.clear()
        assert session.run(fetches, feeds)[0] is not None


def test_a_client_that_dies_is_forgotten() -> None:
    graph, fetches, feeds = perceptron(True, np.random.default_rng(4))
    with runtime.InprocCluster(TASKS) as cluster:
        session = cluster.session(graph)
        session.initialise()
        session.run(fetches, feeds)
        server = cluster.servers["worker:1"]
        assert server.worker._handles
        cluster.network.kill(session.endpoint.name)
        end = time.monotonic() + 20
        while server.worker._handles and time.monotonic() < end:
            time.sleep(0.01)
        assert not server.worker._handles
        assert not cluster.servers["worker:0"].master._sessions


def test_a_task_that_was_never_started() -> None:
    network = Network()
    spec = runtime.ClusterSpec({"worker": ["inproc://worker:0", "inproc://worker:1"]})
    graph = Graph()
    with graph:
        with graph.device(TWO):
            y = graph.variable(np.zeros(2), name="v") * 2.0
        with graph.device(ONE):
            here = graph.constant(np.float64(3.0)) * 2.0
    with (
        network.endpoint("worker:0") as endpoint,
        network.endpoint("client") as client,
        runtime.Server(spec, "worker", 0, endpoint=endpoint) as server,
        runtime.RemoteSession(server.target, graph, endpoint=client) as session,
    ):
        assert session.run(here) == 6.0, "who is not needed is not asked"
        with pytest.raises(DeadlineExceeded, match=r"worker:1 did not answer at inproc://worker:1 .*Is it started"):
            session.run(y, deadline=0.2)
        with pytest.raises(DeadlineExceeded, match="worker:1"):
            session.initialise(deadline=0.2)
        with pytest.raises(DeadlineExceeded, match=r"worker:9 did not answer"):
            runtime.RemoteSession("worker:9@inproc://worker:9", graph, endpoint=client, deadline=0.1)


def test_a_task_that_comes_late_is_waited_for() -> None:
    network = Network()
    spec = runtime.ClusterSpec({"worker": ["inproc://worker:0", "inproc://worker:1"]})
    graph = Graph()
    with graph, graph.device(TWO):
        x = graph.placeholder((), np.float64, name="x")
        y = x * 2.0
    made: list[Any] = []

    def start() -> None:
        made.append(runtime.Server(spec, "worker", 1, endpoint=network.endpoint("worker:1")))

    timer = threading.Timer(0.2, start)
    with (
        network.endpoint("worker:0") as endpoint,
        network.endpoint("client") as client,
        runtime.Server(spec, "worker", 0, endpoint=endpoint) as server,
        runtime.RemoteSession(server.target, graph, endpoint=client) as session,
    ):
        timer.start()
        assert session.run(y, {x: np.float64(3.0)}) == 6.0
    made[0].close()
    made[0].endpoint.close()


def test_tasks_that_were_started_with_different_clusters() -> None:
    network = Network()
    one = runtime.ClusterSpec({"worker": ["inproc://worker:0", "inproc://worker:1"]})
    two = runtime.ClusterSpec({"worker": ["inproc://worker:0", "inproc://worker:1"], "ps": ["inproc://ps:0"]})
    graph = Graph()
    with graph, graph.device(TWO):
        x = graph.placeholder((), np.float64, name="x")
        y = x * 2.0
    with (
        network.endpoint("worker:0") as first,
        network.endpoint("worker:1") as second,
        network.endpoint("client") as client,
        runtime.Server(one, "worker", 0, endpoint=first) as server,
        runtime.Server(two, "worker", 1, endpoint=second),
        runtime.RemoteSession(server.target, graph, endpoint=client) as session,
        pytest.raises(RemoteError, match=r"worker:0 and worker:1 were started with different clusters: job 'ps'"),
    ):
        session.run(y, {x: np.float64(3.0)})


def test_no_such_task() -> None:
    spec = runtime.ClusterSpec({"worker": ["inproc://worker:0"]})
    with pytest.raises(ValueError, match="no job 'ps'"):
        runtime.Server(spec, "ps", 0)
    with pytest.raises(ValueError, match="no task 1; it has 0 to 0"):
        runtime.Server(spec, "worker", 1)
    with Network().endpoint("other") as endpoint, pytest.raises(ValueError, match="is called 'other'"):
        runtime.Server(spec, "worker", 0, endpoint=endpoint)


GARBAGE = [
    Message("session/open", {"deadline": 1.0, "passes": [], "reuse": True, "tile": True}, [np.zeros(9, np.uint8)]),
    Message("session/open", {}),
    Message("session/run", {"session": "nobody's", "deadline": 1.0}),
    Message("session/run", {}),
    Message("register", {"peers": {}, "parts": [{}], "reuse": 1, "tile": 1}, [np.frombuffer(b"{}", np.uint8)]),
    Message("register", {"peers": 3}),
    Message("assign", {"names": ["w"], "devices": ["cpu"], "orders": [[1]]}, [np.zeros(3)]),
    Message("forget", {"handles": 7}),
    Message("hello", {}),
    Message("nonsense", {"x": [1, 2]}),
]  # fmt: skip
MAIL = [
    Message("step", {}),
    Message("step", {"step": 3, "key": "a"}),
    Message("step", {"step": "s", "key": "a", "order": [0, 1]}, [np.zeros(3)]),
    Message("step", {"step": "s", "key": "a"}),
    Message("step", {"step": "s", "handle": "h"}),
    Message("step", {"step": "s", "error": 3}),
    Message("ran", {"step": "s"}),
    Message("ran", {"step": [1]}),
]


def test_nonsense_is_refused_and_harms_nobody() -> None:
    graph, fetches, feeds = perceptron(True, np.random.default_rng(4))
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph) as session:
        session.initialise()
        want = session.run(fetches[0], feeds)
        stranger = cluster.network.endpoint("stranger")
        for name in ("worker:0", "ps:0"):
            stranger.connect(name, f"inproc://{name}")
            for message in GARBAGE:
                with contextlib.suppress(RemoteError):
                    stranger.call(name, message, 10.0)
            for message in MAIL:
                stranger.send(name, message)
        assert session.run(fetches[0], feeds) == want
        stranger.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_task_that_dies_at_any_moment(seed: int) -> None:
    """Steps under way on slow links while a task is killed and started again: an error with its name, or the value."""
    rng = np.random.default_rng(seed)
    graph = Graph()
    with graph:
        x = graph.placeholder((3,), np.float64, name="x")
        value = x
        for step in range(6):
            with graph.device((ONE, TWO, PS0)[step % 3]):
                value = value * 2.0
    with (
        runtime.InprocCluster(TASKS, faults=Faults(jitter=0.004, seed=seed)) as cluster,
        cluster.session(graph, deadline=20.0) as session,
    ):
        over = threading.Event()
        outcomes: list[str] = []

        def run() -> None:
            while not over.is_set():
                fed = np.random.default_rng(len(outcomes)).standard_normal(3)
                try:
                    np.testing.assert_array_equal(session.run(value, {x: fed}), fed * 64)
                    outcomes.append("ran")
                except PeerLost as error:
                    outcomes.append(error.peer)
                except (RemoteError, DistributedError) as error:
                    outcomes.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        for _ in range(4):
            time.sleep(0.2 + 0.1 * rng.random())
            cluster.kill("worker", 1)
            time.sleep(0.02)
            cluster.start("worker", 1)
        time.sleep(0.3)
        over.set()
        thread.join(60)
        assert not thread.is_alive()
        assert "ran" in outcomes
        strange = [one for one in outcomes if one != "ran" and "worker:1" not in one]
        assert not strange, strange
        np.testing.assert_array_equal(session.run(value, {x: np.ones(3) * seed}), np.ones(3) * seed * 64)
