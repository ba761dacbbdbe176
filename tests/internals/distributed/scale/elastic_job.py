"""The script of an elastic job that the tests start: a small classifier, slow enough to be disturbed.

``elastic_job.py STEPS PAUSE``: each rank says which generation it is in, each step it has done, and what it ends with.
"""

from __future__ import annotations

import os
import sys
import time
import zlib

import numpy as np

from internals import Tensor, nn, ops, optim
from internals.distributed.scale.elastic import Run, Shards, State, average_gradients, run

EXAMPLES, BATCH = 60, 12


def build(steps: int) -> tuple[State, Shards, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((EXAMPLES, 5)).astype(np.float32)
    y = rng.integers(3, size=EXAMPLES)
    model = nn.Sequential(nn.Linear(5, 8, rng=rng), nn.Tanh(), nn.Linear(8, 3, rng=rng))
    return State(model, optim.Adam(model.parameters(), lr=0.02)), Shards(EXAMPLES, BATCH, seed=1), x, y


def loss_of(state: State, x: np.ndarray, y: np.ndarray) -> float:
    return ops.cross_entropy(state.model(Tensor(x)), Tensor(y)).item()


def main() -> None:
    steps, pause = int(sys.argv[1]), float(sys.argv[2])
    state, shards, x, y = build(steps)

    def train(this: Run) -> tuple[float, int]:
        group = this.group
        print(f"generation {this.generation} rank {group.rank} of {group.size} pid {os.getpid()} step {state.step}")
        while state.step < steps:
            part = shards.part(state.step, group.rank, group.size)
            state.model.zero_grad()
            ops.cross_entropy(state.model(Tensor(x[part])), Tensor(y[part])).backward()
            average_gradients(state.model, group, len(part) / BATCH)
            state.optimizer.step()
            time.sleep(pause)
            this.commit()
        weights = b"".join(value.tobytes() for value in state.model.state_dict().values())
        return loss_of(state, x, y), zlib.crc32(weights)

    loss, bits = run(train, state)
    print(f"done {loss:.9f} {bits}")


if __name__ == "__main__":
    main()
