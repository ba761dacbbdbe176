"""Tasks judged by what they cost: counts that come with an answer, against limits that depend on the size of the input.

Never seconds: what is counted comes out the same on a busy machine. A driver returns a dict of two entries, ``answer``
and ``counted``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from autograder.report import CostResult
from autograder.spec import Inputs, Task


class NotCounted(ValueError):
    """What came has no counts in it, or none that could be counts."""


def split(task: Task, inputs: Inputs, value: Any) -> tuple[Any, list[CostResult]]:
    """The answer, and what was counted against what is allowed; for a task without costs, the value as it is.

    Raises
    ------
    NotCounted
        The counts are not those the task asks for.
    """
    if not task.costs:
        return value, []
    counted = value.get("counted") if isinstance(value, dict) else None
    if not isinstance(counted, dict) or value.keys() != {"answer", "counted"}:
        raise NotCounted("no counts came with the answer")
    found = []
    for cost in task.costs:
        count = counted.get(cost.name)
        if isinstance(count, bool) or not isinstance(count, (int, float)) or not 0 <= count < math.inf:
            raise NotCounted(f"the count of {cost.name} is no number")
        allowed = float(cost.limit(**inputs))
        found.append(CostResult(cost.name, cost.title, float(count), allowed, cost.unit, cost.formula))
    return value["answer"], found


def worst(tried: Iterable[list[CostResult]]) -> list[CostResult]:
    """Of each cost, the case that went furthest towards its limit, or past it."""
    found: dict[str, CostResult] = {}
    for costs in tried:
        for cost in costs:
            if cost.name not in found or share(cost) > share(found[cost.name]):
                found[cost.name] = cost
    return list(found.values())


def share(cost: CostResult) -> float:
    """How much of what is allowed was used; 1 at the limit."""
    if cost.allowed <= 0:
        return 0.0 if cost.counted <= 0 else math.inf
    return cost.counted / cost.allowed


def sentence(cost: CostResult) -> str:
    """What is too much, in words."""
    unit = f" {cost.unit}" if cost.unit else ""
    formula = f" ({cost.formula})" if cost.formula else ""
    return f"{cost.title}: {cost.counted:,.0f}{unit}, where {cost.allowed:,.0f} are allowed{formula}."
