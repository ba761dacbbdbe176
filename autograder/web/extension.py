"""The Jupyter Server extension: puts the pages on a learner's own server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web
from traitlets import Bool, Unicode
from traitlets.config import Configurable

from autograder.web import handlers
from autograder.web.book import BookPage

ROOT = Path(__file__).parents[2]


class Classroom(Configurable):
    """Settings, as ``c.Classroom.name = value``."""

    gradebook = Unicode("", help="Address or file of the gradebook; by default the user's own.").tag(config=True)
    instructor = Bool(
        os.environ.get("AUTOGRADER_INSTRUCTOR", "") not in ("", "0"),
        help="Whether who runs this server may open the pages of the class; also AUTOGRADER_INSTRUCTOR=1.",
    ).tag(config=True)
    book = Unicode(str(ROOT / "book" / "_build" / "html"), help="Folder of the built book.").tag(config=True)


def on_jupyter(page: type[Any], *more: type[Any]) -> type[Any]:
    """A page on Jupyter's own handler, which brings the log-in."""
    return type(page.__name__, (page, JupyterHandler, *more), {})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "autograder.web"}]


def _load_jupyter_server_extension(server: Any) -> None:
    settings = Classroom(config=server.config)
    app = server.web_app
    app.settings["autograder"] = handlers.Rooms(
        gradebook=settings.gradebook or None,
        notebooks=Path(server.root_dir),
        book=Path(settings.book),
        teachers="owner" if settings.instructor else "nobody",
    )
    base = app.settings["base_url"]
    rules: list[tuple[Any, ...]] = [(url_path_join(base, rule), on_jupyter(page)) for rule, page in handlers.RULES]
    static = {"path": settings.book, "default_filename": "index.html"}
    rules += [
        (url_path_join(base, "(autograder|book)"), on_jupyter(handlers.AddSlash)),
        (url_path_join(base, r"book/(.*)"), on_jupyter(BookPage, web.StaticFileHandler), static),
    ]
    app.add_handlers(".*$", rules)
    server.log.info("The autograder's pages are at %sautograder/ and the book at %sbook/", base, base)
