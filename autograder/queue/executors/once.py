"""``python -m autograder.queue.executors.once FILE``: grades the one submission in a packed file, and prints what came.

What runs in a Job's pod. The last line on stdout is the outcome; whatever else is printed stands before it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from autograder.queue.grading import Fault, Outcome, Work, grade

SIGN = "autograder-outcome "


def told(outcome: Outcome) -> str:
    """An outcome as a line."""
    plain = {"fault": outcome.words, "final": outcome.final} if isinstance(outcome, Fault) else {"report": outcome}
    return SIGN + json.dumps(plain)


def heard(log: str) -> Outcome:
    """The outcome in what a pod printed."""
    lines = [line for line in log.splitlines() if line.startswith(SIGN)]
    if not lines:
        last = log.strip().splitlines()[-1:] or ["nothing"]
        return Fault(f"The pod did not say what came of it; its last words: {last[0][:200]}")
    try:
        plain = json.loads(lines[-1].removeprefix(SIGN))
        return Fault(plain["fault"], plain["final"]) if "fault" in plain else str(plain["report"])
    except (ValueError, KeyError, TypeError) as error:
        return Fault(f"What the pod said came of it can't be read: {type(error).__name__}: {error}")


def main(path: str, run: Callable[[Work], Outcome] = grade) -> None:
    from autograder.queue.kubernetes import unpack

    print(told(run(unpack(Path(path).read_bytes()))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
