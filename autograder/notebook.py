"""Read a learner's notebook without trusting it, and say where in it each task is answered.

Nothing here runs a learner's code. Magics are translated by IPython's own rules in this process, before
any cell has run, so that input transformers a learner registers have no effect on grading.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.spec import Lab

MAX_BYTES = 50 << 20
MAX_CELL = 500_000
MAX_CELLS = 5_000
MAX_NODES = 2_000_000
VERSION = 1
"""Of ``metadata.autograder``."""
SKIPPED_TAGS = ("training", "plot", "use", "submit")
_MAX_MAGIC_LINES = 200


class NotebookError(ValueError):
    """One clear line: why this file can't be graded."""


@dataclass(frozen=True)
class Cell:
    """One code cell.

    `number` counts code cells from 1; `code` is plain Python, magics translated; `skip` says why the cell is
    not run ("" if it is run); `problem` is the syntax error it has ("" if none).
    """

    number: int
    source: str
    code: str
    tags: frozenset[str] = frozenset()
    grade_id: str = ""
    skip: str = ""
    problem: str = ""
    problem_line: int = 0
    defines: frozenset[str] = frozenset()
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Notebook:
    """What was read: the code cells, and the lab its metadata name ("" if they name none)."""

    cells: list[Cell]
    lab: str = ""
    sha256: str = ""
    notes: list[str] = field(default_factory=list)


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
    raw = _read_bytes(Path(path))
    return parse_notebook(raw, Path(path).name)


def parse_notebook(raw: bytes, name: str = "notebook") -> Notebook:
    """As `read_notebook`, from the bytes of the file; `name` is used in messages."""
    document = _parse_json(raw, name)
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    _check_language(metadata, name)
    cells, notes = _read_cells(document, name)
    return Notebook(cells, _lab_name(metadata, name), hashlib.sha256(raw).hexdigest(), notes)


def _read_bytes(path: Path) -> bytes:
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
            raise NotebookError(f"{name}: a {language[:40]} notebook; the labs are Python.")


