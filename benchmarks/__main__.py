"""``python -m benchmarks [speed] [grading] [nbgrader] [--quick]``: measure, print, write ``benchmarks/results/``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


STEPS = {
    "mlp_step": ("MLP step 784-256-10, batch 128", 10),
    "cnn_step": ("LeNet step, 1 x 28 x 28, batch 64", 5),
    "lstm_step": ("LSTM step, 28 steps of 28, 128 units, batch 32", 5),
    "transformer_step": ("transformer block step, width 128, 4 heads, 16 x 64", 2),
}
"""The training steps: what they are called, and how often each contender takes one in a round."""

TOLERANCE = 1e-4
"""By how much the first losses may differ."""


def speed(quick: bool) -> None:
    """Training steps, one recorded add, a long chain: against each framework that is installed; memory; a profile."""
    from benchmarks.side_by_side import Row, compare
    from benchmarks.workloads import threads

    running, absent = _contenders()
    rounds = 5 if quick else 31
    rows: list[Row] = []
    for step, (workload, calls) in STEPS.items():
        steps = {name: getattr(one, step) for name, one in running.items() if hasattr(one, step)}
        losses = {}
        for name, run in list(steps.items()):
            try:
                losses[name] = run()
            except OSError as error:  # tinygrad, where its compiler gives nothing that can be loaded
                absent[f"{name}, {workload}"] = f"could not run it ({error})"
                del steps[name]
        if max(losses.values()) - min(losses.values()) > TOLERANCE:
            raise SystemExit(f"benchmarks: {step}: the frameworks do not do the same; first losses {losses}")
        rows += compare(workload, steps, calls=calls, rounds=rounds)
    rows += compare(
        "one recorded add, (3, 4)",
        {n: f.add for n, f in running.items() if hasattr(f, "add")},
        calls=2000,
        rounds=rounds,
    )
    rows += compare(
        "chain of 50,000 adds, record + backward",
        {n: (lambda f=f: f.chain(50_000)) for n, f in running.items() if hasattr(f, "chain")},  # type: ignore[misc]  # f is bound early on purpose
        calls=1,
        rounds=3 if quick else 9,
    )
    lines = [
        f"Threads: {threads()}. Each ratio is the median over {rounds} rounds (of the chain {rows[-1].rounds}), in "
        "each of which every contender runs; the last column is its spread.",
        "",
        "| workload | against | theirs | ours | ours / theirs | 10 % - 90 % |",
        "|---|---|---|---|---|---|",
        *(
            f"| {r.workload} | {r.against} | {_time(r.seconds)} | {_time(r.ours)} | **{r.ratio:.2f}** | {r.low:.2f} - "
            f"{r.high:.2f} |"
            for r in rows
        ),
    ]
    for name, why in absent.items():
        lines.append(f"| - | {name} | {why} | | | |")
    for name, one in running.items():
        for step, why in getattr(one, "lacks", {}).items():
            lines.append(f"| {STEPS[step][0]} | {name} | {why} | | | |")
    memory = _memory()
    lines += [
        "",
        "Peak memory that a step takes, above what model and batch hold (`python -m benchmarks.peak`, a process each):",
        "",
        "| workload | torch | ours | ours / torch |",
        "|---|---|---|---|",
        *(
            f"| {workload} | {t / 1e6:.1f} MB | {o / 1e6:.1f} MB | **{o / t:.2f}** |"
            for workload, (o, t) in memory.items()
        ),
    ]
    lines += _profile(running["internals"])
    data = {"threads": threads(), "rows": [asdict(row) for row in rows], "absent": absent, "peak_bytes": memory}
    _write("speed", lines, data)


def _contenders() -> tuple[dict[str, Any], dict[str, str]]:
    """Those that can run here, and why the others can't."""
    from benchmarks.contenders import ALL

    running: dict[str, Any] = {}
    absent: dict[str, str] = {}
    for framework in ALL:
        if framework.name == "tinygrad" and not shutil.which("clang"):
            absent["tinygrad"] = "needs clang"
            continue
        try:
            running[framework.name] = framework()
        except ImportError as error:
            absent[framework.name] = f"not installed ({error.name})"
    return running, absent


def _memory() -> dict[str, tuple[int, int]]:
    """Bytes at the peak, of ours and of torch's steps."""
    from benchmarks.peak import peak

    steps = {step: name for step, (name, _) in STEPS.items() if step != "mlp_step"}
    return {name: (peak("internals", step), peak("torch", step)) for step, name in steps.items()}


def _profile(ours: Any) -> list[str]:
    """Where the time of our steps goes, as lines of the report."""
    from benchmarks.profile import profile

    lines = [
        "",
        "Where the time goes, in milliseconds of one step; a rule's time includes all that it runs:",
        "",
        "| workload | op | forward | backward | share |",
        "|---|---|---|---|---|",
    ]
    for step, (workload, calls) in STEPS.items():
        lines += profile(getattr(ours, step), calls=4 * calls).lines(workload)
    return lines


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _write(name: str, lines: list[str], data: dict[str, Any]) -> None:
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {
            p: importlib.metadata.version(p)
            for p in ("numpy", "torch", "autograd", "dezero", "tinygrad")
            if _installed(p)
        },
    }
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (RESULTS / f"{name}.json").write_text(json.dumps(machine | data, indent=1) + "\n", encoding="utf-8")


def _installed(package: str) -> bool:
    return any(True for _ in importlib.metadata.distributions(name=package))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "what", nargs="*", default=["speed", "grading"], help="speed, grading (both unless given), nbgrader"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look rather than a record")
    arguments = parser.parse_args()
    for what in arguments.what:
        if what == "speed":
            speed(arguments.quick)
        elif what == "grading":
            from benchmarks.grading import grading

            _write(*grading(arguments.quick))
        elif what == "nbgrader":
            from benchmarks.grading_nbgrader import comparison

            _write(*comparison(arguments.quick))
        else:
            parser.error(f"there is no benchmark called {what!r}; there are speed, grading and nbgrader.")


if __name__ == "__main__":
    main()
