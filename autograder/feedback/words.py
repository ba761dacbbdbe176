"""The words feedback is made of, the same on every surface."""

from __future__ import annotations

from autograder.report import PropertyResult, Report, TaskResult

VERDICTS = {
    "right": ("✓", "Right"),
    "wrong": ("✗", "Wrong answer"),
    "missing": ("○", "Not found"),
    "failed": ("✗", "Did not finish"),
    "refused": ("⊘", "Not allowed"),
    "ungraded": ("–", "Not graded"),
}
"""Verdict to a sign and a word. Colour only repeats what these say."""


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


def points(got: float, of: float) -> str:
    return f"{number(got)} of {number(of)} {'point' if of == 1 else 'points'}"


def verdict(task: TaskResult) -> tuple[str, str]:
    """The sign and the word for a task."""
    return VERDICTS.get(task.verdict, ("–", task.verdict))


def part(one: PropertyResult) -> str:
    """Whether a part of a task holds, and what it earned."""
    return f"{'✓ Holds' if one.holds else '✗ Does not hold'}: {one.title}, {points(one.points, one.max_points)}"


def summary(report: Report) -> str:
    """How it went, in one sentence."""
    total = len(report.tasks)
    if not total:
        return "No task was graded."
    right = sum(task.verdict == "right" for task in report.tasks)
    if total == 1:
        return f"{verdict(report.tasks[0])[1]}: {points(report.points, report.max_points)}."
    how_many = (
        f"All {total} tasks are right"
        if right == total
        else f"{right} of {total} tasks {'is' if right == 1 else 'are'} right"
    )
    return f"{how_many}: {points(report.points, report.max_points)}."


def mode(report: Report) -> str:
    """What the result counts for."""
    if report.mode == "official":
        return "Official grading: these points count."
    return "Practice: nothing was handed in or recorded by this check."


def recorded_mode(report: Report) -> str:
    """The same for a submission, which is recorded either way."""
    if report.mode == "official":
        return "Official grading: these points count."
    return (
        "Graded in practice mode: this machine could not prove its sandbox, "
        "so an instructor's machine has the last word on the points."
    )


def ungraded_line(report: Report) -> str:
    """Said when a fault of ours kept a task from being graded; empty otherwise."""
    names = [task.name for task in report.tasks if task.verdict == "ungraded"]
    if not names:
        return ""
    return (
        f"The grader could not judge {', '.join(names)}. The fault is the grader's, not your answer's, "
        "and it is not held against you. Try again in a minute."
    )


def cases(task: TaskResult) -> str:
    """How much the verdict rests on; empty when nothing was tried."""
    if not task.cases:
        return ""
    return f"Tried on {task.cases} {'input' if task.cases == 1 else 'inputs'}."


def example_heading(task: TaskResult) -> str:
    """What the counter-example is an example of."""
    return f"The smallest input found on which it {'differs' if task.verdict == 'wrong' else 'fails'}"


def oracles(task: TaskResult) -> str:
    """Who says what the right answer is."""
    if not task.counter_example:
        return ""
    *most, last = [FRAMEWORKS.get(name, name) for name in task.counter_example.oracles] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def provenance(report: Report) -> list[tuple[str, str]]:
    """What it takes to grade the same bytes on the same inputs again."""
    rows = [
        ("File", report.file),
        ("SHA-256", report.sha256),
        ("Lab and spec version", f"{report.lab} {report.spec_version}"),
        ("Seed of the random inputs", str(report.seed)),
        ("Inputs drawn for", report.learner),
        ("Sandbox", report.sandbox),
        ("Graded at (UTC)", report.graded_at.replace("T", " ").removesuffix("+00:00").removesuffix("Z").split(".")[0]),
        ("Time taken", f"{report.seconds:.1f} s"),
    ]
    return [(label, value) for label, value in rows if value.strip()]
