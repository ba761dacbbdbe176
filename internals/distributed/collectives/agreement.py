"""The collectives of one group on one rank: their order, their messages, and finding out who called something else.

Every message of a collective carries the number of the call and a fingerprint of what was called (name, operation,
dtype, shape, algorithm). That costs nothing, and finds most mistakes with the first message. A rank that only sends,
as a broadcast's source does, would get none: it waits for a word from those it sends to, so that two sources find out.
The others, where each rank waits for a message that another will never send, are found by asking: a rank that has
waited for a while asks all ranks what they have called under this number.

What went wrong is told to all ranks before it is raised, so that each raises the first cause, and not that its
neighbour is gone.
"""

from __future__ import annotations

import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from internals.distributed.collectives.operands import Take, segments
from internals.distributed.collectives.work import Line, Work
from internals.distributed.errors import DeadlineExceeded, DistributedError, MismatchError, PeerLost, RemoteError
from internals.distributed.group import Group
from internals.distributed.transport import Message, Reply

PATIENCE = 0.5
"""Seconds that a rank waits for a message before it asks the others what they are doing."""
REMEMBERED = 1024
"""Calls whose text a rank can still tell the others."""
DATA, ASKED, TOLD = "collective", "collective?", "collective!"


class Call:
    """One collective on one rank: sends and receives what belongs to it and nothing else.

    Attributes
    ----------
    rank, size : int
    text : str
        What was called, as all ranks must have called it.
    """

    def __init__(self, communicator: Communicator, number: int, text: str) -> None:
        self.communicator, self.number, self.text = communicator, number, text
        self.group = communicator.group
        self.rank, self.size = self.group.rank, self.group.size
        self._fields = {"n": self.number, "f": zlib.crc32(text.encode())}
        self._asks = False
        self._asked: list[int] = []

    def send(self, to: int, array: np.ndarray) -> None:
        """Send one array; it may be written to when this returns."""
        self.group.send(to, DATA, array, **self._marked([to]))

    def send_each(self, ranks: Sequence[int], array: np.ndarray) -> None:
        """Send one array to several ranks; where they share memory, it is copied once for all."""
        group = self.group
        message = Message(group.kind(DATA), self._marked(ranks), [array])
        group.endpoint.send_all([group.name_of(rank) for rank in ranks], message)

    def _marked(self, ranks: Sequence[int]) -> dict[str, Any]:
        """The fields of a message; it asks for a word, where it is the first to these ranks and this one gets none."""
        if not self._asks or all(rank in self._asked for rank in ranks):
            return self._fields
        self._asked += ranks
        return {**self._fields, "asks": True}

    @contextmanager
    def only_sending(self, only: bool) -> Iterator[None]:
        """If `only`: what is sent inside asks for a word, and the end waits for it."""
        self._asks = only
        yield
        for rank in self._asked:
            message = self._next(rank)
            if message.arrays:
                raise self.communicator.mismatch(self, rank, self.number)

    def receive(self, source: int) -> np.ndarray:
        """The next array from a rank: read-only, and good until the next is asked for."""
        message = self._next(source)
        if len(message.arrays) != 1:
            raise self.communicator.mismatch(self, source, self.number)
        if message.fields.get("asks"):
            self.group.send(source, DATA, **self._fields)
        return message.arrays[0]

    def _next(self, source: int) -> Message:
        """The next message from a rank, if it belongs to this call."""
        group = self.group
        try:
            message = group.receive(source, DATA, min(PATIENCE, group.deadline))
        except DeadlineExceeded:
            message = self.communicator.patiently(self, source)
        if any(message.fields.get(key) != value for key, value in self._fields.items()):
            raise self.communicator.mismatch(self, source, message.fields.get("n"))
        return message

    def send_all(self, to: int, flat: np.ndarray) -> None:
        """Send a flat array in segments."""
        for segment in segments(flat):
            self.send(to, segment)

    def receive_all(self, source: int, flat: np.ndarray, take: Take) -> None:
        """Receive what `send_all` sent, and `take` each segment."""
        for segment in segments(flat):
            take(segment, self.receive(source))

    def swap(self, to: int, outgoing: np.ndarray, source: int, incoming: np.ndarray, take: Take) -> None:
        """Send to one rank and receive from one, segment by segment in turn, so that neither side piles up."""
        out, into = list(segments(outgoing)), list(segments(incoming))
        for place in range(max(len(out), len(into))):
            if place < len(out):
                self.send(to, out[place])
            if place < len(into):
                take(into[place], self.receive(source))


