"""What instructors see, as data for the pages: the class, a lab, a learner, a submission. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from markupsafe import Markup

from autograder import spec
from autograder.gradebook import Gradebook, audit, decided, queries, roster, statistics, written
from autograder.gradebook.decisions import Terms, assignments
from autograder.gradebook.models import now
from autograder.gradebook.queries import Graded
from autograder.gradebook.roster import Person
from autograder.gradebook.scores import Mark, Sheet, sheet
from autograder.queue import JobView, counts, job_of, watch
from autograder.report import Report
from autograder.web import plots

A_PAGE = 50
Row = TypeVar("Row")


@dataclass(frozen=True)
class Page(Generic[Row]):
    """One page of many rows."""

    rows: Sequence[Row]
    number: int
    """From 1."""
    pages: int
    total: int

    @classmethod
    def of(cls, rows: Sequence[Row], number: int, size: int = A_PAGE) -> Page[Row]:
        """The page of that number; the nearest there is."""
        pages = max(1, -(-len(rows) // size))
        number = min(max(number, 1), pages)
        return cls(rows[(number - 1) * size : number * size], number, pages, len(rows))


@dataclass(frozen=True)
class LabLine:
    """One lab in the table of labs."""

    name: str
    title: str
    terms: Terms
    out: bool
    handed_in: int
    waiting: int
    full_marks: int
    mean: float | None
    worth: float | None


def title_of(lab: str) -> str:
    return spec.load_lab(lab).title if lab in spec.lab_names() else lab


def lab_lines(found: Sheet, terms: dict[str, Terms], *, open_by_default: bool) -> list[LabLine]:
    by_lab: dict[str, list[Mark]] = {name: [] for name in sorted({*spec.lab_names(), *found.labs})}
    for (_, lab), mark in found.marks.items():
        by_lab[lab].append(mark)
    lines = []
    for name, marks in by_lab.items():
        points = [mark.points for mark in marks if mark.points is not None]
        worth = next((mark.max_points for mark in marks if mark.max_points), None)
        own = terms.get(name) or Terms(name)
        lines.append(
            LabLine(
                name,
                title_of(name),
                own,
                decided.is_out(own, by_default=open_by_default),
                sum(mark.submissions > 0 for mark in marks),
                sum(mark.waiting for mark in marks),
                sum(worth is not None and value >= worth - 1e-9 for value in points),
                sum(points) / len(points) if points else None,
                worth,
            )
        )
    return lines


def overview(book: Gradebook, number: int, wanted: str, *, open_by_default: bool) -> dict[str, Any]:
    """The class: its labs, and a page of the learners whose name has `wanted` in it, with their marks."""
    found, shown = sheet(book), {one.name: one.shown_as for one in roster.people(book)}
    part = wanted.casefold()
    names = [name for name in found.learners if part in name.casefold() or part in shown.get(name, "").casefold()]
    terms = assignments(book)
    return {
        "sheet": found,
        "shown": shown,
        "page": Page.of(names, number),
        "wanted": wanted,
        "labs": lab_lines(found, terms, open_by_default=open_by_default),
        "queue": counts(book),
        "awaited": sum(bool(mark.by_hand) for mark in found.marks.values()),
    }


def lab(book: Gradebook, name: str, number: int, *, open_by_default: bool) -> dict[str, Any] | None:
    """One lab: its terms, who has more time, statistics, and a page of marks."""
    terms = assignments(book).get(name)
    if name not in spec.lab_names() and terms is None and not queries.submissions(book, lab=name):
        return None
    found = sheet(book, lab=name)
    marks = [mark for name_ in found.learners if (mark := found.marks.get((name_, name))) is not None]
    told = statistics.of_lab(book, name)
    return {
        "lab": name,
        "title": title_of(name),
        "terms": terms or Terms(name),
        "out": decided.is_out(terms, by_default=open_by_default),
        "extensions": decided.extensions(book, lab=name),
        "told": told,
        "page": Page.of(marks, number),
        "learners": [one.name for one in roster.people(book)],
        "missing": [one for one in found.learners if (one, name) not in found.marks],
        "spread": by_mark(told),
        "times": by_time(told),
    }


def by_mark(told: statistics.LabStatistics) -> Markup:
    """Learners by mark, in tenths of full marks."""
    labels = [f"{10 * tenth}%" for tenth in range(len(told.distribution))]
    return plots.bars(told.distribution, labels, "Learners by mark, in tenths of full marks")


def by_time(told: statistics.LabStatistics) -> Markup:
    """Learners by how long they took from their first submission to full marks."""
    counted, labels = plots.spread([time.total_seconds() for time in told.times])
    return plots.bars(counted, labels, "Learners with full marks, by the time from their first submission, at most")


def learner(book: Gradebook, name: str) -> dict[str, Any] | None:
    """One learner: every mark and how it came about, submissions, more time, changes by hand."""
    person = roster.person(book, name)
    if person is None:
        return None
    found = sheet(book, learner=name, left=True)
    terms = assignments(book)
    return {
        "person": person,
        "marks": [found.marks[key] for key in sorted(found.marks)],
        "terms": terms,
        "labs": sorted({*spec.lab_names(), *found.labs}),
        "titles": {lab: title_of(lab) for lab in {*spec.lab_names(), *found.labs}},
        "submissions": queries.submissions(book, learner=name),
        "extensions": decided.extensions(book, learner=name),
        "adjustments": decided.adjustments(book, learner=name),
    }


@dataclass(frozen=True)
class Seen:
    """A submission as its grader sees it."""

    one: Graded
    report: Report | None
    job: JobView | None
    mark: Mark | None
    terms: Terms
    person: Person | None
    by_hand: dict[str, decided.HandScored]
    answers: list[written.Answer]
    others: list[Graded]
    """What else the learner handed in for the lab, newest first."""

    @property
    def late(self) -> timedelta:
        """By how much it came after the learner's deadline."""
        due = self.mark.due if self.mark else self.terms.due
        return max(self.one.first_at - due, timedelta(0)) if due else timedelta(0)

    def answer_to(self, task: str) -> written.Answer | None:
        return next((one for one in self.answers if one.task == task), None)

    @property
    def counts(self) -> bool:
        return self.mark is not None and self.mark.submission == self.one.id


