"""The cost model: its formulas by hand, its limits, and that it is fitted to a network that is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from internals.distributed.collectives import ALGORITHMS
from internals.distributed.collectives import all_reduce as run_all_reduce
from internals.distributed.costs import (
    ALL_REDUCE,
    STRATEGIES,
    Cluster,
    Costs,
    Model,
    PerByte,
    Way,
    all_gather,
    all_reduce,
    broadcast,
    data_parallel_step,
    estimate,
    measure,
    pull,
    push,
    reduce_scatter,
    send,
)
from internals.distributed.group import Group, run_threads
from internals.distributed.transport import Faults

ALPHA, BANDWIDTH, GAMMA = 1e-4, 1e9, 3e-10
NETWORK = Costs.of_network(ALPHA, BANDWIDTH, addition=GAMMA)
BETA = 1 / BANDWIDTH


def test_every_algorithm_that_there_is_is_predicted() -> None:
    assert set(ALL_REDUCE) == set(ALGORITHMS)


def flat_of(costs: Costs, nbytes: float, size: int) -> float:
    return all_reduce(costs, nbytes, size, "flat")


def ring_of(costs: Costs, nbytes: float, size: int) -> float:
    return all_reduce(costs, nbytes, size, "ring")


def tree_of(costs: Costs, nbytes: float, size: int) -> float:
    return all_reduce(costs, nbytes, size, "tree")


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 64])
@pytest.mark.parametrize("nbytes", [0, 4, 3e4, 5e5])
def test_formulas_of_the_papers(nbytes: float, size: int) -> None:
    """Thakur, Rabenseifner & Gropp 2005, table 1; below a segment, so that an array is one message."""
    p, n = size, nbytes
    ring = 2 * (p - 1) * ALPHA + 2 * (p - 1) / p * n * BETA + (p - 1) / p * n * GAMMA
    assert all_reduce(NETWORK, n, p, "ring") == pytest.approx(ring)
    levels = math.ceil(math.log2(p))
    assert all_reduce(NETWORK, n, p, "tree") == pytest.approx(levels * (2 * ALPHA + n * (2 * BETA + GAMMA)))
    assert broadcast(NETWORK, n, p) == pytest.approx(levels * (ALPHA + n * BETA))
    if p == 2**levels:
        halving = 2 * levels * ALPHA + 2 * (p - 1) / p * n * BETA + (p - 1) / p * n * GAMMA
        assert all_reduce(NETWORK, n, p, "halving_doubling") == pytest.approx(halving)
    pairwise = ring - (p - 2) * ALPHA
    both = reduce_scatter(NETWORK, n, p) + all_gather(NETWORK, n, p)
    assert both == pytest.approx(pairwise)
    assert all_reduce(NETWORK, n, p, "pairwise") == pytest.approx(pairwise)
    assert all_reduce(NETWORK, n, p, "flat") == pytest.approx(ALPHA + (p - 1) * n * (BETA + GAMMA))
    assert all_reduce(NETWORK, n, p) == min(all_reduce(NETWORK, n, p, name) for name in ALL_REDUCE)


def test_what_is_best_depends_on_the_size() -> None:
    best = {n: min(ALL_REDUCE, key=lambda name: ALL_REDUCE[name](NETWORK, n, 64)) for n in (8, 1e9)}
    assert best[8] == "flat"
    assert best[1e9] in ("halving_doubling", "ring", "pairwise")
    assert all_reduce(NETWORK, 4e4, 64, "halving_doubling") < all_reduce(NETWORK, 4e4, 64, "ring") / 2


def test_one_process_sends_nothing() -> None:
    for one in (all_reduce, all_gather, reduce_scatter, broadcast):
        assert one(replace(NETWORK, call=1.0, turn=1.0), 1e6, 1) == 0.0
    assert data_parallel_step(NETWORK, 1e6, 1, compute=0.25) == 0.25


def test_servers() -> None:
    """A server takes what all trainers push, one after the other; more servers share it. Pulls go the other way."""
    n = 4e5
    assert push(NETWORK, n, 4, 1) == pytest.approx(4 * n * BETA + n * GAMMA + ALPHA)
    assert push(NETWORK, n, 4, 4) == pytest.approx(n * BETA + n / 4 * GAMMA + ALPHA)
    adding = Costs.of_network(ALPHA, BANDWIDTH, addition=2 * BETA)  # the server falls behind what comes
    assert push(adding, n, 4, 1) == pytest.approx(n * BETA + 4 * n * 2 * BETA + ALPHA)
    assert push(NETWORK, n, 1, 4) == pytest.approx(n * BETA + n / 4 * GAMMA + ALPHA)
    assert pull(NETWORK, n, 4, 2) == pytest.approx(2 * n * BETA + 2 * ALPHA)
    assert pull(NETWORK, n, 1, 4) == pytest.approx(n * BETA + 2 * ALPHA)


def test_who_read_one_memory_are_sent_one_copy() -> None:
    """Written once, read p - 1 times: where a network has p - 1 copies go through the sender's link."""
    way = Way(ALPHA, PerByte.constant(BETA), copy=PerByte.constant(GAMMA), add=PerByte.constant(2 * GAMMA))
    own, fresh = PerByte.constant(GAMMA / 4), PerByte.constant(GAMMA / 2)
    memory, n, p = Costs(way, way, burst=ALPHA / 10, own=own, fresh=fresh), 4e5, 5
    started = ALPHA + (p - 2) * ALPHA / 10
    assert all_gather(memory, n, p) == pytest.approx(started + n / p * (BETA + (p - 1) * GAMMA))
    assert all_reduce(memory, n, p, "flat") == pytest.approx(started + n * (BETA + (2 * (p - 1) + 1.75) * GAMMA))
    assert all_reduce(memory, n, 2, "flat") == pytest.approx(ALPHA + n * (BETA + 2.25 * GAMMA))
    assert reduce_scatter(memory, n, 2) == pytest.approx(ALPHA + n / 2 * (BETA + (2 + 0.25 + 0.5) * GAMMA))
    assert push(memory, n, 4, 1) == pytest.approx(ALPHA + 3 * ALPHA / 10 + n * (BETA + 4 * 2 * GAMMA))


