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
from autograder.drivers import lab14_all_reduce as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Inputs, Task
from autograder.written import PLACEHOLDER

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab14_all_reduce.ipynb", ROOT / "labs/lab14_all_reduce.ipynb"
LAB = spec.load_lab("lab14_all_reduce")
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


def cases(task: Task, seed: int = 7) -> list[Inputs]:
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
    assert len(answers) > 30
    assert not answers & handed_out
    assert not any("SOLUTION" in line for line in handed_out)


def test_every_task_has_its_cells_with_its_points() -> None:
    cells = {marks_of(cell)["grade_id"]: cell for cell in cells_of(RELEASED) if marks_of(cell)}
    for task in LAB.tasks:
        assert HOLE[1] in text_of(cells[task.name])
        assert marks_of(cells[f"check-{task.name}"])["points"] == task.points
        assert text_of(cells[f"check-{task.name}"]) == f'check("{task.name}")'
    assert sum(task.points for task in LAB.tasks) == 100
    for question in LAB.written:
        assert text_of(cells[question.name]) == PLACEHOLDER
        assert marks_of(cells[question.name])["points"] == question.points


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
            promised = promised if not code.startswith(("got =", "model =")) else ""
            if promised:
                assert repr(eval(code, names)) == promised, line
                tried += 1
            else:
                exec(code, names)
    assert tried >= 9


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
    assert report.nothing_lost, [(task.name, task.message) for task in report.tasks]
    waiting = [result.name for result in report.tasks if result.verdict == "pending"]
    assert waiting == [question.name for question in LAB.written]


@pytest.mark.slow
def test_holes_earn_nothing(grader: Grader) -> None:
    report = grader.grade_notebook(read_notebook(RELEASED))
    assert [task.name for task in report.tasks] == [part.name for part in LAB.parts]
    words = {question.name for question in LAB.written}
    assert {(task.verdict, task.points) for task in report.tasks if task.name in words} == {("missing", 0)}
    for task in (one for one in report.tasks if one.name not in words):
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
    lost = {result.name for result in report.tasks if result.points == 0 and result.verdict != "pending"}
    # The solution's ring has the chunks of task 1, and begins as task 3 does.
    needs = {"chunks": {"reduce_scatter", "all_reduce"}, "reduce_scatter": {"all_reduce"}}
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
    assert any("your ring" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


def oracle(task: Task, inputs: Inputs) -> Any:
    import torch

    return task.oracles["torch"](torch, **inputs)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_oracles_agree(task: Task) -> None:
    import tensorflow as tf
    import torch

    modules = {"tensorflow": tf, "torch": torch, "numpy": np}
    for inputs in cases(task):
        one, other = (ask(modules[name], **inputs) for name, ask in task.oracles.items())
        assert not compare(one, other), inputs


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_runs_and_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    whole = solved()
    for inputs in cases(task):
        names = dict(whole)
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        found, want = eval(last, names), oracle(task, inputs)
        if task.name == "all_reduce" and isinstance(want, dict):  # a notebook's ranks can't be killed: it is told
            assert f"rank {want['lost']} was killed before its send or receive" in body
            continue
        if task.name == "chunks":
            assert [list(pair) for pair in found] == want
        elif task.name == "buckets":
            for averages in found:
                assert not compare([np.asarray(one, float) for one in averages], want["averages"], FLOATS)
        else:
            for rank, one in enumerate(found):
                right = want if task.name == "all_reduce" else want[rank]
                assert not compare(np.asarray(one, float), np.asarray(right, float), FLOATS)


FLOATS = spec.Tolerance(relative=1e-3, absolute=1e-2)
"""The ranks of a case may hold float32, from 0.01 to 100, that cancel; the oracles add in double precision."""


def returned(result: Any, own: Any, log: list[list[Any]] | None = None) -> dict[str, Any]:
    return {"value": {"result": result, "own": own}, "log": log or []}


def test_traffic_is_judged_by_the_byte() -> None:
    """A right sum with one message too many, to the wrong rank, or with too little sent is not right; more costs."""
    task = LAB.task("all_reduce")
    values = [np.random.default_rng(rank).standard_normal(6) for rank in range(3)]
    total = values[0] + values[1] + values[2]
    ring = [[["send", (rank + 1) % 3, 16]] * 4 for rank in range(3)]
    inputs: Inputs = {"values": values, "conditions": {}}
    assert task.judge is not None

    def said(logs: list[list[list[Any]]]) -> str:
        got = [returned(total.copy(), value, log) for value, log in zip(values, logs, strict=True)]
        return " ".join(task.judge(inputs, got, total))  # type: ignore[misc]

    assert said(ring) == ""
    (cost,) = task.costs
    assert cost.limit(**inputs) == 64
    assert drivers._weighed([{"log": log} for log in ring])["counted"] == {"bytes": 64}
    assert (
        drivers._weighed([{"log": [["send", 1, 48], ["receive", 2, 9], ["send", 1, 48]]}, {}])["counted"]["bytes"] == 96
    )
    assert "to rank 2" in said([[["send", 2, 16]] * 4, ring[1], ring[2]])
    assert "5 messages" in said([[*ring[0], ["send", 1, 0]], ring[1], ring[2]])
    assert "All ranks together" in said([ring[0][:3], ring[1], ring[2]])


def test_sums_that_differ_in_the_last_bit_are_not_the_same() -> None:
    task = LAB.task("all_reduce")
    values = [np.random.default_rng(rank).standard_normal(4) for rank in range(2)]
    total = values[0] + values[1]
    other = total.copy()
    other[3] = np.nextafter(other[3], 9.0)
    got = [returned(total, values[0]), returned(other, values[1])]
    assert task.judge is not None
    (said,) = task.judge({"values": values, "conditions": {}}, got, total)
    assert "differ in element 3" in said


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([{"waits": "send", "for": [1], "cell": 3, "line": 8}, {"waits": "send", "for": [0], "cell": 0, "line": 0}],
         r"deadlock.*rank 0 sends to rank 1.*cell 3, line 8.*rank 1 sends to rank 0"),
        ([{"waits": "receive", "for": [1], "cell": 3, "line": 8}, {"value": 1}],
         r"Waiting in vain: rank 0 waits for a message from rank 1, which has returned"),
        ([{"value": 1}, {"died": "was ended by signal 11"}], "Rank 1 was ended by signal 11"),
        ([{"runs": True}, {"value": 1}], "Rank 0 was still at work when the time was up: look for a loop"),
        ([{"waits": "send", "for": [1], "cell": 3, "line": 8}, {"runs": True, "cell": 3, "line": 5},
          {"waits": "receive", "for": [0], "cell": 3, "line": 6}],
         r"Rank 1 was still at work .*\(cell 3, line 5\): look for a loop.* Waiting in vain: rank 0 sends to rank 1"),
        ([{"error": {"type": "PeerLost", "message": "rank 1 is gone"}, "lost": 1}, {"killed": True}], "PeerLost"),
        ([{"waits": "receive", "for": [], "cell": 0, "line": 0}], "from nobody"), ([{}], "Not every rank"),
    ],
)  # fmt: skip
def test_how_ranks_ended_is_put_into_words(ranks: list[dict[str, Any]], words: str) -> None:
    from autograder.specs._ranks import not_returned

    assert re.search(words, " ".join(not_returned(ranks, len(ranks))))
    assert not_returned([{"value": None}, {"value": 2}], 2) == []
    assert not_returned([{"value": None}, {"value": 2}], 3)


