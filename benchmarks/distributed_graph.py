"""What a cut costs, and what it buys: ``python -m benchmarks.distributed_graph [--quick]``.

Side by side in one run, medians; BLAS has one thread in each process:

- what an edge that crosses from one task to another costs: a chain that crosses it 2 times and 42 times, the
  difference by 40; with tasks that are threads of this process, with tasks that are processes, and with TensorFlow's
  runtime (sessions of version 1 on gRPC servers, in this process, as its own tests have them, and in processes);
- a step without any edge to cut: what a client, a master and a worker cost beside a session in this process;
- two heavy branches on two workers, against both on one (``--branches``: only these): by the clock, which a load of
  others can spoil, so that the quickest quarter of rounds is given too; and by the timeline, which it can't: for how
  much of the time in which one worker multiplies the other does.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is loaded

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from internals.distributed import runtime
from internals.graph import Graph, Session, Timeline

Run = Callable[[], Any]
FEW, MANY = 2, 42
WORKERS = [f"/job:worker/task:{task}" for task in (0, 1)]

SERVE = """
import json, sys, tensorflow as tf
spec, task = json.loads(sys.argv[1]), int(sys.argv[2])
tf.distribute.Server(tf.train.ClusterSpec(spec), job_name="worker", task_index=task, protocol="grpc").join()
"""


def chain(edges: int, placed: bool = True) -> tuple[Graph, Any, Any]:
    """Additions to 12 numbers, each on the other worker than the one before."""
    graph = Graph()
    with graph:
        value = x = graph.placeholder((3, 4), name="x")
        for step in range(edges + 1):
            with graph.device(WORKERS[step % 2] if placed else None):
                value = value + 1.0
    return graph, value, x


def branches(spread: bool, size: int) -> tuple[Graph, Any, Any]:
    """Two chains of matrix products that meet at the end."""
    graph = Graph()
    with graph:
        x = graph.placeholder((size, size), name="x")
        ends = []
        for branch in range(2):
            with graph.device(WORKERS[branch if spread else 0]):
                value = x
                for _ in range(8):
                    value = (value @ x).tanh()
                ends.append(value.sum())
        with graph.device(WORKERS[0]):
            meet = ends[0] + ends[1]
    return graph, meet, x


def free_addresses(count: int) -> list[str]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return found


@contextmanager
def tensorflow_processes() -> Iterator[str]:
    """Two servers of TensorFlow, each a process; the target of the first."""
    addresses = free_addresses(2)
    spec = json.dumps({"worker": addresses})
    processes = [subprocess.Popen([sys.executable, "-c", SERVE, spec, str(task)]) for task in (0, 1)]
    try:
        for address in addresses:
            host, _, port = address.partition(":")
            for _ in range(1200):
                with socket.socket() as line:
                    if line.connect_ex((host, int(port))) == 0:
                        break
                time.sleep(0.1)
        yield f"grpc://{addresses[0]}"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def tensorflow_chain(tf: Any, target: str, edges: int) -> Run:
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        value = x = v1.placeholder(tf.float32, (3, 4))
        for step in range(edges + 1):
            with tf.device(WORKERS[step % 2]):
                value = value + 1.0
        config = v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True  # which would add the numbers up
        session = v1.Session(target, config=config)
    fed = {x: np.zeros((3, 4), np.float32)}
    return lambda: session.run(value, fed)


def at_once(timeline: Timeline) -> float:
    """The share of one worker's time in products, of the one that has less, in which the other is in products too."""
    first, second = (
        [
            (event.start, event.end)
            for event in timeline.events
            if event.lane.startswith(worker) and "matmul" in event.name
        ]
        for worker in WORKERS
    )
    both = sum(max(0.0, min(end, other) - max(start, began)) for start, end in first for began, other in second)
    return both / max(1e-9, min(sum(end - start for start, end in lane) for lane in (first, second)))


def seconds(runs: dict[str, Run], calls: int, rounds: int) -> dict[str, list[float]]:
    """Seconds that a call takes, taken in turn, by round."""
    for run in runs.values():
        run()
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            for _ in range(calls):
                run()
            taken[name].append((time.perf_counter() - began) / calls)
    return taken


