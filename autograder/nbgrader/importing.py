"""An nbgrader assignment as a lab of ours: a notebook, a spec and a driver that grade at once, and may then grow.

Test cells become the parts of a task, solution cells what the learner writes, cells graded by hand questions that a
person reads. What has no counterpart is told, not dropped in silence.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.cells import make_cell, parse, to_python
from autograder.nbgrader.asserted import TestCell
from autograder.newlab import PACKAGE, NewLabError, filled, refuse_name, title_of, write_new
from autograder.notebook import MAX_CELLS, NotebookError, read_bytes
from autograder.release import BEGIN, END, ReleaseError, released_text, render, text_of

Cell = dict[str, Any]
REGIONS = {"hidden": "HIDDEN TESTS", "scheme": "MARK SCHEME"}
NO_MODEL = "The assignment gave no model answer."


@dataclass
class Group:
    """Solution cells with the test cells that judge them: one task."""

    names: list[str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    tests: list[TestCell] = field(default_factory=list)
    upto: int = 0
    """How many cells of the solution stand before its tests."""
    name: str = ""


@dataclass
class Question:
    """A cell graded by hand."""

    name: str
    title: str
    points: float
    rubric: str


@dataclass
class Imported:
    """What was made of an assignment."""

    written: list[Path] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What is left to be done by hand."""


def import_notebook(path: Path, name: str, title: str = "", root: Path | None = None) -> Imported:
    """Make a lab of one notebook of an nbgrader course, as it stands in the course's ``source`` folder.

    Parameters
    ----------
    path : path of an ``.ipynb`` file with solutions in it
    name : str
        Of the lab, as ``lab42_mine``.
    title : str, optional
        By default, the notebook's first heading.
    root : path, optional
        The project's folder; by default the one this package runs from.

    Raises
    ------
    NewLabError
        The file is no assignment of nbgrader's, or no lab of that name can be begun.
    """
    root = PACKAGE.parent if root is None else root
    number, word = refuse_name(name, root)
    notebook = read(path)
    made = Reading(notebook["cells"], name, word)
    made.read()
    title = title_of(title or made.heading, word)
    if not made.groups and not made.questions:
        raise NewLabError(f"{path.name}: no cell in it is graded; give an assignment's source notebook.")
    words = {"NAME": name, "NUMBER": str(int(number)), "TITLE": title, "TASK": word}
    specs = root / "autograder" / "specs"
    texts = {
        root / "labs" / "solutions" / f"{name}.ipynb": render(document(made.cells, name)),
        specs / f"{name}.py": spec_text(made, words),
        root / "autograder" / "drivers" / f"{name}.py": filled("imported_driver", words),
        root / "tests" / "labs" / f"test_{name}.py": filled("imported_test", words),
    }
    if made.groups:
        texts[specs / f"_{name}_tests.py"] = tests_text(made)
    released = root / "labs" / f"{name}.ipynb"
    for target in [*texts, released]:
        if target.exists():
            raise NewLabError(f"{target} is there already; move it away first.")
    beside = sorted(one.name for one in path.parent.iterdir() if one.is_file() and one.suffix != ".ipynb")
    if beside:
        made.remarks.append(f"Files beside the notebook are not copied: {', '.join(beside)}.")
    result = Imported([], [group.name for group in made.groups], [one.name for one in made.questions], made.remarks)
    try:
        for target, text in texts.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_new(target, text, result.written)
        importlib.invalidate_caches()
        write_new(released, released_text(root / "labs" / "solutions" / f"{name}.ipynb"), result.written)
    except (OSError, ReleaseError) as error:
        for written in result.written:
            written.unlink(missing_ok=True)
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise NewLabError(f"{why}; nothing was kept.") from None
    return result


