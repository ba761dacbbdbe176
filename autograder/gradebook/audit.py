"""The record of who changed what, and why: written in the transaction of the change, and never changed itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from autograder.gradebook.faults import GradebookError
from autograder.gradebook.models import Audit, Learner
from autograder.gradebook.store import Gradebook


@dataclass(frozen=True)
class Change:
    """One entry."""

    id: int
    at: datetime
    who: str
    what: str
    """``person``, ``password``, ``assignment``, ``extension``, ``adjustment`` or ``hand score``."""
    lab: str
    learner: str
    """As they are called now."""
    old: Any
    new: Any
    why: str


def note(
    session: Session, *, who: str, what: str, old: Any, new: Any, why: str, lab: str = "", learner_id: int | None = None
) -> None:
    """Add an entry to the transaction of `session`; nothing, where nothing changed."""
    if not who.strip():
        raise GradebookError(f"gradebook: a change of {what} needs to say who makes it.")
    before, after = (json.dumps(value, ensure_ascii=False, sort_keys=True, default=str) for value in (old, new))
    if before != after:
        session.add(Audit(who=who, what=what, lab=lab, learner_id=learner_id, old=before, new=after, why=why.strip()))


def trail(
    book: Gradebook, *, lab: str | None = None, learner: str | None = None, what: str | None = None, limit: int = 0
) -> list[Change]:
    """The changes, newest first; all of them where `limit` is 0."""
    query = select(Audit, Learner.name).outerjoin(Learner, Audit.learner_id == Learner.id).order_by(Audit.id.desc())
    if lab is not None:
        query = query.where(Audit.lab == lab)
    if learner is not None:
        query = query.where(Learner.name == learner)
    if what is not None:
        query = query.where(Audit.what == what)
    if limit:
        query = query.limit(limit)
    with book.reading() as session:
        return [
            Change(
                row.id,
                row.at,
                row.who,
                row.what,
                row.lab,
                name or "",
                json.loads(row.old),
                json.loads(row.new),
                row.why,
            )
            for row, name in session.execute(query)
        ]
