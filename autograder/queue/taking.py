"""The workers' side of the queue: take a job on a lease, keep it, and say what came of it.

A lease is a token. Who holds it counts its beat up; others who see it stand still for long enough, by their own
stopwatch, put the job back. No clock's time decides that, so a clock that jumps ends no lease. A worker that was
taken for dead and comes back has a token that fits nothing any more: what it did is not recorded.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.orm import Session

from autograder.cells import printable
from autograder.gradebook.models import Attempt, Content, Learner, Submission
from autograder.gradebook.models import Job as Row
from autograder.gradebook.store import Gradebook
from autograder.queue.grading import Fault, Work
from autograder.queue.states import REGRADE, database_time
from autograder.report import Report


@dataclass(frozen=True)
class Patience:
    """How often a grading is tried, and how long after a fault of ours.

    Attributes
    ----------
    tries : int
        After so many it is parked.
    first, factor, most : float
        Seconds to wait after the first fault, by what they grow with each further one, and the most they become.
    """

    tries: int = 4
    first: float = 5.0
    factor: float = 4.0
    most: float = 600.0

    def __post_init__(self) -> None:
        if self.tries < 1 or self.first < 0 or self.factor < 1 or self.most < self.first:
            raise ValueError(f"{self}: give at least 1 try, waits from 0 s, and a factor from 1")

    def wait(self, tries: int) -> float:
        """Seconds before the next try, after `tries` of them."""
        return float(min(self.first * self.factor ** min(tries - 1, 60), self.most))


STANDARD = Patience()


@dataclass(frozen=True)
class Lease:
    """A job that a worker has, and what is to be done."""

    job_id: int
    token: str
    tries: int
    """This one included."""
    work: Work


def claim(book: Gradebook, holder: str, *, limit: int = 1, seconds: float = 30.0) -> list[Lease]:
    """Take the next jobs, at most `limit`; others who ask at the same time get others.

    Parameters
    ----------
    holder : str
        Who asks; see `holders.me`.
    seconds : float
        For how long the holder may stand still before others take it for dead.
    """
    with book.reading("look into the queue") as session:  # an idle worker must not keep others from writing
        if session.scalar(_ready(database_time(session)).limit(1)) is None:
            return []
    taken: list[tuple[int, str, int]] = []
    with book.writing("take from the queue") as session:
        moment = database_time(session)
        for row in session.scalars(_ready(moment).limit(limit).with_for_update(skip_locked=True)):
            row.state, row.since, row.holder = "leased", moment, holder
            row.token, row.beat, row.lease_seconds = secrets.token_hex(16), 0, seconds
            row.tries += 1
            taken.append((row.id, row.token, row.tries))
    found = []
    with book.reading("read what is to be graded") as session:
        for job_id, token, tries in taken:
            found.append(Lease(job_id, token, tries, _work(session, job_id)))
    return found


def _ready(moment: datetime) -> Select[Row]:
    """Jobs whose time has come, in the order of the line.

    A job that began to wait later than now did so by a clock that was wrong; it waits no longer.
    """
    due = or_(Row.not_before.is_(None), Row.not_before <= moment, Row.since > moment)
    return select(Row).where(Row.state == "waiting", due).order_by(Row.priority, Row.turn, Row.id)


def _work(session: Session, job_id: int) -> Work:
    query = (
        select(Row.mode, Submission.id, Submission.lab, Learner.name, Submission.sha256, Content.data)
        .select_from(Row)
        .join(Submission, Submission.id == Row.submission_id)
        .join(Learner, Learner.id == Submission.learner_id)
        .join(Content, Content.sha256 == Submission.sha256)
        .where(Row.id == job_id)
    )
    mode, submission, lab, learner, sha256, data = session.execute(query).one()
    last = select(Attempt.filename).where(Attempt.submission_id == submission).order_by(Attempt.id.desc()).limit(1)
    return Work(submission, lab, learner, session.scalar(last) or "notebook.ipynb", sha256, mode, data)


def beat(book: Gradebook, leases: Collection[Lease]) -> set[int]:
    """Say that these are being worked at; returns the numbers of jobs that are the holder's no longer."""
    lost = set()
    with book.writing("keep the leases") as session:
        for lease in sorted(leases, key=lambda one: one.job_id):  # in one order everywhere: no two wait for each other
            kept = (
                update(Row)
                .where(Row.id == lease.job_id, Row.token == lease.token, Row.state == "leased")
                .values(beat=Row.beat + 1)
                .returning(Row.id)
                .execution_options(synchronize_session=False)
            )
            if session.scalar(kept) is None:
                lost.add(lease.job_id)
    return lost


