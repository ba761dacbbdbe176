"""Data parallel steps beside those of other frameworks, on two processes each that speak over loopback.

TensorFlow's MultiWorkerMirroredStrategy; Paddle's DataParallel over gloo, where Paddle is installed.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import data_parallel_cases
import numpy as np
import pytest
from data_parallel_cases import CLASSES, FEATURES, HIDDEN, RANKS, STEPS, batch, weights

from internals import Tensor, nn, ops, optim
from internals.distributed.group import Group, run_threads
from internals.distributed.parallel import DistributedDataParallel

pytestmark = pytest.mark.slow


class Net(nn.Module):
    def __init__(self) -> None:
        self.first, self.last = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.left, self.right = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.relu(self.first(x))
        return self.last(ops.tanh(self.left(x) + self.right(x)))


def trained(group: Group) -> list[dict[str, np.ndarray]]:
    net = Net()
    known = {name: value.T if value.ndim == 2 else value for name, value in weights().items()}
    net.load_state_dict({name: known[name] for name in net.state_dict()})
    model = DistributedDataParallel(net, group, bucket_bytes=200)
    optimizer = optim.SGD(model.parameters(), 0.05)
    states = []
    for step in range(STEPS):
        x, y = batch(step, group.rank)
        optimizer.zero_grad()
        ops.cross_entropy(model(Tensor(x)), Tensor(y)).backward()
        optimizer.step()
        states.append(net.state_dict())
    return states


def free_ports(count: int) -> list[str]:
    """Workers are told their ports; they can't say which they found."""
    taken = [socket.socket() for _ in range(count)]
    try:
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in taken]
    finally:
        for one in taken:
            one.close()


@pytest.fixture(params=["tensorflow", "paddle"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> list[Any]:
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    directory, script = tmp_path, Path(data_parallel_cases.__file__).with_name(f"{request.param}_workers.py")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(script.parent), os.environ.get("PYTHONPATH", "")]),
        "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip
    ports = free_ports(RANKS)
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(directory), *ports], env=environment, stderr=subprocess.PIPE
        )
        for rank in range(RANKS)
    ]
    try:
        told = [worker.communicate(timeout=400)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [worker.returncode for worker in workers] == [0] * RANKS, b"\n".join(told).decode()[-2000:]
    return [pickle.loads((directory / f"{rank}.pickle").read_bytes()) for rank in range(RANKS)]


def test_step_for_step_as_theirs(theirs: list[Any]) -> None:
    for mine, other in zip(run_threads(RANKS, trained), theirs, strict=True):
        for step, (state, expected) in enumerate(zip(mine, other, strict=True)):
            assert state.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_allclose(state[name], value, atol=2e-6, err_msg=f"{name}, step {step}")
