"""The built book, under ``/book/``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tornado import web

from autograder.web import views
from autograder.web.handlers import HEADERS, LearnerPage, Refusal

if TYPE_CHECKING:
    Base = web.StaticFileHandler
else:
    Base = object

HOW_TO_BUILD = "make book"


class BookPage(LearnerPage, Base):
    """A file of the site, behind the server's own log-in. The base comes last and is Tornado's static handler."""

    def initialize(self) -> None:
        web.StaticFileHandler.initialize(self, path=str(self.rooms.book), default_filename="index.html")

    @property
    def content_security_policy(self) -> str:
        # The site is built by us and brings its own scripts; nothing is fetched from elsewhere.
        return (
            "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
            "base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
        )

    def set_extra_headers(self, path: str) -> None:
        # A rebuilt page must show at once; the etag keeps that cheap.
        self.set_header("Cache-Control", "no-cache")

    def compute_etag(self) -> str | None:
        return web.StaticFileHandler.compute_etag(self)

    @web.authenticated
    async def head(self, path: str) -> None:
        await self.get(path, include_body=False)

    @web.authenticated
    async def get(self, path: str, include_body: bool = True) -> None:
        await web.StaticFileHandler.get(self, path, include_body)

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        if not (Path(root) / "index.html").is_file():
            raise Refusal(404, "The book has not been built yet.")
        real, real_root = os.path.realpath(absolute_path), os.path.realpath(root)
        if os.path.commonpath([real, real_root]) != real_root:
            raise Refusal(404, "There is no such page in the book.")
        if not os.path.exists(real):
            raise Refusal(404, "There is no such page in the book.")
        return web.StaticFileHandler.validate_absolute_path(self, root, absolute_path)

    def write_error(self, status_code: int, **kwargs: object) -> None:
        fault = kwargs.get("exc_info", (None, None, None))[1]  # type: ignore[index]  # Tornado's own shape
        if status_code == 404:
            words = fault.words if isinstance(fault, Refusal) else "There is no such page in the book."
            built = (self.rooms.book / "index.html").is_file()
            command = "" if built else HOW_TO_BUILD
            self.set_header("Content-Security-Policy", views.policy())
            self.set_header("Content-Type", "text/html; charset=UTF-8")
            self.finish(views.message(self.links, "404: Not Found", words, command))
        else:
            super().write_error(status_code, **kwargs)


__all__ = ["HEADERS", "BookPage"]
