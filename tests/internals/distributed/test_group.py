"""Ranks, parts of a job, and jobs of threads."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from server_jobs import until

from internals.distributed.errors import (
    AddressInUse,
    AuthenticationError,
    DeadlineExceeded,
    DuplicateName,
    MismatchError,
    PeerLost,
)
from internals.distributed.group import Group, join, rendezvous, run_threads
from internals.distributed.transport import Faults, open_endpoint

WAIT = 20.0


def shift(group: Group, start: int) -> list[Any]:
    """Send to the next rank, receive from the one before."""
    array = np.random.default_rng(start + group.rank).normal(size=3)
    group.send((group.rank + 1) % group.size, "shift", array, rank=group.rank)
    message = group.receive((group.rank - 1) % group.size, "shift")
    return [message.kind, message.fields["rank"], message.arrays[0].tolist()]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("faults", [None, Faults(jitter=0.01, seed=5)], ids=["quiet", "jitter"])
def test_threads_are_ranks_and_results_are_by_rank(size: int, faults: Faults | None) -> None:
    results = run_threads(size, shift, 40, faults=faults, deadline=WAIT)
    for rank in range(size):
        before = (rank - 1) % size
        assert results[rank] == ["shift", before, np.random.default_rng(40 + before).normal(size=3).tolist()]


def parts(group: Group) -> Any:
    even = group.subgroup([4, 2, 0])
    again = group.subgroup([4, 2, 0])
    odd = group.subgroup([1, 3])
    mine = even or odd
    assert mine is not None
    assert (even is None) == (group.rank % 2 == 1)
    assert mine.name_of(mine.rank) == f"rank:{group.rank}"
    if again is not None:
        again.send((again.rank + 1) % 3, "x", value=100 + group.rank)
    group.send(group.rank, "x", value=-1)
    mine.send((mine.rank + 1) % mine.size, "x", value=group.rank)
    within = mine.subgroup([mine.rank])
    assert within is not None
    within.send(0, "x", value=1000 + group.rank)
    got = [mine.receive((mine.rank - 1) % mine.size, "x").fields["value"], within.receive(0, "x").fields["value"]]
    if again is not None:
        got.append(again.receive((again.rank - 1) % 3, "x").fields["value"])
    mine.close()
    group.receive(group.rank, "x")
    return got


def test_parts_of_a_job_are_renumbered_and_keep_their_messages_apart() -> None:
    assert run_threads(5, parts, deadline=WAIT) == [
        [2, 1000, 102], [3, 1001], [4, 1002, 104], [1, 1003], [0, 1004, 100],
    ]  # fmt: skip


@pytest.mark.parametrize("ranks", [[], [0, 0], [0, 2], [-1], [0.5]], ids=str)
def test_a_part_is_of_ranks_that_are_there_each_once(ranks: list[Any]) -> None:
    with pytest.raises(ValueError, match="subgroup: ranks|there is no rank"):
        run_threads(2, lambda group: group.subgroup(ranks), deadline=WAIT)


@pytest.mark.parametrize("rank", [2, -1, 0.5, "1"])
@pytest.mark.parametrize("use", [Group.name_of, lambda g, r: g.send(r, "x"), lambda g, r: g.receive(r, "x")])
def test_a_rank_that_is_not_there_is_named(use: Any, rank: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        run_threads(2, lambda group: use(group, rank), deadline=WAIT)


class Broken(BaseException):
    """What a rank may raise: anything."""


@pytest.mark.parametrize("error", [ValueError("bad shard"), Broken("out"), SystemExit(2)])
def test_the_first_error_of_a_rank_is_raised_not_those_it_caused(error: BaseException) -> None:
    def fail(group: Group) -> None:
        if group.rank == 2:
            time.sleep(0.02)
            raise error
        group.receive(2, "never")

    with pytest.raises(type(error)) as raised:
        run_threads(4, fail, deadline=WAIT)
    assert raised.value is error
    assert "raised by rank 2 of 4" in error.__notes__


def test_a_wait_in_a_group_has_the_groups_deadline() -> None:
    def wait(group: Group) -> Any:
        if group.rank == 1:
            return group.receive(0, "x", deadline=WAIT).fields
        with pytest.raises(DeadlineExceeded, match="rank:0: a message 'x' from rank:1 did not come within 0.05 s"):
            group.receive(1, "x")
        group.send(1, "x", n=1)
        return None

    assert run_threads(2, wait, deadline=0.05)[1] == {"n": 1}


def test_there_is_at_least_one_rank() -> None:
    with pytest.raises(ValueError, match="0 ranks; at least 1"):
        run_threads(0, shift, 1)


# Ranks of threads that join over sockets: what `join` does is the same in processes.


def free_address() -> str:
    with open_endpoint("probe") as probe:
        return probe.address.removeprefix("tcp://")


def is_heard(address: str) -> bool:
    """Whether somebody listens there."""
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def joins(ranks: list[tuple[int, int]], address: str, **options: Any) -> list[Any]:
    """What each rank gets that joins: a group (closed again), or an error."""

    def one(place: tuple[int, int]) -> Any:
        try:
            group = join(*place, address, **{"deadline": WAIT, **options})
        except Exception as error:  # noqa: BLE001  it is what is looked at
            return error
        try:
            return shift(group, 7)
        finally:
            time.sleep(0.1)
            group.close()

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(one, ranks))


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "shm", None])
@pytest.mark.parametrize("size", [1, 4])
def test_ranks_join_over_sockets(transport: str | None, size: int) -> None:
    got = joins([(rank, size) for rank in reversed(range(size))], free_address(), transport=transport)
    assert [entry[1] for entry in reversed(got)] == [(rank - 1) % size for rank in range(size)]


@pytest.mark.slow
def test_missing_ranks_are_named_on_every_rank_that_came() -> None:
    errors = joins([(0, 5), (1, 5), (3, 5)], free_address(), deadline=2.0)
    assert [type(error) for error in errors] == [DeadlineExceeded] * 3
    assert all("rank 2, 4 are missing" in str(error) for error in errors)


@pytest.mark.slow
def test_a_missing_rank_0_is_named() -> None:
    errors = joins([(1, 3), (2, 3)], free_address(), deadline=0.5)
    assert [type(error) for error in errors] == [DeadlineExceeded] * 2
    assert all("rank 0 is missing: nobody answers at" in str(error) for error in errors)


@pytest.mark.slow
def test_two_that_are_one_rank_are_named_on_every_rank() -> None:
    errors = joins([(0, 3), (1, 3), (1, 3)], free_address(), deadline=10.0)
    assert [type(error) for error in errors] == [DuplicateName] * 3
    assert all("rank 1" in str(error) or "rank:1" in str(error) for error in errors)


@pytest.mark.slow
def test_two_that_are_rank_0_dont_both_listen() -> None:
    got = joins([(0, 2), (0, 2), (1, 2)], free_address())
    assert sorted(type(entry).__name__ for entry in got) == ["AddressInUse", "list", "list"]
    assert next(entry for entry in got if isinstance(entry, AddressInUse))


@pytest.mark.slow
def test_ranks_that_were_told_of_other_sizes_are_named_on_every_rank() -> None:
    errors = joins([(0, 3), (1, 3), (2, 4)], free_address())
    assert [type(error) for error in errors] == [MismatchError] * 3
    assert all("was told of 4 ranks, rank 0 of 3" in str(error) for error in errors)


@pytest.mark.slow
def test_a_rank_that_comes_after_something_was_found_wrong_is_told_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "LATE", WAIT)
    address = free_address()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(join, 0, 3, address, deadline=WAIT)
        until(lambda: is_heard(address))
        wrong = pool.submit(join, 2, 4, address, deadline=WAIT)
        time.sleep(0.5)  # by now it was heard; if not, the late one is not late, and is told all the same
        late = pool.submit(join, 1, 3, address, deadline=WAIT)
        errors = [one.exception(WAIT) for one in (first, wrong, late)]
    assert [type(error) for error in errors] == [MismatchError] * 3


@pytest.mark.slow
def test_a_straggler_of_an_earlier_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    address = free_address()
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
        first = pool.submit(join, 0, 2, address, deadline=WAIT)
        until(lambda: is_heard(address))
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
        with pytest.raises(AuthenticationError, match="rank:1 belongs to job '/0', this is '/1'"):
            join(1, 2, address, deadline=WAIT)
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
        with join(1, 2, address, deadline=WAIT) as group, first.result(WAIT) as other:
            group.send(0, "x", n=1)
            assert other.receive(1, "x", WAIT).fields == {"n": 1}


@pytest.mark.slow
def test_a_rank_that_dies_is_lost_to_the_others() -> None:
    address = free_address()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(join, 0, 2, address, deadline=WAIT)
        group = join(1, 2, address, deadline=WAIT)
        with first.result(WAIT) as other:
            group.close()
            with pytest.raises(PeerLost, match="lost rank:1"):
                other.receive(1, "x")


@pytest.mark.parametrize(
    ("rank", "size", "address", "environment", "says"),
    [
        (3, 3, "127.0.0.1:1", {}, "rank 3 of 3; ranks are 0 to 2"),
        (-1, 3, "127.0.0.1:1", {}, "rank -1 of 3"),
        (0, 0, "127.0.0.1:1", {}, "rank 0 of 0"),
        (None, 3, "127.0.0.1:1", {}, "RANK is '' in the environment; expected a number"),
        (None, None, None, {"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        (None, None, None, {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, "no address of rank 0"),
        (0, 2, "nowhere", {}, "expected host:port"),
    ],
)
def test_what_join_is_told_is_checked(
    rank: Any, size: Any, address: Any, environment: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=says):
        join(rank, size, address, deadline=0.1)
