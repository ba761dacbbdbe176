"""The commands by which an instructor decides: ``deadline``, ``extend``, ``adjust``, and ``export`` of what came of it.

Nothing of the database is imported before a command runs.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.output import Refusal, complain, printable, say, write_file

if TYPE_CHECKING:
    from autograder.gradebook.store import Gradebook

Where = Annotated[str, typer.Option("--gradebook", metavar="WHERE", help="A file or address; yours, if not given.")]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides; you, if not given.")]
LabArgument = Annotated[str, typer.Argument(metavar="LAB", help="The lab's name.")]
LearnerArgument = Annotated[str, typer.Argument(metavar="LEARNER", help="The learner's login name.")]
Zone = Annotated[str, typer.Option("--zone", metavar="ZONE", help="Of the times: Europe/Berlin, UTC, ...")]


@contextlib.contextmanager
def opened(where: str) -> Iterator[Gradebook]:
    """The gradebook; what goes wrong with it or with what was asked is one line."""
    from autograder.gradebook import GradebookError, open_gradebook
    from autograder.gradebook.lti import PlatformError
    from autograder.gradebook.policy import PolicyError

    try:
        with open_gradebook(where or None) as book:
            yield book
    except (GradebookError, PlatformError, PolicyError) as error:
        raise Refusal(str(error)) from None


def who(by: str) -> str:
    from autograder.gradebook.place import learner_name

    return by or learner_name()


def known_lab(name: str) -> str:
    """The name, where there is such a lab; a typing error must not become an assignment of its own."""
    from autograder.grade import lab_names

    if name not in (names := lab_names()):
        raise Refusal(f"there is no lab {name!r}; there are {', '.join(names)}.")
    return name


def deadline(
    lab: LabArgument,
    due: Annotated[str, typer.Argument(metavar="[WHEN]", help="As 2026-03-29T23:59, or none.")] = "",
    released: Annotated[str, typer.Option("--released", metavar="WHEN", help="From when learners get it.")] = "",
    zone: Zone = "",
    late: Annotated[str, typer.Option("--late", metavar="RULE", help='"10%/day max 50% grace 15m zero 7d".')] = "",
    policy: Annotated[str, typer.Option("--policy", metavar="WHICH", help="best or last submission counts.")] = "",
    points: Annotated[float | None, typer.Option("--points", help="What full marks are worth.")] = None,
    line_item: Annotated[str, typer.Option("--line-item", metavar="URL", help="Its column on the platform.")] = "",
    why: Annotated[str, typer.Option("--reason", metavar="TEXT", help="For the audit.")] = "",
    by: By = "",
    gradebook: Where = "",
) -> None:
    """Set when a lab is due and by which rules it counts; shows them, if nothing is given."""
    from autograder.gradebook import decisions
    from autograder.gradebook.policy import LateRule, moment, shown

    known_lab(lab)
    with opened(gradebook) as book:
        terms = decisions.assignments(book).get(lab) or decisions.Terms(lab)
        there = zone or terms.zone
        changes: dict[str, Any] = {"zone": there} if zone else {}
        for name, text in (("due", due), ("released", released)):
            if text:
                changes[name] = None if text == "none" else moment(text, there)
        changes |= {"late": LateRule.parse(late)} if late else {}
        changes |= {"policy": policy} if policy else {}
        changes |= {"points": points} if points is not None else {}
        changes |= {"line_item": line_item} if line_item else {}
        if changes:
            terms = decisions.assign(book, lab, by=who(by), why=why, **changes)
        opens = f"released {shown(terms.released, terms.zone)}, " if terms.released else ""
        ends = f"due {shown(terms.due, terms.zone)} ({terms.zone})" if terms.due else "due at no time"
        worth = f", worth {terms.points:g} points" if terms.points is not None else ""
        say(f"{lab}: {opens}{ends}; the {terms.policy} submission counts{worth}; late: {terms.late}")


def extend(
    lab: LabArgument,
    learner: LearnerArgument,
    until: Annotated[str, typer.Argument(metavar="WHEN", help="As 2026-03-29T23:59; none takes it back.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")],
    zone: Zone = "",
    by: By = "",
    gradebook: Where = "",
) -> None:
    """Give one learner more time."""
    from autograder.gradebook import decisions
    from autograder.gradebook.policy import moment, shown
    from autograder.gradebook.scores import mark

    known_lab(lab)
    with opened(gradebook) as book:
        terms = decisions.assignments(book).get(lab)
        if terms is None or terms.due is None:
            raise Refusal(f"{lab} is due at no time; there is nothing to extend. See `autograder deadline`.")
        there = zone or terms.zone
        when = None if until == "none" else moment(until, there)
        decisions.extend(book, lab, learner, when, by=who(by), why=reason)
        due = terms.due if when is None else max(terms.due, when)
        say(f"{lab}: for {printable(learner)} due {shown(due, there)} ({there})")
        if found := mark(book, learner=learner, lab=lab):
            say(in_words(found.points, found.max_points))


def adjust(
    lab: LabArgument,
    learner: LearnerArgument,
    points: Annotated[str, typer.Argument(metavar="POINTS", help="+1.5 or -2 on the mark, or =7 in its place.")] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")] = "",
    withdraw: Annotated[int | None, typer.Option("--withdraw", metavar="NUMBER", help="Undo this one.")] = None,
    by: By = "",
    gradebook: Where = "",
) -> None:
    """Change one learner's mark by hand."""
    from autograder.gradebook import decisions
    from autograder.gradebook.scores import mark

    known_lab(lab)
    if (withdraw is None) == (not points):
        raise Refusal("adjust: give either points (+1.5, -2, =7) or --withdraw NUMBER.")
    with opened(gradebook) as book:
        if withdraw is not None:
            decisions.withdraw(book, withdraw, by=who(by), reason=reason)
            number = withdraw
        else:
            try:
                value = float(points.removeprefix("="))
            except ValueError:
                raise Refusal(f"adjust: {points!r} is not a number of points; give +1.5, -2 or =7.") from None
            if points[0] not in "+-=":
                raise Refusal(f"adjust: is {points} added or the new mark? Give +{points} or ={points}.")
            number = decisions.adjust(
                book, lab, learner, value, by=who(by), reason=reason, replaces=points.startswith("=")
            )
        found = mark(book, learner=learner, lab=lab)
        rest = in_words(found.points, found.max_points) if found else "no mark"
        say(f"{lab}: adjustment {number} of {printable(learner)} is {'withdrawn' if withdraw else 'made'}; {rest}")


