"""The lab itself: what is handed out, what the solution earns, what a hole earns, and that every replay replays."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import generate, spec
from autograder import release as releasing
from autograder.drivers import lab02_devices as drivers
from autograder.grade import Grader
from autograder.notebook import parse_notebook, read_notebook
from autograder.release import BEGIN, END, HOLE, marks_of, text_of
from autograder.spec import Task
from autograder.specs import _lab02_devices_oracles as oracles

ROOT = Path(__file__).parents[2]
SOLUTION, RELEASED = ROOT / "labs/solutions/lab02_devices.ipynb", ROOT / "labs/lab02_devices.ipynb"
LAB = spec.load_lab("lab02_devices")
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


def same(task: Task, one: Any, other: Any) -> bool:
    return not oracles.differ(one, other) if task.name == "queue" else one == other


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
            if promised.startswith("DeviceError"):
                with pytest.raises(names["DeviceError"], match="mul"):
                    eval(code, names)
                tried += 1
            elif promised:
                assert promised.startswith(repr(eval(code, names))), line
                tried += 1
            else:
                exec(code, names)
    assert tried >= 18


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
    # The solution's pool searches, cuts and joins with the functions before it, as the lab suggests.
    needs = {"fit": {"pool"}, "merge": {"pool"}}
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
    assert any("your pool" in text for text in shown.values())


# --- the spec -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_oracles_agree_and_the_solution_with_them(task: Task) -> None:
    import torch

    names = solved()
    for inputs in cases(task):
        want = task.oracles["numpy"](np, **inputs)
        assert same(task, task.oracles["torch"](torch, **inputs), want), inputs
        got = getattr(drivers, task.driver)(names, **inputs)
        assert task.judge(inputs, got, want) == []


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_replay_gives_what_the_oracles_give(task: Task) -> None:
    """The lines shown with a counter-example run in the learner's notebook, and lead to the same answer."""
    whole = solved()
    for inputs in cases(task):
        names, want = dict(whole), task.oracles["numpy"](np, **inputs)
        body, _, last = task.call(**inputs).rpartition("\n")
        exec(body, names)
        if "raised" in want:
            with pytest.raises(names["DeviceError"]):
                eval(last, names)
            continue
        answer = eval(last, names)
        if task.name == "where":
            assert answer == want["device"]
        elif task.name == "fit":
            block, rest, _ = answer
            assert (block and block.address) == want["chosen"]
            assert (rest and [rest.address, rest.size]) == want.get("rest")
        elif task.name == "merge":
            assert [answer[0].address, answer[0].size] == want["merged"]
            assert [[block.address, block.size, block.free] for block in answer[1]] == want["chain"]
        elif task.name == "pool":
            assert answer == pytest.approx(want[-1]["figures"])
            came = {f"a{number}": outcome["came"] for number, outcome in enumerate(want)}
            assert all(names[name] == came[name] for name in came if name in names)
        else:
            assert not oracles.differ(answer, want)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_an_answer_of_another_case_is_wrong(task: Task) -> None:
    """The judge tells answers apart, and says so in words, whatever it is given."""
    answers = [task.oracles["numpy"](np, **inputs) for inputs in cases(task)]
    for inputs, want in zip(cases(task), answers, strict=True):
        for other in answers[:10]:
            if task.name in ("pool", "queue") and len(other) != len(want):
                continue
            if not same(task, other, want):
                try:
                    words = task.judge(inputs, other, want)
                except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
                    continue  # the grader compares as it would without a judge
                assert words, (inputs, other, want)


