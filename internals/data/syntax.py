"""Trees from real text: the syntax of the functions of Python's own standard library."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


def _is_kind(found: object) -> bool:
    """Whether it is a node of the grammar: neither a family of them (`ast.stmt`) nor an old name of Constant."""
    if not isinstance(found, type) or not issubclass(found, ast.AST) or found is ast.AST:
        return False
    family = found.__bases__ == (ast.AST,) and bool(found.__subclasses__())
    return not family and ast.Constant not in found.__bases__


KINDS: tuple[str, ...] = tuple(sorted(name for name, found in vars(ast).items() if _is_kind(found)))
"""The names of the kinds of node that Python's grammar has."""

_NUMBER = {name: i for i, name in enumerate(KINDS)}


class Tree(NamedTuple):
    """A node and what is below it.

    Attributes
    ----------
    kind : int
        Which of `KINDS`.
    children : tuple of Tree
    """

    kind: int
    children: tuple[Tree, ...]

    @property
    def size(self) -> int:
        """How many nodes it has."""
        count, waiting = 0, [self]
        while waiting:
            node = waiting.pop()
            count += 1
            waiting += node.children
        return count

    def __repr__(self) -> str:
        return f"<{KINDS[self.kind]}, {self.size} nodes>"


def syntax_tree(node: ast.AST) -> Tree:
    """The kinds of nodes of a syntax tree, without names, constants and the marks for load and store."""
    below = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)]
    return Tree(_NUMBER[type(node).__name__], tuple(map(syntax_tree, below)))


def functions_of(package: str, *, smallest: int = 8, largest: int = 100) -> list[Tree]:
    """The syntax trees of all functions of a package of the standard library, as its source has them.

    Parameters
    ----------
    package : str
        A module or a package, whose sub-packages are left out.
    smallest, largest : int
        How many nodes a tree may have.

    Returns
    -------
    list of Tree

    Raises
    ------
    ValueError
        There is no such module, or it has no source in Python.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        raise ValueError(f"functions_of: there is no module {package!r} with a source in Python.")
    origin = Path(found.origin)
    paths: Sequence[Path] = sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]
    trees = [
        syntax_tree(node)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [tree for tree in trees if smallest <= tree.size <= largest]