def submission(book: Gradebook, number: int) -> Seen | None:
    """One submission with all that is known of it."""
    one = queries.submission(book, number)
    if one is None:
        return None
    job = job_of(book, number)  # before its grade: what is done has one
    marks = sheet(book, lab=one.lab, learner=one.learner, left=True).marks
    return Seen(
        one,
        queries.report(book, number),
        job,
        marks.get((one.learner, one.lab)),
        assignments(book).get(one.lab) or Terms(one.lab),
        roster.person(book, one.learner),
        decided.scored_by_hand(book, number),
        written.answers(book, number),
        [other for other in queries.submissions(book, learner=one.learner, lab=one.lab) if other.id != number],
    )


def queue(book: Gradebook, number: int, lab: str, learner: str) -> dict[str, Any]:
    """The queue: how much is in each state, and a page of the jobs that are not done."""
    found = watch(book, lab=lab or None, learner=learner or None, limit=A_PAGE + 1, offset=(number - 1) * A_PAGE)
    return {
        "counts": counts(book),
        "jobs": found[:A_PAGE],
        "number": number,
        "more": len(found) > A_PAGE,
        "lab": lab,
        "learner": learner,
        "labs": spec.lab_names(),
    }


def changes(book: Gradebook, number: int, lab: str, learner: str) -> dict[str, Any]:
    """A page of the audit, newest first."""
    wanted = {"lab": lab or None, "learner": learner or None}
    # One more than the page holds, to know whether there is another.
    found = audit.trail(book, **wanted, limit=number * A_PAGE + 1)
    rows = found[(number - 1) * A_PAGE : number * A_PAGE]
    more = len(found) > number * A_PAGE
    return {"rows": rows, "number": number, "more": more, "lab": lab, "learner": learner, "labs": spec.lab_names()}


def facts(one: Any, other: Any) -> str:
    """What an entry of the audit says, in words; of two records, only what differs."""
    if not isinstance(one, dict):
        return "" if one is None else str(one)
    told = {name: value for name, value in one.items() if not isinstance(other, dict) or other.get(name) != value}
    return "; ".join(f"{name}: {'none' if value is None else value}" for name, value in told.items())


def as_local(moment: datetime | None, zone: str) -> str:
    """A moment as a field for date and time holds it, on the clocks of `zone`."""
    from autograder.gradebook.policy import zone_named

    return "" if moment is None else moment.astimezone(zone_named(zone)).strftime("%Y-%m-%dT%H:%M")


def is_past(moment: datetime | None) -> bool:
    return moment is not None and moment <= now()
