"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import generate, spec
from autograder import release as releasing
from autograder.compare import compare
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Inputs, Task
from autograder.specs import _lab13_parameter_server_cases as case_making

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab13_parameter_server.ipynb", ROOT / "labs/lab13_parameter_server.ipynb"
LAB = spec.load_lab("lab13_parameter_server")
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
    assert lost == {task.name}


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
    assert any("the last trainer was done" in text for text in shown.values())


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
        if task.name == "placement":
            assert sorted(map(list, found)) == want
        elif task.name in ("barrier", "staleness"):
            assert not compare(found, want["weights"])
        elif task.name == "sparse":
            pulled, known, rows = found
            assert known.tolist() == want["known"].tolist()
            assert not compare(rows, want["rows"])
            asked = [one["ids"] for script in inputs["scripts"] for one in script if one["do"] == "pull"]
            assert [len(one) for one in pulled] == [len(ids) for ids in asked]
        else:
            for (indices, values), right in zip(found, want, strict=True):
                order = np.argsort(indices)
                assert indices[order].tolist() == right["indices"].tolist()
                assert not compare(values[order], right["values"])


def test_a_push_of_no_rows_reads_as_one() -> None:
    script = [{"do": "push", "ids": np.zeros(0, np.int64), "gradients": np.zeros((0, 3), np.float32)}]
    lines = LAB.task("sparse").call(dim=3, lr=0.1, seed=1, scripts=[script], conditions={}).split("\n")
    assert "table.push(np.zeros(0, dtype=np.int64), np.zeros((0, 3), dtype=np.float32))" in lines


def test_edges_reach_where_answers_break() -> None:
    edges = {task.name: task.edges(np.random.default_rng(3)) for task in LAB.tasks}
    for name, trainers in (("barrier", "slopes"), ("staleness", "moves")):
        assert {1, 2, 3} <= {len(one[trainers]) for one in edges[name]}
        assert any(one["repeat"] for one in edges[name])
        assert any(any(one["slow"]) for one in edges[name])
        assert any(one["conditions"].get("delay") for one in edges[name])
        assert {case_making.death(one)[1] for one in edges[name] if "kill" in one["conditions"]} == {0, 1, 2}
    assert {one["bound"] for one in edges["staleness"]} == {0, 1, 2, 9}
    pushed = [step["ids"].tolist() for one in edges["sparse"] for script in one["scripts"] for step in script]
    assert [6, 6] in pushed
    assert [] in pushed
    assert max(row for ids in pushed for row in ids) > 10**12
    assert any(one["sizes"] == {"w": 0} for one in edges["placement"])
    assert {len(one["gradients"][0]) for one in edges["compress"]} >= {0, 1, 3}


ORDER = """
import sys
import numpy as np
sys.path[:0] = [{inside!r}, {root!r}]
from autograder import frames
sys.modules["frames"] = frames
from autograder.drivers import lab13_parameter_server as driver
names, inputs = {{}}, {inputs}
exec({source!r}, names)
answer = driver.{task}(names, **inputs)
print([entry[:3] for entry in answer["ranks"][0]["value"]["log"]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["barrier", "staleness"])
def test_a_slow_trainer_is_the_last_on_a_machine_of_any_speed(task: str) -> None:
    """Here the messages of the others take longer than any wait would have been."""
    sources = [
        text_of(cell) for cell in cells_of(SOLUTION) if marks_of(cell).get("grade_id") in ("barrier", "staleness")
    ]
    pushes = 0
    for inputs in LAB.task(task).edges(np.random.default_rng(5)):
        slow = [trainer for trainer, more in enumerate(inputs["slow"]) if more]
        if not slow or ("kill" not in inputs["conditions"] and pushes):
            continue
        inputs["conditions"] = inputs["conditions"] | {"seed": 3, "delay": 0.15}
        source = "import numpy as np\n" + "\n".join(sources)
        given = {"inside": str(ROOT / "autograder/inside"), "root": str(ROOT), "source": source, "task": task}
        with np.printoptions(threshold=10**6, precision=17):
            shown = repr(inputs).replace("array(", "np.array(")
        script = ORDER.format(inputs=shown, **given)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        log = [tuple(entry) for entry in ast.literal_eval(done.stdout)]
        victim, gone = case_making.death(inputs)
        steps = inputs["steps"] if task == "barrier" else len(inputs["moves"][0])
        for step in range(gone + 1 if victim == slow[0] else steps):
            ends = [("push", slow[0], step), ("lost", slow[0], 0)]  # its last one, where it dies at work
            last = min(log.index(end) for end in ends if end in log)
            for other in range(len(inputs["slow"])):
                if other != slow[0] and (other != victim or step < gone):
                    assert log.index(("push", other, step)) < last, (inputs, log)
                    pushes += 1
    assert pushes > 5


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "forged",
    [None, 1, "x", [], {}, [None], {"ranks": []}, {"ranks": [{}] * 3}, {"ranks": [{"value": 1}] * 2},
     {"ranks": [{"value": {"log": [], "weights": 3}}, {"value": []}, {"value": []}, {"value": []}]},
     {"ranks": [{"waits": "receive", "for": [], "note": 3}]}, [{"indices": 1}], [["w", 0, 0]],
     {"ranks": [{"value": {"known": [1], "rows": [[1.0, 2.0]]}}, {"value": []}]}],
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


@pytest.mark.slow
def test_a_server_that_is_right_only_in_its_record_is_wrong() -> None:
    """The record is for words: what the trainers got and what the weights became decides."""
    task = LAB.task("barrier")
    inputs = task.edges(np.random.default_rng(0))[2]
    want = oracle(task, inputs)
    assert task.judge is not None

    def judged(weights: np.ndarray, pulled: list[np.ndarray]) -> list[str]:
        server = {"value": {"log": [], "weights": weights}}
        return task.judge(inputs, {"ranks": [server, *[{"value": pulled}] * 2]}, want)  # type: ignore[misc]

    assert judged(want["weights"], want["pulled"]) == []
    assert "At the end" in judged(want["weights"] + 0.1, want["pulled"])[0]
    assert "trainer 0 got the weights" in judged(want["weights"], [one + 0.1 for one in want["pulled"]])[0]


@pytest.mark.slow
def test_what_staleness_allows_is_told_from_the_weights_alone() -> None:
    """Every update has an entry of its own: which were in the weights that a trainer got can be seen there."""
    task = LAB.task("staleness")
    inputs = case_making.moving(np.random.default_rng(1), 2, 3, 1)
    want = oracle(task, inputs)
    start, moved = np.asarray(inputs["weights"]), want["weights"]
    assert task.judge is not None

    def judged(*updates: list[int]) -> str:
        """Trainer 0 begins its steps with these entries moved; trainer 1 with all of them."""
        mine = [np.where(np.isin(np.arange(6), held), moved, start) for held in updates]
        ranks = [{"value": {"log": [], "weights": moved}}, {"value": mine}, {"value": [moved] * 3}]
        return " ".join(task.judge(inputs, {"ranks": ranks}, want))  # type: ignore[misc]

    assert judged([], [0], [0, 1, 3]) == ""
    assert "its own update of step 0" in judged([], [], [0, 1, 3])
    assert "the update of trainer 1 from step 0" in judged([], [0], [0, 1])
