"""Which of the cells a kernel has run does a task need?

A learner runs cells in any order and runs them again. What counts for a check is the last binding of each name,
as in the kernel; so the slice starts from the task's names, takes the cells that bound them last, then the
cells that bound what those load, and so on. It is read off the source: nothing is run here.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from autograder import notebook

TRANSPARENT = {"time", "capture", "prun", "timeit"}
"""Cell magics that run the code below them in the notebook's own names (``%%timeit`` binds none of them)."""
COMPREHENSIONS = {"listcomp", "setcomp", "dictcomp", "genexpr"}
ALWAYS_THERE = frozenset(dir(builtins)) | {
    "__name__",
    "__file__",
    "__doc__",
    "get_ipython",
    "display",
    "In",
    "Out",
    "_",
    "__",
    "___",
    "exit",
    "quit",
}


@dataclass(frozen=True)
class Effects:
    """What one cell does to names."""

    binds: frozenset[str] = frozenset()
    """Bound when the cell has run."""
    maybe: frozenset[str] = frozenset()
    """Bound on some path only."""
    imports: frozenset[str] = frozenset()
    loads: frozenset[str] = frozenset()
    """Needed while the cell runs, from before it."""
    later: frozenset[str] = frozenset()
    """Needed when a function defined here is called."""
    changes: frozenset[str] = frozenset()
    """Objects changed in place through an attribute or an item."""
    calls: frozenset[str] = frozenset()
    """Objects that may have been changed by a method called for its effect, or by decorating."""
    star: bool = False
    only_checks: bool = False


@dataclass(frozen=True)
class Executed:
    """A cell as the kernel ran it: its number in the margin, its source, whether it ran to its end."""

    number: int
    source: str
    succeeded: bool = True


@dataclass
class Slice:
    cells: list[Executed] = field(default_factory=list)
    unbound: set[str] = field(default_factory=set)
    """Names that no cell binds; what defines them was not run as a cell of this kernel."""


@lru_cache(maxsize=4096)
def effects(source: str) -> Effects | None:
    """What a cell does to names; None when it has a syntax error, so did nothing at all."""
    code, problem, _ = notebook.to_python(source)
    tree = None if problem else notebook.parse(code)
    if tree is None:
        return None
    reader = _Reader()
    for statement in tree.body:
        inner = _transparent_magic(statement)
        for part in [statement] if inner is None else inner:
            reader.read(part)
    only_checks = bool(tree.body) and all(_is_check(statement) for statement in tree.body)
    return Effects(
        frozenset(reader.binds),
        frozenset(reader.maybe),
        frozenset(reader.imports),
        frozenset(reader.loads),
        frozenset(reader.later),
        frozenset(reader.changes),
        frozenset(reader.calls),
        reader.star,
        only_checks,
    )


def cut(history: Sequence[Executed], names: Iterable[str]) -> Slice:
    """The cells of `history` that `names` need, in the order in which they ran."""
    found = [(cell, effects(cell.source)) for cell in history]
    ran = [(cell, effect) for cell, effect in found if effect is not None and not effect.only_checks]
    taken: set[int] = set()
    result = Slice()
    asked: set[tuple[str, int]] = set()
    wanted = [(name, len(ran)) for name in names]

    def take(position: int, before: int) -> None:
        effect = ran[position][1]
        if position not in taken:
            taken.add(position)
            wanted.extend((name, position) for name in effect.loads)
        # A function finds its names when it is called, which is where it was asked for.
        wanted.extend((name, before) for name in effect.later)

    while wanted:
        name, before = wanted.pop()
        if (name, before) in asked:
            continue
        asked.add((name, before))
        bound, imported = -1, False
        for position in range(before - 1, -1, -1):
            cell, effect = ran[position]
            if name in effect.binds or name in effect.maybe:
                take(position, before)
                bound, imported = position, name in effect.imports
                if name in effect.binds and cell.succeeded:
                    break  # a cell that failed may not have come as far as the binding: look further back too
        if bound < 0:
            if name not in ALWAYS_THERE:
                result.unbound.add(name)
            continue
        for position in range(bound, before):
            effect = ran[position][1]
            if name in effect.changes or (name in effect.calls and not imported):
                take(position, before)
    if result.unbound:
        for position, (_, effect) in enumerate(ran):
            if effect.star:
                taken.add(position)
    result.cells = [ran[position][0] for position in sorted(taken)]
    return result


