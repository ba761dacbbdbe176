"""The client: a session like that of one process, whose steps run on a cluster."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost, RemoteError
from internals.distributed.runtime.cluster import ClusterSpec
from internals.distributed.runtime.layout import packed, unpacked
from internals.distributed.runtime.reach import connected
from internals.distributed.runtime.worker import FAILED
from internals.distributed.transport import Endpoint, Message
from internals.graph import Graph, GraphError, Node, Plan, Session, Timeline
from internals.graph.executor import Event
from internals.graph.graphdef import from_json, to_json
from internals.graph.node import spec_text
from internals.graph.session import DEFAULT, OF_THE_PLAN
from internals.nn.weights import load_arrays, save_arrays

GRACE = 5.0
"""Seconds that a master has, beyond a step's deadline, to say that it is over."""

_clients = itertools.count()


class RemoteSession(Session):
    """Runs a graph on a cluster. The variables stay on their tasks when it is closed, for other sessions.

    It outlives its master: once that is back, the graph is sent to it again with the next run. What it drew at random
    begins anew then, and the variables that were kept on the task that died are gone: `uninitialised` names them.

    Parameters
    ----------
    target : str
        The task that is to be the master: `Server.target`.
    graph : Graph
        Its nodes may have been asked to run on devices such as ``"/job:worker/task:1/sim:0"``. It is sent once; nodes
        that are added later are sent before the next run.
    endpoint : Endpoint, optional
        One that is open already, and stays open; needed for a cluster inside this process. Else one is opened.
    passes : sequence of str
        As of `Session`.
    deadline : float
        Seconds for a run, unless that is given its own.
    secret : str, optional
        The key of the cluster.

    Raises
    ------
    DeadlineExceeded
        The task does not answer; names it.
    GraphError
        The graph can't be sent, or a variable asks for a device that the cluster does not have.

    Examples
    --------
    >>> with RemoteSession("worker:0@tcp://127.0.0.1:2222", graph) as session:
    ...     session.initialise()
    ...     session.run([loss, train], {x: batch, y: labels})
    """

    def __init__(
        self,
        target: str,
        graph: Graph,
        *,
        endpoint: Endpoint | None = None,
        passes: Sequence[str] = DEFAULT,
        deadline: float = 60.0,
        secret: str | None = None,
    ) -> None:
        super().__init__(graph, passes=passes)
        self.deadline = deadline
        self._master, self._address = _parts_of(target)
        self._owned = endpoint is None
        if endpoint is None:
            from internals.distributed.transport import open_endpoint

            name = f"client:{os.getpid()}.{next(_clients)}.{os.urandom(3).hex()}"
            endpoint = open_endpoint(name, transport=self._address.partition("://")[0], secret=secret)
        self.endpoint = endpoint
        try:
            self._open(deadline)
        except BaseException:
            if self._owned:
                endpoint.close()
            raise

    def _open(self, deadline: float, died: str | None = None) -> None:
        """Let the master know the graph."""
        connected(self.endpoint, self._master, self._address, deadline, died)
        rules = [name for name in self.passes if name not in OF_THE_PLAN]
        fields = {"passes": rules, "reuse": "reuse" in self.passes, "tile": "tile" in self.passes}
        answer = self._told(self._finish(self._start("session/open", fields, [self._written()], deadline), deadline))
        self._name: str = answer.fields["session"]
        self.cluster = ClusterSpec(answer.fields["cluster"])
        self.place: str = answer.fields["place"]

    def close(self) -> None:
        """Let the master forget the graph. The variables stay where they are."""
        if self._closed:
            raise GraphError("session: it is closed already.")
        try:
            if self._master not in self.endpoint.lost:
                self._finish(self._start("session/close", {"session": self._name}, [], GRACE), GRACE)
        except DistributedError:
            pass  # a master that is gone has forgotten it
        finally:
            super().close()
            if self._owned:
                self.endpoint.close()

    # Variables

    @property
    def values(self) -> dict[str, Any]:
        """Nothing: the values of the variables are on the cluster. Run a variable to see its value."""
        return {}

    def initialise(self, *, deadline: float | None = None) -> None:
        """Give every variable its initial value, also where another session had changed it."""
        self._check_open()
        self._extend(deadline)
        self._ask("session/initialise", {}, [], deadline)

    def uninitialised(self, *, deadline: float | None = None) -> dict[str, str]:
        """The variables of the graph that have no value, and where each would be kept."""
        self._check_open()
        self._extend(deadline)
        fields = self._ask("session/uninitialised", {}, [], deadline).fields
        return dict(zip(fields["names"], fields["places"], strict=True))

    def save(self, path: str | os.PathLike[str], variables: Sequence[Node] | None = None) -> None:
        """Fetch variables and write them to a safetensors file; see `Session.save`."""
        self._check_open()
        wanted = self.graph.variables if variables is None else list(variables)
        save_arrays(path, {node.name: value for node, value in zip(wanted, self.run(wanted), strict=True)})

    def restore(self, path: str | os.PathLike[str], variables: Sequence[Node] | None = None) -> None:
        """Give variables the values of a file that `save` wrote, on the tasks where they are kept."""
        self._check_open()
        self._extend(None)
        arrays, _ = load_arrays(path)
        wanted = self.graph.variables if variables is None else list(variables)
        for node in wanted:
            found = arrays.get(node.name)
            if found is None:
                raise GraphError(f"restore: {os.fspath(path)} has no {node.name} (made at {node.where}).")
            if found.shape != node.shape or found.dtype != node.dtype:
                raise GraphError(
                    f"restore: {node!r} (made at {node.where}) does not fit {spec_text(found.shape, found.dtype)}, "
                    f"which {os.fspath(path)} has under its name."
                )
        self._ask("session/assign", {"names": [node.name for node in wanted]}, [arrays[n.name] for n in wanted], None)

    # Running

    def run(
        self,
        fetches: Any,
        feeds: Mapping[Node, Any] | None = None,
        *,
        timeline: Timeline | None = None,
        deadline: float | None = None,
    ) -> Any:
        """Compute nodes, on the devices where they are placed; see `Session.run`.

        Raises
        ------
        PeerLost
            A task died, the master too; names it. A run goes on once it is back; until then, each says so at once.
        DeadlineExceeded
        GraphError
            What `Session.run` refuses; or the device of a node does not exist.
        """
        self._check_open()
        wanted = list(fetches) if isinstance(fetches, list | tuple) else [fetches]
        given = {node: packed(self._fed(node, value)) for node, value in (feeds or {}).items()}
        self._check_fetches(wanted)
        self._extend(deadline)
        fields = {
            "fetches": [node.name for node in wanted],
            "feeds": [node.name for node in given],
            "orders": [order for _, order in given.values()],
            "trace": timeline is not None,
        }
        answer = self._ask("session/run", fields, [array for array, _ in given.values()], deadline)
        told = answer.fields
        found: list[Any] = [None] * len(wanted)
        for number, order, array in zip(told["numbers"], told["orders"], answer.arrays, strict=True):
            found[number] = unpacked(array, order)
        if timeline is not None:
            timeline.events += [Event(*one) for one in told["timeline"]]
        return found if isinstance(fetches, list | tuple) else found[0]

    def parts(self, fetches: Any, feeds: Mapping[Node, Any] | None = None) -> dict[str, tuple[list[list[str]], Graph]]:
        """How a run is cut: for each device its steps, ``[run | send | recv, node, other device]``, and its graph."""
        self._check_open()
        wanted = list(fetches) if isinstance(fetches, list | tuple) else [fetches]
        given = {node: self._fed(node, value) for node, value in (feeds or {}).items()}
        self._check_fetches(wanted)
        self._extend(None)
        shapes = {node.name: list(value.shape) for node, value in given.items()}
        answer = self._ask("session/parts", {"fetches": [n.name for n in wanted], "shapes": shapes}, [], None)
        return {
            part["device"]: (part["steps"], from_json(text.tobytes().decode("utf-8")))
            for part, text in zip(answer.fields["parts"], answer.arrays, strict=True)
        }

    def plan(self, fetches: Sequence[Node], feeds: Mapping[Node, Any]) -> Plan:
        raise GraphError("session: the plans of a run on a cluster are on its tasks; see session.parts(...).")

    def _planned(self, *_: Any) -> Plan:
        return self.plan([], {})

    def watch(self, *_: Any, **__: Any) -> Any:
        raise GraphError("session: a watchpoint needs the graph in one process; run it in a Session to look at it.")

    # Talking to the master

    def _check_fetches(self, fetches: Sequence[Any]) -> None:
        for node in fetches:
            if not isinstance(node, Node):
                raise GraphError(f"session: a fetch must be a node, got {type(node).__name__}.")
            if node.graph is not self.graph:
                raise GraphError(f"session: {node.name} (made at {node.where}) is a node of another graph.")

    def _written(self) -> np.ndarray:
        with self.graph._lock:
            self._sent = len(self.graph)
            return np.frombuffer(to_json(self.graph).encode("utf-8"), np.uint8)

    def _extend(self, deadline: float | None) -> None:
        """Send the graph again if nodes were added to it."""
        if len(self.graph) != self._sent:
            self._ask("session/extend", {}, [self._written()], deadline)

    def _ask(self, kind: str, fields: dict[str, Any], arrays: list[np.ndarray], deadline: float | None) -> Message:
        """What the master answers; a master that does not know the graph any more is sent it again first."""
        seconds = self.deadline if deadline is None else deadline

        def start() -> int:
            return self._start(kind, {"session": self._name, **fields}, arrays, seconds)

        try:
            number = start()
        except PeerLost as error:  # nothing was asked yet: what is asked twice might be done twice
            self._open(seconds, error.reason)
            number = start()
        answer = self._finish(number, seconds)
        if answer.kind == FAILED and answer.fields["error"].get("kind") == "UnknownSession":
            self._open(seconds)
            answer = self._finish(start(), seconds)
        return self._told(answer)

    def _start(self, kind: str, fields: dict[str, Any], arrays: list[np.ndarray], seconds: float) -> int:
        message = Message(kind, {**fields, "deadline": float(seconds)}, arrays)
        return self.endpoint.start(self._master, message)

    def _finish(self, number: int, seconds: float) -> Message:
        return self.endpoint.finish(number, seconds + GRACE)

    def _told(self, answer: Message) -> Message:
        if answer.kind == FAILED:
            raise _error(answer.fields["error"])
        return answer


def _parts_of(target: str) -> tuple[str, str]:
    name, _, address = target.partition("@") if isinstance(target, str) else ("", "", "")
    if not name or "://" not in address:
        raise ValueError(
            f"session: {target!r} is no target; expected what Server.target gives, 'worker:0@tcp://127.0.0.1:2222'."
        )
    return name, address


def _error(record: Mapping[str, Any]) -> Exception:
    """The error that a task told, as it would be raised here."""
    kind, text, task = str(record.get("kind")), str(record.get("text")), str(record.get("task"))
    if kind == "PeerLost":
        return PeerLost(str(record.get("peer")), text.partition(": ")[2] or text)
    if kind == "DeadlineExceeded":
        return DeadlineExceeded(text)
    if kind in ("GraphError", "UnknownSession"):
        return GraphError(f"{text} (on {task})")
    return RemoteError(task, kind, text)
