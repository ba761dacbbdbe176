"""The command that tells people of grades: ``notices``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from autograder.gradebook.commands import Where, opened
from autograder.output import Refusal, complain, printable, say


def notices(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS", help="A TOML file; see the instructor's page.")],
    once: Annotated[bool, typer.Option("--once", help="Look once, send what is due, and end.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Between two looks.")] = 10.0,
    gradebook: Where = "",
) -> None:
    """Tell people by mail or webhook that their work is graded, until stopped."""
    from autograder.gradebook import GradebookError, home
    from autograder.notices import grades
    from autograder.notices.outbox import Outbox
    from autograder.notices.settings import SettingsError, read

    try:
        told = read(settings)
    except SettingsError as error:
        raise Refusal(str(error)) from None
    outbox = Outbox(home() / "outbox")
    with outbox.alone() as alone:
        if not alone:
            raise Refusal(f"{outbox.folder}: another `autograder notices` works on it.")
        while True:
            try:
                with opened(gradebook) as book:
                    grades.collect(book, outbox, told)
                    went, failed = grades.deliver(book, outbox, told, settings.parent)
            except (GradebookError, Refusal) as error:
                if once:
                    raise
                complain(str(error))  # the gradebook may come back
                went = failed = 0
            if went or failed:
                say(f"{went} sent, {failed} not sent, {len(outbox.waiting())} wait.")
            for message in outbox.waiting() if failed else ():
                if message.fault:
                    complain(printable(message.fault))
            if once:
                return
            time.sleep(every)


def add_to(app: typer.Typer) -> None:
    app.command("notices")(notices)
