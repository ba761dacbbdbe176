"""What collectives, pushes and training steps take, by the costs of messages.

Each function counts the rounds of the algorithm one after the other, and the bytes of each (Thakur, Rabenseifner &
Gropp 2005). The algorithms are those of `internals.distributed.collectives`, and what they reduce becomes a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from internals.distributed.costs.measure import SEGMENT
from internals.distributed.costs.model import Costs, working_set


def send(costs: Costs, nbytes: float) -> float:
    """Seconds for one message from one process to another."""
    _check("send", nbytes, 2)
    return _one_way(costs, nbytes, 1, 2, of=_set(nbytes, nbytes, 2))


def ring(costs: Costs, nbytes: float, size: int, beside: float = 0.0) -> float:
    """p - 1 rounds in which a p-th is added, p - 1 in which a p-th is copied."""
    chunk = nbytes / size
    of = _set(nbytes + beside, chunk, size)
    both = _round(costs, chunk, size, of=of, added=True) + _round(costs, chunk, size, of=of)
    return costs.call + (size - 1) * both + _divided(costs, chunk, of=of)


def tree(costs: Costs, nbytes: float, size: int, beside: float = 0.0) -> float:
    """log₂ p levels up in which all is added, and as many down in which it is copied; fewer send on each level."""
    of = _set(nbytes + beside, nbytes, size)
    total = costs.turn + _down(costs, nbytes, size, of=of) + _divided(costs, nbytes, of=of)
    for level in range(math.ceil(math.log2(size))):
        total += _one_way(costs, nbytes, math.ceil(size / 2 ** (level + 1)), size, of=of, added=True)
    return total


def halving_doubling(costs: Costs, nbytes: float, size: int, beside: float = 0.0) -> float:
    """Halves, quarters, ... swapped and added, and the same way back; 2 messages more where p is no power of two."""
    power = 2 ** int(math.log2(size))
    of = _set(nbytes + beside, nbytes / 2, size)
    total = costs.call
    if power < size:
        for added in (True, False):
            total += _one_way(costs, nbytes, size - power, size, of=of, added=added)
    part = nbytes
    for _ in range(int(math.log2(power))):
        part /= 2
        total += _round(costs, part, size, of=of, added=True) + _round(costs, part, size, of=of)
    return total + _divided(costs, part, of=of)


def flat(costs: Costs, nbytes: float, size: int, beside: float = 0.0) -> float:
    """One round in which each sends all to each.

    So as to add in the order of ranks, those from the third on put their own aside, copy the first's and add their own.
    """
    of = _set(nbytes + beside, nbytes, size)
    added = (size - 1) * costs.take(nbytes, size, size, of=of, added=True)
    aside = costs.take(nbytes, size, size, of=of) + nbytes * costs.fresh(of) if size > 2 else 0.0
    return costs.call + _to_each(costs, nbytes, size, of=of) + added + aside + _divided(costs, nbytes, of=of)


def pairwise(costs: Costs, nbytes: float, size: int, beside: float = 0.0) -> float:
    """A p-th is swapped with each other rank and added, and what that gives is sent to all at once."""
    chunk = nbytes / size
    of = _set(nbytes + beside, chunk, size)
    swapped = (size - 1) * _round(costs, chunk, size, of=of, added=True)
    gathered = _to_each(costs, chunk, size, of=of) + (size - 1) * costs.take(chunk, size, size, of=of)
    return costs.call + swapped + _divided(costs, chunk, of=of) + gathered


ALL_REDUCE: dict[str, Callable[..., float]] = {
    "flat": flat,
    "tree": tree,
    "halving_doubling": halving_doubling,
    "ring": ring,
    "pairwise": pairwise,
}


def all_reduce(costs: Costs, nbytes: float, size: int, algorithm: str | None = None, *, beside: float = 0.0) -> float:
    """Seconds for an all-reduce of `nbytes` over `size` ranks; by the best algorithm where none is named.

    Parameters
    ----------
    beside : float
        Bytes that each rank goes through between this and the next one, and that take its place in the caches.

    Raises
    ------
    ValueError
        No such algorithm; a size below 1 or bytes below 0.
    """
    _check("all_reduce", nbytes, size)
    if algorithm is not None and algorithm not in ALL_REDUCE:
        raise ValueError(f"all_reduce: there is no algorithm {algorithm!r}; one of {', '.join(ALL_REDUCE)}, or None")
    if size == 1:
        return 0.0
    return min(ALL_REDUCE[name](costs, nbytes, size, beside) for name in ([algorithm] if algorithm else ALL_REDUCE))


def reduce_scatter(costs: Costs, nbytes: float, size: int) -> float:
    """Seconds until each of `size` ranks has its part of the sum of arrays of `nbytes`: a copy of its own, p - 1 swaps.

    The copy is an array that was not there before.
    """
    _check("reduce_scatter", nbytes, size)
    if size == 1:
        return 0.0
    chunk = nbytes / size
    of = _set(nbytes + chunk, chunk, size)
    rounds = (size - 1) * _round(costs, chunk, size, of=of, added=True)
    return costs.call + chunk * costs.fresh(of) + rounds + _divided(costs, chunk, of=of)


def all_gather(costs: Costs, nbytes: float, size: int) -> float:
    """Seconds until each of `size` ranks has the whole of `nbytes`, of which it had its part in its place.

    It sends that to all others at once.
    """
    _check("all_gather", nbytes, size)
    if size == 1:
        return 0.0
    chunk = nbytes / size
    of = _set(nbytes, chunk, size)
    return costs.call + _to_each(costs, chunk, size, of=of) + (size - 1) * costs.take(chunk, size, size, of=of)


def broadcast(costs: Costs, nbytes: float, size: int) -> float:
    """Seconds for a binomial tree down from one of `size` ranks."""
    _check("broadcast", nbytes, size)
    if size == 1:
        return 0.0
    answered = costs.burst  # who gets it says a word, so that two sources find out
    return costs.turn + _down(costs, nbytes, size, of=_set(nbytes, nbytes, size)) + answered


def push(costs: Costs, nbytes: float, trainers: int, servers: int) -> float:
    """Seconds until `trainers` have pushed gradients of `nbytes` each to `servers` that hold a part each, and add them.

    All trainers write at once. A server adds what they send to it one after the other: the first as soon as it is
    there, the last not before all is.
    """
    _check("push", nbytes, trainers)
    _check("push", nbytes, servers)
    size, part = trainers + servers, nbytes / servers
    started = costs.start(max(trainers, servers), size) + _further(costs, part, max(trainers, servers))
    of = trainers * 2 * nbytes + nbytes  # gradients, the messages that carry them, and what the servers hold
    written = costs.write(nbytes, trainers, size, of=of)
    through = trainers * part * costs.again(of)
    first, each = costs.write(part, 1, size, of=of), costs.take(part, servers, size, of=of, added=True)
    return started + max(max(written, through) + each, first + trainers * each)


def pull(costs: Costs, nbytes: float, trainers: int, servers: int) -> float:
    """Seconds until `trainers` have the parameters, `nbytes` in all, of which each of `servers` holds a part.

    A server writes its part for each that asks.
    """
    _check("pull", nbytes, trainers)
    _check("pull", nbytes, servers)
    size, part = trainers + servers, nbytes / servers
    started = costs.start(max(trainers, servers), size) + _further(costs, part, max(trainers, servers))
    of = trainers * 2 * nbytes + nbytes
    written = trainers * costs.write(part, servers, size, of=of)
    through = servers * part * costs.again(of)
    taken = costs.take(nbytes, trainers, size, of=of)
    return costs.start(trainers, size) + started + max(written, through) + taken


def data_parallel_step(
    costs: Costs,
    nbytes: float,
    size: int,
    *,
    compute: float,
    backward: float = 0.0,
    buckets: int = 1,
    algorithm: str | None = None,
) -> float:
    """Seconds of a training step of which each rank computes its share and the gradients are summed.

    Parameters
    ----------
    nbytes : float
        Of the gradients.
    compute : float
        Seconds that forward and backward pass and the optimizer take on each rank, while all ranks compute.
    backward : float
        Seconds of these beside which sending can go on: those of the backward pass where a network card or a core of
        its own does the sending; 0 where the same cores do both.
    buckets : int
        In which the gradients are sent; the last can't be before the backward pass is over. They are copied into one.
    algorithm : str, optional
        Of the all-reduces; the best where none is named.
    """
    _check("data_parallel_step", nbytes, size)
    if size == 1:
        return compute
    part, beside = nbytes / buckets, 3 * nbytes  # parameters, gradients and buckets: a bucket is in no cache any more
    copied = part * costs.own(_set(nbytes, nbytes, size))
    each = all_reduce(costs, part, size, algorithm, beside=beside - part) + copied
    hidden = min((buckets - 1) * each, backward * (buckets - 1) / buckets)
    return compute + buckets * each - hidden


def _set(array: float, message: float, size: int) -> float:
    return working_set(array, min(message, SEGMENT), size)


def _round(costs: Costs, nbytes: float, size: int, *, of: float, added: bool = False) -> float:
    """Every process sends so much to one, and takes as much from one. Of a working set of `of` bytes."""
    started = _messages(nbytes) * costs.start(size, size)
    return started + costs.write(nbytes, size, size, of=of) + costs.take(nbytes, size, size, of=of, added=added)


def _to_each(costs: Costs, nbytes: float, size: int, *, of: float) -> float:
    """Every process sends the same to all others, written once for all that can read it."""
    started = _messages(nbytes) * (costs.start(size, size) + (size - 2) * costs.burst)
    return started + costs.write(nbytes, size, size, of=of) + (size - 2) * nbytes * costs.again(of)


def _down(costs: Costs, nbytes: float, size: int, *, of: float) -> float:
    """From one to all along a binomial tree: whoever has it sends it once for all that are below.

    The first sends on all levels at once, and who is farthest below gets it no sooner than all of these are started.
    """
    levels = math.ceil(math.log2(size))
    total = (levels - 1) * costs.burst
    for level in range(levels):
        total += _one_way(costs, nbytes, min(2**level, size - 2**level), size, of=of)
    return total


def _one_way(costs: Costs, nbytes: float, active: int, size: int, *, of: float, added: bool = False) -> float:
    """`active` of `size` processes send all of it to another that waits."""
    started = costs.start(active, size) + _further(costs, nbytes, 1)
    taken = costs.take(nbytes, active, size, of=of, added=added)
    return started + costs.write(nbytes, active, size, of=of) + taken


def _divided(costs: Costs, nbytes: float, *, of: float) -> float:
    """A mean is made of a sum: each goes through its part once more, as a copy does."""
    return nbytes * costs.own(of)


def _further(costs: Costs, nbytes: float, peers: int) -> float:
    """What all messages but the first take to start, where so many bytes go to each of some peers."""
    return (_messages(nbytes) * peers - 1) * costs.burst


def _messages(nbytes: float) -> int:
    return max(1, math.ceil(nbytes / SEGMENT))


def _check(name: str, nbytes: float, size: int) -> None:
    if not 0 <= nbytes < math.inf:
        raise ValueError(f"{name}: {nbytes!r} bytes; expected 0 or more")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"{name}: {size!r} processes; expected 1 or more")
