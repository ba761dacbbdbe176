"""Mutants at many seeds: a wrong answer that passes at some of them is found, and so is a right one that fails."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_lab import NAME, ORACLES, cell, double, make_lab, task

from autograder.cli import run
from autograder.luck import TaskLuck, luck_of, main
from autograder.spec import Inputs, Property, Task, load_lab

ROOT = Path(__file__).parents[2]
SEEDS = range(40, 46)
POSITIVE = [seed for seed in SEEDS if np.random.default_rng(seed).normal() > 0]
NEGATIVE = [seed for seed in SEEDS if seed not in POSITIVE]

SIGN = "# %% wrong: without the sign | .\n\ndef double(x):\n    return 2 * abs(x)\n\n"
HALF = "# %% wrong: half | .\n\ndef double(x):\n    return x / 2\n\n"
SUM = "# %% right: a sum\n\ndef double(x):\n    return x + x\n\n"
ROOT_OF_SQUARE = "# %% right: a root\n\ndef double(x):\n    return np.sqrt(4 * x * x)\n\n"
RAISES = "# %% right: picky\n\ndef double(x):\n    if x < 0:\n        raise ValueError('below')\n    return 2 * x\n\n"


def drawn_sign(rng: np.random.Generator) -> list[Inputs]:
    return [{"x": rng.normal(size=1)}]


def both_signs(rng: np.random.Generator) -> list[Inputs]:
    one = abs(rng.normal(size=1))
    return [{"x": one}, {"x": -one}]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "labs" / "solutions").mkdir(parents=True)
    (tmp_path / "tests" / "mutants" / NAME).mkdir(parents=True)
    source = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
    cells = [cell("import numpy as np"), cell(source, grade_id="double")]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"autograder": {"lab": NAME}}, "cells": cells}
    (tmp_path / "labs" / "solutions" / f"{NAME}.ipynb").write_text(json.dumps(notebook))
    return tmp_path


def grade(root: Path, *sections: str, **changed: Any) -> TaskLuck:
    one = task("double", double, **({"edges": drawn_sign, "examples": 0} | changed))
    (root / "tests" / "mutants" / NAME / "double.py").write_text("".join(sections))
    return luck_of(make_lab(one), one, root, SEEDS, ORACLES)


@pytest.mark.slow
def test_what_depends_on_the_seed_is_found(root: Path) -> None:
    assert POSITIVE
    assert NEGATIVE
    found = grade(root, SIGN, HALF, SUM, ROOT_OF_SQUARE, RAISES)
    assert not found.sound
    sign, half, plain, square, picky = found.fates
    assert [list(fate.lucky) for fate in (sign, half, plain, square, picky)] == [POSITIVE, [], [], NEGATIVE, NEGATIVE]
    said = list(found.lines())
    assert said[0] == "double: 6 seeds, about 1 cases each; 2 wrong answers, 3 right ones"
    assert any("PASSES" in line and "'without the sign'" in line and f"{len(POSITIVE)} of 6" in line for line in said)
    assert any("FAILS" in line and "'a root'" in line and f"({NEGATIVE[0]}" in line for line in said)
    assert any("FAILS" in line and "'picky': ValueError: below" in line for line in said)
    assert not any("'a sum'" in line for line in said)


@pytest.mark.slow
def test_a_case_that_is_always_tried_takes_the_luck_away(root: Path) -> None:
    found = grade(root, SIGN, HALF, SUM, edges=both_signs)
    assert found.sound
    assert [*found.lines()][1:] == ["  thin: one case alone finds it at 6 of 6 seeds: 'without the sign'"]


@pytest.mark.slow
def test_points_for_a_part_are_luck_too(root: Path) -> None:
    def signed(inputs: Inputs, got: Any, want: Any) -> list[str]:
        return [] if np.array_equal(np.sign(got), np.sign(want)) else ["The sign is lost."]

    four = "# %% wrong: four times its size | .\n\ndef double(x):\n    return 4 * abs(x)\n\n"
    parts = (Property("sign", "The sign", 4.0, judge=signed), Property("size", "All of it", 6.0))
    found = grade(root, four, properties=parts)
    assert found.fates[0].passed == dict.fromkeys(POSITIVE, 4.0)
    assert "for 4 of 10 points" in [*found.lines()][1]


@pytest.mark.slow
def test_seeds_without_an_answer_are_told(root: Path) -> None:
    def other(framework: Any, x: np.ndarray) -> np.ndarray:
        return 2 * np.abs(x)

    found = grade(root, SUM, oracles={"one": double, "other": other})
    assert list(found.unasked) == NEGATIVE
    assert not found.sound
    assert "disagree" in [*found.lines()][1]


@pytest.mark.slow
def test_what_random_cases_alone_find_is_told(root: Path) -> None:
    """At none of the seeds does it pass; that there are seeds where it does can be seen from how few cases find it."""

    def strategy() -> Any:
        from hypothesis import strategies as st

        return st.integers(0, 2**32 - 1).map(lambda seed: {"x": np.random.default_rng(seed).normal(size=1)})

    far = "# %% wrong: not far out | .\n\ndef double(x):\n    return 2 * np.clip(x, -1, None)\n\n"
    found = grade(root, far, HALF, edges=lambda rng: [{"x": abs(rng.normal(size=1))}], strategy=strategy, examples=30)
    (fate, half) = found.fates
    assert found.sound
    assert list(fate.random) == list(SEEDS)
    share = sum(count for count, _ in fate.random.values()) / sum(cases for _, cases in fate.random.values())
    assert 0 < share < 0.5
    assert fate.chance == pytest.approx((1 - share) ** 30)
    assert not half.random
    (line,) = [*found.lines()][1:]
    assert line.startswith(
        "  AT RANDOM: no edge finds it at 6 of 6 seeds (40, 41, 42, 43, 44, ...), so about 1 draw in "
    )


@pytest.mark.slow
def test_the_command(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("autograder.luck.oracles_of", lambda lab: ORACLES)
    small: dict[str, Task] = {"double": task("double", double, edges=drawn_sign, examples=0)}
    monkeypatch.setattr("autograder.spec.load_lab", lambda name: make_lab(small["double"]))
    (root / "tests" / "mutants" / NAME / "double.py").write_text(SIGN + SUM)
    asked = ["luck", NAME, "--project", str(root), "--seeds", "6"]
    assert run([*asked, "--seed", "40"]) == 1
    assert "PASSES" in capsys.readouterr().out
    small["double"] = task("double", double, edges=both_signs, examples=0)
    assert run([*asked, "double"]) == 0
    assert f"{NAME}, seeds " in capsys.readouterr().out
    assert run([*asked, "treble"]) == 2
    assert "treble" in capsys.readouterr().err
    assert run([*asked, "--seed", str(2**32 - 5)]) == 2
    assert "--seed" in capsys.readouterr().err


@pytest.mark.slow
def test_no_answer_is_lucky_at_a_seed_drawn_anew() -> None:
    first = secrets.randbits(31)
    said: list[str] = []
    assert main(load_lab("lab18_serving"), ["due"], ROOT, [first], say=said.append) == 0, "\n".join(said)
