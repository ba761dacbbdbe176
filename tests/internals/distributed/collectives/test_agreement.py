"""Ranks that do not agree, that die or that never come: an error on every rank that says who and what, and no hang."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals.distributed import collectives
from internals.distributed.collectives import communicator
from internals.distributed.errors import DeadlineExceeded, DistributedError, MismatchError, PeerLost
from internals.distributed.group import Group, run_threads

Told = list[BaseException | None]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("internals.distributed.collectives.agreement.PATIENCE", 0.05)


def x(size: int = 3, dtype: str = "float32") -> np.ndarray:
    return np.ones(size, dtype)


def outcomes(ranks: int, what: Callable[[Group], Any], *, deadline: float = 20.0, then: bool = True) -> Told:
    """What each rank raised, in the calls or in a barrier after them; all stay until all are done."""
    everyone = threading.Barrier(ranks)

    def member(group: Group) -> BaseException | None:
        try:
            what(group)
            if then:
                collectives.barrier(group=group)
        except DistributedError as error:
            return error
        finally:
            everyone.wait(60)
        return None

    return run_threads(ranks, member, deadline=deadline)


def shapes(group: Group) -> None:
    collectives.all_reduce(x(4 if group.rank == 1 else 3), group=group)


def dtypes(group: Group) -> None:
    collectives.all_reduce(x(3, "float64" if group.rank == 2 else "float32"), group=group, algorithm="tree")


def operations(group: Group) -> None:
    collectives.all_reduce(x(), "max" if group.rank == 3 else "sum", group=group, algorithm="ring")


def algorithms(group: Group) -> None:
    collectives.all_reduce(x(9), group=group, algorithm="tree" if group.rank == 2 else "halving_doubling")


def roots(group: Group) -> None:
    collectives.broadcast(x(), group.rank % 2, group=group)


def kinds(group: Group) -> None:
    if group.rank == 1:
        collectives.broadcast(x(), 0, group=group)
    else:
        collectives.all_reduce(x(), group=group, algorithm="ring")


def one_way(group: Group) -> None:
    """Nobody would wait in either."""
    if group.rank == 0:
        collectives.broadcast(x(), 0, group=group)
    else:
        collectives.reduce(x(), 0, group=group)


def order(group: Group) -> None:
    calls = [lambda: collectives.barrier(group=group), lambda: collectives.all_reduce(x(), group=group)]
    for call in calls if group.rank == 0 else reversed(calls):
        call()


def one_too_many(group: Group) -> None:
    if group.rank == 2:
        collectives.all_gather(x(), group=group)
    collectives.all_reduce(x(), group=group)


def asynchronous(group: Group) -> None:
    works = [
        collectives.all_reduce(x(3 + (group.rank == 0 and number == 2)), group=group, asynchronous=True)
        for number in range(4)
    ]
    for work in works:
        work.wait()


MISTAKES = {
    shapes: (r"float32 \(4,\)", "float32 (3,)", 1),
    dtypes: ("float64", "float32 (3,), tree", 2),
    operations: (r"all_reduce\(max", "all_reduce(sum", 3),
    algorithms: ("tree", "halving_doubling", 2),
    roots: ("source 0", "source 1", None),
    kinds: (r"rank 1 called broadcast\(", "all_reduce(", 1),
    one_way: (r"rank 0 called broadcast\(", "reduce(", 0),
    order: (r"rank 0 called barrier\(\)", "all_reduce(", 0),
    one_too_many: (r"rank 2 called all_gather\(", "all_reduce(", 2),
    asynchronous: (r"float32 \(4,\)", "float32 (3,)", 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_every_rank_says_who_called_what(mistake: Callable[[Group], Any]) -> None:
    one, others, odd = MISTAKES[mistake]
    for error in outcomes(4, mistake):
        assert type(error) is MismatchError
        assert re.search(one, str(error))
        assert others in str(error)
        if odd is not None:
            assert f"rank {odd} called" in str(error)


def sources(group: Group) -> None:
    collectives.broadcast(x(), group.rank, group=group)


def targets(group: Group) -> None:
    """Each takes the other for the target, so that both only send."""
    collectives.reduce(x(), 1 - group.rank, group=group)


def gathering(group: Group) -> None:
    collectives.gather(x(), 1 - group.rank, group=group)


def scattering(group: Group) -> None:
    collectives.scatter(x(), [x(), x()], group.rank, group=group)


def long_sources(group: Group) -> None:
    """In several messages, of which the first is answered."""
    collectives.broadcast(x(9), group.rank, group=group)


@pytest.mark.parametrize(
    "mistake", [shapes, sources, targets, gathering, scattering, one_way, long_sources], ids=lambda one: one.__name__
)
def test_a_mismatch_that_comes_with_the_first_message_is_found_at_once(
    mistake: Callable[[Group], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the call itself, on both ranks, and before anybody has lost patience."""
    monkeypatch.setattr("internals.distributed.collectives.operands.SEGMENT", 16)
    monkeypatch.setattr("internals.distributed.collectives.agreement.PATIENCE", 30.0)
    for error in outcomes(2, mistake, then=False):
        assert type(error) is MismatchError
        assert "rank 0 called" in str(error)
        assert "rank 1 called" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 5])
