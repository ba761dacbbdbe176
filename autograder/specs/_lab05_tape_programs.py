"""Graphs for the task `backward`: steps as plain data, what they compute on any kind of array, their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

Step = dict[str, Any]
"""``{"op": name, "inputs": [earlier steps]}``; a leaf has a ``"value"`` too, and a scale what to multiply ``"by"``."""


def evaluate(steps: list[Step], leaves: list[Any], sin: Any, total: Any, stop: Any) -> list[Any]:
    """The value of every step, on whatever arrays `leaves` are (None where a step isn't a leaf)."""
    values: list[Any] = []
    for step, leaf in zip(steps, leaves, strict=True):
        x, y = ([values[k] for k in step.get("inputs", [])] + [None, None])[:2]
        match step["op"]:
            case "leaf":
                values.append(leaf)
            case "add":
                values.append(x + y)
            case "sub":
                values.append(x - y)
            case "mul":
                values.append(x * y)
            case "gate":
                values.append(x * stop(y))
            case "scale":
                values.append(x * step["by"])
            case "sin":
                values.append(sin(x))
            case "sum":
                values.append(total(x))
    return values


def partials_of(step: Step, values: list[np.ndarray]) -> list[list[Any]]:
    """How the rule of `step` passes a cotangent to each of its inputs, as the driver takes it."""
    x, y = ([values[k] for k in step.get("inputs", [])] + [None, None])[:2]
    match step["op"]:
        case "add":
            return [["same"], ["same"]]
        case "sub":
            return [["same"], ["negated"]]
        case "mul":
            return [["times", y], ["times", x]]
        case "gate":
            return [["times", y], ["none"]]
        case "scale":
            return [["times", step["by"]]]
        case "sin":
            return [["times", np.asarray(np.cos(x))]]
        case "sum":
            return [["spread", list(x.shape)]]
    return []


def rules_needed(steps: list[Step], partials: list[list[Any]], root: int, cotangent: np.ndarray, repeat: int) -> int:
    """How many rules a backward pass runs: one for each operation that a cotangent reaches."""
    reached, waiting = {root}, [root]
    while waiting:
        place = waiting.pop()
        for source, partial in zip(steps[place]["inputs"], partials[place], strict=True):
            if partial[0] != "none" and source not in reached:
                reached.add(source)
                waiting.append(source)
    return repeat * sum(steps[place]["op"] != "leaf" for place in reached)


def leaf(value: np.ndarray) -> Step:
    return {"op": "leaf", "inputs": [], "value": value}


def node(op: str, *inputs: int) -> Step:
    return {"op": op, "inputs": list(inputs)}


def scaled(index: int, by: np.ndarray) -> Step:
    return {"op": "scale", "inputs": [index], "by": by}
