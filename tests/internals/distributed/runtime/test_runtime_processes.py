"""The same over real processes and sockets: only the transport is another."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed_graphs import GRAPHS, ONE, TASKS, TWO, perceptron

from internals.distributed import runtime
from internals.distributed.errors import DistributedError, PeerLost
from internals.graph import Graph, GraphError, Session, Timeline, while_loop

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[runtime.ProcessCluster]:
    with runtime.ProcessCluster(TASKS, deadline=120.0) as made:
        yield made


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_the_values_are_those_of_one_process(cluster: runtime.ProcessCluster, build: Any) -> None:
    here = build(False, np.random.default_rng(7))
    with Session(here[0]) as session:
        session.initialise()
        want = [session.run(here[1], here[2]) for _ in range(3)]
    there = build(True, np.random.default_rng(7))
    with cluster.session(there[0]) as remote:
        remote.initialise()
        for one, other in zip((remote.run(there[1], there[2]) for _ in range(3)), want, strict=True):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_array_equal(left, right) if right is not None else None


def test_a_killed_process_ends_the_step_by_name_and_comes_back(tmp_path: Path) -> None:
    graph, fetches, feeds = perceptron(True, np.random.default_rng(4))
    with graph:
        turns = graph.placeholder((), np.int64, name="turns")
        with graph.device(TWO):
            (last,) = while_loop(lambda n: n < turns, lambda n: [n + 1], [graph.constant(0)], most=10**9)
        with graph.device(ONE):
            after = last + 1
    with runtime.ProcessCluster({"worker": 2, "ps": 2}, deadline=120.0) as cluster, cluster.session(graph) as session:
        session.initialise()
        session.run(fetches, feeds)
        session.save(tmp_path / "kept.safetensors")
        want = session.run(fetches, feeds)
        assert session.run(after, {turns: 5}) == 6
        failed: list[BaseException] = []

        def run() -> None:
            try:
                session.run(after, {turns: 10**8})
            except DistributedError as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(1.0)
        cluster.kill("worker", 1)
        thread.join(30)
        assert not thread.is_alive()
        assert isinstance(failed[0], PeerLost)
        assert failed[0].peer == "worker:1"
        cluster.start("worker", 1)
        assert session.run(after, {turns: 5}) == 6
        cluster.kill("ps", 0)
        cluster.start("ps", 0)
        with pytest.raises((GraphError, PeerLost), match=r"no value yet|lost ps:0"):
            session.run(fetches, feeds)
        assert set(session.uninitialised()) == {"w", "b"} | {
            f"{name}/Adam/{slot}" for name in "wb" for slot in ("step", "m", "v")
        }
        session.restore(tmp_path / "kept.safetensors")
        for one, other in zip(session.run(fetches, feeds), want, strict=True):
            np.testing.assert_array_equal(one, other) if other is not None else None


def test_two_heavy_branches_overlap(cluster: runtime.ProcessCluster) -> None:
    """The span of the one branch and that of the other have time in common, on one clock."""
    graph = Graph()
    with graph:
        turns = graph.placeholder((), np.int64, name="turns")
        ends = []
        for device in (ONE, TWO):
            with graph.device(device):
                (last,) = while_loop(lambda n: n < turns, lambda n: [n + 1], [graph.constant(0)], most=10**9)
                ends.append(last)
        total = ends[0] + ends[1]
    with cluster.session(graph, passes=()) as session:
        session.run(total, {turns: 10})
        for _ in range(30):  # a machine with other work may do them one after the other now and then
            timeline = Timeline()
            assert session.run(total, {turns: 20_000}, timeline=timeline) == 40_000
            loops = [event for event in timeline.events if event.name.startswith("while_loop")]
            assert {event.lane for event in loops} == {f"{ONE}/cpu:0", f"{TWO}/cpu:0"}
            if max(event.start for event in loops) < min(event.end for event in loops):
                return
    pytest.fail("the branches never ran at once")


def test_garbage_on_the_port(cluster: runtime.ProcessCluster) -> None:
    host, _, port = cluster.spec.address("worker", 1).rpartition("://")[2].rpartition(":")
    for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b""):
        with socket.create_connection((host, int(port)), timeout=10) as line:
            line.sendall(bytes_)
    graph = Graph()
    with graph:
        x = graph.placeholder((2,), name="x")
        with graph.device(TWO):
            y = x * 2.0
    with cluster.session(graph) as session:
        np.testing.assert_array_equal(session.run(y, {x: np.float32([1, 2])}), [2, 4])


def test_nothing_is_left_when_who_started_it_dies() -> None:
    program = (
        "import time\n"
        "from internals.distributed import runtime\n"
        "cluster = runtime.ProcessCluster({'worker': 2}, deadline=120)\n"
        "print(*[process.pid for process in cluster.processes.values()], flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        children = [int(word) for word in parent.stdout.readline().split()]
        assert len(children) == 2
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        end = time.monotonic() + 30
        while time.monotonic() < end and any(_lives(child) for child in children):
            time.sleep(0.1)
        assert not any(_lives(child) for child in children)
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--job", "ps", "--task", "0", "--cluster", '{"worker": ["tcp://127.0.0.1:0"]}'], "no job 'ps'"),
        (["--job", "worker", "--task", "0", "--cluster", "{"], "runtime: "),
        (["--job", "worker", "--task", "0", "--cluster", '{"worker": ["tcp://127.0.0.1:notaport"]}'], "runtime: "),
    ],
)
def test_a_command_that_can_not_start_says_why_in_one_line(arguments: list[str], told: str) -> None:
    command = [sys.executable, "-m", "internals.distributed.runtime", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=120)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_tasks_started_by_hand_at_the_addresses_of_their_cluster() -> None:
    """The command with a whole cluster, and a client that only knows one address; each task told to end, ends."""
    held = [socket.socket() for _ in range(2)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    addresses = [f"tcp://127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    spec = json.dumps({"worker": addresses})
    command = [sys.executable, "-m", "internals.distributed.runtime", "--job", "worker", "--cluster", spec, "--task"]
    tasks = [subprocess.Popen([*command, str(task)]) for task in (0, 1)]
    try:
        graph = Graph()
        with graph:
            with graph.device(TWO):
                v = graph.variable(np.float64([1.0, 2.0]), name="v")
            with graph.device(ONE):
                doubled = v * 2.0
        with runtime.RemoteSession(f"worker:0@{addresses[0]}", graph, deadline=120.0) as session:
            session.initialise()
            np.testing.assert_array_equal(session.run(doubled), [2.0, 4.0])
            assert session.cluster == runtime.ClusterSpec({"worker": addresses})
        for task in tasks:
            task.send_signal(signal.SIGINT)
        assert [task.wait(60) for task in tasks] == [0, 0]
    finally:
        for task in tasks:
            task.kill()
            task.wait()
