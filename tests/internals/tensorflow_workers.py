"""One worker of MultiWorkerMirroredStrategy: ``python tensorflow_workers.py RANK DIRECTORY PORT PORT``."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
from data_parallel_cases import RANKS, STEPS, batch, weights


def main() -> None:
    rank, directory, *ports = int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == RANKS
    start = weights()
    with strategy.scope():
        held = {
            name: tf.Variable(value.T if value.ndim == 2 else value)
            for name, value in start.items()
            if not name.startswith("never")
        }

    def scores(x: tf.Tensor) -> tf.Tensor:
        def linear(name: str, x: tf.Tensor) -> tf.Tensor:
            return x @ held[f"{name}.weight"] + held[f"{name}.bias"]

        x = tf.nn.relu(linear("first", x))
        return linear("last", tf.tanh(linear("left", x) + linear("right", x)))

    def replica_step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=scores(x)))
        gradients = tape.gradient(loss, list(held.values()))
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for variable, gradient in zip(held.values(), gradients, strict=True):
            variable.assign_sub(0.05 * gradient)

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        strategy.run(replica_step, (x, y))

    states: list[dict[str, np.ndarray]] = []
    for number in range(STEPS):
        x, y = batch(number, rank)
        step(tf.constant(x), tf.constant(y))
        states.append({name: variable.numpy() for name, variable in held.items()})
    (directory / f"{rank}.pickle").write_bytes(pickle.dumps(states))


if __name__ == "__main__":
    main()
