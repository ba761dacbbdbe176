"""Schedules: every call once, after all that it reads, in batches of one signature; few batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from internals.fold import by_agenda, by_depth, check_schedule, depths
from internals.fold.schedule import scheduler

BOTH = pytest.mark.parametrize("schedule", [by_depth, by_agenda])


def drawn(rng: np.random.Generator, size: int) -> tuple[list[list[int]], list[int]]:
    """Calls that read up to three earlier ones."""
    inputs = [rng.integers(0, i, rng.integers(0, 4)).tolist() if i else [] for i in range(size)]
    return inputs, rng.integers(0, 4, size).tolist()


@BOTH
@pytest.mark.parametrize("seed", range(20))
def test_random_structures_are_scheduled(schedule: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, signatures = drawn(rng, int(rng.integers(0, 60)))
    batches = check_schedule(schedule(inputs, signatures), inputs, signatures)
    assert sorted(i for batch in batches for i in batch) == list(range(len(inputs)))


@BOTH
def test_nothing_noted_is_nothing_run(schedule: Any) -> None:
    assert schedule([], []) == []


def test_depths_are_longest_ways() -> None:
    assert depths([[], [0], [0, 1], [], [3, 2]]) == [0, 1, 2, 0, 3]


def test_the_agenda_waits_for_what_comes_last_in_all() -> None:
    """Chains of 1 to 4 steps, each with a loss at its end: by depth 4 batches of losses, by agenda one."""
    inputs: list[list[int]] = []
    signatures: list[str] = []
    for length in range(1, 5):
        for step in range(length):
            inputs.append([len(inputs) - 1] if step else [])
            signatures.append("step" if step else "start")
        inputs.append([len(inputs) - 1])
        signatures.append("loss")
    assert [signatures[batch[0]] for batch in by_depth(inputs, signatures)].count("loss") == 4
    assert [signatures[batch[0]] for batch in by_agenda(inputs, signatures)].count("loss") == 1
    assert len(by_agenda(inputs, signatures)) == 5


@BOTH
def test_a_chain_of_many_calls_needs_no_recursion(schedule: Any) -> None:
    size = 20_000
    batches = schedule([[i - 1] if i else [] for i in range(size)], [0] * size)
    assert batches == [[i] for i in range(size)]


CALLS: tuple[list[list[int]], list[str]] = ([[], [], [0, 1]], ["a", "a", "b"])


@pytest.mark.parametrize(
    ("batches", "error", "words"),
    [
        (None, TypeError, "gave NoneType"),
        ([0, 1, 2], TypeError, "list of lists"),
        ([[0, 1], []], ValueError, "batch 1 of the schedule is empty"),
        ([[0], [2]], ValueError, "call 1 .*missing"),
        ([[0, 1], [2], [2]], ValueError, "call 2 .*in batches 1 and 2"),
        ([[0, 1], [3]], ValueError, "has call 3"),
        ([[0, 1], [-1]], ValueError, "has call -1"),
        ([[0, 1, 2]], ValueError, "whose signatures differ"),
        ([[0], [2], [1]], ValueError, r"call 2 \(two\) is in batch 1 .* call 1 \(one\), which is in batch 2"),
    ],
)
def test_what_is_no_schedule_is_refused(batches: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        check_schedule(batches, *CALLS, ["zero", "one", "two"])


def test_calls_of_one_batch_may_not_read_each_other() -> None:
    with pytest.raises(ValueError, match="call 1 is in batch 0 .* reads call 0, which is in batch 0"):
        check_schedule([[0, 1]], [[], [0]], ["a", "a"])


@pytest.mark.parametrize(("given", "error"), [("breadth", ValueError), (3, TypeError), (None, TypeError)])
def test_an_unknown_schedule_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="'depth'.*'agenda'"):
        scheduler(given)
