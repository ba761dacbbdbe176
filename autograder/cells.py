"""One code cell: its source as plain Python, the names it binds, the tasks it checks.

Nothing here runs a learner's code. Magics are translated by IPython's own rules in this process, before any cell
has run, so that input transformers a learner registers have no effect on grading.
"""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

SKIPPED_TAGS = ("training", "plot", "use", "submit")
_MAX_MAGIC_LINES = 200
_FILTERS = threading.Lock()
Built = TypeVar("Built")


def printable(text: str) -> str:
    """A learner's text without what would steer a terminal or turn a line around: escapes stand in its place."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(letter: str) -> str:
    if letter.isprintable() or letter in "\n\t" or letter.isspace():
        return letter if letter not in "\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029" else "\n"
    return letter.encode("ascii", "backslashreplace").decode("ascii") if ord(letter) > 127 else f"\\x{ord(letter):02x}"


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
        return source, printable(str(error)[:200]) or problem, line
    problem, line = _syntax_problem(code)
    return code, problem, line


def _may_be_ipython(source: str) -> bool:
    if any(mark in source for mark in "%!?"):
        return True
    first = next((text for text in source.splitlines() if text.strip()), "")
    lines = (text.lstrip() for text in source.splitlines())
    return first[:1].isspace() or any(text.startswith((",", ";", "/", ">>>", "In [")) for text in lines)


def _tree(source: str) -> Any:
    # An invalid escape in a learner's string is not news in the grader's log. Filters belong to all threads.
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return undisturbed(
            lambda: compile(
                source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
            )
        )


def undisturbed(build: Callable[[], Built], tries: int = 50) -> Built:
    """What `build` gives, which may build syntax trees while other threads do.

    CPython 3.11 keeps one count of a tree's depth for all threads: where they take turns while a tree is built, as a
    collection of garbage makes them, it ends in a SystemError ("recursion depth mismatch"). The next try starts afresh.
    """
    for _ in range(tries - 1):
        try:
            return build()
        except SystemError:
            continue
    return build()


def _syntax_problem(source: str) -> tuple[str, int]:
    try:
        _tree(source)
    except SyntaxError as error:
        return printable(str(error.msg)[:200]) or "invalid syntax", error.lineno or 0
    except (ValueError, OverflowError) as error:
        return printable(str(error)[:200]), 0
    except (MemoryError, RecursionError):
        return "nested too deeply to be read", 0
    return "", 0


def parse(code: str) -> ast.Module | None:
    """The syntax tree of plain Python, or None where it has none."""
    try:
        tree = _tree(code)
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
