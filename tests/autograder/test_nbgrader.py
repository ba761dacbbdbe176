"""Labs in nbgrader and assignments of nbgrader here: the real programs grade what the conversion gives them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder import drivers, nbgrader, practice, spec, specs
from autograder.cli import run
from autograder.grade import Grader
from autograder.mutants import samples_of
from autograder.nbgrader import asserted, exporting, importing
from autograder.nbgrader.asserted import PASSES, TestCell, cases_of
from autograder.newlab import NewLabError
from autograder.notebook import parse_notebook
from autograder.release import ReleaseError, marks_of, nbgrader_problems, text_of
from autograder.report import Report, TaskResult

ROOT = Path(__file__).parents[2]
LAB = "lab05_tape"
SOLUTION = ROOT / "labs" / "solutions" / f"{LAB}.ipynb"
NAME = "lab97_begun"


# --- from a lab to an assignment ----------------------------------------------------------------------


def test_an_exported_lab_has_what_nbgrader_asks_for(tmp_path: Path) -> None:
    target, settings = exporting.export(SOLUTION, tmp_path / "course")
    cells = json.loads(target.read_text())["cells"]
    marked = {marks_of(cell)["grade_id"]: cell for cell in cells if marks_of(cell)}
    for cell in marked.values():
        assert list(nbgrader_problems(marks_of(cell), cell["cell_type"])) == []
    for task in spec.load_lab(LAB).tasks:
        test = marked[f"check-{task.name}"]
        assert marks_of(test)["points"] == task.points
        assert text_of(test).endswith(f'earned("{task.name}", lab="{LAB}")')
        assert "BEGIN SOLUTION" in text_of(marked[task.name])
    assert not any("submit" in cell["metadata"].get("tags", []) for cell in cells)
    training = [cell for cell in cells if "training" in cell["metadata"].get("tags", [])]
    assert training
    assert all(exporting.NOT_RUN in cell["metadata"]["tags"] for cell in training)
    settings.write_text("c = get_config()\n")
    assert exporting.export(SOLUTION, tmp_path / "course") == [target], "settings that are there stay"
    assert settings.read_text() == "c = get_config()\n"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [], "nbformat": 4, "nbformat_minor": 2}'])
def test_what_is_no_solution_notebook_is_not_exported(tmp_path: Path, text: str) -> None:
    path = tmp_path / f"{LAB}.ipynb"
    path.write_text(text)
    with pytest.raises(ReleaseError, match=LAB):
        exporting.export(path, tmp_path / "course")
    assert not (tmp_path / "course").exists()


def test_where_no_course_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for course, words in ((tmp_path / "file", "not a folder"), (ROOT, "the project itself")):
        assert run(["nbgrader", "export", LAB, "--course", str(course), "--project", str(ROOT)]) == 2
        assert words in capsys.readouterr().err
    assert run(["nbgrader", "export", "lab77", "--course", str(tmp_path / "new"), "--project", str(ROOT)]) == 2
    assert "no lab is called 'lab77'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("result", "points"),
    [
        (TaskResult("rules", "", 25.0, 25.0, "right"), 25.0),
        (TaskResult("rules", "", 10.0, 25.0, "wrong", message="Half."), 10.0),
        (TaskResult("rules", "", 0.0, 25.0, "ungraded", message="A fault of ours."), None),
        (None, None),
    ],
)
def test_a_test_cell_ends_in_the_points(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], result: TaskResult | None, points: float | None
) -> None:
    report = result and Report(LAB, "v", "", "practice", "", "", 1, "", [result])
    checked = practice.Checked(report=report, text="the feedback", message="" if report else "No checker.")
    monkeypatch.setattr(practice, "check", lambda task, lab: checked)
    if points is None:
        with pytest.raises(nbgrader.NotGraded, match="fault of ours" if result else "No checker"):
            nbgrader.earned("rules", lab=LAB)
    else:
        assert nbgrader.earned("rules", lab=LAB) == points
        assert "the feedback" in capsys.readouterr().out


@pytest.mark.slow
def test_nbgrader_grades_an_exported_lab(tmp_path: Path) -> None:
    """`generate_assignment` and `autograde` as an instructor types them: all right; and one right, one wrong, holes."""
    pytest.importorskip("nbgrader")
    course = tmp_path / "course"
    source, _ = exporting.export(SOLUTION, course)
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # where nbgrader finds alembic
    environment = os.environ | {"PATH": beside, "PYTHONPATH": str(ROOT)}

    def typed(*words: str) -> None:
        command = [sys.executable, "-m", "nbgrader", *words]
        done = subprocess.run(
            command, cwd=course, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]

    typed("generate_assignment", LAB)
    released = (course / "release" / LAB / f"{LAB}.ipynb").read_bytes()
    assert b"BEGIN SOLUTION" not in released
    for who, raw in (("ada", source.read_bytes()), ("bob", partly(released))):
        target = course / "submitted" / who / LAB / f"{LAB}.ipynb"
        target.parent.mkdir(parents=True)
        target.write_bytes(raw)
    typed("autograde", LAB)
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        scores = {one.student.id: (one.score, one.max_score) for one in book.assignment_submissions(LAB)}
    assert scores == {"ada": (100, 105), "bob": (15, 105)}  # the question of 5 points waits for a person


def partly(released: bytes) -> bytes:
    """The released notebook with a right answer to `accumulate`, and a wrong one to `rules`."""
    solution = {marks_of(cell).get("grade_id"): text_of(cell) for cell in json.loads(SOLUTION.read_text())["cells"]}
    wrong = next(one for one in samples_of(ROOT, LAB, "rules") if one.kind == "wrong").source
    answers = {"accumulate": solution["accumulate"], "rules": f"{solution['rules']}\n\n{wrong}"}
    notebook = json.loads(released)
    for cell in notebook["cells"]:
        cell["source"] = answers.get(marks_of(cell).get("grade_id"), text_of(cell))
    return json.dumps(notebook).encode()


# --- from an assignment to a lab ----------------------------------------------------------------------


def assignment(*cells: tuple[str, str, dict[str, Any]], **changed: Any) -> dict[str, Any]:
    made = [{"cell_type": kind, "metadata": {"nbgrader": marks}, "source": text} for kind, text, marks in cells]
    return {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4} | changed


ANSWER = {"solution": True, "grade": False, "grade_id": "answer", "schema_version": 3, "locked": False}
TESTS = {"solution": False, "grade": True, "points": 2, "grade_id": "tests", "schema_version": 3, "locked": True}
WORDS = {"solution": True, "grade": True, "points": 3, "grade_id": "in-words", "schema_version": 3, "locked": False}
TWICE = "def twice(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
HIDDEN = "import math\nassert twice(2) == 4\n### BEGIN HIDDEN TESTS\nassert twice(math.pi) > 6.28\n### END HIDDEN TESTS"
SMALL = [
    ("markdown", "# Doubling\nSome text.", {}),
    ("code", TWICE, ANSWER),
    ("code", HIDDEN, TESTS),
    ("markdown", "## Why?", {}),
    ("markdown", "Because.\n### BEGIN MARK SCHEME\nOne point for any reason.\n### END MARK SCHEME", WORDS),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project whose specs and drivers are found as those of this one are."""
    for folder in ("labs/solutions", "tests/labs", "autograder/specs", "autograder/drivers"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(spec, "SPECS", tmp_path / "autograder" / "specs")
    monkeypatch.setattr(specs, "__path__", [*specs.__path__, str(tmp_path / "autograder" / "specs")])
    monkeypatch.setattr(drivers, "__path__", [*drivers.__path__, str(tmp_path / "autograder" / "drivers")])
    before = set(sys.modules)
    importlib.invalidate_caches()
    yield tmp_path
    for name in set(sys.modules) - before:
        if NAME in name:
            del sys.modules[name]
            package, _, module = name.rpartition(".")
            delattr(sys.modules[package], module)


def brought(project: Path, notebook: dict[str, Any] | bytes, title: str = "") -> importing.Imported:
    path = project / "course" / "problem.ipynb"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode())
    return importing.import_notebook(path, NAME, title, project)


