"""What a task does for masters: it keeps variables, holds parts of graphs, and runs them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from internals.device import device, move
from internals.distributed.errors import DistributedError, PeerLost, ProtocolError
from internals.distributed.runtime.execution import Execution, Registered, register
from internals.distributed.runtime.layout import packed, unpacked
from internals.distributed.runtime.reach import connected
from internals.distributed.runtime.rendezvous import Rendezvous
from internals.distributed.transport import LATER, Endpoint, Message, Reply
from internals.graph.graphdef import from_json
from internals.graph.node import GraphError
from internals.graph.state import State

Done = Callable[[Message], None]
ANSWER, FAILED = "answer", "failed"


class StepAborted(RuntimeError):
    """A step was given up, for a reason that lies elsewhere."""


class Passed(RuntimeError):
    """An error of another task, which took this one's share of the step with it; `record` is that error, as data."""

    def __init__(self, record: dict[str, Any]) -> None:
        super().__init__(str(record.get("text")))
        self.record = record


def recorded(error: BaseException, task: str) -> dict[str, Any]:
    """An error as data."""
    if isinstance(error, Passed):
        return error.record
    record = {"kind": type(error).__name__, "text": str(error), "task": task}
    if isinstance(error, PeerLost):
        record["peer"] = error.peer
    return record


@dataclass
class _Step:
    """What one master asked this task to do in one step."""

    done: Done
    left: int
    executions: list[Execution] = field(default_factory=list)
    error: BaseException | None = None


