"""Held against TensorFlow's ParameterServerStrategy: variables sharded over two servers, steps as they come.

Paddle's parameter-server mode does not run in the builds that can be installed here, so it is not held against ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from server_jobs import Job

from internals.distributed.launch.job import free_ports
from internals.distributed.server import Gradients
from internals.optim import SGD

pytestmark = pytest.mark.slow

# TensorFlow's servers end with their process, so they get one.
SCRIPT = """
import json, sys
import numpy as np
import tensorflow as tf

ports, steps, seed = json.loads(sys.argv[1])
addresses = [f"127.0.0.1:{port}" for port in ports]
cluster = tf.train.ClusterSpec({"ps": addresses[:2], "worker": addresses[2:]})
servers = [
    tf.distribute.Server(cluster, job_name=job, task_index=index, protocol="grpc")
    for job, index in (("ps", 0), ("ps", 1), ("worker", 0))
]
strategy = tf.distribute.ParameterServerStrategy(
    tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc"),
    variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2),
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
rng = np.random.default_rng(seed)
with strategy.scope():
    w = tf.Variable(rng.standard_normal((5, 3)).astype(np.float32))
    b = tf.Variable(rng.standard_normal(4).astype(np.float32))
parts = [*w.variables, *b.variables]


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        hidden = x @ tf.concat(parts[:2], 0)
        loss = tf.reduce_mean((hidden - y) ** 2) + tf.reduce_mean(tf.concat(parts[2:], 0) ** 4)
    for part, gradient in zip(parts, tape.gradient(loss, parts)):
        part.assign_sub(0.1 * gradient)
    return loss


losses = []
for number in range(steps):
    x, y = (np.random.default_rng([number, k]).standard_normal((8, n)).astype(np.float32) for k, n in ((0, 5), (1, 3)))
    loss = coordinator.schedule(step, args=(tf.constant(x), tf.constant(y)))
    coordinator.join()
    losses.append(float(loss.fetch()))
values = [tf.concat(one.variables, 0).numpy().tolist() for one in (w, b)]
devices = sorted({part.device.split("/")[3] for part in parts})
print("FOUND" + json.dumps([losses, *values, devices]))
"""


def in_tensorflow(steps: int, seed: int) -> list[Any]:
    told = json.dumps([free_ports(3), steps, seed])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, told], capture_output=True, text=True, check=False, timeout=200,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("FOUND")[1])


def test_step_for_step_as_tensorflow() -> None:
    pytest.importorskip("tensorflow")
    steps, seed = 25, 3
    rng = np.random.default_rng(seed)
    start = {
        "w": rng.standard_normal((5, 3)).astype(np.float32),
        "b": rng.standard_normal(4).astype(np.float32),
    }

    def work(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        x, y = (
            np.random.default_rng([step, k]).standard_normal((8, n)).astype(np.float32) for k, n in ((0, 5), (1, 3))
        )
        error = x @ values["w"] - y
        loss = (error**2).mean() + (values["b"] ** 4).mean()
        return Gradients(float(loss), {"w": 2 * x.T @ error / np.float32(error.size), "b": values["b"] ** 3})

    one = Job(servers=2, shards=1, mode="async", optimizer=lambda tensors: SGD(tensors, lr=0.1))
    (trainer,) = one.train(1, steps, work=work, start=start, split=2)
    one.close()
    losses, w, b, devices = in_tensorflow(steps, seed)
    assert devices == ["task:0", "task:1"]
    np.testing.assert_allclose([trainer.losses[0, step] for step in range(steps)], losses, rtol=2e-5)
    np.testing.assert_allclose(trainer.client.values["w"], w, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(trainer.client.values["b"], b, rtol=2e-5, atol=2e-6)
