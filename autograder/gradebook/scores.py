"""Marks, worked out when they are read: grades, points given by hand, the policy, lateness, adjustments.

Nothing here is stored, so a deadline that moves, an extension or a new late rule shows in every mark at once.
Work is on time by when its bytes first came; which came last is told by the order of receipt, not by the clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from autograder.gradebook.decisions import Terms, terms_of
from autograder.gradebook.models import (
    Adjustment,
    Assignment,
    Attempt,
    Extension,
    Grade,
    HandScore,
    Learner,
    Role,
    Submission,
    TaskGrade,
)
from autograder.gradebook.store import Gradebook

AWAIT_A_PERSON = ("ungraded", "pending")
"""Verdicts that no grader can settle."""


IN_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class Mark:
    """What one learner has for one lab."""

    learner: str
    lab: str
    points: float | None
    """What counts; None where nothing is graded."""
    max_points: float | None
    """What full marks are worth; None where nobody's work is graded and the assignment does not say."""
    submission: int | None = None
    """The submission that counts; None where only an adjustment does."""
    came: datetime | None = None
    """When its bytes first came."""
    due: datetime | None = None
    """This learner's own deadline."""
    late: timedelta = IN_TIME
    earned: float | None = None
    """Before lateness and adjustments."""
    kept: float = 1.0
    """The part that lateness leaves, in [0, 1]."""
    adjusted: float = 0.0
    """By how much adjustments changed it."""
    submissions: int = 0
    waiting: bool = False
    """Whether some of their work for the lab is not graded yet."""
    by_hand: tuple[str, ...] = ()
    """Tasks that nobody has graded: the grader could not, or they are for a person to read, and no person did."""

    @property
    def penalty(self) -> float:
        """The points that lateness cost."""
        return (self.earned or 0.0) * (1.0 - self.kept)


@dataclass(frozen=True)
class Sheet:
    """The marks of a class."""

    learners: list[str]
    labs: list[str]
    marks: dict[tuple[str, str], Mark] = field(repr=False)
    """By learner and lab; nothing, where nothing was handed in or decided."""


class _Work(NamedTuple):
    """A submission with what is needed to choose between several."""

    id: int
    first: int
    last: int
    came: datetime
    earned: float | None
    official: bool
    by_hand: tuple[str, ...]


def sheet(book: Gradebook, *, lab: str | None = None, learner: str | None = None, left: bool = False) -> Sheet:
    """The marks of all learners of the class for all labs, or of one; with `left`, of those who left too."""
    with book.reading() as session:
        names = _learners(session, learner, left)
        terms = {row.lab: terms_of(row) for row in session.scalars(_only(select(Assignment), Assignment, lab))}
        grades, worth = _grades(session, lab)
        points = {one: given.points for one, given in terms.items() if given.points is not None}
        worth |= points
        work = _work(session, grades, worth, lab, names, learner)
        extensions = {
            (person, where): until
            for person, where, until in session.execute(
                _only(select(Extension.learner_id, Extension.lab, Extension.until), Extension, lab)
            )
        }
        adjustments: dict[tuple[int, str], list[tuple[float, bool]]] = defaultdict(list)
        wanted = select(Adjustment.learner_id, Adjustment.lab, Adjustment.points, Adjustment.replaces)
        wanted = wanted.where(Adjustment.withdrawn_at.is_(None)).order_by(Adjustment.id)
        for person, where, by, replaces in session.execute(_only(wanted, Adjustment, lab)):
            adjustments[person, where].append((by, replaces))
    marks = {}
    for key in work.keys() | adjustments.keys():
        person, where = key
        if person in names:
            rules = terms.get(where) or Terms(where)
            mark = _mark(
                names[person],
                rules,
                worth.get(where),
                work.get(key, []),
                extensions.get(key),
                adjustments.get(key, []),
            )
            marks[names[person], where] = mark
    labs = sorted({where for _, where in marks} | set(terms))
    return Sheet(sorted(names.values()), labs, marks)


def mark(book: Gradebook, *, learner: str, lab: str) -> Mark | None:
    """What one learner has for one lab."""
    return sheet(book, learner=learner, lab=lab, left=True).marks.get((learner, lab))


def _only(query: Any, table: Any, lab: str | None) -> Any:
    return query if lab is None else query.where(table.lab == lab)


def _learners(session: Session, learner: str | None, left: bool) -> dict[int, str]:
    """The people who are marked: all but those who only teach."""
    teaches = select(Role.learner_id).where(Role.role != "learner")
    learns = select(Role.learner_id).where(Role.role == "learner")
    query = select(Learner.id, Learner.name).where(Learner.id.in_(learns) | Learner.id.not_in(teaches))
    if learner is not None:
        query = query.where(Learner.name == learner)
    if not left:
        query = query.where(Learner.left_at.is_(None))
    return {row.id: row.name for row in session.execute(query)}


class _Graded(NamedTuple):
    rank: tuple[bool, int]
    points: float
    max_points: float


