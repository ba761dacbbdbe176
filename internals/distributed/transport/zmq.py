"""Endpoints in several processes, joined by ZeroMQ over TCP.

Each endpoint hears on one socket (a ROUTER, bound to its address) and speaks on one socket per peer (a DEALER), so that
nobody who sends waits for who reads. Who connects says hello; the other side connects back with a hello of its own.

One thread at a time reads the first socket: who waits for a message does it itself, which spares a change of threads
per message; where nobody waits, the endpoint's own thread does.
"""

from __future__ import annotations

import atexit
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from internals.distributed.errors import AddressInUse, DistributedError, PeerLost, ProtocolError
from internals.distributed.transport.agenda import Agenda
from internals.distributed.transport.endpoint import Endpoint, logger
from internals.distributed.transport.host import advertised, numeric, split
from internals.distributed.transport.link import Link, library, tune
from internals.distributed.transport.message import MAX_BYTES, Message, decode
from internals.distributed.transport.reply import CALL, Reply
from internals.distributed.transport.security import is_loopback, protect, secret_bytes
from internals.distributed.transport.welcome import Meeting
from internals.distributed.transport.wire import ATTACHED, BYE, HELLO, Arrival, pack, read, unpack

TURN = 20
"""Milliseconds after which who reads looks whether what it waits for has become impossible."""
SLICE = 5
"""Milliseconds in which nobody has read after which the endpoint's thread does."""
BURST = 64
"""Messages that the endpoint's thread reads at a time."""
GRACE = 0.25
"""Seconds without a message that a broken connection is given, for what the peer sent before it died."""
GOODBYE = 1.0
"""Seconds that `close` waits for the peers to have read everything."""

_open: weakref.WeakSet[ZmqEndpoint] = weakref.WeakSet()


