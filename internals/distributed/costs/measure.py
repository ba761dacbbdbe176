"""Measuring costs, over the group that is to be predicted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from internals.distributed.costs.model import NOTHING, Costs, PerByte, Way, working_set
from internals.distributed.transport import Message

if TYPE_CHECKING:
    from internals.distributed.group import Group

SMALL = 256
"""Bytes of a message that costs α only."""
SIZES = (1 << 16, 1 << 17, 1 << 18, 1 << 20, 4 << 20, 8 << 20, 16 << 20)
"""Bytes of the arrays by which β is found. A message alone is one of them, and a message of a round the half of one, as
in the algorithms that send least; both up to a collective's longest message."""
SEGMENT = 8 << 20
"""Bytes of the longest message: a longer array goes in several."""
BURST = 8
"""Messages of a burst."""
ROW = 8
"""Rounds in a row: as in a collective, nobody waits for all before the next. Fewer of long messages."""

Smallest = Callable[["Group", str], object]
"""An all-reduce of few bytes in a group, by the algorithm of a name."""
Take = Callable[[np.ndarray, np.ndarray], object]
"""What is done with what came: ``take(mine, theirs)``."""
Kind = Callable[[], Any]
"""Something to be timed; what it returns, if anything, are the seconds that count."""
Rounds = dict[str, list[float]]
"""Seconds of one round, by what is done in it."""


def measure(
    group: Group,
    *,
    rounds: int = 5,
    smallest: Smallest | None = None,
    sizes: Sequence[int] = SIZES,
) -> Costs:
    """The costs of messages among the ranks of a group, as it is: its transport, its machine, its load. All ranks call.

    Parameters
    ----------
    group : Group
        Of 2 ranks or more.
    rounds : int
        Of each kind; the lower quartile counts: what others do on the machine only adds to a time.
    smallest : callable, optional
        ``lambda group, algorithm: all_reduce(one, group=group, algorithm=algorithm)``, of few bytes. What it takes
        beyond its messages is `Costs.call` ("flat", in the whole group) and `Costs.turn` ("tree", between two ranks).
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
            told = [kind() for _ in range(row)]
            if turn:  # the first is slower: memory is touched for the first time
                timed[name].append(sum(told) / row if told[0] else (time.perf_counter() - start) / row)
    agreed = _agreed(group, {name: sorted(seconds)[len(seconds) // 4] for name, seconds in timed.items()})
    return _fitted(agreed, group.size, sizes)


def _kinds(group: Group, smallest: Smallest | None, sizes: Sequence[int]) -> dict[str, tuple[Kind, int]]:
    """What is timed, and how often in a row."""
    short = _Rounds(group, SMALL)
    kinds: dict[str, tuple[Kind, int]] = {
        "alone": (partial(short.alone, _copied), ROW),
        "together": (partial(short.together, _copied), ROW),
        "burst": (short.burst, ROW),
    }
    if smallest is not None:
        two = group.subgroup([0, 1])
        kinds["call"] = (partial(smallest, group, "flat"), ROW)
        kinds["alone, a tree"] = (partial(smallest, two, "tree") if two else _nothing, ROW)
    for nbytes in sizes:
        row = ROW if nbytes < 1 << 20 else ROW // 2
        through = _Rounds(group, nbytes)
        for what, take in (("left", _left), ("copied", _copied), ("added", _added)):
            kinds[f"alone {nbytes} {what}"] = (partial(through.alone, take), row)
            kinds[f"together {nbytes} {what}"] = (partial(through.together, take), row)
        kinds[f"own {nbytes}"] = (through.own, row)
        kinds[f"fresh {nbytes}"] = (through.fresh, row)
        if group.size > 2:
            kinds[f"to each {nbytes}"] = (through.to_each, row)
    return kinds


def _nothing() -> None:
    pass


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

    def own(self) -> float:
        """Each copies, after a round that went through the caches; seconds of the copy."""
        self.together(_left)
        outgoing, incoming = (self.halves[(self.place + step) % len(self.halves)] for step in (0, 1))
        start = time.perf_counter()
        _copied(incoming, outgoing)
        return time.perf_counter() - start

    def fresh(self) -> float:
        """Each copies to memory that it asks for, and gives back; seconds of that."""
        self.together(_left)
        start = time.perf_counter()
        self.halves[self.place % len(self.halves)].copy()
        return time.perf_counter() - start

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

    wholes, halves = ({n: min(n // share, SEGMENT) for n in sizes} for share in (1, 2))

    def way(name: str, start: float, times: int, processes: int, messages: dict[int, int]) -> Way:
        def part(what: str, before: Callable[[int], float]) -> PerByte:
            return PerByte.of(
                {
                    working_set(n, m, processes): (found[f"{name} {n} {what}"] / times - before(n)) / m
                    for n, m in messages.items()
                }
            )

        def left(n: int) -> float:
            return max(start, found[f"{name} {n} left"] / times)

        return Way(start, part("left", lambda n: start), part("copied", left), part("added", left))

    def each(seconds: Callable[[int], float]) -> PerByte:
        return PerByte.of({working_set(n, m, size): seconds(n) / m for n, m in halves.items()})

    again = NOTHING
    if size > 2:
        again = each(lambda n: (found[f"to each {n}"] - found[f"together {n} left"] - (size - 2) * burst) / (size - 2))
    return Costs(
        way("alone", alone, 2, 2, wholes),
        way("together", together, 1, size, halves),
        burst,
        again,
        own=each(lambda n: found[f"own {n}"]),
        fresh=each(lambda n: found[f"fresh {n}"]),
        call=max(0.0, found["call"] - together - (size - 2) * burst) if "call" in found else 0.0,
        turn=max(0.0, found["alone, a tree"] - 2 * alone) if "call" in found else 0.0,
        processes=size,
    )


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
