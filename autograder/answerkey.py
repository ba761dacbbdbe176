"""The cases of a lab with their answers, from oracles that agree; drawn and asked in the background, shared by a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from autograder import generate
from autograder.compare import compare
from autograder.oracles import Answer, Oracle, OracleError
from autograder.spec import Inputs, Lab, Task


class Asked(Protocol):
    """What answers cases: a framework's process, or this one."""

    def launch(self) -> None: ...

    def answer(self, lab: Lab, task: Task, cases: Sequence[Inputs]) -> list[Answer]: ...


@dataclass(frozen=True)
class Case:
    inputs: Inputs
    want: Any


class InProcess:
    """Oracles that need no framework: finite differences, and properties written with NumPy."""

    name = "numpy"

    def launch(self) -> None:
        """Nothing to start."""

    def answer(self, lab: Lab, task: Task, cases: Sequence[Inputs]) -> list[Answer]:
        import numpy

        answers = []
        for inputs in cases:
            try:
                answers.append(Answer(value=task.oracles[self.name](numpy, **inputs)))
            except Exception as error:  # noqa: BLE001  a spec's own code; becomes `ungraded`, never the learner's fault
                answers.append(Answer(error=f"{type(error).__name__}: {error}"))
        return answers


def oracles_of(lab: Lab, progress: Callable[[str], None] | None = None) -> dict[str, Asked]:
    """Every oracle the tasks of `lab` name."""
    names = {name for task in lab.tasks for name in task.oracles}
    return {name: InProcess() if name == InProcess.name else Oracle(name, progress=progress) for name in sorted(names)}


class AnswerKey:
    """Cases and answers of one lab for one seed.

    Parameters
    ----------
    lab : Lab
    seed : int
    oracles : mapping, optional
        By name; by default the processes of this user. Those that are down are started at once.
    tasks : sequence of Task, optional
        Only these, in this order.
    """

    def __init__(
        self, lab: Lab, seed: int, oracles: Mapping[str, Asked] | None = None, tasks: Sequence[Task] | None = None
    ) -> None:
        self.lab, self.seed = lab, seed
        self.oracles = oracles_of(lab) if oracles is None else oracles
        self.tasks = lab.tasks if tasks is None else tuple(tasks)
        self._cases: dict[str, Future[list[Case]]] = {task.name: Future() for task in self.tasks}
        self._started = False
        self._lock = threading.Lock()

    def start(self) -> AnswerKey:
        """Begin to draw and ask, in the background. Returns at once; a second call does nothing."""
        with self._lock:
            if not self._started:
                self._started = True
                threading.Thread(target=self._prepare, daemon=True).start()
        return self

    def cases(self, task: Task) -> list[Case]:
        """The cases of `task`; waits for them.

        Raises
        ------
        OracleError
            An oracle cannot answer, or two of them disagree.
        """
        return self.start()._cases[task.name].result()

    def want(self, task: Task, inputs: Inputs) -> Any:
        """The answer to one more case."""
        replies = {name: self.oracles[name].answer(self.lab, task, [inputs]) for name in task.oracles}
        return settle(task, [inputs], replies)[0].want

    def _prepare(self) -> None:
        with ThreadPoolExecutor(max_workers=len(self.oracles) + len(self.tasks)) as pool:
            for name in sorted(self.oracles, key="torch tensorflow".find, reverse=True):
                pool.submit(self._launch, name)
            lanes = {name: threading.Lock() for name in self.oracles}
            for task in self.tasks:
                try:
                    drawn = generate.draw(task, self.seed)
                except Exception as error:  # noqa: BLE001  a spec's own code
                    self._cases[task.name].set_exception(
                        OracleError(f"{task.name}: its cases cannot be drawn: {type(error).__name__}: {error}")
                    )
                    continue
                asked = {name: pool.submit(self._ask, name, lanes[name], task, drawn) for name in task.oracles}
                pool.submit(self._settle, task, drawn, asked)

    def _launch(self, name: str) -> None:
        try:
            self.oracles[name].launch()
        except (OracleError, OSError, RuntimeError):
            # Asking it will say the same, to the task that needs it.
            return

    def _ask(self, name: str, lane: threading.Lock, task: Task, drawn: list[Inputs]) -> list[Answer]:
        with lane:
            return self.oracles[name].answer(self.lab, task, drawn)

    def _settle(self, task: Task, drawn: list[Inputs], asked: dict[str, Future[list[Answer]]]) -> None:
        try:
            self._cases[task.name].set_result(
                settle(task, drawn, {name: future.result() for name, future in asked.items()})
            )
        except Exception as error:  # noqa: BLE001  it is handed on
            fault = error if isinstance(error, OracleError) else OracleError(f"{type(error).__name__}: {error}")
            self._cases[task.name].set_exception(fault)


def settle(task: Task, drawn: Sequence[Inputs], replies: Mapping[str, list[Answer]]) -> list[Case]:
    """Cases with the answer that all oracles agree on.

    Raises
    ------
    OracleError
        One has no answer; or one's answer differs from the first's, and the task's judge does not accept both.
    """
    settled = []
    names = list(task.oracles)
    for position, inputs in enumerate(drawn):
        answers = {name: replies[name][position] for name in names}
        for name, answer in answers.items():
            if answer.error:
                raise OracleError(f"{name} has no answer to case {position + 1} of {task.name}: {answer.error}")
        want = answers[names[0]].value
        for name in names[1:]:
            differ = compare(answers[name].value, want, task.tolerance)
            if differ and (task.judge is None or task.judge(inputs, answers[name].value, want)):
                raise OracleError(
                    f"{names[0]} and {name} disagree on case {position + 1} of {task.name}: {differ[0].message}"
                )
        settled.append(Case(inputs, want))
    return settled
