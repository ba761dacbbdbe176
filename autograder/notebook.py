"""Read a learner's notebook without trusting it, and say where in it each task is answered.

Nothing here runs a learner's code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.cells import Cell, make_cell, parse, printable, to_python
from autograder.spec import Lab

__all__ = [
    "Cell", "Notebook", "NotebookError", "Place", "make_cell", "match_lab", "parse", "parse_notebook", "place_tasks",
    "read_bytes", "read_notebook", "require_lab", "to_python",
]  # fmt: skip

MAX_BYTES = 50 << 20
MAX_CELL = 500_000
MAX_CELLS = 5_000
MAX_NODES = 2_000_000
_CODE = re.compile(r"^(def|class) \w+[(:]", re.MULTILINE)
VERSION = 1
"""Of ``metadata.autograder``."""


class NotebookError(ValueError):
    """One clear line: why this file can't be graded."""


@dataclass(frozen=True)
class Notebook:
    """What was read: the code cells, and the lab its metadata name ("" if they name none)."""

    cells: list[Cell]
    lab: str = ""
    sha256: str = ""
    notes: list[str] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    """What its cells say, by the ``grade_id`` of those that have one."""


@dataclass(frozen=True)
class Place:
    """Where a task is answered: run the first `stop` cells, then look at its names."""

    stop: int
    notes: tuple[str, ...] = ()


def read_notebook(path: str | os.PathLike[str]) -> Notebook:
    """Read an ``.ipynb`` file.

    Raises
    ------
    NotebookError
        One line that says what is wrong with the file: not there, too large, not JSON, truncated, an old or unknown
        format, not Python, cells that are no cells.
    """
    raw = read_bytes(Path(path))
    return parse_notebook(raw, Path(path).name)


