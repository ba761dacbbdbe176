"""The other tasks of a cluster, as a master sees them: are they reached, do they agree, are they the same as before."""

from __future__ import annotations

import threading
import time
from typing import Any

from internals.distributed.errors import DeadlineExceeded, DistributedError
from internals.distributed.runtime.cluster import ClusterSpec
from internals.distributed.runtime.reach import connected
from internals.distributed.runtime.trace import Clocks
from internals.distributed.runtime.worker import ANSWER, FAILED, Passed, Worker
from internals.distributed.transport import Endpoint, Message, Reply


class Tasks:
    """The tasks of a cluster.

    Parameters
    ----------
    endpoint : Endpoint
    worker : Worker
        That of the own task, which is asked without a message.
    cluster : ClusterSpec
    """

    def __init__(self, endpoint: Endpoint, worker: Worker, cluster: ClusterSpec) -> None:
        self.endpoint, self.worker, self.cluster = endpoint, worker, cluster
        self._generation: dict[str, int] = {}
        self._reached: set[str] = {endpoint.name}
        self._clocks = Clocks()
        self._lock = threading.Lock()
        endpoint.on("hello", self._hello)

    def generation(self, peer: str) -> int:
        """Changes whenever what a task was given may be gone."""
        return self._generation.get(peer, 0)

    def outdated(self, peer: str) -> None:
        """What a task was given is gone with it."""
        with self._lock:
            self._generation[peer] = self._generation.get(peer, 0) + 1
            if peer != self.endpoint.name:
                self._reached.discard(peer)
        self._clocks.forget(peer)

    def reach(self, peer: str, end: float) -> None:
        """Be connected to a task that was started with the same cluster.

        Raises
        ------
        DeadlineExceeded
            It does not answer until `end`; names it.
        PeerLost
            It died, and is not back.
        MismatchError
            It has another cluster.
        """
        if peer in self._reached and peer not in self.endpoint.lost:
            return
        job, _, task = peer.rpartition(":")
        connected(self.endpoint, peer, self.cluster.address(job, int(task)), max(0.0, end - time.monotonic()))
        answer = self.endpoint.call(
            peer, Message("hello", {"cluster": self.cluster.jobs}), left(end, f"{peer} to say hello")
        )
        self.cluster.check_same(ClusterSpec(answer.fields["cluster"]), self.endpoint.name, peer)
        self._reached.add(peer)

    def ask(self, peer: str, message: Message, end: float) -> Message:
        """A task's answer to ``assign``, ``variables``, ``forget`` or ``clock``."""
        if peer == self.endpoint.name:
            return checked(self.worker.answer(message))
        self.reach(peer, end)
        return checked(self.endpoint.call(peer, message, left(end, f"{peer} to answer")))

    def abort(self, step: str, peers: set[str], record: dict[str, Any]) -> None:
        """Let tasks give a step up."""
        for peer in peers:
            if peer == self.endpoint.name:
                self.worker.abort(step, Passed(record))
            elif peer not in self.endpoint.lost:
                try:
                    self.endpoint.send(peer, Message("step", {"step": step, "error": record}))
                except DistributedError:
                    continue

    def offset(self, peer: str, end: float) -> float:
        """What to add to a task's clock to have this task's."""
        if peer == self.endpoint.name:
            return 0.0
        return self._clocks.offset(
            peer, self.worker.clock, lambda: float(self.ask(peer, Message("clock"), end).fields["now"])
        )

    def _hello(self, message: Message, reply: Reply) -> Message:
        return Message(ANSWER, {"cluster": self.cluster.jobs})


def left(end: float, what: str) -> float:
    """Seconds until `end`.

    Raises
    ------
    DeadlineExceeded
        There are none.
    """
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise DeadlineExceeded(f"no time is left for {what}")
    return seconds


def checked(answer: Message) -> Message:
    """An answer that is none of failure."""
    if answer.kind == FAILED:
        raise Passed(dict(answer.fields["error"]))
    return answer
