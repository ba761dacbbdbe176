"""The people of a class and what they may do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, selectinload

from autograder.cells import printable
from autograder.gradebook.audit import note
from autograder.gradebook.faults import GradebookError
from autograder.gradebook.models import Learner, Role, now
from autograder.gradebook.store import Gradebook

ROLES = ("learner", "grader", "instructor")


@dataclass(frozen=True)
class Person:
    name: str
    """What they log in as; one person each."""
    shown_as: str
    lti_id: str | None
    roles: tuple[str, ...]
    left_at: datetime | None


def _person(row: Learner) -> Person:
    roles = tuple(sorted(role.role for role in row.roles)) or ("learner",)
    return Person(row.name, row.shown_as or row.name, row.lti_id, roles, row.left_at)


def people(book: Gradebook, *, role: str | None = None, left: bool = False) -> list[Person]:
    """Everyone in the class, by name; with `left`, those who left it too."""
    query = select(Learner).options(selectinload(Learner.roles)).order_by(Learner.name)
    with book.reading() as session:
        found = [_person(row) for row in session.scalars(query)]
    return [one for one in found if (role is None or role in one.roles) and (left or one.left_at is None)]


def person(book: Gradebook, name: str) -> Person | None:
    """The person who logs in as `name`, also if they left."""
    with book.reading() as session:
        row = session.scalar(select(Learner).where(Learner.name == name).options(selectinload(Learner.roles)))
        return None if row is None else _person(row)


def may(book: Gradebook, name: str, *roles: str) -> bool:
    """Whether the person has one of the roles, and has not left."""
    found = person(book, name)
    return found is not None and found.left_at is None and any(role in found.roles for role in roles)


def learner_id(session: Session, book: Gradebook, name: str) -> int:
    """The number of the person of that name.

    Raises
    ------
    GradebookError
        There is none.
    """
    found = session.scalar(select(Learner.id).where(Learner.name == name))
    if found is None:
        raise GradebookError(
            f"gradebook {book.where}: nobody is called {name!r}. Check the spelling, or add them first."
        )
    return found


def enrol(
    book: Gradebook,
    name: str,
    *,
    by: str,
    roles: Collection[str] | None = None,
    shown_as: str | None = None,
    lti_id: str | None = None,
    why: str = "",
) -> Person:
    """Add a person, or change what is known of one; what is not given stays. Who had left is back.

    Raises
    ------
    GradebookError
        An empty or unprintable name, an unknown role, or an `lti_id` that is another person's.
    """
    _check_name(book, name)
    if unknown := sorted(set(roles or ()) - set(ROLES)):
        raise GradebookError(f"gradebook {book.where}: there is no role {unknown[0]!r}; there are {', '.join(ROLES)}.")
    with book.deciding("change who is in the class") as session:
        _once_by(session, lti_id, name, book)
        row = session.scalar(select(Learner).where(Learner.name == name).options(selectinload(Learner.roles)))
        old = None if row is None else _facts(_person(row))
        if row is None:
            row = Learner(name=name, shown_as="", roles=[])
            session.add(row)
        if shown_as is not None:
            row.shown_as = printable(shown_as)
        if lti_id is not None:
            row.lti_id = lti_id or None
        row.left_at = None
        session.flush()
        if roles is not None:
            kept = {role.role: role for role in row.roles}
            row.roles = [kept.get(one) or Role(learner_id=row.id, role=one) for one in sorted(set(roles))]
            for gone in set(kept) - set(roles):
                session.delete(kept[gone])
            session.flush()
        after = _person(row)
        note(session, who=by, what="person", old=old, new=_facts(after), why=why, learner_id=row.id)
    return after


def rename(book: Gradebook, name: str, new: str, *, by: str, why: str = "") -> None:
    """Give a person another login name; everything they handed in stays theirs."""
    _check_name(book, new)
    with book.deciding("rename a person") as session:
        row = session.get_one(Learner, learner_id(session, book, name))
        row.name = new
        try:
            session.flush()
        except IntegrityError as error:
            raise GradebookError(
                f"gradebook {book.where}: {name!r} cannot be called {new!r}: somebody else is already."
            ) from error
        note(session, who=by, what="person", old={"name": name}, new={"name": new}, why=why, learner_id=row.id)


def leave(book: Gradebook, name: str, *, by: str, why: str = "") -> None:
    """Take a person out of the class. What they handed in and earned is kept, and is back if they are."""
    with book.deciding("take a person out of the class") as session:
        row = session.get_one(Learner, learner_id(session, book, name))
        if row.left_at is None:
            row.left_at = now()
            new = {"left_at": row.left_at.isoformat()}
            note(session, who=by, what="person", old={"left_at": None}, new=new, why=why, learner_id=row.id)


def _facts(one: Person) -> dict[str, object]:
    left = one.left_at.isoformat() if one.left_at else None
    return {
        "name": one.name,
        "shown_as": one.shown_as,
        "lti_id": one.lti_id,
        "roles": list(one.roles),
        "left_at": left,
    }


def new_password(book: Gradebook, name: str, *, by: str, why: str = "") -> None:
    """Put on record that a person got a new password; the password itself is not in the gradebook."""
    with book.deciding("record a new password") as session:
        number = learner_id(session, book, name)
        note(session, who=by, what="password", old=None, new={"name": name}, why=why, learner_id=number)


def name_fault(name: str) -> str:
    """Why nobody can be called so, in a sentence; "" where one can."""
    if name.strip() and name == name.strip() and name.isprintable() and len(name) <= 255:
        return ""
    return f"{name[:60]!r} cannot be a person's name; give 1 to 255 printable characters with no space around them."


def _check_name(book: Gradebook, name: str) -> None:
    if fault := name_fault(name):
        raise GradebookError(f"gradebook {book.where}: {fault}")


def _once_by(session: Session, lti_id: str | None, name: str, book: Gradebook) -> None:
    other = session.scalar(select(Learner.name).where(Learner.lti_id == lti_id)) if lti_id else None
    if other not in (None, name):
        raise GradebookError(
            f"gradebook {book.where}: the learning platform's id {lti_id!r} is already that of {other!r}."
        )
