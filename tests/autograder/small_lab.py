"""A lab for tests only: small tasks, oracles in this process, notebooks made from source."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autograder.oracles import Answer
from autograder.spec import Inputs, Lab, Task

NAME = "lab99_small"


def strategy() -> Any:
    from hypothesis import strategies as st

    shapes = st.lists(st.integers(1, 4), max_size=2)
    return st.tuples(shapes, st.integers(0, 2**32 - 1)).map(
        lambda drawn: {"x": np.random.default_rng(drawn[1]).normal(size=drawn[0]).round(2)}
    )


def edges(rng: np.random.Generator) -> list[Inputs]:
    return [{"x": rng.normal(size=shape).round(2)} for shape in ((), (0,), (1, 1), (3, 3))]


def double(framework: Any, x: np.ndarray) -> np.ndarray:
    return 2 * np.asarray(x)


def parts(framework: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.minimum(x, 0), np.maximum(x, 0)


def task(name: str, oracle: Any, **changed: Any) -> Task:
    given: dict[str, Any] = {
        "name": name,
        "title": f"The task {name}",
        "points": 10.0,
        "names": (name,),
        "driver": name,
        "call": lambda x: f"{name}({x!r})",
        "strategy": strategy,
        "edges": edges,
        "oracles": {"one": oracle, "other": oracle},
        "limit": 1.0,
    }
    return Task(**(given | changed))


DOUBLE, PARTS = task("double", double), task("parts", parts)


def make_lab(*tasks: Task, **changed: Any) -> Lab:
    """A lab of these tasks, whose driver the grader finds."""
    lab = Lab(NAME, "A small lab", tasks or (DOUBLE, PARTS), packages=("numpy",), **changed)
    lab.__dict__["version"] = "test"
    module = f"autograder.drivers.{NAME}"
    if module not in sys.modules:
        found = importlib.util.spec_from_file_location(module, Path(__file__).parent / "small_lab_driver.py")
        assert found is not None
        assert found.loader is not None
        sys.modules[module] = importlib.util.module_from_spec(found)
        found.loader.exec_module(sys.modules[module])
    return lab


class Here:
    """An oracle in this process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def launch(self) -> None:
        """Nothing to start."""

    def answer(self, lab: Lab, task: Task, cases: Sequence[Inputs]) -> list[Answer]:
        return [Answer(value=task.oracles[self.name](None, **inputs)) for inputs in cases]


ORACLES = {"one": Here("one"), "other": Here("other")}

RIGHT = {
    "double": "import numpy as np\ndef double(x):\n    return 2 * x",
    "parts": "def parts(x):\n    return np.minimum(x, 0), np.maximum(x, 0)",
}


def notebook(lab: str = NAME, **cells: str) -> dict[str, Any]:
    """A notebook with one cell per task, each followed by its check."""
    made = []
    for name, source in (RIGHT | cells).items():
        made += [cell(source, grade_id=name), cell(f'check("{name}")', grade_id=f"check-{name}")]
    made.insert(0, cell("from autograder import check, submit"))
    metadata = {"autograder": {"lab": lab, "version": 1}} if lab else {}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": made}


def cell(source: str, grade_id: str = "") -> dict[str, Any]:
    marks = {
        "grade_id": grade_id,
        "schema_version": 3,
        "grade": False,
        "solution": True,
        "locked": False,
        "task": False,
    }
    metadata = {"nbgrader": marks} if grade_id else {}
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": [], "execution_count": None}


def write(path: Path, lab: str = NAME, **cells: str) -> Path:
    path.write_text(json.dumps(notebook(lab, **cells)), encoding="utf-8")
    return path
