"""What a grading says: one Report per submission, one TaskResult per task. Plain data, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["right", "wrong", "missing", "failed", "refused", "ungraded"]
"""right: full marks. wrong: an answer differs. missing: not defined. failed: it raised, crashed, or ran into a limit.
refused: asked for something the sandbox forbids. ungraded: a fault of ours; never counted against the learner."""

Cause = Literal[
    "",
    "value",
    "missing",
    "exception",
    "syntax",
    "time",
    "memory",
    "exit",
    "signal",
    "output",
    "processes",
    "input",
    "protocol",
    "network",
    "files",
    "oracle",
]


@dataclass
class CounterExample:
    """The smallest input found on which an answer is wrong."""

    inputs: str = ""
    expected: str = ""
    got: str = ""
    replay: str = ""
    oracles: list[str] = field(default_factory=list)


@dataclass
class PropertyResult:
    """One part of a task: whether it holds, and what it earned."""

    name: str
    title: str
    points: float
    max_points: float

    @property
    def holds(self) -> bool:
        return self.points == self.max_points


@dataclass
class TaskResult:
    name: str
    title: str
    points: float
    max_points: float
    verdict: Verdict
    cause: Cause = ""
    message: str = ""
    """One sentence: what happened."""
    diagnosis: list[str] = field(default_factory=list)
    """In words, most likely first: what kind of wrong, and where to look."""
    counter_example: CounterExample | None = None
    traceback: str = ""
    """The learner's own frames only."""
    notes: list[str] = field(default_factory=list)
    """Not errors: a name rebound later, a duplicated cell, output cut."""
    cases: int = 0
    seconds: float = 0.0
    properties: list[PropertyResult] = field(default_factory=list)
    """Where the spec gives points for parts."""


@dataclass
class Report:
    lab: str
    spec_version: str
    title: str
    mode: Literal["official", "practice"]
    file: str
    sha256: str
    seed: int
    sandbox: str
    """Kind and what its canary proved, as `autograder doctor` words it."""
    tasks: list[TaskResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    graded_at: str = ""
    """UTC, ISO 8601."""
    learner: str = ""
    """Whose variant of the inputs the seed stands for; "" where all get the same."""

    @property
    def points(self) -> float:
        return sum(task.points for task in self.tasks)

    @property
    def max_points(self) -> float:
        return sum(task.max_points for task in self.tasks)

    @property
    def full_marks(self) -> bool:
        return bool(self.tasks) and all(task.verdict == "right" for task in self.tasks)

    def to_json(self) -> str:
        return json.dumps(
            asdict(self) | {"points": self.points, "max_points": self.max_points}, ensure_ascii=False, indent=2
        )

    @classmethod
    def from_json(cls, text: str) -> Report:
        data: dict[str, Any] = json.loads(text)
        for derived in ("points", "max_points"):
            data.pop(derived, None)
        tasks = data.pop("tasks")
        report = cls(**data)
        for task in tasks:
            example = task.pop("counter_example")
            parts = [PropertyResult(**part) for part in task.pop("properties", [])]
            made = CounterExample(**example) if example else None
            report.tasks.append(TaskResult(**task, counter_example=made, properties=parts))
        return report
