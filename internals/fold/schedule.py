"""In which order, and in which company, noted calls run.

A schedule is made from plain data. Calls are numbered in the order in which they were noted, so a call's inputs come
before it. ``schedule(inputs, signatures)`` is told, for each call, which calls it reads and what kind of call it is,
and returns batches: lists of calls of one signature, none of which reads another of its own batch or of a later one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from typing import Any

Scheduler = Callable[[Sequence[Sequence[int]], Sequence[Hashable]], list[list[int]]]


def depths(inputs: Sequence[Sequence[int]]) -> list[int]:
    """How many calls lie on the longest way down from each call: 0 for one that reads none.

    Parameters
    ----------
    inputs : sequence of sequences of int
        Which calls each call reads; all of them come before it.
    """
    found: list[int] = []
    for read in inputs:
        found.append(1 + max([found[i] for i in read]) if read else 0)
    return found


def by_depth(inputs: Sequence[Sequence[int]], signatures: Sequence[Hashable]) -> list[list[int]]:
    """Calls of one depth and one signature run together, the lowest depth first.

    TensorFlow Fold's way (Looks et al. 2017, section 2).

    Parameters
    ----------
    inputs : sequence of sequences of int
        Which calls each call reads; all of them come before it.
    signatures : sequence
        What kind of call each is; equal ones can run together.

    Returns
    -------
    list of lists of int
    """
    kinds = {one: k for k, one in enumerate(dict.fromkeys(signatures))}
    batches: dict[tuple[int, int], list[int]] = {}
    for i, depth in enumerate(depths(inputs)):
        batches.setdefault((depth, kinds[signatures[i]]), []).append(i)
    return [batches[key] for key in sorted(batches)]


def by_agenda(inputs: Sequence[Sequence[int]], signatures: Sequence[Hashable]) -> list[list[int]]:
    """All that is ready and of one signature runs together; of several signatures, the one that lies lowest on average.

    What comes late in every example, such as its loss, waits until it can be done for all of them, however deep each
    is. DyNet's way (Neubig et al. 2017, section 3.2). Parameters and result as of `by_depth`.
    """
    kinds: dict[Hashable, int] = {}
    kind = [kinds.setdefault(signature, len(kinds)) for signature in signatures]
    total, count = [0] * len(kinds), [0] * len(kinds)
    users: list[list[int]] = [[] for _ in inputs]
    for i, depth in enumerate(depths(inputs)):
        total[kind[i]] += depth
        count[kind[i]] += 1
        for read in inputs[i]:
            users[read].append(i)
    ready: list[list[int]] = [[] for _ in kinds]
    agenda: list[tuple[float, int]] = []
    waiting = [len(read) for read in inputs]

    def enter(i: int) -> None:
        if not ready[kind[i]]:
            heapq.heappush(agenda, (total[kind[i]] / count[kind[i]], kind[i]))
        ready[kind[i]].append(i)

    for i, left in enumerate(waiting):
        if not left:
            enter(i)
    batches = []
    while agenda:
        _, now = heapq.heappop(agenda)
        batch, ready[now] = ready[now], []
        batches.append(batch)
        for i in batch:
            for user in users[i]:
                waiting[user] -= 1
                if not waiting[user]:
                    enter(user)
    return batches


SCHEDULES: dict[str, Scheduler] = {"depth": by_depth, "agenda": by_agenda}


def scheduler(schedule: Any) -> Scheduler:
    """A scheduler by its name, or a function that is one.

    Raises
    ------
    ValueError, TypeError
        There is none of that name, or it can't be called.
    """
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise ValueError(f"fold: there is no schedule {schedule!r}; there are {', '.join(map(repr, SCHEDULES))}.")
        return SCHEDULES[schedule]
    if not callable(schedule):
        raise TypeError(
            f"fold: a schedule is {' or '.join(map(repr, SCHEDULES))}, or a function of inputs and signatures, got "
            f"{type(schedule).__name__}."
        )
    return schedule


def check_schedule(
    batches: Any, inputs: Sequence[Sequence[int]], signatures: Sequence[Hashable], names: Sequence[str] | None = None
) -> list[list[int]]:
    """The batches, if they are a schedule.

    Parameters
    ----------
    batches, inputs, signatures
        What a scheduler returned, and what it was given.
    names : sequence of str, optional
        What to call each call in an error.

    Raises
    ------
    TypeError
        They are not lists of integers.
    ValueError
        A call is missing or comes twice, a batch is empty or mixes signatures, or a call comes before, or together
        with, one that it reads.
    """

    def name(i: int) -> str:
        return f"call {i}" + (f" ({names[i]})" if names else "")

    try:
        batches = [[int(i) for i in batch] for batch in batches]
    except (TypeError, ValueError):
        raise TypeError(
            f"fold: the schedule gave {type(batches).__name__}; expected a list of lists of call numbers."
        ) from None
    when: dict[int, int] = {}
    for k, batch in enumerate(batches):
        if not batch:
            raise ValueError(f"fold: batch {k} of the schedule is empty; leave it out.")
        for i in batch:
            if not 0 <= i < len(inputs):
                raise ValueError(f"fold: the schedule has call {i}, but there are calls 0 to {len(inputs) - 1} only.")
            if i in when:
                raise ValueError(f"fold: {name(i)} is in batches {when[i]} and {k} of the schedule; it runs once.")
            if signatures[i] != signatures[batch[0]]:
                raise ValueError(
                    f"fold: batch {k} of the schedule holds {name(batch[0])} and {name(i)}, whose signatures differ."
                )
            when[i] = k
    for i, read in enumerate(inputs):
        if i not in when:
            raise ValueError(f"fold: {name(i)} is missing from the schedule.")
        for j in read:
            if when.get(j, len(batches)) >= when[i]:
                raise ValueError(
                    f"fold: {name(i)} is in batch {when[i]} of the schedule, but reads {name(j)}, which is in batch "
                    f"{when.get(j, 'none')}."
                )
    return batches
