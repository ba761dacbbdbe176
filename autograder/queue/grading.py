"""One grading as plain data: what goes to an executor, wherever it is, and what comes back."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.grade import Grader, Mode


@dataclass(frozen=True)
class Work:
    """A submission to grade."""

    submission_id: int
    lab: str
    learner: str
    filename: str
    sha256: str
    mode: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Fault:
    """Why there is no report."""

    words: str
    """A sentence or two, for the person concerned."""
    final: bool = False
    """Whether trying again would say the same."""


Outcome = str | Fault
"""The report as JSON, or why there is none."""

_graders: dict[str, Grader] = {}
_lock = Lock()


def grade(work: Work) -> Outcome:
    """Grade it here, with this process's own grader; never raises."""
    from autograder import sandbox
    from autograder.grade import GradeError, find_lab
    from autograder.notebook import MAX_BYTES, NotebookError, parse_notebook
    from autograder.spec import load_lab

    try:
        lab = load_lab(work.lab)
    except ValueError as error:  # a worker of another version may have it
        return Fault(f"This grader cannot grade it: {error}")
    try:
        if len(work.data) > MAX_BYTES:
            raise NotebookError(f"{work.filename}: more than {MAX_BYTES >> 20} MB.")
        notebook = parse_notebook(work.data, work.filename)
        find_lab(notebook, lab)
    except (NotebookError, GradeError, ValueError) as error:
        return Fault(f"It was handed in for {work.lab}, but cannot be graded as that: {error}", final=True)
    if notebook.sha256 != work.sha256:
        return Fault(f"The bytes that were stored have another SHA-256 than {work.sha256[:12]}.", final=True)
    mode: Mode = "practice" if work.mode == "practice" else "official"
    try:
        sandbox.best(mode=mode)
        with _lock:
            grader = _graders.get(mode) or _graders.setdefault(mode, _new(mode))
        return grader.grade_notebook(notebook, work.filename, lab, learner=work.learner).to_json()
    except (GradeError, sandbox.SandboxUnavailable) as error:
        return Fault(f"The grader's machine cannot grade it: {error}")
    except Exception as error:  # noqa: BLE001  a fault of ours, told for this submission alone
        if os.environ.get("AUTOGRADER_DEBUG") == "1":
            traceback.print_exc(file=sys.stderr)
        return Fault(f"A fault in the autograder: {type(error).__name__}: {error}")


def _new(mode: Mode) -> Grader:
    from autograder.grade import Grader

    return Grader(mode=mode)