def test_an_assignment_becomes_a_lab(project: Path) -> None:
    made = brought(project, assignment(*SMALL))
    assert (made.tasks, made.questions, made.remarks) == (["twice"], ["in_words"], [])
    lab = spec.load_lab(NAME)
    (task,), (question,) = lab.tasks, lab.written
    assert (lab.title, lab.points, task.points, question.points) == ("Doubling", 5, 2, 3)
    assert (question.title, question.rubric) == ("Why?", "One point for any reason.")
    released = (project / "labs" / f"{NAME}.ipynb").read_text()
    for secret in ("2 * x", "6.28", "Because", "any reason"):
        assert secret not in released
    assert 'check(\\"twice\\")' in released
    for case in task.edges(None):
        assert task.oracles["numpy:the solution"](None, **case) == PASSES
    for words in (("check",), ("format", "--check")):
        command = [sys.executable, "-m", "ruff", *words, "--config", ROOT / "pyproject.toml", *made.written[1:5]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "verdict", "points", "words"),
    [
        ("def twice(x):\n    return x + x", "right", 2, ""),
        ("def twice(x):\n    return 4", "wrong", 0, "twice(math.pi) > 6.28` does not hold: AssertionError"),
        ("def twice(x):\n    raise NotImplementedError()", "wrong", 0, "NotImplementedError"),
        ("def other(x):\n    return 4", "missing", 0, "twice"),
    ],
)
def test_an_imported_lab_grades(project: Path, code: str, verdict: str, points: float, words: str) -> None:
    brought(project, assignment(*SMALL))
    notebook = json.loads((project / "labs" / "solutions" / f"{NAME}.ipynb").read_text())
    for cell in notebook["cells"]:
        if marks_of(cell).get("grade_id") == "twice":
            cell["source"] = code
    lab = spec.load_lab(NAME)
    answer, words_of_it = Grader().grade_notebook(parse_notebook(json.dumps(notebook).encode()), lab=lab).tasks
    assert (answer.verdict, answer.points) == (verdict, points), answer
    assert words in answer.message
    assert (words_of_it.verdict, words_of_it.answer) == ("pending", "Because.")


