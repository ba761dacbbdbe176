"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import warnings
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
from autograder.specs import _lab06_rules_judges as judges
from autograder.specs import _lab06_rules_mistakes as mistakes

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab06_rules.ipynb", ROOT / "labs/lab06_rules.ipynb"
LAB = spec.load_lab("lab06_rules")
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
    assert sum("<details>" in text for text in texts) == len(LAB.tasks)
    for text in texts:
        assert text.count("<details>") == text.count("</details>")
        assert not re.search(r"\bsimply\b|!(?!\[)", text)


def test_the_worked_examples_are_true() -> None:
    """Every example in the text, run with the solution, gives what its comment says; of two conventions, one."""
    names, tried = solved(), 0
    for cell in cells_of(RELEASED):
        blocks = re.findall(r"^```python\n(.*?)^```", text_of(cell), flags=re.MULTILINE | re.DOTALL)
        answer: Any = None
        for block in blocks if cell["cell_type"] == "markdown" else []:
            for line in block.splitlines():
                code, _, promised = (part.strip() for part in line.partition("  # "))
                if line.startswith("# array"):
                    conventions = re.findall(r"^# (array\(.*?\)) {2}", block, flags=re.MULTILINE)
                    assert len(conventions) == 2
                    assert sum(spaceless(answer) == spaceless(text) for text in conventions) == 1, answer
                    tried += 1
                elif re.match(r"\w[\w.]*\(.*\)( < 1e-12)?$|\w+$|\w+\.ravel\(\)$", code):
                    answer = eval(code, names)
                    if promised:
                        assert spaceless(promised) in (spaceless(answer), spaceless(str(answer))), (line, answer)
                        tried += 1
                else:
                    exec(line, names)
    assert tried >= 10


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
    assert any("two bits, trained" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    for inputs in cases(task):
        names = solved()
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        answer = eval(last, names)
        got = list(answer) if isinstance(answer, tuple) else answer
        assert task.judge is not None
        assert task.judge(inputs, got, task.oracles["numpy"](np, **inputs)) == []


def test_the_differences_of_the_notebook_check_its_own_rules() -> None:
    names, rng = solved(), np.random.default_rng(4)
    x, weight, bias = rng.standard_normal((2, 4)), rng.standard_normal(4), rng.standard_normal(4)
    g = rng.standard_normal((2, 4))
    by_rule = names["layer_norm_rule"](g, x, weight, bias, 0.1)[0]
    by_differences = names["differences"](lambda x: names["layer_norm"](x, weight, bias, 0.1), g, x)
    assert np.allclose(by_rule, by_differences, rtol=1e-6, atol=1e-8)
    image, kernel = rng.standard_normal((1, 2, 5, 4)), rng.standard_normal((2, 2, 3, 2))
    out = names["conv2d"](image, kernel, (2, 1), (1, 0))
    g = rng.standard_normal(out.shape)
    for place, differ in enumerate((image, kernel)):
        both = [image, kernel]
        by_rule = names["conv2d_rule"](g, image, kernel, (2, 1), (1, 0))[place]

        def forward(moved: np.ndarray, place: int = place, both: list[np.ndarray] = both) -> np.ndarray:
            return names["conv2d"](*both[:place], moved, *both[place + 1 :], (2, 1), (1, 0))

        assert np.allclose(by_rule, names["differences"](forward, g, differ), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([shape_of(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "embedding": ["[]", "[0", "int32", "float32"],
        "softmax": ["[0, ", ", 1]", "float32", '"target": null'],
        "max": ["[]", "[0, ", '"axis": null', '"axis": -2', "float32"],
        "quantise": ["[]", "[0", "[1]", "float32"],
        "layer_norm": ["[0, ", ", 1]", "float32"],
        "conv2d": ["[0, ", '"stride": [3, 4]', '"padding": [2, 2]', '"padding": [0, 2]', "float32"],
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


@pytest.mark.parametrize("task", TASKS)
def test_values_are_fresh(task: Task) -> None:
    one, other = (task.edges(np.random.default_rng(seed))[3]["g"] for seed in (1, 2))
    assert not np.array_equal(one, other)
    assert not np.all(one == 1)


@pytest.mark.slow
def test_some_maxima_tie_and_either_convention_is_right() -> None:
    task = LAB.task("max")
    tied = 0
    for inputs in cases(task):
        first, shared = task.oracles["numpy"](np, **inputs), mistakes.max_shared(inputs)
        tied += not np.array_equal(first, shared)
        assert task.judge(inputs, shared, first) == []
        assert task.judge(inputs, first, first) == []
    assert tied >= 10


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_mistake_that_is_played_is_wrong_somewhere(task: Task) -> None:
    """Words that only ever describe right answers would be of no use; so would a mistake that never runs."""
    drawn = cases(task)
    told: set[str] = set()
    seen: set[str] = set()
    for inputs in drawn:
        want = task.oracles["numpy"](np, **inputs)
        whole = want if isinstance(want, list) else [want]
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            for place, words, make in mistakes.MISTAKES[task.name](inputs):
                seen.add(words)
                try:
                    told |= set() if judges._same(np.asarray(make()), whole[place]) else {words}
                except (ValueError, IndexError):
                    continue
    assert told == seen


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
    code = f"import sys, autograder.specs.lab06_rules; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


# --- the learner's pieces in internals --------------------------------------------------------------

RIGHT = [("solution", "")] + [
    (f"{path.stem}-{i}", section.partition("\n")[2])
    for path in sorted((ROOT / "tests/mutants/lab06_rules").glob("*.py"))
    for i, section in enumerate(re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE))
    if section.startswith("right")
]


@pytest.mark.parametrize("answer", [pytest.param(text, id=name) for name, text in RIGHT])
def test_any_right_answer_works_inside_internals(answer: str) -> None:
    """Gradients with the learner's rules, swapped in as the notebook does it, are those of internals' own."""
    import internals
    from internals import ops

    names = solved()
    exec(answer, names)
    swapping = next(text_of(cell) for cell in cells_of(SOLUTION) if "yours = {" in text_of(cell))
    exec(swapping.partition("\n\n\ndef train")[0], names)
    rng = np.random.default_rng(5)
    table, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 2), (3, 2, 3, 3)))
    grey, labels = rng.integers(0, 5, (4, 6, 6)), rng.integers(0, 9, 4)

    def gradients() -> list[np.ndarray]:
        leaves = [internals.Tensor(array, requires_grad=True) for array in (table, weight)]
        x = ops.transpose(ops.take(leaves[0], internals.Tensor(grey)), axes=(0, 3, 1, 2))
        x = ops.max(ops.conv2d(x, leaves[1], stride=(2, 1), padding=(1, 1)), axis=3)
        x = ops.normalise(ops.reshape(x, shape=(4, 9)), axis=(-1,), eps=1e-5)
        losses = ops.cross_entropy(x, internals.Tensor(labels), reduction="none")
        return [leaf.numpy() for leaf in internals.grad(ops.sum(losses * losses), leaves)]

    ours = gradients()
    with ops.swap(**names["yours"]):
        yours = gradients()
    for one, other in zip(yours, ours, strict=True):
        assert not compare(one, other)
