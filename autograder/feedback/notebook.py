"""Feedback for a notebook: an object that Jupyter shows, with a plain-text form for everything else."""

from __future__ import annotations

from typing import Any

from autograder.feedback import html, terminal
from autograder.report import Report


class Feedback:
    """Shows a report where it is displayed; true if and only if every task in it is right, or waits for a person.

    Parameters
    ----------
    report : Report
    before : str
        A line that stands above it, such as where the submission was stored.
    link, label : str
        Where more can be read; an address without a scheme is taken from the Jupyter server's own origin.
    """

    def __init__(self, report: Report, *, before: str = "", link: str = "", label: str = "") -> None:
        self.report = report
        self.before = before
        self.link = link
        self.label = label

    def __bool__(self) -> bool:
        return self.report.nothing_lost

    def __repr__(self) -> str:
        body = terminal.text(self.report).rstrip()
        tail = f"\n{self.label}: {self.link}" if self.link else ""
        return (f"{self.before}\n\n" if self.before else "") + body + tail

    def _repr_html_(self) -> str:
        return html.fragment(self.report, before=self.before, link=self.link, label=self.label)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": repr(self)}
