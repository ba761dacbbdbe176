"""The batcher beside its rules, as its docstrings have them, in random runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from internals.deploy.serve.batcher import CROWD, Batcher, Request
from internals.deploy.serve.errors import QueueFull


class Rules:
    """What the docstrings say, worked out each time from a plain list of those that wait."""

    def __init__(self, size, wait, queue, linger):
        self.size, self.wait, self.queue, self.linger = size, wait, queue, linger
        self.waiting, self.crowd, self.of, self.latest = [], 0, "nobody's", -math.inf

    def of_key(self, key):
        return [one for one in self.waiting if one.key == key]

    def due(self, key):
        lane = self.of_key(key)
        if lane[0].alone or sum(one.rows for one in lane) >= self.size:
            return -math.inf
        fewer = self.crowd >= CROWD and len(lane) < self.crowd and key == self.of
        return lane[0].arrived + (max(self.linger, self.wait) if fewer and lane == self.waiting else self.wait)

    def next_due(self):
        return min((self.due(one.key) for one in self.waiting), default=None)

    def submit(self, now, request):
        rows = sum(one.rows for one in self.waiting)
        full = bool(self.waiting) and rows + request.rows > self.queue
        if full or request.deadline < now + 2 * self.linger:
            self.crowd = 0
        if not full:
            self.waiting.append(request)
            self.latest = now
        return not full

    def take(self, now):
        first = next((one for one in self.waiting if self.due(one.key) <= now), None)
        if first is None:
            return []
        lane = self.of_key(first.key)
        if not first.alone:
            forgets = len(lane) < CROWD or first.key != self.of or now - self.latest >= self.linger / 2
            if forgets or len(lane) > self.crowd:
                self.crowd = len(lane)
            self.of = first.key
        batch = [first]
        for one in lane[1:]:
            if sum(each.rows for each in [*batch, one]) > self.size or first.alone or one.alone:
                break
            batch.append(one)
        self.waiting = [one for one in self.waiting if one not in batch]
        return batch


@pytest.mark.parametrize("seed", range(12))
def test_it_does_what_its_rules_say(seed):
    rng = np.random.default_rng(seed)
    settings = {
        "size": int(rng.choice([1, 4, 9, 64])),
        "wait": float(rng.choice([0.0, 0.0, 0.3, 3.0])),
        "queue": int(rng.choice([6, 30, 150])),
        "linger": float(rng.choice([0.0, 1.0, 2.5])),
    }
    batcher, rules = Batcher(**settings), Rules(**settings)
    keys, now, lonely = int(rng.integers(1, 4)), 0.0, rng.choice([0.0, 0.05])
    for _ in range(200):
        now += float(rng.choice([0.0, 0.02, 0.3, 1.5]))
        for _ in range(rng.integers(0, 1 + rng.choice([1, 3, 12, 50]))):
            now += 1e-6  # so that one lane is the oldest
            alone = bool(rng.random() < lonely)
            deadline = now + float(rng.uniform(0, 6)) if rng.random() < 0.1 else math.inf
            request = Request(int(rng.choice([1, 1, 1, 3])), int(rng.integers(keys)), deadline, alone=alone)
            try:
                batcher.submit(now, request)
            except QueueFull:
                assert not rules.submit(now, request)
            else:
                assert rules.submit(now, request)
        if rng.random() < 0.1 and rules.waiting:
            gone = rules.waiting.pop(int(rng.integers(len(rules.waiting))))
            assert batcher.cancel(gone)
        gone = batcher.expire(now)
        assert set(map(id, gone)) == {id(one) for one in rules.waiting if one.deadline <= now}
        rules.waiting = [one for one in rules.waiting if one not in gone]
        assert batcher.next_due() == rules.next_due()
        for _ in range(rng.integers(3)):
            assert batcher.take(now) == rules.take(now)
        assert (len(batcher), batcher.crowd) == (len(rules.waiting), rules.crowd)