def median(runs: dict[str, Run], calls: int, rounds: int) -> dict[str, float]:
    """Seconds that a call takes."""
    return {name: statistics.median(several) for name, several in seconds(runs, calls, rounds).items()}


def heavy_branches(processes: runtime.ProcessCluster, rounds: int) -> None:
    """Print what a second worker makes of two heavy branches."""
    matrix = (np.random.default_rng(0).standard_normal((600, 600)) / 24).astype(np.float32)
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        shares: dict[str, list[float]] = {}
        for name, spread in (("one worker", False), ("two workers", True)):
            graph, meet, start = branches(spread, 600)
            session = stack.enter_context(processes.session(graph, passes=()))
            shares[name] = []

            def run(session: Any = session, meet: Any = meet, start: Any = start, name: str = name) -> None:
                timeline = Timeline()
                session.run(meet, {start: matrix}, timeline=timeline)
                shares[name].append(at_once(timeline))

            runs[name] = run
        taken = seconds(runs, 1, rounds)
    one, two = (sorted(several) for several in taken.values())
    ratio = statistics.median(a / b for a, b in zip(*taken.values(), strict=True))
    quick = one[len(one) // 4] / two[len(two) // 4]
    medians = " and ".join(f"{statistics.median(several) * 1e3:.0f} ms on {name}" for name, several in taken.items())
    print(f"two heavy branches: {medians}: {ratio:.2f}x as fast on two, the quickest quarter {quick:.2f}x")
    for name, several in shares.items():
        print(
            f"  {name}: for {statistics.median(several):.0%} of a branch's time in products the other was in them too"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--branches", action="store_true", help="only the heavy branches")
    given = parser.parse_args()
    rounds = 5 if given.quick else 21
    if given.branches:
        with runtime.ProcessCluster({"worker": 2}) as processes:
            heavy_branches(processes, rounds)
        return
    import tensorflow as tf

    small = np.zeros((3, 4), np.float32)
    with ExitStack() as stack:
        tasks = {"worker": 2}
        kinds: dict[str, Callable[[int], Run]] = {}

        def ours(name: str, cluster: Any) -> None:
            def at(edges: int) -> Run:
                graph, value, x = chain(edges)
                session = stack.enter_context(cluster.session(graph, passes=()))
                return lambda: session.run(value, {x: small})

            kinds[name] = at

        processes = stack.enter_context(runtime.ProcessCluster(tasks))
        ours("threads of this process", stack.enter_context(runtime.InprocCluster(tasks)))
        ours("processes", processes)
        spec = tf.train.ClusterSpec({"worker": free_addresses(2)})
        servers = [tf.distribute.Server(spec, job_name="worker", task_index=task, protocol="grpc") for task in (0, 1)]
        kinds["TensorFlow in one process"] = lambda edges: tensorflow_chain(tf, servers[0].target, edges)
        target = stack.enter_context(tensorflow_processes())
        kinds["TensorFlow, processes"] = lambda edges: tensorflow_chain(tf, target, edges)

        few = median({name: at(FEW) for name, at in kinds.items()}, 10, rounds)
        many = median({name: at(MANY) for name, at in kinds.items()}, 10, rounds)
        for name in kinds:
            edge = (many[name] - few[name]) / (MANY - FEW)
            print(
                f"an edge that is cut, {name:26} {edge * 1e6:7.0f} µs   (a step with {FEW}: {few[name] * 1e3:.2f} ms)"
            )

        graph, value, x = chain(0)
        plain_graph, plain_value, plain_x = chain(0, False)
        alone = Session(plain_graph, passes=())
        here = stack.enter_context(processes.session(graph, passes=()))
        there = median(
            {
                "a session here": lambda: alone.run(plain_value, {plain_x: small}),
                "client, master and worker": lambda: here.run(value, {x: small}),
            },
            20,
            rounds,
        )
        for name, seconds in there.items():
            print(f"a step of one node, {name:26} {seconds * 1e6:7.0f} µs")

        heavy_branches(processes, rounds)


if __name__ == "__main__":
    main()