def finish(book: Gradebook, lease: Lease, report: Report, patience: Patience = STANDARD) -> bool:
    """Record the report and the job's end together. False, and nothing is recorded, where the lease is lost.

    A report that the grader could not complete is recorded too, and the job tried again. So is one by another spec
    version than was asked for, where a regrade asked for it; the learner's own new work is then done.
    """
    with book.writing("record the grade") as session:
        # Put back but taken by nobody since: work that is done counts. A person who parks a job takes its token away.
        row = _held(session, lease, "leased", "waiting", "parked")
        if row is None:
            return False
        book.record_in(session, row.submission_id, report)
        moment = database_time(session)
        faulty = [task for task in report.tasks if task.verdict == "ungraded" and task.cause == "oracle"]
        if faulty:
            words = f"{len(faulty)} of {len(report.tasks)} tasks could not be graded: {faulty[0].message}"
            _again(row, moment, Fault(words), patience)
        elif report.spec_version != row.spec_version and row.priority >= REGRADE:
            words = (
                f"The worker has version {report.spec_version} of {report.lab}, and this job asks for "
                f"{row.spec_version}. Restart the workers with the present autograder, or regrade once more."
            )
            _again(row, moment, Fault(words), patience)
        else:
            row.state, row.since, row.fault, row.not_before = "done", moment, "", None
            _take_version(session, row, report.spec_version)
    return True


def _take_version(session: Session, row: Row, version: str) -> None:
    """Put the version that it was graded by in place of the one that was asked for, unless that has its own job."""
    same = select(func.count()).where(
        Row.submission_id == row.submission_id, Row.mode == row.mode, Row.spec_version == version
    )
    if row.spec_version != version and not session.scalar(same):
        row.spec_version = version


def fail(book: Gradebook, lease: Lease, fault: Fault, patience: Patience = STANDARD) -> bool:
    """Say why it was not graded: it is tried again later, or parked. False where the lease is lost."""
    with book.writing("record why it was not graded") as session:
        row = _held(session, lease, "leased")
        if row is None:
            return False
        _again(row, database_time(session), fault, patience)
    return True


def give_back(book: Gradebook, lease: Lease) -> bool:
    """Let another take the job, as if it had not been taken. False where the lease is lost."""
    with book.writing("give a job back") as session:
        row = _held(session, lease, "leased")
        if row is None:
            return False
        row.state, row.since, row.not_before = "waiting", database_time(session), None
        row.tries = max(row.tries - 1, 0)
    return True


def put_back(book: Gradebook, job_id: int, token: str, beats: int, words: str, patience: Patience = STANDARD) -> bool:
    """Take a job from a holder that stands still. False where it moved meanwhile."""
    with book.writing("put a job back") as session:
        query = select(Row).where(Row.id == job_id, Row.token == token, Row.beat == beats, Row.state == "leased")
        row = session.scalar(query.with_for_update())
        if row is None:
            return False
        _again(row, database_time(session), Fault(words), patience, at_once=True)
    return True


def _held(session: Session, lease: Lease, *states: str) -> Row | None:
    """The job, locked, if it has this lease's token and is in one of the states."""
    query = select(Row).where(Row.id == lease.job_id, Row.token == lease.token, Row.state.in_(states))
    return session.scalar(query.with_for_update())


def _again(row: Row, moment: datetime, fault: Fault, patience: Patience, *, at_once: bool = False) -> None:
    row.since, row.fault = moment, printable(fault.words)[:2000]
    if fault.final or row.tries >= patience.tries:
        row.state, row.not_before = "parked", None
        if not fault.final:
            row.fault = f"Given up after {row.tries} tries. {row.fault}"
        return
    row.state = "waiting"
    row.not_before = None if at_once else moment + timedelta(seconds=patience.wait(row.tries))
