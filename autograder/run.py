"""Run a learner's notebook in a sandbox, cell by cell, and call what it defines.

A cell or a call that kills its sandbox costs only itself: the sandbox is started again and the cells that
worked are run again, without the one that didn't. What is called is what a name was bound to where the
notebook checks it.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, get_args

from autograder import sandbox, spec
from autograder.cells import Cell, printable
from autograder.notebook import place_tasks
from autograder.report import Cause
from autograder.sandbox import Box, WorkerDied
from autograder.spec import Lab, Task

_CAUSES = frozenset(get_args(Cause))
_DEATHS = 20
"""Cells that may each end their sandbox before the rest of a notebook is given up."""


@dataclass(frozen=True)
class Answer:
    """A call returned. `value` is plain data of exact types, and whatever the learner's side wished it to be."""

    value: Any
    printed: str = ""
    cut: bool = False
    """Printed more than is kept."""


@dataclass(frozen=True)
class Raised:
    """A call or a cell raised. `cell` and `line` are 0 where no frame is the learner's own."""

    type: str
    message: str
    traceback: str = ""
    cell: int = 0
    line: int = 0
    cause: Cause = "exception"
    """"exception", or what was refused or ran out: "exit", "memory", "syntax", "input", "files", "network",
    "processes", "value" (what came back isn't plain data)."""
    printed: str = ""


@dataclass(frozen=True)
class Died:
    """The sandbox had to be ended, or ended itself: out of time or memory, a crash, an exit, a broken frame.

    `detail` completes a sentence: "the call ran longer than 2 s", "cell 3 used more than 1.0 GB of memory".
    """

    cause: Cause
    detail: str
    cell: int = 0
    """The cell that was running; 0 if it was a call."""


@dataclass(frozen=True)
class Missing:
    """Names the notebook didn't define by the time the task was checked.

    `cause` is "missing" if nothing defines them, else what went wrong in the cell that would have.
    """

    names: tuple[str, ...]
    because: str
    cause: Cause = "missing"
    cell: int = 0
    traceback: str = ""


Outcome = Answer | Raised | Died | Missing


