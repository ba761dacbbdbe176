"""Reading back what people decided: which labs are out, who has more time, which marks were changed by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from autograder.gradebook.decisions import Terms
from autograder.gradebook.models import Adjustment, Extension, HandScore, Learner, now
from autograder.gradebook.store import Gradebook


def is_out(terms: Terms | None, *, at: datetime | None = None, by_default: bool = False) -> bool:
    """Whether learners have the lab; `by_default` says it of one that nobody has released or held back."""
    if terms is None or terms.released is None:
        return by_default
    return terms.released <= (at or now())


def results_are_out(terms: Terms | None, *, at: datetime | None = None) -> bool:
    """Whether learners see what their work for the lab earned."""
    return terms is None or terms.results is None or terms.results <= (at or now())


@dataclass(frozen=True)
class MoreTime:
    learner: str
    lab: str
    until: datetime


def extensions(book: Gradebook, *, lab: str | None = None, learner: str | None = None) -> list[MoreTime]:
    """Who has more time, by name."""
    query = select(Learner.name, Extension.lab, Extension.until).join(Learner, Learner.id == Extension.learner_id)
    query = query.order_by(Learner.name, Extension.lab)
    if lab is not None:
        query = query.where(Extension.lab == lab)
    if learner is not None:
        query = query.where(Learner.name == learner)
    with book.reading() as session:
        return [MoreTime(*row) for row in session.execute(query)]


@dataclass(frozen=True)
class Adjusted:
    id: int
    learner: str
    lab: str
    points: float
    replaces: bool
    reason: str
    by: str
    at: datetime
    withdrawn_at: datetime | None


def adjustments(book: Gradebook, *, learner: str, lab: str | None = None) -> list[Adjusted]:
    """The changes of a learner's marks by hand, oldest first; also those that were withdrawn."""
    query = select(Adjustment).join(Learner, Learner.id == Adjustment.learner_id).where(Learner.name == learner)
    if lab is not None:
        query = query.where(Adjustment.lab == lab)
    with book.reading() as session:
        return [
            Adjusted(row.id, learner, row.lab, row.points, row.replaces, row.reason, row.by, row.at, row.withdrawn_at)
            for row in session.scalars(query.order_by(Adjustment.id))
        ]


@dataclass(frozen=True)
class HandScored:
    task: str
    points: float
    comment: str
    by: str
    at: datetime


def scored_by_hand(book: Gradebook, submission_id: int) -> dict[str, HandScored]:
    """The points that people gave tasks of a submission, by task."""
    query = select(HandScore).where(HandScore.submission_id == submission_id).order_by(HandScore.task)
    with book.reading() as session:
        return {
            row.task: HandScored(row.task, row.points, row.comment, row.by, row.at) for row in session.scalars(query)
        }
