"""Time several ways of doing one thing in turn, so that a machine that slows down slows all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass
class Row:
    """One workload, one contender.

    Attributes
    ----------
    seconds : float
        Median over the rounds, for one call.
    ratio : float
        Median over the rounds of ours / theirs; under 1 we are faster.
    low, high : float
        The 10th and 90th percentile of that ratio.
    """

    workload: str
    against: str
    seconds: float
    ours: float
    ratio: float
    low: float
    high: float
    rounds: int


def compare(
    workload: str,
    contenders: Mapping[str, Callable[[], object]],
    *,
    calls: int,
    rounds: int,
    ours: str = "internals",
    clock: Callable[[], float] = time.perf_counter,
) -> list[Row]:
    """Run all contenders once per round, `calls` times each, and compare `ours` with every other, round by round.

    What is alive already (imported modules, above all) is frozen out of the garbage collector's sight first: a
    full collection walks everything a process has imported, which in a process that holds five frameworks would be
    charged to whoever allocates next.
    """
    for run in contenders.values():
        for _ in range(max(3, calls // 10)):
            run()
    gc.collect()
    gc.freeze()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds):
        order = list(contenders) if round_ % 2 else list(contenders)[::-1]
        for name in order:
            run = contenders[name]
            start = clock()
            for _ in range(calls):
                run()
            seconds[name].append((clock() - start) / calls)
    gc.unfreeze()
    rows = []
    for name, theirs in seconds.items():
        if name == ours:
            continue
        ratios = sorted(a / b for a, b in zip(seconds[ours], theirs, strict=True))
        rows.append(
            Row(
                workload,
                name,
                statistics.median(theirs),
                statistics.median(seconds[ours]),
                statistics.median(ratios),
                ratios[len(ratios) // 10],
                ratios[len(ratios) - 1 - len(ratios) // 10],
                rounds,
            )
        )
    return rows
