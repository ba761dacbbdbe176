"""The loop of one trainer: compute gradients of its data shards, push, pull; take over what others leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.distributed.server.client import Client
from internals.distributed.server.links import RolledBack, ShardsMoved


@dataclass
class Gradients:
    """What is computed from one batch.

    Attributes
    ----------
    loss : float
        The mean over the batch.
    dense : mapping of name to array
        Gradients of `loss`.
    examples : float
        In the batch.
    rows : mapping of table to (ids, gradients)
    """

    loss: float
    dense: Mapping[str, Any]
    examples: float = 1.0
    rows: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


Work = Callable[[dict[str, np.ndarray], int, int], Gradients]


@dataclass(frozen=True)
class Span:
    """What a trainer did, and when; seconds of `time.monotonic`, which all processes of a machine share."""

    what: str
    start: float
    end: float


class Trainer:
    """Train until every data shard has done its steps.

    Parameters
    ----------
    client : Client
        Initialised.
    work : callable
        ``work(values, shard, step)`` gives the `Gradients` of one batch. The batch must be a function of shard and
        step alone: who takes over a shard, or repeats a step after a server came back, computes the same.

    Attributes
    ----------
    losses : dict of (shard, step) to float
        What this trainer computed.
    spans : list of Span
        ``"compute"`` and ``"wait"``: push, pull, and the barrier if there is one.
    taken_over : list of int
        Data shards that came from trainers that were lost.
    """

    def __init__(self, client: Client, work: Work) -> None:
        self.client = client
        self.work = work
        self.losses: dict[tuple[int, int], float] = {}
        self.spans: list[Span] = []

    @property
    def taken_over(self) -> list[int]:
        return sorted({shard for shard, _ in self.losses} - {self.client.rank})

    def run(self, steps: int) -> dict[str, np.ndarray]:
        """Train.

        Parameters
        ----------
        steps : int
            Of each data shard, counted from the start of training, not of this call: a trainer that comes back, or
            servers that come from a checkpoint, go on where they are.

        Returns
        -------
        dict of name to array
            The values after the last step; the same on all trainers.
        """
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
            raise ValueError(f"Trainer.run: steps={steps!r}; expected a number of steps, 0 or more")
        return self._in_step(steps) if self.client.mode == "sync" else self._apart(steps)

    def _in_step(self, steps: int) -> dict[str, np.ndarray]:
        values = self._again()
        while (step := self.client.step) < steps:
            done: set[int] = set()
            while self.client.step == step:
                due = [shard for shard in self.client.shards if shard not in done]
                try:
                    for shard in due[:-1]:
                        found = self._compute(values, shard, step)
                        done.add(shard)
                        self._push(found, shard, step)
                    if due:
                        found = self._compute(values, due[-1], step)
                        done.add(due[-1])
                        values = self._pushpull(found, due[-1], step, (None, step + 1))
                    else:
                        values = self._pull(step + 1)
                except ShardsMoved:
                    continue
                except RolledBack:
                    values = self._again()
                    break
        return values

    def _apart(self, steps: int) -> dict[str, np.ndarray]:
        clocks = self.client.clocks
        values: dict[str, np.ndarray] | None = None
        while True:
            clocks = self.client.clocks
            shard = min(self.client.shards, key=lambda one: clocks[one], default=None)
            try:
                if shard is None or clocks[shard] >= steps:
                    return self._pull(steps)
                step = clocks[shard]
                if values is None:
                    values = self._pull(step, shard)
                found = self._compute(values, shard, step)
                values = self._pushpull(found, shard, step, self._next(shard, step, steps))
            except ShardsMoved:
                values = None

    def _next(self, shard: int, step: int, steps: int) -> tuple[int | None, int]:
        """What comes after this step of this shard: a step of the shard that is furthest behind."""
        clocks = {one: self.client.clocks[one] for one in self.client.shards} | {shard: step + 1}
        behind = min(clocks, key=lambda one: clocks[one])
        return (behind, clocks[behind]) if clocks[behind] < steps else (None, steps)

    def _again(self) -> dict[str, np.ndarray]:
        """The values of the step the servers are at."""
        while True:
            try:
                return self._pull(self.client.step)
            except (ShardsMoved, RolledBack):
                continue

    def _compute(self, values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        start = time.monotonic()
        found = self.work(values, shard, step)
        self.spans.append(Span("compute", start, time.monotonic()))
        self.losses[shard, step] = float(found.loss)
        return found

    def _push(self, found: Gradients, shard: int, step: int) -> None:
        start = time.monotonic()
        self.client.push(found.dense, shard=shard, step=step, examples=found.examples, rows=found.rows)
        self.spans.append(Span("wait", start, time.monotonic()))

    def _pull(self, step: int, shard: int | None = None) -> dict[str, np.ndarray]:
        start = time.monotonic()
        values = self.client.pull(step, shard=shard)
        self.spans.append(Span("wait", start, time.monotonic()))
        return values

    def _pushpull(self, found: Gradients, shard: int, step: int, then: tuple[int | None, int]) -> dict[str, np.ndarray]:
        start = time.monotonic()
        values = self.client.pushpull(
            found.dense, shard=shard, step=step, examples=found.examples, rows=found.rows, then=then
        )
        self.spans.append(Span("wait", start, time.monotonic()))
        return values
