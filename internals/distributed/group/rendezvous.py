"""How the processes of a job find one another: all come to rank 0, which tells everyone where the others are."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from internals.distributed import errors
from internals.distributed.errors import DeadlineExceeded, DistributedError, DuplicateName, MismatchError
from internals.distributed.group.member import Group
from internals.distributed.transport import LATER, Endpoint, Message, Reply, open_endpoint
from internals.distributed.transport.host import split, toward
from internals.distributed.transport.security import is_loopback

MARGIN = 0.5
"""Seconds before the first rank gives up in which rank 0 tells all what is wrong."""
LATE = 2.0
"""Seconds in which rank 0, once something is wrong, waits for ranks that are still to come: they are told it too."""
LOOK = 0.05


def join(
    rank: int | None = None,
    size: int | None = None,
    address: str | None = None,
    *,
    transport: str | None = None,
    secret: str | bytes | None = None,
    deadline: float = 30.0,
) -> Group:
    """Take this process's place in a job of several, and wait until all have.

    Parameters
    ----------
    rank, size : int, optional
        Which one this is and how many there are; RANK and WORLD_SIZE of the environment where not given.
    address : str, optional
        ``"host:port"``, where rank 0 listens; MASTER_ADDR and MASTER_PORT of the environment where not given.
    transport : str, optional
        ``"shm"``, the default: shared memory between the ranks of one machine, sockets between machines. ``"tcp"``:
        sockets only.
    secret : str or bytes, optional
        Of the job, the same on all ranks; JOB_SECRET of the environment where none is given. Needed off loopback.
    deadline : float
        Seconds for all ranks to come; then, of each wait.

    Raises
    ------
    DeadlineExceeded
        Names the ranks that did not come.
    DuplicateName
        Two processes are the same rank.
    MismatchError
        Ranks disagree on how many there are.
    AddressInUse
        At rank 0: another process listens at `address`.
    AuthenticationError
        Rank 0 has another secret, or is of another job.
    ValueError
        A rank or an address that can't be.
    """
    rank = _number("RANK", rank)
    size = _number("WORLD_SIZE", size)
    if not 0 <= rank < size:
        raise ValueError(f"join: rank {rank} of {size}; ranks are 0 to {size - 1}")
    if address is None:
        if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
            raise ValueError(
                "join: no address of rank 0: pass address='host:port', set MASTER_ADDR and MASTER_PORT, or start the "
                "ranks by python -m internals.distributed.launch"
            )
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    host, port = split(address)
    bind = f"{host}:{port}" if rank == 0 else f"{_own(host)}:0"
    job = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    endpoint = open_endpoint(f"rank:{rank}", transport=transport or "shm", bind=bind, secret=secret, job=job)
    return assemble(endpoint, rank, size, f"tcp://{host}:{port}", deadline)


def assemble(
    endpoint: Endpoint,
    rank: int,
    size: int,
    first: str,
    deadline: float,
    listening: Callable[[], None] = lambda: None,
) -> Group:
    """The group of ranks that come to rank 0 at `first`, whichever transport their endpoints are of.

    Parameters
    ----------
    endpoint : Endpoint
        Named ``rank:{rank}``. It is closed if the group does not come about.
    first : str
        Where rank 0 is.
    listening : callable
        Called by rank 0 once it can be come to.
    """
    end = time.monotonic() + deadline
    try:
        if rank == 0:
            host = _Host(endpoint, size)
            listening()
            addresses = host.wait(end, deadline)
        else:
            addresses = _come(endpoint, rank, size, first, end, deadline)
        for other, where in enumerate(addresses[:rank]):
            endpoint.connect(f"rank:{other}", where, max(1.0, end - time.monotonic()))
        group = Group(rank, [f"rank:{other}" for other in range(size)], endpoint, deadline)
        _meet(group)
    except BaseException:
        endpoint.close()
        raise
    return group


def _meet(group: Group) -> None:
    """Return once every rank is connected to all others."""
    if group.rank == 0:
        for other in range(1, group.size):
            group.receive(other, "connected")
        for other in range(1, group.size):
            group.send(other, "begin")
    else:
        group.send(0, "connected")
        group.receive(0, "begin")


def _number(variable: str, given: int | None) -> int:
    if given is not None:
        return int(given)
    value = os.environ.get(variable, "")
    if not value.isdecimal():
        raise ValueError(
            f"join: {variable} is {value!r} in the environment; expected a number. Pass {variable.lower()}, or start "
            "the ranks by python -m internals.distributed.launch"
        )
    return int(value)


def _own(host: str) -> str:
    """This machine's address on the way to rank 0."""
    if is_loopback(host):
        return "127.0.0.1"
    try:
        return toward(host)
    except OSError as error:
        raise DistributedError(f"join: nobody knows the address of rank 0, {host!r} ({error})") from None