def in_words(points: float | None, most: float | None) -> str:
    if points is None:
        return "not graded yet"
    return f"the mark is {points:g}" + (f" of {most:g}" if most is not None else "")


KINDS = ("marks", "tasks", "submissions", "audit", "lti")


def export(
    kind: Annotated[str, typer.Argument(metavar="[WHAT]", help=f"One of {', '.join(KINDS)}.")] = "marks",
    lab: Annotated[str, typer.Option("--lab", help="Only this lab; tasks and lti need it.")] = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="A file; stdout, if not given.")] = None,
    send: Annotated[
        Path | None, typer.Option("--send", metavar="FILE", help="lti: send to the platform with these settings.")
    ] = None,
    gradebook: Where = "",
) -> None:
    """Write marks, tasks, submissions or the audit as CSV, or scores for a learning platform (LTI 1.3) as JSON."""
    from autograder.gradebook import export_csv, lti
    from autograder.gradebook.export import audit_csv, marks_csv, tasks_csv

    if kind not in KINDS:
        raise Refusal(f"export: there is no {kind!r}; there are {', '.join(KINDS)}.")
    if kind in ("tasks", "lti") and not lab:
        raise Refusal(f"export {kind}: which lab? Give --lab NAME.")
    if send is not None and kind != "lti":
        raise Refusal(f"export {kind} --send: only lti is sent.")
    text = io.StringIO(newline="")
    with opened(gradebook) as book:
        if kind == "lti":
            going = lti.outgoing(book, lab)
            if going.without_id:
                names = ", ".join(going.without_id[:5]) + (", ..." if len(going.without_id) > 5 else "")
                complain(f"{len(going.without_id)} have no id on the platform and are left out: {names}")
            if send is not None:
                count = lti.Platform.read(send).send(going)
                say(f"{lab}: {count} scores sent.")
                return
            json.dump({"lineItem": going.line_item, "scores": going.scores}, text, indent=2)
        elif kind == "tasks":
            tasks_csv(book, text, lab=lab)
        else:
            {"marks": marks_csv, "submissions": export_csv, "audit": audit_csv}[kind](book, text, lab=lab or None)
    if out is None:
        say(text.getvalue().rstrip("\r\n"))
    else:
        write_file(out, text.getvalue())


def add_to(app: typer.Typer) -> None:
    """Make these commands of the program."""
    for command in (deadline, extend, adjust, export):
        # A mark may be lowered: -2 is a number here, not an option.
        settings = {"ignore_unknown_options": True} if command is adjust else None
        app.command(command.__name__, context_settings=settings)(command)