def test_a_byte_costs_what_it_costs_in_a_working_set_of_its_size() -> None:
    caches = PerByte.of({1e6: 1e-10, 1e4: 2e-10, 1e7: 7e-10})
    assert [caches(n) for n in (0, 1e4, 1e5, 1e6, 1e7, 1e9)] == pytest.approx(
        [2e-10, 2e-10, 1.5e-10, 1e-10] + 2 * [7e-10]
    )
    costs = Costs(Way(ALPHA, caches), Way(ALPHA, caches))
    one = 2 * ALPHA + 2 * 1e6 * caches(2 * (2e6 + 1e6))  # each of two has its array, and half of it as a message
    assert all_reduce(costs, 2e6, 2, "ring") == pytest.approx(one)
    beside = 2 * ALPHA + 2 * 1e6 * 7e-10
    assert all_reduce(costs, 2e6, 2, "ring", beside=1e7) == pytest.approx(beside)  # as in a step of training
    assert all_reduce(costs, 2e7, 2, "ring") == pytest.approx(4 * ALPHA + 2 * 1e7 * 7e-10)  # halves in two messages


def test_what_a_program_does_besides_counts_by_who_is_at_work() -> None:
    """A round of all has all at work at once; of a tree's ranks one works after the other."""
    costs = replace(NETWORK, call=3 * ALPHA, turn=ALPHA / 2)
    for one, more in ((flat_of, 3 * ALPHA), (ring_of, 3 * ALPHA), (all_gather, 3 * ALPHA), (reduce_scatter, 3 * ALPHA)):
        assert one(costs, 1e5, 4) - one(NETWORK, 1e5, 4) == pytest.approx(more)
    for one in (tree_of, broadcast):
        assert one(costs, 1e5, 4) - one(NETWORK, 1e5, 4) == pytest.approx(ALPHA / 2)


def test_sending_beside_the_backward_pass_hides_all_but_the_last_bucket() -> None:
    one = all_reduce(NETWORK, 1e7, 4)
    without = data_parallel_step(NETWORK, 1e8, 4, compute=1.0, buckets=10)
    assert without == pytest.approx(1.0 + 10 * one)
    assert data_parallel_step(NETWORK, 1e8, 4, compute=1.0, backward=0.7, buckets=10) == pytest.approx(1.0 + one)
    assert data_parallel_step(NETWORK, 1e8, 4, compute=1.0, backward=0.7, buckets=1) == pytest.approx(
        1.0 + all_reduce(NETWORK, 1e8, 4)
    )


def test_fewer_at_once_are_never_slower_where_a_round_is_dearer() -> None:
    ways = [
        Way(start, PerByte.constant(byte), PerByte.constant(byte / 2), PerByte.constant(byte / 2))
        for start, byte in ((1e-4, 2e-10), (4e-4, 8e-10))
    ]
    shared = Costs(*ways, burst=5e-5, processes=4)
    times = [
        shared.start(active, 4) + shared.write(1e6, active, 4, of=1e6) + shared.take(1e6, active, 4, of=1e6)
        for active in range(1, 5)
    ]
    assert times == sorted(times)
    assert times[0] == pytest.approx(send(shared, 1e6)) == pytest.approx(1e-4 + 1e6 * 3e-10)
    assert times[-1] == pytest.approx(4e-4 + 1e6 * 12e-10)


