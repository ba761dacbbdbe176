"""Run the whole test suite: what can run side by side on all cores, then what must have the machine to itself.

Run by `make test`, and as ``test.py quick`` by `make quick`, with the environment's Python. Further arguments are
handed on to pytest, in every part.

Hundreds of tests start processes, kill them, and wait for what the others do; on a busy machine one of them may meet a
deadline. So up to `FEW` failures are run once more at the end, each by itself: one that passes then is named as
unsteady, and one that fails again fails the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORKERS = str(min(os.cpu_count() or 1, 8))
# Plugins that cost more than most tests take: nbval loads grammars that only notebooks need, three seconds in every
# worker; logging puts a handler on each of torch's forty loggers, three times in every test.
PLAIN = [argument for plugin in ("nbval", "anyio", "logging") for argument in ("-p", f"no:{plugin}")]
NBVAL = ["--nbval", "--nbval-kernel-name", "python3", "--ignore-glob", "tests/*.ipynb"]
TIMED = ("attacks", "oracles", "practice", "ranks", "run", "sandbox")
"""Of the grader's tests, those whose limits in seconds are the subject."""
SOME_FAILED, INTERRUPTED, NO_TESTS = 1, 2, 5
"""pytest's exit codes; the last where a selection leaves nothing."""
FEW = 3
"""As many failures may be a busy machine's; more are the change's."""


class Part(NamedTuple):
    """A run of pytest: what it is told, what it runs, and how it shares that out; "" where one process runs all."""

    options: list[str]
    paths: list[str]
    share: str = "worksteal"

    def command(self, *arguments: str) -> list[str]:
        """The command that runs this part."""
        shared = ["-n", WORKERS, "--dist", self.share] if self.share else []
        return [sys.executable, "-m", "pytest", *shared, *self.options, *arguments, *self.paths]


PARTS = {
    "the framework, the labs and the project": Part(
        PLAIN, [f"tests/{folder}" for folder in ("internals", "labs", "mutants", "project", "benchmarks")]
    ),
    "the solution notebooks": Part(NBVAL, ["labs/solutions"], "loadfile"),
    "the grader and the book": Part(
        [*PLAIN, *(f"--ignore=tests/autograder/test_{name}.py" for name in TIMED)], ["tests/autograder", "tests/book"]
    ),
    "what must have the machine to itself": Part(
        PLAIN, [*(f"tests/autograder/test_{name}.py" for name in TIMED), "tests/classroom"], ""
    ),
}
SITE = "COURSE_SITE_IS_BUILT"
"""Tells tests/book that the site was built a moment ago."""
QUICK = {
    # A thread for each test's time limit costs more than the test; a signal is cheap, though it can't end a loop in C.
    "the inner loop": Part([*PLAIN, "--timeout-method=signal", "-m", "not slow and not browser and not gpu"], ["tests"])
}


def build_site(environment: dict[str, str]) -> bool:
    """Build the site that tests/book looks at; where that fails, its tests try again and tell why."""
    print("=== the site", flush=True)
    started = time.monotonic()
    code = subprocess.call([sys.executable, "book/build.py"], cwd=ROOT, env=environment)
    print(f"=== the site: {time.monotonic() - started:.0f} s, {'built' if code == 0 else 'failed'}")
    return code == 0


def run(part: Part, environment: dict[str, str], *arguments: str) -> tuple[int, list[str]]:
    """Run a part; pytest's exit code, and the tests that failed."""
    with tempfile.TemporaryDirectory() as cache:
        code = subprocess.call(part.command("-o", f"cache_dir={cache}", *arguments), cwd=ROOT, env=environment)
        try:
            failed = json.loads((Path(cache) / "v" / "cache" / "lastfailed").read_text())
        except FileNotFoundError:  # nothing failed
            failed = []
    return code, list(failed)


def run_again(failed: dict[str, Part], environment: dict[str, str], *arguments: str) -> int:
    """Run tests that failed once more, each by itself; 0 if all pass now.

    Parameters
    ----------
    failed
        The parts that the tests are of, by their names.
    """
    print("=== what failed, once more, each by itself", flush=True)
    # A cell of a notebook needs those before it.
    again = {name.split("::")[0] if ".ipynb" in name else name: part for name, part in failed.items()}
    codes = {}
    for name, part in again.items():
        codes[name] = run(part._replace(paths=[name], share=""), environment, *arguments)[0]
    for name, code in codes.items():
        print(f"=== {'failed again' if code else 'unsteady, passed when run again'}: {name}", flush=True)
    return max(codes.values())


def main(arguments: list[str]) -> int:
    """Run every part; 0 if all passed, and something was run."""
    quick = arguments[:1] == ["quick"]
    arguments = arguments[quick:]
    alone = dict(os.environ)
    # Tests start thousands of processes: what one of them compiled the others read.
    alone.pop("PYTHONDONTWRITEBYTECODE", None)
    beside = {"OPENBLAS_NUM_THREADS": "1", **alone}  # its threads would take the other worker's core
    codes: list[int] = []
    failed: dict[str, Part] = {}
    if not arguments and not quick and build_site(alone):
        beside[SITE] = alone[SITE] = "yes"
    for name, part in (QUICK if quick else PARTS).items():
        started = time.monotonic()
        print(f"=== {name}", flush=True)
        code, names = run(part, beside if part.share else alone, *arguments)
        print(f"=== {name}: {time.monotonic() - started:.0f} s, {'passed' if code in (0, NO_TESTS) else 'failed'}")
        codes.append(code)
        failed |= dict.fromkeys(names, part)
        if code == INTERRUPTED:
            break
    wrong = [code for code in codes if code not in (0, NO_TESTS)]
    if not quick and 0 < len(failed) <= FEW and set(wrong) == {SOME_FAILED}:
        return run_again(failed, alone, *arguments)
    return wrong[0] if wrong else 0 if 0 in codes else NO_TESTS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
