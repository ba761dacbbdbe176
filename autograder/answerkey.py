"""A lab's cases with their answers, from oracles that agree; drawn and asked in the background, shared by a batch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from autograder import generate
from autograder.cells import undisturbed
from autograder.compare import compare
from autograder.oracles import Answer, Oracle, OracleError, RuntimeUnsafe
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
    """Oracles that need no framework: finite differences, and properties written with NumPy.

    A second one beside it is named ``"numpy:what it is"``.
    """

    def __init__(self, name: str = "numpy") -> None:
        self.name = name

    @staticmethod
    def serves(name: str) -> bool:
        return name == "numpy" or name.startswith("numpy:")

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
    return {
        name: InProcess(name) if InProcess.serves(name) else Oracle(name, progress=progress) for name in sorted(names)
    }


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

    # Plain daemon threads: a command that ends early, because a file cannot be graded, must not wait for them.

    def _prepare(self) -> None:
        queues: dict[str, SimpleQueue[_Asking | None]] = {name: SimpleQueue() for name in self.oracles}
        for name, queue in queues.items():
            threading.Thread(target=self._serve, args=(name, queue), daemon=True).start()
        for task in self.tasks:
            try:
                # Hypothesis reads the source of the strategies.
                asking = _Asking(task, undisturbed(partial(generate.draw, task, self.seed)))
            except Exception as error:  # noqa: BLE001  a spec's own code; becomes `ungraded`, never the learner's fault
                fault = OracleError(f"the cases of {task.name} cannot be drawn: {type(error).__name__}: {error}")
                self._cases[task.name].set_exception(fault)
                continue
            for name in task.oracles:
                queues[name].put(asking)
        for queue in queues.values():
            queue.put(None)

    def _serve(self, name: str, queue: SimpleQueue[_Asking | None]) -> None:
        with contextlib.suppress(
            OracleError, RuntimeUnsafe, OSError
        ):  # asking says the same, to the task that needs it
            self.oracles[name].launch()
        while (asking := queue.get()) is not None:
            try:
                reply: list[Answer] | Exception = self.oracles[name].answer(self.lab, asking.task, asking.drawn)
            except Exception as error:  # noqa: BLE001  it is handed on to the task
                reply = error
            if asking.add(name, reply):
                self._settle(asking)

    def _settle(self, asking: _Asking) -> None:
        future = self._cases[asking.task.name]
        try:
            future.set_result(settle(asking.task, asking.drawn, asking.answers()))
        except OracleError as error:
            future.set_exception(error)
        except Exception as error:  # noqa: BLE001  a spec's judge, or a way to fail nobody thought of; `ungraded` as well
            future.set_exception(OracleError(f"{type(error).__name__}: {error}"))


class _Asking:
    """One task's cases on their way through the oracles."""

    def __init__(self, task: Task, drawn: list[Inputs]) -> None:
        self.task, self.drawn = task, drawn
        self._replies: dict[str, list[Answer] | Exception] = {}
        self._lock = threading.Lock()

    def add(self, name: str, reply: list[Answer] | Exception) -> bool:
        """Keep a reply; whether it was the last one that lacked."""
        with self._lock:
            self._replies[name] = reply
            return len(self._replies) == len(self.task.oracles)

    def answers(self) -> dict[str, list[Answer]]:
        for reply in self._replies.values():
            if isinstance(reply, Exception):
                raise reply
        return {name: reply for name, reply in self._replies.items() if isinstance(reply, list)}


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
