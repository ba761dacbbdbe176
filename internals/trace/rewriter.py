"""How each statement is rewritten; see `internals.trace.convert`."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RUNTIME, CALLED = "__branches__", "__called__"
"""The names under which rewritten code finds `internals.trace.branches`, and what stands for a function it calls."""
MUTATORS = frozenset(
    ("append", "extend", "insert", "add", "update", "pop", "remove", "clear", "setdefault", "sort", "reverse")
)
"""Methods of lists, dicts and sets that change them; called as a statement, they are the reason for the call."""


class Rewriter(ast.NodeTransformer):
    """Rewrites one function; those defined in it too, each with names of its own.

    Parameters
    ----------
    filename : str
    owner : str
        The class that it is a method of, empty if none: names with two underscores in front are that class's.
    """

    def __init__(self, filename: str, owner: str = "") -> None:
        path = Path(filename)
        self._private = f"_{owner.lstrip('_')}" if owner.strip("_") else ""
        self._file = "" if "ipykernel" in path.parent.name or filename.startswith("<") else path.name
        self._count = 0
        self._outer: list[set[str]] = []
        self._first = ""

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node = copy.deepcopy(node)
        if not self._outer:
            self._first = next((one.arg for one in (*node.args.posonlyargs, *node.args.args)), "")
        shared = {name for one in ast.walk(node) if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        self._outer.append(shared)
        if any(isinstance(one, ast.If) and _has(one, ast.Return) for one in _own(node.body)):
            node.body = _returning(node.body)
        node.body = self._block(node.body)
        self._outer.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return self.function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    visit_AsyncFunctionDef = visit_ClassDef  # type: ignore[assignment]

    # Expressions

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "super" and not node.args and self._first:  # it would look for them in the wrong frame
            node.args = [_load("__class__"), _load(self._first)]
        if name != "super":
            node.func = ast.copy_location(ast.Call(_load(CALLED), [node.func], []), node.func)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        node.attr = self._own_name(node.attr)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        node.id = self._own_name(node.id)
        return node

    def _own_name(self, name: str) -> str:
        """What the compiler makes of a class's private name, as the rewritten code is outside of the class."""
        private = self._private and name.startswith("__") and not name.endswith("__")
        return f"{self._private}{name}" if private else name

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        if any(isinstance(one, ast.NamedExpr | ast.Await | ast.Yield) for one in ast.walk(node)):
            return node
        name = "both" if isinstance(node.op, ast.And) else "either"
        found = node.values[-1]
        for value in reversed(node.values[:-1]):
            found = self._call(name, [_thunk(value), _thunk(found)], node)
        return found

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._call("opposite", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if any(isinstance(one, ast.NamedExpr | ast.Await | ast.Yield) for one in ast.walk(node)):
            return node
        parts = [node.test, _thunk(node.body), _thunk(node.orelse), self._where(node)]
        return self._call("chosen", parts, node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        middle = node.comparators[:-1]
        if not middle or not all(isinstance(one, ast.Name | ast.Constant) for one in middle):
            return node
        values = [node.left, *node.comparators]
        found: ast.expr | None = None
        for left, op, right in reversed(list(zip(values[:-1], node.ops, values[1:], strict=True))):
            pair: ast.expr = ast.copy_location(ast.Compare(left, [op], [right]), node)
            found = pair if found is None else self._call("both", [_thunk(pair), _thunk(found)], node)
        assert found is not None
        return found

    # Statements

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            done += made if isinstance(made, list) else [made]
        return done

    def visit_If(self, node: ast.If) -> Any:
        names = _assigned([node])
        returns = _has(node, ast.Return)
        why = ""
        if _has(node, (ast.Break, ast.Continue), loops=False):
            why = "break or continue of a loop that Python runs"
        elif returns and not hasattr(node, "ends"):
            why = "return inside a loop, a with or a try"
        elif names & self._outer[-1] or _has(node, (ast.Delete, ast.Yield, ast.YieldFrom)):
            why = "global, nonlocal, del or yield"
        if why:
            node.test = self._call("plain", [self.visit(node.test), ast.Constant(why), self._where(node)], node)
            node.body, node.orelse = self._block(node.body), self._block(node.orelse)
            return node
        effects = _effects([*node.body, *node.orelse])
        test = self.visit(node.test)
        ordered = sorted(names)
        then = self._function(ordered, self._block(node.body), returns, node)
        otherwise = self._function(ordered, self._block(node.orelse) or [ast.Pass()], returns, node)
        values = self._values(ordered)
        call = self._call(
            "choose",
            [test, _load(then.name), _load(otherwise.name), values, _texts(ordered), ast.Constant(returns),
             ast.Constant(effects), _texts(_moved([*node.body, *node.orelse])), self._where(node)],
            node,
        )  # fmt: skip
        last: ast.stmt = ast.Return(call) if returns else _unpack(ordered, call)
        return [then, otherwise, ast.copy_location(last, node)]

    def visit_While(self, node: ast.While) -> Any:
        if node.orelse or _has(node, (ast.Return, ast.Yield, ast.Delete)) or _assigned([node]) & self._outer[-1]:
            why = "return, yield, del, global, nonlocal or else in the loop"
            node.test = self._call("plain", [self.visit(node.test), ast.Constant(why), self._where(node)], node)
            node.body = self._block(node.body)
            return node
        before, stop = self._without_jumps(node)
        return [*before, *self._loop("repeat", [], node, stop, [])]

    def visit_For(self, node: ast.For) -> Any:
        counted = isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name)
        if (
            not counted
            or node.iter.func.id != "range"  # type: ignore[attr-defined]
            or node.iter.keywords  # type: ignore[attr-defined]
            or not isinstance(node.target, ast.Name)
            or node.orelse
            or _has(node, (ast.Return, ast.Yield, ast.Delete))
            or _assigned([node]) & self._outer[-1]
        ):
            node.iter = self.visit(node.iter)
            node.body = self._block(node.body)
            node.orelse = self._block(node.orelse)
            return node
        before, stop = self._without_jumps(node)
        bounds = ast.Tuple([self.visit(one) for one in node.iter.args], ast.Load())  # type: ignore[attr-defined]
        return [*before, *self._loop("count", [bounds], node, stop, [node.target.id])]

    def _loop(
        self, name: str, first: list[ast.expr], node: ast.While | ast.For, stop: str, counter: list[str]
    ) -> list[ast.stmt]:
        names = counter + sorted((_assigned(node.body) | ({stop} if stop else set())) - set(counter))
        effects = _effects(node.body)
        test: ast.expr = ast.Constant(True) if isinstance(node, ast.For) else node.test
        if stop:
            running = ast.UnaryOp(ast.Not(), _load(stop))
            test = running if isinstance(node, ast.For) else ast.BoolOp(ast.And(), [running, test])
        asks = self._function(names, [ast.Return(self.visit(ast.copy_location(test, node)))], True, node)
        body = self._function(names, self._block(node.body), False, node)
        call = self._call(
            name,
            [*first, _load(asks.name), _load(body.name), self._values(names), _texts(names), ast.Constant(effects),
             _texts(_moved(node.body)), self._where(node)],
            node,
        )  # fmt: skip
        return [asks, body, ast.copy_location(_unpack(names, call), node)]

    def _without_jumps(self, node: ast.While | ast.For) -> tuple[list[ast.stmt], str]:
        """Turn break and continue of this loop into flags, which a graph can compute."""
        if not any(_has(one, (ast.Break, ast.Continue), loops=False) for one in node.body):
            return [], ""
        self._count += 1
        stop, skip = f"_stop_{self._count}", f"_skip_{self._count}"
        node.body = [_set(skip, False, node), *_flagged(node.body, stop, skip)]
        return [_set(stop, False, node)], stop

    # Parts

    def _function(self, names: Sequence[str], body: list[ast.stmt], returns: bool, at: ast.AST) -> ast.FunctionDef:
        self._count += 1
        ends = [] if returns else [ast.Return(ast.Tuple([_load(name) for name in names], ast.Load()))]
        made = ast.FunctionDef(
            name=f"_part_{self._count}",
            args=ast.arguments(posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[],
                               defaults=[]),
            body=[*body, *ends],
            decorator_list=[],
        )  # fmt: skip
        return ast.copy_location(made, at)

    def _values(self, names: Sequence[str]) -> ast.expr:
        """A function for each name, as it may have no value yet."""
        return ast.Tuple([_thunk(_load(name)) for name in names], ast.Load())

    def _call(self, name: str, args: list[ast.expr], at: ast.AST) -> ast.expr:
        return ast.copy_location(ast.Call(ast.Attribute(_load(RUNTIME), name, ast.Load()), args, []), at)

    def _where(self, node: ast.AST) -> ast.expr:
        line = node.lineno  # type: ignore[attr-defined]
        return ast.Constant(f"{self._file}:{line}" if self._file else f"line {line} of a cell")


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _texts(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _thunk(value: ast.expr) -> ast.expr:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(nothing, value), value) if hasattr(value, "lineno") else ast.Lambda(
        nothing, value
    )  # fmt: skip


def _set(name: str, value: bool, at: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value)), at)


