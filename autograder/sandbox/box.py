"""One sandbox, seen from the grader: requests go in, replies come out, and it can be ended at any time."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from autograder import frames
from autograder.report import Cause
from autograder.sandbox.layout import BOX_FILES, Layout, layout
from autograder.spec import Lab

START_LIMIT = 30.0
"""Seconds a sandbox may take to answer its first request; a busy machine is slow."""
_STDERR_KEPT = 16_000
_LAUNCHER = Path(__file__).with_name("launcher.py")
_OVERHEAD = 256 << 20
"""Address space of the interpreter, NumPy and its threads, beside what the lab allows."""
_THREADS = 64
_CELL_LINE = re.compile(r'File "<cell (\d{1,6})>", line (\d{1,6}) in ([\w<>]{1,80})')
"""A line of the interpreter's own report on where it is."""


class SandboxUnavailable(RuntimeError):
    """This machine offers no sandbox that has proven itself; one clear line."""


class WorkerDied(RuntimeError):
    """The sandbox ended, or had to be ended. `detail` completes a sentence ("the call ran longer than 2 s")."""

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class Box:
    """A running sandbox.

    It starts in the background: making a Box returns at once, and the first request waits for it.

    Parameters
    ----------
    lab : Lab
        Its packages and limits.
    kind : str
        "bubblewrap", "landlock", or, for practice only, "process".

    Raises
    ------
    SandboxUnavailable
        A package that the lab needs isn't installed.
    """

    def __init__(self, lab: Lab, kind: str) -> None:
        self.kind = kind
        self.lab = lab
        try:
            seen = layout(tuple(lab.packages))
        except ValueError as error:
            raise SandboxUnavailable(f"{lab.name} has no sandbox here: {error}") from None
        self.uid = (_unused_uid() if _open_to_all(seen) else 0) or os.geteuid()
        """Who the sandbox runs as, seen from outside."""
        self.limits = ""
        """What besides the limits of single processes counts memory and processes; known once it has ended."""
        request_read, self._requests = os.pipe()
        self._replies, reply_write = os.pipe()
        self._stderr, stderr_write = os.pipe()
        for descriptor in (self._requests, self._replies, self._stderr):
            os.set_blocking(descriptor, False)
        order = {
            "kind": kind,
            "bubblewrap": shutil.which("bwrap") or "",
            "python": seen.python,
            "trees": seen.trees,
            "masks": seen.masks,
            "packages": seen.packages,
            "files": [str(path) for path in BOX_FILES],
            "requests": request_read,
            "replies": reply_write,
            "memory": lab.memory_bytes,
            "overhead": _OVERHEAD,
            "cpu": int(lab.total_limit) + 30,
            "processes": lab.processes,
            "loopback": lab.loopback,
            "threads": _THREADS,
            "uid": self.uid if self.uid != os.geteuid() else 0,
        }
        try:
            self._launcher = subprocess.Popen(
                [seen.python, "-I", "-S", str(_LAUNCHER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr_write,
                pass_fds=(request_read, reply_write),
                bufsize=0,
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
                cwd="/",
            )
        finally:
            for descriptor in (request_read, reply_write, stderr_write):
                os.close(descriptor)
        assert self._launcher.stdin is not None
        frames.send(self._launcher.stdin.fileno(), json.dumps(order).encode() + b"\n")
        self._heard = bytearray()
        self._open = True

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def request(self, request: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        """Send one request and wait for its reply.

        Raises
        ------
        WorkerDied
            No reply within `timeout` seconds, or the sandbox ended, or what came is no reply. It is closed then.
        """
        if not self._open:
            raise WorkerDied("protocol", "was asked after its end")
        nonce = secrets.randbits(62)
        body = frames.encode({**request, "id": nonce, "limit": max(timeout * 0.9, 0.01)})
        try:
            reply = self._exchange(frames._HEADER.pack(len(body)) + body, time.monotonic() + timeout)
        except TimeoutError:
            self._end()
            raise WorkerDied("time", f"ran longer than {timeout:.3g} s{self._where()}") from None
        except EOFError:
            raise self._why_ended() from None
        except frames.FrameError as error:
            self._end()
            raise WorkerDied("protocol", f"sent the grader what is no reply ({error})") from None
        if type(reply) is not dict or type(reply.get("id")) is not int or reply["id"] != nonce:
            self._end()
            raise WorkerDied("protocol", "sent the grader a forged reply")
        self._heard.clear()
        return reply

    def close(self) -> None:
        """End everything in the sandbox and wait until it has ended."""
        if self._open:
            self._end()

    @property
    def launcher_pid(self) -> int:
        """The process outside that watches over the sandbox."""
        return self._launcher.pid

    @property
    def stderr(self) -> str:
        """The start of what the sandbox wrote to its stderr: a crash report, or why it didn't start."""
        return self._heard.decode("utf-8", "replace")

    # --- inside ---

    def _exchange(self, data: bytes, deadline: float) -> Any:
        pending = memoryview(data)
        reply = bytearray()
        length: int | None = None
        poll = select.poll()
        poll.register(self._replies, select.POLLIN)
        poll.register(self._stderr, select.POLLIN)
        poll.register(self._requests, select.POLLOUT)
        while length is None or len(reply) < length:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for descriptor, _ in poll.poll(left * 1000):
                if descriptor == self._stderr:
                    self._hear(poll)
                elif descriptor == self._requests:
                    pending = self._write(pending)
                    if not pending:
                        poll.unregister(self._requests)
                else:
                    reply += self._read(1 << 20)
            if length is None and len(reply) >= 4:
                (size,) = frames._HEADER.unpack(reply[:4])
                if size > frames.REPLY_LIMIT:
                    raise frames.FrameError(f"a frame of {size} bytes, at most {frames.REPLY_LIMIT} are read")
                length = size + 4
        if len(reply) > length:
            raise frames.FrameError("more than one reply")
        return frames.decode(bytes(reply[4:]))

    def _read(self, size: int) -> bytes:
        try:
            data = os.read(self._replies, size)
        except BlockingIOError:
            return b""
        if not data:
            raise EOFError
        return data

    def _write(self, pending: memoryview) -> memoryview:
        try:
            return pending[os.write(self._requests, pending[: 1 << 20]) :]
        except BlockingIOError:
            return pending
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            raise EOFError from None

    def _hear(self, poll: select.poll | None = None) -> None:
        """Keep the start of stderr; what comes after is read and dropped."""
        try:
            data = os.read(self._stderr, 1 << 20)
        except BlockingIOError:
            return
        self._heard += data[: _STDERR_KEPT - len(self._heard)]
        if not data and poll is not None:
            poll.unregister(self._stderr)

    def _why_ended(self) -> WorkerDied:
        """The sandbox closed its side: let it end by itself for a moment, then say how it ended."""
        ended = self._end(grace=0.5)
        code, passed = ended.get("code"), ended.get("passed")
        if passed == "memory" or code == 97:
            return WorkerDied("memory", f"used more than {self.lab.memory_bytes / 2**30:.3g} GB of memory")
        if passed == "files":
            return WorkerDied("files", "wrote more than 64 MB to disk")
        if ended.get("killed") or code is None:
            return WorkerDied("protocol", "closed its connection to the grader")
        if code == 125 or (code and "bwrap:" in self.stderr):
            said = self.stderr.strip().splitlines()
            return WorkerDied("protocol", f"could not be set up ({said[-1][:300] if said else 'no reason given'})")
        if code > 128 and self.kind == "bubblewrap":
            code = 128 - code
        if code == -signal.SIGXCPU:
            return WorkerDied("time", "used up its computing time")
        if code < 0:
            return WorkerDied("signal", f"crashed Python (signal {-code}, {_signal_words(-code)}){self._where()}")
        return WorkerDied("exit", f"ended Python itself (exit status {code})")

    def _where(self) -> str:
        """Where in the learner's cells the interpreter said it was, last."""
        report = self.stderr.rpartition("(most recent call first)")[2]
        found = _CELL_LINE.search(report)
        return f" (it was at cell {found[1]}, line {found[2]}, in {found[3]})" if found else ""

    def _end(self, *, grace: float = 0.0) -> dict[str, Any]:
        """Kill what is left, wait for the launcher's word, release everything; the word is how it ended."""
        self._open = False
        stdin, stdout = self._launcher.stdin, self._launcher.stdout
        assert stdin is not None
        assert stdout is not None
        line = _read_word(stdout.fileno(), grace) if grace else b""
        with contextlib.suppress(OSError):
            stdin.close()
        if not line:
            line = _read_word(stdout.fileno(), 6.0)
        while self._more_stderr():
            self._hear()
        try:
            self._launcher.wait(1.0)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
            self._launcher.wait()
        stdout.close()
        for descriptor in (self._requests, self._replies, self._stderr):
            os.close(descriptor)
        try:
            ended = json.loads(line) if line else {}
        except ValueError:
            ended = {}
        self.limits = ended.get("group") or "rlimits"
        return ended

    def _more_stderr(self) -> bool:
        poll = select.poll()
        poll.register(self._stderr, select.POLLIN)
        return any(events & select.POLLIN for _, events in poll.poll(0)) and len(self._heard) < _STDERR_KEPT


def _read_word(descriptor: int, seconds: float) -> bytes:
    poll, line, deadline = select.poll(), b"", time.monotonic() + seconds
    poll.register(descriptor, select.POLLIN | select.POLLHUP)
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return b""
        part = os.read(descriptor, 65536)
        if not part:
            return b""
        line += part
    return line


def _signal_words(number: int) -> str:
    words = {
        signal.SIGSEGV: "segmentation fault",
        signal.SIGABRT: "aborted",
        signal.SIGKILL: "killed",
        signal.SIGFPE: "arithmetic fault",
    }
    if number in words:
        return words[signal.Signals(number)]
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _open_to_all(seen: Layout) -> bool:
    """Whether others may read what is mounted: files installed by root under a strict umask are root's alone."""
    samples = [seen.python, *map(str, BOX_FILES), *(os.path.join(path, "__init__.py") for path in seen.packages)]
    return all(os.stat(path).st_mode & 0o004 for path in samples if os.path.exists(path))


def _unused_uid() -> int:
    """A user id nobody has, if this process is root and may take one; else 0, for "stay who you are"."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return 0
    try:
        ranges = [
            tuple(int(part) for part in line.split()) for line in Path("/proc/self/uid_map").read_text().splitlines()
        ]
    except OSError:
        return 0
    for first, _, count in ranges:
        if first + count > 2_100_000_000:
            return 2_000_000_000 + secrets.randbelow(100_000_000)
        if first <= 61_184 and first + count > 65_000:
            return 61_184 + secrets.randbelow(3_800)
    return 0
