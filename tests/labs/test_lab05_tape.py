"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

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
from autograder.costs import split
from autograder.drivers import lab05_tape as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task
from autograder.specs._source import source
from autograder.written import PLACEHOLDER

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab05_tape.ipynb", ROOT / "labs/lab05_tape.ipynb"
LAB = spec.load_lab("lab05_tape")
SKIPPED = {"use", "training", "plot", "submit"}


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


TASKS = [pytest.param(task, id=task.name) for task in LAB.tasks]

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
    hints = [text for text in texts if "<details>" in text]
    assert len(hints) == len(LAB.tasks)
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
            if promised.startswith("StaleTape"):
                with pytest.raises(names["StaleTape"], match=promised.split(": ")[1]):
                    eval(code, names)
                tried += 1
            elif re.match(r"[\w.]+\(.*\)\S*$|\w+$", code) and promised:
                answer = eval(code, names)
                assert promised.startswith((repr(answer), str(answer), re.sub(r"\s+", " ", repr(answer)))), line
                tried += 1
            elif not code.startswith("#"):
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
    # The solution's backward pass walks along topological_order and adds with accumulate, as the lab suggests.
    needs = {"order": {"backward"}, "accumulate": {"backward"}}
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
    assert any("your tape" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", [task for task in TASKS if task.id != "stale"])
def test_a_replay_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    for inputs in cases(task):
        names = solved()
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        answer = eval(last, names)
        want = task.oracles["numpy"](np, **inputs)
        if task.name == "rules":
            assert not compare(list(answer), want)
        elif task.name == "accumulate":
            assert not compare(answer[0], want["sums"])
        elif task.name == "backward" and inputs["repeat"] == 1:
            assert not compare({name: found for name, found in answer.items() if found is not None}, want["gradients"])
        elif task.name == "backward":
            assert not compare(answer, next(iter(want["gradients"].values())))
        else:
            found = answer if inputs["repeat"] == 1 else np.array(answer, dtype=np.int64)
            assert task.judge(inputs, {"order": found}, want) == []


@pytest.mark.slow
def test_a_replay_of_a_script_gives_what_the_oracles_give() -> None:
    task = LAB.task("stale")
    for inputs in cases(task):
        names, printed = solved(), []
        names["print"] = lambda arrays, printed=printed: printed.append(
            {"arrays": [np.array(array) for array in arrays]}
        )
        want = task.oracles["numpy"](np, **inputs)
        refused = next((place for place, outcome in enumerate(want) if "raised" in outcome), len(want))
        if refused < len(want):
            with pytest.raises(names["StaleTape"]):
                exec(task.call(**inputs), names)
        else:
            exec(task.call(**inputs), names)
        assert not compare(printed, want[:refused])


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([shape_of(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "rules": ["[]", "[0", "[1]", "float32"],
        "order": [str([[1, 1], []]), "50000"],
        "accumulate": ["[]", "[0", "[1]", "float32", '"none"'],
        "backward": ["[]", "[0", "[1]", "float32", '"none"', "50000", "[0, 0]"],
        "stale": ["[]", "[0", "float32", "true"],
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


def test_values_are_fresh() -> None:
    one, other = (LAB.task("rules").edges(np.random.default_rng(seed))[3]["g"] for seed in (1, 2))
    assert not np.array_equal(one, other)
    assert not np.all(one == 1)


@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5),
        np.arange(6.0).reshape(2, 3)[::-1],
        np.arange(6.0).reshape(2, 3)[:, ::-1],
        np.arange(6.0, dtype=np.float32).reshape(2, 3).T,
        np.broadcast_to(np.array(0.1, dtype=np.float32), (2, 3)),
        np.broadcast_to(np.array([1.0, 2.0])[:, None], (2, 3)),
        np.zeros((0, 3), dtype=np.float32),
    ],
)
def test_an_array_as_source_comes_back_the_same(array: np.ndarray) -> None:
    again = eval(source(array), {"np": np})
    assert again.dtype == array.dtype
    assert again.strides == array.strides or array.size < 2 or 0 in array.strides
    assert again.shape == array.shape
    assert np.array_equal(again, array)


@pytest.mark.slow
def test_a_spec_imports_nothing_heavy() -> None:
    heavy = ("torch", "tensorflow", "hypothesis", "internals")
    code = f"import sys, autograder.specs.lab05_tape; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["order", "accumulate", "backward", "stale"])
@pytest.mark.parametrize(
    "forged",
    [None, 1, "x", [], {}, {"order": 3}, {"sums": 3, "changed": ""}, [1], {"gradients": {}, "again": 1, "changed": 1}],
)
def test_a_forged_answer_is_never_right(name: str, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    task = LAB.task(name)
    inputs = task.edges(np.random.default_rng(0))[1 if name == "stale" else 2 if name != "accumulate" else 3]
    want = task.oracles["numpy"](np, **inputs)
    assert task.judge is not None
    try:
        assert task.judge(inputs, forged, want)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # the grader takes these for a wrong answer


# --- the learner's pieces in internals --------------------------------------------------------------

OTHER_RIGHT = {
    path.stem: [
        section.partition("\n")[2]
        for section in re.split(r"^# %% ", path.read_text(), flags=re.M)
        if section.startswith("right")
    ]
    for path in sorted((ROOT / "tests/mutants/lab05_tape").glob("*.py"))
}
RIGHT = [
    ("solution", ""),
    *(
        (f"{task}-{i}", text)
        for task in ("rules", "order", "accumulate", "backward")
        for i, text in enumerate(OTHER_RIGHT[task])
    ),
]


@pytest.mark.parametrize("answer", [pytest.param(text, id=name) for name, text in RIGHT])
def test_any_right_answer_works_inside_internals(answer: str) -> None:
    """Gradients of a small network with the learner's pieces are those of internals' own tape."""
    import internals
    from internals import autodiff, nn, ops

    names = solved()
    exec(answer, names)

    def gradients() -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        model = nn.Sequential(nn.Linear(6, 5, rng=rng), nn.ReLU(), nn.Linear(5, 3, rng=rng))
        x = internals.Tensor(rng.standard_normal((4, 6)).astype(np.float32))
        hidden = model(x)
        loss = ops.cross_entropy(hidden * hidden, internals.Tensor(np.array([0, 2, 1, 1])))
        loss.backward()
        return [parameter.grad.numpy() for parameter in model.parameters()]

    ours = gradients()
    with ops.swap(mul=names["mul_rule"], matmul=names["matmul_rule"]), autodiff.swap(backward=names["backward"]):
        yours = gradients()
    for one, other in zip(yours, ours, strict=True):
        assert not compare(one, other)


def test_the_driver_counts_and_copies() -> None:
    """A pass that follows every path is reported by the driver, and so is one that writes into the cotangent."""
    names = solved()

    def by_paths(root: Any, cotangent: np.ndarray) -> dict[Any, Any]:
        gradients: dict[Any, Any] = {}
        stack = [(root, cotangent)]
        while stack:
            node, g = stack.pop()
            if node.inputs:
                stack += list(zip(node.inputs, node.rule(g), strict=True))
            else:
                names["accumulate"](gradients, node, g)
        cotangent *= 2
        return gradients

    task = LAB.task("backward")
    inputs = next(
        case for case in task.edges(np.random.default_rng(0)) if len(case["steps"]) == 5 and case["repeat"] == 1
    )
    answer, (cost,) = split(task, inputs, drivers.backward({"backward": by_paths}, **inputs))
    assert "2 times" in answer["again"]
    assert cost.counted > cost.allowed == 4
    assert answer["changed"] == "cotangent"
    assert len(task.judge(inputs, answer, task.oracles["numpy"](np, **inputs))) == 2
