"""Who is in the class, as forms decide it: add one or many, change roles, take out, give a new password."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autograder.gradebook import Gradebook, roster
from autograder.gradebook.roster import ROLES, Person
from autograder.web.forms import Form, FormError

MOST_ROWS = 200
"""People in one list; each needs a password, which takes half a second to hash."""
LONGEST_LIST = 64_000
"""Characters of a list."""
FORMS = ("enrol", "enrol_many", "change", "leave", "password")
"""What the forms ask for; each is a method of `Desk`."""
HEADINGS = {"name", "login", "login name", "user", "username"}


class Passwords(Protocol):
    """Log-in by passwords, where this server's people have such."""

    def names(self) -> Collection[str]:
        """Who has one."""

    def fault(self, name: str) -> str:
        """Why nobody can log in by that name; "" where one can."""

    def make(self, names: Sequence[str]) -> Mapping[str, str]:
        """A new password for each; what they had is no longer theirs."""

    def remove(self, name: str) -> bool:
        """Take a person's password away."""


@dataclass(frozen=True)
class Told:
    """What a form did, and passwords that are shown this once."""

    said: str
    passwords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Row:
    """One person of a list."""

    name: str
    shown_as: str
    roles: frozenset[str]


def rows(text: str) -> list[Row]:
    """The people of a list: a line each, with a login name, what they are called, and their roles.

    The parts stand between commas, semicolons or tabs; roles between spaces. A line of headings is passed over.

    Raises
    ------
    FormError
        Says which line cannot be meant, and why.
    """
    text = text.removeprefix("\ufeff").strip()
    first = text.split("\n")[0]
    between = max(",;\t", key=first.count)
    found: list[Row] = []
    reader = csv.reader(io.StringIO(text), delimiter=between, skipinitialspace=True)
    try:
        for cells in reader:
            parts = [cell.strip() for cell in cells]
            heading = reader.line_num == 1 and parts and parts[0].casefold() in HEADINGS
            if heading or not any(parts):
                continue
            where = f"Line {reader.line_num}"
            name, shown_as, said, *more = [*parts, "", ""][: max(3, len(parts))]
            if any(more):
                raise FormError(f"{where} has {len(parts)} parts; give a name, what they are called, and their roles.")
            if any(one.name == name for one in found):
                raise FormError(f"{where}: {name[:60]!r} stands in an earlier line, too.")
            found.append(Row(name, shown_as, roles_in(said.replace("/", " ").split(), where)))
    except csv.Error as error:
        raise FormError(f"Line {reader.line_num} can't be read: {error}.") from None
    if not found:
        raise FormError("The list has nobody in it; give a line for each person: name, what they are called, roles.")
    if len(found) > MOST_ROWS:
        raise FormError(f"The list has {len(found)} people; give at most {MOST_ROWS} at a time.")
    return found


def roles_in(words: Sequence[str], where: str = "") -> frozenset[str]:
    """The roles that are named, beside that of a learner, which everybody has who has no other."""
    before = f"{where}: " if where else ""
    for word in words:
        if word.casefold() not in ROLES:
            raise FormError(f"{before}There is no role {word[:40]!r}; there are {', '.join(ROLES)}.")
    return frozenset(word.casefold() for word in words) - {"learner"}


class Desk:
    """The forms about people.

    Parameters
    ----------
    passwords : Passwords, optional
        Where people log in by passwords that this server makes.
    """

    def __init__(self, passwords: Passwords | None = None) -> None:
        self.passwords = passwords

    def enrol(self, book: Gradebook, form: Form, by: str) -> Told:
        """Add a person, or have one back who left."""
        role = form.text("role") or "learner"
        name = form.needed("name", "The login name")
        return self._enrol(book, [Row(name, form.text("shown_as"), roles_in([role]))], by, form.text("why"))

    def enrol_many(self, book: Gradebook, form: Form, by: str) -> Told:
        """Add everybody of a list. Nobody is taken out; who is there gets what the list says."""
        return self._enrol(book, rows(form.needed("rows", "The list")), by, form.text("why"))

    def change(self, book: Gradebook, form: Form, by: str) -> Told:
        """Give a person other roles, or another name to be shown."""
        one = self._there(book, form)
        roles = roles_in([form.needed("role", "The role")])
        if one.name == by and "instructor" not in roles:
            raise FormError("You cannot take your own role; ask another instructor.")
        shown_as = form.text("shown_as") or None
        roster.enrol(book, one.name, by=by, roles=roles, shown_as=shown_as, why=form.text("why"))
        return Told("changed")

    def leave(self, book: Gradebook, form: Form, by: str) -> Told:
        """Take a person out of the class; what they handed in stays."""
        one = self._there(book, form)
        if one.name == by:
            raise FormError("You cannot take yourself out of the class; ask another instructor.")
        roster.leave(book, one.name, by=by, why=form.needed("why", "A reason"))
        if self.passwords is not None:
            self.passwords.remove(one.name)
        return Told("left")

    def password(self, book: Gradebook, form: Form, by: str) -> Told:
        """Give a person a new password in place of the old one."""
        if self.passwords is None:
            raise FormError("People do not log in here by passwords that this server makes.")
        one = self._there(book, form)
        if one.left_at is not None:
            raise FormError(f"{one.name[:60]!r} has left the class; add them again first.")
        roster.new_password(book, one.name, by=by, why=form.text("why"))
        return Told("password", tuple(self.passwords.make([one.name]).items()))

    def _there(self, book: Gradebook, form: Form) -> Person:
        name = form.needed("name", "The login name")
        found = roster.person(book, name)
        if found is None:
            raise FormError(f"Nobody is called {name[:60]!r}.")
        return found

    def _enrol(self, book: Gradebook, given: Sequence[Row], by: str, why: str) -> Told:
        for row in given:
            # All are looked at before the first is added: a list is taken whole, or not at all.
            if fault := self.passwords.fault(row.name) if self.passwords else roster.name_fault(row.name):
                raise FormError(fault)
            if row.name == by and "instructor" not in row.roles:
                raise FormError("You cannot take your own role; ask another instructor.")
        for row in given:
            roster.enrol(book, row.name, by=by, roles=row.roles, shown_as=row.shown_as or None, why=why)
        if self.passwords is None:
            return Told("enrolled")
        having = set(self.passwords.names())
        lacking = [row.name for row in given if row.name not in having]
        return Told("enrolled", tuple(self.passwords.make(lacking).items()) if lacking else ())


def listed(book: Gradebook, wanted: str, passwords: Passwords | None) -> dict[str, Any]:
    """Everybody whose name has `wanted` in it, who left last; and who has no password, where people have such."""
    part = wanted.casefold()
    found = [
        one for one in roster.people(book, left=True) if part in one.name.casefold() or part in one.shown_as.casefold()
    ]
    return {
        "people": sorted(found, key=lambda one: (one.left_at is not None, one.name)),
        "having": None if passwords is None else frozenset(passwords.names()),
        "wanted": wanted,
    }
