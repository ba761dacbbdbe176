"""What is wrong with a spec, before a learner meets it: no proofs, tame inputs, a tolerance that forgives.

RULES is a table of what can be read off a spec and a few of its cases. `Margins` looks at the answers of mutants while
they are graded: one that is caught by a hair today is let through by the next seed.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autograder import generate
from autograder.compare import loosened
from autograder.hints import holds_answer, told
from autograder.mutants import RIGHT, WRONG, MutantError, samples_of, solution_code, solution_lines
from autograder.spec import Inputs, Lab, Task, driver_source
from autograder.verdict import Tried, faults

SEEDS = (20_261_130, 7)
"""Two: what both draw alike is not random."""

MARGIN = 10.0
"""A wrong answer must still be wrong where the tolerance is this many times as wide."""

COTANGENTS = frozenset({"g", "dy", "dz", "gy", "cotangent", "cotangents", "grad", "grad_output", "grad_out", "seed"})

FORBIDDEN = ("torch", "tensorflow", "keras", "jax", "internals", "autograder.specs", "autograder.oracles")
"""What a driver may not import: it runs beside the learner's code, and whatever it knows can be read there."""


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a spec; `task` is "" where it concerns the lab as a whole."""

    lab: str
    task: str
    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.lab}{'/' if self.task else ''}{self.task}: {self.sentence} [{self.rule}]"


@dataclass(frozen=True)
class Examined:
    """A task under the linter: its lab, the project it stands in, and its cases for each of `SEEDS`."""

    root: Path
    lab: Lab
    task: Task
    drawn: tuple[list[Inputs], ...]

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        for cases in self.drawn:
            for inputs in cases:
                yield from arrays_in(inputs)


def lint(lab: Lab, root: Path) -> list[Finding]:
    """Everything the rules find in a lab.

    Parameters
    ----------
    lab : Lab
    root : Path
        The project's folder, with ``labs/solutions`` and ``tests/mutants`` in it.
    """
    found = [Finding(lab.name, "", "driver", sentence) for sentence in driver_holds(lab, root)]
    for task in lab.tasks:
        try:
            drawn = tuple(draw(task, seed) for seed in SEEDS)
        except Exception as error:  # noqa: BLE001  a spec's own code, which may fail in any way
            words = f"its cases cannot be drawn: {type(error).__name__}: {error}"
            found.append(Finding(lab.name, task.name, "cases", words))
            drawn = ()
        examined = Examined(root, lab, task, drawn)
        for rule, look in RULES.items():
            found += [Finding(lab.name, task.name, rule, sentence) for sentence in look(examined)]
    return found


def draw(task: Task, seed: int) -> list[Inputs]:
    """The edges, and a few random cases: all there is to see is in the first of them."""
    from dataclasses import replace

    return generate.draw(replace(task, examples=min(task.examples, 5)), seed)


def arrays_in(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Every array in a case, with the name of the argument or the key it stands under."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from arrays_in(part, str(key))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from arrays_in(part, name)


# --- the rules --------------------------------------------------------------------------------------


def mutants_lack(one: Examined) -> Iterator[str]:
    try:
        samples = samples_of(one.root, one.lab.name, one.task.name)
    except MutantError as error:
        yield str(error)
        return
    for kind, least in (("wrong", WRONG), ("right", RIGHT)):
        count = sum(sample.kind == kind for sample in samples)
        if count < least:
            where = f"tests/mutants/{one.lab.name}/{one.task.name}.py"
            yield f"{count} {kind} answers in {where}, at least {least} needed; write {least - count} more."
    sources = [sample.source.strip() for sample in samples]
    for sample in samples:
        if sources.count(sample.source.strip()) > 1:
            yield f"the answer {sample.title!r} stands in its mutants more than once."


def one_oracle(one: Examined) -> Iterator[str]:
    """Two names for a function that asks no framework are one opinion."""
    minds = {
        (id(oracle), name if asks_framework(oracle) else "") for name, oracle in one.task.oracles.items()
    }  # fmt: skip
    if len(minds) < 2:
        names = " and ".join(one.task.oracles)
        yield f"its oracles {names} are one function that asks no framework; write one that finds the answer otherwise."


def asks_framework(oracle: Callable[..., Any]) -> bool:
    """Whether an oracle uses the framework it is given; yes, where its source can't be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(oracle)))
    except (OSError, TypeError, SyntaxError):
        return True
    function = next((node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))), None)
    if function is None or not [*function.args.posonlyargs, *function.args.args]:
        return True
    first = [*function.args.posonlyargs, *function.args.args][0].arg
    return any(isinstance(node, ast.Name) and node.id == first for node in ast.walk(function))


