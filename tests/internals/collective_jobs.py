"""What ranks in processes of their own run; a new process finds these by name."""

from __future__ import annotations

import os
import signal
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from internals import Tensor, nn, ops, optim
from internals.distributed import collectives
from internals.distributed.errors import DistributedError
from internals.distributed.group import Group
from internals.distributed.parallel import DistributedDataParallel, FullyShardedDataParallel, ShardedOptimizer

SIZES = (0, 1, 5, 1001, 300_000, 5_000_003)


def reductions(group: Group) -> dict[str, list[Any]]:
    """A checksum of the bits and the worst error, for each algorithm at each size."""
    found: dict[str, list[Any]] = {}
    for size in SIZES:
        drawn = [
            np.random.default_rng([rank, size]).standard_normal(size).astype(np.float32) for rank in range(group.size)
        ]
        expected = np.sum(drawn, axis=0, dtype=np.float64)
        for name in collectives.ALGORITHMS:
            got = collectives.all_reduce(drawn[group.rank].copy(), group=group, algorithm=name)
            worst = float(np.abs(got - expected).max()) if size else 0.0
            found.setdefault(name, []).append([zlib.crc32(got.tobytes()), worst])
    gathered = collectives.all_gather(np.full(200_000, group.rank), group=group)
    assert (gathered == np.arange(group.size)[:, None]).all()
    parts = collectives.all_to_all([np.full((rank + 1, 50_000), group.rank) for rank in range(group.size)], group=group)
    assert [part.shape for part in parts] == [(group.rank + 1, 50_000)] * group.size
    assert [part[0, 0] for part in parts] == list(range(group.size))
    return found


def one_dies(group: Group, directory: str, algorithm: str) -> None:
    """Rank 2 is killed before a call; the others write down what they are told."""
    try:
        collectives.barrier(group=group)  # its last word in it may die with it
        if group.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(3):
            collectives.all_reduce(np.ones(2_000_000, np.float32), group=group, algorithm=algorithm)
    except DistributedError as error:
        Path(directory, str(group.rank)).write_text(f"{type(error).__name__} {getattr(error, 'peer', '')}")


def they_disagree(group: Group) -> str:
    """Rank 1 has another shape."""
    try:
        collectives.all_reduce(np.ones(100_000 + (group.rank == 1), np.float32), group=group, algorithm="ring")
    except DistributedError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def net() -> nn.Sequential:
    rng = np.random.default_rng(4)
    parts = [nn.Linear(8, 300, rng=rng), nn.Tanh(), nn.Linear(300, 200, rng=rng), nn.Tanh(), nn.Linear(200, 3, rng=rng)]
    return nn.Sequential(*parts)


def trained(group: Group, way: str) -> dict[str, np.ndarray]:
    """Parameters after a few steps, each rank with its share of the batch."""
    rng = np.random.default_rng(9)
    xs, ys = rng.standard_normal((5, 24, 8)).astype(np.float32), rng.integers(0, 3, (5, 24))
    each = 24 // group.size
    share = slice(group.rank * each, (group.rank + 1) * each)
    module: Any = net()
    model, optimizer = module, None
    if way == "ddp":
        model = DistributedDataParallel(module, group, bucket_bytes=100_000)
    elif way == "fsdp":
        model = FullyShardedDataParallel(module, group)
    elif way != "alone":
        optimizer = ShardedOptimizer(module, optim.Adam, group, stage=int(way[-1]), bucket_bytes=100_000, lr=0.01)
    optimizer = optimizer or optim.Adam(model.parameters(), lr=0.01)
    for x, y in zip(xs, ys, strict=True):
        optimizer.zero_grad()
        ops.cross_entropy(model(Tensor(x[share])), Tensor(y[share])).backward()
        optimizer.step()
    return (model if way == "fsdp" else module).state_dict()
