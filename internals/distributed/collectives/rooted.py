"""Collectives with one rank at the root: broadcast, reduce, gather, scatter; and the barrier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from internals.distributed.collectives.agreement import Call
from internals.distributed.collectives.operands import Operation, copy, segments

NOTHING = np.empty(0, np.uint8)


def broadcast(call: Call, x: np.ndarray, source: int) -> None:
    """Down a binomial tree: log₂ p messages deep, each segment sent on as soon as it is there."""
    place = (call.rank - source) % call.size
    mask = 1
    while mask < call.size and not place & mask:
        mask <<= 1
    above = (call.rank - mask) % call.size
    below = [(call.rank + step) % call.size for step in _halves(mask) if place + step < call.size]
    for segment in segments(x):
        if place:
            copy(segment, call.receive(above))
        if below:
            call.send_each(below, segment)


def reduce(call: Call, x: np.ndarray, op: Operation, target: int) -> None:
    """Up a binomial tree; `x` is complete on `target`, and holds partial results elsewhere."""
    place = (call.rank - target) % call.size
    mask = 1
    while mask < call.size and not place & mask:
        mask <<= 1
    below = [(call.rank + step) % call.size for step in reversed(_halves(mask)) if place + step < call.size]
    for segment in segments(x):
        for rank in below:
            op.combine(segment, call.receive(rank))
        if place:
            call.send((call.rank - mask) % call.size, segment)
    if not place:
        op.finish(x)


def gather(call: Call, x: np.ndarray, target: int) -> list[np.ndarray] | None:
    """Every rank's array, on the target only."""
    if call.rank != target:
        call.send_all(target, x)
        return None
    gathered = [x.copy() if rank == target else np.empty_like(x) for rank in range(call.size)]
    for rank in range(call.size):
        if rank != target:
            call.receive_all(rank, gathered[rank], copy)
    return gathered


def scatter(call: Call, parts: Sequence[np.ndarray] | None, source: int, x: np.ndarray) -> None:
    """Let `x` hold the source's part for this rank."""
    if call.rank != source:
        call.receive_all(source, x, copy)
        return
    assert parts is not None
    for rank, part in enumerate(parts):
        if rank != source:
            call.send_all(rank, part)
    copy(x, parts[source])


def barrier(call: Call) -> None:
    """Return when all ranks have come: log₂ p rounds, each to a rank twice as far (Hensgen, Finkel & Manber 1988)."""
    step = 1
    while step < call.size:
        call.send((call.rank + step) % call.size, NOTHING)
        call.receive((call.rank - step) % call.size)
        step *= 2


def _halves(mask: int) -> list[int]:
    """``8 -> [4, 2, 1]``"""
    return [1 << bit for bit in reversed(range(mask.bit_length() - 1))]
