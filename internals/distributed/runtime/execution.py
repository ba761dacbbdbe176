"""One part of one step, run as its inputs come: what is ready runs, what has run is sent, and nobody waits.

A step of a part has two kinds of inputs: what other steps of the part make, and what arrives from other parts. A step
that still lacks one of them takes no thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.device import device, move
from internals.distributed.runtime.rendezvous import Rendezvous
from internals.graph.graph import Graph
from internals.graph.node import GraphError, Node
from internals.graph.plan import Plan, failed
from internals.graph.state import State

RAN = np.empty(0, np.float32)
"""What is sent along an edge that only says that something has run."""


@dataclass
class Registered:
    """A part as a worker holds it, ready to run.

    Attributes
    ----------
    place : str
        The full name of its device.
    plan : Plan
    feeds : list of int
        Which of a run's feeds its plan takes, in order.
    fetches : list of (int, int)
        Which of the run's fetches it gives, and the slot of each (-1: no value).
    sends : dict of int to list of (key, peer, whole)
        What is sent once the value of a slot is there; the peer is empty for another device of the same task. Not
        whole: only that it ran is told.
    receives : dict of str to int
        The slot for each key.
    sources : dict of str to str
        The peer that each key comes from.
    """

    place: str
    plan: Plan
    feeds: list[int]
    fetches: list[tuple[int, int]]
    sends: dict[int, list[tuple[str, str, bool]]]
    receives: dict[str, int]
    sources: dict[str, str]

    def __post_init__(self) -> None:
        arriving = set(self.receives.values())
        slot = {node: i for i, node in enumerate(self.plan.nodes)}
        self.arrives_for: dict[int, list[int]] = {one: [] for one in arriving}
        self.then: list[list[int]] = [[] for _ in self.plan.steps]
        self.waits: list[int] = []
        self.uses: dict[int, int] = {}
        for number, step in enumerate(self.plan.steps):
            needs = set(step.inputs) & arriving
            if step.result < len(self.plan.nodes):
                needs |= {slot[one] for one in self.plan.nodes[step.result].controls} & arriving
            for one in needs:
                self.arrives_for[one].append(number)
            for before in step.after:
                self.then[before].append(number)
            for one in (step.result, *step.inputs):
                self.uses[one] = self.uses.get(one, 0) + 1
            self.waits.append(len(step.after) + len(needs))
        made = {step.result for step in self.plan.steps}
        self.ready = [number for number, waits in enumerate(self.waits) if not waits]
        self.sent_at_once = [one for one in self.sends if one not in made]
        self.mortal = {one for step in self.plan.steps for one in step.dead}


def register(record: Mapping[str, Any], graph: Graph, state: State, *, reuse: bool, tile: bool) -> Registered:
    """Make a part ready to run.

    Parameters
    ----------
    record : mapping
        ``place``, ``device``, ``feeds`` (name and number), ``fetches`` (number and name), ``sends`` (name, key,
        peer, whole), ``receives`` (name, key, peer).
    graph : Graph
    state : State
        Where this task keeps its variables.

    Raises
    ------
    GraphError
        A variable of another kind has the same name on this task.
    DeviceError
        The task has no such device.
    """

    def named(name: str) -> Node:
        if name not in graph.by_name:
            raise GraphError(f"register: the part for {record['place']} has no node called {name!r}.")
        return graph.by_name[name]

    feeds = [named(name) for name, _ in record["feeds"]]
    received = [named(name) for name, *_ in record["receives"]]
    fetched = [named(name) for _, name in record["fetches"]]
    sent = [named(name) for name, *_ in record["sends"]]
    for node in graph.variables:
        kept = state.values.get(node.name)
        if kept is not None and (kept.shape != node.shape or kept.dtype != node.dtype):
            raise GraphError(
                f"{node!r} (made at {node.where}) has a namesake on {record['place']}, a variable of "
                f"{kept.dtype.name}{list(kept.shape)}. Variables are shared by name among clients: rename one."
            )
    plan = Plan(
        [*feeds, *received],
        [*fetched, *sent],
        place=device(record["device"]),
        stateful=state.kernels,
        reuse=reuse,
        tile=tile,
    )
    slot = {node: i for i, node in enumerate(plan.nodes)}
    sends: dict[int, list[tuple[str, str, bool]]] = {}
    for node, (_, key, peer, whole) in zip(sent, record["sends"], strict=True):
        sends.setdefault(slot[node], []).append((key, peer, whole))
    answers = dict(zip([number for number, _ in record["fetches"]], plan.fetches, strict=False))
    return Registered(
        record["place"],
        plan,
        [number for _, number in record["feeds"]],
        list(answers.items()),
        sends,
        {key: slot[node] for node, (_, key, _) in zip(received, record["receives"], strict=True)},
        {key: peer for _, key, peer in record["receives"]},
    )


@dataclass
class Trace:
    """What a part did, on its task's clock (seconds): for a timeline."""

    events: list[list[Any]] = field(default_factory=list)
    """[name, lane, start, end]"""
    sent: list[list[Any]] = field(default_factory=list)
    """[key, when]"""
    arrived: list[list[Any]] = field(default_factory=list)


