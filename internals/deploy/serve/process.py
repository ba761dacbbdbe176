"""A process that answers frames on a socket, one at a time, and ends with its server; see `worker` for frames."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.deploy.serve.errors import ModelFailed, ServeError
from internals.deploy.serve.worker import HEAD, opened

log = logging.getLogger("internals.deploy.serve")

BUFFER = 2**16
"""Bytes that are read at once. A frame that is longer is read to where it stays."""
LINE = 4096
"""Most bytes of a line that a process wrote."""


class WorkerDied(ServeError):
    """The process ended before it answered."""

    status = 503


Answered = tuple[dict[str, Any], dict[str, np.ndarray]]
"""What a frame holds."""


class Frames(asyncio.BufferedProtocol):
    """Reads frames from a socket, one after the other.

    Parameters
    ----------
    came : callable of (bytes, bytes)
        Called with the header and the body of each.
    lost : callable
        Called when there will be no more.
    """

    def __init__(self, came: Callable[[bytes, bytes], None], lost: Callable[[], None]) -> None:
        self._came, self._lost = came, lost
        self._start = memoryview(bytearray(BUFFER))
        self._whole: memoryview | None = None
        self._got = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to read to."""
        return (self._start if self._whole is None else self._whole)[self._got :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes came."""
        self._got += nbytes
        data = self._start if self._whole is None else self._whole
        if self._got < HEAD.size:
            return
        header, body = HEAD.unpack_from(data)
        size = HEAD.size + header + body
        if self._got < size:
            if size > len(data):
                self._whole = memoryview(bytearray(size))
                self._whole[: self._got] = data[: self._got]
            return
        self._got, self._whole = 0, None
        split = HEAD.size + header
        self._came(bytes(data[HEAD.size : split]), bytes(data[split:size]))

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side is gone."""
        self._lost()


class Process:
    """One process, ``python -m MODULE SOCKET``, which is started once; in place of one that ended comes another.

    Parameters
    ----------
    module : str
    called : str
        In errors.
    threads : int
        For its linear algebra.
    more : sequence of str
        Arguments after the socket.

    Attributes
    ----------
    is_gone : bool
        Its socket has ended, as it does with the process. Unlike `is_dead` this asks nobody.
    """

    def __init__(self, module: str, called: str, threads: int = 1, more: Sequence[str] = ()) -> None:
        self._module, self._called, self._threads, self._more = module, called, threads, more
        self._process: subprocess.Popen[bytes] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._waits: Callable[[Answered | ServeError], None] | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._dying: asyncio.Task[None] | None = None
        self.is_gone = False

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
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: Frames(self._came, self._lost), sock=ours)

    async def _tell(self) -> None:
        """What the process, or a library in it, writes to its stderr becomes lines of the log."""
        assert self._process is not None
        assert self._process.stderr is not None
        reader = asyncio.StreamReader()
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

    def send(self, data: bytes, what: str, limit: float, done: Callable[[Answered | ServeError], None]) -> None:
        """Send a frame, when the one before is answered.

        Parameters
        ----------
        data : bytes
        what : str
            The process is to do, for errors.
        limit : float
            Seconds after which it is ended.
        done : callable
            Called once and later: with what comes back, or `ModelFailed` if that took too long, or `WorkerDied`.
        """
        assert self._waits is None
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._waits = done
        self._limit = loop.call_later(limit, self._too_long, what, limit)
        if self.is_gone:
            loop.call_soon(self._lost)
        else:
            self._transport.write(data)

    async def ask(self, data: bytes, what: str, limit: float) -> Answered:
        """`send`, and wait for what comes back.

        Raises
        ------
        ModelFailed
            It took too long, and is ended.
        WorkerDied
            The process ended before it answered.
        """
        answer: asyncio.Future[Answered | ServeError] = asyncio.get_running_loop().create_future()
        self.send(data, what, limit, lambda outcome: None if answer.done() else answer.set_result(outcome))
        outcome = await answer
        if isinstance(outcome, ServeError):
            raise outcome
        return outcome

    def _end(self, outcome: Answered | ServeError) -> None:
        done, self._waits = self._waits, None
        if self._limit is not None:
            self._limit.cancel()
        if done is not None:
            done(outcome)

    def _came(self, header: bytes, body: bytes) -> None:
        self._end(opened(header, body))

    def _too_long(self, what: str, limit: float) -> None:
        done, self._waits = self._waits, None
        self.kill()
        if done is not None:
            done(ModelFailed(f"{self._called} took more than {limit:g} s to {what} and was stopped"))

    def _lost(self) -> None:
        self.is_gone = True
        if self._waits is not None and self._dying is None:
            self._dying = asyncio.ensure_future(self._died())

    async def _died(self) -> None:
        how = await self._how_it_ended()
        self._dying = None
        self._end(WorkerDied(f"the worker process {self.pid} {how}", retry_after=1))

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
        self.is_gone = True
        if self._transport is not None:
            self._transport.close()
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
