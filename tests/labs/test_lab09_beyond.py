"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import heapq
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
from autograder.drivers import lab09_beyond as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task
from autograder.specs import _lab09_beyond_jets as jets
from autograder.specs import _lab09_beyond_oracles as oracles

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab09_beyond.ipynb", ROOT / "labs/lab09_beyond.ipynb"
LAB = spec.load_lab("lab09_beyond")
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
            if promised and re.match(r"[\w.]+\(.*\)", code):
                assert spaceless(repr(eval(code, names))) == spaceless(promised), line
                tried += 1
            else:
                exec(code, names)
    assert tried >= 14


def spaceless(text: str) -> str:
    return re.sub(r"\s+", "", text)


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
    # Dual numbers are pushed by the forward rules, and the Hessian's products are jvps.
    needs = {"tangents": {"jvp", "hvp"}, "jvp": {"hvp"}}
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
    assert any("your rules ran" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    notebook = solved()
    for inputs in cases(task):
        names = dict(notebook)
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        answer, want = eval(last, names), task.oracles["numpy"](np, **inputs)
        if task.name == "tangents":
            assert not compare(answer, want)
        elif task.name == "jvp":
            assert not compare(list(answer), want)
        else:
            first = next(iter(want))  # what is asked for; the rest is counted by the driver
            assert not compare(answer, want[first])


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_solution_passes_through_the_drivers(task: Task) -> None:
    names = solved()
    for inputs in cases(task, seed=11):
        answer = getattr(drivers, task.driver)({name: names[name] for name in task.names}, **inputs)
        want = task.oracles["numpy"](np, **inputs)
        assert (task.judge(inputs, answer, want) if task.judge else compare(answer, want)) == []


@pytest.mark.parametrize("task", TASKS)
def test_edges_reach_where_answers_break(task: Task) -> None:
    text = json.dumps([shape_of(inputs) for inputs in task.edges(np.random.default_rng(3))])
    wanted = {
        "tangents": ["[]", "[0", "[1]", "float32", '"dx": null', '"dy": null', '"lifted": true', '"y": 1.5'],
        "jvp": ["[]", "[0]", "float32", "null", "jvp(lambda t: jvp(", '[0]"', "jvp(lambda t: x,"],
        "jacobian": ["[]", "[0", "[40]", "[2, 3]"],
        "hvp": ["[]", "[0]", "float32", "[12]", "jvp("],
        "solve": ["[1]", '"limit": 0', '"limit": 1}', "[36]"],
        "reverse": ['"slots": 0', "[1, 2]", "[120, 2]", '"slots": 100'],
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
    one, other = (LAB.task("hvp").edges(np.random.default_rng(seed))[5]["v"] for seed in (1, 2))
    assert not np.array_equal(one, other)
    assert not np.all(one == 1)


def test_many_programs_are_nested_and_some_are_confused_by_one_level() -> None:
    """Perturbation confusion is what the task is about: a fair share of the cases must show it."""
    task = LAB.task("jvp")
    drawn = cases(task)
    nested = [inputs for inputs in drawn if "jvp(" in inputs["program"]]
    shown = 0
    for inputs in nested:
        want = task.oracles["numpy"](np, **inputs)
        mixed = oracles.jvp_jets(np, **inputs, jvp=jets.confused)
        words = task.judge(inputs, mixed, want)
        assert not words or compare(mixed, want)
        shown += any("Perturbation confusion" in one for one in words)
    assert len(nested) >= 12
    assert shown >= 4


@pytest.mark.parametrize("steps", range(1, 8))
@pytest.mark.parametrize("slots", range(4))
def test_no_order_of_work_takes_fewer_steps(steps: int, slots: int) -> None:
    """The formula, the table, and a search through every order of the work there is, agree."""
    # The states held beside the first one, the one in use, and the step to go back through next.
    heap: list[tuple[int, list[int], int, int]] = [(0, [], 0, steps - 1)]
    seen, fewest = set(), None
    while heap:
        runs, listed, at, left = heapq.heappop(heap)
        held = frozenset(listed)
        if left < 0:
            fewest = runs
            break
        if (held, at, left) in seen:
            continue
        seen.add((held, at, left))
        following = [(runs, held, other, left) for other in held | {0}]
        following += [(runs, held - {other}, at, left) for other in held]
        if len(held - {at}) <= slots:
            if at < left:
                following += [(runs + 1, kept - {0}, at + 1, left) for kept in (held, held | {at})]
            elif at == left:
                following.append((runs, held, 0, left - 1))
        for cost, kept, place, last in following:
            heapq.heappush(heap, (cost, sorted(kept), place, last))
    assert fewest == oracles.binomial(steps, slots) == oracles.tried(steps, slots)


def test_two_ways_to_count_agree_on_long_chains() -> None:
    for steps, slots in ((100, 3), (120, 10), (61, 60), (40, 0), (200, 7)):
        assert oracles.binomial(steps, slots) == oracles.tried(steps, slots)
    assert oracles.binomial(100, 3) == 374


@pytest.mark.slow
def test_the_driver_counts_states_and_steps() -> None:
    """A chain that keeps everything is told of what it held; one that runs too far, of that."""

    def keeps_all(forward: Any, backward: Any, x: Any, g: Any, steps: int, slots: int) -> Any:
        states = [x]
        for i in range(steps):
            states.append(forward(i, states[-1]))
        for i in reversed(range(steps)):
            g = backward(i, states[i], g)
        return g

    task = LAB.task("reverse")
    inputs = next(
        one for one in task.edges(np.random.default_rng(0)) if len(one["weights"]) == 10 and one["slots"] == 3
    )
    answer = drivers.reverse({"reverse_chain": keeps_all}, **inputs)
    assert (answer["runs"], answer["last"], answer["kept"]) == (10, 1, 10)
    words = task.judge(inputs, answer, task.oracles["numpy"](np, **inputs))
    assert words == [
        "10 states were held at once, beside x and the one in use; slots = 3 allows 3. A state is held as long as any "
        "variable, list or dict refers to it."
    ]


@pytest.mark.slow
def test_a_spec_imports_nothing_heavy() -> None:
    heavy = ("torch", "tensorflow", "hypothesis", "internals")
    code = f"import sys, autograder.specs.lab09_beyond; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_driver_needs_numpy_and_the_standard_library_only() -> None:
    imports = re.findall(r"^(?:import|from) (\w+)", spec.driver_source(LAB), flags=re.MULTILINE)
    assert set(imports) - set(sys.stdlib_module_names) == {"numpy"}


@pytest.mark.slow
@pytest.mark.parametrize("task", [task for task in TASKS if task.id != "tangents"])
@pytest.mark.parametrize(
    "forged",
    [
        *(None, 1, "x", [], {}, [1], [1, 2], [None, None], {"product": 1, "calls": "x"}, {"p": None, "calls": []}),
        *({"jacobian": [1], "calls": None}, {"gradient": 1, "runs": "x", "last": [], "kept": {}}),
        {"gradient": np.zeros(2), "runs": -1, "last": 0, "kept": -1},
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


# --- the learner's pieces in internals --------------------------------------------------------------

RIGHT = [
    pytest.param(section.partition("\n")[2], id=f"{path.stem}: {section.partition(chr(10))[0]}")
    for path in sorted((ROOT / "tests/mutants/lab09_beyond").glob("*.py"))
    for section in re.split(r"^# %% ", path.read_text(), flags=re.M)
    if section.startswith("right")
]


@pytest.mark.parametrize("answer", [pytest.param("", id="solution"), *RIGHT])
def test_any_right_answer_takes_a_newton_step_inside_internals(answer: str) -> None:
    """A step by the learner's rules and solver, swapped in as the notebook does it, solves the Newton equations."""
    from internals import Tensor, ops
    from internals.autodiff import gradient, hessian, hvp

    names = solved()
    exec(answer, names)
    swapping = next(text_of(cell) for cell in cells_of(SOLUTION) if "yours = {" in text_of(cell))
    exec("from internals import Tensor\n" + swapping.partition("\n\nbegan")[0], names)
    rng = np.random.default_rng(5)
    data, target = Tensor(rng.standard_normal((9, 4))), Tensor(rng.integers(0, 2, 9).astype(float))
    w = Tensor(rng.standard_normal(4) / 4)

    def loss(w: Any) -> Any:
        z = data @ w
        return ops.mean(ops.softplus(z) - target * z) + 2.0 * ops.sum(w * w) + ops.sum(ops.tanh(w) / (2.0 + w * w))

    g = gradient(loss)(w).numpy()
    with ops.swap_jvp(**names["yours"]):
        exact = hvp(loss, w, Tensor(g)).numpy()
        step = names["conjugate_gradient"](lambda v: hvp(loss, w, Tensor(v)).numpy(), g, 1e-10, 40)
    assert names["calls"].keys() == {"add", "mul", "div", "matmul", "tanh"}
    whole = hessian(loss)(w).numpy()
    assert not compare(exact, whole @ g)
    np.testing.assert_allclose(whole @ step, g, rtol=1e-6, atol=1e-8)