def read(path: Path) -> dict[str, Any]:
    """The notebook, with cells that are cells."""
    try:
        notebook = json.loads(read_bytes(path).decode("utf-8-sig"))
    except NotebookError as error:
        raise NewLabError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise NewLabError(f"{path.name}: not a notebook: {str(error)[:120]}.") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or notebook.get("nbformat") != 4:
        raise NewLabError(f"{path.name}: not a notebook of format 4; open it in JupyterLab and save it.")
    if len(cells) > MAX_CELLS:
        raise NewLabError(f"{path.name}: {len(cells)} cells, at most {MAX_CELLS} are read.")
    for position, cell in enumerate(cells, 1):
        lines = cell.get("source") if isinstance(cell, dict) else None
        text = isinstance(lines, str) or (isinstance(lines, list) and all(isinstance(line, str) for line in lines))
        if not text or not isinstance(cell.get("metadata"), dict):
            raise NewLabError(f"{path.name}: cell {position} is not a cell: a source and metadata are needed.")
    metadata = notebook.get("metadata")
    language = metadata.get("kernelspec", {}).get("language", "python") if isinstance(metadata, dict) else "python"
    if str(language).lower() not in ("python", ""):
        raise NewLabError(f"{path.name}: a {str(language)[:40]} notebook; the labs are Python.")
    return dict(notebook)


