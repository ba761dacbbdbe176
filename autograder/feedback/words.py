"""The words feedback is made of, the same on every surface; what they are in a language is in the catalogues."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from autograder.feedback.catalogue import say
from autograder.report import CostResult, PropertyResult, Report, TaskResult

if TYPE_CHECKING:
    from autograder.gradebook.policy import LateRule

SIGNS = {
    "right": "✓",
    "wrong": "✗",
    "missing": "○",
    "failed": "✗",
    "refused": "⊘",
    "ungraded": "–",
    "pending": "…",
    "marked": "✎",
}
"""Colour only repeats what the sign and the word say."""


FRAMEWORKS = {
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "numpy": "NumPy",
    "onnxruntime": "ONNX Runtime",
    "keras": "Keras",
    "paddle": "Paddle",
}


def number(value: float) -> str:
    """2 for 2.0, 2.5 for 2.5."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def points(got: float, of: float | None) -> str:
    return number(got) if of is None else say("points.of", got=number(got), of=number(of), count=of)


def verdict_word(name: str) -> tuple[str, str]:
    """The sign and the word for a verdict."""
    return (SIGNS[name], say(f"verdict.{name}")) if name in SIGNS else ("–", name)


def verdict(task: TaskResult) -> tuple[str, str]:
    """The sign and the word for a task."""
    return verdict_word(task.verdict)


def part(one: PropertyResult) -> str:
    """Whether a part of a task holds, and what it earned."""
    return say("part.holds" if one.holds else "part.fails", title=one.title, points=points(one.points, one.max_points))


def cost(one: CostResult) -> str:
    """What was counted against what is allowed."""
    counted, allowed = (f"{value:,.0f}{' ' if one.unit else ''}{one.unit}" for value in (one.counted, one.allowed))
    formula = say("cost.formula", formula=one.formula) if one.formula else ""
    key = "cost.holds" if one.holds else "cost.fails"
    return say(key, title=one.title, counted=counted, allowed=allowed, formula=formula)


def next_hint(task: TaskResult) -> str:
    """When another hint opens; empty where none will."""
    return say("hint.next", count=task.next_hint) if task.next_hint else ""


def summary(report: Report) -> str:
    """How it went, in one sentence."""
    total = len(report.tasks)
    earned = points(report.points, report.max_points)
    if not total:
        return say("summary.nothing")
    right = sum(task.full for task in report.tasks)
    if total == 1:
        return say("summary.one", word=verdict(report.tasks[0])[1], points=earned)
    if right == total:
        return say("summary.all", total=total, points=earned)
    return say("summary.some", count=right, total=total, points=earned)


def mode(report: Report, submitted: bool = False) -> str:
    """What the result counts for: that of a submission is recorded either way, that of a file looked at never."""
    if submitted:
        return say("mode.official" if report.mode == "official" else "mode.recorded")
    return say("mode.graded" if report.mode == "official" else "mode.practice")


def mode_word(report: Report) -> str:
    word = say("mode.official_word" if report.mode == "official" else "mode.practice_word")
    return word[:1].upper() + word[1:]


def ungraded_line(report: Report) -> str:
    """Said when a fault of ours kept a task from being graded; empty otherwise."""
    names = [task.name for task in report.tasks if task.verdict == "ungraded"]
    return say("feedback.ungraded", tasks=", ".join(names)) if names else ""


def cases(task: TaskResult) -> str:
    """How much the verdict rests on; empty when nothing was tried."""
    return say("feedback.tried", count=task.cases) if task.cases else ""


def example_heading(task: TaskResult) -> str:
    """What the counter-example is an example of."""
    return say("feedback.differs" if task.verdict == "wrong" else "feedback.fails")


def oracles(task: TaskResult) -> str:
    """Who says what the right answer is."""
    if not task.counter_example:
        return ""
    *most, last = [FRAMEWORKS.get(name, name.removeprefix("numpy:")) for name in task.counter_example.oracles] or [""]
    return say("feedback.and", most=say("feedback.comma").join(most), last=last) if most else last


def provenance(report: Report) -> list[tuple[str, str]]:
    """What it takes to grade the same bytes on the same inputs again."""
    rows = [
        ("file", report.file),
        ("sha256", report.sha256),
        ("spec", f"{report.lab} {report.spec_version}"),
        ("seed", str(report.seed)),
        ("learner", report.learner),
        ("sandbox", report.sandbox),
        ("graded_at", report.graded_at.replace("T", " ").removesuffix("+00:00").removesuffix("Z").split(".")[0]),
        ("seconds", say("feedback.seconds", seconds=f"{report.seconds:.1f}")),
    ]
    return [(say(f"provenance.{label}"), value) for label, value in rows if value.strip()]


def span(time: timedelta) -> str:
    """A length of time in its two largest units."""
    minutes = int(time.total_seconds() // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    found = [(name, count) for name, count in (("days", days), ("hours", hours), ("minutes", minutes)) if count]
    parts = [say(f"span.{name}", count=count) for name, count in found[:2]]
    if not parts:
        return say("span.soon")
    return parts[0] if len(parts) == 1 else say("span.two", large=parts[0], small=parts[1])


def late_rule(rule: LateRule) -> list[str]:
    """What handing in late costs, in sentences."""
    said = []
    if rule.fraction and rule.cap:
        said.append(say(f"terms.late_{rule.unit}", percent=number(100 * rule.fraction)))
        if rule.cap < 1:
            said.append(say("terms.late_cap", percent=number(100 * rule.cap)))
    if rule.zero_after is not None:
        said.append(say("terms.late_zero", span=span(timedelta(seconds=rule.zero_after))))
    if not said:
        return [say("terms.late_none")]
    if rule.grace:
        said.insert(1, say("terms.late_grace", span=span(timedelta(seconds=rule.grace))))
    return said
