"""One task of one submission: call it on every case, compare, and put what came of it into words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from autograder import generate
from autograder.answerkey import AnswerKey, Case
from autograder.cells import printable
from autograder.compare import compare, describe
from autograder.costs import NotCounted, sentence, split, worst
from autograder.diagnose import rank
from autograder.diagnose_raised import diagnose_raised
from autograder.evidence import Evidence
from autograder.literal import CHARACTERS, assignments, literal
from autograder.oracles import OracleError
from autograder.patterns import pattern
from autograder.report import Cause, CostResult, CounterExample, PropertyResult, TaskResult, Verdict
from autograder.run import Answer, Died, Missing, Outcome, Raised
from autograder.spec import Inputs, Property, Task

SHRINK_SECONDS = 2.0
SMALL = 12
"""A failing case of this size (see `generate.size`) is small enough to read; none smaller is looked for."""

PATIENCE = 5
"""A task's cases may take this many times the limit of one call, all together."""

SLOW, OVERDUE = 0.2, 3
"""A case that fails and takes this share of the limit of one call is overdue; so many of them are enough."""

EXAMINED = 12
"""Wrong answers that are diagnosed, the smallest first."""

SENTENCE = 600
"""Characters of what is said about one fault."""

REFUSED: tuple[Cause, ...] = ("network", "files", "processes", "input")


class Calls(Protocol):
    """What is asked of a `run.Runner`."""

    def reach(self, task: Task) -> None: ...

    def call(self, task: Task, inputs: Inputs) -> Outcome: ...

    def shared(self, task: Task) -> bool: ...

    def renew(self) -> None: ...

    def notes(self, task: Task) -> list[str]: ...


@dataclass
class Tried:
    """A case, what came, and what is wrong with it."""

    case: Case
    outcome: Outcome
    faults: list[str] = field(default_factory=list)
    costs: list[CostResult] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return isinstance(self.outcome, Answer) and not self.faults and not self.over

    @property
    def over(self) -> list[CostResult]:
        """What it used more of than it may."""
        return [cost for cost in self.costs if not cost.holds]

    @property
    def only_costly(self) -> bool:
        return isinstance(self.outcome, Answer) and not self.faults and bool(self.over)

    @property
    def kind(self) -> str:
        return self.outcome.type if isinstance(self.outcome, Raised) else type(self.outcome).__name__


Watch = Callable[[Task, Sequence[Tried]], None]
"""Shown every case of a task with what came of it, once all are tried."""


def judge_task(runner: Calls, key: AnswerKey, task: Task, watch: Watch | None = None) -> TaskResult:
    """The result of `task`.

    Raises
    ------
    OracleError
        There is no answer to compare with; the task is to be `ungraded`.
    """
    runner.reach(task)
    tried, slow = try_all(runner, task, key.cases(task))
    if watch is not None:
        watch(task, tried)
    failing = [one for one in tried if not one.passed]
    notes = list(runner.notes(task))
    if any(isinstance(one.outcome, Answer) and one.outcome.cut for one in tried):
        notes.append("It prints more than is kept; the rest was cut.")
    parts = judge_properties(task, key.cases(task), tried)
    if not failing and not slow:
        result = TaskResult(task.name, task.title, task.points, task.points, "right")
    else:
        result = explain(runner, key, task, tried, failing) if failing else too_slow(task, tried)
        result.points = sum(part.points for part in parts)
    result.notes, result.cases, result.properties = notes, len(tried), parts
    result.costs = worst(one.costs for one in tried)
    return result


def judge_properties(task: Task, cases: Sequence[Case], tried: Sequence[Tried]) -> list[PropertyResult]:
    """Which parts of a task hold. A case that was not reached, or raised, holds nothing.

    Raises
    ------
    OracleError
        A property that concerns no case: nothing could be said about it.
    """
    results = []
    for part in task.properties:
        mine = [place for place, case in enumerate(cases) if part.concerns is None or part.concerns(case.inputs)]
        if not mine:
            raise OracleError(f"the property {part.name} of {task.name} concerns none of its cases.")
        holds = all(place < len(tried) and _has(task, part, tried[place]) for place in mine)
        results.append(PropertyResult(part.name, part.title, part.points if holds else 0.0, part.points))
    return results


