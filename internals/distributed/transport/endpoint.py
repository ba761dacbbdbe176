"""One process's place in a job: it sends messages to peers by name, receives, and answers what others ask.

Everything but the wire is here: matching what arrives to who waits for it, calls and replies, deadlines, lost peers.
A transport adds how bytes get to a peer (`_send`) and a thread to do things in (`_post`), and hands in what comes
(`_arrived`, `_lose`, `_found`).
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost
from internals.distributed.transport.message import Message
from internals.distributed.transport.reply import ANSWER, CALL, LATER, Reply, refusal
from internals.distributed.transport.window import Window, cost

logger: Final = logging.getLogger("internals.distributed")

WINDOW = 1 << 30
"""Bytes a peer may have sent that nobody here has received yet, and as many in calls that nobody here has answered yet;
whoever sends more waits."""
PATIENCE = 60.0
"""Seconds that a sender waits for a full window."""
SETTLING = 2.0
"""Seconds after an endpoint was opened in which a call waits for its handler to be registered."""
CREDIT = "credit"
"""The way of a message that gives a sender room again: its number is in bytes."""

Handler = Callable[[Message, Reply], "Message | object | None"]
Found = Callable[[], Any]


class Endpoint(ABC):
    """A named participant of a job.

    Parameters
    ----------
    name : str
        By which peers know it: ``"rank:2"``, ``"server:0"``, ``"worker:1"``.

    Notes
    -----
    All methods can be called from any thread. Handlers run in one thread of the endpoint, one after the other: they
    need no locks among themselves, and can't wait for messages (return `LATER`, and answer from elsewhere).
    Messages of one kind from one peer arrive in the order sent; nothing is promised across peers or kinds.

    An endpoint stays with the process that opened it: threads and sockets don't survive a fork. A forked child opens
    its own.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= 200:
            raise ValueError(f"an endpoint's name is a str of 1 to 200 characters, not {name!r:.60}")
        self.name = name
        self._arrival = threading.Lock()
        self._waiters: dict[str | int, list[threading.Condition]] = {}
        self._mail: dict[str, deque[Message]] = defaultdict(deque)
        self._unread = Window()
        self._unanswered = Window()
        self._unpaid: Counter[str] = Counter()
        self._answers: dict[int, Message | BaseException] = {}
        self._calls: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._handlers: dict[str, Handler] = {}
        self._early: dict[str, list[tuple[Message, Reply]]] = {}
        self._opened = time.monotonic()
        self._lost: dict[str, str] = {}
        self._when_lost: list[Callable[[str, str], None]] = []
        self._closed = False
        self._process = os.getpid()

    @property
    @abstractmethod
    def address(self) -> str:
        """Where peers reach it; what `connect` of another endpoint takes."""

    @abstractmethod
    def connect(self, peer: str, address: str, deadline: float = 10.0) -> None:
        """Make `peer` reachable by name. A peer that has connected to this endpoint is reachable already.

        Parameters
        ----------
        deadline : float
            Seconds that `peer` has to appear and to answer.

        Raises
        ------
        DeadlineExceeded
            Nobody answers at `address`.
        AuthenticationError, ProtocolError
            Who answers does not hold the job's key, or speaks another version.
        DuplicateName
            A living endpoint of this one's name has connected to `peer`.
        """

    @abstractmethod
    def _send(self, peer: str, message: Message, way: str, number: int) -> None:
        """Put a message on the wire; returns when its arrays may be written to again. `way`: "", call, answer, ..."""

    @abstractmethod
    def _post(self, action: Callable[[], None], delay: float = 0.0) -> None:
        """Let `action` run in the endpoint's thread, `delay` seconds from now, after what was posted before."""

    @abstractmethod
    def _in_own_thread(self) -> bool:
        """Whether the caller is the endpoint's thread: a handler, or what is told of a loss."""

    def send(self, peer: str, message: Message) -> None:
        """Send, and return when the message's arrays may be written to again (not when it has arrived).

        Raises
        ------
        PeerLost
            `peer` is known to be dead.
        DeadlineExceeded
            `peer` has left so much unread, for so long, that no more is sent to it.
        TypeError, ValueError
            The message holds what can't be sent, or too much of it.
        """
        self._check(peer)
        self._spend(peer, message)
        try:
            self._send(peer, message, "", 0)
        except BaseException:
            with self._arrival:
                self._unread.give(peer, cost(message))
            raise

    def send_all(self, peers: Sequence[str], message: Message) -> None:
        """Send one message to several peers; where they share this machine's memory, its arrays are copied once."""
        for peer in peers:
            self.send(peer, message)

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

        message = self._wait(found, deadline, lambda: f"a message {kind!r} from {peer or 'anyone'}", kind)
        self._pay(message)
        return message

    def call(self, peer: str, message: Message, deadline: float | None = None) -> Message:
        """Ask `peer`, and wait for the answer of its handler of ``message.kind``.

        Raises
        ------
        RemoteError
            The handler raised, or there is none.
        PeerLost, DeadlineExceeded
        """
        began = time.monotonic()
        return self._finish(self.start(peer, message, deadline), deadline, began)

    def start(self, peer: str, message: Message, deadline: float | None = None) -> int:
        """Ask without waiting: `finish` takes the number that is returned. Several calls can be on their way.

        A `peer` that has left very much unanswered is asked no more: that is waited for, `deadline` seconds at most.
        """
        self._check(peer)
        number = next(self._numbers)
        self._spend(peer, message, number, deadline)
        with self._arrival:
            self._calls[number] = peer
        try:
            self._send(peer, message, CALL, number)
        except BaseException:
            with self._arrival:
                self._calls.pop(number, None)
                self._answers.pop(number, None)
                self._unanswered.answered(number, peer)
            raise
        return number

    def finish(self, number: int, deadline: float | None = None, beside: Sequence[int] = ()) -> Message:
        """The answer to a call that was started. Raises as `call` does; after any error the call is forgotten.

        The loss of a peer that one of the calls `beside` went to is raised too, and ends the wait.
        """
        return self._finish(number, deadline, time.monotonic(), beside)

    def _finish(self, number: int, deadline: float | None, began: float, beside: Sequence[int] = ()) -> Message:
        peer = self._calls.get(number)
        if peer is None:
            raise ValueError(f"finish: there is no call {number} on its way; each is finished once")

        def found() -> Message | BaseException | None:
            if number in self._answers:
                return self._answers.pop(number)
            self._check(peer)
            lost = (answer for other in beside if isinstance(answer := self._answers.get(other), PeerLost))
            return next(lost, None)

        try:
            answer = self._wait(found, deadline, lambda: f"the answer of {peer}", number, began)
        finally:
            with self._arrival:
                self._calls.pop(number, None)
                self._answers.pop(number, None)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def on(self, kind: str, handler: Handler) -> None:
        """Answer calls of `kind`: ``handler(message, reply)`` returns the answer (None: an empty one) or `LATER`.

        Calls that came while the endpoint was new, before this, are answered now.
        """
        with self._arrival:
            self._handlers[kind] = handler
            early = self._early.pop(kind, [])
        for message, reply in early:
            self._post(lambda message=message, reply=reply: self._handle(message, reply))  # type: ignore[misc]

    def when_lost(self, told: Callable[[str, str], None]) -> None:
        """Let ``told(peer, reason)`` be called, in the endpoint's thread, when a peer dies."""
        self._when_lost.append(told)

    @property
    def lost(self) -> dict[str, str]:
        """The peers that died, and why it is thought so."""
        with self._arrival:
            return dict(self._lost)

    def close(self) -> None:
        """Say goodbye to the peers, and give everything back. Whoever waits here gets a `DistributedError`."""
        with self._arrival:
            self._closed = True
            self._wake()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {'closed' if self._closed else self.address})"

    # What a transport calls.

    def _arrived(self, message: Message, way: str, number: int) -> None:
        """Take in a message: run a handler (in the endpoint's thread), or wake who waits."""
        if way == CALL:
            self._handle(message, Reply(self, message.source, number))
            return
        with self._arrival:
            if way == "":
                self._mail[message.kind].append(message)
                self._wake(message.kind)
            elif way == CREDIT:
                self._unread.give(message.source, number)
                self._wake(CREDIT)
            else:
                if self._unanswered.answered(number, message.source):
                    self._wake(CREDIT)
                if self._calls.get(number) == message.source:
                    self._answers[number] = message if way == ANSWER else refusal(message)
                    self._wake(number)

    def _lose(self, peer: str, reason: str) -> None:
        """Note that `peer` is dead: who waits for it is woken with `PeerLost`."""
        with self._arrival:
            if peer in self._lost or self._closed:
                return
            self._lost[peer] = reason
            self._unread.lose(peer)
            self._unanswered.lose(peer)
            self._unpaid.pop(peer, None)
            for number, asked in self._calls.items():
                if asked == peer:  # even if a peer of this name comes back: it knows nothing of the call
                    self._answers.setdefault(number, PeerLost(peer, reason))
            self._wake()
        for told in list(self._when_lost):
            self._post(lambda told=told: self._tell(told, peer, reason))  # type: ignore[misc]

    def _found(self, peer: str) -> None:
        """Note that a peer of this name is there (again). What its predecessor left unread is dropped."""
        with self._arrival:
            if self._lost.pop(peer, None) is None:
                return
            for kind, mail in list(self._mail.items()):
                kept = deque(message for message in mail if message.source != peer)
                if kept:
                    self._mail[kind] = kept
                else:
                    del self._mail[kind]
            self._wake()

    def _handle(self, message: Message, reply: Reply) -> None:
        with self._arrival:
            handler = self._handlers.get(message.kind)
            if handler is None and (left := self._opened + SETTLING - time.monotonic()) > 0 and not self._closed:
                self._early.setdefault(message.kind, []).append((message, reply))
                if len(self._early[message.kind]) == 1:
                    self._post(lambda: self._refuse_early(message.kind), left)
                return
            known = ", ".join(sorted(self._handlers)) or "nothing"
        if handler is None:
            reply.fail(LookupError(f"{self.name} does not answer {message.kind!r}; it answers {known}"))
            return
        try:
            answer = handler(message, reply)
            if answer is not None and answer is not LATER and not isinstance(answer, Message):
                raise TypeError(
                    f"the handler of {message.kind!r} returned a {type(answer).__name__}; expected a Message, "
                    "None or LATER"
                )
            if answer is not LATER:
                reply(answer)
        except BaseException as error:
            if reply.given:
                logger.exception("%s: the handler of %r raised after it had answered", self.name, message.kind)
            else:
                reply.fail(error)

    def _refuse_early(self, kind: str) -> None:
        with self._arrival:
            early = self._early.pop(kind, [])
        for message, reply in early:
            self._handle(message, reply)

    def _tell(self, told: Callable[[str, str], None], peer: str, reason: str) -> None:
        try:
            told(peer, reason)
        except Exception:  # what one listener raises is no reason not to tell the next
            logger.exception("%s: what was told that %s is lost raised", self.name, peer)

    def _spend(self, peer: str, message: Message, call: int | None = None, deadline: float | None = None) -> None:
        """Wait until `peer` has room for a message, or for a call of this number, and take the room.

        A call holds its room until it is answered, though its caller gave up waiting: `peer` still has it.
        """
        window = self._unread if call is None else self._unanswered

        def room() -> bool | None:
            if window.take(peer, cost(message), sys.maxsize if self._in_own_thread() else WINDOW, call):
                return True
            self._check(peer)
            return None

        left = "{} bytes unread" if call is None else "calls of {} bytes unanswered"
        told = f"room at {peer}, which has left {left},"
        self._wait(room, PATIENCE if deadline is None else deadline, lambda: told.format(window[peer]), CREDIT)

    def _pay(self, message: Message) -> None:
        """Give the sender of a message that was received its room back, a good part of the window at a time."""
        with self._arrival:
            peer = message.source
            self._unpaid[peer] += cost(message)
            owed = self._unpaid[peer]
            if owed < WINDOW // 8 or peer in self._lost or self._closed:
                return
            self._unpaid[peer] = 0
        try:
            self._send(peer, Message(""), CREDIT, owed)
        except DistributedError:
            logger.debug("%s: %s left before it was told of room", self.name, peer)

    def _check(self, peer: str) -> None:
        if peer in self._lost:
            raise PeerLost(peer, self._lost[peer])
        if self._closed:
            raise DistributedError(f"{self.name}: this endpoint is closed")
        if os.getpid() != self._process:
            raise DistributedError(
                f"{self.name}: opened by process {self._process}, used in its fork {os.getpid()}: open one in the child"
            )

    def _wait(
        self, found: Found, deadline: float | None, what: Callable[[], str], key: str | int, began: float = 0.0
    ) -> Any:
        """What `found` returns once it is not None; it is asked, with the lock held, after each arrival of `key`."""
        end = None if deadline is None else (began or time.monotonic()) + deadline
        with self._arrival:
            try:
                while (value := found()) is None:
                    if self._closed:
                        raise DistributedError(f"{self.name}: closed while waiting for {what()}")
                    if self._in_own_thread():
                        raise RuntimeError(
                            f"{self.name}: a handler can't wait for {what()}: nothing arrives while it runs. "
                            "Return LATER, and answer from another thread"
                        )
                    left = None if end is None else end - time.monotonic()
                    if left is not None and left <= 0:
                        raise DeadlineExceeded(f"{self.name}: {what()} did not come within {deadline:g} s")
                    self._rest(left, key)
            finally:
                self._done_waiting()
            return value

    def _rest(self, left: float | None, key: str | int) -> None:
        """Wait, the lock held on entry and on return, for something of `key` to arrive, at most `left` seconds."""
        condition = threading.Condition(self._arrival)
        waiters = self._waiters.setdefault(key, [])
        waiters.append(condition)
        try:
            condition.wait(left)
        finally:
            waiters.remove(condition)
            if not waiters and self._waiters.get(key) is waiters:
                del self._waiters[key]

    def _done_waiting(self) -> None:  # noqa: B027  nothing to do here
        """Called, the lock held, by whoever has waited or found without waiting."""

    def _wake(self, key: str | int | None = None) -> None:
        """Wake, the lock held, who waits for `key`; everyone, where none is given."""
        for waiters in list(self._waiters.values()) if key is None else [self._waiters.get(key, [])]:
            for condition in waiters:
                condition.notify_all()
