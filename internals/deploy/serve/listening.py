"""Who takes connections: as many as there is room for, and none of them can make the server spin or run full."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from typing import Any

from internals.deploy.serve.answers import Answers
from internals.deploy.serve.connection import Connection, Shared
from internals.deploy.serve.errors import Unavailable
from internals.deploy.serve.exchanged import refusal

log = logging.getLogger("internals.deploy.serve")

BACKLOG = 1024
"""Connections that the system holds until they are taken."""
AT_ONCE = 64
"""Connections that are taken before others have their turn."""
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
    """Takes connections.

    Parameters
    ----------
    answers : Answers
    most : int
        Connections at once.

    Raises
    ------
    ImportError
        httptools is not installed.
    """

    def __init__(self, answers: Answers, most: int) -> None:
        self._most, self._shared = most, Shared(answers)
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._coming: set[Connection] = set()
        self._again: asyncio.TimerHandle | None = None

    def listen(self, host: str, port: int) -> int:
        """Listen on an address; the port, which is a free one for port 0.

        Raises
        ------
        OSError
        """
        family = socket.AF_INET if ":" not in host else socket.AF_INET6
        try:
            found = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            why = f"can't listen on {host}:{port}: {error.strerror}. Choose another --host or --port."
            raise OSError(error.errno, why) from None
        found.setblocking(False)
        self._sockets.append(found)
        self._listen_on(found)
        taken: int = found.getsockname()[1]
        return taken

    def _take_from(self, listening: socket.socket) -> None:
        """Take the connections that have come; the loop calls this while there are more."""
        loop = asyncio.get_running_loop()
        for _ in range(AT_ONCE):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no files or memory left: others must go first
                log.error("no connection taken", extra={"about": {"event": "connections", "error": str(error)}})
                loop.remove_reader(listening)
                self._again = loop.call_later(PAUSE, self._listen_on, listening)
                return
            connection.setblocking(False)
            if len(self._shared.open) + len(self._coming - self._shared.open) < self._most:
                coming = Connection(self._shared)
                self._coming.add(coming)
                self._keep(self._open(coming, connection), self._opening)
            elif len(self._tasks) <= min(OWN_FILES, self._most) // REFUSED:
                self._keep(_refuse(connection, self._most), self._tasks)
            else:
                connection.close()

    def _listen_on(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listening, self._take_from, listening)

    async def _open(self, coming: Connection, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does not, for these
            await asyncio.get_running_loop().connect_accepted_socket(lambda: coming, connection)
        except OSError:  # the client has left already
            connection.close()
        finally:
            self._coming.discard(coming)

    def _keep(self, work: Any, where: set[asyncio.Task[None]]) -> None:
        task = asyncio.ensure_future(work)
        where.add(task)
        task.add_done_callback(where.discard)

    async def close(self, seconds: float = 0.0) -> None:
        """Take no more connections, and close those there are, when answers are read or some seconds are over."""
        if self._again is not None:
            self._again.cancel()
        for task in self._tasks | self._opening:
            task.cancel()
        for one in self._sockets:
            asyncio.get_running_loop().remove_reader(one)
            one.close()
        end = time.monotonic() + seconds
        while any(one.writing for one in self._shared.open) and time.monotonic() < end:
            await asyncio.sleep(0.01)
        for connection in list(self._shared.open):
            connection.close()
        await asyncio.sleep(0)


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
