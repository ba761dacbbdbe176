"""Feedback as HTML: a fragment for a notebook, a whole page for a browser.

Every value from the report is escaped by Jinja. The page makes no request: its style and its one script
stand inside it, and its content security policy names them by hash and allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.feedback import words
from autograder.feedback.catalogue import language, say
from autograder.feedback.sentences import told
from autograder.report import Report

if TYPE_CHECKING:
    from autograder.similarity import Similarity

TEMPLATES = Path(__file__).parent / "templates"


def prose(value: str) -> Markup:
    """Escaped text in which `code` between backticks is set as code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(value))))


def environment(*folders: Path) -> Environment:
    """A Jinja environment that escapes everything and knows the words of feedback."""
    env = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"prose": prose, "points": words.points, "number": words.number}
    env.globals |= {"words": words, "say": say, "language": language, "told": told}
    return env


@cache
def _templates() -> Environment:
    return environment()


@cache
def asset(name: str) -> str:
    """A style sheet or script that is put into a page as it stands."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """As a content security policy names an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy() -> str:
    """The content security policy of a feedback page."""
    return (
        f"default-src 'none'; style-src {source_hash(asset('page.css'))}; script-src {source_hash(asset('copy.js'))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def page(report: Report, links: Iterable[tuple[str, str]] = (), *, submitted: bool = False) -> str:
    """`report` as a page that stands alone.

    Parameters
    ----------
    links : pairs of (address, words)
        Shown above the title, such as the way back to the list of labs.
    submitted : bool
        The report belongs to a stored submission, not to a file looked at in passing.
    """
    return (
        _templates()
        .get_template("page.html")
        .render(
            report=told(report),
            links=list(links),
            mode=words.mode(report, submitted),
            css=Markup(asset("page.css")),
            script=Markup(asset("copy.js")),
            policy=policy(),
        )
    )


def fragment(report: Report, *, before: str = "", link: str = "", label: str = "") -> str:
    """`report` as it is shown below a notebook cell."""
    return (
        _templates()
        .get_template("fragment.html")
        .render(
            report=told(report),
            before=before,
            link=link,
            label=label,
            css=Markup(asset("fragment.css")),
        )
    )


def similarity_page(found: Similarity) -> str:
    """What a comparison of submissions found, as a page that stands alone."""
    return (
        _templates().get_template("similarity.html").render(found=found, css=Markup(asset("page.css")), policy=policy())
    )
