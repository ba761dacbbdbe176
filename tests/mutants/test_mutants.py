"""Every task carries its own proof: wrong answers lose its points and are told why, right ones get them all."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.grade import Grader
from autograder.notebook import parse_notebook
from autograder.release import BEGIN, END, marks_of, text_of
from autograder.spec import lab_names, load_lab

HERE = Path(__file__).parent
LABS = HERE.parents[1] / "labs" / "solutions"
SEED = 20_261_129


@dataclass(frozen=True)
class Sample:
    """One answer to one task. `words` is a pattern the feedback to a wrong one must match."""

    lab: str
    task: str
    kind: str
    title: str
    words: str
    source: str


def samples_of(lab: str, task: str) -> list[Sample]:
    text = (HERE / lab / f"{task}.py").read_text(encoding="utf-8")
    found = []
    for section in re.split(r"^# %% ", text, flags=re.MULTILINE)[1:]:
        head, source = section.split("\n", 1)
        kind, title, words = re.fullmatch(r"(right|wrong): ([^|]+?)(?: \| (.+))?", head).groups()
        found.append(Sample(lab, task, kind, title, words or "", source))
    return found


TASKS = [(lab, task.name) for lab in lab_names() for task in load_lab(lab).tasks]
SAMPLES = [sample for lab, task in TASKS for sample in samples_of(lab, task)]


def answered(sample: Sample) -> bytes:
    """The solution notebook with the sample in place of the solution; what the sample leaves out stays."""
    notebook = json.loads((LABS / f"{sample.lab}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if marks_of(cell).get("grade_id") == sample.task:
            lines = [line for line in text_of(cell).split("\n") if BEGIN not in line and END not in line]
            cell["source"] = "\n".join([*lines, "", sample.source])
    return json.dumps(notebook).encode()


@pytest.fixture(scope="session")
def grader() -> Grader:
    return Grader(seed=SEED)


@pytest.mark.parametrize(("lab", "task"), TASKS)
def test_there_are_enough_answers(lab: str, task: str) -> None:
    kinds = [sample.kind for sample in samples_of(lab, task)]
    assert kinds.count("wrong") >= 8
    assert kinds.count("right") >= 2
    sources = [sample.source for sample in samples_of(lab, task)]
    assert len(set(sources)) == len(sources)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sample", SAMPLES, ids=lambda sample: f"{sample.lab}-{sample.task}-{sample.kind}-{sample.title}"
)
def test_the_answer_gets_what_it_deserves(sample: Sample, grader: Grader) -> None:
    report = grader.grade_notebook(parse_notebook(answered(sample)), tasks=[sample.task])
    (result,) = report.tasks
    said = " ".join([result.message, *result.diagnosis])
    if sample.kind == "right":
        assert (result.verdict, result.points) == ("right", result.max_points), said
    else:
        assert result.verdict in ("wrong", "failed"), said
        assert result.points == 0
        # A hole that was left open has nothing to show; every other mistake has.
        assert result.counter_example is not None or "NotImplementedError" in sample.source
        assert re.search(sample.words, said), said
