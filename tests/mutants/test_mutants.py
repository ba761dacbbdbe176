"""Every task carries its own proof: wrong answers lose its points and are told why, right ones get them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder import verdict
from autograder.grade import Grader
from autograder.lint import MARGIN, Margins
from autograder.mutants import RIGHT, WRONG, Sample, answered, samples_of
from autograder.notebook import parse_notebook
from autograder.report import TaskResult
from autograder.spec import lab_names, load_lab

ROOT = Path(__file__).parents[2]
SEED = 20_261_129
SOON = 0.25
"""Seconds in which most smaller cases are found. What is not told well by then gets as long as a learner's answer."""


TASKS = [(lab, task.name) for lab in lab_names() for task in load_lab(lab).tasks]
SAMPLES = [sample for lab, task in TASKS for sample in samples_of(ROOT, lab, task)]


@pytest.fixture(scope="session")
def grader() -> Grader:
    return Grader(seed=SEED, watch=Margins())


@pytest.mark.parametrize(("lab", "task"), TASKS)
def test_there_are_enough_answers(lab: str, task: str) -> None:
    kinds = [sample.kind for sample in samples_of(ROOT, lab, task)]
    assert kinds.count("wrong") >= WRONG
    assert kinds.count("right") >= RIGHT
    sources = [sample.source for sample in samples_of(ROOT, lab, task)]
    assert len(set(sources)) == len(sources)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sample", SAMPLES, ids=lambda sample: f"{sample.lab}-{sample.task}-{sample.kind}-{sample.title}"
)
def test_the_answer_gets_what_it_deserves(sample: Sample, grader: Grader) -> None:
    result = graded(sample, grader, SOON)
    if sample.kind == "wrong" and not re.search(sample.words, told(result)):
        result = graded(sample, grader, verdict.SHRINK_SECONDS)
    said = told(result)
    if sample.kind == "right":
        assert (result.verdict, result.points) == ("right", result.max_points), said
    else:
        assert result.verdict in ("wrong", "failed"), said
        assert result.points == 0
        # A hole that was left open has nothing to show; every other mistake has.
        assert result.counter_example is not None or "NotImplementedError" in sample.source
        assert re.search(sample.words, said), said
        assert isinstance(grader.watch, Margins)
        assert not grader.watch.swallowed, f"right, if the tolerance were {MARGIN:g} times as wide"


def graded(sample: Sample, grader: Grader, patience: float) -> TaskResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict, "SHRINK_SECONDS", patience)
        (result,) = grader.grade_notebook(parse_notebook(answered(ROOT, sample)), tasks=[sample.task]).tasks
    return result


def told(result: TaskResult) -> str:
    return " ".join([result.message, *result.diagnosis])