def _come(endpoint: Endpoint, rank: int, size: int, first: str, end: float, deadline: float) -> list[str]:
    """Tell rank 0 that we are here; the addresses of all, once all are."""
    try:
        endpoint.connect("rank:0", first, deadline)
    except DeadlineExceeded:
        raise DeadlineExceeded(f"rank {rank}: rank 0 is missing: nobody answers at {first} in {deadline:g} s") from None
    left = max(0.0, end - time.monotonic())
    who = f"process {os.getpid()} on {socket.gethostname()}"
    here = {"rank": rank, "size": size, "address": endpoint.address, "left": left, "who": who}
    answer = endpoint.call("rank:0", Message("join", here), left + 10 * MARGIN)
    if "error" in answer.fields:
        kind = getattr(errors, str(answer.fields["error"]), DistributedError)
        raise kind(f"rank {rank}: {answer.fields['text']}")
    return [str(address) for address in answer.fields["addresses"]]


class _Host:
    """Rank 0's book of who has come. All ranks are answered at once: when all are here, or are known not to come."""

    def __init__(self, endpoint: Endpoint, size: int) -> None:
        self.endpoint = endpoint
        self.size = size
        self.here: dict[int, str] = {0: endpoint.address}
        self.waiting: list[Reply] = []
        self.end = float("inf")
        self.wrong: DistributedError | None = None
        self.done = False
        self.change = threading.Condition()
        endpoint.on("join", self._come)

    def _come(self, message: Message, reply: Reply) -> Any:
        fields = message.fields
        with self.change:
            if self.done:
                raise DistributedError("the job has begun without this rank")
            self.waiting.append(reply)
            if fields["size"] != self.size:
                self.wrong = MismatchError(
                    f"rank {fields['rank']} ({fields['who']}) was told of {fields['size']} ranks, rank 0 of {self.size}"
                )
            elif not 0 < fields["rank"] < self.size or message.source != f"rank:{fields['rank']}":
                self.wrong = MismatchError(f"{message.source} ({fields['who']}) says it is rank {fields['rank']}")
            else:
                self.here[fields["rank"]] = fields["address"]
                self.end = min(self.end, time.monotonic() + fields["left"] - MARGIN)
            self.change.notify_all()
        return LATER

    def wait(self, end: float, deadline: float) -> list[str]:
        """The addresses by rank, which every rank was told; or the error that every rank was told."""
        with self.change:
            while not (self.wrong or len(self.here) == self.size):
                left = min(self.end, end) - time.monotonic()
                if left <= 0:
                    missing = [rank for rank in range(self.size) if rank not in self.here]
                    names = "rank " + ", ".join(map(str, missing)) + (" is" if len(missing) == 1 else " are")
                    self.wrong = DeadlineExceeded(f"{names} missing: {self.size} were to join within {deadline:g} s")
                    break
                self.change.wait(min(left, LOOK))
                self._look()
            if self.wrong:
                left = min(self.end, end, time.monotonic() + LATE) - time.monotonic()
                self.change.wait_for(lambda: len(self.waiting) >= self.size - 1, max(left, 0))
            self.done = True
            addresses = [self.here.get(rank, "") for rank in range(self.size)]
        for reply in self.waiting:
            reply(
                Message("", {"error": type(self.wrong).__name__, "text": str(self.wrong)})
                if self.wrong
                else Message("", {"addresses": addresses})
            )
        if self.wrong:
            raise self.wrong
        return addresses

    def _look(self) -> None:
        """Take note of ranks that died while they waited, and of two that are one."""
        for peer in self.endpoint.lost:
            if peer.startswith("rank:"):
                self.here.pop(int(peer[5:]), None)
        twice: set[str] = getattr(self.endpoint, "contested", set())
        if twice:
            names = ", ".join(sorted(name.replace(":", " ") for name in twice))
            self.wrong = DuplicateName(f"two living processes are {names}: each is to be told a rank of its own")
