"""Reaching the warm process: the one that answers checks, started once per user and kept while it is in use.

The kernel's side of `autograder.daemon`. Imports little, because a learner's notebook waits for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from autograder import frames
from autograder.oracles import runtime

START_SECONDS = 60.0
"""How long a process may take to start; it imports no framework itself."""


class WarmError(RuntimeError):
    """The process that answers checks cannot be reached. One line, with what to do."""


def socket_path() -> Path:
    return runtime.directory() / "practice.sock"


def log_path() -> Path:
    return runtime.directory() / "practice.log"


def code_stamp() -> str:
    """A digest of the names, sizes and times of the autograder's files: a process that runs other code is replaced."""
    digest = hashlib.sha256(sys.prefix.encode())
    for folder, folders, files in os.walk(runtime.PACKAGE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if not name.endswith(".pyc"):
                found = os.stat(os.path.join(folder, name))
                digest.update(f"{folder}/{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def environment() -> dict[str, str]:
    """What the process gets of the kernel's environment: nothing that only concerns this notebook."""
    dropped = (
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "MPLBACKEND",
        "JPY_SESSION_NAME",
        "JPY_PARENT_PID",
    )
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # One thread: the process forks, and a numerical library's threads would not survive that.
    return kept | {"PYTHONPATH": os.fspath(runtime.PACKAGE.parent), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def start() -> bool:
    """Start the process in the background, unless it runs or is starting. Returns at once: whether this call did.

    Raises
    ------
    RuntimeUnsafe, OSError
        It has no private place to listen in, or can't be started.
    """
    home = runtime.directory()
    # The child inherits the lock and holds it while it lives, so two starters can't start two.
    with open(home / "practice.lock", "a+b") as lock, open(log_path(), "ab", opener=_private) as log:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        log.truncate(0)
        command = [sys.executable, "-P", "-m", "autograder.daemon", "--lock", str(lock.fileno())]
        command += ["--idle", os.environ.get("AUTOGRADER_PRACTICE_IDLE", "900")]
        command += ["--file", os.environ.get("JPY_SESSION_NAME", "")]
        process = subprocess.Popen(
            command,
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )
    _started.append(process)
    return True


_started: list[subprocess.Popen[bytes]] = []


def _reap() -> None:
    for process in list(_started):
        if process.poll() is not None:
            _started.remove(process)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def connect(tell: Callable[[str], None] | None = None) -> socket.socket:
    """A connection to a process that runs this code; starts one, and replaces an old one.

    `tell` hears, every second, what is waited for.

    Raises
    ------
    WarmError
        It does not start.
    """
    try:
        return _connect(tell or (lambda sentence: None))
    except (OSError, runtime.RuntimeUnsafe) as error:
        raise WarmError(f"The checker could not be started: {error}") from error


def _connect(tell: Callable[[str], None]) -> socket.socket:
    began = time.monotonic()
    deadline = began + START_SECONDS
    starts, pause = 0, 0.01
    stamp = code_stamp()
    while time.monotonic() < deadline:
        _reap()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(os.fspath(socket_path()))
            if not runtime.same_user(connection):
                raise WarmError(f"{socket_path()} is served by another user; remove it.")
            frames.write_frame(connection, {"do": "hello", "stamp": stamp})
            while not select.select([connection], [], [], 1.0)[0] and time.monotonic() < deadline:
                tell(f"starting, {time.monotonic() - began:.0f} s")
            if frames.read_frame(connection, timeout=max(0.1, deadline - time.monotonic())).get("stamp") == stamp:
                return connection
        except (FileNotFoundError, ConnectionError, EOFError, frames.FrameError):
            if start():
                starts += 1
                if starts > 3:
                    break
        except WarmError:
            connection.close()
            raise
        connection.close()
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)
    raise WarmError(f"The checker does not start. Its last words are in {log_path()}.")


def ask(request: dict[str, Any], tell: Callable[[str], None] | None = None) -> Iterator[dict[str, Any]]:
    """Send one request; yields every reply, the last of which is final. `tell` hears what is waited for before that.

    Raises
    ------
    WarmError
        The process can't be reached, or ended before it had answered.
    """
    with connect(tell) as connection:
        try:
            frames.write_frame(connection, request)
            while True:
                reply = frames.read_frame(connection)
                yield reply
                if "progress" not in reply and "stored" not in reply:
                    return
        except (OSError, EOFError, frames.FrameError) as error:
            raise WarmError(
                f"The checker ended before it had answered ({error or type(error).__name__}). "
                f"Try again; its log is {log_path()}."
            ) from error


def stop(patience: float = 5.0) -> bool:
    """End the process of this user, if there is one."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with connection:
        try:
            connection.connect(os.fspath(socket_path()))
            frames.write_frame(connection, {"do": "stop"})
            frames.read_frame(connection, timeout=patience)
        except (OSError, EOFError, frames.FrameError):
            return False
    with open(runtime.directory() / "practice.lock", "a+b") as lock:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.01)
            else:
                break
    for process in list(_started):
        process.wait(patience)
        _started.remove(process)
    return True