def _has(task: Task, part: Property, one: Tried) -> bool:
    if not isinstance(one.outcome, Answer):
        return False
    if part.cost:
        return all(cost.holds for cost in one.costs if cost.name == part.cost)
    return not _faults(replace(task, judge=part.judge or task.judge, properties=()), one.case, one.outcome.value)


def try_all(runner: Calls, task: Task, cases: list[Case]) -> tuple[list[Tried], bool]:
    """Call the task on its cases until the sandbox dies or the patience ends; whether it ended.

    Where a few cases fail and each takes long, as ranks in an endless loop do, the verdict is known and the others are
    not waited for, unless points are given for parts of it. The first case that fails where another task has been
    called is tried once more in a sandbox where none has: what that task left behind is not this one's fault.
    """
    tried: list[Tried] = []
    deadline = time.monotonic() + PATIENCE * task.limit
    overdue = 0
    for case in cases:
        began = time.monotonic()
        tried.append(try_one(runner, task, case))
        if _perhaps_hurt(tried[-1]) and runner.shared(task):
            runner.renew()
            tried[-1] = try_one(runner, task, case)
            if tried[-1].passed:
                return try_all(runner, task, cases)
        if isinstance(tried[-1].outcome, (Died, Missing)):
            break
        overdue += not tried[-1].passed and time.monotonic() - began > SLOW * task.limit
        if overdue == OVERDUE and not task.properties:
            break
        if time.monotonic() > deadline and len(tried) < len(cases):
            return tried, True
    return tried, False


def _perhaps_hurt(one: Tried) -> bool:
    """Whether what another task left behind may be why this one failed; a hole in the notebook is no such thing."""
    return not one.passed and not isinstance(one.outcome, (Died, Missing)) and one.kind != "NotImplementedError"


def try_one(runner: Calls, task: Task, case: Case) -> Tried:
    outcome = runner.call(task, case.inputs)
    if not isinstance(outcome, Answer):
        return Tried(case, outcome)
    try:
        value, counted = split(task, case.inputs, outcome.value)
    except NotCounted as error:
        return Tried(case, outcome, [f"What it costs could not be counted: {error}."])
    return Tried(case, replace(outcome, value=value), faults(task, case, value), counted)


def faults(task: Task, case: Case, got: Any) -> list[str]:
    """What is wrong with an answer, in words; empty when it is right."""
    # Names and texts in the answer are the learner's: they may be long, and may hold what steers a terminal.
    return [
        printable(fault[:SENTENCE]) + (" ..." if len(fault) > SENTENCE else "")
        for fault in _faults(task, case, got)[:EXAMINED]
    ]


def _faults(task: Task, case: Case, got: Any) -> list[str]:
    for part in task.properties:
        # What only a property looks at, such as memory, is part of being right.
        if part.judge is not None and (part.concerns is None or part.concerns(case.inputs)):
            wrong = _faults(replace(task, judge=part.judge, properties=()), case, got)
            if wrong:
                return _faults(replace(task, properties=()), case, got) or wrong
    if task.judge is None:
        return [mismatch.message for mismatch in compare(got, case.want, task.tolerance)]
    try:
        return task.judge(case.inputs, got, case.want)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        # Judges are written for answers of the right form; what came from the sandbox may have any.
        return [mismatch.message for mismatch in compare(got, case.want)] or [
            f"The result, {describe(got)}, cannot be judged."
        ]


