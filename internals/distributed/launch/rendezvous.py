"""Where the ranks of an elastic job meet: who takes part now, under which number, and when that changes.

A *generation* is a set of members that work together. It ends when one of them dies, or when somebody new waits to be
let in; those who live come back, and the next generation is formed. The idea is that of torchelastic's rendezvous and
of Elastic Horovod's driver.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from internals.distributed.errors import DistributedError
from internals.distributed.transport import LATER, Endpoint, Message, Reply

NAME = "rendezvous"
"""By which members reach the endpoint."""
JOIN, DONE, CHANGE = "elastic/join", "elastic/done", "elastic/change"
SETTLE = 0.2
"""Seconds that newcomers are waited for, after the last one came, before a generation is formed without more."""


@dataclass
class _Waiting:
    """A member that has come, and has not been answered."""

    reply: Reply
    address: str
    rank: int
    since: float


class Rendezvous:
    """Forms the generations of one job.

    Parameters
    ----------
    endpoint : Endpoint
        Its name is `NAME`.
    least, most : int
        Members of a generation.
    expected : int
        The first generation waits for so many, for `patience` seconds.
    patience : float

    Attributes
    ----------
    generation : int
        The number of the one that was formed last; 0 before the first.
    members : list of str
        Of it, by rank; those that have died since are not among them.
    """

    def __init__(
        self, endpoint: Endpoint, least: int, most: int, *, expected: int | None = None, patience: float = 20.0
    ) -> None:
        if not 1 <= least <= most:
            raise ValueError(f"Rendezvous: least {least}, most {most}; expected 1 <= least <= most")
        self.generation = 0
        self.members: list[str] = []
        self._endpoint = endpoint
        self._least, self._most = least, most
        self._expected = min(expected or least, most)
        self._begun = time.monotonic()
        self._patience = patience
        self._waiting: dict[str, _Waiting] = {}
        self._died = False
        self._told = False
        self._finished = False
        self._closed = False
        self._changed = threading.Condition()
        endpoint.on(JOIN, self._join)
        endpoint.on(DONE, self._done)
        endpoint.when_lost(self._lost)
        self._thread = threading.Thread(target=self._serve, name="rendezvous", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return self._endpoint.address

    def close(self) -> None:
        """Answer nobody any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self._endpoint.close()

    # In the endpoint's thread.

    def _join(self, message: Message, reply: Reply) -> Any:
        address = message.fields.get("address")
        if not isinstance(address, str):
            raise ValueError("a member tells its address")
        with self._changed:
            rank = self.members.index(message.source) if message.source in self.members else len(self.members)
            self._waiting[message.source] = _Waiting(reply, address, rank, time.monotonic())
            self._changed.notify()
        return LATER

    def _done(self, message: Message, reply: Reply) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify()

    def _lost(self, peer: str, reason: str) -> None:
        with self._changed:
            self._waiting.pop(peer, None)
            if peer in self.members:
                self.members.remove(peer)
                self._died, self._told = True, False
            self._changed.notify()

    # In its own.

    def _serve(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(self._act())

    def _act(self) -> float | None:
        """Do what is due; seconds until something may be due again."""
        if self._died:
            self._tell_members()
        if not self._waiting:
            return None
        if self._finished:
            self._answer({"done": True, "generation": self.generation}, list(self._waiting))
            return None
        if not set(self.members) <= self._waiting.keys():
            self._tell_members()
            return None
        count = len(self._waiting)
        if count < self._least:
            return None
        now = time.monotonic()
        if count < self._most:
            due = max(one.since for one in self._waiting.values()) + SETTLE
            if not self.generation and count < self._expected:
                due = self._begun + self._patience
            if due > now:
                return due - now
        self._form()
        return None

    def _form(self) -> None:
        """Those who were there keep their order; newcomers follow, in the order in which they came."""
        chosen = sorted(self._waiting, key=lambda name: (self._waiting[name].rank, self._waiting[name].since))
        chosen = chosen[: self._most]
        self.generation += 1
        self.members = chosen
        self._died = self._told = False
        addresses = [self._waiting[name].address for name in chosen]
        self._answer({"generation": self.generation, "names": chosen, "addresses": addresses}, chosen)

    def _answer(self, fields: dict[str, Any], names: list[str]) -> None:
        for name in names:
            self._waiting.pop(name).reply(Message("", fields))

    def _tell_members(self) -> None:
        """Somebody waits, or has died: those at work come back at the end of their step. Said once."""
        if self._told or len(self.members) >= self._most:
            return
        self._told = True
        for name in self.members:
            if name not in self._waiting:
                try:
                    self._endpoint.send(name, Message(CHANGE, {"generation": self.generation, "died": self._died}))
                except DistributedError:
                    continue


def serve(least: int, most: int, *, expected: int, secret: str) -> Rendezvous:
    """A rendezvous for the processes of this machine, at a free port of 127.0.0.1."""
    from internals.distributed.transport import open_endpoint

    return Rendezvous(open_endpoint(NAME, transport="tcp", secret=secret), least, most, expected=expected)
