"""What people decide about a lab and a mark: deadlines, extensions, adjustments, points given by hand.

Each is written together with its entry in the audit, in one transaction. None touches a grade.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from autograder.gradebook import policy
from autograder.gradebook.audit import note
from autograder.gradebook.faults import GradebookError
from autograder.gradebook.models import (
    Adjustment,
    Assignment,
    Extension,
    Grade,
    HandScore,
    Submission,
    TaskGrade,
    now,
)
from autograder.gradebook.policy import POLICIES, LateRule
from autograder.gradebook.roster import learner_id
from autograder.gradebook.store import Gradebook

NO_RULE = LateRule()


@dataclass(frozen=True)
class Terms:
    """The terms of an assignment. A lab that has none is always open, keeps the best and counts the lab's points."""

    lab: str
    released: datetime | None = None
    due: datetime | None = None
    zone: str = "UTC"
    policy: str = "best"
    points: float | None = None
    late: LateRule = NO_RULE
    line_item: str = ""
    results: datetime | None = None

    def facts(self) -> dict[str, Any]:
        """As the audit keeps them."""
        return {
            "released": self.released and self.released.isoformat(),
            "due": self.due and self.due.isoformat(),
            "zone": self.zone,
            "policy": self.policy,
            "points": self.points,
            "late": str(self.late),
            "line_item": self.line_item,
            "results": self.results and self.results.isoformat(),
        }


def terms_of(row: Assignment) -> Terms:
    """What a row of the table says."""
    return Terms(
        row.lab,
        row.released,
        row.due,
        row.zone,
        row.policy,
        row.points,
        LateRule.from_json(row.late),
        row.line_item,
        row.results,
    )


def assignments(book: Gradebook) -> dict[str, Terms]:
    """The terms of each lab that has any, by the lab's name."""
    with book.reading() as session:
        return {row.lab: terms_of(row) for row in session.scalars(select(Assignment).order_by(Assignment.lab))}


def assign(book: Gradebook, lab: str, *, by: str, why: str = "", **changes: Any) -> Terms:
    """Set the terms of a lab; what is not given stays. Marks follow at once: they are worked out when read.

    Parameters
    ----------
    released, due : datetime or None
        With a zone.
    zone : str
        In which to show them.
    policy : str
        ``"best"`` or ``"last"`` submission counts.
    points : float or None
        What full marks are worth; the lab's own points, if None.
    late : LateRule
    line_item : str
        The address of the column in the learning platform's gradebook.
    results : datetime or None
        From when learners see what they earned, with a zone; at once, if None.
    """
    if unknown := sorted(set(changes) - (set(Terms.__dataclass_fields__) - {"lab"})):
        raise TypeError(f"assign: there is no {unknown[0]!r}; there are {', '.join(Terms.__dataclass_fields__)}.")
    for name in ("released", "due", "results"):
        changes |= {name: _utc(book, changes[name])} if changes.get(name) is not None else {}
    with book.deciding("change an assignment") as session:
        row = session.scalar(select(Assignment).where(Assignment.lab == lab))
        old = terms_of(row) if row is not None else None
        new = replace(old or Terms(lab), **changes)
        _check(book, new)
        if row is None:
            row = Assignment(lab=lab)
            session.add(row)
        row.released, row.due, row.zone, row.policy = new.released, new.due, new.zone, new.policy
        row.points, row.late, row.line_item = new.points, new.late.to_json(), new.line_item
        row.results = new.results
        note(session, who=by, what="assignment", old=old and old.facts(), new=new.facts(), why=why, lab=lab)
    return new


def _check(book: Gradebook, terms: Terms) -> None:
    where = f"gradebook {book.where}: {terms.lab}"
    if not terms.lab or len(terms.lab) > 100 or not terms.lab.isprintable():
        raise GradebookError(f"gradebook {book.where}: {terms.lab[:60]!r} cannot be the name of a lab.")
    policy.zone_named(terms.zone)
    if terms.policy not in POLICIES:
        raise GradebookError(f"{where}: there is no policy {terms.policy!r}; there are {', '.join(POLICIES)}.")
    if terms.points is not None and not (math.isfinite(terms.points) and terms.points > 0):
        raise GradebookError(f"{where}: full marks cannot be worth {terms.points:g} points; give more than 0.")
    if terms.released and terms.due and terms.released >= terms.due:
        raise GradebookError(
            f"{where}: it would be due ({policy.shown(terms.due, terms.zone)}) before it is released "
            f"({policy.shown(terms.released, terms.zone)})."
        )


