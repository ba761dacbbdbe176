"""One submission, one Report: runs the notebook in a sandbox, compares with the oracles, explains what is wrong."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Literal

from autograder import sandbox
from autograder.answerkey import AnswerKey, Asked, oracles_of
from autograder.cells import printable
from autograder.notebook import Notebook, NotebookError, match_lab, parse_notebook, read_notebook, require_lab
from autograder.oracles import OracleError
from autograder.report import Report, TaskResult
from autograder.run import Runner
from autograder.spec import Lab, Task, lab_names, load_lab
from autograder.variants import seed_of
from autograder.verdict import Watch, judge_task
from autograder.written import result_of

Mode = Literal["official", "practice"]


KEPT = 64
"""Answer keys a Grader holds on to: one per lab and choice of tasks, or per learner where the lab has variants."""


class GradeError(ValueError):
    """One line: why this file can't be graded at all."""


class Grader:
    """Grades many submissions; those of one lab get the same cases, drawn and answered once.

    Parameters
    ----------
    mode : "official" or "practice"
    kind : str, optional
        The sandbox; by default the strongest that this machine has proven.
    seed : int, optional
        Of the cases; by default a fresh one.
    oracles : mapping, optional
        Instead of this user's oracle processes.
    progress : callable, optional
        Told in a sentence what is waited for.
    watch : callable, optional
        Shown each task's cases and what came of them; see `verdict.Watch`.
    """

    def __init__(
        self,
        *,
        mode: Mode = "official",
        kind: str | None = None,
        seed: int | None = None,
        oracles: Mapping[str, Asked] | None = None,
        progress: Callable[[str], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.watch = watch
        self.mode: Mode = mode
        self.kind = kind
        self.seed = secrets.randbits(32) if seed is None else seed
        self.oracles = oracles
        self.progress = progress
        self._keys: dict[tuple[str, tuple[str, ...], int], AnswerKey] = {}
        self._lock = Lock()

    def key(self, lab: Lab, tasks: Sequence[Task] | None = None, seed: int | None = None) -> AnswerKey:
        """The cases and answers of a lab; begins to prepare them when first asked for."""
        chosen = lab.tasks if tasks is None else tuple(tasks)
        with self._lock:
            name = (lab.version, tuple(task.name for task in chosen), self.seed if seed is None else seed)
            if name not in self._keys:
                oracles = oracles_of(lab, self.progress) if self.oracles is None else self.oracles
                while len(self._keys) >= KEPT:  # whoever still grades by the oldest holds it
                    del self._keys[next(iter(self._keys))]
                self._keys[name] = AnswerKey(lab, name[2], oracles, chosen)
            return self._keys[name].start()

    def grade_file(self, path: str | os.PathLike[str], lab: Lab | None = None) -> Report:
        """Grade one notebook file.

        Raises
        ------
        GradeError
            It cannot be read as a notebook of a known lab, or no sandbox will do.
        """
        try:
            notebook = read_notebook(path)
        except NotebookError as error:
            raise GradeError(str(error)) from None
        except OSError as error:
            raise GradeError(f"{Path(path).name}: can't be read: {error.strerror or error}.") from None
        return self.grade_notebook(notebook, os.fspath(path), lab)

    def grade_notebook(
        self,
        notebook: Notebook,
        file: str = "",
        lab: Lab | None = None,
        tasks: Sequence[str] | None = None,
        box: sandbox.Box | None = None,
        learner: str = "",
    ) -> Report:
        """Grade what was read from a notebook; only the named `tasks`, if any are named; in `box`, if one is ready.

        Where the lab has variants, a `learner` who is named gets their own, in place of the seed of this Grader.

        Raises
        ------
        GradeError
            As `grade_file`.
        """
        began = time.monotonic()
        try:
            lab = find_lab(notebook, lab)
            chosen, written = (lab.tasks, lab.written) if tasks is None else lab.ask(tasks)
            kind = box.kind if box is not None else self.kind or sandbox.best(mode=self.mode)
        except (ValueError, sandbox.SandboxUnavailable) as error:
            raise GradeError(
                f"{Path(file).name}: {error}" if file and Path(file).name not in str(error) else str(error)
            ) from None
        variant = learner if lab.variants else ""
        seed = seed_of(lab.name, variant) if variant else self.seed
        key = self.key(lab, None if tasks is None else chosen, seed)
        report = Report(
            lab=lab.name,
            spec_version=lab.version,
            title=lab.title,
            mode=self.mode,
            file=file.encode(errors="backslashreplace").decode(),  # a name that is not UTF-8 can't be written out
            sha256=notebook.sha256,
            seed=seed,
            learner=printable(variant),
            sandbox=sandbox.describe(kind),
            notes=list(notebook.notes),
            graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            if chosen:
                with Runner(lab, notebook.cells, kind=kind, box=box) as runner:
                    # Tasks are reached in the notebook's order and reported in the lab's.
                    results = {
                        task.name: _grade_task(runner, key, task, self.watch) for task in runner.tasks if task in chosen
                    }
                report.tasks = [results[task.name] for task in chosen]
            report.tasks += [result_of(question, notebook) for question in written]
        except sandbox.SandboxUnavailable as error:
            raise GradeError(str(error)) from None
        report.seconds = round(time.monotonic() - began, 3)
        return report


def grade_file(
    path: str | os.PathLike[str],
    lab: Lab | str | None = None,
    mode: Mode = "official",
    kind: str | None = None,
    seed: int | None = None,
) -> Report:
    """Grade one notebook file; see `Grader`.

    Raises
    ------
    GradeError
        It cannot be read as a notebook of a known lab, or no sandbox will do.
    """
    return Grader(mode=mode, kind=kind, seed=seed).grade_file(path, named_lab(lab))


def grade_bytes(
    raw: bytes, name: str, lab: Lab | str | None = None, *, grader: Grader | None = None, learner: str = ""
) -> Report:
    """Grade the bytes of a notebook file, as they were handed in by `learner`, if it is known by whom."""
    try:
        notebook = parse_notebook(raw, name)
    except NotebookError as error:
        raise GradeError(str(error)) from None
    return (grader or Grader()).grade_notebook(notebook, name, named_lab(lab), learner=learner)


def grade_files(
    paths: Sequence[str | os.PathLike[str]],
    lab: Lab | str | None = None,
    *,
    workers: int = 2,
    grader: Grader | None = None,
) -> Iterator[Report | GradeError]:
    """Grade many files, `workers` at a time; what came of each, in the order given.

    All of one lab get the same cases. What goes wrong with one file concerns no other.
    """
    grader, lab = grader or Grader(), named_lab(lab)

    def grade_one(path: str | os.PathLike[str]) -> Report | GradeError:
        try:
            return grader.grade_file(path, lab)
        except GradeError as error:
            return error
        except Exception as error:  # noqa: BLE001  a fault of ours, told for this file alone
            _tell_fault()
            return GradeError(f"{Path(path).name}: a fault in the autograder: {type(error).__name__}: {error}")

    pool = ThreadPoolExecutor(max_workers=max(1, workers))
    try:
        yield from pool.map(grade_one, paths)
    finally:
        # Whoever stops asking, as at an interrupt, does not wait for what is still being graded.
        pool.shutdown(wait=False, cancel_futures=True)


def named_lab(lab: Lab | str | None) -> Lab | None:
    """The lab of that name.

    Raises
    ------
    GradeError
        There is none.
    """
    if not isinstance(lab, str):
        return lab
    try:
        return load_lab(lab)
    except ValueError as error:
        raise GradeError(str(error)) from None


def find_lab(notebook: Notebook, lab: Lab | None) -> Lab:
    """The lab a notebook is graded as: the one given, which it must not contradict, or the one it names."""
    if lab is not None:
        require_lab(notebook, lab)
        return lab
    if notebook.lab in lab_names():
        return load_lab(notebook.lab)
    return match_lab(notebook, [load_lab(name) for name in lab_names()])


def _grade_task(runner: Runner, key: AnswerKey, task: Task, watch: Watch | None = None) -> TaskResult:
    """One task; a fault of ours in it is its own result and touches no other."""
    began = time.monotonic()
    try:
        result = judge_task(runner, key, task, watch)
    except OracleError as error:
        result = TaskResult(
            task.name, task.title, 0.0, task.points, "ungraded", "oracle", f"Not graded, and not your fault: {error}"
        )
    except sandbox.SandboxUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  a fault of ours; the learner's code runs in another process
        _tell_fault()
        fault = f"Not graded, because of a fault in the autograder: {type(error).__name__}: {error}"
        result = TaskResult(task.name, task.title, 0.0, task.points, "ungraded", "oracle", fault)
    result.seconds = round(time.monotonic() - began, 3)
    return result


def _tell_fault() -> None:
    if os.environ.get("AUTOGRADER_DEBUG") == "1":
        with contextlib.suppress(OSError):
            traceback.print_exc(file=sys.stderr)
