"""Endpoints on one machine: small messages by ZeroMQ, large arrays through shared memory, copied once.

The sender copies arrays into a segment of its own and sends where they lie; who receives reads them there, and the
segment is used again when it lets go of them. Peers that can't attach it get the arrays through the socket.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from internals.distributed.errors import PeerLost, ProtocolError
from internals.distributed.transport.endpoint import logger
from internals.distributed.transport.link import Link
from internals.distributed.transport.message import Message, decode, encode
from internals.distributed.transport.segment import READERS, Attached, Segment, room
from internals.distributed.transport.wire import SHARED, Arrival, head, pack
from internals.distributed.transport.zmq import ZmqEndpoint

LEAST = 1 << 16
"""Bytes of arrays from which shared memory is faster than the socket."""
IDLE = 10.0
"""Seconds after which a segment that nobody needs is given back."""
KEPT = 64
"""Segments of one peer that stay attached."""

WHERE = struct.Struct("<IQI")
PLACE = struct.Struct("<QQ")


class Pool:
    """Segments of one process, used again and again: the pages of a new one have to be made first, which is slow."""

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._used: dict[int, float] = {}
        self._lock = threading.Lock()

    def put(self, arrays: Sequence[Any], peers: Sequence[str]) -> tuple[Segment, list[tuple[int, int]], list[int]]:
        """Copy arrays into a segment that nobody reads, and lend it to `peers`: it, the places, and their numbers."""
        needed = room(arrays)
        with self._lock:
            segment = self._taken(needed)
            readers = [segment.lend(peer) for peer in peers]
        return segment, segment.write(arrays), readers

    def _taken(self, needed: int) -> Segment:
        now = time.monotonic()
        best = None
        for segment in list(self._segments):
            if not segment.free():
                continue
            if needed <= segment.capacity <= 4 * needed and (best is None or segment.capacity < best.capacity):
                best = segment
            elif now - self._used[segment.serial] > IDLE:
                self._forget(segment)
        if best is None:
            step = 1 << max(16, needed.bit_length() - 3)
            best = Segment(-(-needed // step) * step)
            self._segments.append(best)
        self._used[best.serial] = now
        return best

    def _forget(self, segment: Segment) -> None:
        self._segments.remove(segment)
        del self._used[segment.serial]
        segment.close()

    def lose(self, peer: str) -> None:
        """Give up what `peer` was reading: it may be stopped, not dead, and read on when it is continued."""
        with self._lock:
            for segment in list(self._segments):
                if peer in segment.readers.values():
                    self._forget(segment)

    def close(self) -> None:
        with self._lock:
            for segment in list(self._segments):
                self._forget(segment)


class ShmEndpoint(ZmqEndpoint):
    """A `ZmqEndpoint` that sends large arrays to peers on this machine through shared memory."""

    def __init__(self, name: str, bind: str = "127.0.0.1:0", **options: Any) -> None:
        self._pool = Pool()
        self._pids: dict[str, int] = {}
        self._attached: dict[str, OrderedDict[tuple[int, int], Attached]] = {}
        try:
            self._own: Segment | None = Segment(0)
        except (OSError, AttributeError) as error:
            logger.info("%s: no shared memory here (%s); arrays go through the socket", name, error)
            self._own = None
        super().__init__(name, bind, **options)

    def send_all(self, peers: Sequence[str], message: Message) -> None:
        links = [self._links.get(peer) for peer in peers]
        if message.nbytes < LEAST or not all(link and link.attached for link in links) or len(peers) > READERS:
            super().send_all(peers, message)
            return
        for peer in peers:
            self._check(peer)
            self._spend(peer, message)
        for link, frames in zip(links, self._shared(message, peers, "", 0), strict=True):
            assert link is not None
            link.send(frames)

    def _frames(self, link: Link, message: Message, way: str, number: int) -> list[Any]:
        if not link.attached or message.nbytes < LEAST:
            return pack(message, way, number)
        try:
            return self._shared(message, [link.peer], way, number)[0]
        except OSError as error:
            logger.warning("%s: no more shared memory (%s); arrays go through the socket", self.name, error)
            return pack(message, way, number)

    def _send(self, peer: str, message: Message, way: str, number: int) -> None:
        try:
            super()._send(peer, message, way, number)
        except PeerLost:
            self._pool.lose(peer)  # it may have been lent something after its loss was noted
            raise

    def _shared(self, message: Message, peers: Sequence[str], way: str, number: int) -> list[list[bytes]]:
        header, *arrays = encode(message)
        segment, places, readers = self._pool.put(arrays, peers)
        first = head(way, number, SHARED) + header
        tail = b"".join(PLACE.pack(*place) for place in places)
        return [[first, WHERE.pack(segment.fd, segment.serial, reader) + tail] for reader in readers]

    def _message(self, arrival: Arrival, peer: str) -> Message:
        if not arrival.flags & SHARED:
            return super()._message(arrival, peer)
        try:
            header, where = arrival.frames
            fd, serial, reader = WHERE.unpack_from(where)
            places = list(PLACE.iter_unpack(memoryview(where)[WHERE.size :]))
        except (ValueError, struct.error):
            raise ProtocolError(f"{peer} sent a reference to shared memory that is none") from None
        return decode([header, *self._attach(peer, fd, serial).read(places, reader)], peer)

    def _attach(self, peer: str, fd: int, serial: int) -> Attached:
        there = self._attached.setdefault(peer, OrderedDict())
        key = (fd, serial)
        if key not in there:
            for stale in [old for old, segment in there.items() if segment.retired]:
                del there[stale]
            there[key] = Attached(self._pids[peer], fd, serial)
            if len(there) > KEPT:
                there.popitem(last=False)
        there.move_to_end(key)
        return there[key]

    def _probe(self) -> list[int]:
        return [] if self._own is None else [self._own.fd, self._own.serial]

    def _attachable(self, peer: str, pid: int, probe: list[int]) -> bool:
        if len(probe) != 2 or not 0 <= probe[1] < 1 << 64:
            return False
        try:
            Attached(pid, *probe)
        except (OSError, ProtocolError) as error:
            logger.info("%s: arrays of %s come through the socket (%s)", self.name, peer, error)
            return False
        self._pids[peer] = pid
        self._attached.pop(peer, None)
        return True

    def _lose(self, peer: str, reason: str) -> None:
        self._pool.lose(peer)
        self._attached.pop(peer, None)
        super()._lose(peer, reason)

    def close(self) -> None:
        super().close()
        self._pool.close()
        self._attached.clear()
        if self._own is not None:
            self._own.close()
