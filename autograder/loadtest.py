"""What a deadline does to the queue: an hour of hand-ins, the real queue, and grading times measured on this machine.

The hour is not waited for. Arrivals, workers and gradings are events on a simulated clock; every step of the queue
(store, enqueue, take, record) is done for real in a gradebook, one at a time as a database does them, and the seconds
it takes are what the simulated clock advances by.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.queue.grading import Fault, Work
from autograder.report import Report, TaskResult

if TYPE_CHECKING:
    from autograder.gradebook.store import Gradebook
    from autograder.queue.taking import Lease
    from autograder.spec import Lab

HOUR = 3600.0
NEAR = 900.0
"""Seconds before the deadline by which two thirds of the work has not come yet."""
POLL = 0.2
"""Seconds between two looks of an idle worker into the queue."""


@dataclass(frozen=True)
class Load:
    """A class that hands in during the last hour.

    Attributes
    ----------
    learners, each : int
        How many there are, and how often each hands in.
    seed : int
        Of when they do, and of which grading takes how long.
    """

    learners: int = 500
    each: int = 3
    seed: int = 1

    def arrivals(self) -> list[tuple[float, int]]:
        """When, in seconds from the start of the hour, and whose; in order. They crowd towards the end."""
        draw = random.Random(self.seed)
        found = []
        for learner in range(self.learners):
            for _ in range(self.each):
                before = NEAR * -math.log(1.0 - draw.random() * (1.0 - math.exp(-HOUR / NEAR)))
                found.append((HOUR - before, learner))
        return sorted(found)


@dataclass(frozen=True)
class Outcome:
    """What came of it; times in seconds."""

    workers: int
    waits: list[float]
    """From a hand-in to the start of its grading."""
    answers: list[float]
    """From a hand-in to its grade on record."""
    end: float
    """When the last was graded, from the start of the hour."""
    queue: float
    """The queue's own time for one submission, on average: storing, enqueueing, taking, recording."""

    throughput: int
    """Gradings in the minute that saw the most."""


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` of them do not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


class Clocked:
    """A database that does one thing at a time, on the simulated clock."""

    def __init__(self) -> None:
        self.free = self.spent = 0.0

    def do(self, moment: float, step: Callable[[], object]) -> float:
        """Do it for real; returns when it is done on the simulated clock."""
        began = time.perf_counter()
        step()
        took = time.perf_counter() - began
        self.spent += took
        self.free = max(moment, self.free) + took
        return self.free


def run(load: Load, workers: int, seconds: Sequence[float], queue: Queue) -> Outcome:
    """The hour with so many workers, each grading one submission at a time.

    Parameters
    ----------
    seconds : sequence of float
        Grading times, which are drawn from.
    queue : Queue
        `Real` or `Ideal`.
    """
    draw = random.Random(load.seed + 1)
    order = itertools.count()
    arrivals = load.arrivals()
    events: list[tuple[float, int, str, int]] = [
        (when, next(order), "came", number) for number, (when, _) in enumerate(arrivals)
    ]
    heapq.heapify(events)
    idle, waiting = workers, 0
    waits, answers, ends = [], [], []
    while events:
        moment, _, what, number = heapq.heappop(events)
        if what == "came":
            queue.put(moment, number, arrivals[number][1])
            waiting += 1
        elif what == "done":
            moment = queue.record(moment, number)
            answers.append(moment - arrivals[number][0])
            ends.append(moment)
            idle += 1
        while idle and waiting:
            # A worker that was idle sees it when it looks next; one that has just recorded looks at once.
            looks = moment if what == "done" else moment + draw.uniform(0, POLL)
            begins, taken = queue.take(looks)
            idle, waiting = idle - 1, waiting - 1
            waits.append(begins - arrivals[taken][0])
            heapq.heappush(events, (begins + draw.choice(seconds), next(order), "done", taken))
    minutes = [0] * (int(max(ends) // 60) + 1)
    for end in ends:
        minutes[int(end // 60)] += 1
    return Outcome(workers, waits, answers, max(ends), queue.cost(len(arrivals)), max(minutes))


class Queue:
    """First come, first served, in no time: to find out how many workers are needed before the real thing is run.

    Parameters
    ----------
    each : float
        Seconds that each submission occupies the database in all.
    """

    def __init__(self, each: float = 0.0) -> None:
        self._each, self._free, self._next = each, 0.0, 0
        self._line: list[int] = []

    def put(self, moment: float, number: int, learner: int) -> None:
        """Number `number` is handed in."""
        self._line.append(number)

    def take(self, moment: float) -> tuple[float, int]:
        """When the next one is taken, and which it is."""
        self._free = max(moment, self._free) + self._each
        self._next += 1
        return self._free, self._line[self._next - 1]

    def record(self, moment: float, number: int) -> float:
        """When its grade is recorded."""
        return moment

    def cost(self, count: int) -> float:
        return self._each


class Real(Queue):
    """The queue of a gradebook.

    Parameters
    ----------
    book : Gradebook
        One that is used for nothing else.
    notebook : bytes
        What is handed in, with other blanks at its end each time.
    """

    def __init__(self, book: Gradebook, lab: Lab, notebook: bytes) -> None:
        super().__init__()
        self._book, self._lab, self._notebook = book, lab, notebook
        self._clock = Clocked()
        self._numbers: dict[int, int] = {}
        self._leases: dict[int, Lease] = {}

    def put(self, moment: float, number: int, learner: int) -> None:
        from autograder.queue.adding import enqueue

        data = self._notebook + b"\n" * (number + 1)  # other bytes each time, and the same notebook

        def store() -> None:
            receipt = self._book.submit(
                data, lab=self._lab.name, learner=f"learner{learner:04}", filename="lab.ipynb", source="load test"
            )
            enqueue(self._book, receipt.submission_id, spec_version=self._lab.version)
            self._numbers[receipt.submission_id] = number

        self._clock.do(moment, store)

    def take(self, moment: float) -> tuple[float, int]:
        from autograder.queue import holders, taking

        found: list[Lease] = []
        done = self._clock.do(moment, lambda: found.extend(taking.claim(self._book, holders.me())))
        if not found:
            raise RuntimeError("load test: the queue gave nothing though something waits; is the gradebook in use?")
        number = self._numbers[found[0].work.submission_id]
        self._leases[number] = found[0]
        return done, number

    def record(self, moment: float, number: int) -> float:
        from autograder.queue import taking

        lease = self._leases.pop(number)
        report = graded(self._lab, lease.work.sha256)
        return self._clock.do(moment, lambda: taking.finish(self._book, lease, report))

    def cost(self, count: int) -> float:
        return self._clock.spent / count


def graded(lab: Lab, sha256: str) -> Report:
    """A report of full marks, for the queue to record."""
    tasks = [TaskResult(one.name, one.title, one.points, one.points, "right", cases=50) for one in lab.tasks]
    return Report(lab.name, lab.version, lab.title, "official", "lab.ipynb", sha256, 1, sandbox="", tasks=tasks)


def needed(load: Load, seconds: Sequence[float], wait: float, each: float = 0.0) -> Outcome:
    """With the fewest workers by which 95 in 100 wait for at most `wait` seconds.

    Raises
    ------
    ValueError
        No number of workers is enough: the queue itself is too slow for so many.
    """
    low, high = 0, 1
    while percentile((found := run(load, high, seconds, Queue(each))).waits, 0.95) > wait:
        if high > load.learners * load.each:
            raise ValueError(
                f"a wait of {wait:g} s cannot be kept for {load.learners} learners by any number of workers: "
                f"the queue takes {1000 * each:.0f} ms for each submission"
            )
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        tried = run(load, middle, seconds, Queue(each))
        if percentile(tried.waits, 0.95) > wait:
            low = middle
        else:
            high, found = middle, tried
    return found


def measured(lab: Lab, notebook: bytes, *, slots: int, count: int, mode: str) -> list[float]:
    """How long gradings take on this machine, in seconds, `slots` at a time: its oracles warm, its sandboxes not.

    Raises
    ------
    RuntimeError
        It is not graded here.
    """
    import hashlib

    from autograder.queue.executors.pool import Pool

    works = []
    for number in range(count + slots):
        data = notebook + b"\n" * number
        sha256 = hashlib.sha256(data).hexdigest()
        works.append(Work(number, lab.name, f"learner{number}", "lab.ipynb", sha256, mode, data))
    pool = Pool(slots)
    try:
        first = [pool.submit(work) for work in works[:slots]]  # starts processes and oracles, and draws the cases
        for future in first:
            outcome = future.result()
            if isinstance(outcome, Fault):
                raise RuntimeError(f"load test: {lab.name} is not graded here: {outcome.words}")
        found: list[float] = []
        for start in range(slots, len(works), slots):
            began = time.perf_counter()
            futures = [pool.submit(work) for work in works[start : start + slots]]
            for future in as_completed(futures):
                future.result()
                found.append(time.perf_counter() - began)
    finally:
        pool.close()
    return found


def table(outcomes: Sequence[tuple[int, Outcome]]) -> list[str]:
    """Rows of Markdown: how many workers a class of so many needs, and how long it then waits."""
    rows = ["| learners | workers | wait, median | wait, 95 % | grade, 95 % |", "|---|---|---|---|---|"]
    for learners, one in outcomes:
        rows.append(
            f"| {learners} | {one.workers} | {statistics.median(one.waits):.1f} s | "
            f"{percentile(one.waits, 0.95):.1f} s | {percentile(one.answers, 0.95):.1f} s |"
        )
    return rows


def solution_of(lab: Lab) -> bytes:
    """The bytes of the lab's released notebook or its solution, whichever is in the tree.

    Raises
    ------
    FileNotFoundError
        Neither is.
    """
    root = Path(__file__).resolve().parents[1]
    for path in (root / "labs" / "solutions" / f"{lab.name}.ipynb", root / "labs" / f"{lab.name}.ipynb"):
        if path.is_file():
            return path.read_bytes()
    raise FileNotFoundError(f"no notebook of {lab.name} under {root / 'labs'}; give one with --notebook")
