"""The spec linter: each rule finds what it is for, and the specs there are pass them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_lab
from small_lab import NAME, ORACLES, cell, make_lab, task

from autograder import lint
from autograder.cli import run
from autograder.compare import compare, loosened
from autograder.grade import Grader
from autograder.mutants import MutantError, samples_of
from autograder.notebook import parse_notebook
from autograder.spec import Hint, Inputs, Lab, Tolerance, lab_names, load_lab

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", lab_names())
def test_every_spec_passes(name: str) -> None:
    assert [str(one) for one in lint.lint(load_lab(name), ROOT)] == []


def by_product(framework: Any, x: np.ndarray) -> np.ndarray:
    return x * 2


def by_sum(framework: Any, x: np.ndarray) -> np.ndarray:
    return x + x


def asks(framework: Any, x: np.ndarray) -> np.ndarray:
    return framework.add(x, x)


SECTIONS = [f"# %% wrong: mistake {k} | .\n\ndef double(x):\n    return x * {k / 10}\n\n" for k in range(8)]
SECTIONS += [f"# %% right: way {k}\n\ndef double(x):\n    return x * {k} + x * {2 - k}\n\n" for k in range(2)]
GOOD = {"hints": {"factor": "Twice, not once."}, "oracles": {"one": by_product, "other": by_sum}}
ANSWER = "    doubled_by_the_learner = x + x\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "labs" / "solutions").mkdir(parents=True)
    (tmp_path / "tests" / "mutants" / NAME).mkdir(parents=True)
    source = f"def double(x):\n    ### BEGIN SOLUTION\n{ANSWER}    return doubled_by_the_learner\n    ### END SOLUTION"
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"autograder": {"lab": NAME}}, "cells": []}
    notebook["cells"] = [cell(source, grade_id="double")]
    (tmp_path / "labs" / "solutions" / f"{NAME}.ipynb").write_text(json.dumps(notebook))
    write(tmp_path, SECTIONS)
    return tmp_path


def write(root: Path, sections: list[str]) -> None:
    (root / "tests" / "mutants" / NAME / "double.py").write_text("".join(sections))


def found(root: Path, **changed: Any) -> dict[str, str]:
    one = task("double", by_product, **(GOOD | changed))
    return {finding.rule: finding.sentence for finding in lint.lint(make_lab(one), root)}


def edges(draw: Any) -> Any:
    return lambda rng: [{"x": draw(rng)}]


def test_nothing_is_found_where_nothing_is_wrong(root: Path) -> None:
    assert found(root) == {}


@pytest.mark.parametrize(
    ("rule", "words", "changed"),
    [
        ("oracles", "asks no framework", {"oracles": {"torch": by_sum, "tensorflow": by_sum}}),
        ("hints", "has no hints", {"hints": {}}),
        ("hints", "is empty", {"hints": {"sign": " "}}),
        ("hints", "line of the solution", {"hints": {"sign": f"Write {ANSWER.strip()}"}}),
        ("unlocks", "no regular expression", {"unlocks": (Hint("(", "Which way round?"),)}),
        ("unlocks", "no words", {"unlocks": (Hint("half", " \n"),)}),
        ("unlocks", "about everything", {"unlocks": (Hint("half|", "Which way round?"),)}),
        ("unlocks", "a piece of the answer", {"unlocks": (Hint("half", f"Write {ANSWER.strip()}."),)}),
        ("unlocks", "a piece of the answer", {"unlocks": (Hint("half", "Try `doubled_by_the_learner=x+x`."),)}),
        ("fresh", "two seeds", {"edges": edges(lambda rng: np.array([0.25, 0.5, -3.0])), "examples": 0}),
        ("arange", "np.arange", {"edges": edges(lambda rng: np.arange(4.0).reshape(2, 2))}),
        ("arange", "np.arange", {"edges": edges(lambda rng: np.arange(1, 7, dtype=np.float32))}),
        ("arange", "one value", {"edges": edges(lambda rng: np.full(3, rng.normal())), "examples": 0}),
        ("cases", "ZeroDivisionError", {"edges": edges(lambda rng: 1 / 0)}),
        ("cotangent", "'g' is ones", {"edges": lambda rng: [{"x": rng.normal(size=3), "g": np.ones(3)}]}),
        ("cotangent", "'g' is ones", {"edges": lambda rng: [{"x": {"g": [np.ones((2, 2), np.float32)]}}]}),
    ],
)
def test_a_rule_finds_what_it_is_for(root: Path, rule: str, words: str, changed: dict[str, Any]) -> None:
    assert words in found(root, **changed)[rule]


def test_one_function_that_asks_each_framework_is_two_opinions(root: Path) -> None:
    assert found(root, oracles={"torch": asks, "tensorflow": asks}) == {}


def test_a_stretched_cotangent_and_one_entry_are_no_ones(root: Path) -> None:
    def stretched(rng: np.random.Generator) -> list[Inputs]:
        cotangents = [np.broadcast_to(rng.normal(), (2, 3)), rng.normal(size=(2, 3))]
        return [{"x": rng.normal(size=3), "g": g} for g in cotangents]

    assert found(root, edges=stretched) == {}
    assert found(root, edges=lambda rng: [{"x": rng.normal(size=2), "g": np.ones(1)}]) == {}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (SECTIONS[1:], "7 wrong answers"),
        (SECTIONS[:-1], "1 right answers"),
        ([], "0 right answers"),
        ([*SECTIONS, SECTIONS[0]], "more than once"),
        ([*SECTIONS, "# %% wrong:\n"], "is none of"),
        ([*SECTIONS, "# %% odd: title\n"], "is none of"),
        ([*SECTIONS, "# %% wrong: title | (\n"], "no regular expression"),
    ],
)
def test_mutants_are_counted(root: Path, sections: list[str], words: str) -> None:
    write(root, sections)
    assert words in found(root)["mutants"]


def test_mutants_that_are_no_text(root: Path) -> None:
    path = root / "tests" / "mutants" / NAME / "double.py"
    path.write_bytes(b"\xff\xfe\xff")
    assert "can't be read" in found(root)["mutants"]
    path.unlink()
    assert samples_of(root, NAME, "double") == []
    path.mkdir()
    with pytest.raises(MutantError, match="can't be read"):
        samples_of(root, NAME, "double")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch\n", "imports torch"),
        ("def f():\n    from tensorflow import math\n", "imports tensorflow"),
        ("from autograder import oracles\n", "imports autograder.oracles"),
        ("import autograder.specs.lab05_tape as spec\n", "imports autograder.specs.lab05_tape"),
        ("from internals.ops import mul\n", "imports internals.ops"),
        ("def double(x):\n    return 2 * x\n", "defines double"),
        ("def other(x):\n" + ANSWER, "line of the solution"),
    ],
)
def test_a_driver_that_knows_the_answer(root: Path, source: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint, "driver_source", lambda lab: source)
    assert words in found(root, driver="call_double")["driver"]


def test_a_wider_tolerance_ends_with_its_block() -> None:
    got, want = np.array([1.0 + 5e-8]), np.array([1.0])
    assert compare(got, want)
    with loosened(10):
        assert not compare(got, want)
        assert compare(got + 1, want)
        assert compare(got.astype(np.float32), want)
    assert compare(got, want)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "verdict", "swallowed"),
    [("2.1", "wrong", False), ("2.003", "wrong", True), ("2.0001", "right", False), ("2", "right", False)],
)
def test_an_answer_that_loses_by_a_hair(factor: str, verdict: str, swallowed: bool) -> None:
    one = task("double", by_product, tolerance=Tolerance(1e-3, 0.0), **GOOD)
    margins = lint.Margins()
    grader = Grader(oracles=ORACLES, watch=margins, seed=3)
    notebook = small_lab.notebook(double=f"def double(x):\n    return {factor} * x")
    (result,) = grader.grade_notebook(parse_notebook(json.dumps(notebook).encode()), lab=make_lab(one)).tasks
    assert (result.verdict, margins.swallowed) == (verdict, swallowed)


@pytest.mark.slow
def test_mutants_are_graded(root: Path) -> None:
    one = task("double", by_product, tolerance=Tolerance(1e-3, 0.0), **GOOD)
    write(root, [f"# %% wrong: times {k} | .\n\ndef double(x):\n    return x * {k}\n" for k in (2.0, 2.003, 5.0)])
    said = [finding.sentence for finding in lint.swallowed(make_lab(one), root, Grader(oracles=ORACLES, seed=3))]
    assert said == [
        "the wrong answer 'times 2.0' earns full marks.",
        "the wrong answer 'times 2.003' would pass if the tolerance were 10 times as wide.",
    ]


@pytest.mark.slow
def test_a_hint_that_no_wrong_answer_is_told_is_found(root: Path) -> None:
    unlocks = (Hint("2 times what it should be", "Which way round?"), Hint("transposed", "Which axis?"))
    one = task("double", by_product, unlocks=unlocks, **GOOD)
    write(root, ["# %% wrong: four times | .\n\ndef double(x):\n    return x * 4\n"])
    found = list(lint.swallowed(make_lab(one), root, Grader(oracles=ORACLES, seed=3)))
    assert [(finding.rule, "'transposed'" in finding.sentence) for finding in found] == [("unlocks", True)]


@pytest.mark.slow
def test_the_command(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    labs: dict[str, Lab] = {"lab98": make_lab(task("double", by_product, **GOOD))}
    monkeypatch.setattr("autograder.spec.lab_names", lambda: list(labs))
    monkeypatch.setattr("autograder.spec.load_lab", lambda name: labs[name])
    assert run(["lint-specs", "--project", str(root)]) == 0
    assert capsys.readouterr().out == "1 lab has nothing wrong with it.\n"
    labs["lab98"] = make_lab(task("double", by_product, **(GOOD | {"hints": {}})))
    assert run(["lint-specs", "--project", str(root)]) == 1
    assert f"{NAME}/double: it has no hints" in capsys.readouterr().out
    (root / "labs" / "solutions" / f"{NAME}.ipynb").write_text("{")
    assert run(["lint-specs", "--project", str(root)]) == 1
    assert "can't be read" in capsys.readouterr().out
    assert run(["lint-specs", "--project", str(root / "nowhere")]) == 2
    assert "labs/solutions" in capsys.readouterr().err


@pytest.mark.slow
def test_oracles_that_disagree_are_found(root: Path) -> None:
    one = task("double", by_product, **(GOOD | {"oracles": {"one": by_product, "other": lambda framework, x: 3 * x}}))
    (finding,) = lint.swallowed(make_lab(one), root, Grader(oracles=ORACLES, seed=3))
    assert finding.rule == "ungraded"
    assert "disagree" in finding.sentence