def ones_as_cotangent(one: Examined) -> Iterator[str]:
    for name in sorted({name for name, array in one.arrays() if name in COTANGENTS and all_ones(array)}):
        yield f"the cotangent {name!r} is ones in some case, which many a wrong rule survives; draw it at random."


def tame_inputs(one: Examined) -> Iterator[str]:
    counted = {name for name, array in one.arrays() if is_arange(array)}
    yield from (f"{name!r} is np.arange in some case; draw it at random." for name in sorted(counted))
    by_name: dict[str, list[bool]] = {}
    for name, array in one.arrays():
        if array.dtype.kind in "fc" and array.size > 1:
            by_name.setdefault(name, []).append(all_alike(array))
    yield from (
        f"{name!r} has one value everywhere in every case; draw it at random."
        for name, alike in sorted(by_name.items())
        if all(alike)
    )


def all_alike(array: np.ndarray) -> bool:
    flat = array.ravel()
    return array.dtype.kind in "fc" and array.size > 1 and bool((flat == flat[0]).all())


def all_ones(array: np.ndarray) -> bool:
    return all_alike(array) and array.ravel()[0] == 1


def is_arange(array: np.ndarray) -> bool:
    """Whether a float array is consecutive whole numbers, in the order it is read in."""
    if array.dtype.kind not in "fc" or array.size < 4:
        return False
    flat = array.ravel()
    return bool(np.isfinite(flat).all() and (np.diff(flat) == 1).all() and (flat == np.rint(flat)).all())


def stale_inputs(one: Examined) -> Iterator[str]:
    """Edges draw their values from the generator they are given."""
    if len(one.drawn) < 2:
        return
    first, second = (
        [array for case in cases for _, array in arrays_in(case) if array.size > 1 and array.dtype.kind in "fc"]
        for cases in one.drawn
    )
    if (
        first
        and len(first) == len(second)
        and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
    ):
        yield "two seeds give the same values; draw them from the generator that `edges` is given."


def no_hints(one: Examined) -> Iterator[str]:
    if not one.task.hints:
        yield "it has no hints; say for the likeliest mistakes where to look."
    for name, hint in one.task.hints.items():
        if not hint.strip():
            yield f"its hint {name!r} is empty."
        for line in solution_lines(one.root, one.lab.name):
            if line in hint:
                yield f"its hint {name!r} has a line of the solution in it: {line!r}."


def locked_hints(one: Examined) -> Iterator[str]:
    for hint in one.task.unlocks:
        try:
            re.compile(hint.about)
        except re.error as error:
            yield f"the pattern {hint.about!r} of a hint that opens is no regular expression: {error}."
            continue
        if not hint.words.strip() or re.search(hint.about, ""):
            yield f"the hint about {hint.about!r} has no words, or is about everything."
        solution = solution_code(one.root, one.lab.name)
        lines = [line for line in solution_lines(one.root, one.lab.name) if line in hint.words]
        for piece in lines or filter(None, [holds_answer(one.task, hint.words, solution)]):
            yield f"the hint about {hint.about!r} holds a piece of the answer: {piece!r}."


RULES: dict[str, Callable[[Examined], Iterator[str]]] = {
    "mutants": mutants_lack,
    "oracles": one_oracle,
    "cotangent": ones_as_cotangent,
    "arange": tame_inputs,
    "fresh": stale_inputs,
    "hints": no_hints,
    "unlocks": locked_hints,
}


