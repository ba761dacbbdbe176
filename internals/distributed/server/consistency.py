"""When a gradient is applied, and who may go on: in step, as it comes, or not too far apart.

A trainer works on data shards, and all is counted by shard, not by trainer: who computes a shard's gradient may change,
what the servers wait for does not. The *clock* of a shard is how many of its steps have been pushed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.distributed.transport import Message


@dataclass
class Contribution:
    """What one data shard adds to one step.

    Attributes
    ----------
    shard, step : int
    examples : float
        Of the shard's batch: its weight in the mean. 0 for a gradient that was dropped where it was made.
    dense : dict of name to array
        Gradients of this server's pieces.
    rows : dict of table to (ids, gradients)
    message : Message, optional
        Whose memory the arrays may be; kept as long as they are.
    """

    shard: int
    step: int
    examples: float = 1.0
    dense: dict[str, np.ndarray] = field(default_factory=dict)
    rows: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    message: Message | None = None


class Consistency:
    """What the servers wait for; a server has one.

    Parameters
    ----------
    shards : int
        Data shards.

    Attributes
    ----------
    name : str
    late, repeated : int
        Gradients that came when nobody waited for them any more; those that had come before.
    """

    name = ""

    def __init__(self, shards: int) -> None:
        if not isinstance(shards, int) or isinstance(shards, bool) or shards < 1:
            raise ValueError(f"{type(self).__name__}: shards={shards!r}; there must be 1 data shard or more")
        self.shards = shards
        self.late = self.repeated = 0
        self.clocks = [0] * shards

    def take(self, contribution: Contribution) -> list[list[Contribution]]:
        """Take in a gradient; what is to be applied now, and together.

        Returns
        -------
        list of lists, each one step of the optimizer
        """
        raise NotImplementedError

    def is_open(self, shard: int | None, step: int) -> bool:
        """Whether the values for `shard`'s `step` may be given away; without a shard, those that hold all before it."""
        raise NotImplementedError

    def missing(self, step: int) -> list[int]:
        """The shards that keep the values for `step` back."""
        return []

    def state(self) -> dict[str, Any]:
        """Plain data, for a checkpoint taken between two steps."""
        return {"clocks": list(self.clocks)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, with nothing in hand."""
        if len(state["clocks"]) != self.shards:
            raise ValueError(f"the checkpoint is of {len(state['clocks'])} data shards, this server of {self.shards}")
        self.clocks = list(state["clocks"])


class Synchronous(Consistency):
    """A barrier: a step is taken once all shards have given their gradient for it, or all but the slowest few.

    The gradients are averaged, each with the weight of its batch, always in the order of shards. So training is what
    one process would do on the joined batch, and two runs agree to the last bit, whoever came first.

    Parameters
    ----------
    shards : int
    backup : int
        So many shards, the slowest of each step, are not waited for. What they send later is dropped, and counted.

    Attributes
    ----------
    version : int
        Steps taken.

    References
    ----------
    Chen, Pan, Monga, Bengio, Jozefowicz (2016), Revisiting distributed synchronous SGD, §3.
    """

    name = "sync"

    def __init__(self, shards: int, backup: int = 0) -> None:
        super().__init__(shards)
        if not isinstance(backup, int) or isinstance(backup, bool) or not 0 <= backup < shards:
            raise ValueError(
                f"Synchronous: backup={backup!r}; of {shards} shards, 0 to {shards - 1} need not be waited for"
            )
        self.backup = backup
        self.version = 0
        self._came: dict[int, dict[int, Contribution]] = {}

    def take(self, contribution: Contribution) -> list[list[Contribution]]:
        shard, step = contribution.shard, contribution.step
        if step < self.clocks[shard] or shard in self._came.get(step, ()):
            self.repeated += 1
            return []
        if step > self.version + (self.backup > 0):
            raise ValueError(
                f"shard {shard} is pushed for step {step}, but step {self.version} is not over here; pull first"
            )
        self.clocks[shard] = step + 1
        if step < self.version:
            self.late += 1
            return []
        self._came.setdefault(step, {})[shard] = contribution
        done = []
        while len(self._came.get(self.version, ())) >= self.shards - self.backup:
            came = self._came.pop(self.version)
            done.append([came[shard] for shard in sorted(came)])
            self.version += 1
        return done

    def is_open(self, shard: int | None, step: int) -> bool:
        return self.version >= step

    def missing(self, step: int) -> list[int]:
        came = self._came.get(self.version, {})
        return [shard for shard in range(self.shards) if shard not in came] if self.version < step else []

    def state(self) -> dict[str, Any]:
        # What has come for a step that is not over is not in the checkpoint: it comes again.
        return {"clocks": [min(clock, self.version) for clock in self.clocks], "version": self.version}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.version = state["version"]
        self._came.clear()


class Asynchronous(Consistency):
    """No barrier: each gradient is applied as it comes, whatever the values it was computed with have become.

    References
    ----------
    Dean et al. (2012), Large scale distributed deep networks: Downpour SGD.
    """

    name = "async"

    def take(self, contribution: Contribution) -> list[list[Contribution]]:
        if contribution.step < self.clocks[contribution.shard]:
            self.repeated += 1
            return []
        self.clocks[contribution.shard] = contribution.step + 1
        return [[contribution]]

    def is_open(self, shard: int | None, step: int) -> bool:
        # A trainer always sees its own updates, also those that are on their way when it asks.
        return (min(self.clocks) if shard is None else self.clocks[shard]) >= step

    def missing(self, step: int) -> list[int]:
        return [shard for shard, clock in enumerate(self.clocks) if clock < step]


class BoundedStaleness(Asynchronous):
    """As it comes, but no shard is more than `staleness` steps ahead of the slowest: stale synchronous parallel.

    The values for a shard's step c hold all updates of all shards from steps before ``c - staleness``.

    Parameters
    ----------
    shards : int
    staleness : int
        0: nobody starts a step before all have finished the one before.

    References
    ----------
    Ho et al. (2013), More effective distributed ML via a stale synchronous parallel parameter server, §2.
    """

    name = "ssp"

    def __init__(self, shards: int, staleness: int) -> None:
        super().__init__(shards)
        if not isinstance(staleness, int) or isinstance(staleness, bool) or staleness < 0:
            raise ValueError(f"BoundedStaleness: staleness={staleness!r}; it is a number of steps, 0 or more")
        self.staleness = staleness

    def is_open(self, shard: int | None, step: int) -> bool:
        return super().is_open(shard, step) and min(self.clocks) >= step - self.staleness

    def missing(self, step: int) -> list[int]:
        return [shard for shard, clock in enumerate(self.clocks) if clock < step - self.staleness]


def consistency(mode: str, shards: int, *, backup: int = 0, staleness: int | None = None) -> Consistency:
    """The consistency of that name.

    Raises
    ------
    ValueError
        An unknown mode, or a setting that the mode does not have.
    """
    if mode == "sync" and staleness is None:
        return Synchronous(shards, backup)
    if mode == "async" and staleness is None and not backup:
        return Asynchronous(shards)
    if mode == "ssp" and staleness is not None and not backup:
        return BoundedStaleness(shards, staleness)
    raise ValueError(
        f"mode={mode!r}, backup={backup!r}, staleness={staleness!r}; expected mode='sync' with backup, mode='async', "
        "or mode='ssp' with staleness"
    )
