"""A lab to start from: a notebook, a spec, a driver, mutants and a test, which pass as they are.

The files in ``autograder/starter`` hold one worked task. ``{{NAME}}``, ``{{TITLE}}``, ``{{NUMBER}}`` and ``{{TASK}}``
in them are filled in; a contributor then turns the task into theirs.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from autograder.release import ReleaseError, released_text, render
from autograder.spec import lab_names, load_lab

PACKAGE = Path(__file__).parent
STARTER = PACKAGE / "starter"
NAME = re.compile(r"lab(\d\d)_([a-z][a-z0-9_]*)")
Cell = dict[str, Any]


class NewLabError(ValueError):
    """One line: why no lab of that name can be begun."""


def new_lab(name: str, title: str = "", root: Path | None = None) -> list[Path]:
    """Write the files of a new lab; what was written. All are written, or none.

    Parameters
    ----------
    name : str
        As ``lab42_mine``; what follows the number becomes the name of its first task.
    title : str, optional
        What the lab is called in words.
    root : Path, optional
        The project's folder; by default the one this package runs from, the only one in which it can be graded.

    Raises
    ------
    NewLabError
        A name that is taken, or has another form; a project that holds no labs.
    """
    root = PACKAGE.parent if root is None else root
    number, task = refuse_name(name, root)
    if task in {one.name for known in lab_names() for one in load_lab(known).parts}:
        raise NewLabError(f"new-lab: some lab has a task {task!r} already; names of tasks are used once.")
    words = {"NAME": name, "NUMBER": str(int(number)), "TASK": task, "TITLE": title_of(title, task)}
    specs, drivers = root / "autograder" / "specs", root / "autograder" / "drivers"
    texts = {
        root / "labs" / "solutions" / f"{name}.ipynb": render(notebook(filled("notebook", words), name)),
        specs / f"{name}.py": filled("spec", words),
        drivers / f"{name}.py": filled("driver", words),
        root / "tests" / "mutants" / name / f"{task}.py": filled("mutants", words),
        root / "tests" / "labs" / f"test_{name}.py": filled("test", words),
    }
    released = root / "labs" / f"{name}.ipynb"
    for path in [*texts, released]:
        if path.exists():
            raise NewLabError(f"new-lab: {path} is there already; move it away first.")
    written: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            write_new(path, text, written)
        importlib.invalidate_caches()
        write_new(released, released_text(root / "labs" / "solutions" / f"{name}.ipynb"), written)
    except (OSError, ReleaseError) as error:
        for path in written:
            path.unlink(missing_ok=True)
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise NewLabError(f"new-lab: {why}; nothing was kept.") from None
    return written


def refuse_name(name: str, root: Path) -> tuple[str, str]:
    """The number and the word of a lab's name, where a lab of that name can be begun in the project at `root`.

    Raises
    ------
    NewLabError
        It can't.
    """
    match = NAME.fullmatch(name)
    if match is None:
        raise NewLabError(f"new-lab: {name!r} is no name for a lab; give lab, two digits, and a word: lab42_mine.")
    if len(name) > 40:
        raise NewLabError(f"new-lab: {name[:40]}... has {len(name)} letters; 40 are the most.")
    if not (root / "labs" / "solutions").is_dir() or not (root / "tests" / "labs").is_dir():
        raise NewLabError(f"new-lab: {root} has no labs/solutions and tests/labs; work in a checkout of the project.")
    number, word = match.groups()
    for known in lab_names():
        if known[:5] == name[:5]:
            raise NewLabError(f"new-lab: there is a lab {number} already, {known}; take another number.")
    return number, word


def title_of(title: str, task: str) -> str:
    """The title, as it can stand in a heading and in a Python string.

    Raises
    ------
    NewLabError
        It can't.
    """
    title = title.strip() or task.replace("_", " ").capitalize()
    if not title.isprintable() or len(title) > 80 or set(title) & set('"\\{}'):
        raise NewLabError("new-lab: a title is one line of at most 80 characters, without quotes, backslashes, braces.")
    return title


def filled(starter: str, words: dict[str, str]) -> str:
    text = (STARTER / f"{starter}.txt").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match[1]], text)


def write_new(path: Path, text: str, written: list[Path]) -> None:
    with open(path, "x", encoding="utf-8", newline="\n") as file:
        written.append(path)
        file.write(text)


def notebook(text: str, name: str) -> dict[str, Any]:
    """A solution notebook from its cells, one after another, each below ``%%%% markdown`` or ``%%%% code ...``."""
    cells = []
    for number, section in enumerate(re.split(r"^%%%% ", text, flags=re.MULTILINE)[1:]):
        head, _, source = section.partition("\n")
        cells.append(made_cell(head.split(), source.rstrip("\n"), f"{name}-{number}".replace("_", "-")))
    return {
        "cells": cells,
        "metadata": {
            "autograder": {"lab": name, "version": 1},
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def made_cell(head: list[str], source: str, identity: str) -> Cell:
    """A cell; its head is "markdown", "code TAGS", "code locked ID", "code solution ID" or "code check ID N"."""
    metadata: dict[str, Any] = {}
    match head:
        case ["code", "locked", grade_id]:
            metadata["nbgrader"] = marks(grade_id, locked=True)
        case ["code", "solution", grade_id]:
            metadata["nbgrader"] = marks(grade_id, solution=True)
        case ["code", "check", grade_id, points]:
            metadata["nbgrader"] = marks(f"check-{grade_id}", grade=True, locked=True) | {"points": int(points)}
            metadata["tags"] = ["nbval-ignore-output"]
        case ["code", tags]:
            metadata["tags"] = tags.split(",")
    cell: Cell = {
        "cell_type": head[0],
        "id": identity,
        "metadata": metadata,
        "source": source.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if head[0] == "code" else {})


def marks(grade_id: str, *, grade: bool = False, solution: bool = False, locked: bool = False) -> dict[str, Any]:
    """nbgrader's metadata of a cell."""
    kind = {"grade": grade, "solution": solution, "locked": locked, "task": False}
    return {"grade_id": grade_id, "schema_version": 3} | kind
