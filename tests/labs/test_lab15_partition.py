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
from autograder.drivers import lab15_partition as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab15_partition.ipynb", ROOT / "labs/lab15_partition.ipynb"
LAB = spec.load_lab("lab15_partition")
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
    assert LAB.points == 100


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
            if promised:
                assert repr(eval(code, names)) == promised, line
                tried += 1
            else:
                exec(code, names)
    assert tried == 14


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
    # The solution's run_part uses its Rendezvous, as the lab suggests.
    assert lost == {task.name} | ({"share"} if task.name == "meet" else set())


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
    assert any("your pieces" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_oracles_agree(task: Task, tf: Any) -> None:
    import torch
    import torch.distributed

    frameworks = {"tensorflow": tf, "torch": torch, "numpy": np}
    for inputs in cases(task):
        one, *others = (oracle(frameworks[name], **inputs) for name, oracle in task.oracles.items())
        assert all(other == one for other in others), inputs


@pytest.fixture(scope="module")
def tf() -> Any:
    import tensorflow

    return tensorflow


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    whole = solved()
    for inputs in cases(task):
        names, want = dict(whole), task.oracles["numpy"](np, **inputs)
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        found: Any = eval(last, names)
        if task.name == "share":
            for rank, part in enumerate(inputs["parts"]):
                for step, values in enumerate(found[rank]):
                    assert set(values) == {name for kind, name, *_ in part if kind != "send"}
                    assert {name: [want[step][name]] for name in values} == {n: v.tolist() for n, v in values.items()}
            continue
        answer = {
            "reach": lambda found=found: sorted(found),
            "places": lambda found=found: found,
            "cut": lambda found=found: {device: [list(step) for step in steps] for device, steps in found.items()},
            "meet": lambda found=found: {"taken": found[0], "held": found[1]},
        }[task.name]()
        assert task.judge is not None
        assert task.judge(inputs, answer, want) == []


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([shape_of(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "reach": ['"length": 3000', '"fetches": []', '"controls": ["u"]', '["b", "c", "b"]'],
        "places": ['"graph": {}', '"beside": "m"', '"device": null', '"beside": "v"'],
        "cut": ['"graph": {}', '["a", "a"]', '"controls": ["a"]'],
        "meet": ['"actions": []', '["abort", 1]', '["put", 1, "x", 0]'],
        "share": ['"kill": [1, 1]', '"delay": 0.02', '"count": 0', '"count": 5'],
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
    one, other = (LAB.task("share").edges(np.random.default_rng(seed))[0]["constants"] for seed in (1, 2))
    assert one != other


@pytest.mark.slow
def test_a_spec_imports_nothing_heavy() -> None:
    heavy = ("torch", "tensorflow", "hypothesis", "internals")
    code = f"import sys, autograder.specs.lab15_partition; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "forged",
    [None, 1, "x", {}, [None], [["x", 1]], {"taken": 1, "held": None}, {"taken": [], "held": 0}, {"a": 1}, {"a": [[1]]},
     [{"value": {"ran": [], "values": []}}], [{"value": 1}], ["a", 1]],
)  # fmt: skip
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    inputs = task.edges(np.random.default_rng(0))[6]
    want = task.oracles["numpy"](np, **inputs)
    assert task.judge is not None
    try:
        assert task.judge(inputs, forged, want)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # the grader takes these for a wrong answer


# --- the learner's pieces in internals --------------------------------------------------------------

PIECES = {"reach": "prune", "places": "place", "cut": "cut"}
RIGHT = [
    pytest.param(task, section.partition("\n")[2], id=f"{task}-{number}")
    for task in PIECES
    for number, section in enumerate(
        re.split(r"^# %% ", (ROOT / f"tests/mutants/lab15_partition/{task}.py").read_text(), flags=re.M)
    )
    if section.startswith("right")
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "answer"), [pytest.param("", "", id="solution"), *RIGHT])
def test_any_right_answer_works_inside_internals(task: str, answer: str) -> None:
    """A step of training on two workers with the learner's pieces has the values of internals' own."""
    from internals import graph as graphs
    from internals import ops, optim
    from internals.distributed import runtime

    names = solved()
    exec(answer, names)
    rng = np.random.default_rng(5)
    graph = graphs.Graph()
    with graph:
        x, y = graph.placeholder((None, 6), name="x"), graph.placeholder((None,), np.int64, name="y")
        with graph.device("/job:ps"):
            w = graph.variable(rng.standard_normal((6, 3)).astype(np.float32), name="w")
        losses = []
        for task_index in (0, 1):
            with graph.device(f"/job:worker/task:{task_index}"):
                losses.append(ops.cross_entropy((x[task_index::2] @ w).tanh(), y[task_index::2]))
        loss = losses[0] + losses[1]
        train = graphs.minimize(loss, optimizer=optim.Adam, lr=0.1)
    feeds = {x: rng.standard_normal((4, 6)).astype(np.float32), y: np.array([0, 2, 1, 1])}

    def steps() -> list[np.ndarray]:
        with runtime.InprocCluster({"worker": 2, "ps": 1}) as cluster, cluster.session(graph) as session:
            session.initialise()
            return [session.run([loss, train, w], feeds)[i] for _ in range(3) for i in (0, 2)]

    ours = steps()
    with runtime.swap(**{piece: names[piece] for piece in PIECES.values()}):
        yours = steps()
    for one, other in zip(yours, ours, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_the_pieces_of_internals_are_right_answers() -> None:
    from internals.distributed import runtime

    for task, piece in (("reach", runtime.prune), ("places", runtime.place), ("cut", runtime.cut)):
        asked = LAB.task(task)
        for inputs in cases(asked):
            if task == "places" and any(one["beside"] and one["device"] for one in inputs["graph"].values()):
                continue  # there a wish beside another node is heard in a group, where nobody else has one
            got = getattr(drivers, asked.driver)({PIECES[task]: piece}, **inputs)
            assert asked.judge is not None
            assert asked.judge(inputs, got, asked.oracles["numpy"](np, **inputs)) == []
