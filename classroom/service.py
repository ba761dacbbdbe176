"""The grading service of a hub: the autograder's pages, and what notebooks ask it for, behind the hub's log-in.

``python -m classroom.service``; the hub starts it with its own token and keeps it running.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from tornado import httpserver, web

from autograder.gradebook import GradebookError
from autograder.warm import WarmError
from autograder.web import handlers, views
from autograder.web.handlers import LearnerData, Refusal
from classroom import desk
from classroom.accounts import AccountError, Accounts
from classroom.places import ROOT, Place

CATCH_UP_SECONDS = 60.0
POLL_SECONDS = 0.1
LONGEST_WAIT = 25.0
LONGEST_TRUST = 30
"""Seconds for which the hub's word on a token is kept; so long may one that was taken back still be used."""
log = logging.getLogger("classroom.service")


class OnHub:
    """Who asks, as the hub says."""

    current_user: Any
    settings: dict[str, Any]
    request: Any
    hub_auth: Any

    @property
    def learner(self) -> str:
        return self.current_user["name"]

    def check_xsrf_cookie(self) -> None:
        """Asked before anybody knows who it is: a token in a header is no cookie, and needs no form's token."""
        if self.request.headers.get("Authorization"):
            _ = self.current_user
        super().check_xsrf_cookie()  # type: ignore[misc]

    def has_logged_in(self) -> bool:
        """The hub does not say who sent a form whose token is wrong; the cookie of a log-in is there all the same."""
        if self.hub_auth.get_token(self, in_cookie=False):
            return bool(self.current_user)
        return bool(self.hub_auth.get_token(self))

    @property
    def links(self) -> views.Links:
        base = self.settings["base_url"]
        return views.Links(grades=f"{base}autograder/", lab="/hub/user-redirect/lab", book="/hub/user-redirect/book/")


class Data(LearnerData):
    """What a program asks for: people only, JSON both ways."""

    @property
    def desk(self) -> desk.Desk:
        return self.settings["desk"]

    async def prepare(self) -> None:
        await super().prepare()
        if self.current_user.get("kind") != "user":  # another service's token is nobody's work
            raise Refusal(403, "Only people hand in, with their own token.")

    def body(self, most: int) -> dict[str, Any]:
        if len(self.request.body) > most:
            raise Refusal(413, f"{len(self.request.body) >> 20} MB; at most {most >> 20} MB are read.")
        try:
            found = json.loads(self.request.body)
        except (ValueError, RecursionError):
            raise Refusal(400, "The request is no JSON.") from None
        if not isinstance(found, dict):
            raise Refusal(400, "The request is no JSON object.")
        return found

    async def work(self, act: Callable[..., Any], *given: Any) -> Any:
        """Do it away from the server's loop; what is refused is a status and words."""
        try:
            return await asyncio.to_thread(act, *given)
        except desk.Refused as error:
            raise Refusal(error.status, error.words) from None
        except (GradebookError, WarmError) as error:
            raise Refusal(503, str(error)) from error

    def page(self, number: int | None = None) -> str:
        return self.links.grades if number is None else self.links.submission(number)

    def answer(self, value: Any, status: int = 200) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(value))


class Labs(Data):
    async def get(self) -> None:
        self.answer(await self.work(self.desk.list))


class LabNotebook(Data):
    async def get(self, name: str) -> None:
        data = await self.work(self.desk.notebook, name)
        self.set_header("Content-Type", "application/x-ipynb+json")
        self.set_header("Content-Disposition", f'attachment; filename="{name}.ipynb"')
        self.finish(data)


class Submissions(Data):
    async def post(self) -> None:
        request = await asyncio.to_thread(self.body, desk.MAX_BODY)
        taken = await self.work(self.desk.take, self.learner, request)
        self.answer(taken | {"page": self.page(taken["submission"])}, 202)


class SubmissionState(Data):
    async def get(self, number: str) -> None:
        """Where it stands; with ``?wait=SECONDS`` answered when there is a grade, or after so long."""
        try:
            wait = min(LONGEST_WAIT, float(self.get_argument("wait", "0")))
        except ValueError:
            raise Refusal(400, "wait: give a number of seconds.") from None
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        while True:
            state = await self.work(self.desk.state, self.learner, int(number), self.page())
            if state["state"] not in ("waiting", "leased") or not loop.time() < until:
                break
            await asyncio.sleep(POLL_SECONDS)
        self.answer(state | {"page": self.page(int(number))})


