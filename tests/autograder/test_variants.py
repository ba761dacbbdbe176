"""Inputs of a learner's own: the same for one learner and lab at every grading, others for everybody else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from small_lab import ORACLES, make_lab, notebook

from autograder import sandbox, variants
from autograder.feedback import page
from autograder.grade import KEPT, Grader, grade_bytes
from autograder.report import Report
from autograder.variants import seed_of


def test_a_seed_belongs_to_a_learner_a_lab_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(variants.KEY, raising=False)
    mine = seed_of("lab05_tape", "ada")
    assert seed_of("lab05_tape", "ada") == mine
    others = {seed_of("lab04_session", "ada"), seed_of("lab05_tape", "bob"), seed_of("lab05_tape", "ada", "word")}
    assert len(others - {mine}) == 3
    monkeypatch.setenv(variants.KEY, "word")
    assert seed_of("lab05_tape", "ada") == seed_of("lab05_tape", "ada", "word") != mine


def test_seeds_are_spread_and_fit() -> None:
    seeds = {seed_of("lab05_tape", f"learner {k}", "w") for k in range(2000)}
    assert len(seeds) == 2000
    assert max(seeds) < 2**32
    assert len({seed % 16 for seed in seeds}) == 16


@pytest.mark.parametrize("learner", ["é", "\ud800", "a\0b", "x" * 10_000, "李"])
def test_any_name_has_a_seed(learner: str) -> None:
    assert 0 <= seed_of("lab05_tape", learner, "k" * 1000) < 2**32


def test_a_name_is_one_however_it_is_composed() -> None:
    assert seed_of("lab05_tape", "é") == seed_of("lab05_tape", "e\u0301")
    assert seed_of("a", "b\0c") != seed_of("a\0b", "c") or seed_of("ab", "c") != seed_of("a", "bc")


@pytest.mark.parametrize(("lab", "learner", "words"), [("", "ada", "the lab"), ("lab05", "", "the learner")])
def test_nobody_has_no_seed(lab: str, learner: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        seed_of(lab, learner)


def graded(learner: str, grader: Grader | None = None, **lab: Any) -> Report:
    raw = json.dumps(notebook(double="import numpy as np\ndef double(x):\n    return x")).encode()
    grader = grader or Grader(oracles=ORACLES, seed=5)
    return grade_bytes(raw, "x.ipynb", make_lab(**lab), grader=grader, learner=learner)


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")
def test_a_regrade_asks_the_same_and_another_learner_something_else() -> None:
    first, again, other = (graded(name, variants=True) for name in ("ada", "ada", "bob"))
    assert first.seed == again.seed == seed_of(first.lab, "ada")
    assert first.learner == "ada"
    examples = [report.tasks[0].counter_example for report in (first, again, other)]
    assert examples[0] == examples[1] != examples[2]
    assert Report.from_json(first.to_json()) == first
    assert "Inputs drawn for" in page(first)


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")
def test_a_lab_without_variants_and_a_nameless_learner_get_what_all_get() -> None:
    for report in (graded("ada"), graded("", variants=True)):
        assert (report.seed, report.learner) == (5, "")


@pytest.mark.slow
def test_a_class_does_not_fill_the_memory() -> None:
    grader, lab = Grader(oracles=ORACLES, seed=5), make_lab(variants=True)
    keys = [grader.key(lab, seed=seed) for seed in range(KEPT + 3)]
    assert len(grader._keys) == KEPT
    assert grader.key(lab, seed=KEPT + 2) is keys[-1]
    assert keys[0].cases(lab.tasks[0])


def test_an_older_report_is_still_read() -> None:
    report = json.loads(Report("lab", "v", "", "official", "", "", 1, "").to_json())
    del report["learner"]
    assert Report.from_json(json.dumps(report)).learner == ""