class Communicator:
    """What a rank remembers of the collectives of one group. Made by `communicator`, once per group.

    Parameters
    ----------
    group : Group
    """

    def __init__(self, group: Group) -> None:
        self._group = weakref.ref(group)  # groups are looked up by it, and must not be kept alive
        self.broken: DistributedError | None = None
        self._texts: dict[int, str] = {}
        self._number = 0
        self._line = Line(f"collectives of {group.name_of(group.rank)}")
        self._turn = threading.RLock()
        endpoint = group.endpoint
        endpoint.on(group.kind(ASKED), self._asked)
        endpoint.on(group.kind(TOLD), self._told)

    @property
    def group(self) -> Group:
        group = self._group()
        assert group is not None, "who calls holds it"
        return group

    def perform(self, text: str, body: Callable[[Call], Any], asynchronous: bool) -> Any:
        """Run a collective, after all that were started before it; or start it, and return its `Work`."""
        with self._turn:
            if self.broken is not None:
                raise _again(self.broken)
            self._number += 1
            call = Call(self, self._number, text)
            self._texts[self._number] = text
            self._texts.pop(self._number - REMEMBERED, None)
            if not asynchronous and self._line.idle:
                return self._run(call, body)
            work = Work(text, lambda: self._run(call, body))
            self._line.put(work)
        return work if asynchronous else work.wait()

    def _run(self, call: Call, body: Callable[[Call], Any]) -> Any:
        if self.broken is not None:
            raise _again(self.broken)
        try:
            return body(call)
        except DistributedError as error:
            if self.broken is not None:  # what broke it first is the cause of this one
                raise _again(self.broken) from None
            cause = self._first_lost() if isinstance(error, PeerLost) else None
            self.fail(cause or error)
            raise (cause or error) from None

    def _first_lost(self) -> PeerLost | None:
        """The rank that died first: those after it may only have given up because of it."""
        names = {self.group.name_of(rank) for rank in range(self.group.size)}
        return next((PeerLost(peer, why) for peer, why in self.group.endpoint.lost.items() if peer in names), None)

    def patiently(self, call: Call, source: int) -> Message:
        """Go on waiting for a message, asking the others meanwhile what they do."""
        end = time.monotonic() + self.group.deadline - min(PATIENCE, self.group.deadline)
        patience = PATIENCE
        while True:
            others = self.ask(call.number)
            self._check(call.number, others)
            left = end - time.monotonic()
            if left <= 0:
                raise self._late(call, source, others)
            try:
                return self.group.receive(source, DATA, min(patience, left))
            except DeadlineExceeded:
                patience = min(2 * patience, 4.0)

    def ask(self, number: int) -> dict[int, Any]:
        """What each other rank says of call `number`: its text, or where it is; an error where there is no answer."""
        endpoint, name_of = self.group.endpoint, self.group.name_of
        answers: dict[int, Any] = {}
        question = {"number": number}
        started: dict[int, int] = {}
        for rank in range(self.group.size):
            if rank != self.group.rank:
                try:
                    started[rank] = endpoint.start(name_of(rank), Message(self.group.kind(ASKED), question))
                except DistributedError as error:
                    answers[rank] = error
        for rank, call in started.items():
            try:
                answers[rank] = endpoint.finish(call, 2.0).fields
            except DistributedError as error:
                answers[rank] = error
        return answers

    def mismatch(self, call: Call, source: int, number: Any) -> DistributedError:
        """The error for a message from `source` that belongs to another call, of this `number`."""
        asked = min(number, call.number) if isinstance(number, int) else call.number
        others = self.ask(asked)
        try:
            self._check(asked, others)
        except DistributedError as error:
            return error
        return MismatchError(
            f"{call.text} (call {call.number}) on rank {call.rank} got a message of call {number} from rank {source}; "
            f"of call {asked}, {_told_apart(self._statements(asked, others))}"
        )

    def fail(self, error: DistributedError) -> None:
        """Let no collective of this group go on, here and on the other ranks, and say why."""
        if self.broken is not None:
            return
        self.broken = error
        fields = {"broken": _facts(error)}
        started = []
        for rank in range(self.group.size):
            if rank != self.group.rank:
                try:
                    message = Message(self.group.kind(TOLD), fields)
                    started.append(self.group.endpoint.start(self.group.name_of(rank), message))
                except DistributedError:
                    continue
        for number in started:
            try:
                self.group.endpoint.finish(number, 1.0)
            except DistributedError:
                continue

    def _check(self, number: int, others: dict[int, Any]) -> None:
        if self.broken is not None:
            raise _again(self.broken)
        statements = self._statements(number, others)
        if len({text for text in statements.values() if text is not None}) > 1:
            raise MismatchError(f"ranks called different collectives (call {number}): {_told_apart(statements)}")
        for answer in others.values():
            if isinstance(answer, dict) and answer.get("broken"):
                raise _error(*answer["broken"])

    def _statements(self, number: int, others: dict[int, Any]) -> dict[int, str | None]:
        said = {rank: answer.get("text") if isinstance(answer, dict) else None for rank, answer in others.items()}
        return dict(sorted({**said, self.group.rank: self._texts.get(number)}.items()))

    def _late(self, call: Call, source: int, others: dict[int, Any]) -> DistributedError:
        lost = self._first_lost()
        if lost is not None:
            return lost
        absent = [rank for rank, answer in others.items() if not isinstance(answer, dict) or answer["text"] is None]
        within = f"within {self.group.deadline:g} s"
        if not absent:
            return DeadlineExceeded(
                f"{call.text} (call {call.number}): rank {call.rank} has waited for rank {source}, which takes part, "
                f"and nothing came {within}"
            )
        where = "; ".join(f"rank {rank} {_whereabouts(others[rank])}" for rank in sorted(absent))
        return DeadlineExceeded(f"{call.text} (call {call.number}) was not called by all ranks {within}: {where}")

    # What others ask and tell; both run in the endpoint's thread.

    def _asked(self, question: Message, reply: Reply) -> Message:
        number = question.fields.get("number")
        text = self._texts.get(number) if isinstance(number, int) else None
        last = self._texts.get(self._number, "")
        broken = None if self.broken is None else _facts(self.broken)
        return Message("", {"text": text, "at": self._number, "last": last, "broken": broken})

    def _told(self, news: Message, reply: Reply) -> None:
        if self.broken is None:
            self.broken = _error(*news.fields["broken"])


