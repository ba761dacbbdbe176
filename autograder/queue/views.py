"""Looking at the queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select

from autograder.gradebook.models import Attempt, Learner, Submission
from autograder.gradebook.models import Job as Row
from autograder.gradebook.store import Gradebook
from autograder.queue import holders
from autograder.queue.states import STATES, JobView, State, job


def watch(
    book: Gradebook,
    *,
    states: Iterable[State] = ("leased", "waiting", "parked"),
    lab: str | None = None,
    learner: str | None = None,
    limit: int = 0,
    offset: int = 0,
) -> list[JobView]:
    """The jobs in the order they are done in: at work, waiting, then parked and done, newest first.

    All of them where `limit` is 0.
    """
    found: list[JobView] = []
    with book.reading() as session:
        for state in sorted(set(states), key=("leased", "waiting", "parked", "done").index):
            query = _query(lab, learner).where(Row.state == state)
            line = state in ("leased", "waiting")
            query = query.order_by(Row.priority, Row.turn, Row.id) if line else query.order_by(Row.since.desc())
            if limit:
                query = query.limit(limit + offset - len(found))
            found += [_view(row) for row in session.execute(query)]
            if limit and len(found) == limit + offset:
                break
    return found[offset : offset + limit] if limit else found[offset:]


def job_of(book: Gradebook, submission_id: int) -> JobView | None:
    """The newest job of a submission, if it was ever put into the queue."""
    with book.reading() as session:
        query = _query(None, None).where(Row.submission_id == submission_id).order_by(Row.id.desc()).limit(1)
        row = session.execute(query).first()
        return None if row is None else _view(row)


def counts(book: Gradebook) -> dict[State, int]:
    """How many jobs are in each state."""
    with book.reading() as session:
        found = dict(session.execute(select(Row.state, func.count()).group_by(Row.state)).all())
    return {state: found.get(state, 0) for state in STATES}


def _query(lab: str | None, learner: str | None) -> Any:
    filename = (
        select(Attempt.filename)
        .where(Attempt.submission_id == Submission.id)
        .order_by(Attempt.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    place = func.row_number().over(order_by=(Row.priority, Row.turn, Row.id)) - 1
    line = select(Row.id, place.label("ahead")).where(Row.state == "waiting").subquery()
    query = (
        select(Row, Learner.name, Submission.lab, Submission.sha256, filename, line.c.ahead)
        .join(Submission, Submission.id == Row.submission_id)
        .join(Learner, Learner.id == Submission.learner_id)
        .outerjoin(line, line.c.id == Row.id)
    )
    if lab is not None:
        query = query.where(Submission.lab == lab)
    return query if learner is None else query.where(Learner.name == learner)


def _view(found: Any) -> JobView:
    row, learner, lab, sha256, filename, ahead = found
    return JobView(
        **vars(job(row)),
        learner=learner,
        lab=lab,
        filename=filename or "",
        sha256=sha256,
        ahead=ahead,
        holder=holders.shown(row.holder),
    )
