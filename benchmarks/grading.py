"""How long grading takes, as a person at a shell or in a notebook waits for it: whole processes, and whole cells."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SOLUTION = Path(__file__).parent.parent / "labs" / "solutions" / "lab05_tape.ipynb"
AUTOGRADER = [sys.executable, "-m", "autograder"]


def grading(quick: bool) -> tuple[str, list[str], dict[str, Any]]:
    """Measure; the name of the result, its table, and its data."""
    repeats = 3 if quick else 7
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        environment = os.environ | {"AUTOGRADER_RUNTIME_DIR": home, "AUTOGRADER_HOME": home}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            rows = list(measure(Path(home), environment, repeats, quick))
        finally:
            # The warm process of the checks first: it would start the oracles again.
            for command in (
                ["-c", "from autograder import warm; warm.stop()"],
                ["-m", "autograder", "oracles", "stop"],
            ):
                subprocess.run(
                    [sys.executable, *command], env=environment, check=False, capture_output=True, timeout=60
                )
    lines = [
        "| what | measured | goal |",
        "|---|---|---|",
        *(f"| {what} | {value} | {goal} |" for what, value, goal in rows),
    ]
    return "grading", lines, {"rows": rows}


def measure(home: Path, environment: dict[str, str], repeats: int, quick: bool) -> Any:
    help_ = [timed([*AUTOGRADER, "--help"], environment) for _ in range(repeats)]
    yield "`autograder --help`, whole process", f"{statistics.median(help_):.2f} s", "≤ 0.3 s"

    ratios = []
    for _ in range(1 if quick else 3):
        subprocess.run([*AUTOGRADER, "oracles", "stop"], env=environment, check=False, capture_output=True)
        cold = timed([*AUTOGRADER, "grade", str(SOLUTION)], environment)
        ratios.append(cold / timed([sys.executable, "-c", "import tensorflow"], environment))
    yield (
        "one correct notebook, oracles down, against `import tensorflow`",
        f"{statistics.median(ratios):.2f}×",
        "≤ 1.2×",
    )

    warm = [timed([*AUTOGRADER, "grade", str(SOLUTION)], environment) for _ in range(repeats)]
    yield "one correct notebook, oracles up, whole process", f"{statistics.median(warm):.2f} s", "≤ 1.5 s"

    copies = [shutil.copy(SOLUTION, home / f"submission{i:02}.ipynb") for i in range(20)]
    batches = [timed([*AUTOGRADER, "grade", *map(str, copies)], environment) for _ in range(1 if quick else 3)]
    yield (
        "20 correct notebooks in one call, full isolation",
        f"{20 * 60 / statistics.median(batches):.0f} a minute",
        "≥ 60 a minute",
    )

    checks = checked_in_a_kernel(environment, repeats)
    worst, seconds = max(checks.items(), key=lambda item: item[1])
    yield (
        "`check(task)` in a notebook, median of each task, slowest task",
        f"{seconds:.2f} s ({worst}; all: {', '.join(f'{v:.2f}' for v in checks.values())})",
        "≤ 0.5 s",
    )


def timed(command: list[str], environment: dict[str, str]) -> float:
    """Seconds a command takes; it must succeed."""
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(
            f"benchmarks: {' '.join(command[:4])} exited with {done.returncode}: {done.stderr.strip()[-300:]}"
        )
    return seconds


def checked_in_a_kernel(environment: dict[str, str], repeats: int) -> dict[str, float]:
    """The median seconds of each task's check, in a notebook kernel that has run the solution."""
    from jupyter_client.manager import start_new_kernel

    cells = json.loads(SOLUTION.read_text(encoding="utf-8"))["cells"]
    manager, client = start_new_kernel(kernel_name="python3", env=environment, cwd=str(SOLUTION.parent))
    tasks: list[str] = []
    try:
        for cell in cells:
            source = "".join(cell["source"])
            tags = set(cell["metadata"].get("tags", ()))
            grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
            if cell["cell_type"] != "code" or tags & {"use", "training", "plot", "submit"}:
                continue
            if grade_id.startswith("check-"):
                tasks.append(grade_id.removeprefix("check-"))
                continue
            run(client, source)
        medians = {}
        for task in tasks:
            run(client, f"assert check({task!r}), {task!r}")  # the first may have to wait for the oracles
            lines = (
                f"import time; t = time.perf_counter(); ok = bool(check({task!r})); print(ok, time.perf_counter() - t)"
            )
            answers = [run(client, lines).split() for _ in range(repeats)]
            if any(answer[0] != "True" for answer in answers):
                raise SystemExit(f"benchmarks: check({task!r}) of the solution said no")
            medians[task] = statistics.median(float(answer[1]) for answer in answers)
        return medians
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: Any, source: str) -> str:
    """What a cell prints; it must not raise."""
    printed: list[str] = []

    def collect(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(source, timeout=120, output_hook=collect)
    if reply["content"]["status"] != "ok":
        raise SystemExit(f"benchmarks: a cell failed: {reply['content'].get('evalue')}")
    return "".join(printed)
