"""One process of an elastic job: it comes to the rendezvous, and is given a group to work in."""

from __future__ import annotations

import os
import secrets
import time

from internals.distributed.collectives import communicator
from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost
from internals.distributed.group import Group
from internals.distributed.launch.rendezvous import CHANGE, DONE, JOIN, NAME
from internals.distributed.transport import Endpoint, Message

SLICE = 0.25
"""Seconds after which who waits for a member asks whether it is still one."""


class Finished(DistributedError):
    """The job is done: another member has come to its end."""


class Member:
    """A process that takes part in one generation after another, by one endpoint.

    Parameters
    ----------
    endpoint : Endpoint, optional
        Connected to the rendezvous. None: one is opened and connected by the environment's RENDEZVOUS, which the
        launcher sets.
    deadline : float
        Seconds, of each wait in a group.
    patience : float
        Seconds that `regroup` waits until there are enough members.

    Attributes
    ----------
    generation : int
        The last that it took part in; 0 before the first.
    """

    def __init__(self, endpoint: Endpoint | None = None, *, deadline: float = 30.0, patience: float = 120.0) -> None:
        self.endpoint = endpoint if endpoint is not None else _from_environment()
        self.deadline, self.patience = deadline, patience
        self.generation = 0
        self._group: Group | None = None
        self._change = (0, False)
        self.endpoint.when_lost(self._lost)

    def regroup(self) -> Group:
        """Come to the rendezvous, wait for the others, and take a place in the next generation.

        Those that were in the last keep their order, so a survivor's rank does not grow.

        Raises
        ------
        DeadlineExceeded
            There were not enough members within `patience` seconds.
        PeerLost
            The rendezvous is gone, and the job with it.
        Finished
            A member is done already.
        """
        end = time.monotonic() + self.patience
        while True:
            message = Message(JOIN, {"address": self.endpoint.address})
            answer = self.endpoint.call(NAME, message, max(0.0, end - time.monotonic())).fields
            self.generation = answer["generation"]
            if answer.get("done"):
                raise Finished("another member of the job has finished it")
            names, addresses = answer["names"], answer["addresses"]
            rank = names.index(self.endpoint.name)
            try:
                self._meet(rank, names, addresses)
            except (DeadlineExceeded, PeerLost):
                continue  # one died meanwhile: the rendezvous forms another generation without it
            self._group = Group(rank, names, self.endpoint, self.deadline, tag=f"generation {self.generation}/")
            return self._group

    def _meet(self, rank: int, names: list[str], addresses: list[str]) -> None:
        """Connect to the members of lower rank, which opens the way back too, and wait for those of higher rank."""
        here = f"elastic/here/{self.generation}"
        for name, address in zip(names[:rank], addresses[:rank], strict=True):
            self.endpoint.connect(name, address)
            self.endpoint.send(name, Message(here))
        for name in names[rank + 1 :]:
            end = time.monotonic() + self.deadline
            while True:
                try:
                    self.endpoint.receive(here, name, SLICE)
                    break
                except DeadlineExceeded:
                    if time.monotonic() > end or self._told(died=True):
                        raise

    def _lost(self, peer: str, reason: str) -> None:
        """Let nobody here wait for one who lives, but waits in vain for the dead one."""
        group = self._group
        if group is not None and peer in map(group.name_of, range(group.size)):
            collectives = communicator(group)
            collectives.broken = collectives.broken or PeerLost(peer, reason)

    @property
    def others_wait(self) -> bool:
        """Whether somebody waits to be let in, or has died: this generation is to end."""
        return self._told(died=False)

    def _told(self, *, died: bool) -> bool:
        """Whether the rendezvous has said that this generation is to end; with `died`, since one has died."""
        while True:
            try:
                news = self.endpoint.receive(CHANGE, NAME, 0.0).fields
            except DeadlineExceeded:
                return self._change == (self.generation, True) or (self._change[0] == self.generation and not died)
            if news["generation"] == self.generation:
                self._change = (self.generation, bool(news["died"]) or self._change == (self.generation, True))

    def finish(self) -> None:
        """Tell the rendezvous that the job is done, and leave."""
        try:
            self.endpoint.call(NAME, Message(DONE), self.deadline)
        except DistributedError:
            pass  # it is gone: whoever started the job has ended it
        self.endpoint.close()


def _from_environment() -> Endpoint:
    address = os.environ.get("RENDEZVOUS")
    if not address:
        raise ValueError(
            "Member: RENDEZVOUS is not in the environment; start the job with "
            "python -m internals.distributed.launch --min 1 ..., or pass an endpoint"
        )
    from internals.distributed.transport import open_endpoint

    endpoint = open_endpoint(f"member:{os.getpid()}-{secrets.token_hex(4)}", transport="tcp")
    endpoint.connect(NAME, address)
    return endpoint
