"""TensorFlow's own distributed runtime, on loopback: the same graphs give the same values, and are cut as often."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from distributed_graphs import ONE, PS0, PS1, TASKS, TWO

from internals import ops, optim
from internals.distributed import runtime
from internals.distributed.runtime import Record
from internals.graph import Graph, minimize

pytestmark = pytest.mark.slow
DEVICES = (ONE, TWO, PS0, PS1)


@pytest.fixture(scope="module")
def servers(tf: Any) -> Any:
    """Two workers and two parameter servers of TensorFlow in this process, over gRPC."""
    import socket

    held = [socket.socket() for _ in range(4)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    spec = tf.train.ClusterSpec(
        {"worker": [f"127.0.0.1:{port}" for port in ports[:2]], "ps": [f"127.0.0.1:{port}" for port in ports[2:]]}
    )
    return [
        tf.distribute.Server(spec, job_name=job, task_index=task, protocol="grpc")
        for job in ("worker", "ps")
        for task in (0, 1)
    ]


def test_a_perceptron_on_two_workers_learns_the_same(tf: Any, servers: Any) -> None:
    rng = np.random.default_rng(5)
    w0, b0 = rng.standard_normal((6, 8)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    v0 = rng.standard_normal((8, 3)).astype(np.float32)
    x0, y0 = rng.standard_normal((10, 6)).astype(np.float32), rng.integers(0, 3, 10)

    graph = Graph()
    with graph:
        x, y = graph.placeholder((None, 6)), graph.placeholder((None,), np.int64)
        with graph.device(PS0):
            w, b = graph.variable(w0, name="w"), graph.variable(b0, name="b")
        with graph.device(PS1):
            v = graph.variable(v0, name="v")
        losses = []
        for task, device in enumerate((ONE, TWO)):
            with graph.device(device):
                losses.append(ops.cross_entropy(ops.relu(x[task::2] @ w + b) @ v, y[task::2]))
        loss = (losses[0] + losses[1]) * 0.5
        train = minimize(loss, optimizer=optim.SGD, lr=0.1)
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph) as session:
        session.initialise()
        ours = [session.run([loss, train], {x: x0, y: y0})[0] for _ in range(10)]
        ours_w = session.run(w)

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        xs, ys = v1.placeholder(tf.float32, (None, 6)), v1.placeholder(tf.int64, (None,))
        with tf.device(PS0):
            tw = v1.get_variable("w", initializer=w0, use_resource=True)
            tb = v1.get_variable("b", initializer=b0, use_resource=True)
        with tf.device(PS1):
            tv = v1.get_variable("v", initializer=v0, use_resource=True)
        theirs_losses = []
        for task, device in enumerate((ONE, TWO)):
            with tf.device(device):
                logits = tf.nn.relu(xs[task::2] @ tw + tb) @ tv
                costs = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ys[task::2], logits=logits)
                theirs_losses.append(tf.reduce_mean(costs))
        cost = (theirs_losses[0] + theirs_losses[1]) * 0.5
        step = v1.train.GradientDescentOptimizer(0.1).minimize(cost)
        with v1.Session(servers[0].target) as remote:
            remote.run(v1.global_variables_initializer())
            theirs = [remote.run([cost, step], {xs: x0, ys: y0})[0] for _ in range(10)]
            theirs_w = remote.run(tw)
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)
    np.testing.assert_allclose(ours_w, theirs_w, rtol=2e-5, atol=1e-6)
    assert ours[-1] < ours[0]


def test_control_edges_across_devices(tf: Any, servers: Any) -> None:
    from internals.graph import assign, assign_add, read

    graph = Graph()
    with graph:
        with graph.device(PS0):
            v = graph.variable(np.float64([1.0, 2.0]), name="v")
        with graph.device(PS1):
            u = graph.variable(np.float64([0.0, 0.0]), name="u")
        more = assign_add(v, np.float64([10.0, 20.0]))
        with graph.after([more]), graph.device(TWO):
            copied = assign(u, read(v) * 2.0)
        with graph.after([copied]):
            last = read(u)
    with runtime.InprocCluster(TASKS) as cluster, cluster.session(graph) as session:
        session.initialise()
        ours = [session.run(last) for _ in range(3)]

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with tf.device(PS0):
            tv = v1.get_variable("v2", initializer=np.float64([1.0, 2.0]), use_resource=True)
        with tf.device(PS1):
            tu = v1.get_variable("u2", initializer=np.float64([0.0, 0.0]), use_resource=True)
        grown = tv.assign_add([10.0, 20.0], read_value=False)
        with tf.control_dependencies([grown]), tf.device(TWO):
            stored = tu.assign(tv.read_value() * 2.0, read_value=False)
        with tf.control_dependencies([stored]):
            final = tu.read_value()
        with v1.Session(servers[0].target) as remote:
            remote.run(v1.global_variables_initializer())
            theirs = [remote.run(final) for _ in range(3)]
    np.testing.assert_array_equal(ours, theirs)


def partitioned(
    tf: Any, records: dict[str, Record], places: dict[str, str], fetches: list[str]
) -> set[tuple[str, str]]:
    """(tensor, device it is sent to) of the graphs that TensorFlow's partitioner makes."""
    v1 = tf.compat.v1
    names = sorted(set(places.values()))
    config = v1.ConfigProto(device_count={"CPU": len(names)}, allow_soft_placement=False)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.Graph().as_default():
        made: dict[str, Any] = {}
        for name, record in records.items():
            device = f"/cpu:{names.index(places[name])}"
            with tf.device(device), tf.control_dependencies([made[one].op for one in record.controls]):
                # An identity, since what has no inputs and one reader would be moved to its reader.
                made[name] = v1.placeholder_with_default(np.float32(1.0), ()) if not record.inputs else None
                if record.inputs:
                    made[name] = tf.raw_ops.AddN(inputs=[made[one] for one in record.inputs], name=name)
        told = v1.RunMetadata()
        with v1.Session(config=config) as session:
            wanted = [made[name].op for name in fetches]
            session.run(wanted, options=v1.RunOptions(output_partition_graphs=True), run_metadata=told)
    edges = set()
    for part in told.partition_graphs:
        for node in part.node:
            if node.op == "_Send":
                sent = node.attr["tensor_name"].s.decode().partition("_")[2].partition("_")[2]
                target = node.attr["recv_device"].s.decode().rpartition(":")[2]
                edges.add((sent, names[int(target)]))
    return edges


@pytest.mark.parametrize("seed", range(8))
def test_a_graph_is_cut_where_tensorflow_cuts_it(tf: Any, seed: int) -> None:
    rng = random.Random(seed)
    records: dict[str, Record] = {}
    for i in range(12):
        earlier = list(records)
        inputs = tuple(rng.choices(earlier, k=rng.randrange(1, 3))) if i > 2 else ()
        controls = tuple(rng.sample(earlier, k=rng.randrange(2))) if i > 2 else ()
        records[f"n{i}"] = Record("add", inputs, controls)
    places = {name: rng.choice(["a", "b", "c"]) for name in records}
    fetches = rng.sample(list(records), 3)
    kept = runtime.prune(records, fetches)
    pruned = {name: record for name, record in records.items() if name in kept}
    ours = {
        (step[1], step[2])
        for steps in runtime.cut(pruned, places).values()
        for step in steps
        if step[0] == "send" and records[step[1]].inputs
    }
    found = partitioned(tf, records, places, fetches)
    theirs = {(name, target) for name, target in found if name in records and records[name].inputs}
    assert ours == theirs
    assert ours
