"""Graphs for the tests, each built twice: with devices of a cluster, and without."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from internals import ops, optim
from internals.graph import Graph, Node, assign, assign_add, cond, minimize, read, while_loop

TASKS = {"worker": 2, "ps": 2}
ONE, TWO = "/job:worker/task:0", "/job:worker/task:1"
PS0, PS1 = "/job:ps/task:0", "/job:ps/task:1"

Built = tuple[Graph, list[Node], dict[Node, np.ndarray]]
"""The graph, what to fetch, what to feed."""
On = Callable[[str], Any]


def scopes(graph: Graph, placed: bool) -> On:
    return graph.device if placed else lambda name: nullcontext()


def perceptron(placed: bool, rng: np.random.Generator, optimizer: Any = optim.Adam) -> Built:
    """Parameters on two servers, half of the batch on each worker."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        x, y = graph.placeholder((None, 6), name="x"), graph.placeholder((None,), np.int64, name="y")
        with on(PS0):
            w = graph.variable(rng.standard_normal((6, 8)).astype(np.float32), name="w")
            b = graph.variable(rng.standard_normal(8).astype(np.float32), name="b")
        with on(PS1):
            v = graph.variable(rng.standard_normal((8, 3)).astype(np.float32), name="v")
        losses = []
        for task, device in enumerate((ONE, TWO)):
            with on(device):
                losses.append(ops.cross_entropy(ops.relu(x[task::2] @ w + b) @ v, y[task::2]))
        loss = (losses[0] + losses[1]) * 0.5
        train = minimize(loss, optimizer=optimizer, lr=0.05)
    feeds = {x: rng.standard_normal((10, 6)).astype(np.float32), y: rng.integers(0, 3, 10)}
    return graph, [loss, train, w, v], feeds


def ping_pong(placed: bool, rng: np.random.Generator) -> Built:
    """A chain that crosses the border at each node."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        x = graph.placeholder((4, 5), name="x")
        value = x
        for step in range(8):
            with on(ONE if step % 2 else TWO):
                value = (value * 1.5).tanh() + x
    return graph, [value], {x: rng.standard_normal((4, 5)).astype(np.float32)}


def transposed(placed: bool, rng: np.random.Generator) -> Built:
    """Views that lie in memory in another order, summed on the other side."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        x = graph.placeholder((37, 51, 3), name="x")
        with on(ONE):
            sent = ops.transpose(x, (2, 0, 1))
        with on(TWO):
            sums = [sent.sum(), sent.sum(axis=1), (sent @ ops.transpose(sent, (0, 2, 1))).mean()]
    return graph, sums, {x: rng.standard_normal((37, 51, 3)).astype(np.float32)}


def counting(placed: bool, rng: np.random.Generator) -> Built:
    """Assignments in an order that only control edges give, some across devices."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        with on(PS0):
            v = graph.variable(rng.standard_normal(3), name="first")
        with on(PS1):
            u = graph.variable(rng.standard_normal(3), name="second")
        with on(ONE):
            more = assign_add(v, np.float64([1, 2, 3]))
        with graph.after([more]), on(TWO):
            copied = assign(u, read(v) * 2.0)
        with graph.after([copied]):
            later = read(u)
            done = graph.group([more, copied])
    return graph, [v, more, copied, later, u, done], {}


def controlled(placed: bool, rng: np.random.Generator) -> Built:
    """A branch, a loop and gradients through them, each whole on one device."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        x = graph.placeholder((3,), np.float64, name="x")
        with on(ONE):
            doubled = x * 2.0
        with on(TWO):
            chosen = cond(doubled.sum() > 0.0, lambda: (doubled * x).sum(), lambda: doubled.sum())
            halved, count = while_loop(
                lambda value, n: (value * value).sum() > 1.0,
                lambda value, n: [value * 0.5, n + 1],
                [doubled, graph.constant(0)],
            )
    return graph, [chosen, halved, count], {x: rng.standard_normal(3) * 5}


def noisy(placed: bool, rng: np.random.Generator) -> Built:
    """Random numbers, drawn where the node is, the same wherever that is; and a variable that starts as a node."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        x = graph.placeholder((8, 8), name="x")
        with on(TWO):
            dropped = ops.dropout(x, p=0.5, seed=3)
        with on(PS1):
            start = ops.dropout(graph.constant(rng.standard_normal(16).astype(np.float32)), p=0.5, seed=4)
            v = graph.variable(start, name="drawn")
        with on(ONE):
            total = dropped.sum() + v.sum()
    return graph, [dropped, total, v], {x: rng.standard_normal((8, 8)).astype(np.float32)}


def several(placed: bool, rng: np.random.Generator) -> Built:
    """Rows with several results; integers, booleans and half precision on their way; nothing of size 0 lost."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        x = graph.placeholder((5, 4), name="x")
        with on(ONE):
            best, where = ops.topk(x, 2)
            small, empty, flags = ops.cast(x, np.float16), x[5:], x > 0
        with on(TWO):
            sums = [best.sum(), where.sum(), ops.cast(small, np.float32).sum(), empty.sum(), ops.cast(flags, np.int64)]
    return graph, [*sums, small, empty, flags], {x: rng.standard_normal((5, 4)).astype(np.float32)}


def accelerated(placed: bool, rng: np.random.Generator) -> Built:
    """Devices of a task: two simulated accelerators and the host, with a variable and its optimizer on one."""
    graph = Graph()
    on = scopes(graph, placed)
    with graph:
        x = graph.placeholder((6, 6), name="x")
        with on(f"{ONE}/sim:1"):
            w = graph.variable(rng.standard_normal((6, 6)).astype(np.float32), name="matrix")
        with on(f"{TWO}/sim:0"):
            first = (x @ w).tanh()
        with on(f"{TWO}/cpu:0"):
            second = (first * first).mean()
        train = minimize(second, [w], optim.Adam, lr=0.1)
    return graph, [second, train, w], {x: rng.standard_normal((6, 6)).astype(np.float32)}


def plain(placed: bool, rng: np.random.Generator) -> Built:
    """Nothing asks for a device; a constant, a feed and a variable are fetched as they are, one of them twice."""
    graph = Graph()
    with graph:
        x, c = graph.placeholder((None,), name="x"), graph.constant(rng.standard_normal(3).astype(np.float32))
        v = graph.variable(rng.standard_normal(3).astype(np.float32), name="scale")
        y = x + c * v
    return graph, [y, x, c, v, y], {x: rng.standard_normal(3).astype(np.float32)}


GRAPHS = [perceptron, ping_pong, transposed, counting, controlled, noisy, several, accelerated, plain]
