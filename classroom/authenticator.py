"""Who may enter the hub: the people of the gradebook, and how they prove who they are."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyterhub.auth import Authenticator
from tornado import web

from autograder.gradebook import GradebookError, open_gradebook, roster
from classroom.accounts import AccountError, Accounts
from classroom.places import NAME, Place

INSTRUCTORS, GRADERS = "instructors", "graders"
FREE_TRIES = 5
LONGEST_PAUSE = 300.0


def standing(name: str) -> roster.Person | None:
    """What the gradebook knows of a person."""
    with open_gradebook(Place.current().gradebook) as book:
        return roster.person(book, name)


def groups_of(person: roster.Person | None) -> list[str]:
    """The hub's groups that the person's roles put them into."""
    names = {"instructor": INSTRUCTORS, "grader": GRADERS}
    return sorted(names[role] for role in person.roles if role in names) if person else []


async def admit(authenticator: Authenticator, handler: Any, model: dict[str, Any] | None) -> dict[str, Any] | None:
    """The hub's ``post_auth_hook`` with any authenticator: refuse who has left, and set the groups by the roles.

    An identity provider says who somebody is; whether they are in the class, and as what, the gradebook says.
    """
    if model is None or not NAME.fullmatch(model["name"]):
        return None
    person = await _standing(model["name"])
    if person is not None and person.left_at is not None:
        return None
    return model | {"groups": groups_of(person), "admin": False}


async def _standing(name: str) -> roster.Person | None:
    try:
        return await asyncio.to_thread(standing, name)
    except GradebookError as error:
        raise web.HTTPError(503, str(error).replace("%", "%%")) from error


class Pauses:
    """Makes whoever guesses passwords wait longer and longer; one name at a time, whoever asks for it.

    Parameters
    ----------
    clock : callable
        Seconds that never go back.
    """

    def __init__(self, clock: Any = time.monotonic) -> None:
        self.clock = clock
        self._wrong: dict[str, tuple[int, float]] = {}

    def left(self, name: str) -> float:
        """Seconds until the name may be tried again."""
        return max(0.0, self._wrong.get(name, (0, 0.0))[1] - self.clock())

    def wrong(self, name: str) -> None:
        count = self._wrong.get(name, (0, 0.0))[0] + 1
        pause = min(LONGEST_PAUSE, 2.0 ** (count - FREE_TRIES)) if count >= FREE_TRIES else 0.0
        if len(self._wrong) > 10_000:  # names that nobody has cost memory too
            self._wrong = {known: value for known, value in self._wrong.items() if value[1] > self.clock()}
        self._wrong[name] = (count, self.clock() + pause)

    def right(self, name: str) -> None:
        self._wrong.pop(name, None)


class ClassAuthenticator(Authenticator):
    """Names and passwords of this hub's own: see `accounts`, and ``autograder class``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.pauses = Pauses()
        self._one_at_a_time = asyncio.Lock()  # each try takes 128 MB

    async def authenticate(self, handler: Any, data: dict[str, str]) -> dict[str, Any] | None:
        name, password = data.get("username", ""), data.get("password", "")
        if wait := self.pauses.left(name):
            raise web.HTTPError(429, f"Too many wrong passwords. Try again in {wait:.0f} seconds.")
        try:
            async with self._one_at_a_time:
                right = await asyncio.to_thread(Accounts(Place.current().accounts).verify, name, password)
        except AccountError as error:
            raise web.HTTPError(503, str(error).replace("%", "%%")) from error
        if not right or await _standing(name) is None:
            self.pauses.wrong(name)
            return None
        self.pauses.right(name)
        return {"name": name}

    async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> bool | dict[str, Any]:
        """Asked while people are logged in: a person who has left is logged out."""
        return await still_in(user.name)


async def still_in(name: str) -> bool | dict[str, Any]:
    """What `refresh_user` answers for a person: False once they have left."""
    person = await _standing(name)
    if person is not None and person.left_at is not None:
        return False
    return {"name": name, "groups": groups_of(person)}


async def known_or_new(
    name: str, *, enrol: bool, shown_as: str = "", lti_id: str | None = None, roles: list[str] | None = None
) -> dict[str, Any] | None:
    """The person that an identity provider has told of: None where they may not come in.

    Parameters
    ----------
    enrol : bool
        Add to the class who is not in it yet. Who has left stays out.
    lti_id : str, optional
        Their ``sub`` on a learning platform; whoever has it in the gradebook is that person, under the name there.
    roles : list of str, optional
        For a person who is new.
    """

    def find() -> str | None:
        with open_gradebook(Place.current().gradebook) as book:
            if lti_id:
                same = [one for one in roster.people(book, left=True) if one.lti_id == lti_id]
                if same:
                    return None if same[0].left_at is not None else same[0].name
            person = roster.person(book, name)
            if person is not None and (person.left_at is not None or (lti_id and person.lti_id)):
                return None  # who has left; or another person of the platform has this name
            if person is None and not (enrol and NAME.fullmatch(name)):
                return None
            if person is None or lti_id:
                new = None if person is not None else roles
                roster.enrol(book, name, by="log-in", roles=new, shown_as=shown_as or None, lti_id=lti_id)
            return name

    try:
        found = await asyncio.to_thread(find)
    except GradebookError as error:
        raise web.HTTPError(503, str(error).replace("%", "%%")) from error
    return None if found is None else {"name": found}
