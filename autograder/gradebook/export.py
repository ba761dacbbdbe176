"""Marks as CSV, one row a learner: for all labs, or task by task for one. Safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from typing import Any, TextIO

from sqlalchemy import select

from autograder.gradebook.audit import trail
from autograder.gradebook.models import Grade, HandScore, Submission, TaskGrade
from autograder.gradebook.queries import cell
from autograder.gradebook.roster import people
from autograder.gradebook.scores import Sheet, sheet
from autograder.gradebook.store import Gradebook


def _write(out: TextIO, rows: Iterable[Iterable[Any]]) -> int:
    """Write the rows; returns how many there are below the first."""
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
    count = 0
    for row in rows:
        writer.writerow(["" if value is None else cell(value) for value in row])
        count += 1
    return count - 1


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def marks_csv(book: Gradebook, out: TextIO, *, lab: str | None = None) -> int:
    """A row for each learner of the class, with a column for each lab and their sum; returns how many rows."""
    found = sheet(book, lab=lab)
    shown = {one.name: one.shown_as for one in people(book)}
    return _write(out, _marks(found, shown))


def _marks(found: Sheet, shown: dict[str, str]) -> Iterable[list[Any]]:
    yield ["learner", "name", *found.labs, "sum"]
    for name in found.learners:
        marks = [found.marks.get((name, lab)) for lab in found.labs]
        points = [None if mark is None else mark.points for mark in marks]
        total = sum(value for value in points if value is not None)
        yield [name, shown.get(name, name), *map(_rounded, points), _rounded(total)]


def tasks_csv(book: Gradebook, out: TextIO, *, lab: str) -> int:
    """A row for each learner with a submission that counts for the lab: every task's points, and what became of them.

    The tasks' points are those of the lab; ``earned`` and ``points`` are in what full marks are worth.
    """
    found = sheet(book, lab=lab)
    wanted = {mark.submission for mark in found.marks.values() if mark.submission is not None}
    tasks, points = _task_points(book, lab, wanted)
    head = ["learner", "submission", "came", "due", "late_seconds", *tasks, "earned", "penalty", "adjusted", "points"]
    rows: list[list[Any]] = [head]
    for name in found.learners:
        mark = found.marks.get((name, lab))
        if mark is None:
            continue
        came, due = (when.isoformat() if when else None for when in (mark.came, mark.due))
        row: list[Any] = [name, mark.submission, came, due, mark.late.total_seconds()]
        row += [points.get((mark.submission, task)) for task in tasks]
        rows.append([*row, *map(_rounded, (mark.earned, mark.penalty, mark.adjusted, mark.points))])
    return _write(out, rows)


def _task_points(book: Gradebook, lab: str, wanted: set[int]) -> tuple[list[str], dict[tuple[int | None, str], float]]:
    """The tasks in the lab's order, and the points by submission and task; a person's go before the grader's."""
    graded = (
        select(Submission.id, Grade.id, Grade.mode, TaskGrade.task, TaskGrade.points)
        .join(Grade, Grade.submission_id == Submission.id)
        .join(TaskGrade, TaskGrade.grade_id == Grade.id)
        .where(Submission.lab == lab)
        .order_by(Grade.mode == "official", Grade.id, TaskGrade.position)
    )
    by_hand = select(HandScore.submission_id, HandScore.task, HandScore.points).join(Submission)
    tasks: dict[str, None] = {}
    points: dict[tuple[int | None, str], float] = {}
    with book.reading() as session:
        counting: dict[int, int] = {}
        rows = session.execute(graded).all()
        for submission, grade, _, _, _ in rows:
            counting[submission] = grade  # the last in this order outranks those before it
        for submission, grade, _, task, value in rows:
            if submission in wanted and counting[submission] == grade:
                tasks[task] = None
                points[submission, task] = value
        for submission, task, value in session.execute(by_hand.where(Submission.lab == lab)):
            if (submission, task) in points:
                points[submission, task] = value
    return list(tasks), points


def audit_csv(book: Gradebook, out: TextIO, *, lab: str | None = None) -> int:
    """Every change, oldest first; what was and what is as JSON."""
    rows: list[list[Any]] = [["number", "at", "who", "what", "lab", "learner", "old", "new", "why"]]
    for one in reversed(trail(book, lab=lab)):
        old, new = (
            None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
            for value in (one.old, one.new)
        )
        rows.append([one.id, one.at.isoformat(), one.who, one.what, one.lab, one.learner, old, new, one.why])
    return _write(out, rows)
