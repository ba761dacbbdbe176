"""Whole notebooks through the sandbox: the right mark, the cause named, and no fault that spreads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_lab import DOUBLE, NAME, ORACLES, PARTS, make_lab, notebook, task, write

from autograder import grade, sandbox
from autograder.grade import GradeError, Grader, grade_bytes, grade_files
from autograder.report import Report
from autograder.spec import Lab

pytestmark = pytest.mark.skipif(not sandbox.kinds(), reason="no sandbox on this machine")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    small = make_lab()
    monkeypatch.setattr(grade, "lab_names", lambda: [NAME])
    monkeypatch.setattr(grade, "load_lab", lambda name: small)
    return small


def graded(path: Path, **options: Any) -> Report:
    return Grader(oracles=ORACLES, **options).grade_file(path)


def verdicts(report: Report) -> dict[str, str]:
    return {task.name: task.verdict for task in report.tasks}


@pytest.mark.slow
def test_full_marks(lab: Lab, tmp_path: Path) -> None:
    report = graded(write(tmp_path / "right.ipynb"), seed=5)
    assert report.full_marks
    assert (report.points, report.max_points, report.seed, report.mode) == (20.0, 20.0, 5, "official")
    assert (report.lab, report.spec_version, report.file) == (NAME, "test", str(tmp_path / "right.ipynb"))
    assert len(report.sha256) == 64
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", report.graded_at)
    assert report.sandbox.startswith(sandbox.best("official"))
    assert report.seconds > 0
    assert Report.from_json(report.to_json()) == report


CELLS: dict[str, tuple[str, str, str]] = {
    "wrong": ("import numpy as np\ndef double(x):\n    return x", "wrong", "value"),
    "raises": ("import numpy as np\ndef double(x):\n    return undefined", "failed", "exception"),
    "not defined": ("import numpy as np", "missing", "missing"),
    "a cell that fails": ("import numpy as np\n1 / 0\ndef double(x):\n    return 2 * x", "failed", "exception"),
    "a loop": ("import numpy as np\ndef double(x):\n    while True:\n        pass", "failed", "time"),
    "leaves": ("import numpy as np\nimport os\ndef double(x):\n    os._exit(0)", "failed", "exit"),
    "not plain data": ("import numpy as np\ndef double(x):\n    return object()", "failed", "value"),
    "prints much": ("import numpy as np\ndef double(x):\n    print('x' * 100)\n    return 2 * x", "right", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CELLS)
def test_a_fault_in_one_task_costs_only_that_task(lab: Lab, tmp_path: Path, kind: str) -> None:
    source, verdict, cause = CELLS[kind]
    report = graded(write(tmp_path / "one.ipynb", double=source))
    assert verdicts(report) == {"double": verdict, "parts": "right"}
    assert report.tasks[0].cause == cause
    assert report.points == (20.0 if verdict == "right" else 10.0)


@pytest.mark.slow
def test_tasks_are_reported_in_the_labs_order(lab: Lab, tmp_path: Path) -> None:
    made = notebook()
    made["cells"] = [made["cells"][0], *made["cells"][3:], *made["cells"][1:3]]
    made["cells"][1]["source"] = "import numpy as np\n" + made["cells"][1]["source"]
    path = tmp_path / "turned.ipynb"
    path.write_text(json.dumps(made))
    assert verdicts(graded(path)) == {"double": "right", "parts": "right"}
    assert [one.name for one in graded(path).tasks] == ["double", "parts"]


@pytest.mark.slow
def test_one_task_only(lab: Lab, tmp_path: Path) -> None:
    from autograder.notebook import read_notebook

    read = read_notebook(write(tmp_path / "right.ipynb"))
    report = Grader(mode="practice", oracles=ORACLES).grade_notebook(read, tasks=["parts"])
    assert (verdicts(report), report.mode) == ({"parts": "right"}, "practice")


@pytest.mark.slow
def test_the_seed_of_a_report_draws_the_same_counter_example(lab: Lab, tmp_path: Path) -> None:
    path = write(tmp_path / "wrong.ipynb", double="import numpy as np\ndef double(x):\n    return 3 * x")
    first = graded(path).seed
    one, other = (graded(path, seed=first).tasks[0].counter_example for _ in range(2))
    assert one == other
    assert one is not None


@pytest.mark.slow
def test_many_files_in_order_and_one_that_is_none(lab: Lab, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.ipynb") for n in range(4)]
    paths[1].write_text("{")
    paths[2] = write(paths[2], double="def double(x):\n    while True: pass")
    grader = Grader(oracles=ORACLES)
    found = list(grade_files(paths, workers=2, grader=grader))
    assert isinstance(found[1], GradeError)
    assert [one.points for one in found if isinstance(one, Report)] == [20.0, 0.0, 20.0]
    assert {one.seed for one in found if isinstance(one, Report)} == {grader.seed}


@pytest.mark.slow
def test_the_cases_of_a_batch_are_answered_once(lab: Lab, tmp_path: Path) -> None:
    asked: list[str] = []

    class Counting(type(ORACLES["one"])):  # type: ignore[misc]  # the class is only known as an instance's
        def answer(self, lab: Lab, task: Any, cases: Any) -> Any:
            asked.append(task.name)
            return super().answer(lab, task, cases)

    grader = Grader(oracles={"one": Counting("one"), "other": ORACLES["other"]})
    list(grade_files([write(tmp_path / f"{n}.ipynb") for n in range(3)], grader=grader))
    assert sorted(asked) == ["double", "parts"]


@pytest.mark.slow
def test_an_oracle_that_fails_leaves_its_task_ungraded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(framework: Any, x: Any) -> Any:
        raise RuntimeError("no kernel for this")

    unsure = task("double", DOUBLE.oracles["one"], oracles={"one": DOUBLE.oracles["one"], "other": broken})
    small = make_lab(unsure, PARTS)
    report = Grader(oracles=ORACLES).grade_file(write(tmp_path / "right.ipynb"), small)
    assert verdicts(report) == {"double": "ungraded", "parts": "right"}
    assert "no kernel for this" in report.tasks[0].message
    assert not report.full_marks


@pytest.mark.slow
def test_a_fault_of_ours_is_not_the_learners(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = grade.judge_task

    def faulty(runner: Any, key: Any, task: Any, *more: Any) -> Any:
        if task.name == "double":
            raise ZeroDivisionError("ours")
        return real(runner, key, task, *more)

    monkeypatch.setattr(grade, "judge_task", faulty)
    report = graded(write(tmp_path / "right.ipynb"))
    assert verdicts(report) == {"double": "ungraded", "parts": "right"}
    assert "a fault in the autograder: ZeroDivisionError: ours" in report.tasks[0].message


@pytest.mark.slow
def test_as_handed_in(lab: Lab, tmp_path: Path) -> None:
    raw = write(tmp_path / "right.ipynb").read_bytes()
    assert grade_bytes(raw, "right.ipynb", grader=Grader(oracles=ORACLES)).full_marks
    with pytest.raises(GradeError, match="cut.ipynb"):
        grade_bytes(raw[:50], "cut.ipynb", grader=Grader(oracles=ORACLES))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"plain text", "not a notebook"),
        (b"[1, 2]", "not a notebook"),
        (b"\xff\xfe\x00", "UTF-8"),
        (json.dumps(notebook(lab="lab42_other")).encode(), "lab42_other"),
        (json.dumps(notebook() | {"nbformat": 3}).encode(), "format 3"),
        (json.dumps(notebook())[:-100].encode(), "cut off|too early"),
        (json.dumps(notebook(lab="", double="x = 1", parts="y = 1") | {"cells": []}).encode(), "--lab"),
    ],
)
def test_what_cannot_be_graded_is_told_in_one_line(lab: Lab, tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "odd.ipynb"
    path.write_bytes(content)
    with pytest.raises(GradeError, match=words) as told:
        graded(path)
    assert "\n" not in str(told.value)
    assert "odd.ipynb" in str(told.value)


def test_a_file_that_is_not_there(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(GradeError, match="No such file"):
        graded(tmp_path / "none.ipynb")


def test_a_lab_nobody_knows() -> None:
    with pytest.raises(GradeError, match=r"no lab is called .lab77.; there are .*lab05_tape"):
        grade.named_lab("lab77")


def test_a_sandbox_that_is_not_there(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(mode: str) -> str:
        raise sandbox.SandboxUnavailable("no sandbox has proven itself here.")

    monkeypatch.setattr(sandbox, "best", none)
    with pytest.raises(GradeError, match="no sandbox has proven itself"):
        graded(write(tmp_path / "right.ipynb"))
