"""Who takes connections: as many as there is room for, and none of them can make the server spin or run full."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from typing import Any

from internals.deploy.serve.answers import Answers, refusal
from internals.deploy.serve.errors import Unavailable
from internals.deploy.serve.http import LARGEST_HEADER, LARGEST_PATH, Exchange, Held

log = logging.getLogger("internals.deploy.serve")

OWN_FILES = 256
"""Files that the server itself may need open: workers, versions that load, connections that are refused."""
REFUSED = 4
"""For so many connections one more may wait until it has read that the server is full; others are only closed."""
GOODBYE = 1.0
"""Seconds that they have for it."""
PAUSE = 0.5
"""Seconds until the next attempt to take a connection, after one that failed."""


def room_for(connections: int) -> int:
    """How many connections may be open at once; raises the process's limit on open files where it may.

    Parameters
    ----------
    connections : int
        How many are wanted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    wanted = connections + OWN_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, soft - min(OWN_FILES, soft // 2))


class Listener:
    """Takes connections, and gives each to Tornado.

    Parameters
    ----------
    answers : Answers
    most : int
        Connections at once.

    Raises
    ------
    ImportError
        Tornado is not installed.
    """

    def __init__(self, answers: Answers, most: int) -> None:
        try:
            from tornado.httpserver import HTTPServer
            from tornado.httputil import HTTPMessageDelegate, HTTPServerConnectionDelegate
            from tornado.iostream import IOStream
        except ImportError:
            raise ImportError("The server speaks HTTP with Tornado: pip install tornado") from None
        settings = answers.server.settings
        held = Held(settings.bodies)

        class Tornados(Exchange, HTTPMessageDelegate):
            """An exchange as Tornado knows it."""

        class Connections(HTTPServerConnectionDelegate):
            """Makes an exchange for each request."""

            def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
                return Tornados(answers, request_conn, held)

        class Stream(IOStream):
            """A connection on which what is no HTTP has an answer with a body, as every other; and only one."""

            refused = False

            def write(self, data: Any) -> Any:
                if data == _TORNADOS:
                    data = b"" if self.refused else _NO_HTTP
                return super().write(data)

            def set_nodelay(self, value: bool) -> None:
                """Set once for the connection, not twice for each answer."""

        class Counted(HTTPServer):
            """Knows how many connections there are."""

            @property
            def open(self) -> int:
                """Connections."""
                return len(self._connections)

            @property
            def writing(self) -> bool:
                """Whether a client has not read its answer to the end."""
                return any(one.stream.writing() for one in self._connections)

        self._most = most
        self._stream = Stream
        # Our own counts come first and have an answer; Tornado would only close.
        self._http = Counted(
            Connections(),
            idle_connection_timeout=settings.idle,
            max_header_size=4 * (LARGEST_HEADER + LARGEST_PATH),
            max_body_size=2**62,
        )
        self._buffer = max(settings.largest, 2**20) + LARGEST_HEADER
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, host: str, port: int) -> int:
        """Listen on an address; the port, which is a free one for port 0.

        Raises
        ------
        OSError
        """
        from tornado.netutil import bind_sockets

        family = socket.AF_INET if ":" not in host else socket.AF_INET6
        try:
            found = bind_sockets(port, host, family=family, backlog=1024)
        except OSError as error:
            why = f"can't listen on {host}:{port}: {error.strerror}. Choose another --host or --port."
            raise OSError(error.errno, why) from None
        self._sockets += found
        for one in found:
            self._keep(self._take_from(one))
        taken: int = found[0].getsockname()[1]
        return taken

    async def _take_from(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no files or memory left: others must go first
                log.error("no connection taken", extra={"about": {"event": "connections", "error": str(error)}})
                await asyncio.sleep(PAUSE)
                continue
            if self._http.open < self._most:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._http.handle_stream(self._stream(connection, max_buffer_size=self._buffer), address)
            elif len(self._tasks) <= min(OWN_FILES, self._most) // REFUSED:
                self._keep(_refuse(connection, self._most))
            else:
                connection.close()

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, seconds: float = 0.0) -> None:
        """Take no more connections, and close those there are, when answers are read or some seconds are over."""
        for task in self._tasks:
            task.cancel()
        for one in self._sockets:
            one.close()
        end = time.monotonic() + seconds
        while self._http.writing and time.monotonic() < end:
            await asyncio.sleep(0.01)
        await self._http.close_all_connections()


async def _refuse(connection: socket.socket, most: int) -> None:
    """Say that the server is full, and read what the client has to say, or it would not read the answer."""
    loop = asyncio.get_running_loop()
    error = Unavailable(f"the server has {most} connections, and takes no more.", retry_after=1)
    answer = refusal(error)
    with connection:
        connection.setblocking(False)
        try:
            async with asyncio.timeout(GOODBYE):
                await loop.sock_sendall(connection, _whole(503, "Service Unavailable", answer.body, "Retry-After: 1"))
                connection.shutdown(socket.SHUT_WR)
                while await loop.sock_recv(connection, 2**16):
                    pass
        except OSError:  # a TimeoutError is one
            return


def _whole(status: int, reason: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *headers, "Connection: close", "", ""]).encode() + body


_TORNADOS = b"HTTP/1.1 400 Bad Request\r\n\r\n"
"""What Tornado answers what it can't read."""
_NO_HTTP = _whole(400, "Bad Request", b'{"error": "the request is no HTTP/1.1, or not as it must be written."}')
