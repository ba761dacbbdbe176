"""Reading a gradebook: what a learner handed in, what it earned, and a table of it all."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TextIO

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload, selectinload, undefer

from autograder.gradebook.models import Attempt, Content, Grade, HandScore, Learner, Submission
from autograder.gradebook.store import Gradebook
from autograder.gradebook.written import marked
from autograder.report import Report


@dataclass(frozen=True)
class Graded:
    """A submission with the grade that counts for it, if it has one, and the points that people gave its tasks."""

    id: int
    learner: str
    lab: str
    sha256: str
    filename: str
    attempts: int
    first_at: datetime
    last_at: datetime
    mode: str = ""
    spec_version: str = ""
    points: float | None = None
    max_points: float | None = None
    full_marks: bool = False
    tasks: tuple[tuple[str, str, float, float], ...] = ()
    """(task, verdict, points, of)"""


def _rank(grade: Grade) -> tuple[bool, int]:
    # An official grade outranks practice; then the newest counts: it was made with the newest spec.
    return grade.mode == "official", grade.id


def _graded(submission: Submission, given: Mapping[str, float]) -> Graded:
    """`given`: the points that people gave, by task."""
    attempts = submission.attempts
    bare = Graded(
        id=submission.id,
        learner=submission.learner.name,
        lab=submission.lab,
        sha256=submission.sha256,
        filename=attempts[-1].filename,
        attempts=len(attempts),
        first_at=attempts[0].at,
        last_at=attempts[-1].at,
    )
    if not submission.grades:
        return bare
    grade = max(submission.grades, key=_rank)
    changed = [task for task in grade.tasks if task.task in given]
    return replace(
        bare,
        mode=grade.mode,
        spec_version=grade.spec_version,
        points=grade.points + sum(given[task.task] - task.points for task in changed),
        max_points=grade.max_points,
        full_marks=all(given.get(task.task, task.points) >= task.max_points for task in grade.tasks)
        if changed
        else grade.full_marks,
        tasks=tuple(
            (task.task, "marked", given[task.task], task.max_points)
            if task.task in given
            else (task.task, task.verdict, task.points, task.max_points)
            for task in grade.tasks
        ),
    )


def _with_everything(
    session: Session, learner: str | None, lab: str | None, submission_id: int | None = None
) -> list[Graded]:
    query = select(Submission).options(
        joinedload(Submission.learner),
        selectinload(Submission.attempts),
        selectinload(Submission.grades).selectinload(Grade.tasks),
    )
    scores = select(HandScore.submission_id, HandScore.task, HandScore.points).join(Submission)
    wanted = []
    if learner is not None:
        query = query.join(Learner)
        scores = scores.join(Learner, Learner.id == Submission.learner_id)
        wanted.append(Learner.name == learner)
    if lab is not None:
        wanted.append(Submission.lab == lab)
    if submission_id is not None:
        wanted.append(Submission.id == submission_id)
    given: dict[int, dict[str, float]] = defaultdict(dict)
    for number, task, points in session.execute(scores.where(*wanted)):
        given[number][task] = points
    return [_graded(one, given.get(one.id, {})) for one in session.scalars(query.where(*wanted))]


def submissions(book: Gradebook, *, learner: str | None = None, lab: str | None = None) -> list[Graded]:
    """What was handed in, last attempt first."""
    with book.reading() as session:
        found = _with_everything(session, learner, lab)
    return sorted(found, key=lambda one: (one.last_at, one.id), reverse=True)


def submission(book: Gradebook, submission_id: int) -> Graded | None:
    """One submission, whoever handed it in."""
    with book.reading() as session:
        return next(iter(_with_everything(session, None, None, submission_id)), None)


def latest(book: Gradebook, *, learner: str, lab: str) -> Graded | None:
    """The submission handed in last."""
    found = submissions(book, learner=learner, lab=lab)
    return found[0] if found else None


def best_of(found: list[Graded]) -> Graded | None:
    """The one with the most points; of equals, official before practice, then the earliest."""
    graded = [one for one in found if one.points is not None]
    return min(
        graded, key=lambda one: (-(one.points or 0.0), one.mode != "official", one.first_at, one.id), default=None
    )


def best(book: Gradebook, *, learner: str, lab: str) -> Graded | None:
    """The best of a learner's submissions for a lab, as `best_of` has it."""
    return best_of(submissions(book, learner=learner, lab=lab))


def labs(book: Gradebook, *, learner: str) -> list[str]:
    """The labs a learner has handed in."""
    with book.reading() as session:
        return list(
            session.scalars(
                select(Submission.lab).join(Learner).where(Learner.name == learner).distinct().order_by(Submission.lab)
            )
        )


def notebook(book: Gradebook, submission_id: int) -> bytes | None:
    """The bytes that were handed in."""
    with book.reading() as session:
        return session.scalar(select(Content.data).join(Submission).where(Submission.id == submission_id))


def report(book: Gradebook, submission_id: int) -> Report | None:
    """The report that counts for a submission, with what people gave in it."""
    with book.reading() as session:
        grades = list(
            session.scalars(select(Grade).where(Grade.submission_id == submission_id).options(undefer(Grade.report)))
        )
    if not grades:
        return None
    return marked(book, submission_id, Report.from_json(max(grades, key=_rank).report))


def counts(book: Gradebook) -> tuple[int, int]:
    """How many submissions and attempts there are."""
    with book.reading() as session:
        return session.scalar(select(func.count(Submission.id))) or 0, session.scalar(
            select(func.count(Attempt.id))
        ) or 0


COLUMNS = [
    "learner",
    "lab",
    "submission",
    "attempts",
    "first_at",
    "last_at",
    "mode",
    "spec_version",
    "points",
    "max_points",
    "sha256",
    "filename",
]


_SIGNS = "=+-@|%\uff1d\uff0b\uff0d\uff20"
"""What a formula or a call of another program may start with, in full width too."""
_START = re.compile(rf"[\s\0]*[{re.escape(_SIGNS)}]|[\t\r\n\0]")
_INSIDE = re.compile(rf'([;|\t\r\n])(?=[\s"]*[{re.escape(_SIGNS)}])')
"""What would be a cell's start to a spreadsheet that separates by other characters than commas."""


def cell(value: object) -> object:
    """A value as a spreadsheet takes it: where text would start a formula, an apostrophe stands before it."""
    if not isinstance(value, str):
        return value
    text = _INSIDE.sub(r"\1'", value)
    return "'" + text if _START.match(value) else text


def export_csv(book: Gradebook, out: TextIO, *, lab: str | None = None) -> int:
    """Write every submission as a row of CSV, by learner, lab and time; returns how many."""
    rows = sorted(submissions(book, lab=lab), key=lambda one: (one.learner, one.lab, one.first_at, one.id))
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(COLUMNS)
    for one in rows:
        values = [
            one.learner,
            one.lab,
            one.id,
            one.attempts,
            one.first_at.isoformat(),
            one.last_at.isoformat(),
            one.mode,
            one.spec_version,
        ]
        values += [one.points, one.max_points, one.sha256, one.filename]
        writer.writerow(["" if value is None else cell(value) for value in values])
    return len(rows)
