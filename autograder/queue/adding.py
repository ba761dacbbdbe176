"""Putting work into the queue: once for each submission, spec version and mode, however often it is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from autograder.gradebook.faults import GradebookError
from autograder.gradebook.models import Grade, Learner, Submission
from autograder.gradebook.models import Job as Row
from autograder.gradebook.roster import learner_id
from autograder.gradebook.store import Gradebook
from autograder.queue.limits import STANDARD, RateLimit, first_chance
from autograder.queue.states import LEARNER, REGRADE, Job, database_time, job, restart

AT_A_TIME = 200
"""Submissions put into the queue in one transaction: others get to write in between."""


@dataclass(frozen=True)
class Regrading:
    """What a regrade set in motion."""

    enqueued: int
    standing: int
    """Submissions that are graded by the present spec already."""
    waiting: int
    """Submissions that were in the queue for it already."""
    parked: int
    """Submissions whose grading a person parked; they stay parked."""
    unknown: tuple[str, ...] = ()
    """Labs that this autograder does not have; their submissions are left as they are."""


def version_of(book: Gradebook, lab: str) -> str:
    """The version of the lab's spec as this autograder has it.

    Raises
    ------
    GradebookError
        There is no such lab.
    """
    from autograder.spec import load_lab

    try:
        return load_lab(lab).version
    except ValueError as error:
        raise GradebookError(f"gradebook {book.where}: cannot be graded here: {error}") from None


def enqueue(
    book: Gradebook,
    submission_id: int,
    *,
    priority: int = LEARNER,
    reason: str = "handed in",
    mode: str = "official",
    spec_version: str | None = None,
    limit: RateLimit = STANDARD,
) -> Job:
    """Have a stored submission graded; returns its job, which may wait, be done already, or be parked.

    Asked for again it is the same job. One that waits takes the better priority; one that is done is done, unless its
    grade is unsettled; one that the queue gave up on is tried again; one that a person parked stays so.

    Parameters
    ----------
    priority : int
        `LEARNER` or `REGRADE`; the smallest goes first. Among equals learners take turns.
    mode : {"official", "practice"}
    spec_version : str, optional
        By default, that of the lab as this autograder has it.
    limit : RateLimit
        For `LEARNER` only. Beyond it the job waits until its `not_before`; nothing is refused.

    Raises
    ------
    GradebookError
        There is no such submission or lab, or the database does not play along.
    """
    with book.reading() as session:
        lab = session.scalar(select(Submission.lab).where(Submission.id == submission_id))
    if lab is None:
        raise GradebookError(f"gradebook {book.where}: there is no submission {submission_id} to grade.")
    version = version_of(book, lab) if spec_version is None else spec_version
    with book.writing("put the submission into the queue") as session:
        moment = database_time(session)
        submission = session.get_one(Submission, submission_id)
        row, added = _row(session, submission, version, mode, priority, reason, moment)
        if added or _again(session, row, priority, reason, moment):
            if row.priority == LEARNER:
                row.not_before = first_chance(session, row.learner_id, limit, moment)
            row.turn = _turn(session, row)
            row.enqueued_at = moment
        session.flush()
        return job(row)


def _row(
    session: Session, submission: Submission, version: str, mode: str, priority: int, reason: str, moment: datetime
) -> tuple[Row, bool]:
    """The job of this submission, and whether it was added just now."""
    wanted = (
        select(Row)
        .where(Row.submission_id == submission.id, Row.spec_version == version, Row.mode == mode)
        .with_for_update()
    )
    if row := session.scalar(wanted):
        return row, False
    values = _fresh(submission.id, submission.learner_id, version, mode, priority, 0, reason, moment)
    try:
        with session.begin_nested():
            session.execute(insert(Row).values(**values))
    except IntegrityError:  # on PostgreSQL two writers can both have found nothing
        return session.scalars(wanted).one(), False
    row = session.scalars(wanted).one()
    if _stands(session, row):
        row.state = "done"
        return row, False
    return row, True


def _fresh(
    submission: int, learner: int, version: str, mode: str, priority: int, turn: int, reason: str, moment: datetime
) -> dict[str, object]:
    return {
        "submission_id": submission,
        "learner_id": learner,
        "spec_version": version,
        "mode": mode,
        "state": "waiting",
        "priority": priority,
        "turn": turn,
        "reason": reason,
        "tries": 0,
        "fault": "",
        "parked_by": "",
        # Long ago for now: it must not count for the rate limit that it is itself held against.
        "enqueued_at": datetime.fromtimestamp(0, moment.tzinfo),
        "since": moment,
        "holder": "",
        "token": "",
        "beat": 0,
        "lease_seconds": 0.0,
    }


def _again(session: Session, row: Row, priority: int, reason: str, moment: datetime) -> bool:
    """Let a job that is there already serve the new request; whether it takes its place in the line anew."""
    if row.state == "waiting":
        sooner = priority < row.priority
        row.priority = min(row.priority, priority)
        row.reason = reason if sooner else row.reason
        return sooner
    if row.state == "leased" or row.parked_by or (row.state == "done" and _stands(session, row)):
        return False
    restart(row, moment)
    row.priority, row.reason = priority, reason
    return True


def _stands(session: Session, row: Row) -> bool:
    """Whether a settled grade for it is there: doing it could not say anything else."""
    query = select(Grade.id).where(
        Grade.submission_id == row.submission_id,
        Grade.spec_version == row.spec_version,
        Grade.mode == row.mode,
        Grade.settled,
    )
    return session.scalar(query.limit(1)) is not None


def _present(session: Session, priority: int) -> int:
    """The turn that the line has come to."""
    line = select(func.min(Row.turn)).where(Row.state == "waiting", Row.priority == priority, Row.turn > 0)
    over = select(func.max(Row.turn)).where(Row.priority == priority)
    return session.scalar(line) or session.scalar(over) or 1


def _turn(session: Session, row: Row) -> int:
    """One later than this learner's last: who hands in often waits for those who did not, but for all of them once."""
    last = session.scalar(
        select(func.max(Row.turn)).where(
            Row.learner_id == row.learner_id, Row.priority == row.priority, Row.id != row.id
        )
    )
    return max(_present(session, row.priority), (last or 0) + 1)


