"""Commands for those who write labs and teach with them; `autograder.cli` hangs them on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.output import Refusal

Root = Annotated[Path, typer.Option("--project", metavar="FOLDER", help="Where labs/ and tests/ are.")]


def lint_specs(
    labs: Annotated[list[str] | None, typer.Argument(metavar="[LAB...]", help="Which; all, if none is named.")] = None,
    mutants: Annotated[bool, typer.Option("--mutants", help="Grade every wrong answer, too; takes minutes.")] = False,
    root: Root = Path(),
) -> None:
    """Say what is wrong with specs: mutants or hints that lack, tame inputs, a tolerance that forgives mistakes."""
    from autograder import lint

    try:
        code = lint.main(labs or [], project(root), mutants=mutants)
    except ValueError as error:
        raise Refusal(str(error)) from None
    raise typer.Exit(code)


def project(root: Path) -> Path:
    """The project's folder.

    Raises
    ------
    Refusal
        It has no solutions in it.
    """
    if not (root / "labs" / "solutions").is_dir():
        raise Refusal(f"{root.absolute()} has no labs/solutions in it; go to the project's folder, or give --project.")
    return root.absolute()