def _grades(session: Session, lab: str | None) -> tuple[dict[int, _Graded], dict[str, float]]:
    """The grade that counts by submission, and what each lab is worth by its newest grade."""
    query = select(Grade.id, Grade.submission_id, Grade.mode, Grade.points, Grade.max_points, Submission.lab).join(
        Submission
    )
    found: dict[int, _Graded] = {}
    worth: dict[str, float] = {}
    for key, submission, mode, points, most, where in session.execute(_only(query, Submission, lab).order_by(Grade.id)):
        graded = _Graded((mode == "official", key), points, most)
        if submission not in found or graded.rank > found[submission].rank:
            found[submission] = graded
        worth[where] = most
    return found, worth


def _work(
    session: Session,
    grades: dict[int, _Graded],
    worth: dict[str, float],
    lab: str | None,
    names: dict[int, str],
    learner: str | None,
) -> dict[tuple[int, str], list[_Work]]:
    by_hand, changed = _by_hand(session, lab)
    acts = (
        select(Attempt.submission_id, func.min(Attempt.id).label("first"), func.max(Attempt.id).label("last"))
        .group_by(Attempt.submission_id)
        .subquery()
    )
    query = (
        select(Submission.id, Submission.learner_id, Submission.lab, acts.c.first, acts.c.last, Attempt.at)
        .join(acts, acts.c.submission_id == Submission.id)
        .join(Attempt, Attempt.id == acts.c.first)
    )
    if learner is not None:
        query = query.where(Submission.learner_id.in_(names))
    found: dict[tuple[int, str], list[_Work]] = defaultdict(list)
    for key, person, where, first, last, came in session.execute(_only(query, Submission, lab)):
        graded = grades.get(key)
        earned = None
        if graded is not None:
            points = graded.points + changed.get(key, 0.0)
            earned = points * worth[where] / graded.max_points if graded.max_points else 0.0
        official = graded is not None and graded.rank[0]
        found[person, where].append(_Work(key, first, last, came, earned, official, by_hand.get(key, ())))
    return found


def _by_hand(session: Session, lab: str | None) -> tuple[dict[int, tuple[str, ...]], dict[int, float]]:
    """By submission: the tasks that await a person, and by how many points those who graded changed the sum."""
    given: dict[int, dict[str, float]] = defaultdict(dict)
    query = select(HandScore.submission_id, HandScore.task, HandScore.points).join(Submission)
    for submission, task, points in session.execute(_only(query, Submission, lab)):
        given[submission][task] = points
    awaited: dict[int, tuple[str, ...]] = {}
    changed: dict[int, float] = {}
    rank: dict[int, tuple[bool, int]] = {}
    tasks = (
        select(Submission.id, Grade.mode, Grade.id, TaskGrade.task, TaskGrade.verdict, TaskGrade.points)
        .join(Grade, Grade.submission_id == Submission.id)
        .join(TaskGrade, TaskGrade.grade_id == Grade.id)
        .where(Submission.id.in_(select(HandScore.submission_id)) | TaskGrade.verdict.in_(AWAIT_A_PERSON))
        .order_by(Grade.id, TaskGrade.position)
    )
    for submission, mode, grade, task, verdict, points in session.execute(_only(tasks, Submission, lab)):
        this = (mode == "official", grade)
        if this < rank.get(submission, this):
            continue
        if this != rank.get(submission):
            rank[submission], changed[submission], awaited[submission] = this, 0.0, ()
        if task in given[submission]:
            changed[submission] += given[submission][task] - points
        elif verdict in AWAIT_A_PERSON:
            awaited[submission] += (task,)
    return awaited, changed


def _mark(
    learner: str,
    terms: Terms,
    worth: float | None,
    work: list[_Work],
    until: datetime | None,
    adjustments: Iterable[tuple[float, bool]],
) -> Mark:
    due = terms.due if until is None or terms.due is None else max(terms.due, until)

    def lateness(one: _Work) -> timedelta:
        return one.came - due if due is not None and one.came > due else IN_TIME

    def rank(one: _Work) -> tuple[float, bool, int]:
        late = lateness(one)
        return -(one.earned or 0.0) * (terms.late.kept(late) if late else 1.0), not one.official, one.first

    graded = [one for one in work if one.earned is not None]
    counts: _Work | None = None
    if terms.policy == "last":
        counts = max(work, key=lambda one: one.last, default=None)
    elif graded:
        counts = min(graded, key=rank) if len(graded) > 1 else graded[0]
    elif work:
        counts = max(work, key=lambda one: one.last)
    late = lateness(counts) if counts else IN_TIME
    kept = terms.late.kept(late)
    before = None if counts is None or counts.earned is None else counts.earned * kept
    after = before
    for points, replaces in adjustments:
        after = points if replaces else (after or 0.0) + points
    if after is not None:
        after = max(after, 0.0)
    return Mark(
        learner,
        terms.lab,
        after,
        worth,
        counts and counts.id,
        counts and counts.came,
        due,
        late,
        counts and counts.earned,
        kept,
        (after or 0.0) - (before or 0.0),
        len(work),
        len(graded) < len(work),
        counts.by_hand if counts else (),
    )
