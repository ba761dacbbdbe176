"""The clock of the simulated accelerator, against times worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from internals import DeviceError, Tensor, device, nn, ops
from internals.device import Clock, Model, Sim

ROUND = Model(
    launch=1, latency=2, bandwidth=10, rate=100, transfer_latency=5, transfer_bandwidth=4, depth=3
)  # in seconds, bytes/s and operations/s, for sums that can be done in the head


def random(*shape: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(sum(shape) + 3).standard_normal(shape)).astype(np.float32)


@pytest.fixture
def sim() -> Sim:
    place = device("sim:8")
    assert isinstance(place, Sim)
    place.model = ROUND
    place.reset()
    return place


def shown(clock: Clock) -> list[tuple[str, str, float, float]]:
    return [(event.what, event.lane, event.start, event.end) for event in clock.events]


def kernels(sim: Sim) -> list[tuple[str, float]]:
    """Kernels and how long each ran, without the latency."""
    return [(event.what, round(event.end - event.start - 2, 9)) for event in sim.timeline() if event.lane == "queue"]


# The model


@pytest.mark.parametrize(
    ("nbytes", "operations", "seconds"),
    [(0, 0, 2), (50, 0, 7), (0, 300, 5), (50, 300, 7), (50, 900, 11), (50, 500, 7)],
)
def test_a_kernel_takes_what_memory_or_arithmetic_takes(nbytes: int, operations: float, seconds: float) -> None:
    assert ROUND.kernel_seconds(nbytes, operations) == seconds


def test_a_copy_takes_latency_and_bytes() -> None:
    assert [ROUND.copy_seconds(nbytes) for nbytes in (0, 4, 10)] == [5, 6, 7.5]


def test_the_host_runs_ahead_and_kernels_wait_in_order() -> None:
    clock = Clock(ROUND)
    assert [clock.launch("a", 80, 0), clock.launch("b", 0, 100)] == [11, 14]
    assert clock.now == 2
    assert shown(clock) == [
        ("launch a", "host", 0, 1),
        ("a", "queue", 1, 11),
        ("launch b", "host", 1, 2),
        ("b", "queue", 11, 14),
    ]


def test_reading_a_value_back_waits_for_the_queue() -> None:
    clock = Clock(ROUND)
    clock.launch("a", 80, 0)
    assert clock.copy("back", 8) == 18
    assert clock.now == 18
    assert shown(clock)[2:] == [("back", "copy", 11, 18), ("wait for back", "host", 1, 18)]


def test_synchronise_waits_for_queue_and_copies() -> None:
    clock = Clock(ROUND)
    assert clock.synchronise() == 0
    assert shown(clock) == []
    clock.launch("a", 80, 0)
    assert clock.synchronise() == 11
    assert shown(clock)[-1] == ("synchronise", "host", 1, 11)
    clock.copy("in", 40, pinned=True)  # handed over until 12, then 15 s
    assert clock.synchronise() == 27


def test_a_copy_from_pinned_memory_runs_beside_the_queue() -> None:
    clock = Clock(ROUND)
    clock.launch("a", 180, 0)  # 1 to 21
    arrived = clock.copy("in", 4, pinned=True)  # handed over until 2; 2 to 8
    assert (arrived, clock.now) == (8, 2)
    assert clock.copy("in", 8, pinned=True) == 15  # one link: behind the first
    assert clock.launch("b", 0, 0, inputs_ready=arrived) == 23


def test_a_kernel_waits_for_the_copy_it_reads() -> None:
    clock = Clock(ROUND)
    arrived = clock.copy("in", 40, pinned=True)  # 1 to 16
    assert clock.launch("other", 0, 0) == 4
    assert clock.launch("reader", 0, 0, inputs_ready=arrived) == 18


def test_a_full_queue_stops_the_host() -> None:
    clock = Clock(ROUND)
    for _ in range(3):
        clock.launch("long", 180, 0)  # ends at 21, 41, 61
    assert clock.now == 3
    clock.launch("next", 0, 0)
    assert clock.now == 22
    assert ("the queue is full", "host", 3, 21) in shown(clock)


def test_the_host_may_do_something_else() -> None:
    clock = Clock(ROUND)
    clock.work("read a file", 30)
    assert clock.launch("a", 0, 0) == 33
    assert shown(clock)[0] == ("read a file", "host", 0, 30)


# What kernels cost


@pytest.mark.parametrize(
    ("program", "cost"),
    [
        (lambda x, y: x + 1, (480, 60)),
        (lambda x, y: x * x, (480, 60)),  # one array, read once
        (lambda x, y: x + x[0], (480 + 48, 60)),
        (lambda x, y: x.T + y, (480 + 240, 60)),
        (lambda x, y: x[:, :1].broadcast_to(5, 12) * 2, (240 + 20, 60)),  # broadcast entries are read once
        (lambda x, y: x @ y, (240 + 240 + 100, 2 * 5 * 5 * 12)),
        (lambda x, y: y @ x, (240 + 240 + 576, 2 * 12 * 12 * 5)),
        (lambda x, y: x.sum(), (244, 60)),
    ],
    ids=["add", "square", "row", "transposed", "broadcast", "matmul", "wide matmul", "sum"],
)
def test_what_an_operation_moves_and_computes(
    program: Callable[[Tensor, Tensor], Tensor], cost: tuple[int, int], sim: Sim
) -> None:
    x, y = Tensor(random(5, 12), device=sim), Tensor(random(12, 5), device=sim)
    for model, want in (
        (Model(latency=2, bandwidth=1, rate=math.inf), cost[0]),
        (Model(latency=2, bandwidth=math.inf, rate=1), cost[1]),
    ):
        sim.model = model
        sim.reset()
        program(x, y)
        assert [seconds for _, seconds in kernels(sim)] == [want]


@pytest.mark.parametrize(
    ("call", "operations"),
    [
        (lambda xp, a, b: xp.einsum("ij,jk->ik", a, b), 2 * 4 * 6 * 5),
        (lambda xp, a, b: xp.einsum("ij,jk", a, b), 2 * 4 * 6 * 5),
        (lambda xp, a, b: xp.einsum("...j,jk->...k", a, b), 2 * 4 * 6 * 5),
        (lambda xp, a, b: xp.tensordot(a, b, 1), 2 * 4 * 6 * 5),
        (lambda xp, a, b: xp.dot(a, b), 2 * 4 * 6 * 5),
        (lambda xp, a, b: xp.linalg.inv(a[:, :4]), 4**3),
        (lambda xp, a, b: xp.take(a, b[0, :2].astype(int) * 0, axis=0), None),
    ],
)
def test_operations_of_bare_kernels(call: Callable[..., Any], operations: float | None, sim: Sim) -> None:
    sim.model = Model(latency=2, bandwidth=math.inf, rate=1)
    a, b = sim.from_host(random(4, 6)), sim.from_host(random(6, 5))
    sim.reset()
    call(sim.xp, a, b)
    if operations is not None:
        assert kernels(sim)[-1][1] == pytest.approx(operations)


def test_picking_moves_only_what_is_picked(sim: Sim) -> None:
    sim.model = Model(latency=2, bandwidth=1, rate=math.inf)
    table, rows = sim.from_host(random(1000, 4)), sim.from_host(np.array([3, 999]))
    sim.reset()
    _ = table[rows]
    table[rows] = table[:2]
    assert kernels(sim) == [("pick", 2 * 32 + 16), ("__setitem__", 2 * (16 + 32))]
    assert sim.counters.launches == 2


def test_views_cost_nothing(sim: Sim) -> None:
    x = Tensor(random(3, 4), device=sim)
    sim.reset()
    for _ in (x.T, x[1:], x.reshape(12), ops.flip(x), x.broadcast_to(2, 3, 4)):
        pass
    assert sim.timeline() == []
    assert sim.now == 0


# What a chapter shows


@pytest.mark.slow
def test_moving_costs_more_than_computing(sim: Sim) -> None:
    """Adding 1 to 64 MiB: the way there and back takes many times as long as the kernel."""
    sim.model = Model()
    host = np.zeros(16 * 2**20, np.float32)
    sim.reset()
    y = sim.from_host(host) + 1
    sim.to_host(y)
    times = {event.what: event.end - event.start for event in sim.timeline() if event.lane != "host"}
    assert times["copy to device"] == pytest.approx(10e-6 + 2**26 / 25e9)
    assert times["add"] == pytest.approx(2e-6 + 2**27 / 1555e9)
    assert times["copy to device"] + times["copy to host"] > 60 * times["add"]


def test_small_kernels_are_bound_by_launches(sim: Sim) -> None:
    sim.model = Model()
    x = sim.from_host(random(10))
    sim.reset()
    for _ in range(100):
        x = x + 1
    sim.synchronise()
    assert sim.now == pytest.approx(100 * 5e-6 + sim.model.kernel_seconds(80, 10))


@pytest.mark.slow
def test_large_kernels_hide_the_launches(sim: Sim) -> None:
    sim.model = Model()
    x = sim.from_host(np.zeros((512, 512), np.float32))
    sim.reset()
    for _ in range(20):
        x = x @ x
    took = sim.now
    sim.synchronise()
    assert took == pytest.approx(20 * 5e-6), "without waiting, only the launches are measured"
    assert sim.now == pytest.approx(5e-6 + 2e-6 + 2 * 512**3 / 19.5e12 + 19 * (2e-6 + 2 * 512**3 / 19.5e12))


@pytest.mark.slow
def test_prefetching_hides_a_copy(sim: Sim) -> None:
    """The next batch comes while this one is computed."""

    def epoch(pinned: bool) -> float:
        sim.reset()
        for batch in batches:
            x = sim.from_host(batch, pinned=pinned)
            for _ in range(4):
                x = x @ weight
        sim.synchronise()
        return sim.now

    sim.model = Model()
    weight, batches = sim.from_host(random(256, 256)), [random(1024, 256) for _ in range(4)]
    plain, overlapped = epoch(False), epoch(True)
    copy, compute = sim.model.copy_seconds(2**20), 4 * sim.model.kernel_seconds(9 * 2**18, 2 * 1024 * 256**2)
    assert plain == pytest.approx(4 * (copy + 5e-6 + compute))
    assert overlapped < plain - 2 * min(copy, compute)


def test_equal_programs_take_equal_times(sim: Sim) -> None:
    def program() -> list[Any]:
        sim.reset()
        model = nn.Sequential(nn.Linear(8, 4, rng=np.random.default_rng(0)), nn.ReLU()).to("sim:8")
        model(Tensor(random(3, 8), device=sim)).sum().backward()
        sim.synchronise()
        return sim.timeline()

    first = program()
    assert first == program()
    assert all(event.end >= event.start for event in first)
    for lane in ("host", "queue", "copy"):
        events = [event for event in first if event.lane == lane]
        assert all(one.end <= other.start for one, other in pairwise(events)), lane


def test_reset_starts_the_clock_again(sim: Sim) -> None:
    _ = sim.from_host(random(10)) + 1
    assert sim.now > 0
    sim.reset()
    assert (sim.now, sim.timeline(), sim.clock.queue_end) == (0, [], 0)


def test_what_was_on_its_way_before_a_reset_has_arrived(sim: Sim) -> None:
    x = sim.from_host(random(1000), pinned=True)
    sim.reset()
    _ = x + 1
    assert kernels(sim) == [("add", 800)]
    assert sim.timeline()[-1].start == 1


@pytest.mark.slow
def test_the_timeline_is_bounded(sim: Sim) -> None:
    for _ in range(2**16 + 10):
        sim.clock.work("wait", 0)
    assert len(sim.timeline()) == 2**16


# Refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bandwidth": 0}, "bandwidth is 0; expected a number above 0"),
        ({"rate": -1}, "rate is -1; expected a number above 0"),
        ({"rate": math.nan}, "rate is nan"),
        ({"launch": -1e-9}, "launch is -1e-09; expected a number not below 0"),
        ({"latency": "2"}, "latency is '2'"),
        ({"transfer_bandwidth": None}, "transfer_bandwidth is None"),
        ({"depth": 0}, "depth is 0"),
        ({"depth": 1.5}, "depth is 1.5; expected a whole number"),
    ],
)
def test_speeds_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"Model: {words}"):
        Model(**settings)


def test_other_nonsense(sim: Sim) -> None:
    with pytest.raises(TypeError, match=r"sim:8: model takes a Model, got dict"):
        sim.model = {}  # type: ignore[assignment]
    for seconds in (-1, math.nan):
        with pytest.raises(ValueError, match="work: 'x' takes"):
            sim.clock.work("x", seconds)
    with pytest.raises(DeviceError, match="sim:8: an array of object can't lie in device memory"):
        sim.from_host(np.array([None]))
