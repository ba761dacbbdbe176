"""What every page looks like: where things are, the frame, styles and scripts, and the policy that names them."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from autograder.feedback import html, words
from autograder.feedback.catalogue import LANGUAGES
from autograder.gradebook.policy import zone_named

TEMPLATES = Path(__file__).parent / "templates"
TIMES, WAIT = "times.js", "wait.js"
"""Scripts: moments in the zone of who reads; look until the result is there."""


@dataclass(frozen=True)
class Links:
    """Where things are on this server; every address ends up in an attribute of a page."""

    grades: str
    lab: str
    book: str

    def submission(self, number: int, ending: str = "") -> str:
        return f"{self.grades}submission/{number}{ending}"

    def of_class(self, path: str = "", **query: object) -> str:
        """An address among the pages of the class; what is empty is left out of its query."""
        given = {name: value for name, value in query.items() if value not in ("", None)}
        asked = f"?{urllib.parse.urlencode(given)}" if given else ""
        return f"{self.grades}class/{urllib.parse.quote(path)}{asked}"


def when(moment: datetime) -> str:
    """A moment on this machine's clock."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M %Z")


def in_zone(value: datetime, zone: str) -> str:
    """A moment on the clocks of a zone, to the minute."""
    return value.astimezone(zone_named(zone)).strftime("%Y-%m-%d %H:%M")


def signed(points: float) -> str:
    """Points that were added or taken: +2, -0.5."""
    return f"{'-' if points < 0 else '+'}{words.number(abs(points))}"


def moment(value: datetime) -> Markup:
    """A moment as an element that a script shows in the zone of who reads."""
    return Markup('<time datetime="{}">{}</time>').format(value.isoformat(), when(value))


@cache
def _templates() -> Environment:
    env = html.environment(TEMPLATES)
    env.filters |= {"when": when, "moment": moment, "span": words.span, "in_zone": in_zone, "signed": signed}
    env.globals["languages"] = LANGUAGES
    return env


@cache
def script(name: str) -> str:
    """A script that is put into a page as it stands."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def css() -> str:
    return html.asset("page.css") + (TEMPLATES / "pages.css").read_text(encoding="utf-8")


def policy(*scripts: str, forms: bool = False, asks: bool = False, framed: bool = True) -> str:
    """The content security policy of a page with these scripts, and nothing else that runs.

    Parameters
    ----------
    forms : bool
        It has forms, which go to this server only.
    asks : bool
        A script of it asks this server for more.
    framed : bool
        A page of this server may show it in a frame.
    """
    sources = " ".join(html.source_hash(script(name)) for name in scripts)
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src {html.source_hash(css())}",
            *([f"script-src {sources}"] if scripts else []),
            *(["connect-src 'self'"] if asks else []),
            "img-src data:",
            "base-uri 'none'",
            "form-action 'self'" if forms else "form-action 'none'",
            "frame-ancestors 'self'" if framed else "frame-ancestors 'none'",
        ]
    )


def render(template: str, links: Links, *scripts: str, **values: object) -> str:
    found = [Markup(script(name)) for name in scripts]
    return _templates().get_template(template).render(links=links, css=Markup(css()), scripts=found, **values)


def message(links: Links, title: str, text: str, command: str = "", log_in: str = "") -> str:
    """A page that says one thing, such as why there is no other page; `log_in` is an address at which one can."""
    return render("message.html", links, title=title, text=text, command=command, log_in=log_in)