def _facts(error: DistributedError) -> list[str]:
    return [type(error).__name__, str(error), getattr(error, "peer", "")]


def _error(kind: str, text: str, peer: str) -> DistributedError:
    if kind == "PeerLost":
        return PeerLost(peer, text.removeprefix(f"lost {peer}: "))
    return {"MismatchError": MismatchError, "DeadlineExceeded": DeadlineExceeded}.get(kind, DistributedError)(text)


def _again(error: DistributedError) -> DistributedError:
    """The same error, to be raised once more and elsewhere."""
    return _error(*_facts(error))


def _told_apart(statements: dict[int, str | None]) -> str:
    """``"ranks 0, 2 called broadcast(...); rank 1 called barrier()"``."""
    ranks: dict[str | None, list[int]] = {}
    for rank, text in statements.items():
        ranks.setdefault(text, []).append(rank)
    return "; ".join(
        f"rank{'s' if len(those) > 1 else ''} {', '.join(map(str, those))} "
        + ("called nothing yet" if text is None else f"called {text}")
        for text, those in ranks.items()
    )


def _whereabouts(answer: Any) -> str:
    if isinstance(answer, RemoteError):
        return "has not called any collective of this group"
    if isinstance(answer, dict):
        return f"is at call {answer['at']}, {answer['last']}" if answer["at"] else "has not called any"
    return f"did not answer ({answer})"


_known: weakref.WeakKeyDictionary[Group, Communicator] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def communicator(group: Group) -> Communicator:
    """The collectives of a group on this rank.

    Raises
    ------
    TypeError
        Not a Group.
    """
    if not isinstance(group, Group):
        raise TypeError(f"a collective takes a Group, got {type(group).__name__}; make one with join or run_threads")
    with _lock:
        if group not in _known:
            _known[group] = Communicator(group)
        return _known[group]
