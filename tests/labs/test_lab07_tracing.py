"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import release as releasing
from autograder import spec
from autograder.compare import compare
from autograder.drivers import lab07_tracing as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task
from internals import ops

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab07_tracing.ipynb", ROOT / "labs/lab07_tracing.ipynb"
LAB = spec.load_lab("lab07_tracing")
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
    assert len(answers) > 20
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
    assert sum("<details>" in text for text in texts) == len(LAB.tasks)
    for text in texts:
        assert text.count("<details>") == text.count("</details>")
        assert not re.search(r"\bsimply\b|!(?!\[)", text)


def test_the_worked_examples_are_true() -> None:
    """Every example in the text, run with the solution, gives what its comment says."""
    names, tried = solved(), 0
    for cell in cells_of(RELEASED):
        blocks = re.findall(r"^```python\n(.*?)^```", text_of(cell), flags=re.MULTILINE | re.DOTALL)
        for block in blocks if cell["cell_type"] == "markdown" else []:
            for line in block.splitlines():
                code, _, promised = (part.strip() for part in line.partition("  # "))
                if promised:
                    assert spaceless(promised) == spaceless(eval(code, names)), line
                    tried += 1
                else:
                    exec(line, names)
    assert tried >= 8


def spaceless(value: Any) -> str:
    return re.sub(r"\s+", "", value if isinstance(value, str) else repr(value))


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
def test_one_open_hole_costs_no_other_task(task: Task, grader: Grader) -> None:
    notebook = json.loads(SOLUTION.read_text(encoding="utf-8"))
    open_cells = {marks_of(cell).get("grade_id"): text_of(cell) for cell in cells_of(RELEASED)}
    for cell in notebook["cells"]:
        if marks_of(cell).get("grade_id") == task.name:
            cell["source"] = open_cells[task.name]
    report = grader.grade_notebook(parse_notebook(json.dumps(notebook).encode()))
    assert {result.name for result in report.tasks if result.points == 0} == {task.name}


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
    assert any("Python ran the function 3 times" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_replay_runs_in_the_learners_notebook(task: Task) -> None:
    """The lines shown with a counter-example run there, and with the solution's functions lead to a right answer."""
    names = solved()
    for inputs in task.edges(np.random.default_rng(7)):
        given = dict(names)
        body, _, last = task.call(**inputs).rpartition("\n")
        if task.name == "signature":
            body, last = task.call(**inputs).rsplit("\n", 1)
        exec(body, given)
        try:
            answer = eval(last, given)
        except ValueError:
            assert task.name == "replay"
            assert len(inputs["arrays"]) != inputs["program"][0]
            continue
        driver = getattr(drivers, task.driver)(given, **copy.deepcopy(inputs))
        want = task.oracles["numpy"](np, **inputs) if "numpy" in task.oracles else None
        if task.name == "signature":
            assert answer == driver == want
        elif task.name == "record":
            assert [drivers._plain("record", answer)] * 2 == driver
        elif task.name == "replay":
            assert not compare(np.asarray(answer), want[0])
        else:
            assert drivers._plain(task.name, answer) == driver
            assert task.judge is not None
            assert task.judge(inputs, driver, want) == []


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([shape_of(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "record": ["2.0 - x", "unused", "return y", "for i in range", "while"],
        "replay": ["[0]", "float32", '"program": [2, [], 1]'],
        "signature": ["NaN", "-0.0", "true", "null", "float32", '"b": 2, "a": 1'],
        "dead_steps": ['"program": [2, [["neg", [1]]], 0]', "[1, [], 0]"],
        "branch": ["[1, [], 0]", "[2, [], 1]"],
    }
    for piece in wanted[task.name]:
        assert piece in text, f"{task.name}: no edge has {piece}"


def shape_of(value: Any) -> Any:
    """A case with arrays replaced by shape and dtype."""
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "dtype": value.dtype.name}
    if isinstance(value, dict):
        return {key: shape_of(part) for key, part in value.items()}
    return [shape_of(part) for part in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("forged", [None, 1, "x", [], {}, [1], [None, None, None], [2, [["add", [9, 0]]], 2], [[], []]])
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    inputs = task.edges(np.random.default_rng(0))[2]
    (oracle,) = [one for name, one in task.oracles.items() if name == "numpy"] or [None]
    want = [["mul"], inputs["arrays"][0] * 2.0] if oracle is None else oracle(np, **inputs)
    assert task.judge is not None
    try:
        assert task.judge(inputs, forged, want)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # the grader takes these for a wrong answer


@pytest.mark.slow
def test_a_spec_imports_nothing_heavy() -> None:
    heavy = ("torch", "tensorflow", "hypothesis", "internals")
    code = f"import sys, autograder.specs.lab07_tracing; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


# --- the learner's pieces in internals --------------------------------------------------------------

RIGHT = [("solution", "")] + [
    (f"{path.stem}-{i}", section.partition("\n")[2])
    for path in sorted((ROOT / "tests/mutants/lab07_tracing").glob("*.py"))
    for i, section in enumerate(re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE))
    if section.startswith("right")
]


@pytest.mark.parametrize("answer", [pytest.param(text, id=name) for name, text in RIGHT])
def test_any_right_answer_works_inside_internals(answer: str) -> None:
    """Values and gradients of a function that the learner's pieces trace are those of the function itself."""
    from internals import Tensor
    from internals.trace import function, swap

    names = solved()
    exec(answer, names)
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 3), (3, 2), (2,))]
    ran: list[int] = []

    def layer(x: Any, w: Any, b: Any, scale: float) -> Any:
        ran.append(1)
        unread = x @ w
        unread = unread * 2.0
        return (ops.relu(x @ w + b) if isinstance(x, Tensor) else (x @ w + b).relu()) * scale

    def run(layer: Any) -> list[np.ndarray]:
        leaves = [Tensor(array, requires_grad=True) for array in arrays]
        out = layer(*leaves, 2.0)
        (out * out).sum().backward()
        return [out.detach().numpy(), *[leaf.grad.numpy() for leaf in leaves]]

    pieces = {name: names[name] for name in ("record", "replay", "signature", "prune")}
    want = run(layer)
    ran.clear()
    with swap(**pieces) as programs:
        traced = function(layer)
        found = [run(traced), run(traced)]
    assert len(ran) == len(programs) == 1
    (program,) = programs.values()
    assert [step.op for step in program.steps] == ["matmul", "add", "relu", "mul"]
    for one in found:
        for mine, theirs in zip(one, want, strict=True):
            np.testing.assert_array_equal(mine, theirs)