def _unpack(names: Sequence[str], call: ast.expr) -> ast.stmt:
    if not names:
        return ast.Expr(call)
    return ast.Assign([ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())], call)


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _own(body: Sequence[ast.AST], loops: bool = True) -> list[ast.AST]:
    """Everything in statements but not in functions and classes inside; without `loops`, not in loops either."""
    found: list[ast.AST] = []
    stack = list(body)
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, _SCOPES) and (loops or not isinstance(node, ast.For | ast.While)):
            stack += ast.iter_child_nodes(node)
    return found


def _has(node: ast.AST, kinds: Any, loops: bool = True) -> bool:
    return any(isinstance(one, kinds) for one in _own([node], loops))


def _assigned(body: Sequence[ast.AST]) -> set[str]:
    names = set()
    inside = {
        id(one)
        for node in _own(body)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        for generator in node.generators
        for one in ast.walk(generator.target)
    }
    for node in _own(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inside:
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return {name for name in names if not name.startswith("_part_")}


def _moved(body: Sequence[ast.AST]) -> list[str]:
    """The variables that statements write into in place."""
    targets = [node.target for node in _own(body) if isinstance(node, ast.AugAssign)]
    return sorted({target.id for target in targets if isinstance(target, ast.Name)})


def _effects(body: Sequence[ast.AST]) -> str:
    """What statements change beside variables: attributes, entries, lists."""
    for node in _own(body):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            return f"line {node.lineno} assigns {ast.unparse(node)}"
        called = node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        if called and isinstance(called.func, ast.Attribute) and called.func.attr in MUTATORS:
            return f"line {called.lineno} calls {ast.unparse(called.func)}"
    return ""


def _returning(body: list[ast.stmt]) -> list[ast.stmt]:
    """The same statements with every way through them ending in a return: what follows an ``if`` goes into it."""
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Return | ast.Raise):
            return body[: i + 1]
        if isinstance(statement, ast.If) and _has(statement, ast.Return):
            rest = body[i + 1 :]
            made = copy.copy(statement)
            made.body = _returning([*statement.body, *copy.deepcopy(rest)])
            made.orelse = _returning([*statement.orelse, *copy.deepcopy(rest)])
            made.ends = True  # type: ignore[attr-defined]
            return [*body[:i], made]
    end = ast.Return(ast.Constant(None))
    return [*body, ast.copy_location(end, body[-1]) if body else end]


def _flagged(body: list[ast.stmt], stop: str, skip: str) -> list[ast.stmt]:
    """Statements with break and continue replaced by flags; what comes after one runs only if no flag is set."""
    done: list[ast.stmt] = []
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Break | ast.Continue):
            flags = [_set(skip, True, statement)]
            return [*done, *([_set(stop, True, statement)] if isinstance(statement, ast.Break) else []), *flags]
        if isinstance(statement, ast.If) and _has(statement, (ast.Break, ast.Continue), loops=False):
            made = copy.copy(statement)
            made.body = _flagged(statement.body, stop, skip)
            made.orelse = _flagged(statement.orelse, stop, skip)
            done.append(made)
            rest = _flagged(body[i + 1 :], stop, skip)
            if rest:
                test = ast.UnaryOp(ast.Not(), _load(skip))
                guarded = ast.If(ast.copy_location(test, statement), rest, [])
                done.append(ast.copy_location(guarded, statement))
            return done
        done.append(statement)
    return done
