"""An optimizer whose state is cut into shards, one on each rank; in stage 2 the gradients too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.distributed import collectives
from internals.distributed.collectives import Work
from internals.distributed.group import Group
from internals.distributed.parallel.buckets import Bucket, in_buckets
from internals.distributed.parallel.reducer import Reducer
from internals.distributed.parallel.wrapped import check_same, check_unchanged, checked, on_the_cpu
from internals.nn import Module
from internals.optim import Optimizer
from internals.tensor import Tensor, wrap

NAME = "ShardedOptimizer"


class ShardedOptimizer:
    """Data parallel training in which each rank moves only its share of the parameters, and keeps only its state.

    Every rank has the whole module. After a backward pass the gradients are averaged over the ranks; `step` lets each
    rank move its share, and gathers the others'. The same steps as the optimizer makes on one process.

    Parameters
    ----------
    module : Module
        On the cpu, the same on every rank; its parameters and buffers are overwritten with rank 0's, and from then on
        lie in flat arrays, one for each bucket.
    optimizer : subclass of Optimizer
        Its rule is entry-wise, so it may be given any part of the parameters.
    group : Group
    stage : int
        1: gradients are all-reduced, and whole on each rank. 2: they are reduce-scattered as they come, and each rank
        keeps its share; ``parameter.grad`` is None after a pass.
    bucket_bytes : int
        See `DistributedDataParallel`.
    settings
        The optimizer's: ``lr=...``.

    Attributes
    ----------
    optimizer : Optimizer
        Of this rank's shards; schedules change its ``lr``.

    Raises
    ------
    TypeError, ValueError, MismatchError, RuntimeError
        See `DistributedDataParallel`; TypeError also for what is no optimizer.

    References
    ----------
    Rajbhandari et al. (2020), ZeRO: memory optimizations toward training trillion parameter models, §5.
    """

    def __init__(
        self,
        module: Module,
        optimizer: type[Optimizer],
        group: Group,
        *,
        stage: int = 1,
        bucket_bytes: int = 25 << 20,
        **settings: Any,
    ) -> None:
        if not (isinstance(optimizer, type) and issubclass(optimizer, Optimizer)):
            raise TypeError(f"{NAME}: expected the class of an optimizer, such as optim.Adam, got {optimizer!r:.60}")
        if stage not in (1, 2):
            raise ValueError(f"{NAME}: stage is 1 or 2, got {stage!r}; FullyShardedDataParallel is stage 3")
        self._named = checked(NAME, module, group, bucket_bytes)
        on_the_cpu(NAME, self._named)
        check_same(NAME, self._named, group)
        self.module, self.stage, self._group = module, stage, group
        for _, value in [*module.named_parameters(), *module.named_buffers()]:
            collectives.broadcast(value, 0, group=group)
        self._leaves = [parameter.node for _, parameter in self._named]
        self.buckets = in_buckets(self._named, bucket_bytes, parts=group.size)
        self._values = [bucket.collect_values() for bucket in self.buckets]
        self._shards: list[Tensor] = []
        for bucket, flat in zip(self.buckets, self._values, strict=True):
            for place, parameter in enumerate(bucket.parameters):
                parameter.data = bucket.view(flat, place)
            shard = wrap(bucket.part(flat, group.rank, group.size))
            shard.requires_grad = True
            self._shards.append(shard)
        self.optimizer = optimizer(self._shards, **settings)
        launch, finish = (self._all_reduce, self._whole) if stage == 1 else (self._reduce_scatter, self._shared)
        self._reducer = Reducer(NAME, self.buckets, group, launch, finish, keep=stage == 1)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for _, parameter in self._named:
            parameter.grad = None
        for shard in self._shards:
            shard.grad = None

    def step(self) -> None:
        """Move this rank's share, and gather what the others moved."""
        check_unchanged(NAME, self._named, self._leaves, self.module)
        self._reducer.start()
        self.optimizer.step()
        works = [
            collectives.all_gather(shard.detach(), into=flat, group=self._group, asynchronous=True)
            for shard, flat in zip(self._shards, self._values, strict=True)
        ]
        for work in works:
            work.wait()
        for _, parameter in self._named:
            parameter.storage.version += 1

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scale the gradients so that their norm, over all parameters, is at most `max_norm`; returns what it was.

        Every rank calls it.
        """
        return clip_shards(self._shards, self._group, max_norm)

    def memory(self) -> dict[str, int]:
        """Bytes on this rank: of parameters, of gradients, and of what the optimizer remembers."""
        gradients = {id(_memory_of(one.grad.data)): _memory_of(one.grad.data).nbytes for one in self._with_gradients()}
        state = sum(
            slot.nbytes for slots in self.optimizer.state.values() for slot in slots.values() if hasattr(slot, "nbytes")
        )
        return {
            "parameters": sum(flat.nbytes for flat in self._values),
            "gradients": sum(gradients.values()),
            "optimizer state": state,
        }

    def _with_gradients(self) -> list[Any]:
        return [one for one in (*self._shards, *(p for _, p in self._named)) if one.grad is not None]

    def _all_reduce(self, bucket: Bucket, flat: np.ndarray) -> Work:
        return collectives.all_reduce(flat, "mean", group=self._group, asynchronous=True)

    def _whole(self, bucket: Bucket, flat: np.ndarray, work: Work) -> None:
        work.wait()
        for place in range(len(bucket.parameters)):
            bucket.hand_out_gradient(flat, place)
        shard = self._shards[self.buckets.index(bucket)]
        shard.grad = wrap(bucket.part(flat, self._group.rank, self._group.size))

    def _reduce_scatter(self, bucket: Bucket, flat: np.ndarray) -> Work:
        return collectives.reduce_scatter(flat, "mean", group=self._group, asynchronous=True)

    def _shared(self, bucket: Bucket, flat: np.ndarray, work: Work) -> None:
        shard = self._shards[self.buckets.index(bucket)]
        mine = work.wait()
        if shard.grad is None:
            shard.grad = wrap(mine)
        else:
            shard.grad.data += mine


def clip_shards(shards: Sequence[Tensor], group: Group, max_norm: float) -> float:
    """Scale gradients of which each rank has a part by their norm over all ranks; returns what it was."""
    given = [shard.grad.data for shard in shards if shard.grad is not None]
    total = np.array([math.fsum(float(np.sum(np.square(one, dtype=np.float64))) for one in given)])
    norm = math.sqrt(float(collectives.all_reduce(total, group=group)[0]))
    if norm > max_norm:
        for gradient in given:
            gradient *= gradient.dtype.type(max_norm / (norm + 1e-6))
    return norm


def _memory_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory this one looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
