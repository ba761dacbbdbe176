"""What JupyterLab's Submit button asks of the server beside it, on a machine of one's own and on a hub.

Also, on a hub: the way from ``/autograder/`` to the class's pages, and the book.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web

from autograder import remote, warm
from autograder.feedback import catalogue, words
from autograder.feedback.catalogue import say
from autograder.web.book import BookPage
from autograder.web.extension import Classroom, on_jupyter
from autograder.web.handlers import AddSlash
from autograder.web.page import language_of
from classroom import starter
from classroom.places import SERVICE

BUTTON = "button."
"""What the keys of the button's own words begin with."""


class Refusal(Exception):
    """Why nothing was handed in, with an HTTP status."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class LabHandler(APIHandler):
    """JSON both ways, behind Jupyter's own log-in and its check against other sites."""

    async def prepare(self) -> None:  # type: ignore[override]
        """As the base, which is awaited for who asks; what is said is in their language."""
        catalogue.speak(language_of(self))
        await super().prepare()

    def refuse(self, error: Refusal) -> None:
        self.set_status(error.status)
        self.finish(json.dumps({"reason": error.words}))


class Words(LabHandler):
    """``GET classroom/words``: what the button says, in the language of who asks; values stand in braces."""

    @web.authenticated
    def get(self) -> None:
        known = catalogue.messages(catalogue.language())
        self.finish({key.removeprefix(BUTTON): text for key, text in known.items() if key.startswith(BUTTON)})


class Submit(LabHandler):
    """``POST classroom/submit {"path": ...}``: hand in a notebook as it is saved."""

    @web.authenticated
    async def post(self) -> None:
        body = self.get_json_body() or {}
        try:
            file = notebook_file(Path(self.settings["server_root_dir"]).expanduser(), body.get("path"))
            base = self.settings["base_url"]
            taken = await asyncio.to_thread(to_class if remote.address() else here, file, base)
        except Refusal as error:
            self.refuse(error)
            return
        self.set_status(202)
        self.finish(json.dumps(taken))


class State(LabHandler):
    """``GET classroom/submissions/N``: where it stands, on a hub; waits a while for the grade."""

    @web.authenticated
    async def get(self, number: str) -> None:
        try:
            state = json.loads(await asyncio.to_thread(remote.ask, f"api/submissions/{number}?wait=20", timeout=60.0))
        except remote.RemoteError as error:
            self.refuse(Refusal(502, str(error)))
            return
        self.finish(json.dumps({name: state[name] for name in ("submission", "state", "words", "page")}))


class Fetch(LabHandler):
    """``POST classroom/fetch``: get labs that were released since the server started."""

    @web.authenticated
    async def post(self) -> None:
        done = await asyncio.to_thread(starter.fetch, Path.home())
        self.finish(json.dumps({"lines": starter.in_words(done), "fault": done.fault}))


class ToClass(JupyterHandler):
    @web.authenticated
    def get(self, path: str = "") -> None:
        self.redirect(f"/services/{SERVICE}/autograder/{path.lstrip('/')}")


def notebook_file(root: Path, path: Any) -> Path:
    """The file that JupyterLab calls `path`; only a notebook below the folder that the server shows."""
    if not isinstance(path, str) or not path.endswith(".ipynb") or "\0" in path:
        raise Refusal(400, say("hub.only_notebooks"))
    top = root.resolve()
    file = (top / path.partition(":")[2] if path.startswith("RTC:") else top / path).resolve()
    if not file.is_relative_to(top):
        raise Refusal(404, say("hub.outside", path=path))
    if not file.is_file():
        raise Refusal(404, say("hub.no_file", path=path))
    return file


def to_class(file: Path, base: str) -> dict[str, Any]:
    """Hand it to the class's service; the grade comes later, from `State`."""
    try:
        taken = remote.hand_in(str(file), "", [])
    except remote.RemoteError as error:
        raise Refusal(502, str(error)) from None
    told = {name: taken[name] for name in ("line", "page", "submission")}
    return told | {"state": "waiting", "words": say("hub.waits")}


def here(file: Path, base: str) -> dict[str, Any]:
    """Hand it in on this machine, where it is graded at once."""
    request = {"do": "submit", "file": str(file), "lab": "", "home": os.environ.get("AUTOGRADER_HOME", ""), "cells": []}
    request["language"] = catalogue.language()
    line, reply = "", {}
    try:
        for reply in warm.ask(request):
            line = reply.get("stored", line)
    except warm.WarmError as error:
        reply = {"error": say("handing_in.not_graded", line=line, fault=error) if line else str(error)}
    page = f"{base}autograder/"
    if "error" in reply:
        if not line:
            raise Refusal(400, reply["error"])
        return {"line": line, "page": page, "state": "parked", "words": reply["error"]}
    report = json.loads(reply["report"])
    tasks = report.get("tasks", [])
    got, most = sum(one["points"] for one in tasks), sum(one["max_points"] for one in tasks)
    return {"line": line, "page": page, "state": "graded", "words": words.points(got, most)}


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "classroom.lab_server"}]


def _load_jupyter_server_extension(server: Any) -> None:
    base = server.web_app.settings["base_url"]
    rules: list[tuple[Any, ...]] = [
        (url_path_join(base, "classroom/words"), Words),
        (url_path_join(base, "classroom/submit"), Submit),
    ]
    if remote.address():
        book = Classroom(config=server.config).book
        static = {"path": book, "default_filename": "index.html"}
        rules += [
            (url_path_join(base, r"classroom/submissions/([0-9]{1,15})"), State),
            (url_path_join(base, "classroom/fetch"), Fetch),
            (url_path_join(base, r"autograder(/.*)?"), ToClass),
            (url_path_join(base, "(book)"), on_jupyter(AddSlash)),
            (url_path_join(base, r"book/(.*)"), on_jupyter(BookPage, web.StaticFileHandler), static),
        ]
    server.web_app.add_handlers(".*$", rules)