def test_edges_reach_where_answers_break() -> None:
    text = {task.name: json.dumps(task.edges(np.random.default_rng(3))) for task in LAB.tasks}
    for task, pieces in {
        "where": ['["cpu", 0]', '["cuda:0", 0]', '[["cpu", 1]]'],
        "fit": ['"order": [1, 0]', '"order": [3, 1, 2, 0]'],
        "merge": ['"index": 0', '"index": 3'],
        "pool": ['"capacity": null', '"capacity": 24', '["empty"]', '[["allocate", 4], ["free", 0], ["free", 0]]'],
        "queue": ['"launch": 0.0', '"prefetch"', '"copy"', '["wait"]', ", 0]"],
    }.items():
        for piece in pieces:
            assert piece in text[task], f"{task}: no edge has {piece}"


@pytest.mark.slow
def test_a_trace_never_frees_what_was_given_to_another() -> None:
    """No pool could tell: such a case would ask for the impossible."""
    for seed in range(5):
        for inputs in cases(LAB.task("pool"), seed):
            outcomes = oracles.run_trace(**inputs)
            for number, event in enumerate(inputs["events"]):
                if event[0] == "free" and outcomes[number]["came"] == "freed":
                    address = outcomes[event[1]]["came"]
                    given = [
                        k
                        for k, outcome in enumerate(outcomes[:number])
                        if inputs["events"][k][0] == "allocate" and outcome["came"] == address
                    ]
                    assert given[-1] == event[1]


# --- the pieces in internals ----------------------------------------------------------------------


@pytest.mark.slow
def test_the_clock_of_internals_gives_the_same_times() -> None:
    """A third answer to the last task: the simulated accelerator itself."""
    from internals.device import Clock, Model

    for inputs in cases(LAB.task("queue")):
        # A speed of 1: as many bytes or operations as seconds.
        clock = Clock(Model(inputs["launch"], 0, 1, 1, 0, 1))
        times: list[list[float]] = []
        for kind, *rest in inputs["events"]:
            seconds = rest[0] if rest else 0.0
            if kind == "launch":
                arrived = 0.0 if rest[1] is None else times[rest[1]][1]
                end = clock.launch("kernel", 0, seconds, arrived)
            elif kind in ("copy", "prefetch"):
                end = clock.copy("copy", seconds, pinned=kind == "prefetch")
            elif kind == "work":
                clock.work("work", seconds)
                end = clock.now
            else:
                began = clock.now
                end = clock.synchronise()
                times.append([began, end, end])
                continue
            times.append([end - seconds, end, clock.now])
        assert not oracles.differ(times, LAB.task("queue").oracles["numpy"](np, **inputs)), inputs


def test_the_rules_serve_the_pool_of_internals() -> None:
    """Random requests go to the same addresses with the learner's rules as with those built in."""
    from internals import memory

    names = solved()
    names["Block"] = memory.Block

    def trace() -> tuple[list[int], memory.Figures]:
        pool, rng, alive, addresses = memory.Pool(memory.HostSource()), np.random.default_rng(2), [], []
        for size in rng.integers(1, 60_000, 300):
            alive.append(pool.allocate(size))
            addresses.append(alive[-1].address)
            if len(alive) > 30:
                alive.pop(int(rng.integers(len(alive))))
        return addresses, pool.figures

    plain = trace()
    with memory.swap(best_fit=names["best_fit"], split=names["split"], merge=names["merge"]):
        assert trace() == plain


def test_the_driver_refuses_what_is_no_answer() -> None:
    names = solved()
    for task, name, wrong, words in [
        ("where", "common_device", lambda op, inputs: 0, "common_device returned an int"),
        ("fit", "best_fit", lambda free, size: size, "best_fit returned an int"),
        ("fit", "split", lambda block, size: None, "split returned None"),
        ("merge", "merge", lambda block: None, "merge returned None"),
        ("queue", "timeline", lambda events, launch: None, "timeline returned None"),
        ("queue", "timeline", lambda events, launch: [(0, 0)] * len(events), r"with a tuple of 2 in it"),
    ]:
        inputs = LAB.task(task).edges(np.random.default_rng(0))[1]
        with pytest.raises(TypeError, match=words):
            getattr(drivers, task)(names | {name: wrong}, **inputs)
