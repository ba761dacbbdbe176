"""Who is waited for: the rules alone, without messages."""

from __future__ import annotations

import numpy as np
import pytest

from internals.distributed.server.consistency import (
    Asynchronous,
    BoundedStaleness,
    Consistency,
    Contribution,
    Synchronous,
    consistency,
)


def taken(rule: Consistency, shard: int, step: int) -> list[list[int]]:
    return [[one.shard for one in together] for together in rule.take(Contribution(shard, step))]


def test_a_step_is_taken_when_all_have_come_and_in_the_order_of_shards() -> None:
    rule = Synchronous(3)
    assert taken(rule, 2, 0) == []
    assert not rule.is_open(None, 1)
    assert rule.missing(1) == [0, 1]
    assert taken(rule, 0, 0) == []
    assert taken(rule, 1, 0) == [[0, 1, 2]]
    assert rule.is_open(None, 1)
    assert not rule.is_open(None, 2)
    assert rule.missing(1) == []


def test_what_comes_again_changes_nothing() -> None:
    rule = Synchronous(2)
    assert taken(rule, 0, 0) == taken(rule, 0, 0) == []
    assert taken(rule, 1, 0) == [[0, 1]]
    assert taken(rule, 1, 0) == taken(rule, 0, 0) == []
    assert (rule.version, rule.repeated, rule.late) == (1, 3, 0)


@pytest.mark.parametrize("backup", [1, 2])
def test_the_slowest_are_not_waited_for(backup: int) -> None:
    rule = Synchronous(4, backup)
    order = [3, 1, 0, 2]
    for place, shard in enumerate(order):
        done = taken(rule, shard, 0)
        assert done == ([sorted(order[: 4 - backup])] if place == 3 - backup else [])
    assert (rule.version, rule.late, rule.repeated) == (1, backup, 0)
    assert taken(rule, order[-1], 0) == []
    assert (rule.late, rule.repeated) == (backup, 1)


def test_with_backup_a_fast_server_s_trainer_may_be_a_step_ahead() -> None:
    rule = Synchronous(3, 1)
    assert taken(rule, 0, 1) == taken(rule, 1, 1) == taken(rule, 2, 0) == []
    # Shard 2 is the first of step 0; with a second one that step is over, and so is the next.
    assert taken(rule, 0, 0) == []  # it has gone on from there
    assert rule.repeated == 1


def test_a_step_that_is_not_over_can_t_be_left() -> None:
    with pytest.raises(ValueError, match="shard 1 is pushed for step 1, but step 0 is not over"):
        Synchronous(2).take(Contribution(1, 1))


def test_the_bound_holds_whatever_the_order() -> None:
    """Shards that go whenever they may, chosen by chance: none is ever further ahead than the bound allows."""
    rng = np.random.default_rng(0)
    for staleness in (0, 1, 3):
        rule = BoundedStaleness(4, staleness)
        furthest = 0
        for _ in range(600):
            shard = min(int(rng.exponential(1.2)), 3)
            step = rule.clocks[shard]
            if rule.is_open(shard, step):
                furthest = max(furthest, step - min(rule.clocks))
                assert taken(rule, shard, step) == [[shard]]
            else:
                assert step - min(rule.clocks) > staleness
                assert rule.missing(step) == [i for i, c in enumerate(rule.clocks) if c < step - staleness] != []
        assert furthest == staleness


def test_a_trainer_sees_its_own_updates() -> None:
    for rule in (Asynchronous(2), BoundedStaleness(2, 5)):
        assert not rule.is_open(0, 1)
        assert taken(rule, 0, 0) == [[0]]
        assert rule.is_open(0, 1)
        assert not rule.is_open(None, 1)
        assert taken(rule, 1, 0) == [[1]]
        assert rule.is_open(None, 1)
        assert taken(rule, 1, 0) == []
        assert rule.repeated == 1


@pytest.mark.parametrize("rule", [Synchronous(2), Asynchronous(2), BoundedStaleness(2, 1)], ids=lambda r: r.name)
def test_saved_and_loaded(rule: Consistency) -> None:
    for step in range(3):
        for shard in range(2):
            rule.take(Contribution(shard, step))
    rule.take(Contribution(1, 3))
    state = rule.state()
    other = consistency(rule.name, 2, staleness=1 if rule.name == "ssp" else None)
    other.load(state)
    assert other.clocks == ([3, 3] if rule.name == "sync" else [3, 4])
    assert other.is_open(None, 3)
    assert not other.is_open(None, 4)
    with pytest.raises(ValueError, match="of 2 data shards, this server of 3"):
        consistency("async", 3).load(state)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "sync", "shards": 0}, "shards=0"),
        ({"mode": "async", "shards": 1.5}, "shards=1.5"),
        ({"mode": "sync", "shards": 2, "backup": 2}, "backup=2"),
        ({"mode": "sync", "shards": 2, "backup": -1}, "backup=-1"),
        ({"mode": "ssp", "shards": 2, "staleness": -1}, "staleness=-1"),
        ({"mode": "ssp", "shards": 2, "staleness": 0.5}, "staleness=0.5"),
        ({"mode": "ssp", "shards": 2}, "staleness=None"),
        ({"mode": "async", "shards": 2, "staleness": 1}, "mode='async'"),
        ({"mode": "ssp", "shards": 2, "staleness": 1, "backup": 1}, "backup=1"),
        ({"mode": "bsp", "shards": 2}, "mode='bsp'"),
    ],
)
def test_rules_that_make_no_sense(arguments: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        consistency(arguments.pop("mode"), arguments.pop("shards"), **arguments)
