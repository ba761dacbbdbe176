"""The commands for a hub's class: ``autograder class add | remove | password | list | create-demo``.

Nothing of the database is imported before a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from autograder.gradebook.commands import opened, who
from autograder.output import Refusal, printable, say

State = Annotated[
    Path | None, typer.Option("--state", metavar="FOLDER", help="The hub's folder; .run/hub, if not given.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The login name.")]

DEMO = (("teacher", "Ms Teacher", "instructor"), ("ada", "Ada", "learner"), ("alan", "Alan", "learner"),
        ("grace", "Grace", "learner"))  # fmt: skip


def place_of(state: Path | None) -> Any:
    from classroom.places import Place

    place = Place(state.absolute()) if state else Place.current()
    try:
        place.make()
    except PermissionError as error:
        raise Refusal(str(error)) from None
    return place


def set_password(place: Any, name: str, password: str = "") -> str:
    from classroom.accounts import AccountError, Accounts, new_password

    password = password or new_password()
    try:
        Accounts(place.accounts).set(name, password)
    except AccountError as error:
        raise Refusal(str(error)) from None
    return password


def read_password() -> str:
    """From the terminal, twice, or one line of a pipe; never from the command line, which others can read."""
    import getpass
    import sys

    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Once more: ") != first:
        raise Refusal("the two passwords differ; nothing was changed.")
    return first


def add(
    name: Name,
    role: Annotated[list[str] | None, typer.Option("--role", help="learner, grader or instructor.")] = None,
    shown_as: Annotated[str, typer.Option("--shown-as", metavar="NAME", help="What people call them.")] = "",
    ask: Annotated[bool, typer.Option("--ask", help="Read the password; made and printed, if not given.")] = False,
    state: State = None,
) -> None:
    """Add a person to the class, or have one back who left; prints their password."""
    from autograder.gradebook import roster
    from classroom.places import NAME

    if not NAME.fullmatch(name):
        raise Refusal(
            f"{printable(name)[:60]!r} cannot be a login name; give lower-case letters, digits and . _ @ + -, "
            "of which the first is a letter or digit."
        )
    place = place_of(state)
    password = read_password() if ask else ""
    with opened(place.gradebook) as book:
        roles = None if role is None else [one for one in role if one != "learner"]
        person = roster.enrol(book, name, by=who(""), roles=roles, shown_as=shown_as or None, why="added to the class")
    made = set_password(place, name, password)
    say(f"{name} ({', '.join(person.roles)})" + ("" if ask else f"  password: {made}"))


def remove(name: Name, state: State = None) -> None:
    """Take a person out of the class. What they handed in stays; their password does not."""
    from autograder.gradebook import roster
    from classroom.accounts import Accounts

    place = place_of(state)
    with opened(place.gradebook) as book:
        roster.leave(book, name, by=who(""), why="removed from the class")
    Accounts(place.accounts).remove(name)
    say(f"{printable(name)} has left; what they handed in is kept.")


def password(
    name: Name,
    ask: Annotated[bool, typer.Option("--ask", help="Read the password; made and printed, if not given.")] = False,
    state: State = None,
) -> None:
    """Give a person a new password."""
    from autograder.gradebook import roster

    place = place_of(state)
    with opened(place.gradebook) as book:
        if roster.person(book, name) is None:
            raise Refusal(f"nobody is called {printable(name)[:60]!r}; see `autograder class list`.")
        given = read_password() if ask else ""
        roster.new_password(book, name, by=who(""), why="a new password")
    made = set_password(place, name, given)
    say(f"{name}: the password is changed." if ask else f"{name}  password: {made}")


def people(state: State = None) -> None:
    """Show who is in the class."""
    from autograder.gradebook import roster
    from classroom.accounts import Accounts

    place = place_of(state)
    having = set(Accounts(place.accounts).names())
    with opened(place.gradebook) as book:
        for person in roster.people(book):
            no = "" if person.name in having else "  (no password)"
            say(f"{printable(person.name)}  {printable(person.shown_as)}  {', '.join(person.roles)}{no}")


def create_demo(state: State = None) -> None:
    """Make a class to try: an instructor and three learners, with printed passwords.

    Labs about which nothing was decided yet are released; what an instructor has decided stands.
    """
    from autograder.gradebook import decisions, roster
    from autograder.gradebook.models import now
    from autograder.spec import lab_names

    place = place_of(state)
    with opened(place.gradebook) as book:
        for name, shown_as, role in DEMO:
            roles = [role] if role != "learner" else []
            roster.enrol(book, name, by=who(""), roles=roles, shown_as=shown_as, why="a class to try")
        decided = decisions.assignments(book)
        for lab in lab_names():
            if lab not in decided:  # what an instructor has decided since stands
                decisions.assign(book, lab, by=who(""), released=now(), why="a class to try")
    for name, _, role in DEMO:
        say(f"{name:<10}{role:<12}password: {set_password(place, name)}")
    say("New passwords each time this is run. Start the hub with: make hub")


def add_to(app: typer.Typer) -> None:
    """Make these commands of ``autograder class``."""
    for name, command in (
        ("add", add), ("remove", remove), ("password", password), ("list", people), ("create-demo", create_demo)
    ):  # fmt: skip
        app.command(name)(command)
