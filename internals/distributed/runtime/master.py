"""What a task does for clients: it holds their graphs, cuts them, hands the parts to workers, and runs steps."""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost
from internals.distributed.runtime.cluster import ClusterSpec, Place, parse
from internals.distributed.runtime.layout import unpacked
from internals.distributed.runtime.partition import Part, divide, key, variable_places
from internals.distributed.runtime.tasks import Tasks, checked, left
from internals.distributed.runtime.trace import merged
from internals.distributed.runtime.worker import ANSWER, FAILED, Passed, Worker, recorded
from internals.distributed.transport import LATER, Endpoint, Message, Reply
from internals.graph.graph import Graph
from internals.graph.graphdef import from_json, to_json
from internals.graph.node import GraphError, Node


class UnknownSession(GraphError):
    """A client asks for a session that was forgotten when this task, or the connection to the client, broke."""


@dataclass
class _Partition:
    """A run of certain fetches and feeds, cut, and what the workers call their parts."""

    parts: list[Part]
    handle: str = ""
    registered: dict[str, int] = field(default_factory=dict)
    """The generation of each task when its parts were registered."""


@dataclass
class _Session:
    """A client's graph."""

    client: str
    graph: Graph
    variables: dict[str, str]
    passes: list[str]
    reuse: bool
    tile: bool
    partitions: dict[Any, _Partition] = field(default_factory=dict)
    runs: Any = field(default_factory=itertools.count)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Master:
    """The part of a server that clients talk to.

    Parameters
    ----------
    endpoint : Endpoint
    worker : Worker
        That of the same task.
    cluster : ClusterSpec
    place : Place
        Where nodes run that were not asked to run elsewhere.
    """

    def __init__(self, endpoint: Endpoint, worker: Worker, cluster: ClusterSpec, place: Place) -> None:
        self.endpoint, self.worker, self.cluster, self.place = endpoint, worker, cluster, place
        self.name = f"{endpoint.name}.{os.urandom(4).hex()}"
        self._sessions: dict[str, _Session] = {}
        self.tasks = Tasks(endpoint, worker, cluster)
        self._steps: dict[str, queue.SimpleQueue[tuple[str, Message]]] = {}
        self._involved: dict[str, set[str]] = {}
        self._numbers = itertools.count()
        self._pool = ThreadPoolExecutor(64, thread_name_prefix=f"{endpoint.name} master")
        for kind, method in (
            ("session/open", self._open),
            ("session/extend", self._extend),
            ("session/run", self._run),
            ("session/initialise", self._initialise),
            ("session/assign", self._assign),
            ("session/uninitialised", self._uninitialised),
            ("session/parts", self._show),
            ("session/close", self._close),
        ):
            endpoint.on(kind, self._on(method))
        endpoint.when_lost(self._lost)
        threading.Thread(target=self._receive, name=f"{endpoint.name} collects", daemon=True).start()

    def close(self) -> None:
        for step in list(self._steps):
            self._report(step, self.endpoint.name, DistributedError(f"{self.endpoint.name} is closing"))
        self._pool.shutdown(wait=False, cancel_futures=True)

    # What clients ask

    def _on(self, method: Callable[[Message], Message]) -> Callable[[Message, Reply], object]:
        def handler(message: Message, reply: Reply) -> object:
            def work() -> None:
                try:
                    answer = method(message)
                except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                    answer = Message(FAILED, {"error": recorded(error, self.endpoint.name)})
                reply(answer)

            self._pool.submit(work)
            return LATER

        return handler

    def _session(self, message: Message) -> _Session:
        session = self._sessions.get(message.fields["session"])
        if session is None:
            raise UnknownSession(f"session: {self.endpoint.name} knows no session of {message.source}. Make another.")
        return session

    def _open(self, message: Message) -> Message:
        fields = message.fields
        graph = from_json(message.arrays[0].tobytes().decode("utf-8"))
        session = _Session(
            message.source,
            graph,
            variable_places(graph, self.cluster, self.place),
            list(fields["passes"]),
            bool(fields["reuse"]),
            bool(fields["tile"]),
        )
        name = f"{message.source}/{next(self._numbers)}"
        self._sessions[name] = session
        return Message(ANSWER, {"session": name, "cluster": self.cluster.jobs, "place": str(self.place)})

    def _extend(self, message: Message) -> Message:
        """A client's graph has more nodes than when it was sent; those that were there are as they were."""
        session = self._session(message)
        graph = from_json(message.arrays[0].tobytes().decode("utf-8"))
        for old in session.graph.nodes:
            new = graph.by_name.get(old.name)
            if new is None or _kind(old) != _kind(new):
                raise GraphError(
                    f"session: {old.name} (made at {old.where}) was changed after the graph was sent. Nodes can be "
                    "added to it, not changed; make another session."
                )
        with session.lock:
            places = variable_places(graph, self.cluster, self.place)
            session.graph, session.variables = graph, {**places, **session.variables}
        return Message(ANSWER)

    def _close(self, message: Message) -> Message:
        session = self._sessions.pop(message.fields["session"], None)
        if session is not None:
            self._forget(session)
        return Message(ANSWER)

    def _initialise(self, message: Message) -> Message:
        """Give every variable its initial value, in the order in which they were made."""
        session, end = self._session(message), _end(message)
        known: dict[str, np.ndarray] = {}
        for node in session.graph.variables:
            initial = node.attrs["initial"]
            if isinstance(initial, Node):  # which may read variables that were made before
                self._assigned(session, known, end)
                packed, _ = self._step(session, [initial.name], {}, end, trace=False)
                initial, known = unpacked(*packed[0]), {}
            known[node.name] = np.asarray(initial)
        self._assigned(session, known, end)
        return Message(ANSWER)

    def _assign(self, message: Message) -> Message:
        session = self._session(message)
        self._assigned(session, dict(zip(message.fields["names"], message.arrays, strict=True)), _end(message))
        return Message(ANSWER)

    def _assigned(self, session: _Session, values: dict[str, np.ndarray], end: float) -> None:
        tasks: dict[str, list[str]] = {}
        for name in values:
            tasks.setdefault(self.cluster.place(session.variables[name], self.place).peer, []).append(name)
        for peer, names in tasks.items():
            nodes = [session.graph.by_name[name] for name in names]
            devices = [_local(node, self.cluster.place(session.variables[node.name], self.place)) for node in nodes]
            orders = [list(range(values[name].ndim)) for name in names]
            fields = {"names": names, "devices": devices, "orders": orders}
            self.tasks.ask(peer, Message("assign", fields, [values[name] for name in names]), end)

    def _uninitialised(self, message: Message) -> Message:
        session, end = self._session(message), _end(message)
        held: set[str] = set()
        for peer in {self.cluster.place(place, self.place).peer for place in session.variables.values()}:
            held.update(self.tasks.ask(peer, Message("variables"), end).fields["names"])
        lacking = [node.name for node in session.graph.variables if node.name not in held]
        return Message(ANSWER, {"names": lacking, "places": [session.variables[name] for name in lacking]})

    def _show(self, message: Message) -> Message:
        """The parts of a run, as plain data."""
        fields = message.fields
        partition = self._partition(self._session(message), fields["fetches"], dict(fields["shapes"]))
        parts = [
            {"device": str(part.place), "steps": [list(step) for step in part.steps], "feeds": sorted(part.feeds)}
            for part in partition.parts
        ]
        return Message(ANSWER, {"parts": parts}, [_bytes(to_json(part.graph)) for part in partition.parts])

    def _run(self, message: Message) -> Message:
        fields = message.fields
        feeds = {
            name: (array, order)
            for name, order, array in zip(fields["feeds"], fields["orders"], message.arrays, strict=True)
        }
        session = self._session(message)
        packed, timeline = self._step(session, fields["fetches"], feeds, _end(message), fields["trace"])
        numbers = sorted(packed)
        told = {"numbers": numbers, "orders": [packed[i][1] for i in numbers], "timeline": timeline}
        return Message(ANSWER, told, [packed[i][0] for i in numbers])

    # A step

    def _step(
        self,
        session: _Session,
        fetches: Sequence[str],
        feeds: dict[str, tuple[np.ndarray, list[int]]],
        end: float,
        trace: bool,
    ) -> tuple[dict[int, tuple[np.ndarray, list[int]]], list[Any]]:
        shapes = {name: _shape(*one) for name, one in feeds.items()}
        partition = self._partition(session, fetches, shapes)
        self._register(session, partition, end)
        step = f"{self.name}/{next(self._numbers)}"
        tasks = _by_task(partition.parts)
        collected: queue.SimpleQueue[tuple[str, Message]] = queue.SimpleQueue()
        self._involved[step] = set(tasks)
        self._steps[step] = collected
        draw, values = next(session.runs), list(feeds.values())
        try:
            for peer, parts in tasks.items():
                numbers = sorted({number for part in parts for number in part.feeds.values()})
                fields = {
                    "handle": partition.handle,
                    "step": step,
                    "draw": draw,
                    "trace": trace,
                    "numbers": numbers,
                    "orders": [values[number][1] for number in numbers],
                }
                self._begin(peer, step, Message("step", fields, [values[number][0] for number in numbers]))
            answers = self._collect(step, set(tasks), collected, end)
        finally:
            del self._steps[step], self._involved[step]
        packed: dict[int, tuple[np.ndarray, list[int]]] = {}
        for answer in answers.values():
            for number, order, array in zip(
                answer.fields["numbers"], answer.fields["orders"], answer.arrays, strict=True
            ):
                packed[number] = array, order
        offsets = {peer: self.tasks.offset(peer, end) for peer in tasks} if trace else {}
        return packed, merged(answers, offsets) if trace else []

    def _begin(self, peer: str, step: str, message: Message) -> None:
        if peer == self.endpoint.name:
            self.worker.run(message, lambda answer: self._answered(step, peer, answer))
            return
        try:
            self.endpoint.send(peer, message)
        except DistributedError as error:
            self._report(step, peer, error)

    def _collect(
        self, step: str, missing: set[str], collected: queue.SimpleQueue[tuple[str, Message]], end: float
    ) -> dict[str, Message]:
        """What each task answered; the first that failed ends the step on all."""
        answers: dict[str, Message] = {}
        while missing:
            try:
                peer, answer = collected.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                late = DeadlineExceeded(
                    f"the step did not end in time; no answer yet from {', '.join(sorted(missing))}"
                )
                self.tasks.abort(step, missing, recorded(late, self.endpoint.name))
                raise late from None
            if answer.fields.get("failed"):
                record = dict(answer.fields["error"])
                self.tasks.abort(step, missing - {peer}, record)
                if record.get("kind") == "PeerLost":
                    self.tasks.outdated(str(record.get("peer")))
                elif record.get("kind") == "StepAborted":
                    self.tasks.outdated(peer)
                raise Passed(record)
            missing.discard(peer)
            answers[peer] = answer
        return answers

    def _receive(self) -> None:
        while True:
            try:
                answer = self.endpoint.receive("ran")
            except DistributedError:
                return
            step = answer.fields.get("step")
            if isinstance(step, str):
                self._answered(step, answer.source, answer)

    def _answered(self, step: str, peer: str, answer: Message) -> None:
        answer.fields.setdefault("failed", answer.kind == FAILED)
        waiting = self._steps.get(step)
        if waiting is not None:
            waiting.put((peer, answer))

    def _report(self, step: str, peer: str, error: BaseException) -> None:
        self._answered(step, peer, Message(FAILED, {"error": recorded(error, peer), "failed": True}))

    def _lost(self, peer: str, reason: str) -> None:
        self.tasks.outdated(peer)
        for step, involved in list(self._involved.items()):
            if peer in involved:
                self._report(step, peer, PeerLost(peer, reason))
        for name, session in list(self._sessions.items()):
            if session.client == peer:
                self._sessions.pop(name, None)
                self._pool.submit(self._forget, session)

    # Parts

    def _partition(self, session: _Session, fetches: Sequence[str], shapes: Mapping[str, Sequence[int]]) -> _Partition:
        found = tuple(fetches), tuple((name, tuple(shape)) for name, shape in shapes.items())
        with session.lock:
            if found not in session.partitions:
                parts = divide(
                    session.graph,
                    fetches,
                    {name: tuple(shape) for name, shape in shapes.items()},
                    cluster=self.cluster,
                    default=self.place,
                    variables=session.variables,
                    passes=session.passes,
                )
                session.partitions[found] = _Partition(parts)
            return session.partitions[found]

    def _register(self, session: _Session, partition: _Partition, end: float) -> None:
        """Hand the parts to their tasks, unless those that live now have them."""
        tasks = _by_task(partition.parts)
        for peer in tasks:
            self.tasks.reach(peer, end)
        with session.lock:
            if partition.registered == {peer: self.tasks.generation(peer) for peer in tasks}:
                return
            handle = f"{self.name}/{next(self._numbers)}"
            generations = {peer: self.tasks.generation(peer) for peer in tasks}
            calls = []
            for peer, parts in tasks.items():
                message = self._registration(session, handle, peer, parts, end)
                if peer == self.endpoint.name:
                    self.worker.register(message)
                else:
                    calls.append((peer, self.endpoint.start(peer, message)))
            for peer, call in calls:
                checked(self.endpoint.finish(call, left(end, f"{peer} to take its part of the graph")))
            partition.handle, partition.registered = handle, generations

    def _registration(self, session: _Session, handle: str, peer: str, parts: list[Part], end: float) -> Message:
        peers: dict[str, str] = {}
        records = []
        for part in parts:
            here = str(part.place)
            sends, receives = [], []
            for name, device in part.sends:
                target = self.cluster.place(device, self.place)
                other = "" if target.peer == peer else target.peer
                sends.append([name, key(name, here, device), other, (name, device) in part.whole])
                if other:
                    peers[other] = self.cluster.address(target.job, target.task)
            for name, device in part.receives:
                receives.append([name, key(name, device, here), self.cluster.place(device, self.place).peer])
            records.append(
                {
                    "place": here,
                    "device": part.place.device,
                    "feeds": [[name, number] for name, number in part.feeds.items()],
                    "fetches": [[number, name] for number, name in part.fetches],
                    "sends": sends,
                    "receives": receives,
                }
            )
        fields = {
            "handle": handle,
            "parts": records,
            "peers": peers,
            "reuse": session.reuse,
            "tile": session.tile,
            "deadline": max(0.0, end - time.monotonic()),
        }
        return Message("register", fields, [_bytes(to_json(part.graph)) for part in parts])

    def _forget(self, session: _Session) -> None:
        for partition in session.partitions.values():
            for peer in partition.registered:
                try:
                    message = Message("forget", {"handles": [partition.handle]})
                    self.tasks.ask(peer, message, time.monotonic() + 5.0)
                except DistributedError:
                    continue


def _by_task(parts: Sequence[Part]) -> dict[str, list[Part]]:
    tasks: dict[str, list[Part]] = {}
    for part in parts:
        tasks.setdefault(part.place.peer, []).append(part)
    return tasks


def _kind(node: Node) -> tuple[Any, ...]:
    inputs = tuple(one.name if isinstance(one, Node) else one for one in node.inputs)
    return node.op.name, inputs, tuple(one.name for one in node.controls), node.device, node.shape, node.dtype


def _local(node: Node, place: Place) -> str:
    asked = parse(node.device) if node.device is not None else None
    return asked.device if asked is not None and not asked.names_a_task and asked.device else place.device


def _shape(array: np.ndarray, order: Sequence[int]) -> tuple[int, ...]:
    if sorted(order) != list(range(array.ndim)):
        raise GraphError(f"session: a feed of {array.ndim} axes came with the order {list(order)}.")
    sizes = dict(zip(order, array.shape, strict=True))
    return tuple(sizes[axis] for axis in range(array.ndim))


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-8"), np.uint8)


def _end(message: Message) -> float:
    return time.monotonic() + float(message.fields["deadline"])
