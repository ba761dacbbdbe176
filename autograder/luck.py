"""Whether what a task's mutants get depends on the cases that were drawn.

A lab is graded with cases of a fresh seed each time. A wrong answer that no fixed case finds passes at some seeds, and
a right one may fail where an oracle or a tolerance is at its end. Both show when every mutant is graded at many seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from autograder.answerkey import AnswerKey, Asked, Case, oracles_of
from autograder.mutants import Sample, answered, samples_of
from autograder.notebook import parse_notebook
from autograder.oracles import OracleError
from autograder.output import say
from autograder.run import Answer, Died, Missing, Raised, Runner
from autograder.spec import Lab, Task
from autograder.verdict import Tried, judge_properties, try_all, try_one

ENOUGH = 2
"""Failing cases after which a wrong answer that an edge has found is not asked for more."""

RARE = 1e-4
"""A wrong answer that fewer draws let pass is no longer spoken of."""

HANGS = 2
"""Seeds at which a wrong answer may end its sandbox in an edge; at the others it would, too, after a long wait."""

SEEDS_TOLD = 5
"""How many seeds are named, so that what happened can be seen again."""


@dataclass
class Drawn:
    """A task's cases at one seed; the first `edges` of them are tried at any seed, with other numbers in them."""

    seed: int
    cases: list[Case]
    edges: int


