"""What a session on a cluster refuses, and what it says then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from distributed_graphs import ONE, PS0, PS1, TASKS, TWO

from internals import ops
from internals.distributed import runtime
from internals.distributed.errors import DeadlineExceeded, RemoteError
from internals.graph import Graph, GraphError, cond, current, while_loop
from internals.ops.table import TABLE, Op


@pytest.fixture(scope="module")
def cluster() -> Iterator[runtime.InprocCluster]:
    with runtime.InprocCluster(TASKS) as made:
        yield made


@pytest.fixture(autouse=True)
def forgotten(cluster: runtime.InprocCluster) -> Iterator[None]:
    yield
    for server in cluster.servers.values():
        server.worker.state.values.clear()
        assert len(server.worker.rendezvous) == 0, "a step left something behind"


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("/job:trainer/task:0", "no job 'trainer'; there are worker, ps"),
        ("/job:worker/task:2", "has no task 2; it has 0 to 1"),
        ("/job:worker/task:one", "is no device name"),
        ("/task:0/task:1", "is no device name"),
        ("tpu:0", "is no device name"),
        ("", "is no device name"),
        ("/job:ps/task:0/cpu:1", "a task has one cpu"),
    ],
)
def test_a_device_that_does_not_exist(cluster: runtime.InprocCluster, device: str, told: str) -> None:
    graph = Graph()
    with graph, graph.device(device):
        x = graph.placeholder((2,), name="x")
        y = x + 1.0
    with cluster.session(graph) as session, pytest.raises(GraphError, match=told) as caught:
        session.run(y, {x: np.zeros(2, np.float32)})
    assert "test_runtime_bad_input.py" in str(caught.value)


@pytest.mark.slow
def test_a_gpu_that_is_not_there_is_named_by_its_task(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        with graph.device(f"{TWO}/cuda:99"):
            y = x + 1.0
    with cluster.session(graph) as session, pytest.raises(RemoteError, match=r"worker:1 .*cuda"):
        session.run(y, {x: np.zeros(2, np.float32)})


def other_graph(session: Any, graph: Graph) -> None:
    with Graph() as other:
        session.run(other.constant(1.0))


def foreign_feed(session: Any, graph: Graph) -> None:
    with Graph() as other:
        session.run(graph.by_name["y"], {other.placeholder((2,), name="x"): np.zeros(2)})


def changed(session: Any, graph: Graph) -> None:
    graph.by_name["y"].device = PS1
    with graph:
        session.run(graph.by_name["y"] * 2.0, {graph.by_name["x"]: np.zeros(2, np.float32)})


@pytest.mark.parametrize(
    ("act", "told"),
    [
        pytest.param(other_graph, "is a node of another graph", id="a fetch of another graph"),
        pytest.param(foreign_feed, "is a node of another graph", id="a feed of another graph"),
        pytest.param(lambda s, g: s.run(g.by_name["y"]), "x .*is needed and was not fed", id="not fed"),
        pytest.param(lambda s, g: s.run("y"), "a fetch must be a node, got str", id="a name"),
        pytest.param(lambda s, g: s.run(g.by_name["y"], {g.by_name["x"]: np.zeros(3, "f")}), "of shape", id="shape"),
        pytest.param(lambda s, g: s.run(g.by_name["y"], {g.by_name["x"]: np.zeros(2)}), "was fed float64", id="dtype"),
        pytest.param(lambda s, g: s.run(g.by_name["w"]), r"variable w .*no value yet.*\(on ps:0\)", id="no value"),
        pytest.param(changed, "y .*was changed after the graph was sent", id="changed"),
        pytest.param(lambda s, g: s.plan([], {}), "on its tasks", id="plan"),
        pytest.param(lambda s, g: s.watch("*"), "in one process", id="watch"),
        pytest.param(lambda s, g: s.restore(__file__), "safetensors", id="restore"),
        pytest.param(lambda s, g: (s.close(), s.run(g.by_name["y"])), "closed", id="closed"),
    ],
)  # fmt: skip
def test_what_a_session_refuses(cluster: runtime.InprocCluster, act: Callable[[Any, Graph], Any], told: str) -> None:
    graph = Graph()
    with graph:
        with graph.device(PS0):
            graph.variable(np.zeros(2), name="w")
        x = graph.placeholder((2,), name="x")
        with graph.device(TWO):
            graph.add(TABLE["exp"], [x], name="y")
    session = cluster.session(graph)
    try:
        with pytest.raises(ValueError, match=told):
            act(session, graph)
    finally:
        if not session._closed:
            session.close()


def test_an_operation_that_fails_names_its_node_line_and_task(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        rows = graph.placeholder((2,), np.int64, name="rows")
        with graph.device(TWO):
            picked = ops.take(graph.constant(np.zeros((4, 2), np.float32)), rows)
        with graph.device(PS0):
            late = picked * 2.0
        with graph.device(PS1):
            idle = graph.constant(np.float32(1.0)) + late.sum()
    with cluster.session(graph, deadline=20.0) as session:
        for _ in range(2):
            with pytest.raises(GraphError, match=r"take \(made at test_runtime_bad_input.py:\d+\).*on worker:1"):
                session.run(idle, {rows: np.array([1, 9])})
        assert session.run(idle, {rows: np.array([1, 3])}) == 1.0


def test_namesakes_of_another_kind(cluster: runtime.InprocCluster) -> None:
    graphs = []
    for shape in ((2,), (3,)):
        graph = Graph()
        with graph, graph.device(PS0):
            graph.variable(np.zeros(shape), name="shared")
        graphs.append(graph)
    with cluster.session(graphs[0]) as one, cluster.session(graphs[1]) as two:
        one.initialise()
        with pytest.raises(GraphError, match="shared .*by name"):
            two.initialise()
        with pytest.raises(GraphError, match="shared by name"):
            two.run(graphs[1].by_name["shared"])


def test_a_branch_stays_on_one_device(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")

        def elsewhere() -> Any:
            with current().device(TWO):
                return x * 2.0

        y = cond(x.sum() > 0.0, elsewhere, lambda: x * 3.0)
    with cluster.session(graph) as session, pytest.raises(GraphError, match=r"inside the cond .*put the scope around"):
        session.run(y, {x: np.ones(2, np.float32)})


def test_a_cycle_is_named(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        with graph.device(ONE):
            one = x + 1.0
        with graph.device(TWO):
            two = one * 2.0
    one.controls = (two,)
    with pytest.raises(GraphError, match="is a cycle"):
        cluster.session(graph)


@pytest.mark.slow
def test_a_step_that_is_too_slow(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((), np.int64, name="x")
        with graph.device(TWO):
            (last,) = while_loop(lambda n: n < x, lambda n: [n + 1], [graph.constant(0)], most=10_000_000)
        with graph.device(ONE):
            after = last + 1
    with cluster.session(graph) as session:
        session.run(after, {x: 3})
        with pytest.raises(DeadlineExceeded, match="no answer yet from worker:0, worker:1"):
            session.run(after, {x: 20_000}, deadline=0.1)
        assert session.run(after, {x: 5}) == 6


def test_python_code_can_not_be_sent(cluster: runtime.InprocCluster) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        graph.add(Op("mine", lambda xp, x: x, vjp=None, infer=lambda x: x), (x,))
    with pytest.raises(GraphError, match="mine, which is Python code"):
        cluster.session(graph)


@pytest.mark.parametrize("target", ["worker:0", "", "inproc://worker:0", None, "@x"])
def test_no_target(target: Any) -> None:
    with pytest.raises(ValueError, match="is no target"):
        runtime.RemoteSession(target, Graph())
