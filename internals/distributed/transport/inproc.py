"""Endpoints in one process: threads stand for machines. The same checks and the same bytes, no wire.

It can be made to misbehave on purpose, and in the same way each time: messages late, in another order across peers,
a peer that dies.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost
from internals.distributed.transport.endpoint import Endpoint
from internals.distributed.transport.message import Message, decode, encode


@dataclass(frozen=True)
class Faults:
    """How a network misbehaves.

    Attributes
    ----------
    delay : callable, optional
        ``delay(source, target, kind)`` gives the seconds a message is on its way. Messages from one endpoint to
        another never overtake each other; across pairs they do.
    jitter : float
        Seconds, up to which a random delay is added to each message.
    seed : int
        Of the random delays.
    """

    delay: Callable[[str, str, str], float] | None = None
    jitter: float = 0.0
    seed: int = 0


class Network:
    """What the endpoints of one process are joined by.

    Examples
    --------
    >>> network = Network()
    >>> one, two = network.endpoint("one"), network.endpoint("two")
    >>> two.on("double", lambda message, reply: Message("", {"value": 2 * message.fields["value"]}))
    >>> one.connect("two", two.address)
    >>> one.call("two", Message("double", {"value": 21})).fields["value"]
    42
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self._faults = faults or Faults()
        self._random = random.Random(self._faults.seed)
        self._lock = threading.Lock()
        self._endpoints: dict[str, InprocEndpoint] = {}
        self._last: dict[tuple[str, str], float] = {}

    def endpoint(self, name: str) -> InprocEndpoint:
        """A new participant. Its name may have been another's that died.

        Raises
        ------
        ValueError
            A living endpoint has this name.
        """
        with self._lock:
            if name in self._endpoints:
                raise ValueError(f"network: there is an endpoint {name!r} already; names are each one's own")
            endpoint = self._endpoints[name] = InprocEndpoint(name, self)
        return endpoint

    def kill(self, name: str) -> None:
        """Let an endpoint die without a goodbye, as ``kill -9`` does to a process. What it had sent still arrives."""
        with self._lock:
            endpoint = self._endpoints.get(name)
            known = ", ".join(sorted(self._endpoints)) or "none"
        if endpoint is None:
            raise ValueError(f"network: there is no endpoint {name!r} to kill; there are {known}")
        self._leave(endpoint, "killed")
        Endpoint.close(endpoint)

    def _leave(self, endpoint: InprocEndpoint, reason: str) -> None:
        with self._lock:
            if self._endpoints.get(endpoint.name) is not endpoint:
                return
            del self._endpoints[endpoint.name]
            others = [other for other in self._endpoints.values() if other._known.get(endpoint.name) is endpoint]
            due = {other.name: self._last.pop((endpoint.name, other.name), 0.0) for other in others}
            for pair in [pair for pair in self._last if endpoint.name in pair]:
                del self._last[pair]
        endpoint._stop()
        for other in others:
            other._post(functools.partial(other._gone, endpoint, reason), max(0.0, due[other.name] - time.monotonic()))

    def _due(self, source: str, target: str, kind: str) -> float:
        """When a message that is sent now arrives."""
        faults = self._faults
        due = time.monotonic()
        if faults.delay is None and not faults.jitter:
            return due
        late = 0.0 if faults.delay is None else faults.delay(source, target, kind)
        with self._lock:
            due = max(due + late + faults.jitter * self._random.random(), self._last.get((source, target), 0.0))
            self._last[source, target] = due
        return due


class InprocEndpoint(Endpoint):
    """An endpoint on a `Network`; made by `Network.endpoint`."""

    def __init__(self, name: str, network: Network) -> None:
        super().__init__(name)
        self._network = network
        self._known: dict[str, InprocEndpoint] = {name: self}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._work = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"endpoint {name}", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"inproc://{self.name}"

    def connect(self, peer: str, address: str, deadline: float = 10.0) -> None:
        end = time.monotonic() + deadline
        while True:
            if self._closed:
                raise DistributedError(f"{self.name}: this endpoint is closed")
            with self._network._lock:
                target = self._network._endpoints.get(peer)
            if target is not None and target.address == address:
                break
            if time.monotonic() >= end:
                raise DeadlineExceeded(f"{self.name}: nobody named {peer!r} answers at {address} within {deadline:g} s")
            time.sleep(0.005)
        self._meet(target)
        target._meet(self)

    def _meet(self, peer: InprocEndpoint) -> None:
        known = self._known.get(peer.name)
        if known is not None and known is not peer:
            self._lose(peer.name, "another of this name has come")
        self._known[peer.name] = peer
        self._found(peer.name)

    def _gone(self, peer: InprocEndpoint, reason: str) -> None:
        if self._known.get(peer.name) is peer:
            self._lose(peer.name, reason)

    def _take(self, source: InprocEndpoint, message: Message, way: str, number: int) -> None:
        if self._known.get(source.name) is source:  # not what a dead predecessor of who has this name now had sent
            self._arrived(message, way, number)

    def _send(self, peer: str, message: Message, way: str, number: int) -> None:
        target = self._known.get(peer)
        if target is None:
            self._check(peer)
            raise ValueError(f"{self.name}: connect to {peer!r} first; known are {sorted(self._known)}")
        if target._stopped:
            raise PeerLost(peer, "it is gone")
        frames = [bytes(frame) for frame in encode(message)]  # the copy that the wire would make
        arrived = decode(frames, self.name)
        due = self._network._due(self.name, peer, message.kind)
        target._at(due, functools.partial(target._take, self, arrived, way, number))

    def _post(self, action: Callable[[], None], delay: float = 0.0) -> None:
        self._at(time.monotonic() + delay, action)

    def _at(self, due: float, action: Callable[[], None]) -> None:
        with self._work:
            heapq.heappush(self._queue, (due, next(self._order), action))
            self._work.notify()

    def _in_own_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._stopped and not (self._queue and self._queue[0][0] <= time.monotonic()):
                    self._work.wait(self._queue[0][0] - time.monotonic() if self._queue else None)
                if self._stopped:
                    return
                action = heapq.heappop(self._queue)[2]
            action()

    def _stop(self) -> None:
        with self._work:
            self._stopped = True
            self._queue.clear()
            self._work.notify()

    def close(self) -> None:
        self._network._leave(self, "it left")
        super().close()
