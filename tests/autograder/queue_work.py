"""What the tests of the queue share: submissions in it, and a grader that does as the submission says."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

from classroom_samples import RIGHT, WRONG, report

from autograder.gradebook.store import Gradebook
from autograder.queue.adding import enqueue
from autograder.queue.grading import Fault, Outcome, Work
from autograder.queue.limits import RateLimit
from autograder.queue.states import Job

LAB, SPEC = "lab05_tape", "0123456789ab"
FREE = RateLimit(0)
LOG = "AUTOGRADER_TEST_GRADED"
"""Names a file to which every grading that begins adds a line."""


def hand_in(book: Gradebook, learner: str, text: str, **options: Any) -> Job:
    """Store `text` as a submission and put it into the queue."""
    receipt = book.submit(text.encode(), lab=LAB, learner=learner, filename=f"{learner}.ipynb", source="test")
    return enqueue(book, receipt.submission_id, **{"spec_version": SPEC, "limit": FREE} | options)


def said(data: bytes | str, **changes: Any) -> Any:
    """A report on these bytes."""
    raw = data.encode() if isinstance(data, str) else data
    fields = {"mode": "official", "sha256": hashlib.sha256(raw).hexdigest()} | changes
    return report(*deepcopy((RIGHT, WRONG)), **fields)


def obey(work: Work) -> Outcome:
    """Grade as told: the first word of the submission is what to do."""
    if path := os.environ.get(LOG):
        with open(path, "a") as log:
            log.write(f"{work.submission_id} {os.getpid()}\n")
    word, *rest = work.data.decode().split() or [""]
    if word == "sleep":
        time.sleep(float(rest[0]))
    if word == "hang":
        for_ever()
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "raise":
        raise RecursionError("deep inside")
    if word == "fault":
        return Fault("no sandbox today")
    if word == "final":
        return Fault("not a notebook", final=True)
    return said(work.data, mode=work.mode).to_json()


def for_ever() -> None:
    while True:
        time.sleep(60)


def begun(log: Path) -> list[int]:
    """The submissions that were begun to be graded, in order."""
    return [int(line.split()[0]) for line in log.read_text().splitlines()] if log.exists() else []


if __name__ == "__main__":
    from autograder.queue.executors.grader import serve

    serve(int(sys.argv[1]), obey)
