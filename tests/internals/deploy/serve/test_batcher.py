"""The batcher under a clock that the test tells: bounds, order, fairness, deadlines, refusal, cancelling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from internals.deploy.serve.batcher import Batcher, Request
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


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_doubled_or_late_in_a_random_run(seed):
    rng = np.random.default_rng(seed)
    size, wait = int(rng.integers(1, 9)), float(rng.uniform(0, 0.5))
    batcher = Batcher(size=size, wait=wait, queue=64)
    arrivals = np.cumsum(rng.exponential(0.1, 200))
    sent, came, refused, now = [], [], 0, 0.0

    def run_until(end):
        while (due := batcher.next_due()) is not None and due <= end:
            when = max(now, due)
            batch = batcher.take(when)
            assert sum(one.rows for one in batch) <= size or len(batch) == 1
            assert all(when - one.arrived <= wait + 1e-9 for one in batch)
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


@pytest.mark.parametrize("setting", [{"size": 0}, {"size": True}, {"queue": 0}, {"wait": -1}, {"wait": math.nan}])
def test_settings_that_make_no_sense_are_refused(setting):
    with pytest.raises(ValueError, match=f"Batcher: {next(iter(setting))} must be"):
        Batcher(**setting)


def test_a_request_without_rows_is_refused():
    with pytest.raises(ValueError, match="at least 1 row"):
        Batcher().submit(0.0, Request(0))
