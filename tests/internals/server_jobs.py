"""Small jobs on a parameter server: a network whose gradients are written out, its batches, and jobs of threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from internals.distributed.server import Client, Gradients, Server, Trainer
from internals.distributed.transport import Faults, Network
from internals.optim import SGD

SHAPES = {"b": (4,), "scale": (), "v": (4, 3), "w": (5, 4)}
"""A linear layer, tanh, a linear layer, and a 0-d parameter."""


def parameters(dtype: Any = np.float64, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.standard_normal(shape), dtype) for name, shape in SHAPES.items()}


def batch(shard: int, step: int, examples: int = 6, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Another one for each shard and step, and always the same; shards have batches of different size."""
    rng = np.random.default_rng([shard, step, 7])
    count = examples + shard
    return rng.standard_normal((count, 5)).astype(dtype), rng.standard_normal((count, 3)).astype(dtype)


def loss_and_gradients(
    values: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """Of ``mean((scale * tanh(x w + b) v - y)²)``."""
    w, b, v, scale = (values[name] for name in ("w", "b", "v", "scale"))
    hidden = np.tanh(x @ w + b)
    product = hidden @ v
    error = scale * product - y
    up = 2 * error / error.size
    below = (scale * up @ v.T) * (1 - hidden * hidden)
    gradients = {
        "w": x.T @ below,
        "b": below.sum(axis=0),
        "v": scale * hidden.T @ up,
        "scale": np.asarray((up * product).sum(), w.dtype),
    }
    return float((error * error).mean()), gradients


def work(values: Mapping[str, np.ndarray], shard: int, step: int) -> Gradients:
    x, y = batch(shard, step, dtype=values["w"].dtype)
    loss, gradients = loss_and_gradients(values, x, y)
    return Gradients(loss, gradients, examples=len(x))


def large_parameters() -> dict[str, np.ndarray]:
    """And one of a megabyte."""
    return parameters() | {"large": np.random.default_rng(5).standard_normal(1 << 17)}


def large_work(values: Mapping[str, np.ndarray], shard: int, step: int) -> Gradients:
    found = work(values, shard, step)
    large = np.random.default_rng([shard, step]).standard_normal(1 << 17)
    return Gradients(found.loss, {**found.dense, "large": large}, examples=found.examples)


def plain_sgd(tensors: Any) -> SGD:
    return SGD(tensors, lr=0.1)


def until(true: Callable[[], bool], deadline: float = 60.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + deadline
    while not true():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.002)


class Killed(BaseException):
    """Ends a trainer's thread, as kill -9 ends a process."""


class Job:
    """Servers and trainers in threads of one process."""

    def __init__(
        self,
        *,
        servers: int = 2,
        shards: int = 2,
        optimizer: Any = plain_sgd,
        faults: Faults | None = None,
        together: bool = False,
        **settings: Any,
    ) -> None:
        self.network = Network(faults)
        self.addresses = [f"inproc://server:{index}" for index in range(servers)]
        peers = {f"server:{index}": address for index, address in enumerate(self.addresses)}
        common = {"optimizer": optimizer, "shards": shards, "servers": servers, "peers": peers} | settings
        self._server_settings = common
        if together:  # servers that come from checkpoints ask one another
            with ThreadPoolExecutor(servers) as pool:
                self.servers = list(pool.map(self.start_server, range(servers)))
        else:
            self.servers = [self.start_server(index) for index in range(servers)]
        self.clients: list[Client] = []

    def start_server(self, index: int) -> Server:
        return Server(self.network.endpoint(f"server:{index}"), index=index, **self._server_settings)

    def client(self, rank: int = 0, **settings: Any) -> Client:
        endpoint = self.network.endpoint(f"trainer:{rank}")
        settings = {"deadline": 20.0, "patience": 5.0} | settings
        client = Client(endpoint, self.addresses, rank=rank, **settings)
        self.clients.append(client)
        return client

    def train(
        self,
        trainers: int,
        steps: int,
        *,
        work: Callable[..., Gradients] = work,
        start: Mapping[str, np.ndarray] | None = None,
        **settings: Any,
    ) -> list[Trainer]:
        """Run trainers to the end; the first error of one of them is raised."""
        start = parameters() if start is None else start
        found: list[Trainer | None] = [None] * trainers
        errors: list[BaseException] = []

        def trainer(rank: int) -> None:
            try:
                client = self.client(rank, **settings)
                client.init(start)
                found[rank] = Trainer(client, work)
                found[rank].run(steps)
            except BaseException as error:  # noqa: BLE001  raised again below
                errors.append(error)
                with suppress(ValueError):  # it was killed, which is why it fails
                    self.network.kill(f"trainer:{rank}")

        threads = [
            threading.Thread(target=trainer, args=(rank,), name=f"trainer {rank}", daemon=True)
            for rank in range(trainers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        errors = [error for error in errors if not isinstance(error, Killed)]
        if errors:
            raise errors[0]
        assert all(not thread.is_alive() for thread in threads)
        return [one for one in found if one is not None]

    def close(self) -> None:
        for client in self.clients:
            client.endpoint.close()
        for server in self.servers:
            server.close()


def alone(
    shards: int, steps: int, optimizer: Any = plain_sgd, start: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """What one process gets on the joined batches."""
    from internals.tensor import Tensor

    start = parameters() if start is None else start
    tensors = {name: Tensor(value, requires_grad=True) for name, value in start.items()}
    moved = optimizer(list(tensors.values()))
    for step in range(steps):
        batches = [batch(shard, step, dtype=start["w"].dtype) for shard in range(shards)]
        x, y = (np.concatenate(part) for part in zip(*batches, strict=True))
        values = {name: np.array(tensor.detach().numpy()) for name, tensor in tensors.items()}
        _, gradients = loss_and_gradients(values, x, y)
        for name, tensor in tensors.items():
            tensor.grad = Tensor(gradients[name])
        moved.step()
    return {name: np.array(tensor.detach().numpy()) for name, tensor in tensors.items()}
