"""Sends gradients while the backward pass still computes others.

Every parameter has a hook on its gradient. When the gradients of a bucket are known it is launched, in the order of
the buckets, which is one order on all ranks, whatever order gradients come in.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence

import numpy as np

from internals.autodiff.hooks import after_backward
from internals.device import Event
from internals.distributed.collectives import Work, communicator
from internals.distributed.errors import DistributedError
from internals.distributed.group import Group
from internals.distributed.parallel.buckets import Bucket
from internals.tensor import Tensor

Launch = Callable[[Bucket, np.ndarray], Work]
Finish = Callable[[Bucket, np.ndarray, Work], None]


class Reducer:
    """The gradients of one module on their way to the other ranks.

    Parameters
    ----------
    caller : str
        For errors.
    launch : callable, ``launch(bucket, flat) -> Work``
        Start sending a bucket, whose gradients lie in `flat`.
    finish : callable, ``finish(bucket, flat, work)``
        Wait for it, and put what came where it belongs.
    keep : bool
        Whether parameters keep their gradients once those are in a bucket, and buckets their memory after a pass.

    Attributes
    ----------
    active : bool
        Whether gradients are sent, or only added up here.
    unused : set of str
        Parameters for which no gradient will come in the next pass.
    events : list of Event
        What the last pass did, and when.
    """

    def __init__(
        self, caller: str, buckets: Sequence[Bucket], group: Group, launch: Launch, finish: Finish, *, keep: bool = True
    ) -> None:
        self.caller, self.buckets, self.group = caller, buckets, group
        self.active, self.unused = True, set[str]()
        self.events: list[Event] = []
        self._launch, self._finish, self._keep = launch, finish, keep
        self._flats: list[np.ndarray | None] = [None] * len(buckets)
        self._left: list[set[int]] | None = None
        self._works: list[Work] = []
        self._finished = 0
        self._at = 0.0
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._hook(number, place))
            for number, bucket in enumerate(buckets)
            for place, parameter in enumerate(bucket.parameters)
        ]

    def remove(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()

    def note(self, what: str, began: float, ended: float, lane: str = "host") -> None:
        """Add to what the last pass did; times are those of ``time.perf_counter()``."""
        self.events.append(Event(what, lane, began, ended))
        self._at = ended

    def start(self) -> None:
        """Get ready for a pass.

        Raises
        ------
        RuntimeError
            The last one broke off half-way.
        """
        if self._left is not None and self._works:
            raise RuntimeError(
                f"{self.caller}: the last backward pass broke off when some of its gradients had been sent, so the "
                "ranks are out of step. Make a new group, and wrap the module anew."
            )
        self._left = None

    def _hook(self, number: int, place: int) -> Callable[[Tensor], None]:
        me = weakref.ref(self)  # the tape's table of hooks must not keep the parameters alive

        def came(parameter: Tensor) -> None:
            reducer = me()
            if reducer is None or not reducer.active:
                return
            if parameter.grad is not None and parameter.grad.requires_grad:
                raise RuntimeError(
                    f"{reducer.caller}: a recorded backward pass (create_graph=True) can't be sent to other ranks"
                )
            now = time.perf_counter()
            reducer.note(reducer.buckets[number].names[place], reducer._at or now, now)
            reducer._come(number, place)

        return came

    def _come(self, number: int, place: int) -> None:
        if self._left is None:
            self._begin()
        assert self._left is not None
        if place not in self._left[number]:
            return
        bucket, flat = self.buckets[number], self._flat(number)
        bucket.collect_gradient(flat, place)
        if not self._keep:
            bucket.parameters[place].grad = None
        self._left[number].discard(place)
        while len(self._works) < len(self.buckets) and not self._left[len(self._works)]:
            following = len(self._works)
            self._works.append(self._launch(self.buckets[following], self._flat(following)))
        while self._finished < len(self._works) and self._works[self._finished].done:
            self._finish_next()
        self.note("fill the bucket", self._at, time.perf_counter())

    def _begin(self) -> None:
        self._left = [set(range(len(bucket.parameters))) for bucket in self.buckets]
        self._works, self._finished = [], 0
        after_backward(self._end)
        if self.unused:
            for number, bucket in enumerate(self.buckets):
                for place, name in enumerate(bucket.names):
                    if name in self.unused:
                        self._come(number, place)

    def _end(self) -> None:
        assert self._left is not None
        left, self._left = self._left, None
        missing = [
            bucket.names[place]
            for bucket, places in zip(self.buckets, left, strict=True)
            for place in sorted(places)
        ]  # fmt: skip
        if missing:
            told = (
                f"{self.caller}: no gradient came for {', '.join(missing)} in this backward pass, and the other ranks "
                "wait for it. If the loss need not depend on every parameter, pass find_unused_parameters=True; if a "
                "part of the outputs is not used in the loss, return only what is."
            )
            communicator(self.group).fail(DistributedError(f"rank {self.group.rank}: {told}"))
            raise RuntimeError(told)
        self.note("", self._at, time.perf_counter())
        while self._finished < len(self.buckets):
            began = time.perf_counter()
            number = self._finished
            self._finish_next()
            self.note(f"wait for bucket {number}", began, time.perf_counter())

    def _finish_next(self) -> None:
        number = self._finished
        work, flat = self._works[number], self._flat(number)
        self._finished += 1
        self._finish(self.buckets[number], flat, work)
        if not self._keep:
            self._flats[number] = None
        self.events.append(Event(f"bucket {number}", "copy", work.began, work.ended))

    def _flat(self, number: int) -> np.ndarray:
        flat = self._flats[number]
        if flat is None:
            flat = self._flats[number] = self.buckets[number].empty()
        return flat

    def timeline(self) -> list[Event]:
        """The events of the last pass, from 0 on, without those that took no time."""
        if not self.events:
            return []
        start = min(event.start for event in self.events)
        moved = [event._replace(start=event.start - start, end=event.end - start) for event in self.events]
        return sorted((event for event in moved if event.end > event.start and event.what), key=lambda e: e.start)
