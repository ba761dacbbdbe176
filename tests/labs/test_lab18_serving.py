"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import generate, spec
from autograder import release as releasing
from autograder.compare import compare
from autograder.drivers import lab18_serving as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task
from autograder.specs import _lab18_serving_oracles as oracles

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab18_serving.ipynb", ROOT / "labs/lab18_serving.ipynb"
LAB = spec.load_lab("lab18_serving")
SKIPPED = {"use", "training", "plot", "submit"}
TASKS = [pytest.param(task, id=task.name) for task in LAB.tasks]


def cells_of(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def solved() -> dict[str, Any]:
    """The names the solution notebook binds where it is graded."""
    names: dict[str, Any] = {}
    for cell in cells_of(SOLUTION):
        graded = cell["cell_type"] == "code" and not SKIPPED & set(cell["metadata"].get("tags", []))
        if graded and not text_of(cell).startswith(("check(", "submit(")):
            exec(text_of(cell).replace("from autograder import check, submit", ""), names)
    return names


def cases(task: Task, seed: int = 7) -> list[dict[str, Any]]:
    return generate.draw(task, seed)


# --- what is handed out ---------------------------------------------------------------------------


def test_the_released_notebook_is_in_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert releasing.main(["--check", LAB.name]) == 0, capsys.readouterr().err


def test_no_solution_line_is_handed_out() -> None:
    answers, inside = set(), False
    for cell in cells_of(SOLUTION):
        for line in text_of(cell).split("\n"):
            if BEGIN in line or END in line:
                inside = BEGIN in line
            elif inside and len(line.strip()) > 8:
                answers.add(line.strip())
    handed_out = {line.strip() for cell in cells_of(RELEASED) for line in text_of(cell).split("\n")}
    assert len(answers) > 25
    assert not answers & handed_out
    assert not any("SOLUTION" in line for line in handed_out)


def test_every_task_has_its_cells_with_its_points() -> None:
    cells = {marks_of(cell)["grade_id"]: cell for cell in cells_of(RELEASED) if marks_of(cell)}
    for task in LAB.tasks:
        assert HOLE[1] in text_of(cells[task.name])
        assert marks_of(cells[f"check-{task.name}"])["points"] == task.points
        assert text_of(cells[f"check-{task.name}"]) == f'check("{task.name}")'
    assert LAB.points == 100


def test_the_text_explains_every_task() -> None:
    texts = [text_of(cell) for cell in cells_of(RELEASED) if cell["cell_type"] == "markdown"]
    for number, task in enumerate(LAB.tasks, 1):
        described = [text for text in texts if f"## Task {number}: " in text]
        assert f"({task.points:g} points)" in described[0]
        for name in task.names:
            assert any(name in text for text in texts)
    assert len([text for text in texts if "<details>" in text]) == len(LAB.tasks)
    for text in texts:
        assert text.count("<details>") == text.count("</details>")
        assert not re.search(r"\bsimply\b|!(?!\[)", text)


def test_the_worked_examples_are_true() -> None:
    """Every example in the text, run with the solution, gives what its comment says."""
    names, tried = solved(), 0
    for cell in cells_of(RELEASED):
        blocks = re.findall(r"^```python\n(.*?)^```", text_of(cell), flags=re.MULTILINE | re.DOTALL)
        for line in "".join(blocks if cell["cell_type"] == "markdown" else []).split("\n"):
            code, _, promised = (part.strip() for part in line.partition("  # "))
            if promised:
                assert repr(eval(code, names)) == promised, line
                tried += 1
            else:
                exec(code, names)
    assert tried >= 15


def test_the_solution_is_stored_as_executed() -> None:
    counts = []
    for cell in cells_of(SOLUTION):
        if cell["cell_type"] == "code" and "submit" not in cell["metadata"].get("tags", []):
            counts.append(cell["execution_count"])
            assert all(output["output_type"] != "error" for output in cell["outputs"])
            if text_of(cell).startswith("check("):
                shown = json.dumps(cell["outputs"], ensure_ascii=False)
                assert "Right" in shown
                assert "could not be checked" not in shown
    assert counts == list(range(1, len(counts) + 1))
    shown = json.dumps([cell.get("outputs", []) for cell in cells_of(SOLUTION)])
    assert str(ROOT) not in shown
    assert not re.search(r"/(home|root|Users|tmp)/", shown)


# --- what it earns --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grader() -> Grader:
    return Grader()


@pytest.mark.slow
def test_the_solution_earns_full_marks(grader: Grader) -> None:
    report = grader.grade_notebook(read_notebook(SOLUTION))
    assert report.full_marks, [(task.name, task.message) for task in report.tasks]


@pytest.mark.slow
def test_holes_earn_nothing(grader: Grader) -> None:
    report = grader.grade_notebook(read_notebook(RELEASED))
    assert [task.name for task in report.tasks] == [task.name for task in LAB.tasks]
    for task in report.tasks:
        assert (task.verdict, task.points) == ("failed", 0), (task.name, task.message)
        assert any("not been filled" in words for words in task.diagnosis), (task.name, task.diagnosis)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_one_open_hole_costs_no_task_that_does_not_need_it(task: Task, grader: Grader) -> None:
    notebook = json.loads(SOLUTION.read_text(encoding="utf-8"))
    open_cells = {marks_of(cell).get("grade_id"): text_of(cell) for cell in cells_of(RELEASED)}
    for cell in notebook["cells"]:
        if marks_of(cell).get("grade_id") == task.name:
            cell["source"] = open_cells[task.name]
    report = grader.grade_notebook(parse_notebook(json.dumps(notebook).encode()))
    lost = {result.name for result in report.tasks if result.points == 0}
    needs = {"due": {"bounded"}}  # the solution bounds its own batcher, as the lab suggests
    assert lost == {task.name} | needs.get(task.name, set())


@pytest.mark.slow
def test_the_whole_lab_runs_in_a_minute() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(SOLUTION, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "submit" not in cell.metadata.get("tags", [])]
    began = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    assert time.monotonic() - began < 60
    shown = {
        cell.id: json.dumps(cell.outputs, ensure_ascii=False) for cell in notebook.cells if cell.cell_type == "code"
    }
    checks = [shown[cell.id] for cell in notebook.cells if cell.source.startswith("check(")]
    assert len(checks) == len(LAB.tasks)
    assert all("Right" in check for check in checks), checks
    assert any("of the digits read right" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_oracles_agree_and_the_solution_with_them(task: Task) -> None:
    import torch

    names = solved()
    for inputs in cases(task):
        want = task.oracles["numpy"](np, **inputs)
        assert not compare(task.oracles["torch"](torch, **inputs), want), inputs
        got = getattr(drivers, task.driver)(names, **inputs)
        assert task.judge(inputs, got, want) == []


@pytest.mark.parametrize("task", TASKS)
def test_a_replay_runs_and_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    whole = solved()
    for inputs in cases(task):
        names, want = dict(whole), task.oracles["numpy"](np, **inputs)
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        answer = eval(last, names)
        if task.name == "padded":
            assert not compare([list(pair) for pair in answer], want["answers"])
        elif task.name == "switch":
            assert answer == want  # as it is shown, event by event
        else:
            for event, one, right in zip(inputs["events"], answer, want, strict=True):
                late = event[0] == "next" and one is not None
                assert (max(one, event[1]) if late else one) == right


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("forged", [None, 1, "x", [], {}, [None], [[1]], [["x", 1]], {"answers": 1, "called": []}])
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    inputs = task.edges(np.random.default_rng(0))[5]
    want = task.oracles["numpy"](np, **inputs)
    try:
        assert task.judge(inputs, forged, want)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # the grader takes these for a wrong answer


def test_edges_reach_where_answers_break() -> None:
    edges = {task.name: task.edges(np.random.default_rng(3)) for task in LAB.tasks}
    due = [oracles.due_queue(np, **one) for one in edges["due"]]
    assert any(len(answer or ()) > 1 for trace in due for answer in trace if isinstance(answer, list))
    assert any(one["events"][0][:2] == ["submit", 0] for one in edges["due"]), "a time of 0 is no missing time"
    bounded = [(one["events"], oracles.bounded_queue(np, **one)) for one in edges["bounded"]]
    assert any(answer is False for _, trace in bounded for answer in trace)
    assert any(answer for events, trace in bounded for e, answer in zip(events, trace, strict=True) if e[0] == "expire")
    assert {one["weight"].dtype.name for one in edges["padded"]} == {"float32", "float64"}
    assert any(len({len(s) for s in one["sequences"]}) > 2 for one in edges["padded"])
    assert any(answer for one in edges["switch"] for answer in oracles.switch_states(np, **one))


# --- the pieces in internals ----------------------------------------------------------------------


@pytest.mark.slow
def test_the_batcher_of_internals_is_a_right_answer() -> None:
    from internals.deploy.serve.batcher import Batcher, Request

    class Adapted(Batcher):
        """The batcher with the lab's requests."""

        def __init__(self, size: int, wait: int) -> None:
            super().__init__(size=size, wait=wait, queue=10**9)

        def submit(self, now: float, request: Any) -> None:
            super().submit(now, Request(request.rows, payload=request))

        def take(self, now: float) -> list[Any]:
            return [one.payload for one in super().take(now)]

    task = LAB.task("due")
    for inputs in cases(task):
        want = task.oracles["numpy"](np, **inputs)
        assert task.judge(inputs, drivers.due({"Batcher": Adapted}, **inputs), want) == []


@pytest.mark.parametrize("task", TASKS)
def test_the_driver_refuses_what_is_no_answer(task: Task) -> None:
    class Nothing:
        """Answers everything with a text."""

        def __init__(self, *_: Any) -> None:
            pass

        def __getattr__(self, _: str) -> Any:
            return lambda *_: "x"

    inputs = task.edges(np.random.default_rng(0))[5]
    given = (lambda *_: "x") if task.name == "padded" else Nothing
    with pytest.raises((TypeError, ValueError)):
        getattr(drivers, task.driver)({task.names[0]: given}, **inputs)