@pytest.mark.slow
def test_nbgraders_own_example_comes_over(project: Path) -> None:
    found = pytest.importorskip("nbgrader")
    example = Path(found.__file__).parent / "docs" / "source" / "user_guide" / "source" / "ps1" / "problem1.ipynb"
    made = importing.import_notebook(example, NAME, "", project)
    assert made.tasks == ["squares", "sum_of_squares"]
    assert len(made.questions) == 3
    assert any("jupyter.png" in remark for remark in made.remarks)
    solution = (project / "labs" / "solutions" / f"{NAME}.ipynb").read_bytes()
    copies = solution.replace(b"return sum(squares(n))", b"return sum(i * i for i in range(n + 1))")
    assert copies != solution
    lab, grader = spec.load_lab(NAME), Grader()
    right = grader.grade_notebook(parse_notebook(solution), lab=lab)
    assert [task.verdict for task in right.tasks] == ["right", "right", "pending", "pending", "pending"]
    assert (right.points, right.max_points) == (3, 10)
    wrong = grader.grade_notebook(parse_notebook(copies), lab=lab).tasks[1]
    assert [part.holds for part in wrong.properties] == [True, False]
    assert "sum_of_squares does not use squares" in wrong.message


@pytest.mark.parametrize(
    ("source", "cases"),
    [
        ("assert f(1)", ["assert f(1)"]),
        ("'''About.'''\nx = 1\nassert f(x)\nassert f(2), 'two'", ["x = 1\nassert f(x)", "x = 1\nassert f(2), 'two'"]),
        ("assert f(\n    1\n)\ny = 2\nassert y", ["assert f(\n    1\n)", "y = 2\nassert y"]),
        ("x = 1; assert f(x)", ["x = 1; assert f(x)"]),
        ("try:\n    f(0)\nexcept ValueError:\n    pass", ["try:\n    f(0)\nexcept ValueError:\n    pass"]),
        ("assert f(1)\nfor i in range(3):\n    assert f(i)", ["assert f(1)\nfor i in range(3):\n    assert f(i)"]),
        ("@wraps\ndef g():\n    pass\nassert g", ["@wraps\ndef g():\n    pass\nassert g"]),
        ("f(1)", ["f(1)"]),
    ],
)
def test_each_assertion_is_a_case(source: str, cases: list[str]) -> None:
    assert [case["source"] for case in cases_of(TestCell("tests", 1, source))] == cases


