"""One process's place in a job: it sends messages to peers by name, receives, and answers what others ask.

Everything but the wire is here: matching what arrives to who waits for it, calls and replies, deadlines, lost peers.
A transport adds how bytes get to a peer (`_send`) and hands in what comes (`_arrived`, `_lose`).
"""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost, RemoteError
from internals.distributed.transport.message import Message

LATER: Final = object()
"""A handler returns it to say that it keeps its `Reply` and will answer later, from any thread."""

CALL, ANSWER, REFUSAL = "call", "answer", "refusal"


class Reply:
    """The way back to who called; good for one answer, from any thread.

    Attributes
    ----------
    peer : str
        Who waits.
    """

    def __init__(self, endpoint: Endpoint, peer: str, number: int) -> None:
        self.peer = peer
        self._endpoint = endpoint
        self._number = number
        self._lock = threading.Lock()
        self._used = False

    def __call__(self, message: Message | None = None) -> None:
        """Answer. A caller that is gone meanwhile is no error."""
        self._once(message or Message(""), ANSWER)

    def fail(self, error: BaseException) -> None:
        """Let the call raise `RemoteError` where it was made."""
        self._once(Message("", {"kind": type(error).__name__, "text": str(error)}), REFUSAL)

    def _once(self, message: Message, way: str) -> None:
        with self._lock:
            if self._used:
                raise RuntimeError(f"a reply to {self.peer} was already given; a call has one answer")
            self._used = True
        try:
            self._endpoint._send(self.peer, message, way, self._number)
        except DistributedError:
            pass


Handler = Callable[[Message, Reply], "Message | object | None"]