def _is_check(statement: ast.stmt) -> bool:
    """A call of check or submit, or an import of the autograder: nothing a task could need."""
    if isinstance(statement, ast.Import):
        return all(alias.name.split(".")[0] == "autograder" for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").split(".")[0] == "autograder"
    call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if not isinstance(call, ast.Call):
        return False
    called = (
        call.func.id
        if isinstance(call.func, ast.Name)
        else call.func.attr
        if isinstance(call.func, ast.Attribute)
        else ""
    )
    return called in {"check", "submit"}


def _transparent_magic(statement: ast.stmt) -> list[ast.stmt] | None:
    """The statements under ``%%time`` and its like, which IPython has turned into one call with a string."""
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="run_cell_magic"),
                args=[ast.Constant(value=str(magic)), ast.Constant(), ast.Constant(value=str(body))],
            )
        ) if magic in TRANSPARENT:
            tree = notebook.parse(notebook.to_python(body)[0])
            return tree.body if tree else None
    return None


class _Reader:
    """Reads the statements of one cell in order."""

    def __init__(self) -> None:
        self.binds: set[str] = set()
        self.maybe: set[str] = set()
        self.imports: set[str] = set()
        self.loads: set[str] = set()
        self.later: set[str] = set()
        self.changes: set[str] = set()
        self.calls: set[str] = set()
        self.star = False

    def read(self, statement: ast.stmt) -> None:
        now, later, bound, imported = _names(statement)
        self.loads |= now - self.binds
        self.later |= later
        self._read_changes(statement)
        if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
            self.star = True
            return
        self.imports |= imported
        if isinstance(statement, ast.If | ast.For | ast.AsyncFor | ast.While | ast.Try | ast.TryStar | ast.Match):
            self.maybe |= bound
        else:
            self.binds |= bound

    def _read_changes(self, statement: ast.stmt) -> None:
        pending: list[ast.AST] = [statement]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.calls |= {root for decorator in node.decorator_list if (root := _root(decorator))}
                continue  # what a body changes, it changes when it is called
            if isinstance(node, ast.Lambda):
                continue
            if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                self.changes |= {root for root in [_root(node)] if root}
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
            ):
                self.calls |= {root for root in [_root(node.value.func)] if root}
            pending.extend(ast.iter_child_nodes(node))


def _root(node: ast.AST) -> str:
    """The name that ``a.b[c](d).e`` starts from; "" where it starts from no name."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(statement: ast.stmt) -> tuple[set[str], set[str], set[str], set[str]]:
    """(loaded now, loaded by functions later, bound, imported) by one top-level statement."""
    now: set[str] = set()
    later: set[str] = set()
    bound: set[str] = set()
    imported: set[str] = set()
    try:
        table = symtable.symtable(ast.unparse(statement), "<cell>", "exec")
    except SyntaxError:  # await outside a function, which IPython allows and symtable does not
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                (now if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        return now, later, bound, imported
    for symbol in table.get_symbols():
        if symbol.is_referenced():
            now.add(symbol.get_name())
        if symbol.is_imported():
            imported.add(symbol.get_name())
        if symbol.is_assigned() or symbol.is_imported():
            bound.add(symbol.get_name())
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        now.add(statement.target.id)
    for child in table.get_children():
        _read_scope(child, now, later, bound, deferred=False)
    return now, later, bound, imported


def _read_scope(table: symtable.SymbolTable, now: set[str], later: set[str], bound: set[str], deferred: bool) -> None:
    runs_at_once = table.get_type() == "class" or table.get_name() in COMPREHENSIONS
    deferred = deferred or not runs_at_once
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            (later if deferred else now).add(symbol.get_name())
        if symbol.is_declared_global() and symbol.is_assigned() and not deferred:
            bound.add(symbol.get_name())
    for child in table.get_children():
        _read_scope(child, now, later, bound, deferred)
