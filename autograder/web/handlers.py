"""What answers under ``/autograder/``, as mixins: this server and a hub's service put them before a base of their own.

A base brings `get_current_user` and says who the learner is; everything that follows from that is here.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tornado import web
from tornado.httputil import url_concat

from autograder.feedback import html
from autograder.gradebook import Gradebook, GradebookError, open_gradebook, place, queries
from autograder.gradebook.queries import Graded
from autograder.web import views

if TYPE_CHECKING:
    Base = web.RequestHandler
else:
    Base = object

Result = TypeVar("Result")

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass
class Rooms:
    """Where this server finds things; kept in the application's settings as ``autograder``."""

    gradebook: str | None = None
    notebooks: Path = Path()
    book: Path = Path()

    def open(self) -> Gradebook:
        return open_gradebook(self.gradebook)


class Refusal(web.HTTPError):
    """A 4xx or 5xx with a reason in words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(status, words.replace("%", "%%"))
        self.words = words


class LearnerPage(Base):
    """A page, or data, that belongs to the learner who asks."""

    as_json = False

    @property
    def rooms(self) -> Rooms:
        return self.settings["autograder"]

    @property
    def learner(self) -> str:
        """Who asks. On a learner's own server: whose machine it is."""
        return place.learner_name()

    @property
    def links(self) -> views.Links:
        base = self.settings.get("base_url", "/")
        return views.Links(grades=f"{base}autograder/", lab=f"{base}lab", book=f"{base}book/")

    def set_default_headers(self) -> None:
        super().set_default_headers()
        for name, value in HEADERS.items():
            self.set_header(name, value)

    @property
    def content_security_policy(self) -> str:
        return views.policy()

    async def prepare(self) -> None:
        """Let nobody past who has not logged in. Here, so that no handler can forget it."""
        before = super().prepare()
        if before is not None:  # Jupyter finds out who asks while it prepares
            await before
        if self.current_user:
            return
        if self.as_json:
            raise Refusal(403, "Log in first: add ?token=... or an Authorization header.")
        self.redirect(url_concat(self.get_login_url(), {"next": self.request.uri or "/"}))

    async def reading(self, read: Callable[[Gradebook], Result]) -> Result:
        """Ask the gradebook away from the server's loop."""

        def ask() -> Result:
            with self.rooms.open() as book:
                return read(book)

        try:
            return await asyncio.to_thread(ask)
        except GradebookError as error:
            raise Refusal(503, str(error)) from error

    async def own(self, number: str) -> Graded:
        """The learner's own submission of that number. Another's does not exist, as far as this page tells."""
        one = await self.reading(lambda book: queries.submission(book, int(number)))
        if one is None or one.learner != self.learner:
            raise Refusal(404, f"You have no submission {number}.")
        return one

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        fault = kwargs.get("exc_info", (None, None, None))[1]
        phrase = http.client.responses.get(status_code, "Error")
        words = fault.words if isinstance(fault, Refusal) else f"{phrase}."
        self.set_header("Content-Security-Policy", views.policy())
        if self.as_json:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps({"status": status_code, "reason": words}))
        else:
            self.set_header("Content-Type", "text/html; charset=UTF-8")
            self.finish(views.message(self.links, f"{status_code}: {phrase}", words))


class Overview(LearnerPage):
    async def get(self) -> None:
        who, links, notebooks = self.learner, self.links, self.rooms.notebooks
        self.finish(await self.reading(lambda book: views.overview(book, who, links, notebooks)))


class SubmissionPage(LearnerPage):
    async def get(self, number: str) -> None:
        one = await self.own(number)
        links = self.links
        page = await self.reading(lambda book: views.feedback(book, one, links))
        # The feedback page brings one script, named by its hash.
        self.set_header("Content-Security-Policy", html.policy() + "; frame-ancestors 'self'")
        self.finish(page)


class LearnerData(LearnerPage):
    """As a page, but a program asks: no redirect to a log-in page, reasons as JSON."""

    as_json = True


class SubmissionReport(LearnerData):
    async def get(self, number: str) -> None:
        one = await self.own(number)
        report = await self.reading(lambda book: queries.report(book, one.id))
        if report is None:
            raise Refusal(404, f"Submission {number} is stored, but not graded yet.")
        self.set_header("Content-Type", "application/json")
        self.finish(report.to_json())


class SubmissionNotebook(LearnerData):
    async def get(self, number: str) -> None:
        one = await self.own(number)
        data = await self.reading(lambda book: queries.notebook(book, one.id))
        # A download, never a page: what a learner wrote must not run on this origin.
        self.set_header("Content-Type", "application/x-ipynb+json")
        self.set_header("Content-Disposition", f'attachment; filename="{one.lab}-submission-{one.id}.ipynb"')
        self.finish(data or b"")


class AddSlash(LearnerPage):
    async def get(self, path: str) -> None:
        self.redirect(f"{self.settings.get('base_url', '/')}{path}/")


class NoSuchPage(LearnerPage):
    async def get(self, path: str) -> None:
        raise Refusal(404, "There is no such page here.")


class NoSuchData(LearnerData):
    async def get(self, path: str) -> None:
        raise Refusal(404, "There is no such data here.")


RULES: list[tuple[str, type[LearnerPage]]] = [
    (r"autograder/", Overview),
    (r"autograder/submission/([0-9]{1,15})", SubmissionPage),
    (r"autograder/submission/([0-9]{1,15})\.json", SubmissionReport),
    (r"autograder/submission/([0-9]{1,15})\.ipynb", SubmissionNotebook),
    (r"autograder/(.*\.(?:json|ipynb))", NoSuchData),
    (r"autograder/(.+)", NoSuchPage),
]
"""Patterns below the server's base address."""
