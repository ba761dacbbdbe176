"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import importlib
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
from autograder.drivers import lab16_formats as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task
from autograder.specs._lab16_formats_runtime import OnnxError, run

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab16_formats.ipynb", ROOT / "labs/lab16_formats.ipynb"
LAB = spec.load_lab("lab16_formats")
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
    assert any("in onnxruntime" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_oracles_agree_and_the_solution_with_them(task: Task) -> None:
    names = solved()
    for inputs in cases(task):
        one, two = (
            oracle(np if name == "numpy" else importlib.import_module(name), **inputs)
            for name, oracle in task.oracles.items()
        )
        assert not compare(one, two), inputs
        got = getattr(drivers, task.driver)(names, **inputs)
        assert task.judge is not None
        assert task.judge(inputs, got, one) == []


@pytest.mark.slow
def test_an_array_that_differs_from_itself_is_wrong_alone() -> None:
    """b has two times; a has the first of them, and c, which has none, fits."""
    signature = [
        ["a", ["time"], "int64"],
        ["c", ["batch", "batch"], "int64"],
        ["b", ["time", "batch", "time"], "int64"],
    ]
    shapes = {"a": (2,), "c": (4, 4), "b": (2, 4, 1)}
    call = {"signature": signature, "given": {name: np.zeros(shape, np.int64) for name, shape in shapes.items()}}
    for name, oracle in LAB.tasks[0].oracles.items():
        assert oracle(importlib.import_module(name), **call) == {"wrong": ["a", "b"]}, name


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_runs(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    whole = solved()
    for inputs in cases(task):
        names = dict(whole)
        driven = getattr(drivers, task.driver)(names, **inputs)
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        try:
            answer = eval(last, names)
        except ValueError:
            assert set(driven) == {"refused"}
            continue
        if task.name == "onnx":
            np.testing.assert_allclose(run(answer, inputs["x"]), run(driven, inputs["x"]), rtol=1e-4, atol=1e-5)
        else:
            assert "refused" not in driven
            assert len(answer) == len(next(iter(driven.values())))
        assert task.show is not None
        assert task.show(driven)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("forged", [None, 1, "x", [], {}, {"sizes": 1}, {"nodes": 1}, {"steps": [1]}, {"refused": 3},
                                    {"nodes": [], "initializers": {}}])  # fmt: skip
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    inputs = task.edges(np.random.default_rng(0))[1]
    want = task.oracles.get("numpy", task.oracles.get("torch"))
    framework = np if "numpy" in task.oracles else importlib.import_module("torch")
    assert want is not None
    assert task.judge is not None
    try:
        assert task.judge(inputs, forged, want(framework, **inputs))
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # the grader takes these for a wrong answer


def test_edges_reach_where_answers_break() -> None:
    edges = {task.name: task.edges(np.random.default_rng(3)) for task in LAB.tasks}
    bind = LAB.task("bind").oracles["numpy"]
    assert any("wrong" in bind(np, **one) for one in edges["bind"])
    assert any(0 in array.shape for one in edges["bind"] for array in one["given"].values())
    assert any(node["op"] == "assign" for one in edges["freeze"] for node in one["nodes"])
    assert any(len(one["first"]) != len(one["second"]) for one in edges["open_sizes"])
    ops = {node["op"] for one in edges["onnx"] for node in one["nodes"]}
    assert ops == {"placeholder", "variable", "linear", "relu", "conv2d", "max_pool2d", "reshape"}
    assert any(len(set(one["weights"]["w0"].shape[2:])) == 2 for one in edges["onnx"] if one["weights"])


# --- the runtime that learners' graphs are judged by ----------------------------------------------


@pytest.mark.slow
def test_the_runtime_computes_what_onnxruntime_does() -> None:
    """On every case, on the file that the solution writes."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    helper, names, task = onnx.helper, solved(), LAB.task("onnx")
    for inputs in cases(task):
        graph = drivers.export(names, **inputs)
        nodes = [
            helper.make_node(one["op_type"], one["inputs"], one["outputs"], **one["attrs"]) for one in graph["nodes"]
        ]
        arrays = [onnx.numpy_helper.from_array(array, name) for name, array in graph["initializers"].items()]
        ends = [
            helper.make_tensor_value_info("x", 1, list(inputs["x"].shape)),
            helper.make_tensor_value_info("y", 1, list(run(graph, inputs["x"]).shape)),
        ]
        made = helper.make_graph(nodes, "g", ends[:1], ends[1:], arrays)
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        (want,) = runtime.InferenceSession(model.SerializeToString()).run(None, {"x": inputs["x"]})
        np.testing.assert_allclose(run(graph, inputs["x"]), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("change", "message"), [
    ({"op_type": "Teleport"}, "no ONNX operator"), ({"inputs": ["x", "x"]}, "1 inputs, got 2"),
    ({"inputs": ["nobody"]}, "reads 'nobody'"), ({"outputs": ["y", "z"]}, "one output"),
    ({"outputs": ["x"]}, "made twice"),
    ({"attrs": {"alpha": 1}}, "no attribute alpha"), ({"outputs": ["z"]}, "no node makes y"),
    ({"op_type": "MaxPool", "attrs": {"kernel_shape": [10**9, 10**9]}}, "small positive|takes"),
    ({"op_type": "MaxPool", "attrs": {"kernel_shape": [2.5, 2]}}, "list of 2 integers"),
    ({"op_type": "MaxPool", "attrs": {}}, "list of 2 integers"),
])  # fmt: skip
def test_the_runtime_is_strict(change: dict[str, Any], message: str) -> None:
    node = {"op_type": "Relu", "inputs": ["x"], "outputs": ["y"], "attrs": {}} | change
    with pytest.raises(OnnxError, match=message):
        run({"nodes": [node], "initializers": {}}, np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("name", ["bind", "freeze", "open_sizes", "export"])
def test_the_driver_refuses_what_is_no_answer(name: str) -> None:
    task = next(task for task in LAB.tasks if name in task.names)
    inputs = task.edges(np.random.default_rng(0))[1]
    names = solved()
    for wrong in (None, 3, "x", object()):
        with pytest.raises((TypeError, ValueError)):
            getattr(drivers, task.driver)({**names, name: lambda *_, wrong=wrong: wrong}, **inputs)
