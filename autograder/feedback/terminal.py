"""Feedback for a terminal, through Rich; plain text where there are no colours."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from autograder.feedback import words
from autograder.feedback.catalogue import say
from autograder.feedback.sentences import told
from autograder.report import CounterExample, Report, TaskResult

COLOURS = {
    "right": "green",
    "wrong": "red",
    "missing": "yellow",
    "failed": "red",
    "refused": "magenta",
    "ungraded": "yellow",
    "pending": "cyan",
    "marked": "cyan",
}


def printable(value: str) -> str:
    """`value` without control characters: a message must not be able to move the cursor or clear the screen."""
    return "".join(
        char if char in "\n\t" or char.isprintable() else char.encode("unicode_escape").decode() for char in value
    )


def plain(value: str, style: str = "") -> Text:
    # Text, never markup: a learner's "[red]" is five characters, not a colour.
    return Text(printable(value), style=style)


def _code(source: str) -> RenderableType:
    return Syntax(printable(source), "python", theme="ansi_light", background_color="default", word_wrap=True)


def _example(task: TaskResult, example: CounterExample) -> list[RenderableType]:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    if example.inputs:
        grid.add_row(say("feedback.inputs").lower(), plain(example.inputs))
    if example.replay:
        grid.add_row(say("feedback.run"), _code(example.replay))
    if example.expected:
        grid.add_row(say("feedback.expected").lower(), plain(example.expected))
    if example.got:
        grid.add_row(say("feedback.got").lower(), plain(example.got))
    parts: list[RenderableType] = [
        plain(say("feedback.colon", text=words.example_heading(task)), "bold"),
        Padding(grid, (0, 0, 0, 2)),
    ]
    if oracles := words.oracles(task):
        parts.append(plain("  " + say("feedback.oracles", oracles=oracles), "dim"))
    return parts


def _task(task: TaskResult) -> RenderableType:
    sign, word = words.verdict(task)
    head = Text.assemble(
        (f"{sign} {word}  ", f"bold {COLOURS.get(task.verdict, '')}"),
        (printable(task.title or task.name), "bold"),
        f"  ({printable(task.name)})  ",
    )
    head.append(words.points(task.points, task.max_points), style="dim")
    body: list[RenderableType] = []
    if task.message:
        body.append(plain(task.message))
    body += [plain(words.part(part)) for part in task.properties]
    body += [plain(words.cost(cost)) for cost in task.costs]
    for key, text in (("written.answer", task.answer), ("written.comment", task.comment)):
        if text:
            body += [plain(say("feedback.colon", text=say(key)), "bold"), Padding(plain(text), (0, 0, 0, 2))]
    if task.counter_example:
        body += _example(task, task.counter_example)
    if task.diagnosis:
        body.append(plain(say("feedback.colon", text=say("feedback.looks_like")), "bold"))
        listing = Table.grid(padding=(0, 1))
        for count, line in enumerate(task.diagnosis, 1):
            listing.add_row(*([f"{count}."] if len(task.diagnosis) > 1 else []), plain(line))
        body.append(Padding(listing, (0, 0, 0, 2)))
    if task.hints:
        body.append(plain(say("feedback.colon", text=say("hint.head")), "bold"))
        body += [Padding(plain(hint), (0, 0, 0, 2)) for hint in task.hints]
    if words.next_hint(task):
        body.append(plain(words.next_hint(task), "dim"))
    if task.traceback:
        body += [
            plain(say("feedback.colon", text=say("feedback.stopped")), "bold"),
            Padding(plain(task.traceback.rstrip()), (0, 0, 0, 2)),
        ]
    body += [plain(say("feedback.note", note=note)) for note in task.notes]
    if task.verdict == "right" and words.cases(task):
        body.append(plain(words.cases(task), "dim"))
    return Group(head, *(Padding(part, (0, 0, 0, 4)) for part in body))


def show(report: Report, console: Console | None = None, *, submitted: bool = False) -> None:
    """Print `report` to the terminal (or to `console`); `submitted` as for `html.page`."""
    console = console or Console(highlight=False)
    console.print(Rule(plain(report.title or report.lab, "bold"), align="left"))
    for task in told(report).tasks:
        console.print(_task(task))
        console.print()
    console.print(plain(words.summary(report), "bold"))
    console.print(plain(words.mode(report, submitted), "dim"))
    if line := words.ungraded_line(report):
        console.print(plain(line))
    for note in report.notes:
        console.print(plain(say("feedback.note", note=note)))
    trail = [
        report.file,
        say("feedback.spec", version=report.spec_version),
        say("feedback.seed", seed=report.seed),
        report.sandbox,
        say("feedback.seconds", seconds=f"{report.seconds:.1f}"),
    ]
    console.print(plain(" · ".join(part for part in trail if part), "dim"))


def brief(report: Report, width: int = 100) -> str:
    """The tasks alone, as plain text, for a check. Reads the same each time if all is right."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None, highlight=False, force_terminal=False)
    for task in told(report).tasks:
        console.print(_task(task))
    for line in [words.ungraded_line(report), *(say("feedback.note", note=note) for note in report.notes)]:
        if line:
            console.print(plain(line))
    if report.tasks and not report.nothing_lost:
        console.print(plain(say("feedback.brief", seed=report.seed)))
    return _stripped(buffer)


def _stripped(buffer: io.StringIO) -> str:
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def text(report: Report, width: int = 100, *, submitted: bool = False) -> str:
    """`report` as plain text, at most `width` columns; `submitted` as for `html.page`."""
    buffer = io.StringIO()
    show(
        report,
        Console(
            file=buffer, width=width, color_system=None, highlight=False, force_terminal=False, legacy_windows=False
        ),
        submitted=submitted,
    )
    return _stripped(buffer)