class ZmqEndpoint(Endpoint):
    """An endpoint that other processes can reach.

    Parameters
    ----------
    name : str
    bind : str
        ``"host:port"``, where it listens; port 0: one that is free.
    secret : str or bytes, optional
        Of the job; the environment's JOB_SECRET where none is given. Needed where `bind` is not loopback.
    job : str
        Which job it belongs to; it has nothing to do with endpoints of another.
    max_bytes : int
        Of one array of a message that comes in. A peer that sends a larger one is disconnected.

    Attributes
    ----------
    contested : set of str
        Names that two living processes claim. The first keeps it; the other is refused.

    Raises
    ------
    AddressInUse
        Another process listens at `bind`.
    ValueError
        No secret, and an address that others can reach.
    """

    def __init__(
        self,
        name: str,
        bind: str = "127.0.0.1:0",
        *,
        secret: str | bytes | None = None,
        job: str = "",
        max_bytes: int = MAX_BYTES,
    ) -> None:
        super().__init__(name)
        self._zmq = library()
        self._secret = secret_bytes(secret)
        self._context = self._zmq.Context()
        self._context.max_sockets = 8192
        self._links: dict[str, Link] = {}
        self._names: dict[bytes, str] = {}
        self._heard: dict[str, float] = {}
        self._partings: set[str] = set()
        self._watched: dict[Any, Link] = {}
        self.contested: set[str] = set()
        self._reader: int | None = None
        self._turns = 0
        self._knocking = 0
        self._agenda = Agenda(name)
        self._poller = self._zmq.Poller()
        self._thread = threading.Thread(target=self._serve, name=f"endpoint {name}", daemon=True)
        try:
            self._router, self._address = self._listen(bind, max_bytes)
        except BaseException:
            self._agenda.close()
            self._context.destroy(0)
            raise
        self._meeting = Meeting(self, job, secrets.token_hex(8))
        self._poller.register(self._agenda.bell, self._zmq.POLLIN)
        self._thread.start()
        _open.add(self)

    def _listen(self, bind: str, max_bytes: int) -> tuple[Any, str]:
        host, port = split(bind)
        router = self._context.socket(self._zmq.ROUTER)
        tune(router)
        router.set(self._zmq.MAXMSGSIZE, max_bytes)
        router.set(self._zmq.RCVTIMEO, TURN)
        if not is_loopback(host):
            protect(router, self._secret, server=True)
        try:
            host = numeric(host)
            router.set(self._zmq.IPV6, int(":" in host))
            router.bind(f"tcp://{host}:{port or '*'}")
        except OSError as error:
            raise DistributedError(f"{self.name}: nobody knows the address of {host!r} ({error})") from None
        except self._zmq.ZMQError as error:
            if error.errno == self._zmq.EADDRINUSE:
                raise AddressInUse(
                    f"{self.name}: port {port} of {host} is in use by another process: stop it, or take another port"
                ) from None
            raise DistributedError(f"{self.name}: can't listen at {bind} ({error})") from None
        bound = router.get(self._zmq.LAST_ENDPOINT).decode().removeprefix("tcp://")
        return router, "tcp://" + advertised(bound)

    @property
    def address(self) -> str:
        return self._address

    def connect(self, peer: str, address: str, deadline: float = 10.0) -> None:
        if self._in_own_thread():
            raise RuntimeError(f"{self.name}: a handler can't wait for {peer} to answer; connect from another thread")
        if self._closed:
            raise DistributedError(f"{self.name}: this endpoint is closed")
        if peer == self.name:
            self._to_self()
            return
        with self._arrival:
            link = self._links.get(peer)
            if link is not None and link.address == address and peer in self._heard and peer not in self._lost:
                return
        with self._arrival:
            self._knocking += 1
        try:
            self._meeting.knock(peer, address, time.monotonic() + deadline, deadline)
        finally:
            with self._arrival:
                self._knocking -= 1

    def _dial(self, peer: str, address: str) -> Link:
        """A new link on which nothing was said yet but hello."""
        host, port = split(address)
        dealer = self._context.socket(self._zmq.DEALER)
        try:
            tune(dealer)
            dealer.set(self._zmq.RECONNECT_IVL, 50)
            if not is_loopback(host):
                protect(dealer, self._secret, server=False)
            link = Link(dealer, peer, address)
            dealer.set(self._zmq.IPV6, int(":" in host))
            dealer.connect(f"tcp://{host}:{port}")
        except self._zmq.ZMQError as error:
            dealer.close(0)
            raise DistributedError(f"{self.name}: {address} is no address of {peer} ({error})") from None
        except BaseException:
            dealer.close(0)
            raise
        try:
            link.send(pack(self._meeting.hello().message(), HELLO, 0))
        except BaseException:
            link.close("nothing could be said")
            link.watch.close(0)
            raise
        return link

    def _adopt(self, link: Link) -> Link:
        """Let `link` be the way to its peer, unless there is one; the one that is."""
        with self._arrival:
            there = link if self._closed else self._links.setdefault(link.peer, link)
        if there is link and not self._closed:
            self._post(lambda: self._watch(link))
        else:
            link.close("there was another")
            link.watch.close(0)
        return there

    def _to_self(self) -> Link:
        link = self._links.get(self.name)
        return link if link is not None else self._adopt(self._dial(self.name, self.address))

    def _send(self, peer: str, message: Message, way: str, number: int) -> None:
        link = self._links.get(peer)
        if link is None:
            self._check(peer)
            if peer != self.name:
                known = sorted(self._links) or "none"
                raise ValueError(f"{self.name}: connect to {peer!r} first; known are {known}")
            link = self._to_self()
        link.send(self._frames(link, message, way, number))

    # Which of the arrays go beside the socket is another transport's to say.

    def _frames(self, link: Link, message: Message, way: str, number: int) -> list[Any]:
        return pack(message, way, number)

    def _message(self, arrival: Arrival, peer: str) -> Message:
        if arrival.flags:
            raise ProtocolError(f"{peer} sent a reference to its memory, which this endpoint does not attach")
        return decode(arrival.frames, peer)

    def _probe(self) -> list[int]:
        """What a hello tells of this process's memory."""
        return []

    def _attachable(self, peer: str, pid: int, probe: list[int]) -> bool:
        """Whether the memory of which a peer's hello tells can be attached."""
        return False

    # Reading: one thread at a time has the turn.

    def _rest(self, left: float | None, key: str | int) -> None:
        me = threading.get_ident()
        if self._reader is None:
            self._reader = me
        elif self._reader != me:
            super()._rest(left, key)
            return
        self._turns += 1
        self._arrival.release()
        try:
            if left is not None and left * 1000 < TURN:
                if not self._router.poll(max(0, int(left * 1000))):
                    return
                frames = self._read(self._zmq.NOBLOCK)
            else:
                frames = self._read(0)
            if frames:
                self._take(frames)
        finally:
            self._arrival.acquire()

    def _done_waiting(self) -> None:
        if self._reader == threading.get_ident():
            self._reader = None
        if self._reader is None and self._waiters:
            next(iter(self._waiters.values()))[0].notify()

    def _read(self, flags: int) -> list[Any] | None:
        try:
            return read(self._router, flags)
        except self._zmq.ZMQError:
            if not self._closed:
                logger.exception("%s: reading failed", self.name)
            return None

    def _take(self, frames: list[Any]) -> None:
        """Look at a message that was read. What is to be done about it, other than to wake who waits, is put off."""
        route, known = frames[0], self._names.get(frames[0])
        source = known or "somebody unknown"
        try:
            arrival = unpack(frames[1:], source)
            if arrival.way == HELLO:
                self._meeting.heard(route, arrival)
                return
            if known is None:
                logger.info("%s: dropped a message without a hello", self.name)
                return
            self._heard[known] = time.monotonic()
            if arrival.way == BYE:
                self._partings.add(known)
                why = str(self._message(arrival, known).fields.get("why", ""))[:500]
                left = f"it gave this one up: {why}" if why else "it left"
                self._post(lambda: self._drop(known, self._links.get(known), left))
            elif arrival.way == ATTACHED:
                self._links[known].attached = True
            elif arrival.way == CALL:
                message, reply = self._message(arrival, known), Reply(self, known, arrival.number)
                self._post(lambda: self._handle(message, reply))
            else:
                self._arrived(self._message(arrival, known), arrival.way, arrival.number)
        except ProtocolError as error:
            self._distrust(known, route, error)
        except Exception as error:  # noqa: BLE001  whatever comes must not end the thread that reads
            logger.exception("%s: could not take what %s sent", self.name, source)
            self._distrust(known, route, error)

    def _distrust(self, known: str | None, route: bytes, error: Exception) -> None:
        if known is None:
            self._meeting.refuse_bytes(route, error)
        else:
            logger.warning("%s: dropped what came: %s", self.name, error)
            reason = f"what it sent can't be taken ({error})"
            self._post(lambda: self._drop(known, self._links.get(known), reason))

    # The endpoint's own thread.

    def _post(self, action: Callable[[], None], delay: float = 0.0) -> None:
        self._agenda.add(action, delay, ring=not self._in_own_thread())

    def _in_own_thread(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def _serve(self) -> None:
        seen = -1
        while not self._closed:
            with self._arrival:
                reads = self._reader is None and self._turns == seen
                seen = self._turns
                if reads:
                    self._reader = threading.get_ident()
            self._look(reads)
            self._agenda.work()
        self._leave()

    def _look(self, reads: bool) -> None:
        """Wait for anything to happen, and take it in; read messages too, where it is this thread's turn."""
        if reads:
            self._poller.register(self._router, self._zmq.POLLIN)
        try:
            events = dict(self._poller.poll(self._agenda.left(None if reads else SLICE)))
            if self._router in events:
                for _ in range(BURST):
                    frames = self._read(self._zmq.NOBLOCK)
                    if frames is None:
                        break
                    self._take(frames)
        finally:
            if reads:
                self._poller.unregister(self._router)
                with self._arrival:
                    self._reader = None
                    if self._waiters:
                        self._turns += 1
                        next(iter(self._waiters.values()))[0].notify()
        if self._agenda.bell.fileno() in events:
            self._agenda.heard()
        for watch in [watch for watch in events if watch in self._watched]:
            self._event(self._watched[watch])

    # Links that break.

    def _watch(self, link: Link) -> None:
        self._watched[link.watch] = link
        self._poller.register(link.watch, self._zmq.POLLIN)
        self._post(lambda: self._fade(link, "its address can't be reached") if not link.up else None, 5.0)
        self._event(link)

    def _event(self, link: Link) -> None:
        """Read what the watch on a link has to tell."""
        from zmq.utils.monitor import recv_monitor_message

        while link.watch in self._watched and link.watch.poll(0):
            event = recv_monitor_message(link.watch)["event"]
            if event == self._zmq.Event.HANDSHAKE_SUCCEEDED:
                link.up = True
            elif event == self._zmq.Event.DISCONNECTED and link.up and link.broken is None:
                link.broken = time.monotonic()
                self._fade(link, "its connection broke: it died, was stopped, or can't be reached any more")

    def _fade(self, link: Link, reason: str) -> None:
        """Give up a broken link once nothing more comes of what its peer had sent."""
        if self._links.get(link.peer) is not link:
            return
        now = time.monotonic()
        broken = link.broken = link.broken or now
        if now - max(broken, self._heard.get(link.peer, 0.0)) >= GRACE or now - broken > 4 * GRACE:
            self._drop(link.peer, link, reason)
        else:
            self._post(lambda: self._fade(link, reason), GRACE / 5)

    def _drop(self, peer: str, link: Link | None, reason: str) -> None:
        """Forget `peer`, and tell who waits for it."""
        with self._arrival:
            if link is None or self._links.get(peer) is not link:
                return
            del self._links[peer]
            self._heard.pop(peer, None)
            for route in [route for route, name in self._names.items() if name == peer]:
                del self._names[route]
        if link.broken is None:
            link.close(reason, 1000, self._meeting.bye("" if peer in self._partings else reason))
        else:
            link.close(reason)
        self._unwatch(link)
        self._lose(peer, reason)

    def _unwatch(self, link: Link) -> None:
        if self._watched.pop(link.watch, None) is not None:
            self._poller.unregister(link.watch)
        link.watch.close(0)

    # The end.

    def close(self) -> None:
        super().close()
        _open.discard(self)
        self._post(lambda: None)
        if not self._in_own_thread():
            self._thread.join()

    def _leave(self) -> None:
        """Say goodbye, wait until the peers have read it (it comes after all else), and give everything back."""
        while True:
            with self._arrival:
                if self._reader is None and not self._knocking:
                    self._reader = threading.get_ident()
                    break
            time.sleep(TURN / 4000)
        links = list(self._links.values())
        for link in links:
            try:
                link.send(self._meeting.bye())
            except PeerLost:
                pass
        end = time.monotonic() + GOODBYE
        waiting = {link.peer for link in links if link.broken is None and link.up} - {self.name}
        while (waiting := waiting - self._partings) and time.monotonic() < end:
            events = dict(self._poller.poll(TURN)) if not self._router.poll(TURN) else {}
            frames = self._read(self._zmq.NOBLOCK)
            if frames and len(frames) > 1 and (known := self._names.get(frames[0])):
                try:
                    if unpack(frames[1:], known).way == BYE:
                        self._partings.add(known)
                except ProtocolError:
                    self._partings.add(known)
            for watch in [watch for watch in events if watch in self._watched]:
                self._event(self._watched[watch])
            waiting -= {link.peer for link in links if link.broken is not None}
        for link in links:
            link.close("this endpoint was closed", 200)
            self._unwatch(link)
        for watch in list(self._watched):
            self._unwatch(self._watched[watch])
        self._router.close(0)
        self._agenda.close()
        self._context.destroy(0)


@atexit.register
def _close_all() -> None:
    for endpoint in list(_open):
        endpoint.close()
