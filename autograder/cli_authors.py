"""Commands for those who write labs and teach with them; `autograder.cli` hangs them on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from autograder.output import Refusal, complain, say

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


def luck(
    lab: Annotated[str, typer.Argument(metavar="LAB", help="As lab05_tape.")],
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK...]", help="Which; all, if none is named.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many times cases are drawn.")] = 10,
    seed: Annotated[int | None, typer.Option("--seed", help="The first seed; the others follow it.")] = None,
    root: Root = Path(),
) -> None:
    """Grade a lab's mutants at many seeds: say which wrong ones pass, and which right ones fail, by luck alone."""
    import secrets

    from autograder import luck
    from autograder.spec import load_lab

    first = secrets.randbits(31) if seed is None else seed
    if not 0 <= first <= 2**32 - seeds:
        raise Refusal(f"--seed {first}: give a whole number from 0 to {2**32 - seeds}.")
    try:
        code = luck.main(load_lab(lab), tasks or [], project(root), range(first, first + seeds))
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


def export_nbgrader(
    labs: Annotated[list[str], typer.Argument(metavar="LAB...", help="Which.")],
    course: Annotated[Path, typer.Option("--course", metavar="FOLDER", help="An nbgrader course, new or not.")],
    root: Root = Path(),
) -> None:
    """Write labs as assignments of an nbgrader course; their test cells call this grader."""
    from autograder.nbgrader.exporting import exported
    from autograder.release import ReleaseError

    try:
        for path in exported(labs, course, project(root) / "labs"):
            say(os.fspath(path))
    except (ReleaseError, ValueError) as error:
        raise Refusal(str(error)) from None
    say(f"Next, in {course}: nbgrader generate_assignment {labs[0]}")


def import_nbgrader(
    notebook: Annotated[Path, typer.Argument(metavar="NOTEBOOK", help="As in the course's source/, with solutions.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the lab, as lab42_mine.")],
    title: Annotated[str, typer.Option("--title", help="What the lab is called, in words.")] = "",
) -> None:
    """Make a lab of an nbgrader assignment. It grades at once; lint-specs says what it still lacks."""
    from autograder.nbgrader.importing import import_notebook
    from autograder.newlab import NewLabError
    from autograder.output import printable

    try:
        made = import_notebook(notebook, name, title)
    except NewLabError as error:
        raise Refusal(str(error).removeprefix("new-lab: ")) from None
    for path in made.written:
        say(os.fspath(path))
    for remark in made.remarks:
        complain(printable(remark))
    say(f"{len(made.tasks)} tasks, {len(made.questions)} questions for a person. Next: autograder lint-specs {name}")


def similarity(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Notebooks of one lab, two or more.")],
    template: Annotated[
        Path | None, typer.Option("--template", metavar="FILE", help="What they began from; labs/LAB.ipynb, else.")
    ] = None,
    threshold: Annotated[float, typer.Option("--threshold", min=0, max=1, help="The least share to report.")] = 0.5,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="OUT", help="Write a page to read side by side.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Say which submissions share code that the lab did not give them. A person must read them before judging."""
    from autograder import similarity as comparing
    from autograder.notebook import NotebookError, read_notebook
    from autograder.output import printable, write_file

    read, unread, labs = {}, {}, set()
    for file in files:
        try:
            notebook = read_notebook(file)
        except (NotebookError, OSError) as error:
            unread[os.fspath(file)] = str(error)
            continue
        read[os.fspath(file)] = notebook.cells
        labs.add(notebook.lab)
    if len(labs) > 1:
        known = ", ".join(sorted(name or "none named" for name in labs))
        raise Refusal(f"these notebooks belong to several labs: {known}. Compare those of one.")
    if len(read) < 2:
        raise Refusal(f"two notebooks or more can be compared; {len(read)} of {len(files)} could be read.")
    lab = labs.pop()
    given = template if template is not None else released(lab)
    try:
        start = read_notebook(given).cells
    except (NotebookError, OSError) as error:
        raise Refusal(f"the notebook they began from can't be read: {error} Name it with --template.") from None
    found = comparing.similarity(read.items(), start, lab=lab, threshold=threshold)
    found.unread = unread
    if html is not None:
        from autograder.feedback.html import similarity_page

        write_file(html, similarity_page(found))
    if as_json:
        say(found.to_json())
        return
    for pair in found.pairs:
        say(f"{pair.share:4.0%}  {printable(pair.one)}  {printable(pair.other)}")
    for name, why in unread.items():
        complain(f"not read: {printable(name)}: {why}")
    say(
        f"{len(found.pairs)} of {len(found.compared) * (len(found.compared) - 1) // 2} pairs share {threshold:.0%} or "
        f"more; {len(found.too_short)} notebooks have too little code of their own to compare."
    )


def released(lab: str) -> Path:
    """The learner's notebook of a lab."""
    from autograder.release import labs_folder

    return labs_folder() / f"{lab or 'LAB'}.ipynb"
