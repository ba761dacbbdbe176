"""Commands for those who write labs and teach with them; `autograder.cli` hangs them on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from autograder.output import Refusal, say

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


def new_lab(
    name: Annotated[str, typer.Argument(help="As lab42_mine; what follows the number names its first task.")],
    title: Annotated[str, typer.Option("--title", help="What the lab is called, in words.")] = "",
) -> None:
    """Begin a lab: a notebook, a spec, a driver, mutants and a test that pass as they are, with one worked task."""
    from autograder import newlab

    try:
        written = newlab.new_lab(name, title)
    except newlab.NewLabError as error:
        raise Refusal(str(error).removeprefix("new-lab: ")) from None
    for path in written:
        say(os.fspath(path))
    say(f"Try it: pytest tests/labs/test_{name}.py; pytest tests/mutants -k {name}; autograder lint-specs {name}")
