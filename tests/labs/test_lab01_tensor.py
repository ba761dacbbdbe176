"""The lab on tensors: what is handed out, what it earns, that replays replay, and that the pieces work in internals."""

from __future__ import annotations

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
from autograder.drivers import lab01_tensor as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab01_tensor.ipynb", ROOT / "labs/lab01_tensor.ipynb"
LAB = spec.load_lab("lab01_tensor")
TASKS = [pytest.param(task, id=task.name) for task in LAB.tasks]
UNGRADED = {"use", "training", "submit"}


def cells_of(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def is_graded(cell: dict[str, Any]) -> bool:
    return cell["cell_type"] == "code" and not UNGRADED & set(cell["metadata"].get("tags", []))


def solved() -> dict[str, Any]:
    """The names that the solution binds where it is graded."""
    names: dict[str, Any] = {}
    for cell in filter(is_graded, cells_of(SOLUTION)):
        if not text_of(cell).startswith("check("):
            exec(text_of(cell).replace("from autograder import check, submit", ""), names)
    return names


# --- what is handed out ---------------------------------------------------------------------------


def test_the_released_notebook_is_in_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert releasing.main(["--check", LAB.name]) == 0, capsys.readouterr().err


def test_no_solution_line_is_handed_out() -> None:
    answers = set()
    for cell in cells_of(SOLUTION):
        for part in re.findall(rf"{BEGIN}\n(.*?){END}", text_of(cell), flags=re.DOTALL):
            answers |= {line.strip() for line in part.split("\n") if len(line.strip()) > 8}
    handed_out = {line.strip() for cell in cells_of(RELEASED) for line in text_of(cell).split("\n")}
    assert len(answers) > 40
    assert not answers & handed_out
    assert not any("SOLUTION" in line for line in handed_out)


def test_every_task_has_its_text_its_hole_and_its_points() -> None:
    assert LAB.points == 100
    cells = {marks_of(cell)["grade_id"]: cell for cell in cells_of(RELEASED) if marks_of(cell)}
    texts = [text_of(cell) for cell in cells_of(RELEASED) if cell["cell_type"] == "markdown"]
    for number, task in enumerate(LAB.tasks, 1):
        assert HOLE[1] in text_of(cells[task.name])
        assert text_of(cells[f"check-{task.name}"]) == f'check("{task.name}")'
        assert marks_of(cells[f"check-{task.name}"])["points"] == task.points
        (described,) = [text for text in texts if f"## Task {number}: " in text]
        assert f"({task.points:g} points)" in described
        assert "<details><summary>Hint" in described
        for name in set(task.names) - {"View"}:
            assert f"`{name}(" in described
    for text in texts:
        assert text.count("<details>") == text.count("</details>")
        assert not re.search(r"\bsimply\b|!(?!\[)", text)


def test_the_worked_examples_are_true() -> None:
    names, tried = solved(), 0
    for cell in cells_of(RELEASED):
        for block in re.findall(r"^```python\n(.*?)^```", text_of(cell), flags=re.MULTILINE | re.DOTALL):
            for line in block.strip().split("\n"):
                code, _, promised = (part.strip() for part in line.partition("  # "))
                if promised == "ValueError":
                    with pytest.raises(ValueError, match=r"\w"):
                        eval(code, names)
                elif re.match(r"\w+ = ", code):
                    exec(code, names)
                    continue
                else:
                    assert repr(eval(code, names)) == promised, line
                tried += 1
    assert tried >= 20


def test_the_solution_is_stored_as_executed() -> None:
    counts = []
    for cell in cells_of(SOLUTION):
        if cell["cell_type"] == "code" and "submit" not in cell["metadata"].get("tags", []):
            counts.append(cell["execution_count"])
            assert all(output["output_type"] != "error" for output in cell["outputs"])
            assert all(output.get("name") != "stderr" for output in cell["outputs"])
            if text_of(cell).startswith("check("):
                assert "Right" in json.dumps(cell["outputs"])
    assert counts == list(range(1, len(counts) + 1))
    shown = json.dumps([cell.get("outputs", []) for cell in cells_of(SOLUTION)])
    assert not re.search(r"/(home|root|Users|tmp|work)/", shown)


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
    # The solution builds each piece on those before it, as the lab suggests.
    needs = {"layout": {"reshape", "elementwise"}, "broadcast": {"views", "elementwise"}, "views": {"elementwise"}}
    assert lost == {task.name} | needs.get(task.name, set())


@pytest.mark.slow
def test_the_whole_lab_runs_in_a_minute() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(SOLUTION, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "submit" not in cell.metadata.get("tags", [])]
    began = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    assert time.monotonic() - began < 60
    checks = [json.dumps(cell.outputs) for cell in notebook.cells if cell.source.startswith("check(")]
    assert len(checks) == len(LAB.tasks)
    assert all("Right" in check for check in checks), checks


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_solution_agrees_with_arithmetic_and_replays_run(task: Task) -> None:
    """On every case the driver with the solution gives the answer, and so do the lines shown in the feedback."""
    refusals = 0
    for inputs in generate.draw(task, seed=7):
        names = solved()
        want = task.oracles["numpy"](np, **inputs)
        got = getattr(drivers, task.driver)(names, **inputs)
        assert task.judge is not None
        assert task.judge(inputs, got, want) == []
        assert not compare(got, want)
        assert task.show is not None
        assert task.show(got) == task.show(want)
        body, _, last = task.call(**inputs).rpartition("\n")
        names["print"] = lambda value: None
        exec(body, names)
        try:
            answer = eval(last, names)
        except ValueError:
            assert want["raised"] == "ValueError"
            refusals += 1
            continue
        if task.name == "layout":
            assert (list(answer[0]), answer[1]) == (want["strides"], want["place"])
        elif task.name == "broadcast":
            assert list(answer) == want["shape"]
        else:
            assert list(answer.shape) == want["shape"]
    assert refusals > 0 or task.name == "layout"


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([described(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "layout": ['"shape": []', '"shape": [0]', "[-3, 7, -1]", '"shape": [1, 1]'],
        "broadcast": ["[[]]", "[[0], [1]]", "[[], []]"],
        "views": ['["transpose", []]', '"shape": [0, 2]', "null, null, -1", '"strides": [-1]', '"offset": 2'],
        "reshape": ['"shape": []', '"shape": [0]', '"strides": [0, 1]', '"offset": 3', '"strides": [7, 1]'],
        "elementwise": ['"shape": []', '"shape": [0, 3]', "float32", "-1]", '"strides": [0, 1]', '"every": 9973'],
    }
    for piece in wanted[task.name]:
        assert piece in text, f"{task.name}: no edge has {piece}"


def described(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"size": value.size, "dtype": value.dtype.name}
    if isinstance(value, dict):
        return {key: described(part) for key, part in value.items()}
    return [described(part) for part in value] if isinstance(value, list) else value


def test_values_are_fresh_and_all_different() -> None:
    one, other = (LAB.task("views").edges(np.random.default_rng(seed))[0]["of"]["storage"] for seed in (1, 2))
    assert not np.array_equal(one, other)
    assert len(set(one.tolist())) == one.size


@pytest.mark.slow
def test_a_spec_imports_nothing_heavy() -> None:
    heavy = ("torch", "tensorflow", "hypothesis", "internals")
    code = f"import sys, autograder.specs.lab01_tensor; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "forged",
    [None, 1, "x", [], {}, {"shape": 3}, {"shape": [1], "reads": 7, "shares": True}, {"strides": 1, "place": "x"}],
)
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    assert task.judge is not None
    for inputs in task.edges(np.random.default_rng(0)):
        want = task.oracles["numpy"](np, **inputs)
        try:
            assert task.judge(inputs, forged, want)
        except (TypeError, ValueError, LookupError, AttributeError):
            pass  # the grader takes these for a wrong answer


@pytest.mark.parametrize("answer", [None, [1, 2], "view", (2, 3), 4.0, {"shape": 1}])
@pytest.mark.parametrize("task", TASKS)
def test_a_driver_shows_what_is_no_answer(task: Task, answer: Any) -> None:
    """An error says what came; or it is data that the judge refuses."""
    inputs = task.edges(np.random.default_rng(0))[1]
    names = solved() | {name: (lambda *_, answer=answer: answer) for name in task.names if name != "View"}
    want = task.oracles["numpy"](np, **inputs)
    assert task.judge is not None
    said = ""
    try:
        got = getattr(drivers, task.driver)(names, **inputs)
    except (TypeError, ValueError) as error:
        said = str(error)
    assert re.search("expected|returned", said) or task.judge(inputs, got, want)


# --- the learner's pieces in internals --------------------------------------------------------------

SECTIONS = {
    path.stem: re.findall(r"^# %% right.*?\n(.*?)(?=^# %% |\Z)", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for path in sorted((ROOT / "tests/mutants/lab01_tensor").glob("*.py"))
}
RIGHT = [("solution", ""), *((f"{task}-{i}", text) for task, found in SECTIONS.items() for i, text in enumerate(found))]


@pytest.mark.parametrize("answer", [pytest.param(text, id=name) for name, text in RIGHT])
def test_any_right_answer_works_inside_internals(answer: str) -> None:
    """The network of the lab, with the learner's kernels: the same loss and gradients, bit for bit."""
    from internals import Tensor, ops

    names = solved()
    (kernels,) = [text_of(cell) for cell in cells_of(SOLUTION) if text_of(cell).startswith("def as_view(")]
    exec(answer, names)
    exec(kernels, names)

    def gradients() -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        leaves = [Tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((16, 5), (5,), (20, 3), (3,))]
        x = Tensor(rng.standard_normal((12, 8, 8)))[2:10:2] * 0.5
        patches = x.reshape(4, 2, 4, 2, 4).transpose(0, 1, 3, 2, 4).reshape(4, 4, 16)
        seen = ops.relu(patches @ leaves[0] + leaves[1])
        out = seen.reshape(4, 20) @ leaves[2] + leaves[3]
        (out * out - 1.0).sum().backward()
        return [leaf.grad.numpy() for leaf in leaves]

    ours, before = gradients(), dict(names["reshapes"])
    with ops.swap_kernels(**names["yours"]):
        yours = gradients()
    assert names["reshapes"]["views"] > before["views"]
    assert names["reshapes"]["copies"] > before["copies"]
    for one, other in zip(yours, ours, strict=True):
        np.testing.assert_array_equal(one, other)


def test_swapped_kernels_are_put_back() -> None:
    from internals import Tensor, ops

    def broken(x: Any, shape: Any) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"), ops.swap_kernels(reshape=broken):
        Tensor([1.0, 2.0]).reshape(2, 1)
    assert Tensor([1.0, 2.0]).reshape(2, 1).shape == (2, 1)
    with pytest.raises(ValueError, match="no op called resahpe"), ops.swap_kernels(resahpe=broken):
        pass