class Checks(Data):
    async def post(self) -> None:
        request = await asyncio.to_thread(self.body, desk.MAX_CHECK)
        self.answer(await self.work(self.desk.check, self.learner, request))


class Passwords(Accounts):
    """The passwords of this hub, as the page of people makes them: what fails is told as a fault of the machine."""

    def names(self) -> list[str]:
        with told_as_fault():
            return super().names()

    def make(self, names: Sequence[str]) -> dict[str, str]:
        with told_as_fault():
            return super().make(names)

    def remove(self, name: str) -> bool:
        with told_as_fault():
            return super().remove(name)


@contextlib.contextmanager
def told_as_fault() -> Iterator[None]:
    try:
        yield
    except (AccountError, OSError) as error:
        raise GradebookError(f"The passwords of this hub can't be read or changed: {error}.") from error


class Home(handlers.LearnerPage):
    async def get(self) -> None:
        self.redirect(self.links.grades)


RULES: list[tuple[str, type[handlers.LearnerPage]]] = [
    (r"", Home),
    (r"api/labs", Labs),
    (r"api/labs/([a-z0-9_]{1,100})\.ipynb", LabNotebook),
    (r"api/submissions", Submissions),
    (r"api/submissions/([0-9]{1,15})", SubmissionState),
    (r"api/checks", Checks),
    (r"(api/.*)", handlers.NoSuchData),
]
"""Patterns below the service's own address, beside those of the pages."""


def on_hub(page: type[Any]) -> type[Any]:
    """A page on the hub's log-in."""
    return type(page.__name__, (OnHub, page, HubOAuthenticated, web.RequestHandler), {})


def make_app(prefix: str, place: Place, at_the_desk: desk.Desk, secret: bytes) -> web.Application:
    """The service below `prefix`, which ends in a slash."""
    rules: list[Any] = [(f"{prefix}oauth_callback", HubOAuthCallbackHandler)]
    rules += [(prefix + rule, on_hub(page)) for rule, page in [*RULES, *handlers.RULES]]
    # Set by the hub's configuration, unless another way to log in is configured.
    passwords = Passwords(place.accounts) if os.environ.get("CLASSROOM_PASSWORDS") == "1" else None
    rooms = handlers.Rooms(place.gradebook, ROOT / "labs", Path(), teachers="roster", passwords=passwords)
    return web.Application(
        rules,
        base_url=prefix,
        autograder=rooms,
        desk=at_the_desk,
        cookie_secret=secret,
        xsrf_cookies=True,
        default_handler_class=on_hub(handlers.NoSuchPage),
        default_handler_args={},
    )


def kept_secret(file: Path) -> bytes:
    """The key of the service's cookies: the same after a restart, so that nobody has to log in again."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        secret = secrets.token_bytes(32)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(secret)
        return secret


async def keep_up(at_the_desk: desk.Desk) -> None:
    """Now, and from time to time, queue what was stored and not queued."""
    while True:
        try:
            if count := await asyncio.to_thread(at_the_desk.catch_up):
                log.warning("%d submissions were stored but not in the queue; now they are", count)
        except GradebookError as error:
            log.warning("%s", error)
        await asyncio.sleep(CATCH_UP_SECONDS)


async def serve() -> None:
    place = Place.current()
    place.make()
    HubOAuth.instance(cache_max_age=LONGEST_TRUST)
    url = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    at_the_desk = desk.Desk(place.gradebook, ROOT / "labs")
    secret = kept_secret(place.state / "service_secret")
    app = make_app(os.environ["JUPYTERHUB_SERVICE_PREFIX"], place, at_the_desk, secret)
    server = httpserver.HTTPServer(app, max_body_size=desk.MAX_BODY + (1 << 20), xheaders=True)
    server.listen(url.port or 80, url.hostname or "127.0.0.1")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    keeping_up = asyncio.create_task(keep_up(at_the_desk))
    await asyncio.to_thread(desk.warm.start)
    log.info("The grading service answers at %s%s", url.geturl(), os.environ["JUPYTERHUB_SERVICE_PREFIX"])
    await stopped.wait()
    keeping_up.cancel()
    server.stop()
    # What came in is answered before the process ends.
    await asyncio.wait_for(server.close_all_connections(), 5)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    if "JUPYTERHUB_SERVICE_PREFIX" not in os.environ:
        print("classroom.service: the hub starts this; run make hub.", file=sys.stderr)
        return 2
    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
