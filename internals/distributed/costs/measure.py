"""Measuring costs, over the group that is to be predicted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from internals.distributed.costs.model import NOTHING, Costs, PerByte, Way
from internals.distributed.transport import Message

if TYPE_CHECKING:
    from internals.distributed.group import Group

SMALL = 256
"""Bytes of a message that costs α only."""
SIZES = (1 << 17, 1 << 18, 1 << 20, 4 << 20, 8 << 20, 16 << 20)
"""Bytes of the arrays by which β is found. A message alone is one of them, and a message of a round the half of one, as
in the algorithms that send least; both up to a collective's longest message."""
SEGMENT = 8 << 20
"""Bytes of the longest message: a longer array goes in several."""
BURST = 8
"""Messages of a burst."""
ROW = 8
"""Rounds in a row: as in a collective, nobody waits for all before the next. Fewer of long messages."""

Take = Callable[[np.ndarray, np.ndarray], object]
"""What is done with what came: ``take(mine, theirs)``."""
Rounds = dict[str, list[float]]
"""Seconds of one round, by what is done in it."""


def measure(
    group: Group,
    *,
    rounds: int = 5,
    smallest: Callable[[], object] | None = None,
    sizes: Sequence[int] = SIZES,
) -> Costs:
    """The costs of messages among the ranks of a group, as it is: its transport, its machine, its load. All ranks call.

    Parameters
    ----------
    group : Group
        Of 2 ranks or more.
    rounds : int
        Of each kind; the median counts.
    smallest : callable, optional
        A collective of one round and few bytes, ``lambda: all_reduce(one, group=group, algorithm="flat")``: what it
        takes beyond its round is `Costs.call`.
    sizes : sequence of int
        Bytes of the arrays by which β is found, multiples of 8.

    Returns
    -------
    Costs
        The same on every rank.

    Raises
    ------
    ValueError
        A group of one; no size, or one that is no multiple of 8 above 0.
    """
    if group.size < 2:
        raise ValueError("measure: a group of one rank sends nothing; expected 2 ranks or more")
    if not sizes or any(nbytes < 8 or nbytes % 8 for nbytes in sizes):
        raise ValueError(f"measure: sizes {list(sizes)}; expected multiples of 8 bytes, one at least")
    kinds = _kinds(group, smallest, sizes)
    timed: Rounds = {name: [] for name in kinds}
    for turn in range(rounds + 1):
        for name, (kind, row) in kinds.items():  # in turn, so that a load that comes and goes is in all of them
            _together(group)
            for _ in range(2):  # those who wake first wait for the others, and who has no part in it goes to rest
                kind()
            start = time.perf_counter()
            for _ in range(row):
                kind()
            if turn:  # the first is slower: memory is touched for the first time
                timed[name].append((time.perf_counter() - start) / row)
    agreed = _agreed(group, {name: statistics.median(seconds) for name, seconds in timed.items()})
    return _fitted(agreed, group.size, sizes)


def _kinds(
    group: Group, smallest: Callable[[], object] | None, sizes: Sequence[int]
) -> dict[str, tuple[Callable[[], object], int]]:
    """What is timed, and how often in a row."""
    short = _Rounds(group, SMALL)
    kinds: dict[str, tuple[Callable[[], object], int]] = {
        "alone": (partial(short.alone, _copied), ROW),
        "together": (partial(short.together, _copied), ROW),
        "burst": (short.burst, ROW),
    }
    if smallest is not None:
        kinds["call"] = (smallest, ROW)
    for nbytes in sizes:
        row = ROW if nbytes < 1 << 20 else ROW // 2
        through = _Rounds(group, nbytes)
        for what, take in (("left", _left), ("copied", _copied), ("added", _added)):
            kinds[f"alone {nbytes} {what}"] = (partial(through.alone, take), row)
            kinds[f"together {nbytes} {what}"] = (partial(through.together, take), row)
        kinds[f"own {nbytes}"] = (through.own, row)
        if group.size > 2:
            kinds[f"to each {nbytes}"] = (through.to_each, row)
    return kinds


def _left(mine: np.ndarray, theirs: np.ndarray) -> None:
    pass


def _copied(mine: np.ndarray, theirs: np.ndarray) -> None:
    mine[...] = theirs


def _added(mine: np.ndarray, theirs: np.ndarray) -> None:
    np.add(mine, theirs, out=mine)