class Reading:
    """Goes through an assignment's cells once, and collects what they become."""

    def __init__(self, cells: Sequence[Cell], lab: str, word: str) -> None:
        self.given, self.lab, self.word = cells, lab, word
        self.cells: list[Cell] = []
        self.groups: list[Group] = []
        self.questions: list[Question] = []
        self.remarks: list[str] = []
        self.solution: list[str] = []
        self.heading = ""
        self.taken: set[str] = {"imports", "submit"}
        self.open: Group | None = None

    def read(self) -> None:
        """Fill in everything."""
        self.add("code", "from autograder import check, submit", marks=self.marks("imports", locked=True))
        for position, cell in enumerate(self.given, 1):
            found = cell["metadata"].get("nbgrader")
            marks = found if isinstance(found, dict) else {}
            self.take(position, str(cell.get("cell_type")), text_of(cell), marks)
        self.close()
        self.add("code", "submit()", tags=["submit", "nbval-skip"])

    def take(self, position: int, kind: str, text: str, marks: dict[str, Any]) -> None:
        """One cell of the assignment."""
        solution, grade = bool(marks.get("solution")), bool(marks.get("grade"))
        if kind == "code" and solution and not grade:
            self.solve(text, str(marks.get("grade_id", "")))
        elif kind == "code" and grade and not solution:
            self.test(position, text, marks)
        elif kind in ("code", "markdown") and ((solution and grade) or marks.get("task")):
            self.ask(position, kind, text, marks)
        elif kind in ("code", "markdown", "raw"):
            if kind == "markdown" and not self.heading:
                heading = re.search(r"^#\s+(.+?)\s*$", text, flags=re.MULTILINE)
                self.heading = re.sub(r'["\\{}]', "", heading[1])[:80] if heading else ""
            if kind == "code":
                self.remember(text)
            self.add(kind, text)

    def solve(self, text: str, grade_id: str) -> None:
        if self.open is not None and self.open.tests:
            self.close()
        self.open = self.open or Group()
        tree = parse(to_python(text)[0])
        names = [one.name for one in tree.body if isinstance(one, (ast.FunctionDef, ast.ClassDef))] if tree else []
        self.open.names += names or sorted(make_cell(1, text).defines)
        self.remember(text)
        marked = self.add("code", with_markers(text), marks={"grade_id": grade_id})
        self.open.cells.append(marked)

    def test(self, position: int, text: str, marks: dict[str, Any]) -> None:
        points, name = marks.get("points", 0), str(marks.get("grade_id", ""))
        shown, _ = without(text, REGIONS["hidden"])
        whole = re.sub(r"^.*(?:BEGIN|END) HIDDEN TESTS.*\n?", "", text, flags=re.MULTILINE)
        if shown.strip():
            self.add("code", shown.strip("\n"))
        problem = (
            "it has no solution cell before it"
            if self.open is None or not self.open.names
            else "it is worth no points"
            if isinstance(points, bool) or not isinstance(points, (int, float)) or points <= 0
            else "it is a template of tests (AUTOTEST); import what `nbgrader generate_assignment` makes of it"
            if "AUTOTEST" in text
            else "it can't be read as Python"
            if make_cell(1, whole).problem
            else "there is nothing in it"
            if not ast.parse(to_python(whole)[0]).body
            else ""
        )
        if problem:
            self.remarks.append(f"Cell {position}, the tests {name!r}, judges nothing here: {problem}.")
            return
        assert self.open is not None
        self.open.tests.append(TestCell(name, float(points), whole.strip("\n")))
        self.open.upto = len(self.solution)

    def ask(self, position: int, kind: str, text: str, marks: dict[str, Any]) -> None:
        self.close()
        points = marks.get("points", 0)
        text, scheme = without(text, REGIONS["scheme"])
        name = self.unique(str(marks.get("grade_id", "")))
        if isinstance(points, bool) or not isinstance(points, (int, float)) or points <= 0:
            self.remarks.append(f"Cell {position}, {name!r}, is worth no points; it is kept as it is.")
            self.add(kind, text)
            return
        if marks.get("task"):
            self.add(kind, text)
            kind, text = "markdown", ""
            self.remarks.append(f"Cell {position}, {name!r}, asks for any cells; one for words stands below it.")
        if kind == "code":
            self.remember(text)
        answer = {"solution": True, "grade": True, "points": points}
        self.add(kind, with_markers(text or NO_MODEL, kind), marks=self.marks(name) | answer)
        before = next((text_of(one) for one in reversed(self.cells[:-1]) if one["cell_type"] == "markdown"), "")
        self.questions.append(Question(name, heading_of(before) or name, float(points), scheme))

    def remember(self, text: str) -> None:
        if not make_cell(1, text).problem:
            self.solution.append(re.sub(r"^.*(?:BEGIN|END) SOLUTION.*\n?", "", text, flags=re.MULTILINE))

    def close(self) -> None:
        """The open group is complete: name it, and check it where its tests end."""
        group, self.open = self.open, None
        if group is None:
            return
        points = sum(one.points for one in group.tests)
        if not group.tests:
            # A solution that nothing tests is still a hole to fill, and nobody's task.
            names = ", ".join(group.names) or "a solution"
            self.remarks.append(f"No test judges {names}; the released notebook keeps it as it is.")
            for cell in group.cells:
                cell["metadata"].pop("nbgrader")
                cell["source"] = unmarked(text_of(cell))
            return
        group.name = self.unique(next((one for one in group.names if one.isidentifier()), "task"))
        for index, cell in enumerate(group.cells):
            grade_id = group.name if index == len(group.cells) - 1 else self.unique(f"{group.name}_{index + 1}")
            cell["metadata"]["nbgrader"] = self.marks(grade_id) | {"solution": True}
        check = self.marks(f"check-{group.name}", locked=True) | {"grade": True, "points": points}
        self.add("code", f'check("{group.name}")', marks=check, tags=["nbval-ignore-output"])
        self.groups.append(group)

    def unique(self, wanted: str) -> str:
        """A name nothing else has, made of what is asked for."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_").lower()[:60] or self.word
        base = f"{self.word}_{base}" if base[0].isdigit() else base
        name, count = base, 2
        known = self.taken | set(other_names())
        while name in known:
            name = f"{base}_{self.word}" if count == 2 else f"{base}_{self.word}_{count}"
            count += 1
        self.taken.add(name)
        return name

    @staticmethod
    def marks(grade_id: str, *, locked: bool = False) -> dict[str, Any]:
        kind = {"grade": False, "solution": False, "locked": locked, "task": False}
        return {"grade_id": grade_id, "schema_version": 3} | kind

    def add(self, kind: str, text: str, marks: dict[str, Any] | None = None, tags: Sequence[str] = ()) -> Cell:
        metadata: dict[str, Any] = {"nbgrader": marks} if marks else {}
        metadata |= {"tags": list(tags)} if tags else {}
        identity = f"{self.lab}-{len(self.cells)}".replace("_", "-")
        cell: Cell = {"cell_type": kind, "id": identity, "metadata": metadata, "source": text}
        self.cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
        return self.cells[-1]


def other_names() -> Iterator[str]:
    """What tasks and questions of all labs are called."""
    from autograder.spec import lab_names, load_lab

    for lab in lab_names():
        yield from (one.name for one in load_lab(lab).parts)


def heading_of(text: str) -> str:
    found = re.findall(r"^#+\s+(.+?)\s*$", text, flags=re.MULTILINE)
    return found[-1] if found else ""


def without(text: str, region: str) -> tuple[str, str]:
    """A cell's text without a region of nbgrader's, and what stood in it."""
    kept: list[str] = []
    taken: list[str] = []
    inside = False
    for line in text.split("\n"):
        if f"BEGIN {region}" in line or f"END {region}" in line:
            inside = "BEGIN" in line
        else:
            (taken if inside else kept).append(line)
    return "\n".join(kept), "\n".join(taken).strip()


def with_markers(text: str, kind: str = "code") -> str:
    """A solution between markers as the labs have them; all of it, where it has none."""
    opening, closing = (BEGIN, END) if kind == "code" else (f"<!-- {BEGIN} -->", f"<!-- {END} -->")
    if "BEGIN SOLUTION" not in text:
        return f"{opening}\n{text.rstrip()}\n{closing}"
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        marker = opening if "BEGIN SOLUTION" in line else closing if "END SOLUTION" in line else ""
        lines.append(indent + marker if marker else line)
    return "\n".join(lines)


def unmarked(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if BEGIN not in line and END not in line)


def document(cells: Sequence[Cell], name: str) -> dict[str, Any]:
    """The solution notebook."""
    return {
        "cells": [cell | {"source": text_of(cell).splitlines(keepends=True)} for cell in cells],
        "metadata": {
            "autograder": {"lab": name, "version": 1},
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def quoted(text: str) -> str:
    """A string that Python reads as the text, over several lines."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""\\\n{escaped}\n"""'