@dataclass
class Fate:
    """What one mutant got at each seed."""

    sample: Sample
    passed: dict[int, float] = field(default_factory=dict)
    """Points by seed, where it earned some."""
    failed: dict[int, str] = field(default_factory=dict)
    """The first thing that was wrong, by seed, where it did not earn all."""
    thin: list[int] = field(default_factory=list)
    """Seeds where one case alone found it."""
    random: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Random cases that found it, of how many, by seed, where no edge did."""
    graded: int = 0
    """At how many seeds."""

    @property
    def lucky(self) -> dict[int, float] | dict[int, str]:
        """The seeds where it got what it does not deserve."""
        return self.passed if self.sample.kind == "wrong" else self.failed

    @property
    def chance(self) -> float:
        """The share of draws that let it pass, guessed from how often one random case finds it."""
        if not self.random:
            return 0.0
        found, cases = (sum(column) for column in zip(*self.random.values(), strict=True))
        missed = (1 - found / cases) ** (cases / len(self.random)) if cases else 1.0
        return missed * len(self.random) / self.graded


@dataclass
class TaskLuck:
    """What came of all mutants of a task; `unasked` holds seeds without answers to compare with, and why."""

    task: Task
    seeds: int
    cases: int
    fates: list[Fate]
    unasked: dict[int, str] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not self.unasked and not any(fate.lucky for fate in self.fates)

    def lines(self) -> Iterator[str]:
        """A line for the task, and one for each mutant that got lucky, or nearly."""
        wrong = sum(fate.sample.kind == "wrong" for fate in self.fates)
        yield (
            f"{self.task.name}: {self.seeds} seeds, about {self.cases} cases each; "
            f"{wrong} wrong answers, {len(self.fates) - wrong} right ones"
        )
        for seed, why in self.unasked.items():
            yield f"  seed {seed} cannot be graded: {why}"
        for fate in self.fates:
            yield from told(fate, self.seeds, self.task.points)


def told(fate: Fate, seeds: int, points: float) -> Iterator[str]:
    """What there is to say about one mutant; nothing, where it always gets what it deserves."""
    title = fate.sample.title
    if fate.sample.kind == "right":
        if fate.failed:
            first = next(iter(fate.failed.values()))
            yield f"  FAILS at {among(fate.failed, seeds)}: the right answer {title!r}: {first}"
        return
    if fate.passed:
        part = "" if max(fate.passed.values()) == points else f" for {max(fate.passed.values()):g} of {points:g} points"
        yield f"  PASSES{part} at {among(fate.passed, seeds)}: the wrong answer {title!r}"
    if fate.chance >= RARE:
        yield (
            f"  AT RANDOM: no edge finds it at {among(fate.random, seeds)}, "
            f"so about 1 draw in {1 / fate.chance:.0f} lets it pass: {title!r}"
        )
    elif fate.thin:
        yield f"  thin: one case alone finds it at {len(fate.thin)} of {seeds} seeds: {title!r}"


def among(found: Mapping[int, Any], seeds: int) -> str:
    """How many of the seeds, and the first of them."""
    more = ", ..." if len(found) > SEEDS_TOLD else ""
    return f"{len(found)} of {seeds} seeds ({', '.join(map(str, [*found][:SEEDS_TOLD]))}{more})"


def luck_of(
    lab: Lab, task: Task, root: Path, seeds: Sequence[int], oracles: Mapping[str, Asked] | None = None
) -> TaskLuck:
    """Grade every mutant of a task at every seed, in one sandbox each, without a word of explanation.

    Parameters
    ----------
    lab : Lab
    task : Task
        One of the lab's.
    root : Path
        The project's folder, with ``labs/solutions`` and ``tests/mutants`` in it.
    seeds : sequence of int
    oracles : mapping, optional
        Instead of this user's oracle processes.

    Raises
    ------
    MutantError
        The file of mutants cannot be read.
    """
    oracles = oracles_of(lab) if oracles is None else oracles
    draws, unasked = [], {}
    for seed in seeds:
        try:
            cases = AnswerKey(lab, seed, oracles, [task]).cases(task)
        except OracleError as error:
            unasked[seed] = str(error)
            continue
        draws.append(Drawn(seed, cases, len(list(task.edges(np.random.default_rng(seed))))))
    fates = [fate_of(lab, task, root, sample, draws) for sample in samples_of(root, lab.name, task.name)]
    most = max((len(drawn.cases) for drawn in draws), default=0)
    return TaskLuck(task, len(seeds), most, fates, unasked)


def fate_of(lab: Lab, task: Task, root: Path, sample: Sample, draws: Sequence[Drawn]) -> Fate:
    """What one mutant gets at each seed."""
    fate, hangs = Fate(sample), 0
    patient = replace(lab, total_limit=lab.total_limit * max(1, len(draws)))  # one notebook stands for many
    with Runner(patient, parse_notebook(answered(root, sample), f"{lab.name}.ipynb").cells) as runner:
        runner.reach(task)
        for drawn in draws:
            whole = sample.kind == "right" or bool(task.properties)
            tried, slow = try_all(runner, task, drawn.cases) if whole else (try_few(runner, task, drawn), False)
            fate.graded += 1
            failing = [place for place, one in enumerate(tried) if not one.passed]
            lost = bool(failing) or slow
            points = sum(part.points for part in judge_properties(task, drawn.cases, tried)) if lost else task.points
            if points:
                fate.passed[drawn.seed] = points
            if lost:
                fate.failed[drawn.seed] = why(tried[failing[0]]) if failing else "all its cases take too long together."
            ended = isinstance(tried[-1].outcome, (Died, Missing))
            hangs += ended and len(tried) <= drawn.edges
            if len(failing) == 1 and not ended:
                fate.thin.append(drawn.seed)
            if sample.kind == "wrong" and not any(place < drawn.edges for place in failing):
                fate.random[drawn.seed] = len(failing), len(tried) - drawn.edges
            if hangs == HANGS and sample.kind == "wrong":
                break
    return fate


def try_few(runner: Runner, task: Task, drawn: Drawn) -> list[Tried]:
    """The cases until it is clear that the answer is wrong; all, where no edge makes it clear."""
    tried: list[Tried] = []
    failing = at_random = 0
    for case in drawn.cases:
        tried.append(try_one(runner, task, case))
        failing += not tried[-1].passed
        at_random += not tried[-1].passed and len(tried) > drawn.edges
        if (failing >= ENOUGH and failing > at_random) or isinstance(tried[-1].outcome, (Died, Missing)):
            break
    return tried


def why(one: Tried) -> str:
    """The first thing that is wrong with an answer."""
    if isinstance(one.outcome, Raised):
        return f"{one.outcome.type}: {one.outcome.message}"
    if isinstance(one.outcome, Died):
        return f"it {one.outcome.detail}."
    if isinstance(one.outcome, Missing):
        return one.outcome.because
    assert isinstance(one.outcome, Answer)
    return one.faults[0] if one.faults else f"it uses too much of {one.over[0].name}."


def main(
    lab: Lab,
    tasks: Sequence[str],
    root: Path,
    seeds: Sequence[int],
    oracles: Mapping[str, Asked] | None = None,
    say: Callable[[str], None] = say,
) -> int:
    """Say what luck does to a lab's mutants, task by task. The exit code: 0 for nothing, 1 for something.

    Raises
    ------
    ValueError
        The lab has no such task, or it is a question that a person reads.
    """
    chosen, read = lab.ask(tasks) if tasks else (lab.tasks, ())
    if read:
        raise ValueError(f"{read[0].name} of {lab.name} is read by a person: no mutants are graded. Name tasks alone.")
    say(f"{lab.name}, seeds {seeds[0]} to {seeds[-1]}")
    sound = True
    for task in chosen:
        found = luck_of(lab, task, root, seeds, oracles)
        for line in found.lines():
            say(line)
        sound &= found.sound
    return int(not sound)
