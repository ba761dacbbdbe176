"""The learner's notebook, made from the solution notebook: holes for answers, no outputs, nothing else changed.

What stands between ``### BEGIN SOLUTION`` and ``### END SOLUTION`` (nbgrader's own markers) becomes a hole. The result
is a function of the source alone, byte for byte, so that a test can hold the two together.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.written import HOLE, PLACEHOLDER

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
BLANK = (PLACEHOLDER,)
"""The hole in a Markdown cell. Its markers may stand in comments: ``<!-- ### BEGIN SOLUTION -->``."""

NBGRADER: dict[str, tuple[type, ...]] = {
    "schema_version": (int,),
    "grade_id": (str,),
    "grade": (bool,),
    "solution": (bool,),
    "locked": (bool,),
    "task": (bool,),
    "points": (int, float),
    "cell_type": (str,),
    "checksum": (str,),
}
"""Fields of nbgrader's cell metadata, schema version 3. The first six are required; others are not allowed."""

GRADE_ID = re.compile(r"[A-Za-z0-9_-]+")
Cell = dict[str, Any]


class ReleaseError(ValueError):
    """One line: what is wrong with a solution notebook."""


def release(solution: dict[str, Any], name: str) -> dict[str, Any]:
    """The learner's notebook.

    Parameters
    ----------
    solution : dict
        A notebook as JSON reads it, nbformat 4.5.
    name : str
        The lab it belongs to; its file name without suffix.

    Raises
    ------
    ReleaseError
        Markers that are unbalanced, nested or out of place; cell metadata that nbgrader would refuse; a task of the lab
        without its cell; a solution line that would still be there.
    """
    check_notebook(solution, name)
    cells, answers = [], []
    for number, cell in enumerate(solution["cells"], 1):
        where = f"{name}, cell {number}"
        lines, removed = cut(text_of(cell), where, HOLE if cell["cell_type"] == "code" else BLANK)
        if removed and not marks_of(cell).get("solution"):
            raise ReleaseError(
                f"{where}: {BEGIN} in a cell that nbgrader does not take for a solution; set its metadata."
            )
        if marks_of(cell).get("solution") and not removed:
            raise ReleaseError(f"{where}: a solution cell without {BEGIN} would be released with its answer.")
        answers += [line.strip() for line in removed]
        cells.append(clean(cell, lines))
    left = leaks(cells, answers)
    if left:
        raise ReleaseError(f"{name}: the released notebook would still show a solution line: {left[0]!r}.")
    return {
        "cells": cells,
        "metadata": {
            "autograder": solution["metadata"]["autograder"],
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def text_of(cell: Cell) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def marks_of(cell: Cell) -> dict[str, Any]:
    """The cell's nbgrader metadata; empty where it has none."""
    return cell.get("metadata", {}).get("nbgrader", {})


def cut(source: str, where: str, hole: Sequence[str] = HOLE) -> tuple[list[str], list[str]]:
    """The lines of a cell with a hole for each solution, and the lines that were cut out.

    Raises
    ------
    ReleaseError
        A marker without its partner, or one inside another.
    """
    kept: list[str] = []
    removed: list[str] = []
    began = 0
    for number, line in enumerate(source.split("\n"), 1):
        if BEGIN in line:
            if began:
                raise ReleaseError(f"{where}, line {number}: {BEGIN} inside the solution that began in line {began}.")
            began = number
            indent = line[: len(line) - len(line.lstrip())]
            kept += [indent + part for part in hole]
        elif END in line:
            if not began:
                raise ReleaseError(f"{where}, line {number}: {END} without {BEGIN} before it.")
            began = 0
        elif began:
            removed.append(line)
        else:
            kept.append(line)
    if began:
        raise ReleaseError(f"{where}: {BEGIN} in line {began} has no {END}.")
    return kept, removed


def clean(cell: Cell, lines: list[str]) -> Cell:
    """The cell as a learner first sees it: no outputs, and of its metadata only what means something to them."""
    metadata = {key: cell["metadata"][key] for key in ("nbgrader", "tags") if key in cell["metadata"]}
    # How this project tests the notebook concerns no learner.
    metadata["tags"] = [tag for tag in metadata.get("tags", []) if not tag.startswith("nbval")]
    if not metadata["tags"]:
        del metadata["tags"]
    source = [line + "\n" for line in lines[:-1]] + lines[-1:]
    released: Cell = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": metadata, "source": source}
    if cell["cell_type"] == "code":
        released |= {"execution_count": None, "outputs": []}
    return released


def leaks(cells: Sequence[Cell], answers: Sequence[str]) -> list[str]:
    """Lines of solutions that are in the released cells all the same; those too short to tell anything don't count."""
    there = {line.strip() for cell in cells for line in text_of(cell).split("\n")}
    told = {line for line in answers if len(line) >= 12 and not line.startswith("#")} - set(HOLE)
    return sorted(told & there)


def check_notebook(notebook: dict[str, Any], name: str) -> None:
    """Refuse what is not a solution notebook of the lab `name`.

    Raises
    ------
    ReleaseError
        See `release`.
    """
    if notebook.get("nbformat") != 4 or notebook.get("nbformat_minor", 0) < 5:
        raise ReleaseError(f"{name}: nbformat 4.5 is needed, for stable cell ids; save it from JupyterLab.")
    named = notebook.get("metadata", {}).get("autograder", {})
    if named.get("lab") != name:
        raise ReleaseError(f"{name}: its metadata say it is lab {named.get('lab')!r}; expected {name!r}.")
    seen: dict[str, Cell] = {}
    for number, cell in enumerate(notebook["cells"], 1):
        marks = marks_of(cell)
        if not marks:
            continue
        where = f"{name}, cell {number}"
        for problem in nbgrader_problems(marks, cell["cell_type"]):
            raise ReleaseError(f"{where}: nbgrader metadata: {problem}.")
        if marks["grade_id"] in seen:
            raise ReleaseError(f"{where}: the grade_id {marks['grade_id']!r} is used twice.")
        seen[marks["grade_id"]] = cell
    from autograder.spec import lab_names, load_lab

    try:
        lab = load_lab(name)
    except ValueError as error:
        todo = "" if name in lab_names() else f" Write its spec first, autograder/specs/{name}.py."
        raise ReleaseError(f"{name}: {error}{todo}") from None
    for task in lab.tasks:
        for grade_id in (task.name, f"check-{task.name}"):
            if grade_id not in seen:
                raise ReleaseError(f"{name}: no cell has the grade_id {grade_id!r}.")
    for question in lab.written:
        answer = seen.get(question.name)
        if answer is None:
            raise ReleaseError(f"{name}: no cell has the grade_id {question.name!r}.")
        marks = marks_of(answer)
        if not (marks["solution"] and marks["grade"]):
            raise ReleaseError(f"{name}: the cell {question.name!r} is to be a solution that is graded.")
        if marks.get("points") != question.points:
            raise ReleaseError(
                f"{name}: the cell {question.name!r} is worth {marks.get('points')} points, the question "
                f"{question.points:g}."
            )
    words = {question.name for question in lab.written}
    for grade_id, cell in seen.items():
        if marks_of(cell).get("solution") and cell["cell_type"] != "code" and grade_id not in words:
            raise ReleaseError(f"{name}: {grade_id!r} is a solution in words, which its spec does not list as written.")


def nbgrader_problems(marks: dict[str, Any], cell_type: str) -> Iterator[str]:
    """What nbgrader would refuse in a cell's metadata."""
    for field, types in NBGRADER.items():
        if field not in marks:
            if field in list(NBGRADER)[:6]:
                yield f"{field} is missing"
        elif not isinstance(marks[field], types) or (isinstance(marks[field], bool) and bool not in types):
            yield f"{field} is {marks[field]!r}"
    yield from (f"{field} is not a field of schema version 3" for field in marks if field not in NBGRADER)
    if marks.get("schema_version") != 3:
        yield f"schema_version is {marks.get('schema_version')!r}; 3 is needed"
    if not GRADE_ID.fullmatch(str(marks.get("grade_id", ""))):
        yield f"grade_id {marks.get('grade_id')!r} has characters other than letters, digits, - and _"
    if marks.get("grade") and marks.get("points", -1) < 0:
        yield "a graded cell needs points, 0 or more"
    if marks.get("grade") and not marks.get("solution") and not marks.get("locked"):
        yield "a cell that grades must be locked"
    if marks.get("solution") and cell_type not in ("code", "markdown"):
        yield f"a solution is a code or a Markdown cell, not {cell_type!r}"
    if marks.get("solution") and cell_type == "markdown" and not marks.get("grade"):
        yield "an answer in words is graded by hand; set grade, and points"


def render(notebook: dict[str, Any]) -> str:
    """A notebook as a file, always in the same bytes."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def released_text(source: Path) -> str:
    """What the released file of a solution notebook has in it.

    Raises
    ------
    ReleaseError
        The file can't be read, or see `release`.
    """
    try:
        notebook = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{source.name}: can't be read as a notebook: {error}") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ReleaseError(f"{source.name}: not a notebook: it has no cells.")
    return render(release(notebook, source.stem))


def holds_work(path: Path) -> bool:
    """Whether somebody has worked in a released notebook: filled a hole or run a cell, or we can't tell."""
    if not path.exists():
        return False
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        words = [cell for cell in cells if cell["cell_type"] == "markdown" and marks_of(cell).get("solution")]
        return any(PLACEHOLDER not in text_of(cell) for cell in words) or any(
            cell.get("outputs")
            or cell.get("execution_count")
            or (marks_of(cell).get("solution") and not has_hole(cell))
            for cell in code
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return True


def has_hole(cell: Cell) -> bool:
    return HOLE[-1] in text_of(cell)


def write(target: Path, text: str) -> None:
    """Replace a file in one step: it is the old one or the new one, whatever happens meanwhile."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="\n", dir=target.parent, suffix=".tmp", delete=False
    ) as file:
        file.write(text)
    try:
        os.chmod(file.name, 0o644)
        os.replace(file.name, target)
    except OSError:
        os.unlink(file.name)
        raise


def labs_folder() -> Path:
    """``labs`` in the current directory if there is one with solutions, else the one of this project."""
    here = Path.cwd() / "labs"
    return here if (here / "solutions").is_dir() else Path(__file__).parents[1] / "labs"


def main(arguments: Sequence[str]) -> int:
    """``[--check] [--force] [LAB...]``: write the released notebooks, or say which are out of step. The exit code."""
    check, force = "--check" in arguments, "--force" in arguments
    wanted = [name for name in arguments if name not in ("--check", "--force")]
    folder = labs_folder()
    sources = {path.stem: path for path in sorted((folder / "solutions").glob("lab*.ipynb"))}
    chosen: list[str] = []
    for name in wanted or sources:
        matches = [known for known in sources if known == name] or [
            known for known in sources if known.startswith(name)
        ]
        if len(matches) != 1:
            there = f"there are {', '.join(sources)}" if sources else "there are none"
            print(
                f"release: no solution notebook is called {name!r} in {folder / 'solutions'}; {there}.", file=sys.stderr
            )
            return 2
        chosen += matches
    code = 0
    for name in chosen:
        target = folder / f"{name}.ipynb"
        try:
            text = released_text(sources[name])
            if check:
                current = target.read_text(encoding="utf-8") if target.exists() else None
                if current != text:
                    state = "is missing" if current is None else "is out of step with its solution"
                    print(f"release: {target} {state}. Run: autograder release {name}", file=sys.stderr)
                    code = 1
            elif not force and holds_work(target):
                raise ReleaseError(
                    f"{target} has answers or outputs in it, which would be lost. "
                    "Move it away first, or write over it with --force."
                )
            else:
                write(target, text)
                print(f"{target}")
        except (ReleaseError, OSError) as error:
            print(f"release: {error}", file=sys.stderr)
            code = 1
    if check and code == 0:
        print(f"{len(chosen)} released notebook{'s are' if len(chosen) != 1 else ' is'} in step with the solutions.")
    return code
