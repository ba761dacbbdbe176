"""Answers in words: which wait for a person, what they say, and the points a person gave them.

Points are hand scores (`decisions.score_by_hand`): they stand through regrades, count in every mark, and are audited.
They belong to the words: where the same learner hands the same words in again, they stand for those too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session, undefer

from autograder import spec
from autograder.gradebook.audit import note
from autograder.gradebook.decisions import score_by_hand
from autograder.gradebook.faults import GradebookError
from autograder.gradebook.models import Attempt, Grade, HandScore, Learner, Submission, TaskGrade, now
from autograder.gradebook.scores import sheet
from autograder.gradebook.store import Gradebook
from autograder.report import Report, TaskResult


@dataclass(frozen=True)
class Score:
    """What a person gave."""

    points: float
    comment: str
    by: str
    at: datetime


@dataclass(frozen=True)
class Awaited:
    """An answer that nobody has read."""

    submission: int
    learner: str
    lab: str
    task: str
    title: str
    max_points: float
    came: datetime


@dataclass(frozen=True)
class Answer:
    """An answer as it is read. The rubric is for who reads, never for a learner."""

    submission: int
    learner: str
    lab: str
    task: str
    title: str
    max_points: float
    text: str
    rubric: str
    score: Score | None


def awaited(book: Gradebook, *, lab: str | None = None) -> list[Awaited]:
    """What waits to be read, oldest first: of each learner, in the submission that counts and in the last one.

    The last one matters where the best counts: better words earn nothing until somebody has read them.
    """
    counting = {mark.submission for mark in sheet(book, lab=lab).marks.values() if mark.submission is not None}
    acts = (
        select(Attempt.submission_id, func.min(Attempt.id).label("first"), func.max(Attempt.id).label("last"))
        .group_by(Attempt.submission_id)
        .subquery()
    )
    query = (
        select(Submission.id, Learner.id, Learner.name, Submission.lab, acts.c.last, Attempt.at)
        .join(Learner, Learner.id == Submission.learner_id)
        .join(acts, acts.c.submission_id == Submission.id)
        .join(Attempt, Attempt.id == acts.c.first)
        .where(Learner.left_at.is_(None))
    )
    with book.reading() as session:
        rows = session.execute(query if lab is None else query.where(Submission.lab == lab)).all()
        last: dict[tuple[int, str], tuple[int, int]] = {}
        for number, person, _, where, act, _ in rows:
            last[person, where] = max(last.get((person, where), (0, 0)), (act, number))
        read = counting | {number for _, number in last.values()}
        pending = _pending(session, read)
    found = [
        Awaited(number, name, where, task, title_of(where, task), worth, came)
        for number, _, name, where, _, came in rows
        for task, worth in pending.get(number, ())
    ]
    return sorted(found, key=lambda one: (one.came, one.submission))


def _pending(session: Session, submissions: Iterable[int]) -> dict[int, list[tuple[str, float]]]:
    """By submission: the answers in words that have no score, by the grade that counts."""
    wanted = set(submissions)
    scored = {(row.submission_id, row.task) for row in session.execute(select(HandScore.submission_id, HandScore.task))}
    counts: dict[int, tuple[bool, int]] = {}
    for submission, mode, grade in session.execute(select(Grade.submission_id, Grade.mode, Grade.id)):
        counts[submission] = max(counts.get(submission, (False, 0)), (mode == "official", grade))
    query = (
        select(Grade.submission_id, Grade.id, TaskGrade.task, TaskGrade.max_points)
        .join(TaskGrade, TaskGrade.grade_id == Grade.id)
        .where(TaskGrade.verdict == "pending")
        .order_by(Grade.id, TaskGrade.position)
    )
    found: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for submission, grade, task, worth in session.execute(query):
        if submission in wanted and grade == counts[submission][1] and (submission, task) not in scored:
            found[submission].append((task, worth))
    return found


def answers(book: Gradebook, submission: int) -> list[Answer]:
    """Every answer in words of a submission, those that are empty too; nothing, where it is not graded.

    Raises
    ------
    GradebookError
        There is no such submission.
    """
    with book.reading() as session:
        row, learner = _submission(session, book, submission)
        report = _report(session, submission)
        scores = _scores(session, submission)
    if report is None:
        return []
    questions = {question.name: question for question in questions_of(row.lab)}
    return [
        Answer(
            submission,
            learner,
            row.lab,
            task.name,
            task.title,
            task.max_points,
            task.answer,
            questions[task.name].rubric if task.name in questions else "",
            scores.get(task.name),
        )
        for task in report.tasks
        if task.name in questions or task.verdict == "pending"
    ]


def score(book: Gradebook, submission: int, task: str, points: float, *, by: str, comment: str = "") -> list[int]:
    """Give an answer its points; the submissions they now stand for: this one, and others with the same words.

    Raises
    ------
    GradebookError
        There is no such submission or task, it is no answer in words, or the points are not from 0 to what it is worth.
    """
    if isinstance(points, bool) or not isinstance(points, (int, float)) or not math.isfinite(points):
        raise GradebookError(f"gradebook {book.where}: {points!r} is not a number of points.")
    mine = next((one for one in answers(book, submission) if one.task == task), None)
    if mine is None:
        known = ", ".join(one.task for one in answers(book, submission)) or "none, or it is not graded yet"
        raise GradebookError(
            f"gradebook {book.where}: submission {submission} has no answer in words {task!r}; it has {known}."
        )
    score_by_hand(book, submission, task, points, by=by, comment=comment)
    given = [submission]
    for other, text in _same_words(book, mine):
        if text == mine.text:
            why = f"The same words as in submission {submission}."
            score_by_hand(book, other, task, points, by=by, comment=comment, why=why)
            given.append(other)
    return given


def marked(book: Gradebook, submission: int, report: Report) -> Report:
    """The report with what people gave in it."""
    with book.reading() as session:
        scores = _scores(session, submission)
    return with_scores(report, scores) if scores else report


def with_scores(report: Report, scores: dict[str, Score]) -> Report:
    """The report, where the tasks that have a score are ``marked``."""

    def one(task: TaskResult) -> TaskResult:
        given = scores.get(task.name)
        if given is None:
            return task
        message = "" if task.verdict in ("pending", "ungraded") else task.message
        return replace(
            task, verdict="marked", points=given.points, message=message, comment=given.comment, marked_by=given.by
        )

    return replace(report, tasks=[one(task) for task in report.tasks])


def carry(session: Session, submission: Submission, report: Report) -> None:
    """Within the transaction that records `report`: an answer that this learner has had marked keeps its points."""
    waiting = [task for task in report.tasks if task.verdict == "pending"]
    if not waiting:
        return
    here = _scores(session, submission.id)
    query = (
        select(HandScore)
        .join(Submission, Submission.id == HandScore.submission_id)
        .where(
            Submission.learner_id == submission.learner_id,
            Submission.lab == submission.lab,
            Submission.id != submission.id,
            HandScore.task.in_([task.name for task in waiting]),
        )
        .order_by(HandScore.at.desc(), HandScore.id.desc())
    )
    earlier: dict[str, list[HandScore]] = defaultdict(list)
    for row in session.scalars(query):
        earlier[row.task].append(row)
    reports = {row.submission_id: _report(session, row.submission_id) for rows in earlier.values() for row in rows}
    for task in waiting:
        before = next(
            (row for row in earlier[task.name] if _text(reports[row.submission_id], task) == task.answer), None
        )
        if before is None or task.name in here or before.points > task.max_points:
            continue
        session.add(
            HandScore(
                submission_id=submission.id,
                task=task.name,
                points=before.points,
                comment=before.comment,
                by=before.by,
                at=now(),
            )
        )
        note(
            session,
            who=before.by,
            what="hand score",
            old=None,
            new={"submission": submission.id, "task": task.name, "points": before.points, "comment": before.comment},
            why=f"The same words as in submission {before.submission_id}.",
            lab=submission.lab,
            learner_id=submission.learner_id,
        )


def questions_of(lab: str) -> Sequence[spec.Written]:
    """The questions of a lab that are answered in words; none, where there is no such lab any more."""
    return spec.load_lab(lab).written if lab in spec.lab_names() else ()


def title_of(lab: str, task: str) -> str:
    return next((question.title for question in questions_of(lab) if question.name == task), task)


def _submission(session: Session, book: Gradebook, number: int) -> tuple[Submission, str]:
    row = session.get(Submission, number)
    if row is None:
        raise GradebookError(f"gradebook {book.where}: there is no submission {number}.")
    return row, row.learner.name


def _report(session: Session, submission: int) -> Report | None:
    """The report that counts, as the grader wrote it."""
    grades = list(
        session.scalars(select(Grade).where(Grade.submission_id == submission).options(undefer(Grade.report)))
    )
    if not grades:
        return None
    return Report.from_json(max(grades, key=lambda grade: (grade.mode == "official", grade.id)).report)


def _text(report: Report | None, task: TaskResult) -> str | None:
    if report is None:
        return None
    return next((one.answer for one in report.tasks if one.name == task.name and one.verdict == "pending"), None)


def _scores(session: Session, submission: int) -> dict[str, Score]:
    rows = session.scalars(select(HandScore).where(HandScore.submission_id == submission))
    return {row.task: Score(row.points, row.comment, row.by, row.at) for row in rows}


def _same_words(book: Gradebook, mine: Answer) -> list[tuple[int, str | None]]:
    """The learner's other submissions for the lab with their answer to the same question."""
    with book.reading() as session:
        others = session.scalars(
            select(Submission.id)
            .join(Learner)
            .where(Learner.name == mine.learner, Submission.lab == mine.lab, Submission.id != mine.submission)
            .order_by(Submission.id)
        ).all()
        question = TaskResult(mine.task, mine.title, 0.0, mine.max_points, "pending")
        return [(number, _text(_report(session, number), question)) for number in others]
