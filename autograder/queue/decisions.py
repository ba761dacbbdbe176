"""What people do to jobs: try again, or leave alone. Each is in the audit, in the transaction of the change."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from autograder.gradebook.audit import note
from autograder.gradebook.faults import GradebookError
from autograder.gradebook.models import Job as Row
from autograder.gradebook.models import Submission
from autograder.gradebook.store import Gradebook
from autograder.queue.states import Job, database_time, job, restart


def retry(book: Gradebook, job_id: int, *, by: str, why: str = "") -> Job:
    """Try a parked job again, or one that waits for its next try or its learner's rate limit at once.

    Raises
    ------
    GradebookError
        There is no such job, or a worker has it, or it is done.
    """
    with book.deciding("try a job again") as session:
        row = _row(session, book, job_id)
        if row.state in ("leased", "done"):
            state = "a worker is at it" if row.state == "leased" else "it is done; see `autograder regrade`"
            raise GradebookError(f"gradebook {book.where}: job {job_id} is not tried again: {state}.")
        old = _facts(row)
        restart(row, database_time(session))
        _note(session, row, old, by, why or "tried again")
        return job(row)


def park(book: Gradebook, job_id: int, *, by: str, reason: str) -> Job:
    """Leave a job undone until somebody retries it. What a worker is doing for it at the moment is not recorded.

    Raises
    ------
    GradebookError
        There is no such job, it is done, or no reason is given.
    """
    if not reason.strip():
        raise GradebookError(f"gradebook {book.where}: parking a job needs a reason; give one.")
    with book.deciding("park a job") as session:
        row = _row(session, book, job_id)
        if row.state == "done":
            raise GradebookError(f"gradebook {book.where}: job {job_id} is done; there is nothing to park.")
        old = _facts(row)
        row.state, row.since, row.not_before = "parked", database_time(session), None
        row.parked_by, row.fault, row.token = by, reason.strip(), ""
        _note(session, row, old, by, reason)
        return job(row)


def _row(session: Session, book: Gradebook, job_id: int) -> Row:
    row = session.scalar(select(Row).where(Row.id == job_id).with_for_update())
    if row is None:
        raise GradebookError(f"gradebook {book.where}: there is no job {job_id}. See `autograder queue`.")
    return row


def _facts(row: Row) -> dict[str, object]:
    return {"job": row.id, "submission": row.submission_id, "state": row.state, "fault": row.fault}


def _note(session: Session, row: Row, old: dict[str, object], by: str, why: str) -> None:
    lab = session.scalar(select(Submission.lab).where(Submission.id == row.submission_id)) or ""
    new = _facts(row)
    note(session, who=by, what="queue", old=old, new=new, why=why, lab=lab, learner_id=row.learner_id)
