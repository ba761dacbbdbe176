"""Sessions beside eager code, torch, TensorFlow 1's sessions, tf.function: ``python -m benchmarks.graph [--quick]``.

Five figures, each measured side by side in this process; BLAS, torch and TensorFlow are given one thread each, except
where it says otherwise. With ``--processor``, training steps are compared by processor time, in which what else the
machine does counts less:

- a training step of the 784-256-10 perceptron, and of the LeNet, of `benchmarks.workloads`;
- what a node of a plan costs beside its kernel: a chain of 1,000 additions of 12 numbers, less NumPy's own time;
- two threads on two independent branches of heavy matrix products;
- the highest memory of a LeNet step, as Python's allocator counts it (NumPy's arrays among it).
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is loaded

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.side_by_side import compare
from benchmarks.workloads import LR
from internals import ops
from internals.graph import Graph, Node, Session, minimize

Run = Callable[[], Any]


def perceptron(x: Any, w: list[Any]) -> Any:
    return ops.relu(x @ w[0] + w[1]) @ w[2] + w[3]


def lenet(x: Any, w: list[Any]) -> Any:
    for place in (0, 2):
        x = ops.conv2d(x, w[place]) + w[place + 1].reshape(1, -1, 1, 1)
        x = ops.max_pool2d(ops.relu(x), 2)
    x = x.reshape(x.shape[0], 256)
    x = ops.relu(x @ w[4] + w[5])
    return ops.relu(x @ w[6] + w[7]) @ w[8] + w[9]


def in_a_session(model: Callable[..., Node], numbers: workloads.Numbers, **settings: Any) -> Run:
    graph = Graph()
    with graph:
        x = graph.placeholder(numbers.x.shape, name="x")
        y = graph.placeholder(numbers.target.shape, np.int64, name="y")
        weights = [graph.variable(start) for start in numbers.parameters]
        loss = ops.cross_entropy(model(x, weights), y)
        step = minimize(loss, weights, lr=LR)
    session = Session(graph, **settings)
    session.initialise()
    feeds = {x: numbers.x, y: numbers.target}
    return lambda: float(session.run([loss, step], feeds)[0])


def in_tensorflow(tf: Any, numbers: workloads.Numbers) -> dict[str, Run]:
    """The perceptron in a session of version 1, and as a tf.function."""

    def cost(x: Any, y: Any, w: list[Any]) -> Any:
        logits = tf.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, numbers.x.shape)
        y = v1.placeholder(tf.int64, numbers.target.shape)
        weights = [
            v1.get_variable(f"w{i}", initializer=tf.constant(start), use_resource=True)
            for i, start in enumerate(numbers.parameters)
        ]
        loss = cost(x, y, weights)
        step = v1.train.GradientDescentOptimizer(LR).minimize(loss)
        one = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        session = v1.Session(config=one)
        session.run(v1.global_variables_initializer())
    held = [tf.Variable(start) for start in numbers.parameters]
    xs, ys = tf.constant(numbers.x), tf.constant(numbers.target)

    @tf.function
    def trained() -> Any:
        with tf.GradientTape() as tape:
            value = cost(xs, ys, held)
        for variable, slope in zip(held, tape.gradient(value, held), strict=True):
            variable.assign_sub(LR * slope)
        return value

    return {
        "tf.compat.v1 Session": lambda: float(session.run([loss, step], {x: numbers.x, y: numbers.target})[0]),
        "tf.function": lambda: float(trained()),
    }


def node_overhead() -> tuple[float, float]:
    """Seconds for a node of a plan beside its kernel, and for the kernel."""
    small = np.ones((3, 4), np.float32)
    graph = Graph()
    with graph:
        x = graph.placeholder(small.shape)
        value = x
        for _ in range(1000):
            value = value + x
    session = Session(graph, passes=())
    plan = session.plan([value], {x: small})
    nodes, kernels = [], []
    for _ in range(30):
        began = time.perf_counter()
        plan.run([small])
        nodes.append((time.perf_counter() - began) / 1000)
        out = small
        began = time.perf_counter()
        for _ in range(1000):
            out = np.add(out, small)
        kernels.append((time.perf_counter() - began) / 1000)
    kernel = statistics.median(kernels)
    return statistics.median(nodes) - kernel, kernel


def two_threads(rounds: int) -> float:
    """How many times as fast two threads are on two independent branches."""
    rng = np.random.default_rng(0)
    graph = Graph()
    with graph:
        x = graph.placeholder((700, 700))
        ends = []
        for _ in range(2):
            value = x
            for _ in range(4):
                value = (value @ x).tanh()
            ends.append(value)
        meet = (ends[0] + ends[1]).sum()
    matrix = (rng.standard_normal((700, 700)) / 26).astype(np.float32)
    sessions = [Session(graph, threads=threads, passes=()) for threads in (1, 2)]
    ratios = []
    for _ in range(rounds):
        taken = []
        for session in sessions:
            began = time.perf_counter()
            session.run(meet, {x: matrix})
            taken.append(time.perf_counter() - began)
        ratios.append(taken[0] / taken[1])
    return statistics.median(ratios)


def highest(run: Run) -> int:
    """Bytes that a second step takes at most."""
    run()
    gc.collect()
    tracemalloc.start()
    run()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--processor", action="store_true", help="processor time, for a machine that is busy")
    given = parser.parse_args()
    rounds, clock = 7 if given.quick else 25, time.process_time if given.processor else time.perf_counter
    from benchmarks.contenders import ALL
    from benchmarks.contenders.internals_ import Internals

    eager = Internals()
    torch = next(one for one in ALL if one.name.startswith("torch"))()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    mlp, cnn = workloads.perceptron(), workloads.lenet()
    ways = {"internals": in_a_session(perceptron, mlp), "own eager": eager.mlp_step, "torch": torch.mlp_step}
    for row in compare("perceptron", {**ways, **in_tensorflow(tf, mlp)}, calls=20, rounds=rounds, clock=clock):
        print(f"perceptron step / {row.against:22} {row.ratio:.2f}x [{row.low:.2f}, {row.high:.2f}]")
    ways = {"internals": in_a_session(lenet, cnn), "own eager": eager.cnn_step, "torch": torch.cnn_step}
    for row in compare("lenet", ways, calls=5, rounds=rounds, clock=clock):
        print(f"LeNet step      / {row.against:22} {row.ratio:.2f}x [{row.low:.2f}, {row.high:.2f}]")
    node, kernel = node_overhead()
    print(f"a node beside its kernel: {node * 1e6:.2f} µs (the kernel: {kernel * 1e6:.2f} µs)")
    print(f"two threads, two branches: {two_threads(rounds):.2f}x")
    peaks = {"own eager": highest(eager.cnn_step)}
    for passes in ((), ("reuse",), ("fold", "simplify", "share", "reuse", "tile")):
        peaks[f"session, {'+'.join(passes) or 'no pass'}"] = highest(in_a_session(lenet, cnn, passes=passes))
    for name, found in peaks.items():
        print(f"LeNet step, highest memory: {found / 2**20:5.2f} MiB, {found / peaks['own eager']:.2f}x  {name}")


if __name__ == "__main__":
    main()