@pytest.mark.parametrize("got", [None, {}, {"passed": "yes"}, {"passed": 1}, {"passed": False, "said": 3}, [PASSES]])
def test_an_answer_of_any_form_is_judged(got: Any) -> None:
    assert asserted.judge({"cell": "tests", "source": "assert f(1)"}, got, PASSES)
    assert asserted.judge({"cell": "tests", "source": "assert f(1)"}, dict(PASSES), PASSES) == []


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        (b"", "not a notebook"),
        (b"{", "not a notebook"),
        (b"\xff", "not a notebook"),
        (b"[]", "format 4"),
        ({"cells": [], "nbformat": 3}, "format 4"),
        (assignment(), "no cell in it is graded"),
        (assignment(("markdown", "text", {})), "no cell in it is graded"),
        (assignment(("code", TWICE, ANSWER)), "no cell in it is graded"),
        (assignment() | {"cells": [3]}, "cell 1 is not a cell"),
        (assignment() | {"cells": [{"cell_type": "code", "metadata": {}, "source": 3}]}, "cell 1 is not a cell"),
        (assignment(*SMALL, metadata={"kernelspec": {"language": "R"}}), "a R notebook"),
    ],
)
def test_what_cannot_be_imported_leaves_nothing(project: Path, notebook: dict[str, Any] | bytes, words: str) -> None:
    with pytest.raises(NewLabError, match=words):
        brought(project, notebook)
    assert [path for path in project.rglob("*") if path.is_file() and "course" not in path.parts] == []


@pytest.mark.parametrize(
    ("cells", "remark"),
    [
        ([("code", "assert True", TESTS), *SMALL[1:3]], "no solution cell before it"),
        ([SMALL[1], ("code", "assert True", TESTS | {"points": 0}), SMALL[2]], "no points"),
        ([SMALL[1], ("code", "assert True", TESTS | {"points": True}), SMALL[2]], "no points"),
        ([SMALL[1], ("code", "### AUTOTEST twice(1)", TESTS), SMALL[2]], "template of tests"),
        ([SMALL[1], ("code", "assert (", TESTS), SMALL[2]], "can't be read as Python"),
        ([SMALL[1], ("code", "# nothing", TESTS), SMALL[2]], "nothing in it"),
        ([("code", "def alone():\n    return 1", ANSWER), SMALL[4], *SMALL[1:3]], "No test judges alone"),
        ([*SMALL[1:3], ("markdown", "Words.", WORDS | {"points": 0})], "worth no points"),
        (
            [*SMALL[1:3], ("markdown", "Prove it.", {"task": True, "points": 4, "grade_id": "proof"})],
            "asks for any cells",
        ),
    ],
)
def test_what_has_no_counterpart_is_told(project: Path, cells: list[Any], remark: str) -> None:
    made = brought(project, assignment(*cells))
    assert any(remark in one for one in made.remarks), made.remarks
    assert made.tasks == ["twice"]


def test_names_are_made_fit(project: Path) -> None:
    cells = [SMALL[1], SMALL[2], ("markdown", "Words.", WORDS | {"grade_id": "1. Why?!"}), SMALL[1], SMALL[2]]
    made = brought(project, assignment(*cells))
    assert made.tasks == ["twice", "twice_begun"]
    assert made.questions == ["begun_1_why"]


def test_the_import_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nbgrader", "import", str(tmp_path / "none.ipynb"), NAME]) == 2
    assert "can't be opened" in capsys.readouterr().err
    assert run(["nbgrader", "import", str(SOLUTION), "lab"]) == 2
    assert "no name for a lab" in capsys.readouterr().err
