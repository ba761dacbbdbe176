"""One endpoint's connection to speak to another: a ZeroMQ socket, the watch on it, and who is at the other end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from internals.distributed.errors import PeerLost

if TYPE_CHECKING:
    import zmq

HEARTBEAT = 300
"""Milliseconds between two signs of life. They come from libzmq's own thread: a process that holds Python's lock, or
is busy in a handler, still gives them; one that is stopped or dead does not."""
SILENCE = 1200
"""Milliseconds without a sign of life after which a peer is taken for dead. A process that gets no processor for this
long, on a machine that is overloaded or suspended, is taken for dead too."""
LARGE = 1 << 20
"""Bytes from which an array is sent from where it lies; a smaller one is faster copied."""


def library() -> Any:
    """ZeroMQ, which endpoints in several processes need.

    Raises
    ------
    ImportError
        Says what to install.
    """
    try:
        import msgpack  # noqa: F401  what messages are packed with: named here, with its remedy
        import zmq
    except ImportError as error:
        raise ImportError(
            "endpoints in several processes need pyzmq and msgpack: pip install 'framework-internals[distributed]'"
        ) from error
    return zmq


def tune(socket: zmq.Socket[Any]) -> None:
    """What both ends of a connection have in common.

    No queue has a limit of its own: one that were full would keep libzmq from reading the heartbeats behind it.
    Endpoints bound what is on its way by windows.
    """
    import zmq

    socket.set(zmq.SNDHWM, 0)
    socket.set(zmq.RCVHWM, 0)
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.HEARTBEAT_IVL, HEARTBEAT)
    socket.set(zmq.HEARTBEAT_TIMEOUT, SILENCE)
    socket.set(zmq.HEARTBEAT_TTL, SILENCE)
    # A heartbeat waits behind what is being sent: a peer that has stopped reading is TCP's to find.
    socket.set(zmq.TCP_MAXRT, SILENCE)
    socket.set(zmq.HANDSHAKE_IVL, 5000)


class Link:
    """The way to `peer`. Any thread may send; the watch belongs to one thread.

    Attributes
    ----------
    socket, watch : zmq.Socket
        What is sent on, and what tells of its connection.
    broken : float or None
        When (monotonic) the connection was found broken.
    attached : bool
        Whether the peer can read this process's shared memory.
    """

    def __init__(self, socket: zmq.Socket[Any], peer: str, address: str) -> None:
        import zmq

        self.socket = socket
        self.watch = socket.get_monitor_socket()
        self.peer = peer
        self.address = address
        self.up = False
        self.broken: float | None = None
        self.attached = False
        self._closed: str | None = None
        self._whole, self._more = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
        self._error = zmq.ZMQError
        self._lock = threading.Lock()

    def send(self, frames: Sequence[Any]) -> None:
        """Send all frames as one message; returns when they may be written to again.

        Raises
        ------
        PeerLost
            The link is closed, or is closed while a large frame is on its way.
        """
        sent = []
        last = len(frames) - 1
        with self._lock:
            if self._closed is not None:
                raise PeerLost(self.peer, self._closed)
            try:
                for place, frame in enumerate(frames):
                    flags = self._more if place < last else self._whole
                    if len(frame) < LARGE:
                        self.socket.send(frame, flags)
                    else:
                        sent.append(self.socket.send(frame, flags, copy=False, track=True))
            except self._error as error:
                raise PeerLost(self.peer, f"nothing can be sent ({error})") from None
        for tracker in sent:
            self._wait_for(tracker)

    def _wait_for(self, tracker: Any) -> None:
        import zmq

        while True:
            closed = self._closed
            try:
                tracker.wait(0.1 if closed is None else 5.0)
            except zmq.NotDone:
                if closed is None:
                    continue
            if closed is not None:
                raise PeerLost(self.peer, closed)
            return

    def close(self, reason: str, linger: int = 0, last: Sequence[Any] = ()) -> None:
        """Send `last`, give what is on its way `linger` milliseconds, and close. The watch stays, for its owner."""
        import zmq

        with self._lock:
            if self._closed is not None:
                return
            self._closed = reason
            if last:
                try:
                    self.socket.send_multipart(last, zmq.NOBLOCK)
                except zmq.ZMQError:
                    pass
            self.socket.disable_monitor()
            self.socket.close(linger)
