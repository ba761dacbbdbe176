"""The cases of a task: edges that are always tried, random ones, and the smallest one that still shows a fault."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs, Task

EMPTY = 6
"""What `size` takes an empty array for."""


class Enough(KeyboardInterrupt):
    """Ends a search: out of time or calls, or nothing to gain. Hypothesis lets only a KeyboardInterrupt through."""


def draw(task: Task, seed: int) -> list[Inputs]:
    """The cases of `task` for this seed: its edges, then its random ones. Same seed, same cases."""
    cases = list(task.edges(np.random.default_rng(seed)))
    if task.examples:
        cases += _examples(task, seed)
    return cases


def _examples(task: Task, seed: int) -> list[Inputs]:
    drawn: list[Inputs] = []
    hypothesis = _hypothesis()

    @hypothesis.seed(seed)
    @hypothesis.settings(max_examples=task.examples, phases=[hypothesis.Phase.generate], **_quiet(hypothesis))
    @hypothesis.given(task.strategy())
    def collect(inputs: Inputs) -> None:
        drawn.append(inputs)

    collect()
    return drawn


def shrink(
    task: Task, seed: int, fails: Callable[[Inputs], bool], *, seconds: float = 2.0, calls: int = 200
) -> Inputs | None:
    """The smallest case found for which `fails` is true, or None; ends after `seconds` or `calls`, whichever is first.

    The search draws from the task's strategy. `fails` may raise `Enough` to end it.
    """
    deadline, left = time.monotonic() + seconds, calls
    best: Inputs | None = None

    def fails_within_budget(inputs: Inputs) -> bool:
        nonlocal best, left
        if left <= 0 or time.monotonic() > deadline:
            raise Enough
        left -= 1
        failed = fails(inputs)
        if failed and (best is None or size(inputs) <= size(best)):
            best = inputs
        return failed

    hypothesis = _hypothesis()
    phases = [hypothesis.Phase.generate, hypothesis.Phase.shrink]
    settings = hypothesis.settings(max_examples=calls, phases=phases, **_quiet(hypothesis))
    try:
        hypothesis.find(task.strategy(), fails_within_budget, settings=settings, random=random.Random(seed))
    except (Enough, hypothesis.errors.NoSuchExample, hypothesis.errors.Flaky):
        # Flaky: the learner's code answers differently each time it is asked; what was found stands.
        pass
    return best


def size(value: Any) -> float:
    """How large a case is to a reader: entries, lengths, and whole numbers all count.

    An empty array counts like one of a few entries: a case with numbers in it says more, where one fails.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return 1 + (value.size or EMPTY) + value.ndim
    if isinstance(value, dict):
        return 1 + sum(size(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return 1 + sum(size(part) for part in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return 1 + min(abs(value), 1_000_000)
    return 1


def _hypothesis() -> Any:
    """Hypothesis, imported when first needed, and kept from writing into the learner's directory."""
    import hypothesis
    from hypothesis import configuration

    if "HYPOTHESIS_STORAGE_DIRECTORY" not in os.environ:
        from autograder.oracles.runtime import directory

        configuration.set_hypothesis_home_dir(directory() / "hypothesis")
    return hypothesis


def _quiet(hypothesis: Any) -> dict[str, Any]:
    return {"database": None, "deadline": None, "suppress_health_check": list(hypothesis.HealthCheck)}
