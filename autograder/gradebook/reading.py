"""The commands by which an instructor reads answers in words: ``written list | show | score``.

Nothing of the database is imported before a command runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from autograder.gradebook.commands import By, Where, known_lab, opened, who
from autograder.output import Refusal, printable, say

Number = Annotated[int, typer.Argument(metavar="SUBMISSION", help="Its number.")]


def listed(
    lab: Annotated[str, typer.Option("--lab", help="Only this lab.")] = "",
    gradebook: Where = "",
) -> None:
    """Say which answers nobody has read yet, oldest first."""
    from autograder.gradebook.written import awaited

    if lab:
        known_lab(lab)
    with opened(gradebook) as book:
        waiting = awaited(book, lab=lab or None)
    for one in waiting:
        came = one.came.strftime("%Y-%m-%d %H:%M UTC")
        say(f"{one.submission}  {one.lab}/{one.task}  {printable(one.learner)}  {one.max_points:g} points  {came}")
    say("Nothing waits to be read." if not waiting else f"{len(waiting)} to read.")


def shown(submission: Number, gradebook: Where = "") -> None:
    """Print the answers of a submission, with what earns their points."""
    from autograder.gradebook.written import answers

    with opened(gradebook) as book:
        found = answers(book, submission)
    if not found:
        raise Refusal(f"submission {submission} has no answers in words, or is not graded yet.")
    for one in found:
        given = "not read yet"
        if one.score is not None:
            comment = f": {printable(one.score.comment)}" if one.score.comment else ""
            given = f"{one.score.points:g} by {printable(one.score.by)}{comment}"
        say(f"--- {one.lab}/{one.task} of {printable(one.learner)}: {one.title} ({one.max_points:g} points; {given})")
        say("\n".join(map(printable, one.text.split("\n"))) or "(nothing is written)")
        if one.rubric:
            say(f"--- What earns the points: {one.rubric}")


def scored(
    submission: Number,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The question's name.")],
    points: Annotated[float, typer.Argument(metavar="POINTS", help="From 0 to what it is worth.")],
    comment: Annotated[str, typer.Option("--comment", metavar="TEXT", help="For the learner.")] = "",
    by: By = "",
    gradebook: Where = "",
) -> None:
    """Give an answer its points. They stand for the same words in the learner's other submissions, too."""
    from autograder.gradebook.scores import mark
    from autograder.gradebook.written import answers, score

    with opened(gradebook) as book:
        given = score(book, submission, task, points, by=who(by), comment=comment)
        one = next(one for one in answers(book, submission) if one.task == task)
        found = mark(book, learner=one.learner, lab=one.lab)
    also = f", and for {', '.join(map(str, given[1:]))}" if given[1:] else ""
    say(
        f"{one.lab}/{task} of {printable(one.learner)}: {points:g} of {one.max_points:g}, submission {submission}{also}"
    )
    if found is not None and found.points is not None and found.max_points is not None:
        say(f"the mark is {found.points:g} of {found.max_points:g}")


def add_to(app: typer.Typer) -> None:
    """Make these commands of a set of commands."""
    for name, command in (("list", listed), ("show", shown), ("score", scored)):
        app.command(name)(command)
