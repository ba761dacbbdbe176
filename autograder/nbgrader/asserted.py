"""Tasks whose cases are the test cells of an nbgrader assignment.

A lab that was imported grades by these at once. They are where a spec of one's own begins: tests that are written down
try a few fixed inputs, and stand in the sandbox where an answer could read them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any

from autograder.cells import to_python
from autograder.spec import Inputs, Property, Task

PASSES = {"passed": True, "said": ""}
SETS_UP = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class TestCell:
    """One test cell: its ``grade_id``, what it is worth, and all of its source, hidden tests too."""

    __test__ = False  # pytest would take it for a class of tests

    name: str
    points: float
    source: str

    @property
    def about(self) -> str:
        """What it says of itself."""
        tree = ast.parse(to_python(self.source)[0])
        said = ast.get_docstring(tree)
        return said.splitlines()[0].rstrip(" .") if said else self.name


def asserted(name: str, title: str, names: Sequence[str], tests: Sequence[TestCell], solution: Sequence[str]) -> Task:
    """A task that is judged by test cells.

    Parameters
    ----------
    name, title : str
    names : sequence of str
        What the learner defines.
    tests : sequence of TestCell
        Each is a property with its own points.
    solution : sequence of str
        The instructor's cells up to the tests, which must pass them.
    """
    parts = tuple(Property(one.name, one.about, one.points, concerns=partial(_is_of, cell=one.name)) for one in tests)
    cases = [case for one in tests for case in cases_of(one)]
    compiled = [compile(to_python(cell)[0], f"<{name}>", "exec") for cell in solution]
    return Task(
        name=name,
        title=title,
        points=sum(one.points for one in tests),
        names=tuple(names),
        driver="run_test",
        call=_replay,
        strategy=partial(_any_of, cases),
        edges=lambda rng: [dict(case) for case in cases],
        oracles={"numpy:the test": demanded, "numpy:the solution": partial(solved, compiled=compiled)},
        judge=judge,
        examples=0,
        show=show,
        properties=parts if len(parts) > 1 else (),
    )


def cases_of(test: TestCell) -> list[Inputs]:
    """One case for each assertion, with what comes before it; the whole cell, where it holds more than assertions."""
    source = to_python(test.source)[0]
    lines = source.split("\n")
    tree = ast.parse(source)
    body = [node for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    ends = [node.end_lineno for node in body]
    apart = len({node.lineno for node in body} | {0}) == len(body) + 1 and ends == sorted(set(ends), key=ends.index)
    asserts = [node for node in body if isinstance(node, ast.Assert)]
    if not asserts or not apart or any(not isinstance(node, (ast.Assert, *SETS_UP)) for node in body):
        return [{"cell": test.name, "source": source.strip("\n")}]
    cases: list[Inputs] = []
    before: list[str] = []
    for node in body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        text = "\n".join(lines[first - 1 : node.end_lineno])
        if isinstance(node, ast.Assert):
            cases.append({"cell": test.name, "source": "\n".join([*before, text])})
        else:
            before.append(text)
    return cases


def demanded(numpy: Any, cell: str, source: str) -> Mapping[str, Any]:
    """What the test itself demands of any answer."""
    return dict(PASSES)


def solved(numpy: Any, cell: str, source: str, *, compiled: Sequence[CodeType]) -> Mapping[str, Any]:
    """What comes of the test with the instructor's own solution."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for code in compiled:
        exec(code, space)
    try:
        exec(source, space)
    except Exception as error:  # noqa: BLE001  a test fails by raising anything
        return {"passed": False, "said": f"{type(error).__name__}: {error}"}
    return dict(PASSES)


def judge(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """What is wrong, in words."""
    if isinstance(got, dict) and got.get("passed") is True:
        return []
    said = got.get("said") if isinstance(got, dict) else None
    line = inputs["source"].split("\n")[-1].strip()
    what = f"`{line}` does not hold" if line.startswith("assert") else f"the test `{inputs['cell']}` fails"
    return [f"{what}: {said}" if isinstance(said, str) and said else f"{what}."]


def show(answer: Any) -> str:
    """An outcome in words."""
    return "The test passes." if answer["passed"] is True else str(answer["said"])


def _is_of(inputs: Inputs, *, cell: str) -> bool:
    return bool(inputs["cell"] == cell)


def _replay(cell: str, source: str) -> str:
    return source


def _any_of(cases: Sequence[Inputs]) -> Any:
    from hypothesis import strategies as st

    return st.sampled_from([dict(case) for case in cases])
