"""Ways to reduce one array over all ranks, in place on each. Every entry is completed on one rank, or in one order.

Costs are for p ranks and n bytes, in messages one after the other (each costs α) and bytes sent per rank (each costs
β); what is added is not counted (Thakur, Rabenseifner & Gropp 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from internals.distributed.collectives.agreement import Call
from internals.distributed.collectives.operands import Operation, bounds, copy, pieces, segments
from internals.distributed.collectives.rooted import broadcast, reduce

Chunks = Sequence[np.ndarray]
"""Flat views of one array, one for each rank."""


def flat(call: Call, x: np.ndarray, op: Operation) -> None:
    """Everyone sends all to everyone, and adds up in the order of ranks: 1 message deep, (p - 1) n bytes."""
    others = [(call.rank + step) % call.size for step in range(1, call.size)]
    for segment in segments(x):
        call.send_each(others, segment)
        aside = segment.copy() if call.rank > 1 else None
        for rank in range(call.size):
            if aside is None and rank < call.rank:
                op.combine_behind(segment, call.receive(rank))
            elif rank == call.rank:
                if aside is not None:
                    op.combine(segment, aside)
            elif rank == 0:
                copy(segment, call.receive(rank))
            else:
                op.combine(segment, call.receive(rank))
    op.finish(x)


def tree(call: Call, x: np.ndarray, op: Operation) -> None:
    """Up a binomial tree to rank 0, and down again: 2 log₂ p messages deep, 2 n bytes at most on each level."""
    reduce(call, x, op, 0)
    broadcast(call, x, 0)


def ring(call: Call, x: np.ndarray, op: Operation) -> None:
    """Around a ring twice, a p-th at a time: 2 (p - 1) messages deep, 2 (p - 1) / p n bytes.

    The least bytes that there can be; the depth grows with p.

    References
    ----------
    Patarasuk and Yuan (2009), Bandwidth optimal all-reduce algorithms for clusters of workstations.
    """
    chunks = pieces(x, call.size)
    ring_reduce_scatter(call, chunks, op)
    ring_all_gather(call, chunks)


def ring_reduce_scatter(call: Call, chunks: Chunks, op: Operation) -> None:
    """After p - 1 steps, chunk `rank` is complete here. The other chunks hold partial results."""
    left, right = (call.rank - 1) % call.size, (call.rank + 1) % call.size
    for step in range(call.size - 1):
        outgoing, incoming = chunks[(call.rank - step - 1) % call.size], chunks[(call.rank - step - 2) % call.size]
        call.swap(right, outgoing, left, incoming, op.combine)
    op.finish(chunks[call.rank])


def ring_all_gather(call: Call, chunks: Chunks) -> None:
    """Chunk `rank` of each rank goes around, until all have all."""
    left, right = (call.rank - 1) % call.size, (call.rank + 1) % call.size
    for step in range(call.size - 1):
        outgoing, incoming = chunks[(call.rank - step) % call.size], chunks[(call.rank - step - 1) % call.size]
        call.swap(right, outgoing, left, incoming, copy)


def pairwise(call: Call, x: np.ndarray, op: Operation) -> None:
    """Each rank gets its chunk from every other, completes it, and sends it to every other.

    2 messages deep, 2 (p - 1) / p n bytes: as few as a ring's, and no step waits for another rank's last one. It
    wants a network in which any rank can send to any other at full speed, which memory is.
    """
    chunks = pieces(x, call.size)
    pairwise_reduce_scatter(call, chunks, op)
    pairwise_all_gather(call, chunks)


def pairwise_reduce_scatter(call: Call, chunks: Chunks, op: Operation) -> None:
    """Afterwards chunk `rank` is complete here; the other chunks are as they were."""
    for step in range(1, call.size):
        to, source = (call.rank + step) % call.size, (call.rank - step) % call.size
        call.swap(to, chunks[to], source, chunks[call.rank], op.combine)
    op.finish(chunks[call.rank])


def pairwise_all_gather(call: Call, chunks: Chunks) -> None:
    """Chunk `rank` of each rank goes to every other."""
    others = [(call.rank + step) % call.size for step in range(1, call.size)]
    parts = [list(segments(chunk)) for chunk in chunks]
    for place in range(max(map(len, parts))):
        if place < len(parts[call.rank]):
            call.send_each(others, parts[call.rank][place])
        for rank in reversed(others):
            if place < len(parts[rank]):
                copy(parts[rank][place], call.receive(rank))


def halving_doubling(call: Call, x: np.ndarray, op: Operation) -> None:
    """Swap halves with ever nearer partners, then put them together again: 2 log₂ p deep, 2 (p - 1) / p n bytes.

    Where p is no power of two, the ranks that are too many first hand what they have to a neighbour, and get the
    result from it at the end: 2 more messages and 2 n more bytes.

    References
    ----------
    Thakur, Rabenseifner and Gropp (2005), Optimization of collective communication operations in MPICH, §4.5.
    """
    power = 1 << (call.size.bit_length() - 1)
    extra = call.size - power
    if call.rank < 2 * extra and call.rank % 2 == 0:
        call.send_all(call.rank + 1, x)
        call.receive_all(call.rank + 1, x, copy)
        return
    if call.rank < 2 * extra:
        call.receive_all(call.rank - 1, x, op.combine)
    place = call.rank // 2 if call.rank < 2 * extra else call.rank - extra

    def rank_at(place: int) -> int:
        return 2 * place + 1 if place < extra else place + extra

    cuts = bounds(x.size, power)
    low, high, kept = 0, power, []
    distance = power // 2
    while distance:
        middle, partner = (low + high) // 2, rank_at(place ^ distance)
        lower, upper = x[cuts[low][0] : cuts[middle - 1][1]], x[cuts[middle][0] : cuts[high - 1][1]]
        mine, theirs = (upper, lower) if place & distance else (lower, upper)
        call.swap(partner, theirs, partner, mine, op.combine)
        kept.append((partner, mine, theirs))
        low, high = (middle, high) if place & distance else (low, middle)
        distance //= 2
    op.finish(x[cuts[place][0] : cuts[place][1]])
    for partner, mine, theirs in reversed(kept):
        call.swap(partner, mine, partner, theirs, copy)
    if call.rank < 2 * extra:
        call.send_all(call.rank - 1, x)


ALGORITHMS: dict[str, Callable[[Call, np.ndarray, Operation], None]] = {
    "flat": flat,
    "tree": tree,
    "halving_doubling": halving_doubling,
    "ring": ring,
    "pairwise": pairwise,
}


FLAT_UP_TO = 192 << 10
"""Bytes that a rank sends at most by `flat`: beyond, what it sends too much costs more than the messages it saves."""
TREE_UP_TO = 4 << 20
"""Bytes up to which log₂ p messages beat twice p of a p-th of the size."""


def chosen(nbytes: int, size: int) -> str:
    """The algorithm for so many bytes on so many ranks, as ``python -m benchmarks.all_reduce`` finds on one machine.

    Its ranks share memory, and are about as many as its cores; over a network, or with many ranks, name the ring.
    """
    if nbytes * (size - 1) <= FLAT_UP_TO:
        return "flat"
    return "tree" if nbytes <= TREE_UP_TO and size > 2 else "pairwise"