def _lab_name(metadata: dict[str, Any], name: str) -> str:
    entry = metadata.get("autograder")
    if not isinstance(entry, dict):
        return ""
    lab, version = entry.get("lab"), entry.get("version", VERSION)
    if type(version) is not int or version > VERSION or version < 1:
        raise NotebookError(
            f"{name}: made for version {str(version)[:20]} of the labs' format; this autograder knows version {VERSION}. Update it."
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
    for position, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise NotebookError(f"{name}: cell {position} is a {type(entry).__name__}, not a cell.")
        if entry.get("cell_type") != "code":
            continue
        cells.append(_read_cell(len(cells) + 1, entry, f"{name}: cell {position}"))
    seen: dict[str, int] = {}
    notes = []
    for cell in cells:
        if cell.grade_id and cell.grade_id in seen:
            notes.append(
                f"Cells {seen[cell.grade_id]} and {cell.number} are copies of the same cell ({cell.grade_id}); both are run, in order."
            )
        if cell.grade_id:
            seen[cell.grade_id] = cell.number
    return cells, notes


def _read_cell(number: int, entry: dict[str, Any], where: str) -> Cell:
    source = entry.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise NotebookError(f"{where} has no text as its source.")
    if len(source) > MAX_CELL:
        raise NotebookError(f"{where} has {len(source)} characters of code, at most {MAX_CELL} are read.")
    metadata = entry.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    tags = metadata.get("tags")
    tags = frozenset(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else frozenset()
    nbgrader = metadata.get("nbgrader")
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else ""
    return make_cell(number, source, tags=tags, grade_id=grade_id if isinstance(grade_id, str) else "")


def make_cell(number: int, source: str, *, tags: Iterable[str] = (), grade_id: str = "") -> Cell:
    """A code cell from its source: translated, and looked at for names it defines and tasks it checks."""
    tags = frozenset(tags)
    skip = next((tag for tag in SKIPPED_TAGS if tag in tags), "")
    code, problem, line = to_python(source)
    first, _, body = source.lstrip().partition("\n")
    # What %%time and its like run is the cell's own code: names it binds count.
    tree = None if problem else parse(to_python(body)[0] if first.startswith("%%") else code)
    if tree is None:
        return Cell(number, source, code, tags, grade_id, skip, problem, line)
    return Cell(
        number,
        source,
        code,
        tags,
        grade_id,
        skip,
        "",
        0,
        frozenset(_bound_names(tree.body)),
        tuple(_checked_tasks(tree)),
    )


def to_python(source: str) -> tuple[str, str, int]:
    """Plain Python for a cell's source, and what is wrong with it: ``(code, problem, line)``.

    A cell that is Python already is left as it is; IPython's rules would not change it. Otherwise, and only if
    something in it can mean anything to IPython, IPython translates it.
    """
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    problem, line = _syntax_problem(source)
    if not problem or not _may_be_ipython(source):
        return source, problem, line
    if (
        sum(text.lstrip()[:1] in ("%", "!", "?") or text.rstrip().endswith("?") for text in source.splitlines())
        > _MAX_MAGIC_LINES
    ):
        return source, f"more than {_MAX_MAGIC_LINES} magic lines in one cell", 1
    blank = len(source) - len(source.lstrip("\n"))
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        return source, problem + " (IPython, which would translate magics, is not installed)", line
    try:
        code = "\n" * blank + TransformerManager().transform_cell(source.lstrip("\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return source, str(error)[:200] or problem, line
    problem, line = _syntax_problem(code)
    return code, problem, line


def _may_be_ipython(source: str) -> bool:
    if any(mark in source for mark in "%!?"):
        return True
    first = next((text for text in source.splitlines() if text.strip()), "")
    lines = (text.lstrip() for text in source.splitlines())
    return first[:1].isspace() or any(text.startswith((",", ";", "/", ">>>", "In [")) for text in lines)


def _syntax_problem(source: str) -> tuple[str, int]:
    try:
        compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return str(error.msg)[:200] or "invalid syntax", error.lineno or 0
    except (ValueError, OverflowError) as error:
        return str(error)[:200], 0
    except (MemoryError, RecursionError):
        return "nested too deeply to be read", 0
    return "", 0


def parse(code: str) -> ast.Module | None:
    """The syntax tree of plain Python, or None where it has none."""
    try:
        tree = compile(code, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return None
    return tree if isinstance(tree, ast.Module) else None


def _bound_names(statements: Sequence[ast.stmt]) -> Iterable[str]:
    """Names that top-level statements bind, also inside if, try, for and with."""
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        pending.extend(ast.iter_child_nodes(node))


def _checked_tasks(tree: ast.Module) -> Iterable[str]:
    """Tasks that ``check("task")`` or ``autograder.check("task")`` names."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop(0)
        if (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            called = (
                node.func.id
                if isinstance(node.func, ast.Name)
                else node.func.attr
                if isinstance(node.func, ast.Attribute)
                else ""
            )
            if called == "check":
                yield node.args[0].value
        pending.extend(ast.iter_child_nodes(node))


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
                f"Cell {cells[checked[-1]].number} checks {task} before it is defined in cell {cells[defined[0]].number}."
            )
    else:
        stop = len(cells)
    for index, cell in run:
        again = sorted(cell.defines & set(names))
        if index >= stop and again:
            notes.append(
                f"{', '.join(again)} is bound again in cell {cell.number}, after the check; what the check saw was graded."
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
            f"the notebook is for {notebook.lab[:60]!r}, which isn't among the labs ({', '.join(lab.name for lab in labs)})."
        )
    scored = sorted(
        ((_found(notebook, lab), -position, lab) for position, lab in enumerate(labs)),
        key=lambda row: row[:2],
        reverse=True,
    )
    if not scored or scored[0][0] == 0:
        raise NotebookError(
            "the notebook's metadata name no lab, and no lab's tasks are in it. Name the lab with --lab."
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
