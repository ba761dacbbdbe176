"""A class with its pages on a server of this process: Tornado's own handler brings the log-in, as a hub's would."""

from __future__ import annotations

import asyncio
import http.client
import http.cookies
import json
import re
import threading
import urllib.parse
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from classroom_samples import FAILED, MISSING, REFUSED, RIGHT, WRONG
from classroom_work import DUE, LAB, hand_in, task
from tornado import httpserver, netutil, web

from autograder.gradebook import Gradebook, decisions, open_gradebook, roster
from autograder.gradebook.policy import LateRule
from autograder.queue import enqueue
from autograder.web import handlers
from classroom.accounts import Accounts

BASE = "/services/grades/"
SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"eve\"'<b>{SCRIPT}"
"""A name that would do harm in HTML, in an attribute, in a header and in an address."""
FORMULA = "=cmd|'/c calc'!A1"


class LogIn(web.RequestHandler):
    """The log-in: who the cookie says. What is tested goes before it."""

    settings: dict[str, Any]

    def get_current_user(self) -> str | None:
        who = self.get_cookie("who")
        return urllib.parse.unquote(who) if who else None

    @property
    def learner(self) -> str:
        return self.current_user


class First:
    """As a hub's service has it: who asks comes from its log-in."""

    current_user: Any

    @property
    def learner(self) -> str:
        return self.current_user


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: str

    @property
    def text(self) -> str:
        """What a person reads: without tags, entities as they are."""
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(style|script)>.*?</\1>", " ", self.body)))


@dataclass
class Person:
    """Somebody with a browser: keeps cookies, fills forms in."""

    port: int
    name: str
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            for line in response.headers.get_all("Set-Cookie") or []:
                for name, morsel in http.cookies.SimpleCookie(line).items():
                    self.cookies[name] = morsel.value
            return Answer(response.status, response.headers, response.read().decode(errors="replace"))
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", f"{BASE}autograder/{path}", **headers)

    def post(self, path: str, form: dict[str, str], *, token: bool = True, **headers: str) -> Answer:
        """Send a form, with the token of a page that this person has seen."""
        if token and "_xsrf" not in self.cookies:
            self.get("")
        fields = form | ({"_xsrf": self.cookies["_xsrf"]} if token else {})
        sent = {"Content_Type": "application/x-www-form-urlencoded"} | headers
        return self.ask("POST", f"{BASE}autograder/{path}", urllib.parse.urlencode(fields), **sent)

    def done(self, path: str, form: dict[str, str]) -> Answer:
        """Send a form that is taken, and look at the page it leads to."""
        answer = self.post(path, form)
        assert answer.status == 303, answer.text[:600]
        return self.ask("GET", answer.headers["Location"])


@dataclass
class Class:
    """The server with what it knows."""

    port: int
    url: str
    mine: int
    """Ada's submission with the most points."""
    theirs: int
    hostile: int

    def as_(self, name: str) -> Person:
        return Person(self.port, name, {"who": urllib.parse.quote(name)} if name else {})

    def book(self) -> Gradebook:
        return open_gradebook(self.url)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{BASE}autograder/"


def serve(url: str, notebooks: Path, teachers: str) -> tuple[int, Any]:
    """Start the pages in a thread; the port, and what stops them."""
    sockets = netutil.bind_sockets(0, "127.0.0.1")
    ready = threading.Event()
    stop: list[Any] = []

    def run() -> None:
        async def main() -> None:
            passwords = Accounts(notebooks / "accounts.json", cost=2**8) if teachers == "roster" else None
            rooms = handlers.Rooms(url, notebooks, teachers=teachers, passwords=passwords)  # type: ignore[arg-type]
            rules = [
                (BASE + pattern, type(page.__name__, (First, page, LogIn), {})) for pattern, page in handlers.RULES
            ]
            settings = {"base_url": BASE, "autograder": rooms, "login_url": "/login", "xsrf_cookies": True}
            settings |= {"xsrf_cookie_kwargs": {"path": BASE, "samesite": "Lax"}}
            server = httpserver.HTTPServer(web.Application(rules, **settings))
            server.add_sockets(sockets)
            over = asyncio.Event()
            stop.append((asyncio.get_running_loop(), over))
            ready.set()
            await over.wait()
            server.stop()
            await server.close_all_connections()

        asyncio.run(main())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(30)

    def end() -> None:
        loop, over = stop[0]
        loop.call_soon_threadsafe(over.set)
        thread.join(30)

    return sockets[0].getsockname()[1], end


def furnish(url: str) -> dict[str, int]:
    """A small class at work, with names and texts that would do harm where they could."""
    with open_gradebook(url) as book:
        for name, roles in {"ines": ["instructor"], "gus": ["grader"], "ada": None, "bob": None, HOSTILE: None}.items():
            roster.enrol(book, name, by="ines", roles=roles, shown_as=f"{FORMULA} {SCRIPT}" if name == "bob" else None)
        decisions.assign(
            book, LAB, by="ines", why=SCRIPT, released=DUE - timedelta(days=14), due=DUE, zone="Europe/Berlin",
            late=LateRule.parse("10%/day max 50% grace 15m zero 7d"),
        )  # fmt: skip
        decisions.assign(book, "lab06_rules", by="ines", released=DUE - timedelta(days=14))
        mine = hand_in(book, "ada", _notebook("def f(): return 1"), tasks=[WRONG, RIGHT], late=timedelta(days=1))
        hand_in(book, "ada", _notebook("def f(): return 2"))
        theirs = hand_in(book, "bob", _notebook("def g(): pass"), tasks=[RIGHT, FAILED, MISSING, REFUSED])
        hostile = hand_in(
            book,
            HOSTILE,
            _notebook(SCRIPT),
            tasks=[task(f"rules{SCRIPT}", 1.0, 3.0, diagnosis=f"{SCRIPT} {FORMULA}. More."), RIGHT],
        )
        decisions.adjust(book, LAB, "bob", 0.5, by="gus", reason=f"{FORMULA} {SCRIPT}")
        decisions.extend(book, LAB, HOSTILE, DUE + timedelta(days=2), by="ines", why=SCRIPT)
        waiting = hand_in(book, "bob", _notebook("later"), lab="lab06_rules")
        enqueue(book, waiting, reason="handed in")
    return {"mine": mine, "theirs": theirs, "hostile": hostile}


def _notebook(source: str) -> str:
    html = {
        "output_type": "display_data",
        "data": {"text/html": SCRIPT, "text/plain": f"shown {SCRIPT}"},
        "metadata": {},
    }
    cells = [
        {"cell_type": "markdown", "source": f"# {SCRIPT}", "metadata": {}},
        {"cell_type": "code", "source": [source], "metadata": {}, "execution_count": 1, "outputs": [html]},
    ]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})