class Worker:
    """The part of a server that runs graphs.

    Parameters
    ----------
    endpoint : Endpoint
    threads : int
        How many operations of one part may run at once.
    clock : callable
        Seconds, for timelines.

    Attributes
    ----------
    state : State
        The variables that this task keeps, for all clients.
    """

    def __init__(self, endpoint: Endpoint, *, threads: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.endpoint, self.threads, self.clock = endpoint, threads, clock
        self.state = State()
        self.rendezvous = Rendezvous()
        self._handles: dict[str, list[Registered]] = {}
        self._steps: dict[str, _Step] = {}
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._pool = ThreadPoolExecutor(threads + 2, thread_name_prefix=f"{endpoint.name} runs")
        self._connecting = ThreadPoolExecutor(4, thread_name_prefix=f"{endpoint.name} registers")
        endpoint.on("register", self._registering)
        for kind in ("forget", "assign", "variables", "clock"):
            endpoint.on(kind, lambda message, reply: self.answer(message))
        endpoint.when_lost(self._lost)
        self._receiving = threading.Thread(target=self._receive, name=f"{endpoint.name} receives", daemon=True)
        self._receiving.start()

    def close(self) -> None:
        """Give up what runs, and let the threads go. The endpoint is closed by who opened it."""
        self._closed = True
        for step in list(self._steps):
            self.abort(step, StepAborted(f"{self.endpoint.name} is closing"))
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._connecting.shutdown(wait=False, cancel_futures=True)

    # What masters ask

    def _registering(self, message: Message, reply: Reply) -> object:
        def work() -> None:
            try:
                self.register(message)
            except Exception as error:  # noqa: BLE001 - whatever it is, who asked is told
                reply(Message(FAILED, {"error": recorded(error, self.endpoint.name)}))
            else:
                reply(Message(ANSWER))

        self._connecting.submit(work)
        return LATER

    def register(self, message: Message) -> None:
        """Take parts of a graph, and connect to the tasks that they send to."""
        fields = message.fields
        for peer, address in fields["peers"].items():
            if peer not in self._known or peer in self.endpoint.lost:
                connected(self.endpoint, peer, address, fields["deadline"])
                self._known.add(peer)
        parts = []
        for record, text in zip(fields["parts"], message.arrays, strict=True):
            graph = from_json(text.tobytes().decode("utf-8"))
            parts.append(register(record, graph, self.state, reuse=fields["reuse"], tile=fields["tile"]))
        with self._lock:
            self._handles[fields["handle"]] = parts

    def run(self, message: Message, done: Done) -> None:
        """Run the parts of a handle for one step; `done` is told when all have run, or one failed."""
        name = message.fields["step"]
        parts: list[Registered] = []
        try:
            parts = self._parts(message.fields["handle"])
            step = self._started(message, parts, done)
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked is told
            record = recorded(error, self.endpoint.name)
            self.rendezvous.abort(name, error)
            self._pass_on(name, parts, record)
            done(Message(FAILED, {"error": record, "waited": []}))
            return
        for execution in step.executions:
            self._later(execution.begin)

    def _parts(self, handle: str) -> list[Registered]:
        with self._lock:
            if handle not in self._handles:
                raise StepAborted(f"{self.endpoint.name} does not hold this graph any more; it was started again")
            return self._handles[handle]

    def _started(self, message: Message, parts: Sequence[Registered], done: Done) -> _Step:
        fields, name = message.fields, message.fields["step"]
        ended = self.rendezvous.ended(name)
        if ended is not None:
            raise ended
        arrays = [unpacked(array, order) for array, order in zip(message.arrays, fields["orders"], strict=True)]
        feeds = dict(zip(fields["numbers"], arrays, strict=True))
        step = _Step(done, len(parts))
        for part in parts:
            values = [feeds[number] for number in part.feeds] + [None] * len(part.receives)
            with self.state.lock:
                slots = part.plan.start(values, self.state.values, fields["draw"])
            step.executions.append(
                Execution(
                    part,
                    name,
                    slots,
                    rendezvous=self.rendezvous,
                    send=self._send,
                    later=self._later,
                    threads=self.threads,
                    done=lambda execution: self._part_done(name, execution),
                    clock=self.clock if fields["trace"] else None,
                )
            )
        with self._lock:
            self._steps[name] = step
        return step

    def abort(self, name: str, error: BaseException) -> None:
        """Give a step up."""
        self.rendezvous.abort(name, error)
        step = self._steps.get(name)
        for execution in step.executions if step is not None else ():
            execution.fail(error)

    def answer(self, message: Message) -> Message:
        """Answer ``forget``, ``assign``, ``variables`` or ``clock``."""
        try:
            if message.kind == "assign":
                self._assign(message)
            elif message.kind == "forget":
                with self._lock:
                    for handle in message.fields["handles"]:
                        self._handles.pop(handle, None)
        except GraphError as error:
            return Message(FAILED, {"error": recorded(error, self.endpoint.name)})
        return Message(ANSWER, {"names": sorted(self.state.values), "now": self.clock()})

    def _assign(self, message: Message) -> None:
        """Give variables values; all, or none."""
        fields, values = message.fields, {}
        for name, place, order, array in zip(
            fields["names"], fields["devices"], fields["orders"], message.arrays, strict=True
        ):
            values[name] = move(unpacked(array, order), device(place))
            kept = self.state.values.get(name)
            if kept is not None and (kept.shape, kept.dtype) != (values[name].shape, values[name].dtype):
                raise GraphError(
                    f"the variable {name} on {self.endpoint.name} is {kept.dtype.name}{list(kept.shape)}; it can't be "
                    f"given {array.dtype.name}{list(values[name].shape)}. Variables are shared by name among clients."
                )
        with self.state.lock:
            self.state.values.update(values)

    def _later(self, work: Callable[[], None]) -> None:
        """Have something done by a thread of the pool; not at all, where the task is closing."""
        try:
            self._pool.submit(work)
        except RuntimeError:
            if not self._closed:
                raise

    # Between workers

    def _send(self, peer: str, step: str, key: str, value: Any) -> None:
        if not peer:
            self.rendezvous.put(step, key, value)
            return
        array, order = packed(value)
        self.endpoint.send(peer, Message("step", {"step": step, "key": key, "order": order}, [array]))

    def _receive(self) -> None:
        """Take in what other tasks send, until the endpoint is closed."""
        while True:
            try:
                message = self.endpoint.receive("step")
            except DistributedError:
                return
            try:
                self._take(message)
            except (KeyError, TypeError, ValueError, IndexError, DistributedError):
                continue  # nobody waits for what is no part of a step

    def _take(self, message: Message) -> None:
        fields = message.fields
        step = fields["step"]
        if not isinstance(step, str):
            raise ProtocolError(f"{message.source} sent a tensor of no step")
        if "handle" in fields:
            self.run(message, lambda answer: self._tell(message.source, step, answer))
        elif "error" in fields:
            self.abort(step, Passed(dict(fields["error"])))
        else:
            self.rendezvous.put(step, fields["key"], unpacked(message.arrays[0], fields["order"]))

    def _tell(self, master: str, step: str, answer: Message) -> None:
        answer.fields = {**answer.fields, "step": step, "failed": answer.kind == FAILED}
        answer.kind = "ran"
        try:
            self.endpoint.send(master, answer)
        except DistributedError:
            pass  # a master that is gone needs no answer

    def _part_done(self, name: str, execution: Execution) -> None:
        with self._lock:
            step = self._steps.get(name)
            if step is None:
                return
            step.left -= 1
            first = execution.error is not None and step.error is None
            step.error = step.error or execution.error
            over = step.left == 0 or first
            if over:
                del self._steps[name]
        if not over:
            return
        if step.error is None:
            step.done(self._answer(step))
            return
        record = recorded(step.error, self.endpoint.name)
        waited = sorted({key for one in step.executions for key in one.waiting_for()})
        self.rendezvous.abort(name, step.error)
        for one in step.executions:
            one.fail(step.error)
        self._pass_on(name, [one.part for one in step.executions], record)
        step.done(Message(FAILED, {"error": record, "waited": waited}))

    def _answer(self, step: _Step) -> Message:
        numbers, orders, arrays = [], [], []
        traces: list[Any] = []
        for execution in step.executions:
            for number, value in execution.answers():
                if value is None:
                    continue
                array, order = packed(value)
                numbers.append(number)
                orders.append(order)
                arrays.append(array)
            trace = execution.trace
            traces.append({"events": trace.events, "sent": trace.sent, "arrived": trace.arrived})
        fields = {"numbers": numbers, "orders": orders, "traces": traces}
        return Message(ANSWER, fields, arrays)

    def _pass_on(self, name: str, parts: Sequence[Registered], record: dict[str, Any]) -> None:
        """Tell who waits for this task that nothing more will come."""
        peers = {peer for part in parts for sends in part.sends.values() for _, peer, _ in sends if peer}
        for peer in peers - set(self.endpoint.lost):
            try:
                self.endpoint.send(peer, Message("step", {"step": name, "error": record}))
            except DistributedError:
                continue

    def _lost(self, peer: str, reason: str) -> None:
        """A peer died: what waits for it, will wait for ever."""
        self._known.discard(peer)
        error = PeerLost(peer, reason)
        waiting = [
            name
            for name, step in list(self._steps.items())
            if any(key for one in step.executions for key in one.waiting_for() if one.part.sources.get(key) == peer)
        ]
        for name in waiting:
            self._later(lambda name=name: self.abort(name, error))  # type: ignore[misc]
