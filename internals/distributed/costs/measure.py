"""Measuring costs, over the group that is to be predicted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from internals.distributed.costs.model import Costs

if TYPE_CHECKING:
    from internals.distributed.group import Group

SMALL, LARGE = 256, 1 << 20
"""Bytes of the messages that are timed: one that costs α only, and a collective's segment."""
BURST = 8
"""Messages of a burst."""
ROW = 6
"""Rounds in a row: as in a collective, nobody waits for all before the next."""


def measure(group: Group, *, rounds: int = 20, smallest: Callable[[], object] | None = None) -> Costs:
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

    Returns
    -------
    Costs
        The same on every rank.

    Raises
    ------
    ValueError
        A group of one.
    """
    if group.size < 2:
        raise ValueError("measure: a group of one rank sends nothing; expected 2 ranks or more")
    right, left = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    small, large = np.ones(SMALL // 4, np.float32), np.ones(LARGE // 4, np.float32)
    into = np.ones_like(large)

    def alone(array: np.ndarray) -> None:
        if group.rank == 0:
            group.send(1, "there", array)
            copied(group.receive(1, "back").arrays[0])
        elif group.rank == 1:
            copied(group.receive(0, "there").arrays[0])
            group.send(0, "back", array)

    def burst() -> None:
        for _ in range(BURST):
            group.send(right, "burst", small)
        for _ in range(BURST):
            group.receive(left, "burst")

    def swap(array: np.ndarray, take: Callable[[np.ndarray], object]) -> None:
        group.send(right, "swap", array)
        take(group.receive(left, "swap").arrays[0])

    def copied(theirs: np.ndarray) -> None:
        np.copyto(into[: theirs.size], theirs)

    def added(theirs: np.ndarray) -> None:
        np.add(into, theirs, out=into)

    # In turn, so that a load that comes and goes is in all of them.
    kinds: list[Callable[[], object]] = [
        lambda: alone(small),
        lambda: alone(large),
        lambda: swap(small, copied),
        burst,
        lambda: swap(large, copied),
        lambda: swap(large, added),
        smallest or (lambda: swap(small, copied)),
    ]
    seconds: list[list[float]] = [[] for _ in kinds]
    for count in range(rounds + 1):
        for kind, timed in zip(kinds, seconds, strict=True):
            _together(group)
            start = time.perf_counter()
            for _ in range(ROW):
                kind()
            if count:  # the first is slower: memory is touched for the first time
                timed.append((time.perf_counter() - start) / ROW)
    found = _agreed(group, [statistics.median(timed) for timed in seconds])
    there_and_back, large_one, swapped, burst_of_them, copy, add, call = found
    burst_each = max(0.0, burst_of_them - swapped) / (BURST - 1)
    return Costs(
        message=there_and_back / 2,
        byte=max(0.0, large_one - there_and_back) / 2 / LARGE,
        round=swapped,
        burst=burst_each,
        copy=max(0.0, copy - swapped) / LARGE,
        add=max(0.0, add - swapped) / LARGE,
        call=max(0.0, call - swapped - (group.size - 2) * burst_each) if smallest else 0.0,
        processes=group.size,
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


def _agreed(group: Group, mine: list[float]) -> list[float]:
    """For each kind the slowest rank's time; of the first two rank 0's, which is there at their beginning and end."""
    if group.rank:
        group.send(0, "mine", seconds=mine)
        return list(group.receive(0, "all").fields["seconds"])
    rows = [mine] + [group.receive(rank, "mine").fields["seconds"] for rank in range(1, group.size)]
    agreed = mine[:2] + [max(column) for column in list(zip(*rows, strict=True))[2:]]
    for rank in range(1, group.size):
        group.send(rank, "all", seconds=agreed)
    return agreed
