"""What a server did in each second of the last minute, in a few numbers a second, however many requests there were."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

SECONDS = 60
STEP = math.log(1.1)
"""Times are counted in steps of a tenth: a median is right to 5 %."""


@dataclass
class _Second:
    number: int
    steps: Counter[int] = field(default_factory=Counter)
    batches: int = 0
    rows: int = 0
    most: int = 0

    def percentile(self, share: float) -> float:
        """Milliseconds within which a share of the answers came, by nearest rank."""
        rank, seen = min(int(share * self.steps.total()), self.steps.total() - 1), 0
        for step in sorted(self.steps):
            seen += self.steps[step]
            if seen > rank:
                return 1000 * math.exp(STEP * (step + 0.5))
        return math.nan


class Minute:
    """Counts by the second; the clock is the caller's."""

    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque(maxlen=SECONDS)

    def answered(self, now: float, seconds: float) -> None:
        """Count an answer that took some seconds."""
        self._at(now).steps[math.floor(math.log(max(seconds, 1e-6)) / STEP)] += 1

    def batch(self, now: float, rows: int) -> None:
        """Count a batch."""
        one = self._at(now)
        one.batches, one.rows, one.most = one.batches + 1, one.rows + rows, max(one.most, rows)

    def seconds(self, now: float) -> list[dict[str, Any]]:
        """A line for each second in which something happened, oldest first; those that are over, and this one."""
        return [
            {
                "ago": int(now) - one.number,
                "answers": one.steps.total(),
                "p50": round(one.percentile(0.5), 3) if one.steps else None,
                "p99": round(one.percentile(0.99), 3) if one.steps else None,
                "batches": one.batches,
                "rows": round(one.rows / one.batches, 2) if one.batches else None,
                "most": one.most,
            }
            for one in self._seconds
            if int(now) - one.number < SECONDS
        ]

    def _at(self, now: float) -> _Second:
        if not self._seconds or self._seconds[-1].number < int(now):
            self._seconds.append(_Second(int(now)))
        return self._seconds[-1]
