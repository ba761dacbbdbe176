"""Data parallel training: every rank has the whole module and a part of the batch; gradients are averaged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from internals.device import Event
from internals.distributed import collectives
from internals.distributed.collectives import Work
from internals.distributed.group import Group
from internals.distributed.parallel.buckets import Bucket, in_buckets
from internals.distributed.parallel.reducer import Reducer
from internals.distributed.parallel.wrapped import check_same, check_unchanged, checked
from internals.nn import Module
from internals.tensor import Tensor

NAME = "DistributedDataParallel"


class DistributedDataParallel(Module):
    """A module whose gradients are the means over all ranks, sent while the backward pass goes on.

    Every rank starts from rank 0's parameters and makes the same steps, so parameters stay the same bits everywhere.

    Parameters
    ----------
    module : Module
        The same on every rank: names, shapes, dtypes. Its parameters and buffers are overwritten with rank 0's.
    group : Group
    bucket_bytes : int
        Gradients are sent in buckets of about this many bytes, the last registered parameters first. Small buckets are
        sent early, large ones cost fewer messages.
    find_unused_parameters : bool
        Look, after each forward, which parameters the outputs depend on, and don't wait for the others. A parameter
        that no rank used keeps the gradient it had.
    broadcast_buffers : bool
        Send rank 0's buffers to all before each forward in training mode.

    Attributes
    ----------
    module : Module
    buckets : list of Bucket

    Raises
    ------
    TypeError, ValueError
        No module or group, parameters on several devices, nothing to train.
    MismatchError
        The ranks' modules differ; names the parameter.
    RuntimeError
        In forward, when the module's parameters are not those that were wrapped; in backward, when no gradient came
        for a parameter, which it names. The other ranks, which wait for it, raise a `DistributedError` that says so.

    Notes
    -----
    A gradient lies in its bucket, and the next pass writes there: clone what is to be kept (PyTorch's
    ``gradient_as_bucket_view=True``).

    With equal shares of the batch and a loss that is a mean over it, steps equal those of one process on the whole
    batch, except where the forward looks at the batch (batch normalisation), and but for rounding.

    References
    ----------
    Li et al. (2020), PyTorch Distributed: experiences on accelerating data parallel training.
    """

    def __init__(
        self,
        module: Module,
        group: Group,
        *,
        bucket_bytes: int = 25 << 20,
        find_unused_parameters: bool = False,
        broadcast_buffers: bool = True,
    ) -> None:
        self._named = checked(NAME, module, group, bucket_bytes)
        check_same(NAME, self._named, group)
        self.module = module
        self._group = group
        self._find_unused, self._broadcast_buffers = find_unused_parameters, broadcast_buffers
        self._sync = True
        self._used_work: Work | None = None
        for _, value in [*module.named_parameters(), *module.named_buffers()]:
            collectives.broadcast(value, 0, group=group)
        self._leaves = [parameter.node for _, parameter in self._named]
        self.buckets = in_buckets(self._named, bucket_bytes)
        self._reducer = Reducer(NAME, self.buckets, group, self._launch, self._finish)

    def forward(self, *inputs: Any, **settings: Any) -> Any:
        began = time.perf_counter()
        check_unchanged(NAME, self._named, self._leaves, self.module)
        self._reducer.start()
        self._reducer.active = self._sync
        self._reducer.events.clear()
        if self._sync and self._broadcast_buffers and self.training:
            for _, value in self.module.named_buffers():
                collectives.broadcast(value, 0, group=self._group)
        outputs = self.module(*inputs, **settings)
        if self._find_unused and self._sync:
            self._look_for_unused(outputs)
        self._reducer.note("forward", began, time.perf_counter())
        return outputs

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Only add gradients up, here, for forwards called inside; the next pass outside sends the sums."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def timeline(self) -> list[Event]:
        """What the last forward and backward did: lane "host" computes and waits, lane "copy" is the all-reduces."""
        return self._reducer.timeline()

    def _look_for_unused(self, outputs: Any) -> None:
        reached = _leaves_of(outputs)
        self._reducer.unused = {name for name, parameter in self._named if parameter.node not in reached}
        self._used_work = None

    def _launch(self, bucket: Bucket, flat: np.ndarray) -> Work:
        if self._find_unused and self._used_work is None:
            # A gradient of an earlier pass, under no_sync, is to be sent too.
            here = [name not in self._reducer.unused or one.grad is not None for name, one in self._named]
            used = np.array(here, np.uint8)
            self._used_work = collectives.all_reduce(used, "max", group=self._group, asynchronous=True)
        return collectives.all_reduce(flat, "mean", group=self._group, asynchronous=True)

    def _finish(self, bucket: Bucket, flat: np.ndarray, work: Work) -> None:
        work.wait()
        unused: set[str] = set()
        if self._used_work is not None:
            used = self._used_work.wait()
            unused = {name for (name, _), anywhere in zip(self._named, used, strict=True) if not anywhere}
        for place, name in enumerate(bucket.names):
            if name not in unused:
                bucket.hand_out_gradient(flat, place)


def _leaves_of(outputs: Any) -> set[Any]:
    """Every entry of the tape that outputs, nested in any way, were made from."""
    seen: set[Any] = set()
    stack: list[Any] = []
    waiting = [outputs]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            stack.append(value.node)
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack.extend(node.inputs)
    return seen
