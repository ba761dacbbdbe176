"""The collectives on threads: each algorithm, sizes around its cuts, order, asynchronous calls, parts of a group."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from internals import Tensor
from internals.distributed import collectives
from internals.distributed.collectives import operands, reductions
from internals.distributed.errors import DeadlineExceeded
from internals.distributed.group import Group, run_threads
from internals.distributed.transport import Faults

SIZES = (0, 1, 2, 3, 4, 5, 9, 64, 101)


def numbers(rank: int, size: int) -> np.ndarray:
    return np.random.default_rng([rank, size]).standard_normal(size).astype(np.float32)


def reduced(group: Group, name: str, sizes: tuple[int, ...], op: str = "sum") -> list[np.ndarray]:
    return [collectives.all_reduce(numbers(group.rank, size), op, group=group, algorithm=name).copy() for size in sizes]


def check_reduced(ranks: int, answers: list[list[np.ndarray]], sizes: tuple[int, ...]) -> None:
    for place, size in enumerate(sizes):
        expected = sum(numbers(rank, size).astype(np.float64) for rank in range(ranks))
        assert len({one[place].tobytes() for one in answers}) == 1
        np.testing.assert_allclose(answers[0][place], expected, atol=1e-5)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", collectives.ALGORITHMS)
def test_every_algorithm_at_every_size(name: str, ranks: int) -> None:
    check_reduced(ranks, run_threads(ranks, reduced, name, SIZES), SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [6, 7, 8, 9])
@pytest.mark.parametrize("name", collectives.ALGORITHMS)
def test_more_ranks(name: str, ranks: int) -> None:
    check_reduced(ranks, run_threads(ranks, reduced, name, SIZES), SIZES)


@pytest.mark.parametrize("name", collectives.ALGORITHMS)
def test_arrays_of_several_segments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "SEGMENT", 40)
    check_reduced(3, run_threads(3, reduced, name, (101, 10, 11)), (101, 10, 11))


@pytest.mark.slow
@pytest.mark.parametrize("name", collectives.ALGORITHMS)
def test_messages_late_and_out_of_order_across_ranks(name: str) -> None:
    faults = Faults(jitter=0.004, seed=7)
    check_reduced(5, run_threads(5, reduced, name, SIZES, faults=faults), SIZES)


@pytest.mark.parametrize("name", collectives.ALGORITHMS)
def test_a_mean_is_divided_once(name: str) -> None:
    answers = run_threads(3, reduced, name, SIZES, "mean")
    for place, size in enumerate(SIZES):
        expected = sum(numbers(rank, size).astype(np.float64) for rank in range(3)) / 3
        np.testing.assert_allclose(answers[1][place], expected, atol=1e-6)


def test_which_algorithm_is_chosen() -> None:
    names = [collectives.chosen(nbytes, 4) for nbytes in (0, 4096, 1 << 19, 100 << 20)]
    assert names[0] == names[1] == "flat"
    assert set(names) <= set(reductions.ALGORITHMS)
    assert names[-1] not in ("flat", "tree")


def special(group: Group, name: str) -> np.ndarray:
    x = np.array([np.nan if group.rank == 1 else 1.0, np.inf if group.rank == 2 else -np.inf, -0.0, group.rank])
    return collectives.all_reduce(x, "max", group=group, algorithm=name)


@pytest.mark.parametrize("name", collectives.ALGORITHMS)
def test_a_nan_of_any_rank_is_in_the_maximum(name: str) -> None:
    for got in run_threads(3, special, name):
        np.testing.assert_array_equal(got, [np.nan, np.inf, 0.0, 2.0])


def the_other_calls(group: Group) -> None:
    rank, size = group.rank, group.size
    rows = np.random.default_rng(3).standard_normal((size, 11, 2))
    gathered = collectives.all_gather(rows[rank], group=group)
    np.testing.assert_array_equal(gathered, rows)
    begin, end = collectives.bounds(11, size)[rank]
    part = collectives.reduce_scatter(rows[rank], group=group)
    np.testing.assert_allclose(part, rows.sum(0)[begin:end], atol=1e-12)
    whole = np.zeros((11, 2))
    assert collectives.all_gather(part, into=whole, group=group) is whole
    np.testing.assert_allclose(whole, rows.sum(0), atol=1e-12)
    given = [np.full((rank, place, 2), rank * size + place, np.int32) for place in range(size)]
    for source, got in enumerate(collectives.all_to_all(given, group=group)):
        np.testing.assert_array_equal(got, np.full((source, rank, 2), source * size + rank, np.int32))
    for root in range(size):
        x = rows[rank].copy()
        np.testing.assert_array_equal(collectives.broadcast(x, root, group=group), rows[root])
        x = rows[rank].copy()
        collectives.reduce(x, root, "max", group=group)
        np.testing.assert_array_equal(x, rows.max(0) if rank == root else rows[rank])
        got = collectives.gather(rows[rank], root, group=group)
        assert (got is None) == (rank != root)
        np.testing.assert_array_equal(rows if got is None else got, rows)
        x = np.empty((11, 2))
        collectives.scatter(x, list(rows) if rank == root else None, root, group=group)
        np.testing.assert_array_equal(x, rows[rank])


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_the_other_calls(ranks: int) -> None:
    run_threads(ranks, the_other_calls)


def in_any_layout(group: Group) -> list[Any]:
    base = np.random.default_rng(group.rank).standard_normal((4, 6)).astype(np.float32)
    crooked = base[::2, ::-1]
    backwards = base.astype(">f4")
    turned = np.asfortranarray(base)
    tensors = [Tensor(base), Tensor(base, requires_grad=True), Tensor(base, device="sim:0")]
    alias = tensors[0].detach()
    version = alias.version
    for x in (crooked, backwards, turned, *tensors):
        assert collectives.all_reduce(x, group=group) is x
    assert alias.version > version
    return [base, backwards, turned, *(np.asarray(one.detach().to("cpu").numpy()) for one in tensors)]


def test_an_array_of_any_layout_on_any_device_is_written_to() -> None:
    first, second = run_threads(2, in_any_layout)
    drawn = [np.random.default_rng(rank).standard_normal((4, 6)).astype(np.float32) for rank in range(2)]
    expected = drawn[0] + drawn[1]
    for got in (first, second):
        np.testing.assert_array_equal(got[0][::2], expected[::2])
        for one in got[1:]:
            np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(first[0][1::2], drawn[0][1::2])


def results_are_of_a_kind(group: Group) -> None:
    x = Tensor([1.0, 2.0], device="sim:0")
    for got in (
        collectives.all_gather(x, group=group),
        collectives.reduce_scatter(x, group=group),
        collectives.all_to_all([x, x], group=group)[1],
    ):
        assert isinstance(got, Tensor)
        assert got.device.name == "sim:0"


def test_a_tensor_comes_back_as_a_tensor_on_its_device() -> None:
    run_threads(2, results_are_of_a_kind)


def in_order(group: Group) -> None:
    works = [collectives.all_reduce(np.array([float(number)]), group=group, asynchronous=True) for number in range(20)]
    last = collectives.all_reduce(np.ones(1), group=group)
    assert last[0] == group.size
    assert all(work.done for work in works)
    assert [work.wait()[0] for work in works] == [number * group.size for number in range(20)]
    assert all(before.ended <= after.began for before, after in itertools.pairwise(works))
    assert "all_reduce(sum, float64 (1,), flat): done" in repr(works[0])


def test_calls_are_done_in_order_and_a_plain_one_waits_for_those_started() -> None:
    run_threads(3, in_order)


def goes_on(group: Group, gate: threading.Event) -> float:
    if group.rank == 1:
        gate.wait(20)
    x = np.full(3, 1.0)
    work = collectives.all_reduce(x, group=group, asynchronous=True)
    if group.rank == 0:
        assert not work.done
        with pytest.raises(DeadlineExceeded, match="not done after 0.01 s"):
            work.wait(0.01)
        gate.set()
    return work.wait()[0]


def test_a_started_call_lets_its_caller_go_on() -> None:
    assert run_threads(2, goes_on, threading.Event()) == [2, 2]


def after_all(group: Group, came: list[int]) -> int:
    time.sleep(0.01 * ((group.rank * 3) % 5))
    came.append(group.rank)
    collectives.barrier(group=group)
    return len(came)


def test_nobody_passes_a_barrier_before_all_have_come() -> None:
    assert run_threads(5, after_all, []) == [5] * 5


def in_parts(group: Group) -> Any:
    part = group.subgroup([4, 2, 0])
    other = group.subgroup([1, 3])
    mine = part or other
    assert mine is not None
    x = np.array([10.0**group.rank])
    collectives.all_reduce(x, group=mine)
    everyone = collectives.all_reduce(np.ones(1), group=group)
    return x[0], everyone[0], collectives.all_gather(np.array([group.rank]), group=mine).ravel().tolist()


def test_parts_of_a_group_have_collectives_of_their_own() -> None:
    assert run_threads(5, in_parts) == [
        (10101, 5, [4, 2, 0]), (1010, 5, [1, 3]), (10101, 5, [4, 2, 0]), (1010, 5, [1, 3]), (10101, 5, [4, 2, 0]),
    ]  # fmt: skip


@pytest.mark.parametrize(("length", "parts"), [(0, 3), (1, 3), (7, 3), (9, 3), (2, 5)])
def test_bounds_cover_everything_once(length: int, parts: int) -> None:
    cuts = collectives.bounds(length, parts)
    assert [place for begin, end in cuts for place in range(begin, end)] == list(range(length))
    assert max(end - begin for begin, end in cuts) - min(end - begin for begin, end in cuts) <= 1


@pytest.mark.slow
def test_a_group_that_is_over_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("internals.distributed.collectives.work.IDLE", 0.01)
    groups: list[Any] = []

    def member(group: Group) -> None:
        groups.append(weakref.ref(group))
        collectives.all_reduce(np.ones(3), group=group, asynchronous=True).wait()
        collectives.barrier(group=group)

    run_threads(2, member)
    end = time.monotonic() + 20
    while time.monotonic() < end and (any(ref() for ref in groups) or still_running()):
        gc.collect()
        time.sleep(0.01)
    assert [ref() for ref in groups] == [None, None]
    assert still_running() == []


def still_running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("collectives of")]


def test_a_thread_that_ended_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("internals.distributed.collectives.work.IDLE", 0.005)

    def member(group: Group) -> list[float]:
        found = []
        for _ in range(4):
            found.append(collectives.all_reduce(np.ones(1), group=group, asynchronous=True).wait()[0])
            time.sleep(0.01)
        return found

    assert run_threads(2, member) == [[2.0] * 4] * 2
