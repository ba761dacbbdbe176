"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import generate, spec
from autograder import release as releasing
from autograder.compare import compare
from autograder.drivers import lab10_training as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task
from autograder.specs import _lab10_training_rules as rules

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab10_training.ipynb", ROOT / "labs/lab10_training.ipynb"
LAB = spec.load_lab("lab10_training")
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


@cache
def drawn(name: str, seed: int) -> list[dict[str, Any]]:
    return generate.draw(LAB.task(name), seed)


def cases(task: Task, seed: int = 7) -> list[dict[str, Any]]:
    return drawn(task.name, seed)


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
    # The solution's AdamW is a subclass of Adam, as the lab suggests.
    assert lost == {task.name} | {"adam": {"adamw"}}.get(task.name, set())


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
    assert any("yours" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    for inputs in cases(task):
        names, printed = solved(), []
        names["print"] = lambda *values, printed=printed: printed.append(values)
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        answer = eval(last, names)
        want = task.oracles["numpy"](np, **inputs)
        if task.name == "sgd":
            assert not compare(list(answer), [want["parameters"][-1], want["velocity"]])
        elif task.name in ("adam", "adamw"):
            assert not compare(answer, want[-1])
        elif task.name == "limits" and inputs["what"] == "clip":
            assert not task.judge(inputs, {"norm": answer[0], "gradients": answer[1], "same": True}, want)
        elif task.name == "limits":
            assert not task.judge(inputs, {"lrs": answer}, want)
        elif task.name == "batches":
            assert [len(batch) for _, batch in printed] == want["sizes"]
            assert answer == [batch for _, batch in printed[inputs["save_at"] :]]
        else:
            seen = [{"finite": one, "gradients": two, "scale": three} for one, two, three in printed]
            assert not compare(seen, want)


@pytest.mark.parametrize("task", TASKS)
def test_the_solution_passes_through_the_drivers(task: Task) -> None:
    names = solved()
    for inputs in cases(task, seed=11):
        with np.errstate(all="ignore"):
            answer = getattr(drivers, task.driver)(names, **inputs)
        assert task.judge(inputs, answer, task.oracles["numpy"](np, **inputs)) == []


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([shape_of(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "sgd": ["[]", "[0]", "[1]", "float32", "strided", "true"],
        "adam": ["[]", "[0]", "[1]", "float32", "null", "columns"],
        "adamw": ["[]", "[0]", "[1]", "float32", "null", "reversed"],
        "limits": ["[]", "[0]", "null", "float32", '"warmup": 0', "1000"],
        "batches": ['"n": 1,', '"save_at": 0', '"batch_size": 1,'],
        "scaler": ["[]", "[0]", "null", "float64"],
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
    one, other = (LAB.task("adam").edges(np.random.default_rng(seed))[5]["gradients"][0][0] for seed in (1, 2))
    assert not np.array_equal(one, other)
    assert not np.all(one == 1)


MISTAKES = {
    "sgd": rules.SGD_MISTAKES,
    "adam": rules.ADAM_MISTAKES,
    "adamw": rules.ADAMW_MISTAKES,
    "limits": rules.CLIP_MISTAKES | rules.SCHEDULE_MISTAKES,
    "scaler": rules.SCALER_MISTAKES,
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mistake"), [(name, mistake) for name in MISTAKES for mistake in MISTAKES[name]])
def test_every_mistake_is_told_from_the_others_somewhere(name: str, mistake: str) -> None:
    """Some case shows this mistake and no other, and the judge names it."""
    task, words = LAB.task(name), MISTAKES[name][mistake]
    rule: Any = {"sgd": rules.sgd, "adam": rules.adam, "adamw": rules.adam, "scaler": rules.scaler}.get(name)
    for inputs in cases(task):
        want, given, played = task.oracles["numpy"](np, **inputs), inputs, rule
        if name == "limits":
            clips = inputs["what"] == "clip"
            if (mistake in rules.CLIP_MISTAKES) != clips:
                continue
            given, played = inputs["given"], rules.clip if clips else rules.schedule
        with np.errstate(all="ignore"):
            wrong = played(**given, mistake=mistake)
        if task.judge(inputs, wrong, want)[:1] == [words]:
            return
    pytest.fail(f"no case of {name} shows the mistake {mistake!r} alone")


@pytest.mark.slow
def test_a_spec_imports_nothing_heavy() -> None:
    heavy = ("torch", "tensorflow", "hypothesis", "internals")
    code = f"import sys, autograder.specs.lab10_training; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "forged",
    [
        *(None, 1, "x", [], {}, [1], {"parameters": 3, "velocity": None}, [[[1.0]]], {"norm": 1, "gradients": []}),
        *({"lrs": "x"}, {"first": [[0]], "again": 1}, {"first": [], "again": [], "different": [], "resumed": []}),
        [{"finite": True}],
    ],
)
def test_a_forged_answer_is_never_right(task: Task, forged: Any) -> None:
    """What comes from the sandbox may be any plain data."""
    for inputs in task.edges(np.random.default_rng(0))[1:4]:
        want = task.oracles["numpy"](np, **inputs)
        try:
            assert task.judge(inputs, forged, want)
        except (TypeError, ValueError, LookupError, AttributeError):
            pass  # the grader takes these for a wrong answer


def test_sizes_alone_are_no_answer_to_batches() -> None:
    """That is what the oracles say to one another; a learner's answer comes through the driver, with batches."""
    task = LAB.task("batches")
    inputs = task.edges(np.random.default_rng(0))[1]

    class Sized:
        def __init__(self, n: int, batch_size: int, seed: int) -> None: ...
        def next_batch(self) -> dict[str, Any]:
            return task.oracles["numpy"](np, **inputs)

        def state_dict(self) -> dict[str, Any]:
            return {}

    with pytest.raises(TypeError, match="next_batch returned a dict"):
        drivers.batches({"Batches": Sized}, **inputs)


# --- the learner's pieces in internals --------------------------------------------------------------

OTHER_RIGHT = [
    pytest.param(section.partition("\n")[2], id=f"{path.stem}: {section.partition(chr(10))[0]}")
    for path in sorted((ROOT / "tests/mutants/lab10_training").glob("*.py"))
    for section in re.split(r"^# %% ", path.read_text(), flags=re.M)
    if section.startswith("right")
]


@pytest.mark.parametrize("answer", [pytest.param("", id="solution"), *OTHER_RIGHT])
def test_any_right_answer_trains_inside_internals(answer: str) -> None:
    """A few steps of a transformer block move its weights as internals' own AdamW does."""
    import internals
    from internals import nn, ops, optim

    names = solved()
    exec(answer, names)

    def run(own: bool) -> list[np.ndarray]:
        rng = np.random.default_rng(5)
        # Without biases: that of the keys has a gradient of 0 but for rounding, and Adam makes whole steps of it.
        block = nn.TransformerBlock(8, 2, 16, bias=False, rng=rng)
        parameters = block.parameters()
        groups = [[p for p in parameters if (p.ndim > 1) == many] for many in (True, False)]
        settings = [{"params": groups[0]}, {"params": groups[1], "weight_decay": 0.0}]
        ours = optim.AdamW(settings, lr=0.1, weight_decay=0.1)
        yours = names["AdamW"]([p.data for p in parameters], 0.1, weight_decay=0.1)
        loader, data = names["Batches"](12, 4, seed=1), rng.standard_normal((12, 3, 8)).astype(np.float32)
        for step in range(4):
            rows = loader.next_batch()
            block.zero_grad()
            ops.mse(block(internals.Tensor(data[rows])), internals.Tensor(data[rows[::-1]])).backward()
            gradients = [p.grad.data for p in parameters]
            rate = names["warmup_cosine"](step, 0.05, 2, 8)
            if own:
                optim.clip_grad_norm(parameters, 0.5)
                ours.lr = rate
                ours.step()
            else:
                names["clip_by_global_norm"](gradients, 0.5)
                yours.lr = rate
                yours.step(gradients)
        return [p.detach().numpy() for p in parameters]

    for one, other in zip(run(own=False), run(own=True), strict=True):
        assert not compare(one, other)
