"""Hints that open after several different answers to a task have gone wrong in the same way.

The spec writes them (`spec.Hint`); what a learner has tried is kept in a file of their own, as digests of answers, so
that running the same cell again is not another try. Losing the file costs nothing but the count.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autograder.cells import parse
from autograder.notebook import Notebook, place_tasks
from autograder.report import Report, TaskResult
from autograder.spec import Hint, Lab, Task

LARGEST = 1 << 20
"""Bytes of a learner's file; a larger one is not ours."""

FAILED = ("wrong", "failed")
"""Verdicts that count as a try: something was answered."""

Tries = dict[str, dict[str, dict[str, list[str]]]]
"""By lab, task and hint: digests of the answers that went wrong in its way."""


def open_hints(report: Report, lab: Lab, notebook: Notebook, *, learner: str, folder: Path) -> Report:
    """Put into `report` the hints that its learner has earned, with this try counted.

    Parameters
    ----------
    report : Report
        Changed in place, and returned.
    notebook : Notebook
        What was graded.
    learner : str
        Whose tries these are; any text, such as a login name.
    folder : path
        Where tries are kept; made, if it is not there. Where it can't be written, only this try counts.
    """
    failed = {
        result.name: result
        for result in report.tasks
        if result.verdict in FAILED and any(_about(hint, result) for hint in _hints(lab, result.name))
    }
    if not failed:
        return report
    answers = digests(notebook, lab)
    with _tries(folder, learner) as kept:
        of_lab = kept.setdefault(lab.name, {})
        for name, result in failed.items():
            of_task = of_lab.setdefault(name, {})
            for hint in _hints(lab, name):
                if not _about(hint, result):
                    continue
                tries = of_task.setdefault(_key(hint), [])
                if answers[name] not in tries and len(tries) < hint.after:
                    tries.append(answers[name])
                if len(tries) >= hint.after:
                    result.hints.append(hint.words)
                else:
                    left = hint.after - len(tries)
                    result.next_hint = min(result.next_hint, left) if result.next_hint else left
    return report


def digests(notebook: Notebook, lab: Lab) -> dict[str, str]:
    """A digest of the answer to each task: of what its cells do, not of how they are spaced or commented."""
    places = place_tasks(notebook.cells, lab)
    found = {}
    for task in lab.tasks:
        digest = hashlib.sha256()
        for cell in notebook.cells[: places[task.name].stop]:
            if cell.skip or cell.checks:
                continue
            tree = parse(cell.code)
            try:
                digest.update((ast.dump(tree) if tree is not None else cell.code).encode(errors="replace"))
            except RecursionError:  # nested so deeply that it can be read but not walked
                digest.update(cell.code.encode(errors="replace"))
        found[task.name] = digest.hexdigest()[:16]
    return found


def told(result: TaskResult) -> str:
    """What the feedback says is wrong."""
    return " ".join([result.message, *result.diagnosis])


def _about(hint: Hint, result: TaskResult) -> bool:
    return re.search(hint.about, told(result)) is not None


def _hints(lab: Lab, task: str) -> tuple[Hint, ...]:
    return next((one.unlocks for one in lab.tasks if one.name == task), ())


def _key(hint: Hint) -> str:
    """By what it is about: new words do not take back what was earned."""
    return hashlib.sha256(hint.about.encode()).hexdigest()[:12]


def _file(folder: Path, learner: str) -> Path:
    """A name of its own for each learner, whatever characters theirs has."""
    return folder / f"{hashlib.sha256(learner.encode(errors='surrogatepass')).hexdigest()[:32]}.json"


@contextlib.contextmanager
def _tries(folder: Path, learner: str) -> Iterator[Tries]:
    """What a learner has tried, to be changed; nobody else changes it meanwhile."""
    path = _file(folder, learner)
    with contextlib.ExitStack() as stack:
        lock = None
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = stack.enter_context(os.fdopen(os.open(path.with_suffix(".lock"), flags, 0o600), "r+b"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        tries = read(path)
        yield tries
        if lock is not None:
            with contextlib.suppress(OSError):
                _write(path, tries)


def read(path: Path) -> Tries:
    """The tries in a file; none, where it is not there or holds anything else."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
            raw = file.read(LARGEST + 1)
        data: Any = json.loads(raw) if len(raw) <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {
        lab: {
            task: {key: [one for one in tries if isinstance(one, str)] for key, tries in _dicts(of_task, list)}
            for task, of_task in _dicts(of_lab, dict)
        }
        for lab, of_lab in _dicts(data, dict)
    }


def _dicts(value: Mapping[str, Any], kind: type) -> Iterator[tuple[str, Any]]:
    return ((name, part) for name, part in value.items() if isinstance(part, kind))


def _write(path: Path, tries: Tries) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            json.dump(tries, file)
            file.close()
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
            raise


def holds_answer(task: Task, words: str, solution: str) -> str:
    """A piece of code in a hint that stands in the solution as well; "" where there is none.

    Parameters
    ----------
    solution : str
        The code of the solution, in any spacing.
    """
    bare = re.sub(r"\s+", "", solution)
    for code in re.findall(r"`([^`\n]+)`", words):
        piece = re.sub(r"\s+", "", code)
        if len(piece) >= TELLING and piece in bare and not any(code.startswith(f"{name}(") for name in task.names):
            return str(code)
    return ""


TELLING = 12
"""Characters of code that give something away; shorter ones are names and calls that a task's text has too."""
