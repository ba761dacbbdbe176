"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
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
from autograder.spec import Task
from autograder.specs import _lab03_layers_rules as rules

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab03_layers.ipynb", ROOT / "labs/lab03_layers.ipynb"
LAB = spec.load_lab("lab03_layers")
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
    return copy.deepcopy(drawn(task.name, seed))


@cache
def drawn(task: str, seed: int) -> list[dict[str, Any]]:
    return generate.draw(LAB.task(task), seed)


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
            names["Parameter"] = solved()["Parameter"]
            whole = block.splitlines()
            at = 0
            while at < len(whole):
                code, _, promised = (part.strip() for part in whole[at].partition("  # "))
                if promised:
                    answer = eval(code, names)
                    assert spaceless(promised) == spaceless(answer), whole[at]
                    tried += 1
                    at += 1
                    continue
                end = at + 1
                while end < len(whole) and whole[end].startswith((" ", "\t")):
                    end += 1
                exec("\n".join(whole[at:end]), names)
                at = end
    assert tried >= 9


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
    assert any("your pieces" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


def replayed(task: Task, inputs: dict[str, Any]) -> Any:
    """What the lines shown with a counter-example come to, in the form that a driver gives."""
    names = solved()
    body, _, last = task.call(**inputs).rpartition("\n")
    try:
        exec(body, names)
        answer = eval(last, names)
    except (ValueError, FloatingPointError) as error:
        refused = {"refused": str(error)} if isinstance(error, ValueError) else {"raised": type(error).__name__}
        return refused if "refused" in refused else {"runs": [refused] * 2}
    if task.name == "fc":
        outputs, by_inputs, by_weight, by_bias = answer
        grown = {"outputs": outputs, "input_gradients": by_inputs}
        return grown | {"weight_gradient": by_weight, "bias_gradient": by_bias, "changed": ""}
    if task.name == "pooling":
        return dict(zip(("output", "input_gradient"), answer, strict=True))
    if task.name == "layer_order":
        return {"order": answer, "changed": ""}
    if task.name == "machine":
        rows, count = len(inputs["x"]), min(inputs["threads"], len(inputs["x"]))
        shares = [part.tolist() for part in np.array_split(np.arange(rows), count)]
        run = {"loss": answer[0], "gradients": answer[1], "shares": shares, "at_once": True}
        return {"runs": [run, run]}
    values, velocities = answer
    zeros = [np.zeros_like(value) for value in values]
    return {"values": values, "velocities": velocities, "gradients": zeros, "held": values}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    for inputs in cases(task):
        assert task.judge is not None
        want = task.oracles["numpy"](np, **inputs)
        assert task.judge(inputs, replayed(task, inputs), want) == [], task.call(**inputs)[:2000]
        assert task.show is not None
        assert task.show(want)


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([shape_of(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "fc": ["[0, ", "[1, ", "[1]", '"layers": 2', "float32"],
        "pooling": ["[0, ", '"stride": 3', '"window": 3', '"window": 1', "float32"],
        "layer_order": ['["x", []], ["fc", ["y"]]', '["fc", ["fc"]]', '["x", "x"]', "20000", "5000"],
        "machine": ['"threads": 1', '"threads": 5', "[1, 2]", "[23, ", '"fault": 5', "float64"],
        "update": ['"shape": []', "[0]", '"values": []', '"momentum": 0.0', "float32", "[2.0, 0.5]"],
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


@pytest.mark.parametrize("task", [task for task in LAB.tasks if task.name != "layer_order"], ids=lambda task: task.name)
def test_values_are_fresh(task: Task) -> None:
    texts = [repr(task.edges(np.random.default_rng(seed))[3]) for seed in (1, 2)]
    assert texts[0] != texts[1]


PLAYED = [
    ("fc", rules.fc, rules.FC_MISTAKES),
    ("pooling", rules.pool, rules.POOL_MISTAKES),
    ("update", rules.update, rules.UPDATE_MISTAKES),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule", "mistake"),
    [pytest.param(name, rule, key, id=f"{name}-{key}") for name, rule, table in PLAYED for key in table],
)
def test_a_mistake_that_is_played_is_wrong_somewhere_and_told(name: str, rule: Any, mistake: str) -> None:
    """Words that only ever describe right answers would be of no use; so would a mistake that never runs."""
    task, words = LAB.task(name), {n: table for n, _, table in PLAYED}[name][mistake]
    assert task.judge is not None
    told = 0
    for inputs in cases(task):
        want = task.oracles["numpy"](np, **inputs)
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            try:
                got = want | rule(**inputs, mistake=mistake)
            except (ValueError, IndexError):
                continue
        told += any(words in said for said in task.judge(inputs, got, want))
    assert told


@pytest.mark.parametrize("task", TASKS)
def test_the_oracles_are_the_numbers_of_the_plain_rule(task: Task) -> None:
    rule = {"fc": rules.fc, "pooling": rules.pool, "update": rules.update}.get(task.name)
    for inputs in cases(task) if rule is not None else []:
        want = task.oracles["numpy"](np, **inputs)
        assert not compare(want | rule(**inputs), want)


@pytest.mark.parametrize("task", [param for param in TASKS if param.id in ("fc", "pooling", "update")])
def test_feedback_never_speaks_of_the_drivers_own_names(task: Task) -> None:
    """Whatever part is wrong, and however: the learner never saw the dict in which the driver puts the parts."""
    assert task.judge is not None
    inputs = max(cases(task)[:12], key=lambda one: sum(map(np.size, one.values())) if task.name == "pooling" else 0)
    want = task.oracles["numpy"](np, **inputs)
    bends: list[Callable[[Any], Any]] = [
        lambda a: -a,
        lambda a: 3 * a,
        lambda a: a.T[..., None],
        lambda a: a.astype(np.int8),
        lambda a: None,
    ]
    for name, part in want.items():
        for bend in bends if name != "changed" else []:
            bent = [bend(one) for one in part] if isinstance(part, list) else bend(part)
            said = task.judge(inputs, want | {name: bent}, want)
            assert not any("result" in sentence for sentence in said), said


def test_either_way_to_be_in_order_is_right() -> None:
    task = LAB.task("layer_order")
    assert task.judge is not None
    inputs = {"layers": [["b", []], ["a", []], ["c", ["a", "b"]]], "repeat": 1}
    want = task.oracles["numpy"](np, **inputs)
    for found in (["a", "b", "c"], ["b", "a", "c"]):
        assert task.judge(inputs, {"order": found, "changed": ""}, want) == []
    for found in (["c", "a", "b"], ["a", "b"], ["a", "a", "b", "c"], ["a", "b", "c", "d"]):
        assert task.judge(inputs, {"order": found, "changed": ""}, want)


def test_a_refusal_names_whole_words() -> None:
    """The name "a" is not in "a layer is missing" by accident of the article: it must stand as the culprit's."""
    task = LAB.task("layer_order")
    assert task.judge is not None
    inputs = {"layers": [["x", []], ["fc", ["labels"]]], "repeat": 1}
    want = task.oracles["numpy"](np, **inputs)
    assert task.judge(inputs, {"refused": "fc reads labels"}, want) == []
    assert task.judge(inputs, {"refused": "fc reads my_labels_2"}, want)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("forged", [None, 1, "x", [], {}, [1], [None, None, None], np.array("a"), [np.zeros(2)] * 3])
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    inputs = task.edges(np.random.default_rng(0))[2]
    want = task.oracles["numpy"](np, **inputs)
    assert task.judge is not None
    try:
        assert task.judge(inputs, forged, want)
    except (TypeError, ValueError, LookupError, AttributeError):
        pass  # the grader takes these for a wrong answer


@pytest.mark.slow
def test_a_spec_imports_nothing_heavy() -> None:
    heavy = ("torch", "tensorflow", "hypothesis", "internals")
    code = f"import sys, autograder.specs.lab03_layers; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


# --- the learner's pieces in internals --------------------------------------------------------------

RIGHT = [("solution", "")] + [
    (f"{path.stem}-{i}", section.partition("\n")[2])
    for path in sorted((ROOT / "tests/mutants/lab03_layers").glob("*.py"))
    for i, section in enumerate(re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE))
    if section.startswith("right")
]


@pytest.mark.slow  # the notebook's imports
@pytest.mark.parametrize("answer", [pytest.param(text, id=name) for name, text in RIGHT])
def test_any_right_answer_works_inside_internals(answer: str) -> None:
    """Three steps of training with the learner's pieces, swapped in as the notebook does it, end where ours do."""
    from internals import layers

    names = solved()
    exec(answer, names)
    using = next(text_of(cell) for cell in cells_of(SOLUTION) if "yours = {" in text_of(cell))
    exec(using, names)
    rng = np.random.default_rng(5)
    batch = {"pixels": rng.random((7, 1, 8, 8)).astype(np.float32), "label": rng.integers(0, 10, 7)}

    def trained() -> dict[str, np.ndarray]:
        net = layers.Net(names["CONFIG"], rng=np.random.default_rng(1))
        with layers.GradientMachine(net, threads=3) as machine:
            optimizer = layers.Momentum(0.1, momentum=0.9, decay=0.01)
            for _ in range(3):
                machine.forward_backward(batch, optimizer)
        return {name: one.value for name, one in net.parameters.items()}

    ours = trained()
    with layers.swap(**names["yours"]):
        yours = trained()
    assert ours.keys() == yours.keys()
    for name, value in ours.items():
        assert np.allclose(yours[name], value, rtol=1e-4, atol=1e-6), name
