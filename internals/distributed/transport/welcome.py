"""How two endpoints meet: hello, welcome or no, and a hello back."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from internals.distributed.errors import (
    AuthenticationError,
    DeadlineExceeded,
    DistributedError,
    DuplicateName,
    PeerLost,
    ProtocolError,
)
from internals.distributed.transport.endpoint import logger
from internals.distributed.transport.host import identity, split
from internals.distributed.transport.link import SILENCE, Link
from internals.distributed.transport.message import Message, decode
from internals.distributed.transport.security import is_loopback, proof, proves
from internals.distributed.transport.wire import (
    ATTACHED,
    BYE,
    HELLO,
    NO,
    WELCOME,
    Arrival,
    Hello,
    pack,
    read_hello,
    unpack,
)

if TYPE_CHECKING:
    from internals.distributed.transport.zmq import ZmqEndpoint

AGAIN = 0.25
"""Seconds between two tries to take a name that may be of a process that just died."""
CONTESTED = 2 * SILENCE / 1000
"""Seconds for which a name is taken after which whoever has it is alive."""
TRIES = 3
"""Connections that are broken off before a word is said after which it is no accident."""
FORGOTTEN = 60.0
"""Seconds after which nobody who wanted a name that was taken is still trying."""
ERRORS = {error.__name__: error for error in (AuthenticationError, ProtocolError)}


class Meeting:
    """One endpoint's part in meeting others.

    Parameters
    ----------
    endpoint : ZmqEndpoint
    job : str
    incarnation : str
        Tells this endpoint from an earlier one of its name.
    """

    def __init__(self, endpoint: ZmqEndpoint, job: str, incarnation: str) -> None:
        self._endpoint = endpoint
        self._host = identity()
        self._incarnations: dict[str, str] = {}
        self._contests: dict[tuple[str, str], float] = {}
        bare = Hello(endpoint.name, job, incarnation, endpoint.address, self._host, os.getpid(), [], "")
        self._hello = dataclasses.replace(bare, proof=self._proof_of(bare))
        self.job, self.incarnation = job, incarnation
        self._senseless = 0

    def hello(self) -> Hello:
        return dataclasses.replace(self._hello, probe=self._endpoint._probe())

    def bye(self, why: str = "") -> list[Any]:
        """A goodbye; with the reason, where it is the peer's fault."""
        return pack(Message("", {"why": why.encode(errors="replace").decode()}), BYE, 0)

    def _proof_of(self, hello: Hello) -> str:
        return proof(self._endpoint._secret, hello.name, hello.job, hello.incarnation, hello.address)

    # The side that connects.

    def knock(self, peer: str, address: str, end: float, deadline: float) -> None:
        """Connect to `address` until it lets us in, and wait until it has connected back."""
        endpoint, broken = self._endpoint, 0
        while True:
            link = None
            try:
                link = endpoint._dial(peer, address)
                self._let_in(link, end, deadline)
                break
            except BaseException as error:
                if link is not None:
                    link.close("not let in")
                    link.watch.close(0)
                broken += isinstance(error, PeerLost)
                if broken == TRIES:
                    raise self._foreign(peer, address) from None
                may_change = isinstance(error, PeerLost) or (isinstance(error, DuplicateName) and not error.final)
                if not may_change or endpoint._closed or time.monotonic() + AGAIN > end:
                    raise
                time.sleep(AGAIN)
        endpoint._adopt(link)

        def known() -> bool | None:
            return True if peer in endpoint._heard else None

        left = max(0.1, end - time.monotonic())
        endpoint._wait(known, left, lambda: f"a connection back from {peer} at {address} to {endpoint.address}", HELLO)

    def _let_in(self, link: Link, end: float, deadline: float) -> None:
        """Wait for the answer to our hello; raise what it is where it is no welcome."""
        import zmq
        from zmq.utils.monitor import recv_monitor_message

        endpoint, failures = self._endpoint, 0
        poller = zmq.Poller()
        poller.register(link.socket, zmq.POLLIN)
        poller.register(link.watch, zmq.POLLIN)
        while time.monotonic() < end:
            if endpoint._closed:
                raise DistributedError(f"{endpoint.name}: closed while connecting to {link.peer}")
            events = dict(poller.poll(max(1, min(100, int(1000 * (end - time.monotonic()))))))
            if link.socket in events:
                self._answered(link, link.socket.recv_multipart())
                return
            if link.watch in events:
                told = recv_monitor_message(link.watch)
                failures += told["event"] == zmq.Event.DISCONNECTED
                self._fail(link, told["event"], told["value"], failures)
        raise DeadlineExceeded(f"{endpoint.name}: nobody named {link.peer!r} answers at {link.address} "
                               f"within {deadline:g} s")  # fmt: skip

    def _fail(self, link: Link, event: int, value: int, failures: int) -> None:
        import zmq

        if event == zmq.Event.HANDSHAKE_SUCCEEDED:
            link.up = True
        elif event == zmq.Event.DISCONNECTED and link.up:
            raise PeerLost(link.peer, f"its connection at {link.address} broke before it said welcome")
        elif event == zmq.Event.HANDSHAKE_FAILED_PROTOCOL and value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
            raise AuthenticationError(
                f"{self._endpoint.name}: who listens at {link.address} (to be {link.peer}) has another way to "
                "authenticate: the secret of the job is to be the same on all, and the address the one it gives"
            )
        elif event == zmq.Event.DISCONNECTED and failures >= TRIES:
            raise self._foreign(link.peer, link.address)

    def _foreign(self, peer: str, address: str) -> DistributedError:
        """The error for who ends every connection before anything is said."""
        who = f"{self._endpoint.name}: who listens at {address} (to be {peer})"
        if is_loopback(split(address)[0]):
            return ProtocolError(f"{who} speaks another protocol; is it the right port?")
        return AuthenticationError(f"{who} refuses our key: the secret of the job is to be the same on all")

    def _answered(self, link: Link, frames: list[Any]) -> None:
        endpoint = self._endpoint
        arrival = unpack(frames, f"who listens at {link.address}")
        if arrival.way == NO:
            fields = decode(arrival.frames, link.peer).fields
            text = f"{endpoint.name}: {link.peer} at {link.address} refuses: {fields.get('text')}"
            if fields.get("error") == DuplicateName.__name__:
                raise DuplicateName(text, fields.get("final") is True)
            raise ERRORS.get(str(fields.get("error")), ProtocolError)(text)
        if arrival.way != WELCOME:
            raise ProtocolError(f"{endpoint.name}: {link.address} answered a hello with {arrival.way!r}")
        hello = read_hello(arrival.frames, link.peer)
        if not self._proves(hello):
            raise AuthenticationError(f"{endpoint.name}: {link.peer} at {link.address} does not hold the job's key")
        if hello.name != link.peer:
            raise ProtocolError(f"{endpoint.name}: at {link.address} is {hello.name!r}, not {link.peer!r}")

    def _proves(self, hello: Hello) -> bool:
        own = self._endpoint._secret
        return proves(hello.proof, own, hello.name, hello.job, hello.incarnation, hello.address)

    # The side that is connected to.

    def heard(self, route: bytes, arrival: Arrival) -> None:
        """Take in a hello: let who says it in and connect back, or refuse."""
        endpoint = self._endpoint
        hello = read_hello(arrival.frames, "who connects")
        try:
            self._admit(hello)
        except (AuthenticationError, DuplicateName, ProtocolError) as error:
            if not isinstance(error, DuplicateName) or error.final:
                logger.warning("%s: refused %s (process %d): %s", endpoint.name, hello.name, hello.pid, error)
            self.refuse(route, error)
            return
        shares = hello.host == self._host and endpoint._attachable(hello.name, hello.pid, hello.probe)
        with endpoint._arrival:
            endpoint._names[route] = hello.name
            linked = hello.name in endpoint._links
        self._incarnations[hello.name] = hello.incarnation
        if not linked:
            endpoint._adopt(endpoint._dial(hello.name, hello.address))
        endpoint._found(hello.name)
        endpoint._partings.discard(hello.name)
        with endpoint._arrival:
            endpoint._heard[hello.name] = time.monotonic()
            endpoint._wake(HELLO)
        self._answer(route, pack(self.hello().message(), WELCOME, 0))
        if shares:
            endpoint._links[hello.name].send(pack(Message(""), ATTACHED, 0))

    def _admit(self, hello: Hello) -> None:
        endpoint = self._endpoint
        if not self._proves(hello):
            raise AuthenticationError(f"{hello.name} does not hold the key of this job")
        if hello.job != self.job:
            raise AuthenticationError(f"{hello.name} belongs to job {hello.job!r}, this is {self.job!r}")
        if hello.name == endpoint.name and hello.incarnation != self.incarnation:
            raise DuplicateName(f"{hello.name!r} is this endpoint's own name")
        there = self._incarnations.get(hello.name)
        if hello.name not in endpoint._heard or there == hello.incarnation:
            return
        now = time.monotonic()
        self._contests = {who: since for who, since in self._contests.items() if now - since < FORGOTTEN}
        final = now - self._contests.setdefault((hello.name, hello.incarnation), now) > CONTESTED
        if final:
            endpoint.contested.add(hello.name)
        raise DuplicateName(f"a living process goes by the name {hello.name!r} already; two can't be the same", final)

    def refuse_bytes(self, route: bytes, error: BaseException) -> None:
        """Refuse what nobody we know has sent. It is logged at powers of two: a stranger could fill a disk with it."""
        self._senseless += 1
        if self._senseless & (self._senseless - 1) == 0:
            name, times = self._endpoint.name, self._senseless
            logger.warning("%s: dropped what came: %s%s", name, error, f" ({times} times by now)" if times > 1 else "")
        self.refuse(route, error)

    def refuse(self, route: bytes, error: BaseException) -> None:
        fields = {"error": type(error).__name__, "text": str(error), "final": getattr(error, "final", True)}
        self._answer(route, pack(Message("", fields), NO, 0))

    def _answer(self, route: bytes, frames: list[Any]) -> None:
        import zmq

        try:
            self._endpoint._router.send_multipart([route, *frames], zmq.NOBLOCK)
        except zmq.ZMQError:
            pass  # it is gone; there is nobody to tell