class _Rounds:
    """Rounds of messages that come from one array and go there, part after part, until the array begins anew."""

    def __init__(self, group: Group, nbytes: int) -> None:
        self.group = group
        whole = np.zeros(nbytes // 4, np.float32)
        self.parts = _cut(whole, min(nbytes, SEGMENT))
        self.halves = _cut(whole, min(nbytes // 2, SEGMENT))
        self.place = 0
        self.others = [(group.rank + step) % group.size for step in range(1, group.size)]

    def alone(self, take: Take) -> None:
        """There from rank 0 to rank 1, and back; the others rest."""
        rank, group = self.group.rank, self.group
        if rank > 1:
            return
        part = self.parts[self.place % len(self.parts)]
        self.place += 1
        if rank == 0:
            group.send(1, "there", part)
        take(part, group.receive(1 - rank, "back" if rank == 0 else "there").arrays[0])
        if rank == 1:
            group.send(0, "back", part)

    def together(self, take: Take) -> None:
        """Each sends to the next, and takes what comes."""
        outgoing, incoming = (self.halves[(self.place + step) % len(self.halves)] for step in (0, 1))
        self.place += 1
        self.group.send(self.others[0], "swap", outgoing)
        take(incoming, self.group.receive(self.others[-1], "swap").arrays[0])

    def burst(self) -> None:
        for _ in range(BURST):
            self.group.send(self.others[0], "burst", self.parts[0])
        for _ in range(BURST):
            self.group.receive(self.others[-1], "burst")

    def own(self) -> None:
        """Each copies, and nobody sends."""
        self.place += 1
        _copied(*(self.halves[(self.place + step) % len(self.halves)] for step in (0, 1)))

    def to_each(self) -> None:
        """Each sends the same to all others; nobody looks at what comes."""
        group = self.group
        message = Message(group.kind("each"), {}, [self.halves[self.place % len(self.halves)]])
        self.place += 1
        group.endpoint.send_all([group.name_of(rank) for rank in self.others], message)
        for rank in reversed(self.others):
            group.receive(rank, "each")


def _cut(whole: np.ndarray, nbytes: int) -> list[np.ndarray]:
    return [whole[begin : begin + nbytes // 4] for begin in range(0, whole.size, nbytes // 4)]


def _fitted(found: dict[str, float], size: int, sizes: Sequence[int]) -> Costs:
    """What follows from the times of the rounds."""
    alone, together = found["alone"] / 2, found["together"]  # there and back are two messages
    burst = max(0.0, found["burst"] - together) / (BURST - 1)

    def way(name: str, start: float, times: int, longest: dict[int, int]) -> Way:
        def part(what: str, before: Callable[[int], float]) -> PerByte:
            return PerByte.of(
                {n: (found[f"{name} {n} {what}"] / times - before(n)) / nbytes for n, nbytes in longest.items()}
            )

        def left(n: int) -> float:
            return max(start, found[f"{name} {n} left"] / times)

        return Way(start, part("left", lambda n: start), part("copied", left), part("added", left))

    halves = {n: min(n // 2, SEGMENT) for n in sizes}
    again = NOTHING
    if size > 2:
        further = {n: found[f"to each {n}"] - found[f"together {n} left"] - (size - 2) * burst for n in sizes}
        again = PerByte.of({n: seconds / (size - 2) / halves[n] for n, seconds in further.items()})
    ways = way("alone", alone, 2, {n: min(n, SEGMENT) for n in sizes}), way("together", together, 1, halves)
    call = max(0.0, found["call"] - together - (size - 2) * burst) if "call" in found else 0.0
    own = PerByte.of({n: found[f"own {n}"] / nbytes for n, nbytes in halves.items()})
    return Costs(*ways, burst, again, own, call, size)


def _together(group: Group) -> None:
    """Wait until all are here."""
    if group.rank:
        group.send(0, "here")
        group.receive(0, "go")
        return
    for rank in range(1, group.size):
        group.receive(rank, "here")
    for rank in range(1, group.size):
        group.send(rank, "go")


def _agreed(group: Group, mine: dict[str, float]) -> dict[str, float]:
    """For each kind the slowest rank's time; of messages alone rank 0's, which is there at their beginning and end."""
    if group.rank:
        group.send(0, "mine", seconds=mine)
        return dict(group.receive(0, "all").fields["seconds"])
    rows = [mine] + [group.receive(rank, "mine").fields["seconds"] for rank in range(1, group.size)]
    agreed = {
        name: seconds if name.startswith("alone") else max(row[name] for row in rows) for name, seconds in mine.items()
    }
    for rank in range(1, group.size):
        group.send(rank, "all", seconds=agreed)
    return agreed
