"""What a lab asks: tasks, the inputs they are tried on, and who knows the right answer.

A spec lives in a trusted process only. It is never mounted in a sandbox. What must run beside the
learner's code to turn plain data into a call (a *driver*) is kept apart, in ``autograder.drivers``,
and contains no answers.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

Inputs = dict[str, Any]
"""One case: keyword arguments for the driver; arrays, numbers, strings, lists and dicts of them."""

SPECS = Path(__file__).parent / "specs"


@dataclass(frozen=True)
class Tolerance:
    """How far an answer may be from the oracle's: ``|got - want| <= absolute + relative * |want|``."""

    relative: float
    absolute: float


FLOAT64 = Tolerance(relative=1e-8, absolute=1e-10)
FLOAT32 = Tolerance(relative=1e-4, absolute=1e-5)


@dataclass(frozen=True)
class Property:
    """One thing that is right or wrong about an answer on its own, and what it is worth.

    It holds if each case it concerns is answered, and nothing is wrong by its judge.

    Parameters
    ----------
    name, title : str
    points : float
    judge : callable or None, ``judge(inputs, got, want) -> list[str]``
        What is wrong with this, in words. None judges the whole answer as the task does.
    concerns : callable or None, ``concerns(inputs) -> bool``
        Which cases; None: all.
    cost : str
        A cost of the task: it holds where the answer stays within that, whatever else is wrong with it.
    """

    name: str
    title: str
    points: float
    judge: Callable[[Inputs, Any, Any], list[str]] | None = None
    concerns: Callable[[Inputs], bool] | None = None
    cost: str = ""


@dataclass(frozen=True)
class Cost:
    """Something that is counted while a task runs, and how much of it an answer may use; see `costs`.

    Parameters
    ----------
    name : str
        As the driver reports it: ``"operations"``, ``"entries"`` or ``"bytes"`` of a `Meter`, or a count of its own.
    title : str
    limit : callable, ``limit(**inputs) -> float``
        What a case allows.
    formula : str
        The limit in words and letters, for the learner: ``"one for each node"``.
    unit : str
    """

    name: str
    title: str
    limit: Callable[..., float]
    formula: str
    unit: str = ""


@dataclass(frozen=True)
class Hint:
    """A hint that opens after several different answers to a task have gone wrong in the same way; see `hints`.

    Parameters
    ----------
    about : str
        A pattern that the feedback to such an answer matches, as a mutant's is.
    words : str
        Where to look. Never the answer, nor a piece of it.
    after : int
        How many such answers it takes, at least 2.
    """

    about: str
    words: str
    after: int = 3


@dataclass(frozen=True)
class Task:
    """One thing a learner writes.

    Parameters
    ----------
    name : str
        As in ``check("name")`` and in the cell metadata.
    title : str
        A short sentence for the feedback page.
    points : float
        What full marks are worth.
    names : tuple of str
        What the notebook must define for this task.
    driver : str
        A function in ``autograder.drivers.<lab>``: ``driver(names, **inputs) -> plain data``, where
        ``names`` maps each of `names` to what the learner bound to it. It runs in the sandbox.
    call : callable, ``call(**inputs) -> str``
        Source lines that replay a case in the learner's own notebook; shown in the feedback.
    strategy : callable, ``strategy() -> hypothesis.strategies.SearchStrategy[Inputs]``
        Random cases. A callable, so that importing a spec does not import hypothesis.
    edges : callable, ``edges(rng: numpy.random.Generator) -> list[Inputs]``
        Cases that are always tried: 0-d, size 0, size 1, negative strides, broadcasts; fresh random values.
    oracles : mapping of str to callable, ``oracle(framework, **inputs) -> plain data``
        At least two. Keys name an oracle process ("torch", "tensorflow") or "numpy" (finite differences and
        properties, run in the grading process). They must agree with each other before they judge anyone.
    judge : callable or None, ``judge(inputs, got, want) -> list[str]``
        Replaces the comparison where many answers are right (an order, a refusal). Returns what is wrong, in words.
    tolerance : Tolerance or None
        None picks by the dtype of the expected array.
    examples : int
        How many random cases are drawn beside the edges.
    limit : float
        Seconds one call may take.
    show : callable or None, ``show(answer) -> str``
        An answer, the oracle's or the learner's, in the words of the lab, where a driver had to put it together.
        It is given whatever came out of the sandbox, and may raise on what it does not know. Where it is given, a
        case is shown by its replay alone.
    hints : mapping of str to str
        Diagnosis name to one more sentence, specific to this task.
    """

    name: str
    title: str
    points: float
    names: tuple[str, ...]
    driver: str
    call: Callable[..., str]
    strategy: Callable[[], Any]
    edges: Callable[[Any], list[Inputs]]
    oracles: Mapping[str, Callable[..., Any]]
    judge: Callable[[Inputs, Any, Any], list[str]] | None = None
    tolerance: Tolerance | None = None
    examples: int = 25
    limit: float = 2.0
    show: Callable[[Any], str] | None = None
    hints: Mapping[str, str] = field(default_factory=dict)
    properties: tuple[Property, ...] = ()
    """What earns part of the points where the whole is not right; their points add up to the task's."""
    costs: tuple[Cost, ...] = ()
    """What is counted; an answer that is right, and uses more than is allowed, is not."""
    unlocks: tuple[Hint, ...] = ()
    """Hints that open after several tries; those in `hints` are always told."""


