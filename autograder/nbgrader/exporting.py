"""A lab as an assignment of an nbgrader course, which nbgrader then generates, releases, collects and grades.

The course gets the solution notebook, whose markers and metadata nbgrader understands as they are. What changes: a cell
that checks ends in the points, which nbgrader counts; cells that train or draw are not run while it grades; and handing
in is nbgrader's.
"""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

from autograder.cells import SKIPPED_TAGS
from autograder.release import Cell, ReleaseError, check_notebook, clean, marks_of, render, text_of, write
from autograder.spec import Lab, load_lab

NOT_RUN = "skip-execution"
"""The tag of cells that nbgrader, which runs notebooks with nbclient, passes over."""

SETTINGS = """\
c = get_config()  # noqa: F821  nbgrader puts it there
c.CourseDirectory.course_id = {course!r}
# The first check of a notebook may wait for the frameworks that know the answers.
c.Execute.timeout = 180
"""


def export(solution: Path, course: Path) -> list[Path]:
    """Write a lab into ``source/`` of an nbgrader course, and the course's settings where it has none.

    Parameters
    ----------
    solution : path of ``labs/solutions/LAB.ipynb``
    course : path
        The course's folder; made, if it is not there.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    ReleaseError
        The notebook can't be read or released, or the course can't be written.
    """
    try:
        notebook = json.loads(solution.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{solution.name}: can't be read as a notebook: {error}") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ReleaseError(f"{solution.name}: not a notebook: it has no cells.")
    name = solution.stem
    text = render(assignment(notebook, name))
    target = course / "source" / name / f"{name}.ipynb"
    settings = course / "nbgrader_config.py"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, text)
        if settings.exists():
            return [target]
        write(settings, SETTINGS.format(course=course.absolute().name))
    except OSError as error:
        raise ReleaseError(f"{error.filename or course}: {error.strerror or error}") from None
    return [target, settings]


def assignment(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """The source of an assignment from a solution notebook, which is left as it is."""
    check_notebook(notebook, name)
    lab = load_lab(name)
    cells = [converted(cell, lab) for cell in notebook["cells"] if "submit" not in tags_of(cell)]
    metadata = {
        key: notebook["metadata"][key] for key in ("kernelspec", "language_info") if key in notebook["metadata"]
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def tags_of(cell: Cell) -> list[str]:
    return list(cell.get("metadata", {}).get("tags", []))


def converted(cell: Cell, lab: Lab) -> Cell:
    """One cell, as the course has it."""
    made = deepcopy(clean(cell, text_of(cell).split("\n")))
    grade_id = marks_of(cell).get("grade_id", "")
    for task in lab.tasks:
        if grade_id == f"check-{task.name}":
            marks_of(made)["points"] = task.points  # the spec has the last word on what a task is worth
            made["source"] = [
                "from autograder.nbgrader import earned\n",
                "\n",
                f"earned({task.name!r}, lab={lab.name!r})".replace("'", '"'),
            ]
    if set(tags_of(cell)) & set(SKIPPED_TAGS):
        made["metadata"]["tags"] = [*tags_of(made), NOT_RUN]
    return made


def exported(labs: list[str], course: Path, folder: Path) -> list[Path]:
    """Export several labs by name; what was written.

    Raises
    ------
    ReleaseError
        As `export`; or the course is a file, or is this project itself.
    """
    if course.exists() and not course.is_dir():
        raise ReleaseError(f"{course} is not a folder.")
    if course.exists() and os.path.samefile(course, folder.parent):
        raise ReleaseError(f"{course} is the project itself; give the folder of an nbgrader course.")
    return [path for name in labs for path in export(folder / "solutions" / f"{load_lab(name).name}.ipynb", course)]