def test_a_source_that_nobody_listens_to_finds_out_in_the_call(size: int) -> None:
    """The last rank thinks that it is the source, sends, and is neither sent to by those nor listened to."""

    def member(group: Group) -> None:
        collectives.broadcast(x(), group.rank if group.rank == size - 1 else 0, group=group)

    told = outcomes(size, member, then=False)
    assert type(told[-1]) is MismatchError
    assert f"rank {size - 1} called broadcast(float32 (3,), source {size - 1})" in str(told[-1])


def test_after_an_error_the_group_is_over_and_others_are_not() -> None:
    def member(group: Group) -> float:
        part = group.subgroup([0, 1])
        assert part is not None
        with pytest.raises(MismatchError):
            shapes(group)
        with pytest.raises(MismatchError, match="ranks called different"):
            collectives.barrier(group=group)
        with pytest.raises(MismatchError):
            collectives.all_reduce(x(), group=group, asynchronous=True)
        return float(collectives.all_reduce(x(), group=part)[0])

    assert run_threads(2, member) == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", collectives.ALGORITHMS)
def test_a_rank_that_dies_is_named_by_all_others(name: str) -> None:
    def member(group: Group) -> None:
        collectives.barrier(group=group)
        if group.rank == 2:
            group.endpoint._network.kill(group.name_of(2))  # type: ignore[attr-defined]
            return
        collectives.all_reduce(x(50), group=group, algorithm=name)

    told = outcomes(4, member, then=False)
    for rank in (0, 1, 3):
        error = told[rank]
        assert type(error) is PeerLost
        assert error.peer == "rank:2"


@pytest.mark.slow
@pytest.mark.parametrize(("comes", "says"), [(False, "has not called any"), (True, r"is at call 1, barrier\(\)")])
def test_a_rank_that_never_comes_is_named_by_all_others(comes: bool, says: str) -> None:
    gone = threading.Event()

    def member(group: Group) -> None:
        if comes:
            collectives.barrier(group=group)
        if group.rank == 3:
            gone.wait(30)
            collectives.all_reduce(x(), group=group, algorithm="ring")
            return
        try:
            collectives.all_reduce(x(), group=group, algorithm="ring")
        finally:
            gone.set()

    told = outcomes(4, member, deadline=1.0, then=False)
    for rank in range(4):
        with pytest.raises(DeadlineExceeded, match=f"was not called by all ranks within 1 s.*rank 3 {says}"):
            raise told[rank] or AssertionError(f"rank {rank} raised nothing")


@pytest.mark.slow
def test_a_slow_rank_is_waited_for() -> None:
    def member(group: Group) -> float:
        if group.rank == 1:
            threading.Event().wait(1.2)
        return float(collectives.all_reduce(x(), group=group)[0])

    assert run_threads(3, member, deadline=20.0) == [3, 3, 3]


def test_a_message_that_is_none_of_ours_is_no_result() -> None:
    def member(group: Group) -> None:
        if group.rank == 0:
            communicator(group)
            group.send(1, "collective", np.zeros(3), n="first", f=None)
            collectives.barrier(group=group)
        else:
            collectives.barrier(group=group)

    told = outcomes(2, member)
    assert all(type(error) is MismatchError for error in told)
    assert "rank 1 got a message of call first from rank 0" in str(told[1])


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [shapes, operations, order, asynchronous], ids=lambda mistake: mistake.__name__)
def test_who_finds_a_mismatch_tells_the_others_before_it_leaves(mistake: Callable[[Group], Any]) -> None:
    told: Told = [None] * 4

    def member(group: Group) -> None:
        communicator(group)
        try:
            mistake(group)
            collectives.barrier(group=group)
        except DistributedError as error:
            told[group.rank] = error
            group.close()

    run_threads(4, member)
    assert [type(error) for error in told] == [MismatchError] * 4