BAD = {
    "a negative cost": (lambda: Way(-1.0, PerByte.constant(0)), "start is -1.0"),
    "no number": (lambda: replace(NETWORK, burst=float("nan")), "burst is nan"),
    "a byte that costs less than nothing": (lambda: PerByte.constant(-1e-9), "a byte is -1e-09"),
    "no sizes": (lambda: PerByte((), ()), "expected as many, and sizes above 0 that rise"),
    "sizes that fall": (lambda: PerByte((2.0, 1.0), (0.0, 0.0)), "sizes (2.0, 1.0)"),
    "fewer costs than sizes": (lambda: PerByte((1.0, 2.0), (0.0,)), "seconds (0.0,)"),
    "no bandwidth": (lambda: Costs.of_network(1e-6, 0), "a bandwidth of 0"),
    "no processes": (lambda: all_reduce(NETWORK, 8, 0), "0 processes; expected 1 or more"),
    "half a process": (lambda: broadcast(NETWORK, 8, 1.5), "1.5 processes"),  # type: ignore[arg-type]
    "fewer than no bytes": (lambda: push(NETWORK, -8, 1, 1), "-8 bytes; expected 0 or more"),
    "endless bytes": (lambda: all_gather(NETWORK, math.inf, 2), "inf bytes"),
    "an unknown algorithm": (lambda: all_reduce(NETWORK, 8, 2, "star"), "no algorithm 'star'; one of flat, tree"),
    "an unknown strategy": (lambda: estimate("luck", MODEL, CLUSTER, 16), "no strategy 'luck'; one of data"),
    "a batch that does not divide": (lambda: estimate("data", MODEL, CLUSTER, 9), "9 sequences do not divide over 8"),
    "too many stages": (
        lambda: estimate("pipeline", replace(MODEL, layers=4), CLUSTER, 16),
        "4 layers can't be cut into 8 stages",
    ),
    "micro-batches that do not divide": (
        lambda: estimate("pipeline", MODEL, CLUSTER, 16, micro_batches=5),
        "16 sequences do not divide into 5 micro-batches",
    ),
    "no batch": (lambda: estimate("tensor", MODEL, CLUSTER, 0), "a batch of 0"),
}
MODEL = Model(layers=24, width=2048)
CLUSTER = Cluster(8, 1e14, 40e9, Costs.of_network(1e-5, 3e11), Costs.of_network(2e-5, 2.5e10))


@pytest.mark.parametrize("case", BAD)
def test_nonsense_is_named(case: str) -> None:
    call, told = BAD[case]
    with pytest.raises(ValueError, match=".*") as raised:
        call()
    assert told in str(raised.value)


def test_a_model_has_the_parameters_of_the_paper() -> None:
    """GPT-2's largest of Megatron-LM, 8.3 billion: 72 layers, 3072 wide (Shoeybi et al. 2019, table 1)."""
    assert Model(layers=72, width=3072, vocabulary=51200).parameters == pytest.approx(8.3e9, rel=0.01)


def test_what_the_ways_of_training_trade() -> None:
    found = {name: estimate(name, MODEL, CLUSTER, 64) for name in STRATEGIES}
    assert len({round(one.compute, 9) for one in found.values()}) == 1  # the same work, shared alike
    assert found["sharded"].memory < found["data"].memory
    assert found["data"].idle == found["tensor"].idle == found["sharded"].idle == 0
    assert found["pipeline"].idle == pytest.approx(found["pipeline"].compute * 7 / 64)
    assert found["pipeline"].communication < found["tensor"].communication
    assert found["data"].communication <= found["sharded"].communication
    for one in found.values():
        assert one.seconds == one.compute + one.communication + one.idle
        assert one.fits is (one.memory <= CLUSTER.memory)


def test_a_slow_network_makes_tensor_parallel_worst() -> None:
    """Takeaway 1 of Narayanan et al. 2021: tensor parallel inside a machine, pipelines between machines."""
    apart = replace(CLUSTER, per_machine=1)
    found = {name: estimate(name, MODEL, apart, 64).seconds for name in STRATEGIES}
    assert max(found, key=lambda name: found[name]) == "tensor"
    assert estimate("tensor", MODEL, CLUSTER, 64).seconds < found["tensor"]


def fitted(group: Group) -> Costs:
    one = np.ones(1, np.float32)

    def smallest(some: Group, algorithm: str) -> None:
        run_all_reduce(one, group=some, algorithm=algorithm)

    return measure(group, rounds=1, smallest=smallest, sizes=[1 << 16])


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_a_delay_that_is_known_is_found(size: int) -> None:
    """A network that holds each message back for 10 ms: α is that, and what a machine adds is far less."""
    found = run_threads(size, fitted, faults=Faults(delay=lambda source, target, kind: 0.01))
    assert len(set(found)) == 1
    costs = found[0]
    assert 0.01 <= costs.alone.start < 0.2  # a loaded machine adds to it
    assert 0.01 <= costs.together.start < 0.2
    assert costs.burst < costs.together.start
    assert costs.processes == size
    predicted = all_reduce(costs, 64, size, "ring")
    assert predicted >= 2 * (size - 1) * 0.01
    assert predicted == pytest.approx(2 * (size - 1) * costs.together.start + costs.call, rel=0.1)


def test_a_group_of_one_can_not_be_measured() -> None:
    with pytest.raises(ValueError, match="expected 2 ranks or more"):
        run_threads(1, measure)


@pytest.mark.parametrize("sizes", [[], [0], [1 << 16, 12]])
def test_sizes_that_are_none(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="expected multiples of 8 bytes"):
        run_threads(2, lambda group: measure(group, sizes=sizes))
