"""How a class does: per lab and per task, by the submissions that count."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from autograder.gradebook.models import Attempt, Grade, Learner, Submission, TaskGrade
from autograder.gradebook.scores import Sheet, sheet
from autograder.gradebook.store import Gradebook

BINS = 10


@dataclass(frozen=True)
class TaskStatistics:
    task: str
    learners: int
    """Whose work was graded."""
    mean: float
    """Points, as the grader gave them."""
    max_points: float
    verdicts: dict[str, int]
    """How many learners have each, most frequent first."""
    diagnoses: list[tuple[str, int]]
    """The first sentence of each, and for how many learners it was made on any submission; most frequent first."""


@dataclass(frozen=True)
class LabStatistics:
    lab: str
    handed_in: int
    """Learners who did."""
    graded: int
    full_marks: int
    late: int
    mean: float | None
    median: float | None
    max_points: float | None
    distribution: list[int]
    """Learners by mark, in ten equal parts of what full marks are worth; full marks and more are in the last."""
    to_full_marks: timedelta | None
    """The median time from a learner's first submission to their first with full marks; of those who got there."""
    times: list[timedelta]
    """The same for each of them, in no order."""
    tasks: list[TaskStatistics]


def of_lab(book: Gradebook, lab: str) -> LabStatistics:
    """The statistics of one lab; zeros where nobody handed anything in."""
    found = sheet(book, lab=lab)
    marks = list(found.marks.values())
    points = [mark.points for mark in marks if mark.points is not None]
    worth = next((mark.max_points for mark in marks if mark.max_points), None)
    bins = [0] * BINS
    for value in points:
        if worth:
            bins[min(int(BINS * value / worth), BINS - 1)] += 1
    reached = _to_full_marks(book, lab, set(found.learners))
    return LabStatistics(
        lab,
        sum(mark.submissions > 0 for mark in marks),
        len(points),
        sum(worth is not None and value >= worth - 1e-9 for value in points),
        sum(mark.late > timedelta(0) for mark in marks),
        statistics.fmean(points) if points else None,
        statistics.median(points) if points else None,
        worth,
        bins,
        timedelta(seconds=statistics.median(reached)) if reached else None,
        [timedelta(seconds=seconds) for seconds in reached],
        _tasks(book, lab, found),
    )


def _to_full_marks(book: Gradebook, lab: str, learners: set[str]) -> list[float]:
    first = select(Attempt.submission_id, func.min(Attempt.id).label("id")).group_by(Attempt.submission_id).subquery()
    full = select(Grade.submission_id).where(Grade.full_marks)
    query = (
        select(Learner.name, Attempt.at, Submission.id.in_(full))
        .select_from(Submission)
        .join(Learner)
        .join(first, first.c.submission_id == Submission.id)
        .join(Attempt, Attempt.id == first.c.id)
        .where(Submission.lab == lab)
        .order_by(Attempt.id)
    )
    began: dict[str, datetime] = {}
    reached: dict[str, datetime] = {}
    with book.reading() as session:
        for learner, at, is_full in session.execute(query):
            began.setdefault(learner, at)
            if is_full:
                reached.setdefault(learner, at)
    # A clock that was put back between the two must not count as time won.
    return [max((at - began[learner]).total_seconds(), 0.0) for learner, at in reached.items() if learner in learners]


def _tasks(book: Gradebook, lab: str, found: Sheet) -> list[TaskStatistics]:
    counting = {mark.submission for mark in found.marks.values()}
    query = (
        select(
            Submission.id,
            Learner.name,
            Grade.id,
            Grade.mode,
            TaskGrade.task,
            TaskGrade.verdict,
            TaskGrade.points,
            TaskGrade.max_points,
            TaskGrade.diagnosis,
        )
        .select_from(TaskGrade)
        .join(Grade)
        .join(Submission)
        .join(Learner)
        .where(Submission.lab == lab)
        .order_by(Grade.id, TaskGrade.position)
    )
    with book.reading() as session:
        rows = session.execute(query).all()
    newest: dict[int, tuple[bool, int]] = {}
    for row in rows:
        newest[row[0]] = max(newest.get(row[0], (False, 0)), (row.mode == "official", row[2]))
    order: dict[str, None] = {}
    graded: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    diagnosed: dict[str, set[tuple[str, str]]] = defaultdict(set)
    learners = set(found.learners)
    for submission, learner, grade, _, task, verdict, points, most, words in rows:
        if learner not in learners or newest[submission][1] != grade:
            continue
        order[task] = None
        if submission in counting:
            graded[task].append((verdict, points, most))
        if words:
            # Its first sentence says what kind it is; the rest names this learner's own shapes and values.
            diagnosed[task].add((learner, words.split(". ")[0].rstrip(".") + "."))
    return [
        TaskStatistics(
            task,
            len(graded[task]),
            statistics.fmean(points for _, points, _ in graded[task]) if graded[task] else 0.0,
            max((most for _, _, most in graded[task]), default=0.0),
            dict(Counter(verdict for verdict, _, _ in graded[task]).most_common()),
            Counter(words for _, words in diagnosed[task]).most_common(),
        )
        for task in order
    ]