def regrade(
    book: Gradebook,
    lab: str | None = None,
    learner: str | None = None,
    *,
    by: str,
    why: str = "",
    mode: str = "official",
) -> Regrading:
    """Have everything that was handed in graded by the present spec: of all, of one lab, of one learner.

    Grades by earlier specs stay on record, and count until the new one is there. What has a settled grade by the
    present spec is left alone. Those who wait for new work go first. The request is in the audit.

    Raises
    ------
    GradebookError
        There is no such lab or learner.
    """
    from autograder.gradebook.audit import note
    from autograder.spec import lab_names

    known = set(lab_names())
    if lab is not None and lab not in known:
        raise GradebookError(f"gradebook {book.where}: there is no lab {lab!r}; there are {', '.join(sorted(known))}.")
    with book.reading() as session:
        query = select(Submission.id, Submission.learner_id, Submission.lab).join(Learner).order_by(Submission.id)
        if lab is not None:
            query = query.where(Submission.lab == lab)
        if learner is not None:
            query = query.where(Submission.learner_id == learner_id(session, book, learner))
        found = session.execute(query).all()
    unknown = tuple(sorted({row.lab for row in found} - known))
    versions = {name: version_of(book, name) for name in sorted({row.lab for row in found} & known)}
    wanted = [(row.id, row.learner_id, versions[row.lab]) for row in found if row.lab in versions]
    done = [0, 0, 0, 0]
    reason = f"regrade by {by}" + (f": {why.strip()}" if why.strip() else "")
    for start in range(0, len(wanted), AT_A_TIME):
        part = _regrade_part(book, wanted[start : start + AT_A_TIME], reason, mode)
        done = [sum(pair) for pair in zip(done, part, strict=True)]
    with book.deciding("note the regrade") as session:
        person = None if learner is None else learner_id(session, book, learner)
        new = {"enqueued": done[0], "standing": done[1], "waiting": done[2], "parked": done[3]}
        note(session, who=by, what="regrade", old=None, new=new, why=why, lab=lab or "", learner_id=person)
    return Regrading(done[0], done[1], done[2], done[3], unknown)


def _regrade_part(book: Gradebook, part: Sequence[tuple[int, int, str]], reason: str, mode: str) -> list[int]:
    """Put some submissions into the queue; how many were added, standing, waiting and parked."""
    with book.writing("put submissions into the queue") as session:
        moment = database_time(session)
        rows = _rows(session, (one for one, _, _ in part), mode)
        stands = _standing(session, (one for one, _, _ in part), mode)
        turns = _turns(session, {person for _, person, _ in part})
        present = _present(session, REGRADE)
        new, added, waiting, parked, standing = [], 0, 0, 0, 0
        for submission, person, version in part:
            row = rows.get((submission, version))
            if (submission, version) in stands:
                standing += 1
                continue
            if row is not None and row.state in ("waiting", "leased"):
                waiting += 1
                continue
            if row is not None and row.parked_by:
                parked += 1
                continue
            turns[person] = max(present, turns.get(person, 0) + 1)
            added += 1
            if row is None:
                fresh = _fresh(submission, person, version, mode, REGRADE, turns[person], reason, moment)
                new.append(fresh | {"enqueued_at": moment})
            else:
                restart(row, moment)
                row.priority, row.reason, row.turn, row.enqueued_at = REGRADE, reason, turns[person], moment
        session.flush()
        raced = len(new) - _insert(session, new)
    return [added - raced, standing, waiting + raced, parked]


def _insert(session: Session, new: list[dict[str, object]]) -> int:
    """Add these; how many were. Somebody may have handed the same in at this moment, whose job then stands."""
    if not new:
        return 0
    with contextlib.suppress(IntegrityError):
        with session.begin_nested():
            session.execute(insert(Row), new)
        return len(new)
    added = 0
    for values in new:
        with contextlib.suppress(IntegrityError), session.begin_nested():
            session.execute(insert(Row).values(**values))
            added += 1
    return added


def _rows(session: Session, submissions: Iterable[int], mode: str) -> dict[tuple[int, str], Row]:
    query = select(Row).where(Row.submission_id.in_(list(submissions)), Row.mode == mode).with_for_update()
    return {(row.submission_id, row.spec_version): row for row in session.scalars(query.order_by(Row.id))}


def _standing(session: Session, submissions: Iterable[int], mode: str) -> set[tuple[int, str]]:
    query = select(Grade.submission_id, Grade.spec_version)
    query = query.where(Grade.submission_id.in_(list(submissions)), Grade.mode == mode, Grade.settled)
    return {(submission, version) for submission, version in session.execute(query)}


def _turns(session: Session, learners: Iterable[int]) -> dict[int, int]:
    query = select(Row.learner_id, func.max(Row.turn)).where(
        Row.learner_id.in_(list(learners)), Row.priority == REGRADE
    )
    return dict(session.execute(query.group_by(Row.learner_id)).all())
