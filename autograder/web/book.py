"""The built book, under ``/book/``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado import web

from autograder.feedback.catalogue import say
from autograder.web import views
from autograder.web.page import LearnerPage, Refusal

if TYPE_CHECKING:
    Base = web.StaticFileHandler
else:
    Base = object

HOW_TO_BUILD = "make book"
COMPILES = "/_static/edge/worker.js"
"""The one script of the site that runs WebAssembly: a thread without a page."""


class BookPage(LearnerPage, Base):
    """A file of the site, behind the same log-in. Goes before a base that is a log-in and Tornado's static handler."""

    @property
    def content_security_policy(self) -> str:
        # The site is built by us and brings its own scripts; nothing is fetched from elsewhere. A worker has a policy
        # of its own: this one compiles Python, and Pyodide builds some of its calls from text.
        compiles = " 'unsafe-eval'" if self.request.path.endswith(COMPILES) else ""
        return (
            f"default-src 'self'; script-src 'self' 'unsafe-inline'{compiles}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
            "base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
        )

    def set_extra_headers(self, path: str) -> None:
        # A rebuilt page must show at once; the etag keeps that cheap.
        self.set_header("Cache-Control", "no-cache")

    def compute_etag(self) -> str | None:
        # Jupyter's handlers have none; the static handler's is a hash of the file.
        return web.StaticFileHandler.compute_etag(self)

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        if not is_built(Path(root)):
            raise Refusal(404, say("refusal.no_book"))
        return super().validate_absolute_path(root, absolute_path)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code != 404:
            super().write_error(status_code, **kwargs)
            return
        fault = kwargs.get("exc_info", (None, None, None))[1]
        words = fault.words if isinstance(fault, Refusal) else say("refusal.no_book_page")
        command = "" if is_built(self.rooms.book) else HOW_TO_BUILD
        self.set_header("Content-Security-Policy", views.policy())
        self.set_header("Content-Type", "text/html; charset=UTF-8")
        self.finish(views.message(self.links, "404: Not Found", words, command))


def is_built(folder: Path) -> bool:
    return (folder / "index.html").is_file()
