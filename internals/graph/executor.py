"""Running what is ready at once: a queue of steps whose inputs are there, and threads that take from it.

A step is ready when the steps it waits for are done. In a graph, that is written down; in a program, one would have to
prove it. NumPy lets go of Python's lock inside its kernels, so heavy independent steps do run at the same time.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from internals.device import Array
from internals.graph.plan import Plan, failed


@dataclass(frozen=True)
class Event:
    """One step of one run; times in seconds since the run began."""

    name: str
    lane: str
    """The thread and the device."""
    start: float
    end: float


@dataclass
class Timeline:
    """What ran when, and where.

    Attributes
    ----------
    events : list of Event
    """

    events: list[Event] = field(default_factory=list)

    def to_chrome(self) -> str:
        """JSON that a browser's tracing page and Perfetto open (the Trace Event Format)."""
        lanes = {lane: number for number, lane in enumerate(sorted({event.lane for event in self.events}))}
        named = [
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": number, "args": {"name": lane}}
            for lane, number in lanes.items()
        ]
        spans = [
            {
                "ph": "X",
                "name": event.name,
                "pid": 0,
                "tid": lanes[event.lane],
                "ts": event.start * 1e6,
                "dur": (event.end - event.start) * 1e6,
            }
            for event in self.events
        ]
        return json.dumps({"traceEvents": [*named, *spans]})

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file."""
        Path(path).write_text(self.to_chrome(), encoding="utf-8")


class Executor:
    """Threads that run plans; they are made once, and wait for work between runs.

    Parameters
    ----------
    threads : int
        1 runs steps in their order, on the thread that calls.
    """

    def __init__(self, threads: int = 1) -> None:
        if not isinstance(threads, int) or threads < 1:
            raise ValueError(f"executor: threads must be a positive integer, got {threads!r}.")
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def run(self, plan: Plan, slots: list[Any], timeline: Timeline | None = None) -> list[Array | None]:
        """The values of a plan's fetches, from slots as `Plan.start` gives them."""
        if self.threads == 1 and timeline is None:
            return plan.walk(slots)
        run = _Run(plan, slots, timeline)
        helpers = [
            self._helpers().submit(run.work, f"thread {number}")
            for number in range(2, min(self.threads, plan.widest) + 1)
        ]
        run.work("thread 1")
        for helper in helpers:
            # One that has not begun finds nothing to do; of several runs at once, one must not wait for the others.
            if not helper.cancel():
                helper.result()
        if run.error is not None:
            raise run.error
        return plan.answers(run.slots)

    def close(self) -> None:
        """Let the threads go."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None

    def _helpers(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="session")
            return self._pool


class _Run:
    """One run of a plan by several threads."""

    def __init__(self, plan: Plan, slots: list[Any], timeline: Timeline | None) -> None:
        self.plan, self.slots, self.timeline = plan, slots, timeline
        self.error: BaseException | None = None
        self._began = time.perf_counter()
        self._waits = [len(step.after) for step in plan.steps]
        self._then: list[list[int]] = [[] for _ in plan.steps]
        self._uses: dict[int, int] = {}
        self._mortal = {slot for step in plan.steps for slot in step.dead}
        for number, step in enumerate(plan.steps):
            for before in step.after:
                self._then[before].append(number)
            for slot in (step.result, *step.inputs):
                self._uses[slot] = self._uses.get(slot, 0) + 1
        self._left = len(plan.steps)
        self._ready = deque(number for number, waits in enumerate(self._waits) if not waits)
        self._changed = threading.Condition()

    def work(self, lane: str) -> None:
        """Take ready steps until none is left."""
        number = self._next()
        while number is not None:
            step = self.plan.steps[number]
            start = time.perf_counter()
            try:
                # A step that comes earlier in the plan may not have read its inputs yet.
                result = step.run(self.slots, step.into is None or self._uses[step.inputs[step.over]] == 1)
            except BaseException as error:  # noqa: BLE001 - it is raised again by the thread that called
                self._fail(failed(step, error) if isinstance(error, Exception) else error)
                return
            if self.timeline is not None:
                end = time.perf_counter()
                self.timeline.events.append(
                    Event(step.name, f"{lane}, {step.place}", start - self._began, end - self._began)
                )
            number = self._done(number, result)

    def _next(self) -> int | None:
        with self._changed:
            while not self._ready and self._left and self.error is None:
                self._changed.wait()
            return self._ready.popleft() if self._ready and self.error is None else None

    def _done(self, number: int, result: Any) -> int | None:
        """Put a result in its place, free what is dead, and go on with what became ready."""
        step = self.plan.steps[number]
        with self._changed:
            self.slots[step.result] = result
            self._left -= 1
            for slot in (step.result, *step.inputs):
                self._uses[slot] -= 1
                if not self._uses[slot] and slot in self._mortal:
                    self.slots[slot] = None
            for after in self._then[number]:
                self._waits[after] -= 1
                if not self._waits[after]:
                    self._ready.append(after)
            if self._left == 0 or len(self._ready) > 1:
                self._changed.notify_all()
        return self._next()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.error = self.error or error
            self._changed.notify_all()