class Endpoint(ABC):
    """A named participant of a job.

    Parameters
    ----------
    name : str
        By which peers know it: ``"rank:2"``, ``"server:0"``, ``"worker:1"``.

    Notes
    -----
    All methods can be called from any thread. Handlers run in one thread of the endpoint, one after the other: they
    need no locks among themselves, and must not block (return `LATER`, and answer from elsewhere).
    Messages of one kind from one peer arrive in the order sent; nothing is promised across peers or kinds.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._arrival = threading.Condition()
        self._mail: dict[str, deque[Message]] = defaultdict(deque)
        self._answers: dict[int, Message | BaseException] = {}
        self._calls: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._handlers: dict[str, Handler] = {}
        self._lost: dict[str, str] = {}
        self._when_lost: list[Callable[[str, str], None]] = []
        self._closed = False

    @property
    @abstractmethod
    def address(self) -> str:
        """Where peers reach it; what `connect` of another endpoint takes."""

    @abstractmethod
    def connect(self, peer: str, address: str) -> None:
        """Make `peer` reachable by name. A peer that has connected to this endpoint is reachable already.

        Raises
        ------
        DeadlineExceeded
            Nobody answers at `address`.
        AuthenticationError, ProtocolError
            Who answers does not hold the job's key, or speaks another version.
        """

    @abstractmethod
    def _send(self, peer: str, message: Message, way: str, number: int) -> None:
        """Put a message on the wire; returns when its arrays may be written to again. `way`: "", call, answer, ..."""

    def send(self, peer: str, message: Message) -> None:
        """Send, and return when the message's arrays may be written to again (not when it has arrived).

        Raises
        ------
        PeerLost
            `peer` is known to be dead.
        TypeError, ValueError
            The message holds what can't be sent, or too much of it.
        """
        self._check(peer)
        self._send(peer, message, "", 0)

    def receive(self, kind: str, peer: str | None = None, deadline: float | None = None) -> Message:
        """The oldest message of `kind` (from `peer`, where one is named), waited for.

        Parameters
        ----------
        deadline : float, optional
            Seconds to wait at most; None: as long as `peer` lives.

        Raises
        ------
        PeerLost
            `peer` is dead, and no message of `kind` from it is left.
        DeadlineExceeded
        """

        def found() -> Message | None:
            mail = self._mail.get(kind)
            if mail:
                for place, message in enumerate(mail):
                    if peer is None or message.source == peer:
                        del mail[place]
                        if not mail:
                            del self._mail[kind]
                        return message
            if peer is not None:
                self._check(peer)
            return None

        return self._wait(found, deadline, lambda: f"a message {kind!r} from {peer or 'anyone'}")

    def call(self, peer: str, message: Message, deadline: float | None = None) -> Message:
        """Ask `peer`, and wait for the answer of its handler of ``message.kind``.

        Raises
        ------
        RemoteError
            The handler raised, or there is none.
        PeerLost, DeadlineExceeded
        """
        return self.finish(self.start(peer, message), deadline)

    def start(self, peer: str, message: Message) -> int:
        """Ask without waiting: `finish` takes the number that is returned. Several calls can be on their way."""
        self._check(peer)
        number = next(self._numbers)
        with self._arrival:
            self._calls[number] = peer
        try:
            self._send(peer, message, CALL, number)
        except BaseException:
            with self._arrival:
                del self._calls[number]
            raise
        return number

    def finish(self, number: int, deadline: float | None = None) -> Message:
        """The answer to a call that was started. Raises as `call` does; after any error the call is forgotten."""
        peer = self._calls.get(number)
        if peer is None:
            raise ValueError(f"finish: there is no call {number} on its way; each is finished once")

        def found() -> Message | BaseException | None:
            if number in self._answers:
                return self._answers.pop(number)
            self._check(peer)
            return None

        try:
            answer = self._wait(found, deadline, lambda: f"the answer of {peer}")
        finally:
            with self._arrival:
                self._calls.pop(number, None)
                self._answers.pop(number, None)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def on(self, kind: str, handler: Handler) -> None:
        """Answer calls of `kind`: ``handler(message, reply)`` returns the answer (None: an empty one) or `LATER`."""
        self._handlers[kind] = handler

    def when_lost(self, told: Callable[[str, str], None]) -> None:
        """Let ``told(peer, reason)`` be called, in the endpoint's thread, when a peer dies."""
        self._when_lost.append(told)

    @property
    def lost(self) -> dict[str, str]:
        """The peers that died, and why it is thought so."""
        return dict(self._lost)

    def close(self) -> None:
        """Say goodbye to the peers, and give everything back. Whoever waits here gets a `DistributedError`."""
        with self._arrival:
            self._closed = True
            self._arrival.notify_all()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What a transport calls.

    def _arrived(self, message: Message, way: str, number: int) -> None:
        """Take in a message, in the endpoint's thread: run a handler, or wake who waits."""
        if way == CALL:
            self._handle(message, Reply(self, message.source, number))
            return
        with self._arrival:
            if way == "":
                self._mail[message.kind].append(message)
            elif self._calls.get(number) == message.source:
                self._answers[number] = message if way == ANSWER else _refusal(message)
            self._arrival.notify_all()

    def _lose(self, peer: str, reason: str) -> None:
        """Note that `peer` is dead: who waits for it is woken with `PeerLost`."""
        with self._arrival:
            if peer in self._lost or self._closed:
                return
            self._lost[peer] = reason
            self._arrival.notify_all()
        for told in list(self._when_lost):
            told(peer, reason)

    def _found(self, peer: str) -> None:
        """Note that a peer of this name is there (again)."""
        with self._arrival:
            self._lost.pop(peer, None)

    def _handle(self, message: Message, reply: Reply) -> None:
        handler = self._handlers.get(message.kind)
        if handler is None:
            known = ", ".join(sorted(self._handlers)) or "nothing"
            reply.fail(LookupError(f"{self.name} does not answer {message.kind!r}; it answers {known}"))
            return
        try:
            answer = handler(message, reply)
        except Exception as error:  # noqa: BLE001  whatever a handler raises is the caller's answer
            reply.fail(error)
        else:
            if answer is not LATER:
                reply(answer)  # type: ignore[arg-type]

    def _check(self, peer: str) -> None:
        if peer in self._lost:
            raise PeerLost(peer, self._lost[peer])
        if self._closed:
            raise DistributedError(f"{self.name}: this endpoint is closed")

    def _wait(self, found: Callable[[], Any], deadline: float | None, what: Callable[[], str]) -> Any:
        end = None if deadline is None else time.monotonic() + deadline
        with self._arrival:
            while (value := found()) is None:
                if self._closed:
                    raise DistributedError(f"{self.name}: closed while waiting for {what()}")
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise DeadlineExceeded(f"{self.name}: {what()} did not come within {deadline:g} s")
                self._arrival.wait(left)
            return value


def _refusal(message: Message) -> RemoteError:
    kind, text = message.fields.get("kind"), message.fields.get("text")
    return RemoteError(message.source, str(kind), str(text))
