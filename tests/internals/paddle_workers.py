"""One worker of Paddle's DataParallel over gloo: ``python paddle_workers.py RANK DIRECTORY PORT PORT``."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
from data_parallel_cases import CLASSES, FEATURES, HIDDEN, RANKS, STEPS, batch, weights


def main() -> None:
    rank, directory, *ports = int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    os.environ |= {
        "PADDLE_TRAINER_ID": str(rank), "PADDLE_TRAINERS_NUM": str(RANKS),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(addresses), "PADDLE_CURRENT_ENDPOINT": addresses[rank],
        "PADDLE_DISTRI_BACKEND": "gloo",
    }  # fmt: skip
    paddle: Any = importlib.import_module("paddle")  # by name: no extra of the project brings it
    nn = paddle.nn
    paddle.set_device("cpu")
    paddle.distributed.init_parallel_env()

    class Net(nn.Layer):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)
            self.left, self.right = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)

        def forward(self, x: Any) -> Any:
            x = nn.functional.relu(self.first(x))
            return self.last(paddle.tanh(self.left(x) + self.right(x)))

    net = Net()
    start = weights()
    net.set_state_dict(
        {name: start[name].T.copy() if start[name].ndim == 2 else start[name] for name in net.state_dict()}
    )
    model = paddle.DataParallel(net)
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
    states: list[dict[str, np.ndarray]] = []
    for number in range(STEPS):
        x, y = batch(number, rank)
        nn.functional.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(y)).backward()
        optimizer.step()
        optimizer.clear_grad()
        states.append({name: value.numpy().copy() for name, value in net.state_dict().items()})
    (directory / f"{rank}.pickle").write_bytes(pickle.dumps(states))


if __name__ == "__main__":
    main()
