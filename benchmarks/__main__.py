"""``python -m benchmarks [speed] [grading] [--quick]``: measure, print, and write ``benchmarks/results/``."""

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


def speed(quick: bool) -> None:
    """Training steps, one recorded add, a long chain: against each framework that is installed."""
    from benchmarks.frameworks import ALL, threads
    from benchmarks.side_by_side import Row, compare

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
    cnn_steps = {name: one.cnn_step for name, one in running.items() if hasattr(one, "cnn_step")}
    for steps in ({name: one.mlp_step for name, one in running.items()}, cnn_steps):
        losses = {name: step() for name, step in steps.items()}
        if max(losses.values()) - min(losses.values()) > 1e-4:
            raise SystemExit(f"benchmarks: the frameworks do not do the same step; first losses {losses}")

    rounds = 5 if quick else 31
    rows: list[Row] = []
    rows += compare(
        "MLP step 784-256-10, batch 128", {n: f.mlp_step for n, f in running.items()}, calls=10, rounds=rounds
    )
    rows += compare("LeNet step, 1 x 28 x 28, batch 64", cnn_steps, calls=5, rounds=rounds)
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
    _write("speed", lines, {"threads": threads(), "rows": [asdict(row) for row in rows], "absent": absent})


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
    parser.add_argument("what", nargs="*", default=["speed", "grading"], help="speed, grading; both unless given")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look rather than a record")
    arguments = parser.parse_args()
    for what in arguments.what:
        if what == "speed":
            speed(arguments.quick)
        elif what == "grading":
            from benchmarks.grading import grading

            _write(*grading(arguments.quick))
        else:
            parser.error(f"there is no benchmark called {what!r}; there are speed and grading.")


if __name__ == "__main__":
    main()
