"""What a job can be, and the plain data it is told in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from autograder.gradebook.models import Job as Row
from autograder.gradebook.models import now

State = Literal["waiting", "leased", "done", "parked"]
STATES: tuple[State, ...] = ("waiting", "leased", "done", "parked")
LEARNER, REGRADE = 0, 10
"""Priorities; the smallest goes first. Somebody waits for the first, nobody for the second."""


class Unavailable(RuntimeError):
    """A lab that this autograder does not have."""


@dataclass(frozen=True)
class Job:
    """One grading in the queue, as it was when read."""

    id: int
    submission_id: int
    spec_version: str
    mode: str
    state: State
    priority: int
    reason: str
    tries: int
    fault: str
    """What went wrong last, or why it is parked; a sentence."""
    parked_by: str
    """The person who parked it; nobody, where the queue did."""
    enqueued_at: datetime
    since: datetime
    """Since when it has been in its state."""
    not_before: datetime | None
    """It waits at least until then: after a fault, or because of the learner's rate limit."""


@dataclass(frozen=True)
class JobView(Job):
    """A job with whose work it is, for a person to read."""

    learner: str = ""
    lab: str = ""
    filename: str = ""
    sha256: str = ""
    ahead: int | None = None
    """How many waiting jobs go before it; None where it does not wait."""
    holder: str = ""
    """The worker that has it, or had it last."""


def job(row: Row) -> Job:
    """What a row of the table says."""
    return Job(
        row.id,
        row.submission_id,
        row.spec_version,
        row.mode,
        row.state,  # type: ignore[arg-type]
        row.priority,
        row.reason,
        row.tries,
        row.fault,
        row.parked_by,
        row.enqueued_at,
        row.since,
        row.not_before if row.state == "waiting" else None,
    )


def database_time(session: Session) -> datetime:
    """The one clock that all who share the queue see: the server's, or this machine's for a file on it."""
    if session.get_bind().dialect.name == "postgresql":
        found: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        return found
    return now()


def restart(row: Row, moment: datetime) -> None:
    """Let it wait as if it were new."""
    row.state, row.since, row.not_before = "waiting", moment, None
    row.tries, row.parked_by, row.fault = 0, "", ""