class Runner:
    """One notebook in one sandbox at a time.

    Parameters
    ----------
    lab : Lab
    cells : sequence of Cell
        As `autograder.notebook.read_notebook` gives them.
    kind : str or None
        A sandbox kind; None takes ``sandbox.best("official")``.
    drivers : str or None
        Source of the lab's drivers; None reads ``autograder.drivers.<lab>``.
    box : Box or None
        A sandbox that was started before and has not been used.

    Raises
    ------
    SandboxUnavailable
        This machine has no sandbox of that kind.
    """

    def __init__(
        self,
        lab: Lab,
        cells: Sequence[Cell],
        *,
        kind: str | None = None,
        drivers: str | None = None,
        box: Box | None = None,
    ) -> None:
        self.lab = lab
        self.kind = box.kind if box is not None else kind or sandbox.best("official")
        self._cells = list(cells)
        self._drivers = spec.driver_source(lab) if drivers is None else drivers
        self._places = place_tasks(self._cells, lab)
        self._box = box
        self._loaded = False
        self._reached = 0
        """Cells run, or passed over, so far."""
        self._failed: dict[int, Raised | Died] = {}
        self._killers: set[int] = set()
        self._doubted: set[int] = set()
        self._missing: dict[str, tuple[str, ...]] = {}
        self._stopped: dict[str, Died] = {}
        """Tasks whose names could not even be asked for, and why."""
        self._served: set[str] = set()
        """Tasks this very sandbox was called for."""
        self._threads = False
        self._spent = 0.0
        if self._box is None:
            self._box = sandbox.open(lab, kind=self.kind)

    # --- as a context ---

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        self._drop()

    # --- what graders ask ---

    @property
    def tasks(self) -> list[Task]:
        """The lab's tasks in the order in which the notebook checks them: the order to reach them in."""
        return sorted(self.lab.tasks, key=lambda task: self._places[task.name].stop)

    @property
    def failures(self) -> dict[int, Raised | Died]:
        """What went wrong in cells so far, by cell number."""
        return {self._cells[index].number: failure for index, failure in self._failed.items()}

    def notes(self, task: Task) -> list[str]:
        """Remarks on where the notebook answers `task`: a name bound again later, a check before the definition."""
        return list(self._places[task.name].notes)

    def reach(self, task: Task) -> None:
        """Run the cells up to the place where the notebook checks `task`; what goes wrong in them is remembered."""
        stop = self._places[task.name].stop
        if self._threads and self._served and self._served != {task.name}:
            self._drop()
        idle_deaths = 0
        while self._reached < stop or task.name not in self._missing:
            if self._spent >= self.lab.total_limit:
                self._give_up(task, Died("time", self._over()))
                return
            if len(self._killers) > _DEATHS:
                self._give_up(task, Died("exit", f"ended its sandbox {_DEATHS} times, so the rest of it was not run"))
                return
            known = self._learned()
            try:
                self._open()
                if self._reached < stop:
                    self._run_cell(self._reached)
                    self._reached += 1
                self._mark(self._reached)
            except WorkerDied as death:
                self._drop()
                idle_deaths = idle_deaths + 1 if self._learned() == known else 0
                if idle_deaths > 1:
                    # Died between cells, or while being asked for names, and again: this task's names can't be had.
                    self._give_up(task, Died(death.cause, death.detail))

    def call(self, task: Task, inputs: Mapping[str, Any]) -> Outcome:
        """Call the task's driver on one case, in the sandbox.

        Returns
        -------
        Answer, Raised, Died or Missing
            Never raises for what a learner's code does.
        """
        self.reach(task)
        if self._missing[task.name]:
            return self._why_missing(task)
        doubtful = self._threads or self.shared(task)
        outcome = self._call(task, inputs)
        if isinstance(outcome, Died) and outcome.cause != "time" and doubtful:
            # Another task's call, or a thread that a cell left, may be behind it: once more, in a fresh sandbox.
            outcome = self._call(task, inputs)
        return outcome

    def shared(self, task: Task) -> bool:
        """Whether another task was called in the present sandbox, and may have left something behind in it."""
        return not self._served <= {task.name}

    def renew(self) -> None:
        """Make what is called next run in a fresh sandbox."""
        self._drop()

    # --- inside ---

    def _call(self, task: Task, inputs: Mapping[str, Any]) -> Outcome:
        try:
            self._open()
            self._served.add(task.name)
            reply = self._request(
                {"do": "call", "task": task.name, "driver": task.driver, "inputs": dict(inputs)}, task.limit
            )
        except WorkerDied as death:
            self._drop()
            return Died(death.cause, death.detail)
        if "error" in reply:
            return self._raised(reply)
        return Answer(reply["value"], reply["printed"], reply["cut"])

    def _open(self) -> None:
        """A sandbox in which the cells reached so far have run."""
        if self._box is not None and self._loaded:
            return
        if self._box is None:
            self._box = sandbox.open(self.lab, kind=self.kind)
        try:
            reply = self._request({"do": "load", "drivers": self._drivers}, sandbox.START_LIMIT, ours=True)
        except WorkerDied as death:
            # No cell has run in it: the fault is ours, never the learner's.
            said = self._box.stderr.strip().splitlines()[-1:] if self._box is not None else []
            self._drop()
            raise sandbox.SandboxUnavailable(
                " ".join([f"the {self.kind} sandbox does not start: it {death.detail}.", *said])
            ) from None
        if "error" in reply:
            raise RuntimeError(
                f"the drivers of {self.lab.name} fail to load: {reply['error']['type']}: {reply['error']['message']}"
            )
        self._loaded = True
        self._mark(0)
        for index in range(self._reached):
            self._run_cell(index)
            self._mark(index + 1)

    def _run_cell(self, index: int) -> None:
        cell = self._cells[index]
        if cell.skip or index in self._killers:
            return
        if cell.problem:
            self._failed[index] = Raised(
                "SyntaxError", cell.problem, cell=cell.number, line=cell.problem_line, cause="syntax"
            )
            return
        try:
            reply = self._request({"do": "exec", "cell": cell.number, "code": cell.code}, self.lab.cell_limit)
            # A cell that leaves the sandbox unable to answer is found out now, not when the next one is run.
            self._mark_names("", [])
        except WorkerDied as death:
            doubtful = death.cause != "time" and (self._threads or bool(self._served))
            if doubtful and index not in self._doubted:
                # A call, or a thread that an earlier cell left, may have done it: once more, right after a replay.
                self._doubted.add(index)
                raise
            self._killers.add(index)
            self._failed[index] = Died(death.cause, death.detail, cell.number)
            raise
        if "error" not in reply:
            self._failed.pop(index, None)
        elif self._served and index not in self._doubted:
            # What a task's call left behind, such as a changed NumPy, may be what the cell fails at.
            self._doubted.add(index)
            raise WorkerDied("exit", "failed after a task had been called")
        else:
            self._failed[index] = self._raised(reply)

    def _mark(self, reached: int) -> None:
        for task in self.lab.tasks:
            if self._places[task.name].stop == reached and task.name not in self._stopped:
                missing = self._mark_names(task.name, task.names)
                self._missing[task.name] = tuple(name for name in task.names if name in missing)

    def _mark_names(self, task: str, names: Sequence[str]) -> list[str]:
        """Have the sandbox keep what these names are bound to now; those that are bound to nothing."""
        reply = self._request({"do": "mark", "task": task, "names": list(names)}, self.lab.cell_limit)
        if error := reply.get("error"):  # no code of a cell runs here, but what a cell replaced may
            what = f"{error['type']}: {error['message'][:200]}"
            raise WorkerDied("protocol", f"replaced a part of Python that the grader needs too ({what})")
        missing = reply.get("missing")
        if type(missing) is not list or not all(type(name) is str for name in missing):
            raise WorkerDied("protocol", "tampered with its reply to the grader")
        return missing

    def _learned(self) -> tuple[int, int, int]:
        """Grows whenever a round of `reach` has come further, if only in knowing which cell to leave out."""
        return self._reached, len(self._killers), len(self._doubted)

    def _request(self, request: dict[str, Any], limit: float, *, ours: bool = False) -> dict[str, Any]:
        assert self._box is not None
        left = self.lab.total_limit - self._spent
        if left <= 0 and not ours:
            raise WorkerDied("time", self._over())
        started = time.monotonic()
        try:
            reply = self._box.request(request, timeout=limit if ours else min(limit, left))
        finally:
            if not ours:
                self._spent += time.monotonic() - started
        return self._checked(reply, request["do"])

    def _over(self) -> str:
        return f"as a whole ran longer than {self.lab.total_limit:g} s, so the rest of it was not run"

    def _checked(self, reply: dict[str, Any], do: str) -> dict[str, Any]:
        """The reply, once its parts have the types they should; else the sandbox counts as dead."""
        printed, threads = reply.get("printed"), reply.get("threads")
        error = reply.get("error")
        sound = (
            type(printed) is str
            and len(printed) <= 100_000
            and type(reply.get("cut", False)) is bool
            and type(threads) is int
        )
        if error is not None:
            texts = ("type", "message", "traceback", "cause")
            sound = (
                sound
                and type(error) is dict
                and all(type(error.get(key)) is str and len(error[key]) <= 10_000 for key in texts)
            )
            sound = sound and all(
                type(error.get(key)) is int and 0 <= error[key] < 1_000_000 for key in ("cell", "line")
            )
            sound = sound and error["cause"] in _CAUSES and error["cause"] != ""
        elif do == "call":
            sound = sound and "value" in reply
        if not sound:
            raise WorkerDied("protocol", "tampered with its reply to the grader")
        self._threads = threads != 0
        reply["printed"] = printable(reply["printed"])
        if error is not None:
            error.update({key: printable(error[key]) for key in ("type", "message", "traceback")})
        return reply

    def _raised(self, reply: dict[str, Any]) -> Raised:
        error = reply["error"]
        return Raised(
            error["type"],
            error["message"],
            error["traceback"],
            error["cell"],
            error["line"],
            error["cause"],
            reply["printed"],
        )

    def _why_missing(self, task: Task) -> Missing:
        names = self._missing[task.name]
        if task.name in self._stopped:
            stopped = self._stopped[task.name]
            return Missing(names, f"the notebook {stopped.detail}.", stopped.cause)
        spoken = " and ".join(f"`{name}`" for name in names)
        for index in range(len(self._cells) - 1, -1, -1):
            cell = self._cells[index]
            ours = (
                bool(cell.defines & set(names))
                or (cell.grade_id == task.name)
                or any(_mentions(cell, name) for name in names)
            )
            if not ours:
                continue
            failure = self._failed.get(index)
            if isinstance(failure, Died):
                return Missing(
                    names, f"cell {cell.number}, which defines {spoken}, {failure.detail}.", failure.cause, cell.number
                )
            if isinstance(failure, Raised):
                where = f" (line {failure.line})" if failure.line and failure.cause == "syntax" else ""
                because = (
                    f"cell {cell.number}, which defines {spoken}, failed: {failure.type}: {failure.message}{where}"
                )
                if failure.type == "ModuleNotFoundError":  # in the learner's own kernel it may well be there
                    because += ". That module is not there while the lab is graded; import it in a cell of its own."
                return Missing(names, because, failure.cause, cell.number, failure.traceback)
            if cell.skip:
                return Missing(
                    names,
                    f"cell {cell.number}, which defines {spoken}, is tagged {cell.skip!r} and is not run.",
                    "missing",
                    cell.number,
                )
        return Missing(names, f"no cell defines {spoken}.{self._misspelt(names)}", "missing")

    def _misspelt(self, names: Sequence[str]) -> str:
        """A sentence on a name in the notebook that may have been meant to be one of these; "" where there is none."""
        bound = {name: cell.number for cell in self._cells for name in sorted(cell.defines) if not cell.skip}
        asked = {name for task in self.lab.tasks for name in task.names}
        for name in names:
            if meant := difflib.get_close_matches(name, bound.keys() - asked, n=1, cutoff=0.8):
                return f" Cell {bound[meant[0]]} defines `{meant[0]}`: is that what was meant?"
        return ""

    def _give_up(self, task: Task, why: Died) -> None:
        self._missing.setdefault(task.name, task.names)
        self._stopped.setdefault(task.name, why)

    def _drop(self) -> None:
        if self._box is not None:
            self._box.close()
        self._box, self._loaded, self._served, self._threads = None, False, set(), False


def _mentions(cell: Cell, name: str) -> bool:
    """Whether a cell with a syntax error looks as if it would define `name`."""
    return (bool(cell.problem) and any(f"{word}{name}" in cell.source for word in ("def ", "class "))) or (
        bool(cell.problem) and f"{name} =" in cell.source
    )
