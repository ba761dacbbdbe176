"""Twenty notebooks of one lab, graded here and by nbgrader, side by side in one run.

nbgrader gets the lab as `autograder nbgrader export` writes it, with the cells that test replaced by a few assertions
that need nothing but NumPy: the least that could be called a test, so that what is measured is nbgrader's own pace.
Both run the same cells (none that train or draw) of the same files. Ours runs in its sandbox and compares with two
frameworks on some 40 inputs for each task; nbgrader runs the notebook in an ordinary kernel.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import machine

ROOT = Path(__file__).resolve().parent.parent
LAB = "lab05_tape"
SOLUTION = ROOT / "labs" / "solutions" / f"{LAB}.ipynb"

ASSERTIONS = {
    "rules": """\
rng = np.random.default_rng()
x, y, g = rng.normal(size=(3, 1)), rng.normal(size=4), rng.normal(size=(3, 4))
dx, dy = mul_rule(g, x, y)
assert np.allclose(dx, (g * y).sum(1, keepdims=True)) and np.allclose(dy, (g * x).sum(0))
a, b, h = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
da, db = matmul_rule(h, a, b)
assert np.allclose(da, h @ b.T) and np.allclose(db, a.T @ h)
""",
    "order": """\
inputs = {"d": ["b", "c"], "c": ["a"], "b": ["a", "c"], "a": []}
order = topological_order("d", inputs.__getitem__)
assert sorted(order) == ["a", "b", "c", "d"]
assert all(order.index(node) < order.index(source) for node in order for source in inputs[node])
""",
    "accumulate": """\
first, second = np.random.default_rng().normal(size=(2, 3))
kept, found = first.copy(), {}
accumulate(found, "n", first)
accumulate(found, "n", second)
accumulate(found, "m", None)
assert np.allclose(found["n"], kept + second) and np.array_equal(first, kept) and list(found) == ["n"]
""",
    "backward": """\
x = Node()
y = Node((x, x), lambda g: (2 * g, 3 * g))
z = Node((y, x), lambda g: (g * g, -g))
g = np.random.default_rng().normal(size=3)
assert np.allclose(backward(z, g)[x], 5 * g * g - g)
""",
    "stale": """\
kept = Tensor(np.random.default_rng().normal(size=3))
saved = Saved("mul", kept)
assert np.allclose(saved.take(retain=True)[0], kept.data)
kept.add_(1.0)
try:
    saved.take()
except StaleTape:
    pass
else:
    raise AssertionError("a stale tape was used")
""",
}


def with_assertions(source: Path) -> None:
    """The exported assignment, whose tests need neither a framework nor this project."""
    notebook = json.loads(source.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if grade_id.startswith("check-"):
            cell["source"] = ASSERTIONS[grade_id.removeprefix("check-")]
    source.write_text(json.dumps(notebook), encoding="utf-8")


def answers(count: int) -> list[bytes]:
    """Notebooks of a class: every other one is right, the rest have one of the lab's wrong answers in them."""
    from autograder.mutants import answered, samples_of
    from autograder.spec import load_lab

    tasks = load_lab(LAB).tasks
    wrong = [
        [one for one in samples_of(ROOT, LAB, task.name) if one.kind == "wrong" and "NotImplemented" not in one.source]
        for task in tasks
    ]
    made = []
    for number in range(count):
        samples = wrong[number // 2 % len(wrong)]
        sample = samples[number // 2 // len(wrong) % len(samples)]
        made.append(SOLUTION.read_bytes() if number % 2 == 0 else answered(ROOT, sample))
    return made


def timed(command: list[str], environment: dict[str, str], folder: Path, codes: tuple[int, ...] = (0,)) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode not in codes:
        raise SystemExit(f"benchmarks: {' '.join(command[:4])} exited with {done.returncode}: {done.stderr[-400:]}")
    return seconds


def against_nbgrader(home: Path, environment: dict[str, str], quick: bool) -> Iterator[tuple[str, str, str]]:
    """Rows: what, what was measured, the goal."""
    from autograder.nbgrader.exporting import export

    count = 4 if quick else 20
    beside = os.fspath(Path(sys.executable).parent)  # where nbgrader looks for alembic
    path = os.pathsep.join([beside, environment.get("PATH", "")])
    environment = environment | {"PYTHONPATH": os.fspath(ROOT), "PATH": path}
    course = home / "course"
    with_assertions(export(SOLUTION, course)[0])
    nbgrader = [sys.executable, "-m", "nbgrader"]
    timed([*nbgrader, "generate_assignment", LAB], environment, course)
    shutil.copy(SOLUTION, home / "warm.ipynb")
    timed([sys.executable, "-m", "autograder", "grade", "warm.ipynb"], environment, home)
    right = [SOLUTION.read_bytes()] * count
    for title, work, codes in ((f"{count} right notebooks", right, (0,)), ("half of them wrong", answers(count), (1,))):
        files = []
        for number, data in enumerate(work):
            target = course / "submitted" / f"learner{number:02}" / LAB / f"{LAB}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            files.append(os.fspath(target))
        shutil.rmtree(course / "autograded", ignore_errors=True)
        grade = [sys.executable, "-m", "autograder", "grade", *files]
        before = timed(grade, environment, home, codes)
        slow = timed([*nbgrader, "autograde", LAB], environment, course)
        # Before and after, because other work on the machine comes and goes.
        fast = statistics.mean([before, timed(grade, environment, home, codes)])
        one = timed([*grade, "--workers", "1"], environment, home, codes)
        if title.startswith(str(count)):
            check_scores(course, count)
        yield (
            f"{title}, full isolation, against `nbgrader autograde` with assertions of NumPy alone",
            f"{slow / fast:.1f}× ({slow:.0f} s, {fast:.1f} s; one at a time: {slow / one:.1f}×)",
            "≥ 4×",
        )


def check_scores(course: Path, count: int) -> None:
    """That nbgrader did grade: all of these notebooks earn all that a machine gives."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        scores = [(one.score, one.max_score) for one in book.assignment_submissions(LAB)]
    # The lab's question of 5 points waits for a person there, too.
    if scores != [(100.0, 105.0)] * count:
        raise SystemExit(f"benchmarks: nbgrader gave {scores} for {count} right notebooks")


def comparison(quick: bool) -> tuple[str, list[str], dict[str, Any]]:
    """Measure; the name of the result, its table, and its data."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        environment = os.environ | {"AUTOGRADER_RUNTIME_DIR": folder, "AUTOGRADER_HOME": folder}
        try:
            rows = list(against_nbgrader(home, environment, quick))
        finally:
            subprocess.run(
                [sys.executable, "-m", "autograder", "oracles", "stop"],
                env=environment,
                cwd=ROOT,
                check=False,
                capture_output=True,
                timeout=60,
            )
    lines = [f"`python -m benchmarks nbgrader` on {machine()}.", ""]
    lines += ["| what | measured | goal |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c in rows)]
    return "grading_nbgrader", lines, {"rows": rows}