def parse_notebook(raw: bytes, name: str = "notebook") -> Notebook:
    """As `read_notebook`, from the bytes of the file; `name` is used in messages."""
    document = _parse_json(raw, name)
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    _check_language(metadata, name)
    cells, notes = _read_cells(document, name)
    words = _read_words(document["cells"], name)
    return Notebook(cells, _lab_name(metadata, name), hashlib.sha256(raw).hexdigest(), notes, words)


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file that is not too large for a notebook.

    Raises
    ------
    NotebookError
        It can't be opened or read, is no regular file (a pipe would be waited for), or is too large.
    """
    try:
        # Non-blocking: opening a pipe that nobody writes to must not hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotebookError(f"{path.name}: can't be opened: {error.strerror}.") from None
    except ValueError:
        raise NotebookError(f"{str(path)!r} is no file name.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NotebookError(f"{path.name or path}: not a regular file; give the .ipynb file itself.")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > MAX_BYTES:
            raise NotebookError(
                f"{path.name}: {status.st_size / 2**20:.0f} MB, at most {MAX_BYTES >> 20} MB are read. "
                "Clear the outputs (Edit > Clear Outputs of All Cells) and save."
            )
        try:
            raw = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise NotebookError(f"{path.name}: can't be read: {error.strerror}.") from None
    if len(raw) > MAX_BYTES:
        raise NotebookError(f"{path.name}: more than {MAX_BYTES >> 20} MB.")
    return raw


def _parse_json(raw: bytes, name: str) -> dict[str, Any]:
    if not raw.strip():
        raise NotebookError(f"{name}: the file is empty. Save the notebook and try again.")
    if raw.count(b"[") + raw.count(b"{") > MAX_NODES or raw.count(b",") > 4 * MAX_NODES:
        raise NotebookError(f"{name}: too many parts for a notebook. Clear the outputs and save.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotebookError(
            f"{name}: not UTF-8 text (byte {error.start}); a notebook is JSON in UTF-8. Save it again from JupyterLab."
        ) from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        why = "it ends too early, as if the file were cut off" if cut else f"{error.msg} at line {error.lineno}"
        raise NotebookError(f"{name}: not a notebook: {why}.") from None
    except RecursionError:
        raise NotebookError(f"{name}: not a notebook: nested too deeply.") from None
    except (ValueError, MemoryError) as error:
        raise NotebookError(f"{name}: not a notebook: {str(error)[:120]}.") from None
    if not isinstance(document, dict) or not ({"cells", "worksheets"} & document.keys()):
        raise NotebookError(f"{name}: JSON, but not a notebook: it has no cells.")
    version = document.get("nbformat")
    if type(version) is not int:
        raise NotebookError(f"{name}: not a notebook: its nbformat is missing.")
    if version < 4:
        raise NotebookError(
            f"{name}: notebook format {version}; format 4 is needed. Open it in JupyterLab and save it."
        )
    if version > 4:
        raise NotebookError(
            f"{name}: notebook format {version} is newer than this autograder knows (4). Save it as format 4."
        )
    return document


def _check_language(metadata: dict[str, Any], name: str) -> None:
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        entry = metadata.get(section)
        language = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(language, str) and language.lower() not in ("python", "ipython", "python3", ""):
            raise NotebookError(f"{name}: a {printable(language[:40])} notebook; the labs are Python.")


def _lab_name(metadata: dict[str, Any], name: str) -> str:
    entry = metadata.get("autograder")
    if not isinstance(entry, dict):
        return ""
    lab, version = entry.get("lab"), entry.get("version", VERSION)
    if type(version) is not int or version > VERSION or version < 1:
        raise NotebookError(
            f"{name}: made for version {printable(str(version)[:20])} of the labs' format; "
            f"this autograder knows {VERSION}. Update it."
        )
    return lab if isinstance(lab, str) else ""


# --- cells ----------------------------------------------------------------------------------------


def _read_cells(document: dict[str, Any], name: str) -> tuple[list[Cell], list[str]]:
    entries = document.get("cells")
    if not isinstance(entries, list):
        raise NotebookError(f"{name}: not a notebook: its cells are a {type(entries).__name__}, a list is needed.")
    if len(entries) > MAX_CELLS:
        raise NotebookError(f"{name}: {len(entries)} cells, at most {MAX_CELLS} are read.")
    cells: list[Cell] = []
    notes = []
    for position, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise NotebookError(f"{name}: cell {position} is a {type(entry).__name__}, not a cell.")
        if entry.get("cell_type") != "code":
            grade_id = _grade_id(entry)
            if grade_id and _CODE.search(_source(entry, f"{name}: cell {position}")):
                notes.append(
                    f"The cell {printable(grade_id[:60])} holds code, but is no code cell, so it is not run: in "
                    "JupyterLab, select it and press Y."
                )
            continue
        cells.append(_read_cell(len(cells) + 1, entry, f"{name}: cell {position}"))
    seen: dict[str, int] = {}
    for cell in cells:
        if cell.grade_id and cell.grade_id in seen:
            notes.append(
                f"Cells {seen[cell.grade_id]} and {cell.number} are copies of the same cell "
                f"({printable(cell.grade_id[:60])}); both are run, in order."
            )
        if cell.grade_id:
            seen[cell.grade_id] = cell.number
    return cells, notes


def _read_words(entries: list[dict[str, Any]], name: str) -> dict[str, str]:
    """The text of cells that have a ``grade_id``; that of copies, one after another."""
    found: dict[str, str] = {}
    for position, entry in enumerate(entries, 1):
        if entry.get("cell_type") in ("markdown", "code") and (grade_id := _grade_id(entry)):
            text = _source(entry, f"{name}: cell {position}")
            found[grade_id] = f"{found[grade_id]}\n\n{text}" if grade_id in found else text
    return found


def _read_cell(number: int, entry: dict[str, Any], where: str) -> Cell:
    metadata = entry.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    tags = frozenset(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else frozenset()
    return make_cell(number, _source(entry, where), tags=tags, grade_id=_grade_id(entry))


def _source(entry: dict[str, Any], where: str) -> str:
    source = entry.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise NotebookError(f"{where} has no text as its source.")
    if len(source) > MAX_CELL:
        raise NotebookError(f"{where} has {len(source)} characters, at most {MAX_CELL} are read.")
    return source


def _grade_id(entry: dict[str, Any]) -> str:
    metadata = entry.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else ""
    return grade_id if isinstance(grade_id, str) else ""


# --- where each task is ---------------------------------------------------------------------------


def place_tasks(cells: Sequence[Cell], lab: Lab) -> dict[str, Place]:
    """Where each task of the lab is answered, by its name.

    A task is looked at where the notebook checks it last (its ``check("task")`` or its check cell); if it is never
    checked, or only before its names are defined, after the last cell that defines them; else at the end.
    """
    return {task.name: _place(cells, task.name, task.names) for task in lab.tasks}


def _place(cells: Sequence[Cell], task: str, names: tuple[str, ...]) -> Place:
    run = [(index, cell) for index, cell in enumerate(cells) if not cell.skip]
    checked = [index for index, cell in run if task in cell.checks or cell.grade_id == f"check-{task}"]
    defined = [index for index, cell in run if cell.defines & set(names) or cell.grade_id == task]
    notes: list[str] = []
    if checked and (not defined or defined[0] <= checked[-1]):
        stop = checked[-1] + 1
    elif defined:
        stop = defined[-1] + 1
        if checked:
            notes.append(
                f"Cell {cells[checked[-1]].number} checks {task} before cell {cells[defined[0]].number} defines it."
            )
    else:
        stop = len(cells)
    for index, cell in run:
        again = sorted(cell.defines & set(names))
        if index >= stop and again:
            notes.append(
                f"{', '.join(again)} is bound again in cell {cell.number}, after the check; "
                "what the check saw was graded."
            )
    return Place(stop, tuple(notes))


def match_lab(notebook: Notebook, labs: Iterable[Lab]) -> Lab:
    """The lab a notebook belongs to: the one its metadata name, else the one whose tasks it answers.

    Raises
    ------
    NotebookError
        Its metadata name a lab that isn't there, or no lab's tasks are in it.
    """
    labs = list(labs)
    if notebook.lab:
        for lab in labs:
            if lab.name == notebook.lab:
                return lab
        raise NotebookError(
            f"the notebook is for {notebook.lab[:60]!r}, which isn't among the labs "
            f"({', '.join(lab.name for lab in labs)})."
        )
    scored = sorted(
        ((_found(notebook, lab), -position, lab) for position, lab in enumerate(labs)),
        key=lambda row: row[:2],
        reverse=True,
    )
    if not scored or scored[0][0] == 0:
        raise NotebookError(
            "the notebook's metadata name no lab, and no lab's tasks are in it. Begin from the lab's own notebook; "
            "on the command line, --lab names the lab."
        )
    return scored[0][2]


def require_lab(notebook: Notebook, lab: Lab) -> None:
    """Refuse a notebook that belongs to another lab.

    Raises
    ------
    NotebookError
        Its metadata name another lab.
    """
    if notebook.lab and notebook.lab != lab.name:
        raise NotebookError(
            f"the notebook is for {notebook.lab[:60]!r}, not for {lab.name!r}. Hand in the right file, or name its lab."
        )


def _found(notebook: Notebook, lab: Lab) -> int:
    """How many of the lab's tasks this notebook checks, marks or defines."""
    checks = {task for cell in notebook.cells for task in cell.checks}
    marks = {cell.grade_id for cell in notebook.cells}
    defines = {name for cell in notebook.cells for name in cell.defines}
    return sum(task.name in checks or task.name in marks or set(task.names) <= defines for task in lab.tasks)