class Execution:
    """One part in one step.

    Parameters
    ----------
    part : Registered
    step : str
    slots : list
        As `Plan.start` gives them.
    rendezvous : Rendezvous
    send : callable ``(peer, step, key, value)``
    later : callable ``(work)``
        Has something done by another thread.
    threads : int
        How many steps of this part may run at once.
    done : callable ``(execution)``
        Called once, by some thread, when all has run or something failed.
    clock : callable, optional
        Where a trace is asked for.

    Attributes
    ----------
    error : BaseException or None
    """

    def __init__(
        self,
        part: Registered,
        step: str,
        slots: list[Any],
        *,
        rendezvous: Rendezvous,
        send: Callable[[str, str, str, Any], None],
        later: Callable[[Callable[[], None]], None],
        threads: int,
        done: Callable[[Execution], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.part, self.step, self.slots = part, step, slots
        self.error: BaseException | None = None
        self.trace = Trace()
        self._rendezvous, self._send, self._later, self._threads = rendezvous, send, later, threads
        self._done, self._clock = done, clock
        self._waits, self._uses = list(part.waits), dict(part.uses)
        self._ready = deque(part.ready)
        self._missing = set(part.receives)
        self._left = len(part.plan.steps) + len(part.receives) + 1  # the last for what is sent at once
        self._lanes = list(range(threads, 0, -1))
        self._lock = threading.Lock()
        self._over = False

    def begin(self) -> None:
        """Send what needs no step, wait for what arrives, and run what is ready; in a thread of the pool."""
        for key in self.part.receives:
            self._rendezvous.when(self.step, key, lambda value, error, key=key: self._arrived(key, value, error))  # type: ignore[misc]
        try:
            for slot in self.part.sent_at_once:
                self._sends(slot, self.slots[slot])
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the step
            self.fail(error)
            return
        self._finished(1)
        self._work()

    def fail(self, error: BaseException) -> None:
        """Give up; the first error stays."""
        with self._lock:
            if self._over:
                return
            self.error, self._over = error, True
            self._ready.clear()
        self._done(self)

    def waiting_for(self) -> list[str]:
        """The keys that have not arrived."""
        return sorted(self._missing)

    def answers(self) -> list[tuple[int, Any]]:
        """(number of the fetch, value)"""
        return [(number, None if slot < 0 else self.slots[slot]) for number, slot in self.part.fetches]

    def _work(self) -> None:
        with self._lock:
            if not self._lanes or not self._ready:
                return
            lane = self._lanes.pop()
        number = self._next()
        while number is not None:
            step = self.part.plan.steps[number]
            start = time.perf_counter() if self._clock is None else self._clock()
            try:
                # A step that comes earlier in the plan may not have read its inputs yet.
                result = step.run(self.slots, step.into is None or self._uses[step.inputs[step.over]] == 1)
                if self._clock is not None:
                    where = f"{self.part.place}, {lane}" if self._threads > 1 else self.part.place
                    self.trace.events.append([step.name, where, start, self._clock()])
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends the step
                self.fail(failed(step, error))
                return
            try:
                self._sends(step.result, result)
            except Exception as error:  # noqa: BLE001 - the receiver may be gone
                self.fail(error)
                return
            number = self._after(number, result)
        with self._lock:
            self._lanes.append(lane)
            again = bool(self._ready)
        if again:  # something arrived in between
            self._later(self._work)

    def _next(self) -> int | None:
        with self._lock:
            return self._ready.popleft() if self._ready else None

    def _after(self, number: int, result: Any) -> int | None:
        part = self.part
        step = part.plan.steps[number]
        with self._lock:
            self.slots[step.result] = result
            for slot in (step.result, *step.inputs):
                self._uses[slot] -= 1
                if not self._uses[slot] and slot in part.mortal:
                    self.slots[slot] = None
            self._free(part.then[number])
            more = min(len(self._ready) - 1, len(self._lanes))
        for _ in range(more):
            self._later(self._work)
        self._finished(1)
        return self._next()

    def _free(self, steps: Sequence[int]) -> None:
        for number in steps:
            self._waits[number] -= 1
            if not self._waits[number] and not self._over:
                self._ready.append(number)

    def _arrived(self, key: str, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self.fail(error)
            return
        slot = self.part.receives[key]
        if self._clock is not None:
            self.trace.arrived.append([key, self._clock()])
        try:
            value = self._fitting(key, slot, value)
        except Exception as wrong:  # noqa: BLE001 - told to who asked for the step
            self.fail(wrong)
            return
        with self._lock:
            self.slots[slot] = value
            self._missing.discard(key)
            self._free(self.part.arrives_for[slot])
            run = bool(self._ready) and bool(self._lanes)
        self._finished(1)
        if run:
            self._later(self._work)

    def _fitting(self, key: str, slot: int, value: Any) -> Any:
        node = self.part.plan.nodes[slot]
        if tuple(value.shape) != tuple(node.shape) or value.dtype != node.dtype:
            raise GraphError(
                f"{key}: expected {node.dtype.name}{list(node.shape)}, got {value.dtype.name}{list(value.shape)}."
            )
        return move(value, self.part.plan.places[node])

    def _sends(self, slot: int, value: Any) -> None:
        for key, peer, whole in self.part.sends.get(slot, ()):
            if self._clock is not None:
                self.trace.sent.append([key, self._clock()])
            self._send(peer, self.step, key, value if whole else RAN)

    def _finished(self, count: int) -> None:
        with self._lock:
            self._left -= count
            over = self._left == 0 and not self._over
            self._over = self._over or over
        if over:
            self._done(self)
