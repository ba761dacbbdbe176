"""The batcher under a clock that the test tells: bounds, order, fairness, deadlines, refusal, cancelling."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest

from internals.deploy.serve.batcher import CROWD, Batcher, Request
from internals.deploy.serve.errors import QueueFull


def filled(batcher, *requests, now=0.0):
    for request in requests:
        batcher.submit(now, request)
    return list(requests)


@pytest.mark.parametrize(
    ("size", "rows", "batches"),
    [
        (4, [1, 1, 1, 1, 1], [[1, 1, 1, 1], [1]]),
        (4, [1, 1, 2, 1], [[1, 1, 2], [1]]),
        (4, [3, 2, 1, 1], [[3], [2, 1, 1]]),  # a small one does not overtake
        (4, [9, 1], [[9], [1]]),  # more rows than a batch: alone
        (1, [1, 1], [[1], [1]]),
    ],
)
def test_a_batch_has_at_most_size_rows_in_order_of_arrival(size, rows, batches):
    batcher = Batcher(size=size)
    requests = filled(batcher, *[Request(n) for n in rows])
    came = []
    while batch := batcher.take(0.0):
        came.append(batch)
    assert [[one.rows for one in batch] for batch in came] == batches
    assert [one for batch in came for one in batch] == requests
    assert batcher.rows == len(batcher) == 0


def test_a_full_batch_is_due_at_once_and_not_one_row_before():
    batcher = Batcher(size=3, wait=10)
    filled(batcher, Request(1), Request(1), now=5.0)
    assert batcher.take(5.0) == []
    assert batcher.next_due() == 15.0
    filled(batcher, Request(1), now=6.0)
    assert len(batcher.take(6.0)) == 3


def test_the_latency_bound_counts_from_the_oldest():
    batcher = Batcher(size=8, wait=1.0)
    for at in (0.0, 0.4, 0.8, 0.99):
        filled(batcher, Request(1), now=at)
    assert batcher.take(0.999) == []
    assert batcher.next_due() == 1.0
    assert len(batcher.take(1.0)) == 4


def test_requests_of_different_keys_never_share_a_batch_and_none_starves():
    batcher = Batcher(size=2, wait=0.0)
    filled(batcher, Request(1, "busy"), now=0.0)
    filled(batcher, Request(1, "rare"), now=0.1)
    filled(batcher, *[Request(1, "busy") for _ in range(9)], now=0.2)
    came = []
    while batch := batcher.take(1.0):
        assert len({one.key for one in batch}) == 1
        came.append(batch[0].key)
    assert came[:2] == ["busy", "rare"]


def test_the_queue_is_bounded_in_rows_and_opens_again():
    batcher = Batcher(size=2, queue=4)
    filled(batcher, Request(2), Request(2))
    with pytest.raises(QueueFull, match="4 rows wait and the queue holds 4: no room for 1"):
        batcher.submit(0.0, Request(1))
    batcher.take(0.0)
    batcher.submit(0.0, Request(2))
    assert batcher.rows == 4


def test_a_request_larger_than_the_queue_is_taken_when_nothing_else_waits():
    batcher = Batcher(queue=4)
    filled(batcher, Request(9))
    assert [one.rows for one in batcher.take(0.0)] == [9]


def test_deadlines_and_cancelling_take_requests_out():
    batcher = Batcher(size=8, wait=5)
    early, late, left = filled(batcher, Request(1, deadline=1.0), Request(1, deadline=3.0), Request(2))
    assert batcher.next_expiry() == 1.0
    assert batcher.expire(0.99) == []
    assert batcher.expire(1.0) == [early]
    assert batcher.cancel(left)
    assert not batcher.cancel(left)
    assert batcher.rows == 1
    assert batcher.take(5.0) == [late]
    assert batcher.next_expiry() is None
    assert batcher.next_due() is None


def test_what_is_alone_stays_alone():
    batcher = Batcher(size=8, wait=5)
    requests = filled(batcher, Request(1), Request(1, alone=True), Request(1))
    assert [batcher.take(5.0) for _ in range(3)] == [[one] for one in requests]


def held_up(batcher, service, arrivals):
    """Seconds that each request waited while the one worker was free; a batch takes ``service`` seconds."""
    coming, now, idle, held = deque(arrivals), 0.0, 0.0, []
    while coming or len(batcher):
        due = batcher.next_due()
        when = max(now, idle, due) if due is not None else math.inf
        if coming and coming[0] <= when:
            now = coming.popleft()
            filled(batcher, Request(1), now=now)
        elif batch := batcher.take(when):
            held += [when - max(one.arrived, idle) for one in batch]
            now, idle = when, when + service
    return held


def answers(batcher, clients, base, row, pause, seed=0, keys=1):
    """How many some clients get in a second; each comes again about ``pause`` after it had the last one."""
    rng = np.random.default_rng(seed)
    coming = sorted(rng.uniform(0, 0.002, clients).tolist())
    now, idle, number = 0.0, 0.0, 0
    while idle <= 1.0:
        due = batcher.next_due()
        when = max(now, idle, due) if due is not None else math.inf
        if coming and coming[0] <= when:
            now = coming.pop(0)
            filled(batcher, Request(1, int(rng.integers(keys))), now=now)
        elif batch := batcher.take(when):
            now, idle = when, when + base + row * len(batch)
            number += len(batch)
            coming = sorted([*coming, *(idle + pause * rng.uniform(0.5, 1.5, len(batch))).tolist()])
    return number


def crowded(linger=0.001, requests=10, **settings):
    """A batcher that has lately found so many together, at 0 seconds."""
    batcher = Batcher(linger=linger, **settings)
    filled(batcher, *[Request(1) for _ in range(requests)])
    assert len(batcher.take(0.0)) == requests
    assert batcher.crowd == requests
    return batcher


def test_it_lingers_for_as_many_as_lately_came_together_and_no_longer_than_it_says():
    batcher = crowded()
    for number in range(9):
        filled(batcher, Request(2), now=1.0 + number * 1e-5)
        assert batcher.take(1.0 + number * 1e-5) == []
    assert batcher.next_due() == 1.001
    filled(batcher, Request(1), now=1.0009)
    assert len(batcher.take(1.0009)) == 10
    filled(batcher, Request(1), now=2.0)
    assert batcher.take(2.0009) == []
    assert len(batcher.take(2.001)) == 1


def test_one_that_can_not_join_ends_it_for_all():
    batcher = crowded()
    filled(batcher, Request(1), now=1.0)
    assert batcher.take(1.0) == []
    filled(batcher, Request(1, key="other"), now=1.0001)
    assert [[one.key for one in batcher.take(1.0001)] for _ in range(2)] == [[None], ["other"]]


def test_those_of_another_key_are_not_waited_for():
    batcher = crowded()
    filled(batcher, Request(1, key="other"), now=1.0)
    assert batcher.take(1.0)
    filled(batcher, *[Request(1, key=number % 2) for number in range(12)], now=2.0)
    assert len(batcher.take(2.0)) == batcher.crowd == 6


def test_one_that_is_alone_is_taken_for_no_crowd():
    batcher = crowded()
    filled(batcher, *[Request(1, "lonely", alone=True) for _ in range(20)], now=1.0)
    assert len(batcher.take(1.0)) == 1
    assert batcher.crowd == 10


def test_one_that_can_not_wait_so_long_ends_it():
    """Otherwise it might never be run, however many workers are free."""
    batcher = crowded()
    filled(batcher, Request(1), Request(1, deadline=1.0021), now=1.0)
    assert batcher.take(1.0) == []
    filled(batcher, Request(1, deadline=1.0019), now=1.0)
    assert len(batcher.take(1.0)) == 3


def test_one_for_which_there_is_no_room_ends_it():
    batcher = crowded(queue=16)
    filled(batcher, Request(9), now=1.0)
    assert batcher.take(1.0) == []
    with pytest.raises(QueueFull):
        batcher.submit(1.0, Request(8))
    assert len(batcher.take(1.0)) == 1
    batcher.submit(1.0, Request(8))


@pytest.mark.parametrize(("together", "held"), [(1, False), (3, False), (4, True), (20, True)])
def test_from_four_together_on_it_is_a_crowd(together, held):
    batcher = Batcher(linger=0.001, size=2)
    filled(batcher, *[Request(1) for _ in range(together)])
    batcher.take(0.0)
    assert batcher.crowd == together  # also those that don't fit
    batcher.clear()
    filled(batcher, Request(1), now=1.0)
    assert (batcher.take(1.0) == []) is held


def test_a_full_batch_and_one_that_is_alone_do_not_linger():
    batcher = crowded(size=10)
    filled(batcher, Request(10), now=1.0)
    assert len(batcher.take(1.0)) == 1
    batcher = crowded()
    filled(batcher, Request(1, alone=True), now=1.0)
    assert len(batcher.take(1.0)) == 1


def test_a_fixed_wait_is_not_shortened():
    batcher = crowded(wait=0.005, size=10)
    filled(batcher, Request(1), now=1.0)
    assert batcher.next_due() == 1.005
    batcher = crowded(linger=0.0)
    filled(batcher, Request(1), now=1.0)
    assert batcher.take(1.0)


@pytest.mark.parametrize("left", range(4, 10))
def test_when_others_have_gone_one_wait_is_enough_to_notice(left):
    batcher = crowded()
    filled(batcher, *[Request(1) for _ in range(left)], now=1.0)
    assert batcher.take(1.0) == []
    assert len(batcher.take(1.001)) == batcher.crowd == left
    filled(batcher, *[Request(1) for _ in range(left)], now=2.0)
    assert len(batcher.take(2.0)) == left


@pytest.mark.parametrize("came", [6, 5, 4])
def test_while_others_still_come_it_goes_on(came):
    batcher = crowded(requests=48, size=64)
    for second in (1, 2):
        filled(batcher, *[Request(1) for _ in range(came - 1)], now=second)
        filled(batcher, Request(1), now=second + 0.0006)
        assert len(batcher.take(second + 0.001)) == came
        assert batcher.crowd == 48


def test_a_full_batch_says_nothing_of_how_many_there_are():
    batcher = crowded(size=60, requests=48)
    filled(batcher, *[Request(15) for _ in range(5)], now=1.0)
    assert len(batcher.take(1.0)) == 4
    assert batcher.crowd == 48


def test_fewer_than_a_crowd_end_it_whenever_they_came():
    batcher = crowded()
    filled(batcher, Request(1), now=1.0)
    filled(batcher, *[Request(1) for _ in range(CROWD - 2)], now=1.0009)
    assert len(batcher.take(1.001)) == CROWD - 1
    filled(batcher, Request(1), now=2.0)
    assert batcher.take(2.0)


@pytest.mark.parametrize("clients", [1, 2, 4, 5, 8, 16, 24, 64])
@pytest.mark.parametrize("pause", [0.0001, 0.0003, 0.001, 0.003])
@pytest.mark.parametrize(("base", "row"), [(0.0002, 0.0001), (0.001, 0.00005), (0.0002, 0.0003)])
def test_clients_that_wait_for_their_answers_are_held_up_little(clients, pause, base, row):
    """Though the worker is idle while they come back; with a fixed wait of as long, a few of them get a third."""
    at_once, lingering = (answers(Batcher(size=64, linger=one), clients, base, row, pause) for one in (0.0, 0.001))
    assert lingering > (0.99 if clients < CROWD else 0.75) * at_once
    if clients <= CROWD and (base, row, pause) == (0.0002, 0.0001, 0.0003):
        assert lingering > 1.8 * answers(Batcher(size=64, wait=0.001), clients, base, row, pause)


@pytest.mark.parametrize("keys", [2, 3])
@pytest.mark.parametrize("clients", [5, 8])
@pytest.mark.parametrize("pause", [0.0001, 0.0003])
def test_clients_whose_requests_can_not_join_get_as_many(keys, clients, pause):
    at_once, lingering = (
        answers(Batcher(size=64, linger=one), clients, 3e-4, 1e-5, pause, 1, keys) for one in (0.0, 0.001)
    )
    assert lingering > 0.97 * at_once


@pytest.mark.parametrize("seed", range(5))
def test_few_at_random_times_are_not_held_up(seed):
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(0.002, 1000))
    held = held_up(Batcher(linger=0.001), 0.0003, arrivals)
    assert len(held) > 990
    assert np.mean(np.array(held) > 1e-9) < 0.02


@pytest.mark.parametrize("seed", range(5))
def test_many_at_random_times_share_batches_which_they_would_not_otherwise(seed):
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(0.0001, 5000)).tolist()
    batches = {}
    for linger in (0.0, 0.001):
        batcher = Batcher(size=64, linger=linger)
        taken, take = [], batcher.take
        batcher.take = lambda now, take=take, taken=taken: taken.append(take(now)) or taken[-1]
        held_up(batcher, 0.0003, arrivals)
        batches[linger] = sum(map(bool, taken))
    assert batches[0.001] < 0.6 * batches[0.0]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_doubled_or_late_in_a_random_run(seed):
    rng = np.random.default_rng(seed)
    size, wait = int(rng.integers(1, 9)), float(rng.uniform(0, 0.5))
    linger = float(rng.choice([0.0, rng.uniform(0, 0.5)]))
    batcher = Batcher(size=size, wait=wait, queue=64, linger=linger)
    arrivals = np.cumsum(rng.exponential(0.1, 200))
    sent, came, refused, now = [], [], 0, 0.0

    def run_until(end):
        while (due := batcher.next_due()) is not None and due <= end:
            when = max(now, due)
            batch = batcher.take(when)
            assert sum(one.rows for one in batch) <= size or len(batch) == 1
            assert all(when - one.arrived <= max(wait, linger) + 1e-9 for one in batch)
            came.extend(batch)

    for at in arrivals:
        run_until(at)
        now = float(at)
        request = Request(int(rng.integers(1, 4)), key=int(rng.integers(3)))
        try:
            batcher.submit(now, request)
            sent.append(request)
        except QueueFull:
            refused += 1
    run_until(math.inf)
    assert len(came) == len(sent)
    assert {id(one) for one in came} == {id(one) for one in sent}
    assert refused + len(sent) == 200


@pytest.mark.parametrize(
    "setting",
    [{"size": 0}, {"size": True}, {"queue": 0}, {"wait": -1}, {"wait": math.nan}, {"linger": -1}, {"linger": math.inf}],
)
def test_settings_that_make_no_sense_are_refused(setting):
    with pytest.raises(ValueError, match=f"Batcher: {next(iter(setting))} must be"):
        Batcher(**setting)


def test_a_request_without_rows_is_refused():
    with pytest.raises(ValueError, match="at least 1 row"):
        Batcher().submit(0.0, Request(0))