def explain(runner: Calls, key: AnswerKey, task: Task, tried: list[Tried], failing: list[Tried]) -> TaskResult:
    """The result of a task of which some case fails."""
    failing = sorted(failing, key=lambda one: generate.size(one.case.inputs))
    costly = [one for one in failing if one.only_costly]
    if costly and not any(one.faults or isinstance(one.outcome, Raised) for one in failing):
        return too_costly(runner, key, task, tried, costly)
    failing = [one for one in failing if not one.only_costly]
    first = failing[0]
    dead = next((one for one in failing if isinstance(one.outcome, (Died, Missing))), None)
    if dead is not None:
        # Without a sandbox nothing smaller can be looked for; an answer that is wrong is still the better story.
        first = dead if first.kind != "Answer" else first
    elif generate.size(first.case.inputs) > SMALL:
        smaller = smaller_case(runner, key, task, first)
        if smaller is not None:
            failing.insert(0, smaller)
            first = smaller
    outcome = first.outcome
    if isinstance(outcome, Missing):
        return missing(task, outcome)
    if isinstance(outcome, Died):
        return died(task, outcome, first)
    where = pattern([(one.case.inputs, one.passed) for one in tried]) if dead is None else []
    many = f"{sum(not one.passed for one in tried)} of {len(tried)} cases" if len(tried) > 1 else "It"
    if isinstance(outcome, Raised):
        return raised(task, outcome, first, many, where)
    wrong = [one for one in failing if isinstance(one.outcome, Answer)][:EXAMINED]
    if task.judge is None and (task.properties or task.costs):
        # Where only a property found fault, the values have nothing to say.
        wrong = [one for one in wrong if evidence_of(key, task, one).mismatches]
    if task.judge is None:
        kinds = rank([evidence_of(key, task, one) for one in wrong], task.hints)
        # The case that is shown is one that the first sentence is about.
        first = wrong[kinds[0].example] if kinds else first
        words = [kind.sentence for kind in kinds] + where
    else:
        # The judge knows what is asked; a general diagnosis would talk past it.
        words = first.faults[1:3] + where
    lead = f"{many} come out wrong. In the smallest: " if len(tried) > 1 else "It comes out wrong: "
    message = lead + first.faults[0]
    result = TaskResult(task.name, task.title, 0.0, task.points, "wrong", "value", message, words)
    result.counter_example = counter_example(task, first)
    return result


def too_costly(runner: Calls, key: AnswerKey, task: Task, tried: list[Tried], costly: list[Tried]) -> TaskResult:
    """The result of a task whose answers are right, and use too much of something."""
    first = costly[0]
    alive = not any(isinstance(one.outcome, (Died, Missing)) for one in tried)
    if alive and generate.size(first.case.inputs) > SMALL:
        smaller = smaller_case(runner, key, task, first)
        first = smaller if smaller is not None and smaller.only_costly else first
    over = first.over[0]
    many = f"{len(costly)} of {len(tried)} cases" if len(tried) > 1 else "the case that was tried"
    message = f"Right, but too costly in {many}. {'In the smallest: ' if len(tried) > 1 else ''}{sentence(over)}"
    words = [task.hints["cost"]] if "cost" in task.hints else []
    words += pattern([(one.case.inputs, one.passed) for one in tried]) if alive else []
    result = TaskResult(task.name, task.title, 0.0, task.points, "wrong", "cost", message, words)
    result.counter_example = counter_example(task, first, f"the right answer; {sentence(over)}")
    return result


def raised(task: Task, outcome: Raised, first: Tried, many: str, where: list[str]) -> TaskResult:
    verdict: Verdict = "refused" if outcome.cause in REFUSED else "failed"
    what = f"{outcome.type}: {outcome.message}" if outcome.message else outcome.type
    words = diagnose_raised(outcome.type, outcome.message, task.hints)
    unwritten = outcome.type == "NotImplementedError"
    calls = re.findall(r"^ *cell \d+, line \d+, in (\w+)$", outcome.traceback, re.MULTILINE)
    who = f"`{calls[-1]}`" if calls else "it"  # the hole may be that of another task, which this one calls
    # What came back had not the form that was asked for: the grader says so, and no line of the learner's raised.
    form = not outcome.traceback and outcome.type in ("TypeError", "ValueError") and outcome.message
    if form:
        what = outcome.message
        raises = what if many == "It" else f"{many}: {what}"
    else:
        raises = f"{many} raised {what}"
    message = f"Not written yet: {who} raises {what}." if unwritten else raises
    result = TaskResult(task.name, task.title, 0.0, task.points, verdict, outcome.cause, message, words)
    result.traceback = outcome.traceback
    if not unwritten:  # else every case fails, and which does not matter
        result.diagnosis += where
    result.counter_example = counter_example(task, first, what)
    return result