def extend(book: Gradebook, lab: str, learner: str, until: datetime | None, *, by: str, why: str) -> None:
    """Give one learner until `until` (with a zone); take an extension back with None.

    A common deadline that moves behind it goes before it: an extension never shortens the time.
    """
    _given(book, "an extension", why)
    moment = None if until is None else _utc(book, until)
    with book.deciding("change an extension") as session:
        person = learner_id(session, book, learner)
        row = session.scalar(select(Extension).where(Extension.lab == lab, Extension.learner_id == person))
        old = row.until.isoformat() if row is not None else None
        if moment is None:
            if row is not None:
                session.delete(row)
        elif row is None:
            session.add(Extension(learner_id=person, lab=lab, until=moment))
        else:
            row.until = moment
        new = moment and moment.isoformat()
        note(session, who=by, what="extension", old=old, new=new, why=why, lab=lab, learner_id=person)


def adjust(
    book: Gradebook, lab: str, learner: str, points: float, *, by: str, reason: str, replaces: bool = False
) -> int:
    """Add `points` to a learner's mark for a lab (take, where negative), or with `replaces` put them in its place.

    Returns the number by which it can be withdrawn. It stands through regrades and moved deadlines.
    """
    _given(book, "an adjustment", reason)
    if not math.isfinite(points) or (replaces and points < 0):
        raise GradebookError(f"gradebook {book.where}: {points} is not a mark; give a number of points.")
    with book.deciding("adjust a mark") as session:
        person = learner_id(session, book, learner)
        row = Adjustment(
            learner_id=person, lab=lab, points=float(points), replaces=replaces, reason=reason.strip(), by=by
        )
        session.add(row)
        session.flush()
        new = {"number": row.id, "points": row.points, "replaces": replaces}
        note(session, who=by, what="adjustment", old=None, new=new, why=reason, lab=lab, learner_id=person)
    return row.id


def withdraw(book: Gradebook, number: int, *, by: str, reason: str) -> None:
    """Undo an adjustment; it stays on record."""
    _given(book, "withdrawing an adjustment", reason)
    with book.deciding("withdraw an adjustment") as session:
        row = session.get(Adjustment, number)
        if row is None or row.withdrawn_at is not None:
            state = "there is none" if row is None else "it is withdrawn already"
            raise GradebookError(f"gradebook {book.where}: adjustment {number}: {state}.")
        row.withdrawn_at = now()
        old = {"number": row.id, "points": row.points, "replaces": row.replaces}
        note(session, who=by, what="adjustment", old=old, new=None, why=reason, lab=row.lab, learner_id=row.learner_id)


def score_by_hand(
    book: Gradebook, submission_id: int, task: str, points: float, *, by: str, comment: str = "", why: str = ""
) -> None:
    """Give one task of a graded submission its points, in place of what the grader gave. Stands through regrades.

    Raises
    ------
    GradebookError
        The submission is not graded yet, its grade has no such task, or the points are not from 0 to the task's.
    """
    with book.deciding("record points given by hand") as session:
        submission = session.get(Submission, submission_id, with_for_update=True)
        if submission is None:
            raise GradebookError(f"gradebook {book.where}: there is no submission {submission_id}.")
        listed = (
            select(TaskGrade.task, TaskGrade.max_points)
            .join(Grade)
            .where(Grade.submission_id == submission_id)
            .order_by(Grade.id)
        )
        worth = {row.task: row.max_points for row in session.execute(listed)}
        if task not in worth:
            known = f"it has {', '.join(worth)}" if worth else "it is not graded yet"
            raise GradebookError(f"gradebook {book.where}: submission {submission_id} has no task {task!r}: {known}.")
        if not 0 <= points <= worth[task]:
            raise GradebookError(
                f"gradebook {book.where}: {task} is worth 0 to {worth[task]:g} points; {points:g} was given."
            )
        row = session.scalar(select(HandScore).where(HandScore.submission_id == submission_id, HandScore.task == task))
        old = None if row is None else {"points": row.points, "comment": row.comment}
        if row is None:
            row = HandScore(submission_id=submission_id, task=task)
            session.add(row)
        row.points, row.comment, row.by, row.at = float(points), comment, by, now()
        new = {"points": row.points, "comment": comment}
        about = {"submission": submission_id, "task": task}
        note(
            session,
            who=by,
            what="hand score",
            old=old and about | old,
            new=about | new,
            why=why or comment,
            lab=submission.lab,
            learner_id=submission.learner_id,
        )


def _given(book: Gradebook, what: str, reason: str) -> None:
    if not reason.strip():
        raise GradebookError(f"gradebook {book.where}: {what} needs a reason; give one.")


def _utc(book: Gradebook, when: datetime) -> datetime:
    if when.tzinfo is None:
        raise GradebookError(f"gradebook {book.where}: the time {when.isoformat()} has no zone; give one.")
    return when.astimezone(UTC)