def driver_holds(lab: Lab, root: Path) -> Iterator[str]:
    """What of an answer a lab's driver gives away."""
    source = driver_source(lab)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        modules = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        for module in modules:
            if any(module == name or module.startswith(f"{name}.") for name in FORBIDDEN):
                yield f"its driver imports {module}, line {node.lineno}, which knows answers."  # type: ignore[attr-defined]
                break
    asked = {name for task in lab.tasks for name in task.names}
    drivers = {task.driver for task in lab.tasks}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in asked - drivers:
            yield f"its driver defines {node.name}, line {node.lineno}, which the learner is to write."
    told = {line.strip() for line in source.split("\n")} & solution_lines(root, lab.name)
    for line in sorted(told):
        yield f"its driver has a line of the solution in it: {line!r}."


# --- margins ------------------------------------------------------------------------------------------


class Margins:
    """Watches gradings, and keeps which wrong answers would pass if the tolerance were `MARGIN` times as wide.

    Give it to a Grader as `watch`. `swallowed` says whether the task graded last was lost by its numbers alone, and
    only by a hair.
    """

    def __init__(self, margin: float = MARGIN) -> None:
        self.margin = margin
        self.swallowed = False

    def __call__(self, task: Task, tried: Sequence[Tried]) -> None:
        failing = [one for one in tried if not one.passed]
        self.swallowed = bool(failing) and not any(self._clearly(task, one) for one in failing)

    def _clearly(self, task: Task, one: Tried) -> bool:
        from autograder.run import Answer

        if not isinstance(one.outcome, Answer) or one.only_costly:
            return True
        with loosened(self.margin):
            return bool(faults(task, one.case, one.outcome.value))


def swallowed(lab: Lab, root: Path, grader: Any) -> Iterator[Finding]:
    """Grades every wrong answer of a lab; those that pass, or nearly.

    Parameters
    ----------
    grader : autograder.grade.Grader
        Its `watch` is replaced.
    """
    from autograder.mutants import answered
    from autograder.notebook import parse_notebook

    margins = grader.watch = Margins()
    for task in lab.tasks:
        shut = {hint.about for hint in task.unlocks}
        for sample in samples_of(root, lab.name, task.name):
            if sample.kind == "wrong":
                notebook = parse_notebook(answered(root, sample), f"{lab.name}.ipynb")
                margins.swallowed = False
                (result,) = grader.grade_notebook(notebook, lab=lab, tasks=[task.name]).tasks
                shut = {about for about in shut if not re.search(about, told(result))}
                if result.verdict == "ungraded":
                    yield Finding(lab.name, task.name, "ungraded", result.message)
                    break
                if result.verdict == "right":
                    words = f"the wrong answer {sample.title!r} earns full marks."
                elif margins.swallowed:
                    words = (
                        f"the wrong answer {sample.title!r} would pass if the tolerance were {MARGIN:g} times as wide."
                    )
                else:
                    continue
                yield Finding(lab.name, task.name, "tolerance", words)
        for about in sorted(shut):
            yield Finding(lab.name, task.name, "unlocks", f"no wrong answer is told {about!r}; its hint never opens.")


def main(names: Sequence[str], root: Path, *, mutants: bool = False) -> int:
    """Lint the named labs, or all; print what is found. The exit code: 0 for nothing, 1 for something."""
    from autograder.output import say
    from autograder.spec import lab_names, load_lab

    count = 0
    labs = [load_lab(name) for name in names or lab_names()]
    for lab in labs:
        found: list[Finding] = []
        try:
            found += lint(lab, root)
            if mutants:
                from autograder.grade import Grader

                found += swallowed(lab, root, Grader())
        except (OSError, json.JSONDecodeError) as error:
            found.append(Finding(lab.name, "", "files", f"its solution notebook can't be read: {error}"))
        for finding in found:
            say(str(finding))
        count += len(found)
    if not count:
        say("1 lab has nothing wrong with it." if len(labs) == 1 else f"{len(labs)} labs have nothing wrong with them.")
    return int(count > 0)
