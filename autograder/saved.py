"""Is what a kernel has run also in the notebook's file? A kernel runs what is on the screen; grading reads the disk."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from autograder import slicing
from autograder.notebook import Notebook, make_cell, parse
from autograder.spec import Lab


def missing(notebook: Notebook, lab: Lab, history: Sequence[slicing.Executed]) -> list[str]:
    """Names of the lab's tasks whose definition, as last run, stands nowhere in the file."""
    in_file = {definition for cell in notebook.cells for definition in definitions(cell.code)}
    found = []
    for name in [name for task in lab.tasks for name in task.names]:
        last = next((cell for cell in reversed(history) if _binds(cell, name)), None)
        if last is None or not last.succeeded:
            continue
        as_run = [one for one in definitions(make_cell(1, last.source).code) if one[0] == name]
        if as_run and as_run[-1] not in in_file:
            found.append(name)
    return found


def _binds(cell: slicing.Executed, name: str) -> bool:
    effect = slicing.effects(cell.source)
    return effect is not None and name in effect.binds | effect.maybe


def definitions(code: str) -> list[tuple[str, str]]:
    """(name, what it is bound to) of the top-level definitions in a cell; comments and layout make no difference."""
    tree = parse(code)
    found = []
    for statement in tree.body if tree else []:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append((statement.name, ast.dump(statement)))
        elif isinstance(statement, ast.Assign):
            found += [(target.id, ast.dump(statement)) for target in statement.targets if isinstance(target, ast.Name)]
    return found
