"""What one of several ranks is given: who it is, and how it sends to the others and receives from them.

Mounted in the sandbox as the module ``peers``. Messages are plain data over one connection for each pair of ranks.
What a real network does is put in on purpose: a message is held back for a while, so that messages of different
peers overtake each other, and those of one peer never do; a send waits until it is received; a rank dies.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from autograder import frames
    from autograder.inside.plain import plain
    from autograder.inside.telling import CELL
else:
    import frames
    from plain import plain
    from telling import CELL

QUIET = 0.005
"""Seconds after which a rank that waits says so to who started it."""
KILLED = 87
"""Exit status of a rank that dies because it was told to."""
LOGGED = 2_000
"""Messages of one rank of which a record is kept."""

_MESSAGE, _TAKEN = 1, 2
_HEAD = struct.Struct("<BId")


class PeerLost(ConnectionError):
    """A rank has ended, so that nothing more comes from it; `peer` is its number."""

    def __init__(self, peer: int) -> None:
        super().__init__(f"rank {peer} is gone")
        self.peer = peer


class Peers:
    """The other ranks, as one rank sees them.

    Attributes
    ----------
    rank, size : int
        The number of this rank, and how many there are.
    note : plain data
        What is told beside it, should this rank wait in vain.
    waiting : dict
        "waits" and "for", as in the report of it, while this rank waits; else empty.
    telling : bool
        Whether a report is being written.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        links: Mapping[int, socket.socket],
        starter: socket.socket,
        conditions: Mapping[str, Any],
    ) -> None:
        self.rank, self.size = rank, size
        self.note: Any = None
        self.waiting: dict[str, Any] = {}
        self.telling = False
        self.counts: dict[str, list[int]] = {
            name: [0] * size for name in ("sent", "arrived", "received", "taken", "bytes")
        }
        self.log: list[list[Any]] = []
        self._links, self._starter = dict(links), starter
        self._inbox: dict[int, deque[tuple[float, Any]]] = {peer: deque() for peer in links}
        self._heard = {peer: bytearray() for peer in links}
        self._gone: set[int] = set()
        self._told: set[int] = set()
        self._rendezvous = bool(conditions.get("rendezvous"))
        self._delay = float(conditions.get("delay", 0.0))
        self._chance = {peer: random.Random(f"{conditions.get('seed', 0)} {rank} {peer}") for peer in links}
        self._due = dict.fromkeys(links, 0.0)
        victim, after = conditions.get("kill") or (-1, 0)
        self._steps_left = int(after) if victim == rank else -1
        self._turn = threading.Lock()
        self._peer_of = {link.fileno(): peer for peer, link in links.items()}
        self._poll = select.poll()
        for link in links.values():
            link.setblocking(False)
            self._poll.register(link, select.POLLIN)
        self._poll.register(starter, select.POLLIN)

    def send(self, to: int, value: Any) -> None:
        """Send an array, a number, a string, or lists, tuples and dicts of them.

        Under the condition "rendezvous" it returns once `to` has received it, as a send without a buffer does.

        Raises
        ------
        PeerLost
            `to` has ended.
        """
        to = self._known("send", to)
        with self._alone("send"):
            self._send(to, value)

    def receive(self, source: int) -> Any:
        """The next message of `source`, in the order in which it sent them; waits until there is one.

        Raises
        ------
        PeerLost
            `source` has ended, and all it had sent was received.
        """
        source = self._known("receive", source)
        with self._alone("receive"):
            return self._take(source, self._wait("receive", [source], lambda: self._first([source])))

    def receive_any(self) -> tuple[int, Any]:
        """``(source, message)`` of whatever comes first from any rank; waits until there is one.

        Raises
        ------
        PeerLost
            A rank has ended, and all it had sent was received. It is said once for each rank.
        """
        with self._alone("receive_any"):
            everyone = sorted(self._links)
            source = self._wait("receive", everyone, lambda: self._first(everyone))
            return source, self._take(source, source)

    def drain(self) -> None:
        """Read and drop what still comes, until who started this rank is done."""
        while True:
            self._pump(None)
            for box in self._inbox.values():
                box.clear()

    # --- inside ---

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        if not self._turn.acquire(blocking=False):
            raise RuntimeError(
                f"{what}: another thread of rank {self.rank} is sending or receiving. A rank does one at a time: call "
                "them one after the other."
            )
        try:
            self._step()
            yield
        finally:
            self._turn.release()

    def _send(self, to: int, value: Any) -> None:
        if to in self._gone:
            raise PeerLost(to)
        body = frames.encode(plain(value))
        due = max(time.monotonic(), self._due[to]) + self._delay * self._chance[to].random()
        self._due[to] = due
        size = bytes_of(value)
        self.counts["sent"][to] += 1
        self.counts["bytes"][to] += size
        self._note("send", to, size)
        self._write(to, _HEAD.pack(_MESSAGE, len(body), due) + body)
        if self._rendezvous:
            self._wait("send", [to], lambda: self.counts["taken"][to] >= self.counts["sent"][to] or None)

    def _known(self, what: str, peer: Any) -> int:
        number = int(peer) if isinstance(peer, (int, numpy.integer)) and not isinstance(peer, bool) else None
        if number is None or number not in self._links:
            own = ", which is this rank itself" if number == self.rank else ""
            raise ValueError(f"{what}: rank {peer!r}{own}; the others of {self.size} are {sorted(self._links)}.")
        return number

    def _step(self) -> None:
        if self._steps_left == 0:
            os._exit(KILLED)
        self._steps_left -= 1

    def _note(self, what: str, peer: int, size: int) -> None:
        if len(self.log) < LOGGED:
            self.log.append([what, peer, size])

    def _first(self, sources: Sequence[int]) -> int | None:
        """Who of them has a message that is due, the earliest first."""
        ready = [(self._inbox[peer][0][0], peer) for peer in sources if self._inbox[peer]]
        due, peer = min(ready, default=(float("inf"), -1))
        return peer if due <= time.monotonic() else None

    def _take(self, source: int, _: Any) -> Any:
        value = self._inbox[source].popleft()[1]
        self.counts["received"][source] += 1
        self._note("receive", source, bytes_of(value))
        if self._rendezvous and source not in self._gone:
            with contextlib.suppress(PeerLost):
                self._write(source, _HEAD.pack(_TAKEN, 0, 0.0))
        return value

    def _wait(self, doing: str, peers: list[int], ready: Callable[[], Any]) -> Any:
        """What `ready` gives, once it is not None."""
        self.waiting = {"waits": doing, "for": peers}
        try:
            return self._until(doing, peers, ready)
        finally:
            self.waiting = {}

    def _until(self, doing: str, peers: list[int], ready: Callable[[], Any]) -> Any:
        quiet_until, said = time.monotonic() + QUIET, False
        while True:
            found = ready()
            if found is not None:
                return found
            due = min((box[0][0] for peer in peers if (box := self._inbox[peer])), default=None)
            if due is None or doing == "send":
                lost = [peer for peer in peers if peer in self._gone]
                # Each is told of once, where others may still send; with nobody left there is nothing to wait for.
                for peer in lost if len(lost) == len(peers) else [one for one in lost if one not in self._told]:
                    self._told.add(peer)
                    raise PeerLost(peer)
            now = time.monotonic()
            if due is not None and doing == "receive":
                self._pump(max(0.0, due - now))
            elif said:
                self._pump(None)
            elif now < quiet_until:
                self._pump(quiet_until - now)
            else:
                said = True
                left = [peer for peer in peers if peer not in self._gone]
                report = {"waits": doing, "for": left, **place(), "counts": self.counts, "note": plain(self.note)}
                self.telling = True
                frames.write_frame(self._starter, report)
                self.telling = False

    def _write(self, to: int, data: bytes) -> None:
        view, link = memoryview(data), self._links[to]
        while view:
            try:
                view = view[link.send(view) :]
            except BlockingIOError:
                # Read meanwhile: the peer may be at the same, and two full buffers would wait for each other.
                self._poll.modify(link, select.POLLIN | select.POLLOUT)
                self._pump(None)
                if to not in self._gone:
                    self._poll.modify(link, select.POLLIN)
            except OSError:
                self._lose(to)
            if to in self._gone:
                raise PeerLost(to)

    def _pump(self, seconds: float | None) -> None:
        """Read what has come, waiting for it for as long at most."""
        # Rounded up: a poll that ends a little early is asked again and again.
        for descriptor, _ in self._poll.poll(None if seconds is None else int(seconds * 1000) + 1):
            if descriptor == self._starter.fileno():
                os._exit(0)
            self._read(self._peer_of[descriptor])

    def _read(self, peer: int) -> None:
        try:
            data = self._links[peer].recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(peer)
            return
        heard = self._heard[peer]
        heard += data
        while len(heard) >= _HEAD.size:
            kind, length, due = _HEAD.unpack_from(heard)
            if len(heard) < _HEAD.size + length:
                break
            if kind == _TAKEN:
                self.counts["taken"][peer] += 1
            else:
                self._inbox[peer].append((due, frames.decode(bytes(heard[_HEAD.size : _HEAD.size + length]))))
                self.counts["arrived"][peer] += 1
            del heard[: _HEAD.size + length]

    def _lose(self, peer: int) -> None:
        if peer not in self._gone:
            self._gone.add(peer)
            self._poll.unregister(self._links[peer])


def place() -> dict[str, int]:
    """The innermost cell and line of the learner's that is being run."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(CELL) and name[len(CELL) : -1].isdigit():
            return {"cell": int(name[len(CELL) : -1]), "line": frame.f_lineno}
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return {"cell": 0, "line": 0}


def bytes_of(value: Any) -> int:
    """Bytes of the arrays in a message; 8 for a number that is no array."""
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return sum(map(bytes_of, value))
    if isinstance(value, dict):
        return sum(map(bytes_of, value.values()))
    return 8 if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
