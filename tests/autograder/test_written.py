"""Answers in words, from the cell to the report: what is kept, what waits, and what the released notebook shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
import small_lab
from small_lab import NAME, make_lab

from autograder import release, spec
from autograder.feedback import fragment, page, text
from autograder.grade import Grader
from autograder.notebook import parse_notebook
from autograder.release import ReleaseError
from autograder.report import Report, TaskResult
from autograder.spec import Written
from autograder.written import LONGEST, PLACEHOLDER, result_of

WHY = Written("why", "Why it doubles", 5.0, rubric="Any reason.")


def words_cell(source: Any, grade_id: str = "why", kind: str = "markdown", points: float = 5.0) -> dict[str, Any]:
    marks = {"grade_id": grade_id, "schema_version": 3, "grade": True, "solution": True, "locked": False, "task": False}
    cell = {"cell_type": kind, "id": "words", "metadata": {"nbgrader": marks | {"points": points}}, "source": source}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def read(*cells: dict[str, Any]) -> Any:
    notebook = small_lab.notebook()
    notebook["cells"] += cells
    return parse_notebook(json.dumps(notebook).encode())


@pytest.mark.parametrize(
    ("cells", "verdict", "answer"),
    [
        ([words_cell("Because.")], "pending", "Because."),
        ([words_cell(["Two\n", "lines."])], "pending", "Two\nlines."),
        ([words_cell(f"{PLACEHOLDER}\n\nBecause.")], "pending", "Because."),
        ([words_cell("One."), words_cell("Other.")], "pending", "One.\n\nOther."),
        ([words_cell("def f():\n    return 1", kind="code")], "pending", "def f():\n    return 1"),
        ([words_cell("<b>\x1b[2J\u202eold</b>")], "pending", "<b>\\x1b[2J\\u202eold</b>"),
        ([words_cell(PLACEHOLDER)], "missing", ""),
        ([words_cell(" \n\t")], "missing", ""),
        ([words_cell("# YOUR CODE HERE\nraise NotImplementedError()", kind="code")], "missing", ""),
        ([words_cell("Because.", grade_id="other")], "missing", ""),
        ([], "missing", ""),
    ],
)
def test_what_is_written_waits_for_a_person(cells: list[dict[str, Any]], verdict: str, answer: str) -> None:
    result = result_of(WHY, read(*cells))
    assert (result.verdict, result.answer, result.points, result.max_points) == (verdict, answer, 0.0, 5.0)


def test_a_long_answer_is_cut_and_says_so() -> None:
    result = result_of(WHY, read(words_cell("x" * (LONGEST + 1))))
    assert len(result.answer) == LONGEST
    assert str(LONGEST + 1) in result.notes[0]


def test_half_a_surrogate_pair_can_be_kept() -> None:
    result = result_of(WHY, read(words_cell("a\ud800b")))
    result.answer.encode()
    Report("lab", "v", "", "official", "", "", 1, "", [result]).to_json().encode()


def test_full_marks_need_it_and_the_points_do_not_depend_on_the_cell() -> None:
    lab = make_lab(written=(WHY,))
    for cells in ([words_cell("Because.")], []):
        report = Grader().grade_notebook(read(*cells), lab=lab, tasks=["why"])
        assert (report.points, report.max_points, report.full_marks) == (0, 5, False)
    assert lab.points == 25
    (result,) = report.tasks
    result.verdict, result.points = "marked", 5.0
    assert report.full_marks
    result.points = 4.5
    assert not report.full_marks


@pytest.mark.parametrize(
    ("verdict", "points", "lost"),
    [("pending", 0.0, False), ("marked", 5.0, False), ("marked", 4.5, True), ("missing", 0.0, True)],
)
def test_what_waits_for_a_person_is_not_lost(verdict: Any, points: float, lost: bool) -> None:
    right = TaskResult("double", "", 10.0, 10.0, "right")
    report = Report("lab", "v", "", "official", "", "", 1, "", [right, TaskResult("why", "", points, 5.0, verdict)])
    assert report.nothing_lost == (not lost)
    report.tasks[0].verdict = "wrong"
    assert not report.nothing_lost
    report.tasks = []
    assert not report.nothing_lost


def test_an_answer_is_shown_as_text_only() -> None:
    result = result_of(WHY, read(words_cell("<script>alert(1)</script> **bold**")))
    result.comment, result.marked_by = "Good, <i>mostly</i>.", "grace"
    report = Report("lab", "v", "", "official", "", "", 1, "", [result])
    assert Report.from_json(report.to_json()) == report
    for shown in (page(report), fragment(report)):
        assert "&lt;script&gt;alert(1)&lt;/script&gt; **bold**" in shown
        assert "Good, &lt;i&gt;mostly&lt;/i&gt;." in shown
    assert "**bold**" in text(report)


def solution(*cells: dict[str, Any]) -> dict[str, Any]:
    made = []
    for number, name in enumerate(small_lab.RIGHT):
        answer = small_lab.cell("### BEGIN SOLUTION\nanswer_of_this_task = 1\n### END SOLUTION", grade_id=name)
        check = small_lab.cell(f'check("{name}")', grade_id=f"check-{name}")
        check["metadata"]["nbgrader"] |= {"solution": False, "locked": True, "grade": True, "points": 10}
        made += [answer | {"id": f"a{number}"}, check | {"id": f"c{number}"}]
    metadata = {"autograder": {"lab": NAME, "version": 1}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": [*made, *cells]}


MODEL = "<!-- ### BEGIN SOLUTION -->\nBecause two is twice one.\n<!-- ### END SOLUTION -->"


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "load_lab", lambda name: make_lab(written=(WHY,)))


@pytest.mark.usefixtures("lab")
def test_the_released_cell_has_a_blank_where_the_model_answer_was() -> None:
    released = release.release(solution(words_cell(MODEL)), NAME)
    assert release.text_of(released["cells"][-1]) == PLACEHOLDER
    assert "twice one" not in json.dumps(released)


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([], "no cell has the grade_id 'why'"),
        ([words_cell(MODEL, points=3)], "worth 3 points, the question 5"),
        ([words_cell("Because.")], "without ### BEGIN SOLUTION"),
        ([words_cell(MODEL), words_cell(MODEL, grade_id="more") | {"id": "more"}], "does not list as written"),
    ],
)
def test_a_question_and_its_cell_agree(cells: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        release.release(solution(*cells), NAME)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ((Written("double", "", 1.0),), "two of its tasks are called 'double'"),
        ((WHY, WHY), "called 'why'"),
        ((Written("why", "", 0.0),), "give it some"),
        ((Written("why", "", float("nan")),), "give it some"),
    ],
)
def test_questions_that_cannot_be_asked(written: tuple[Written, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_lab(written=written)