def tests_text(made: Reading) -> str:
    """The module with the assignment's tests and its solution."""
    lines = ['"""The tests of the assignment this lab was imported from, and the cells that pass them."""', ""]
    lines += ["# ruff: noqa", "# fmt: off", "# Lines are as they were written.", ""]
    lines += ["from __future__ import annotations", "", "from autograder.nbgrader.asserted import TestCell", ""]
    lines += ["SOLUTION = (", *(f"    {quoted(cell)}," for cell in made.solution), ")", ""]
    for group in made.groups:
        cells = [f"    TestCell({line(one.name)}, {one.points:g}, {quoted(one.source)})," for one in group.tests]
        lines += [f"{group.name.upper()} = (", *cells, ")", ""]
    return "\n".join(lines)


def spec_text(made: Reading, words: dict[str, str]) -> str:
    """The spec."""
    kinds = "Lab, Written" if made.questions else "Lab"
    lines = ['"""What is asked: the tests of an nbgrader assignment, to begin with."""', ""]
    lines += ["from __future__ import annotations", ""]
    if made.groups:
        lines += ["from autograder.nbgrader.asserted import asserted", f"from autograder.spec import {kinds}"]
        lines += [f"from autograder.specs import _{words['NAME']}_tests as tests", ""]
    else:
        lines += [f"from autograder.spec import {kinds}", ""]
    lines += ["lab = Lab(", f"    name={line(words['NAME'])},", f"    title={line(words['TITLE'])},", "    tasks=("]
    for group in made.groups:
        names = "".join(f"{line(name)}, " for name in dict.fromkeys(group.names)).rstrip()
        lines += ["        asserted(", f"            {line(group.name)},"]
        lines += [f"            {line(group.name.replace('_', ' ').capitalize())},", f"            ({names}),"]
        lines += [
            f"            tests.{group.name.upper()},",
            f"            tests.SOLUTION[:{group.upto}],",
            "        ),",
        ]
    lines += ["    ),"] if made.groups else []
    lines[-1:] = lines[-1:] if made.groups else ["    tasks=(),"]
    if made.questions:
        lines.append("    written=(")
        for one in made.questions:
            lines += ["        Written(", f"            {line(one.name)},", f"            {line(one.title)},"]
            lines += [f"            {one.points:g},", f"            rubric={line(one.rubric)},", "        ),"]
        lines.append("    ),")
    return "\n".join([*lines, ")", ""])


def line(text: str) -> str:
    """A string in one line of source."""
    return json.dumps(text, ensure_ascii=False)