def test_edges_reach_where_answers_break() -> None:
    edges = {task.name: task.edges(np.random.default_rng(3)) for task in LAB.tasks}
    for name in ("reduce_scatter", "all_reduce"):
        sizes = {(len(one["values"]), len(one["values"][0])) for one in edges[name]}
        assert {(p, n) for p in (1, 2, 3, 4, 5) for n in (0, 1, p - 1, p, p + 1)} <= sizes
        assert {one["values"][0].dtype.name for one in edges[name]} == {"float64", "float32", "int64"}
        assert any(one["conditions"].get("delay") for one in edges[name])
    assert [one["conditions"]["kill"][0] for one in edges["all_reduce"] if "kill" in one["conditions"]] == [1, 1, 2]
    assert {len(one["values"]) for one in edges["exchange"] if one["conditions"].get("rendezvous")} == {1, 2, 3, 4, 5}
    shapes = [[g.shape for g in one["gradients"][0]] for one in edges["buckets"]]
    assert [] in shapes
    assert any((0,) in model for model in shapes)
    assert any(() in model for model in shapes)
    assert {len(one["gradients"]) for one in edges["buckets"]} == {1, 2, 3, 4}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "forged",
    [None, 1, "x", [], {}, [None], [[1]], [{"value": 1}], [{"value": {"result": 3, "own": 2}}], [{"waits": 1}],
     [{"killed": True}], [{"value": {"result": "a", "own": None}, "log": 3}] * 2, [{"error": 1}]],
)  # fmt: skip
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    inputs = task.edges(np.random.default_rng(0))[5]
    want = oracle(task, inputs)
    assert task.judge is not None
    try:
        assert task.judge(inputs, forged, want)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # the grader takes these for a wrong answer
