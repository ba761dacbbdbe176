"""Run the whole test suite: what can run side by side on all cores, then what must have the machine to itself.

Run by `make test`, and as ``test.py quick`` by `make quick`, with the environment's Python. Further arguments are
handed on to pytest, in every part.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKERS = str(min(os.cpu_count() or 1, 8))
# Plugins that cost more than most tests take: nbval loads grammars that only notebooks need, three seconds in every
# worker; logging puts a handler on each of torch's forty loggers, three times in every test.
PLAIN = [argument for plugin in ("nbval", "anyio", "logging") for argument in ("-p", f"no:{plugin}")]
SIDE_BY_SIDE = ["-n", WORKERS, "--dist", "worksteal", *PLAIN]
NBVAL = ["--nbval", "--nbval-kernel-name", "python3", "--ignore-glob", "tests/*.ipynb"]
TIMED = ("attacks", "oracles", "practice", "ranks", "run", "sandbox")
"""Of the grader's tests, those whose limits in seconds are the subject."""
NO_TESTS = 5
"""pytest's exit code where a selection leaves nothing."""

PARTS = {
    "the framework, the labs and the project": [
        *SIDE_BY_SIDE,
        *(f"tests/{folder}" for folder in ("internals", "labs", "mutants", "project", "benchmarks")),
    ],
    "the solution notebooks": ["-n", WORKERS, "--dist", "loadfile", *NBVAL, "labs/solutions"],
    "the grader and the book": [
        *SIDE_BY_SIDE,
        *("tests/autograder", "tests/book"),
        *(f"--ignore=tests/autograder/test_{name}.py" for name in TIMED),
    ],
    "what must have the machine to itself": [
        *PLAIN,
        *(f"tests/autograder/test_{name}.py" for name in TIMED),
        "tests/classroom",
    ],
}
SITE = "COURSE_SITE_IS_BUILT"
"""Tells tests/book that the site was built a moment ago."""
# A thread for each test's time limit costs more than the test; a signal is cheap, though it can't end a loop in C.
QUICK = {
    "the inner loop": [
        *SIDE_BY_SIDE,
        "--timeout-method=signal",
        *("-m", "not slow and not browser and not gpu", "tests"),
    ]
}


def build_site(environment: dict[str, str]) -> bool:
    """Build the site that tests/book looks at; where that fails, its tests try again and tell why."""
    print("=== the site", flush=True)
    started = time.monotonic()
    code = subprocess.call([sys.executable, "book/build.py"], cwd=ROOT, env=environment)
    print(f"=== the site: {time.monotonic() - started:.0f} s, {'built' if code == 0 else 'failed'}")
    return code == 0


def main(arguments: list[str]) -> int:
    """Run every part; 0 if all passed, and something was run."""
    quick = arguments[:1] == ["quick"]
    alone = dict(os.environ)
    # Tests start thousands of processes: what one of them compiled the others read.
    alone.pop("PYTHONDONTWRITEBYTECODE", None)
    beside = {"OPENBLAS_NUM_THREADS": "1", **alone}  # its threads would take the other worker's core
    codes = []
    if not arguments and build_site(alone):
        beside[SITE] = alone[SITE] = "yes"
    for name, part in (QUICK if quick else PARTS).items():
        started = time.monotonic()
        print(f"=== {name}", flush=True)
        command = [sys.executable, "-m", "pytest", *part, *arguments[quick:]]
        code = subprocess.call(command, cwd=ROOT, env=beside if "-n" in part else alone)
        print(f"=== {name}: {time.monotonic() - started:.0f} s, {'passed' if code in (0, NO_TESTS) else 'failed'}")
        codes.append(code)
        if code == 2:  # interrupted
            break
    wrong = [code for code in codes if code not in (0, NO_TESTS)]
    return wrong[0] if wrong else 0 if 0 in codes else NO_TESTS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
