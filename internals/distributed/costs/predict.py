"""What collectives, pushes and training steps take, by the costs of messages.

Each function counts the rounds of the algorithm one after the other, and the bytes of each (Thakur, Rabenseifner &
Gropp 2005). The algorithms are those of `internals.distributed.collectives`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from internals.distributed.costs.model import Costs

SEGMENT = 8 << 20
"""Bytes of the longest message: a longer array goes in several."""


def send(costs: Costs, nbytes: float) -> float:
    """Seconds for one message from one process to another."""
    _check("send", nbytes, 2)
    return costs.message + (_messages(nbytes) - 1) * costs.burst + nbytes * costs.byte


def ring(costs: Costs, nbytes: float, size: int) -> float:
    """p - 1 rounds in which a p-th is added, p - 1 in which a p-th is copied."""
    chunk = nbytes / size
    rounds = (size - 1) * _messages(chunk)
    return 2 * rounds * costs.round + (size - 1) * chunk * (costs.add + costs.copy)


def tree(costs: Costs, nbytes: float, size: int) -> float:
    """log₂ p levels up in which all is added, and as many down in which it is copied; fewer send on each level."""
    total = 0.0
    for level in range(math.ceil(math.log2(size))):
        active = math.ceil(size / 2 ** (level + 1))
        total += _one_way(costs, nbytes, active, size, added=True) + _one_way(costs, nbytes, active, size)
    return total


def halving_doubling(costs: Costs, nbytes: float, size: int) -> float:
    """Halves, quarters, ... swapped and added, and the same way back; 2 messages more where p is no power of two."""
    power = 2 ** int(math.log2(size))
    total = 0.0
    if power < size:
        total += _one_way(costs, nbytes, size - power, size, added=True) + _one_way(costs, nbytes, size - power, size)
    part = nbytes
    for _ in range(int(math.log2(power))):
        part /= 2
        total += 2 * _messages(part) * costs.round + part * (costs.add + costs.copy)
    return total


def flat(costs: Costs, nbytes: float, size: int) -> float:
    """One round in which each sends all to each; its own is put aside and back, so as to add in the order of ranks."""
    sent = _messages(nbytes) * (costs.round + (size - 2) * costs.burst)
    return sent + (size - 1) * nbytes * costs.add + nbytes * costs.copy


def pairwise(costs: Costs, nbytes: float, size: int) -> float:
    """As many rounds and bytes as a ring: there, each waits for the rank before it; here, for another each time."""
    return ring(costs, nbytes, size)


ALL_REDUCE: dict[str, Callable[[Costs, float, int], float]] = {
    "flat": flat,
    "tree": tree,
    "halving_doubling": halving_doubling,
    "ring": ring,
    "pairwise": pairwise,
}


def all_reduce(costs: Costs, nbytes: float, size: int, algorithm: str | None = None) -> float:
    """Seconds for an all-reduce of `nbytes` over `size` ranks; by the best algorithm where none is named.

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
    names = [algorithm] if algorithm else list(ALL_REDUCE)
    return costs.call + min(ALL_REDUCE[name](costs, nbytes, size) for name in names)


def reduce_scatter(costs: Costs, nbytes: float, size: int) -> float:
    """Seconds until each of `size` ranks has its part of the sum of arrays of `nbytes`."""
    _check("reduce_scatter", nbytes, size)
    chunk = nbytes / size
    return costs.call + (size - 1) * (_messages(chunk) * costs.round + chunk * costs.add) if size > 1 else 0.0


def all_gather(costs: Costs, nbytes: float, size: int) -> float:
    """Seconds until each of `size` ranks has the whole of `nbytes`, of which each had a part."""
    _check("all_gather", nbytes, size)
    chunk = nbytes / size
    return costs.call + (size - 1) * (_messages(chunk) * costs.round + chunk * costs.copy) if size > 1 else 0.0


def broadcast(costs: Costs, nbytes: float, size: int) -> float:
    """Seconds for a binomial tree down from one of `size` ranks."""
    _check("broadcast", nbytes, size)
    total = costs.call if size > 1 else 0.0
    for level in range(math.ceil(math.log2(size))):
        active = min(2**level, size - 2**level)
        total += _one_way(costs, nbytes, active, size)
    return total


def push(costs: Costs, nbytes: float, trainers: int, servers: int) -> float:
    """Seconds until `trainers` have pushed gradients of `nbytes` each to `servers` that hold a part each, and add them.

    A server takes what all trainers send to it, one after the other: that decides, unless there are more servers than
    trainers.
    """
    _check("push", nbytes, trainers)
    _check("push", nbytes, servers)
    return _to_servers(costs, nbytes, trainers, servers, added=True)


def pull(costs: Costs, nbytes: float, trainers: int, servers: int) -> float:
    """Seconds until `trainers` have the parameters, `nbytes` in all, from `servers`."""
    _check("pull", nbytes, trainers)
    _check("pull", nbytes, servers)
    return _to_servers(costs, nbytes, trainers, servers, added=False) + costs.message


def _to_servers(costs: Costs, nbytes: float, trainers: int, servers: int, *, added: bool) -> float:
    size, active = trainers + servers, max(trainers, servers)
    alpha, beta = costs.alpha(active, size), costs.beta(active, size, added=added)
    sender = alpha + (servers - 1) * costs.burst + nbytes * beta
    taker = alpha + (trainers - 1) * costs.burst + trainers * nbytes / servers * beta
    return max(sender, taker)


def data_parallel_step(
    costs: Costs, nbytes: float, size: int, *, compute: float, backward: float = 0.0, buckets: int = 1
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
        In which the gradients are sent; the last can't be before the backward pass is over.
    """
    _check("data_parallel_step", nbytes, size)
    if size == 1:
        return compute
    each = all_reduce(costs, nbytes / buckets, size)
    hidden = min((buckets - 1) * each, backward * (buckets - 1) / buckets)
    return compute + buckets * each - hidden


def _one_way(costs: Costs, nbytes: float, active: int, size: int, *, added: bool = False) -> float:
    """`active` of `size` processes send all of it to another that waits."""
    further = (_messages(nbytes) - 1) * costs.burst
    return costs.alpha(active, size) + further + nbytes * costs.beta(active, size, added=added)


def _messages(nbytes: float) -> int:
    return max(1, math.ceil(nbytes / SEGMENT))


def _check(name: str, nbytes: float, size: int) -> None:
    if not 0 <= nbytes < math.inf:
        raise ValueError(f"{name}: {nbytes!r} bytes; expected 0 or more")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"{name}: {size!r} processes; expected 1 or more")