def evidence_of(key: AnswerKey, task: Task, one: Tried) -> Evidence:
    """What the diagnosis gets to see of a wrong answer."""

    def ask(inputs: Inputs) -> Any:
        try:
            return key.want(task, inputs)
        except OracleError:
            return None

    assert isinstance(one.outcome, Answer)
    got, want = one.outcome.value, one.case.want
    return Evidence(one.case.inputs, want, got, compare(got, want, task.tolerance), ask, task.tolerance)


def smaller_case(runner: Calls, key: AnswerKey, task: Task, first: Tried) -> Tried | None:
    """A smaller case that goes wrong in the same way, if one is found in time."""
    found: list[Tried] = []

    def fails(inputs: Inputs) -> bool:
        try:
            one = try_one(runner, task, Case(inputs, key.want(task, inputs)))
        except OracleError:
            return False
        if isinstance(one.outcome, (Died, Missing)):
            raise generate.Enough
        if one.passed or one.kind != first.kind or one.only_costly != first.only_costly:
            return False
        found.append(one)
        return True

    generate.shrink(task, key.seed, fails, seconds=SHRINK_SECONDS)
    best = min(found, key=lambda one: generate.size(one.case.inputs), default=None)
    smaller = best is not None and generate.size(best.case.inputs) < generate.size(first.case.inputs)
    return best if smaller else None


def counter_example(task: Task, one: Tried, came: str = "") -> CounterExample:
    """The case as the learner sees it; `came` says what came where that is no answer."""
    inputs = one.case.inputs
    if not came:
        assert isinstance(one.outcome, Answer)
        came = shown(task, one.outcome.value)
    # Long inputs are made by the replay's own lines where the spec knows a shorter way; here they are only named.
    before = "" if task.show else assignments(inputs)
    return CounterExample(
        before, shown(task, one.case.want), came[:CHARACTERS], task.call(**inputs), list(task.oracles)
    )


def shown(task: Task, answer: Any) -> str:
    """An answer in the words of the task, or as source where it has none for it."""
    if task.show is None:
        return literal(answer)
    try:
        return printable(task.show(answer)[:CHARACTERS])
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        return literal(answer)  # what came from the sandbox may have any form


def missing(task: Task, outcome: Missing) -> TaskResult:
    verdict: Verdict = "missing" if outcome.cause == "missing" else "refused" if outcome.cause in REFUSED else "failed"
    names = " and ".join(f"`{name}`" for name in outcome.names)
    because = outcome.because[:1].upper() + outcome.because[1:]
    message = because if any(name in because for name in outcome.names) else f"{names} cannot be had: {outcome.because}"
    return TaskResult(
        task.name, task.title, 0.0, task.points, verdict, outcome.cause, message, traceback=outcome.traceback
    )


ADVICE: dict[str, str] = {
    "time": "Look for a loop that never ends, or work that grows with the square of the input.",
    "memory": "Look for a list or an array that grows in a loop, or a broadcast that makes one far too large.",
    "exit": "A function must return its answer; exit() and os._exit() end the whole program.",
    "signal": "Python itself crashed, as native code does when memory is misused; ctypes is a common cause.",
    "output": "Remove the print that runs in a loop.",
    "processes": "The lab needs no other processes.",
    "network": "The lab needs no network.",
    "files": "The lab needs no files outside its own directory.",
    "input": "Nobody can answer input() while the lab is graded; give the value in the code.",
    "protocol": "Something in the notebook wrote where only the grader writes, or replaced a part of Python itself.",
}


def died(task: Task, outcome: Died, one: Tried) -> TaskResult:
    verdict: Verdict = "refused" if outcome.cause in REFUSED else "failed"
    detail = outcome.detail[:1].upper() + outcome.detail[1:]
    result = TaskResult(task.name, task.title, 0.0, task.points, verdict, outcome.cause, f"{detail.rstrip('.')}.")
    result.diagnosis = [words for words in (ADVICE.get(outcome.cause), task.hints.get(outcome.cause)) if words]
    result.counter_example = counter_example(task, one, outcome.detail)
    return result


def too_slow(task: Task, tried: list[Tried]) -> TaskResult:
    message = (
        f"Right so far, but too slow: {len(tried)} cases took {PATIENCE * task.limit:g} s, all that there is for "
        "this task."
    )
    return TaskResult(task.name, task.title, 0.0, task.points, "failed", "time", message, [ADVICE["time"]])
