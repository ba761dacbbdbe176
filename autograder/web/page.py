"""What every page has in common: who asks, whether they may, in which language, and that a form is one of ours.

A page is a mixin that goes before a base which brings the log-in: Jupyter's handler here, a hub service's there.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tornado import web
from tornado.httputil import url_concat

from autograder.feedback import catalogue
from autograder.feedback.catalogue import say
from autograder.gradebook import Gradebook, GradebookError, open_gradebook, place, roster
from autograder.web import views
from autograder.web.comparing import Comparisons
from autograder.web.people import Passwords

if TYPE_CHECKING:
    Base = web.RequestHandler
else:
    Base = object

Result = TypeVar("Result")
Teachers = Literal["nobody", "owner", "roster"]

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LANGUAGE_COOKIE = "autograder-language"
MOST_FORM = 256 * 1024
"""Bytes of a form; notebooks come another way."""
STAFF = frozenset({"grader", "instructor"})


@dataclass
class Rooms:
    """Where this server finds things; kept in the application's settings as ``autograder``.

    Attributes
    ----------
    teachers : str
        Who may open the pages of the class: ``"nobody"``; ``"owner"``, whoever runs this server; ``"roster"``, those
        whom the gradebook has as instructors and graders.
    passwords : Passwords, optional
        By which people log in, where this server makes them.
    """

    gradebook: str | None = None
    notebooks: Path = Path()
    book: Path = Path()
    teachers: Teachers = "nobody"
    passwords: Passwords | None = None
    comparisons: Comparisons = field(init=False)

    def __post_init__(self) -> None:
        self.comparisons = Comparisons(self.gradebook)

    def open(self) -> Gradebook:
        return open_gradebook(self.gradebook)

    @property
    def open_by_default(self) -> bool:
        """Whether a lab that nobody has released is there for learners: on their own machine it is."""
        return self.teachers != "roster"


class Refusal(web.HTTPError):
    """A 4xx or 5xx with a reason in words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(status, words.replace("%", "%%"))
        self.words = words


class NotLoggedIn(Refusal):
    """Nobody has logged in; a person is told otherwise than a program."""

    def __init__(self, as_json: bool) -> None:
        super().__init__(403, say("refusal.log_in" if as_json else "refusal.log_in_first"))


def address(sent: str) -> urllib.parse.SplitResult:
    """The parts of an address that a browser sent; of what is none, nothing."""
    try:
        return urllib.parse.urlsplit(sent)
    except ValueError:
        return urllib.parse.urlsplit("")


def attachment(name: str) -> str:
    """The ``Content-Disposition`` of a download of that name, whatever is in the name (RFC 6266)."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "download"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{urllib.parse.quote(name, safe='', errors='replace')}"


def language_of(handler: web.RequestHandler) -> str:
    """What the person chose, else what the browser prefers, else what this machine speaks."""
    chosen = catalogue.known(handler.get_cookie(LANGUAGE_COOKIE, "") or "")
    return chosen or catalogue.wanted(handler.request.headers.get("Accept-Language", "")) or catalogue.language()


class LearnerPage(Base):
    """A page, or data, that belongs to the learner who asks."""

    as_json = False
    alone = False
    """Answers a browser only where it is the page itself: not in a frame, nor for another page's script."""

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

    @property
    def language(self) -> str:
        return language_of(self)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        for name, value in HEADERS.items():
            self.set_header(name, value)

    @property
    def content_security_policy(self) -> str:
        return views.policy()

    async def prepare(self) -> None:
        """Let nobody past who has not logged in. Here, so that no handler can forget it."""
        catalogue.speak(self.language)
        if self.request.method not in ("GET", "HEAD"):
            self._refuse_strangers()
        before = super().prepare()
        if before is not None:  # Jupyter finds out who asks while it prepares
            await before
        if self._finished:
            return
        if not self.current_user:
            if self.as_json or self.request.method not in ("GET", "HEAD"):
                raise NotLoggedIn(self.as_json)
            self.redirect(url_concat(self.get_login_url(), {"next": self.request.uri or "/"}))
            return
        if self.request.method not in ("GET", "HEAD"):
            self._check_form()
        elif self.alone and self.request.headers.get("Sec-Fetch-Dest", "document") != "document":
            raise Refusal(403, say("refusal.other_site"))

    def _refuse_strangers(self) -> None:
        """Refuse what a browser says comes from another site, before anything else looks at it."""
        origin = self.request.headers.get("Origin")
        other = origin is not None and address(origin).netloc != self.request.host
        if other or self.request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise Refusal(403, say("refusal.other_site"))

    def _check_form(self) -> None:
        if not self.as_json and len(self.request.body or b"") > MOST_FORM:
            raise Refusal(413, say("refusal.too_long"))
        # Whatever the application's settings say: none of these forms goes without its token.
        try:
            self.check_xsrf_cookie()
        except web.HTTPError as error:
            raise Refusal(403, say("refusal.stale_form")) from error

    def has_logged_in(self) -> bool:
        """Whether somebody is known here, be it that what they sent is not taken."""
        return bool(self.current_user)

    def _came_from(self) -> str:
        """The page of ours with the form that was sent, which asks to log in where that is needed."""
        page = address(self.request.headers.get("Referer", ""))
        ours = page.netloc == self.request.host and page.path.startswith(self.links.grades)
        return page._replace(scheme="", netloc="").geturl() if ours else self.links.grades

    @property
    def form_token(self) -> str:
        """What a form of ours carries in its field ``_xsrf``."""
        token = self.xsrf_token
        return token.decode() if isinstance(token, bytes) else str(token)

    def field(self, name: str, most: int = 4000) -> str:
        """What stands in a field of the form that was sent; "" where there is none."""
        text = self.get_body_argument(name, "")
        if len(text) > most:
            raise Refusal(413, say("refusal.too_long"))
        return text

    async def reading(self, read: Callable[[Gradebook], Result]) -> Result:
        """Ask the gradebook, or change it, away from the server's loop."""

        def ask() -> Result:
            with self.rooms.open() as book:
                return read(book)

        try:
            return await asyncio.to_thread(ask)
        except GradebookError as error:
            raise Refusal(503, str(error)) from error

    async def roles(self) -> frozenset[str]:
        """What who asks may do in the class, besides learning."""
        if self.rooms.teachers == "owner":
            return STAFF
        if self.rooms.teachers == "nobody":
            return frozenset()
        who = self.learner
        found = await self.reading(lambda book: roster.person(book, who))
        return frozenset() if found is None or found.left_at else STAFF & set(found.roles)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        fault = kwargs.get("exc_info", (None, None, None))[1]
        phrase = http.client.responses.get(status_code, "Error")
        if status_code == 403 and isinstance(fault, web.HTTPError) and "xsrf" in (fault.log_message or "").lower():
            # The base looked at the form before we did, and before anybody had asked who it is.
            catalogue.speak(self.language)
            fault = Refusal(403, say("refusal.stale_form")) if self.has_logged_in() else NotLoggedIn(self.as_json)
        words = fault.words if isinstance(fault, Refusal) else f"{phrase}."
        self.set_header("Content-Security-Policy", views.policy())
        if self.as_json:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps({"status": status_code, "reason": words}))
        else:
            self.set_header("Content-Type", "text/html; charset=UTF-8")
            way = self._came_from() if isinstance(fault, NotLoggedIn) else ""
            self.finish(views.message(self.links, f"{status_code}: {phrase}", words, log_in=way))


class LearnerData(LearnerPage):
    """As a page, but a program asks: no redirect to a log-in page, reasons as JSON."""

    as_json = True
