"""What a grading says: one Report per submission, one TaskResult per task. Plain data, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["right", "wrong", "missing", "failed", "refused", "ungraded", "pending", "marked"]
"""right: full marks. wrong: an answer differs. missing: not defined. failed: it raised, crashed, or ran into a limit.
refused: asked for something the sandbox forbids. ungraded: a fault of ours; never counted against the learner.
pending: an answer in words that a person will read. marked: one that a person has read and given points."""

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
    "cost",
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
class CostResult:
    """What was counted while a task ran, in the case that came closest to its limit or went furthest past it."""

    name: str
    title: str
    counted: float
    allowed: float
    unit: str = ""
    formula: str = ""

    @property
    def holds(self) -> bool:
        return self.counted <= self.allowed


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
    costs: list[CostResult] = field(default_factory=list)
    """Where the spec limits what may be counted."""
    hints: list[str] = field(default_factory=list)
    """Those that opened after several answers went wrong in the same way."""
    next_hint: int = 0
    """After how many more such answers one more opens; 0 where there is none."""
    answer: str = ""
    """What the learner wrote, where the answer is in words. Plain text, never to be rendered."""
    comment: str = ""
    """What the person who marked it wrote about it."""
    marked_by: str = ""

    @property
    def full(self) -> bool:
        """Whether it earned all of its points."""
        return self.verdict == "right" or (self.verdict == "marked" and self.points >= self.max_points)


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
        return bool(self.tasks) and all(task.full for task in self.tasks)

    @property
    def nothing_lost(self) -> bool:
        """Whether every part earned all of its points, or waits for the person who gives them."""
        return bool(self.tasks) and all(task.full or task.verdict == "pending" for task in self.tasks)

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
            costs = [CostResult(**cost) for cost in task.pop("costs", [])]
            made = CounterExample(**example) if example else None
            report.tasks.append(TaskResult(**task, counter_example=made, properties=parts, costs=costs))
        return report