@dataclass(frozen=True)
class Written:
    """A question answered in words (or in code no test can judge), in a cell of its own, which a person marks.

    Parameters
    ----------
    name : str
        The ``grade_id`` of the cell.
    title : str
    points : float
        Full marks of the lab need all of them.
    rubric : str
        What earns the points, for whoever reads the answers; no learner is shown it.
    """

    name: str
    title: str
    points: float
    rubric: str = ""


@dataclass(frozen=True)
class Lab:
    """A lab: its tasks, and what its learner's code may import in the sandbox.

    `packages` names installed distributions (their own requirements are mounted with them); the standard
    library is always there. Frameworks, specs and solutions never are.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    packages: tuple[str, ...] = ("numpy", "ipython", "matplotlib")
    cell_limit: float = 10.0
    total_limit: float = 120.0
    memory_bytes: int = 1 << 30
    processes: int = 1
    """How many processes a learner's code may have; 1: it can't start another. Threads are always allowed."""
    loopback: bool = False
    """Whether they may talk over TCP, where the sandbox has a network of its own with a loopback and nothing else."""
    variants: bool = False
    """Whether every learner gets inputs of their own, the same at each official grading; see `autograder.variants`."""
    written: tuple[Written, ...] = ()
    """Questions that a person marks, beside the tasks."""

    def __post_init__(self) -> None:
        names = [one.name for one in self.parts]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{self.name}: two of its tasks are called {twice!r}; rename one.")
        for question in self.written:
            if not question.points > 0:
                raise ValueError(f"{self.name}/{question.name}: it is worth {question.points:g} points; give it some.")
        for task in self.tasks:
            for hint in task.unlocks:
                if hint.after < 2:
                    raise ValueError(
                        f"{self.name}/{task.name}: a hint opens after {hint.after} tries; give 2 or more, or put it "
                        "among the hints that are always told."
                    )
            if len(task.oracles) < 2:
                raise ValueError(
                    f"{self.name}/{task.name}: {len(task.oracles)} oracle given, at least 2 needed; add another."
                )
            counted = {cost.name for cost in task.costs}
            unknown = next((one.cost for one in task.properties if one.cost and one.cost not in counted), "")
            if unknown:
                raise ValueError(f"{self.name}/{task.name}: a property is about the cost {unknown!r}, which it lacks.")
            worth = sum(one.points for one in task.properties)
            if task.properties and (abs(worth - task.points) > 1e-9 or min(p.points for p in task.properties) <= 0):
                raise ValueError(
                    f"{self.name}/{task.name}: its properties are worth {worth:g} points, the task {task.points:g}; "
                    "give each some, which add up to the task's."
                )
            if len({one.name for one in task.properties}) < len(task.properties):
                raise ValueError(f"{self.name}/{task.name}: two of its properties have one name; rename one.")

    @property
    def parts(self) -> tuple[Task | Written, ...]:
        """Everything that is worth points: the tasks, then what is answered in words."""
        return (*self.tasks, *self.written)

    @property
    def points(self) -> float:
        return sum(one.points for one in self.parts)

    def task(self, name: str) -> Task:
        for task in self.tasks:
            if task.name == name:
                return task
        raise self._unknown(name)

    def ask(self, names: Sequence[str]) -> tuple[tuple[Task, ...], tuple[Written, ...]]:
        """What is called so: what is tried, and what is read.

        Raises
        ------
        ValueError
            The lab has nothing of some name.
        """
        by_name = {one.name: one for one in self.parts}
        for name in names:
            if name not in by_name:
                raise self._unknown(name)
        asked = [by_name[name] for name in names]
        return tuple(one for one in asked if isinstance(one, Task)), tuple(
            one for one in asked if isinstance(one, Written)
        )

    def _unknown(self, name: str) -> ValueError:
        known = ", ".join(one.name for one in self.parts)
        return ValueError(f"{self.name} has no task {name!r}; it has {known}.")

    @cached_property
    def version(self) -> str:
        """A digest of the spec, files beside it that bear its name, and its driver: same digest, same questions."""
        digest = hashlib.sha256()
        for kind in ("specs", "drivers"):
            for path in sorted((SPECS.parent / kind).glob(f"*{self.name}*.py")):
                digest.update(path.read_bytes())
        return digest.hexdigest()[:12]


def lab_names() -> list[str]:
    """The labs there are, in order."""
    return sorted(path.stem for path in SPECS.glob("lab*.py"))


def load_lab(name: str) -> Lab:
    """The lab called `name` (``"lab05_tape"``, or an unambiguous start such as ``"lab05"``)."""
    matches = [known for known in lab_names() if known == name] or [
        known for known in lab_names() if known.startswith(name)
    ]
    if len(matches) != 1:
        raise ValueError(f"no lab is called {name!r}; there are {', '.join(lab_names())}.")
    module = importlib.import_module(f"autograder.specs.{matches[0]}")
    lab = getattr(module, "lab", None)
    if not isinstance(lab, Lab) or lab.name != matches[0]:
        raise ValueError(
            f"autograder/specs/{matches[0]}.py defines no `lab` of that name: lab = Lab({matches[0]!r}, ...)."
        )
    return lab


def driver_source(lab: Lab) -> str:
    """The source of the lab's drivers, as it is sent to the sandbox."""
    return inspect.getsource(importlib.import_module(f"autograder.drivers.{lab.name}"))
