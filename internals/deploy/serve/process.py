"""A process that answers frames on a socket, one at a time, and ends with its server; see `worker` for frames."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.deploy.serve.errors import ModelFailed, ServeError
from internals.deploy.serve.worker import HEAD, opened

log = logging.getLogger("internals.deploy.serve")

BUFFER = 2**22
LINE = 4096
"""Most bytes of a line that a process wrote."""


class WorkerDied(ServeError):
    """The process ended before it answered."""

    status = 503


class Process:
    """One process, ``python -m MODULE SOCKET``.

    Parameters
    ----------
    module : str
    called : str
        In errors.
    threads : int
        For its linear algebra.
    more : sequence of str
        Arguments after the socket.
    """

    def __init__(self, module: str, called: str, threads: int = 1, more: Sequence[str] = ()) -> None:
        self._module, self._called, self._threads, self._more = module, called, threads, more
        self._process: subprocess.Popen[bytes] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, once it is started."""
        return self._process.pid if self._process else None

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    async def begin(self) -> None:
        """Start the process.

        Raises
        ------
        OSError
        """
        ours, theirs = socket.socketpair()
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(self._threads))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(theirs.fileno()), *self._more],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
            )
        self._telling = asyncio.create_task(self._tell())
        self._streams = await asyncio.open_connection(sock=ours, limit=BUFFER)

    async def _tell(self) -> None:
        """What the process, or a library in it, writes to its stderr becomes lines of the log."""
        assert self._process is not None
        assert self._process.stderr is not None
        reader = asyncio.StreamReader(limit=BUFFER)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._process.stderr)
        rest, more = b"", True
        try:
            while more:
                part = await reader.read(LINE)
                more = bool(part)
                *lines, rest = (rest + part).split(b"\n")
                if len(rest) >= LINE or (rest and not more):
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    said = line.decode(errors="replace").rstrip()[:LINE]
                    about = {"event": "worker", "pid": self.pid, "said": said}
                    log.warning("worker %s: %s", self.pid, said, extra={"about": about})
        finally:
            transport.close()

    async def ask(self, data: bytes, what: str, limit: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Send a frame, and wait some seconds for the one that answers it.

        Raises
        ------
        ModelFailed
            It took too long, and is ended.
        WorkerDied
            The process ended before it answered.
        """
        assert self._streams is not None
        reader, writer = self._streams
        try:
            async with asyncio.timeout(limit):
                writer.write(data)
                await writer.drain()
                sizes = HEAD.unpack(await reader.readexactly(HEAD.size))
                return opened(*[await reader.readexactly(size) for size in sizes])
        except TimeoutError:
            self.kill()
            raise ModelFailed(f"{self._called} took more than {limit:g} s to {what} and was stopped") from None
        except (OSError, EOFError):
            raise WorkerDied(f"the worker process {self.pid} {await self._how_it_ended()}", retry_after=1) from None

    async def _how_it_ended(self) -> str:
        assert self._process is not None
        for _ in range(100):
            if (code := self._process.poll()) is not None:
                return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            await asyncio.sleep(0.01)
        self.kill()
        return "closed its socket"

    def kill(self) -> None:
        """End the process now; it has nothing to save."""
        if self._streams is not None:
            self._streams[1].close()
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
