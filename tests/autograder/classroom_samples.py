"""Reports as the grader makes them, for the tests of feedback, gradebook and web."""

from __future__ import annotations

from typing import Any

from autograder.report import CounterExample, Report, TaskResult

WRONG = TaskResult(
    name="rules",
    title="Rules for mul and matmul",
    points=0.0,
    max_points=3.0,
    verdict="wrong",
    cause="value",
    message="`mul_rule` returns a gradient of shape (2, 3) for an input of shape (3,).",
    diagnosis=[
        "The gradient was not summed over the axes that broadcasting added. `y` has shape (3,), so `dy` must too.",
        "If that is right already, look at the order in which the axes are summed.",
    ],
    counter_example=CounterExample(
        inputs=(
            "g = array([[0.5, -1.25, 2.0],\n           [1.5,  0.75, 0.25]])\n"
            "x = array([[1.0, 2.0, 3.0],\n           [4.0, 5.0, 6.0]])\n"
            "y = array([2.0, 3.0, 4.0])"
        ),
        expected="dx = array([[1.0, -3.75, 8.0], [3.0, 2.25, 1.0]])\ndy = array([6.5, 1.25, 7.5])",
        got="dx = array([[1.0, -3.75, 8.0], [3.0, 2.25, 1.0]])\ndy = array([[0.5, -2.5, 6.0], [6.0, 3.75, 1.5]])",
        replay=(
            "import numpy as np\n"
            "g = np.array([[0.5, -1.25, 2.0], [1.5, 0.75, 0.25]])\n"
            "x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])\n"
            "y = np.array([2.0, 3.0, 4.0])\n"
            "mul_rule(g, x, y)"
        ),
        oracles=["torch", "tensorflow"],
    ),
    cases=14,
    seconds=0.21,
)
RIGHT = TaskResult(
    name="order",
    title="A topological order without recursion",
    points=2.0,
    max_points=2.0,
    verdict="right",
    cases=31,
    seconds=0.4,
)
FAILED = TaskResult(
    name="backward",
    title="The backward pass",
    points=0.0,
    max_points=2.0,
    verdict="failed",
    cause="exception",
    message="`backward` raised KeyError: 'w1'.",
    traceback=(
        "Cell 14, line 9, in backward\n    grads[node] = accumulate(grads, node, g)\n"
        "Cell 11, line 3, in accumulate\n    total = cotangents[node] + value\n"
        "KeyError: 'w1'"
    ),
    notes=["`backward` is bound again in cell 17, after its check; what was graded is what the check saw."],
    cases=1,
)
MISSING = TaskResult(
    name="accumulate",
    title="Accumulation",
    points=0.0,
    max_points=1.0,
    verdict="missing",
    cause="missing",
    message="The notebook defines no `accumulate`.",
)
REFUSED = TaskResult(
    name="stale",
    title="Refusing a stale tape",
    points=0.0,
    max_points=2.0,
    verdict="refused",
    cause="network",
    message="The code opened a network connection, which is not allowed while grading.",
)
UNGRADED = TaskResult(
    name="stale",
    title="Refusing a stale tape",
    points=0.0,
    max_points=2.0,
    verdict="ungraded",
    cause="oracle",
    message="The TensorFlow oracle did not answer.",
)


def report(*tasks: TaskResult, **changes: Any) -> Report:
    """A report on `tasks` (a mixed bag unless given)."""
    fields: dict[str, Any] = {
        "lab": "lab05_tape",
        "spec_version": "0123456789ab",
        "title": "Lab 5: a tape of your own",
        "mode": "practice",
        "file": "lab05_tape.ipynb",
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "seed": 20260901,
        "sandbox": "bubblewrap: net, fs, memory, pids, tree-kill proven",
        "seconds": 1.24,
        "graded_at": "2026-09-01T10:11:12+00:00",
    }
    return Report(**(fields | changes), tasks=list(tasks or (WRONG, RIGHT, MISSING, FAILED, REFUSED)))
