"""Asking oracle processes, and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder import frames
from autograder.oracles import runtime
from autograder.oracles.starting import FRAMEWORKS, ON_DEMAND, OracleError, is_locked, launch, reap, socket_path
from autograder.spec import Inputs, Lab, Task

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """What one oracle says to one case: a value, or why there is none."""

    value: Any = None
    error: str = ""


def open_socket(framework: str) -> socket.socket | None:
    """A connection to a running process, or None."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.fspath(socket_path(framework)))
    except OSError:
        connection.close()
        return None
    if not runtime.same_user(connection):
        connection.close()
        raise OracleError(f"{socket_path(framework)} is served by another user; remove it.")
    return connection


def ask(connection: socket.socket, request: dict[str, Any], timeout: float) -> dict[str, Any]:
    frames.write_frame(connection, request)
    return frames.read_frame(connection, timeout=timeout)


class Oracle:
    """One framework, as seen by a grader.

    Parameters
    ----------
    framework : str
    patience : float
        Seconds to wait in all for a process that is starting, or that has much to do.
    progress : callable, optional
        Told in a sentence what is waited for.
    """

    def __init__(self, framework: str, *, patience: float = 120.0, progress: Progress | None = None) -> None:
        self.framework, self.patience = framework, patience
        self.progress = progress or (lambda sentence: None)

    def launch(self) -> None:
        """See that a process is there or on its way."""
        launch(self.framework)

    def answer(self, lab: Lab, task: Task, cases: Sequence[Inputs]) -> list[Answer]:
        """What the framework says to each of `cases`.

        Raises
        ------
        OracleError
            It cannot be started, cannot import its framework or the spec, or does not answer in time.
        """
        deadline = time.monotonic() + self.patience
        request = {
            "do": "answer",
            "lab": lab.name,
            "task": task.name,
            "stamp": runtime.source_stamp(),
            "version": lab.version,
            "cases": list(cases),
        }
        for attempt in (1, 2):  # a process may end, idle, just as it is asked
            with self.connect(deadline) as connection:
                try:
                    frames.write_frame(connection, request)
                    reply = self.wait(connection, deadline)
                except (OSError, EOFError, frames.FrameError) as error:
                    if attempt == 2 or isinstance(error, TimeoutError):
                        raise OracleError(
                            f"the {self.framework} oracle broke off: {error or type(error).__name__}{self.last_words()}"
                        ) from None
                    continue
            if "answers" in reply:
                return [self.read(answer) for answer in reply["answers"]]
            if "error" in reply:
                raise OracleError(f"{self.framework} oracle: {reply['error']}")
        raise OracleError(f"the {self.framework} oracle ended before it answered.")

    @staticmethod
    def read(answer: dict[str, Any]) -> Answer:
        if "error" in answer:
            return Answer(error=answer["error"])
        return Answer(value=frames.decode(answer["value"]))

    def wait(self, connection: socket.socket, deadline: float) -> dict[str, Any]:
        while True:
            reply = frames.read_frame(connection, timeout=max(0.01, deadline - time.monotonic()))
            if "progress" not in reply:
                return reply
            self.progress(f"{self.framework}: {reply['progress']}, {reply['seconds']:.0f} s")

    def connect(self, deadline: float) -> socket.socket:
        """A connection to a process that runs this code; starts one, and replaces an old one."""
        pause, launched = 0.01, 0
        while True:
            connection = open_socket(self.framework)
            if connection is not None:
                try:
                    if ask(connection, {"do": "hello"}, timeout=30.0).get("code") == runtime.code_version():
                        return connection
                    ask(connection, {"do": "stop"}, timeout=5.0)
                except (OSError, EOFError, frames.FrameError):
                    self.progress(f"{self.framework}: the process is ending")
                connection.close()
            elif launch(self.framework):
                launched += 1
                if launched > 2:
                    raise OracleError(f"the {self.framework} oracle does not start{self.last_words()}")
            if time.monotonic() > deadline:
                raise OracleError(
                    f"the {self.framework} oracle did not start in {self.patience:.0f} s{self.last_words()}"
                )
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)

    def last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = (runtime.directory() / f"{self.framework}.log").read_text(errors="replace").strip().splitlines()
            if lines:
                return f"; its last words: {lines[-1][:300]}"
        return "."


def running() -> list[dict[str, Any]]:
    """What each oracle process that answers says of itself: framework, pid, state, release, served, seconds, idle."""
    found = []
    for framework in (*FRAMEWORKS, *ON_DEMAND):
        connection = open_socket(framework)
        if connection is not None:
            with connection, contextlib.suppress(OSError, EOFError, frames.FrameError):
                found.append(ask(connection, {"do": "hello"}, timeout=30.0))
    return found


def stop(frameworks: Sequence[str] = (*FRAMEWORKS, *ON_DEMAND), *, patience: float = 5.0) -> list[str]:
    """End the processes of this user; by signal when one doesn't listen. Returns which there were."""
    stopped = []
    for framework in frameworks:
        connection = open_socket(framework)
        if connection is None:
            continue
        stopped.append(framework)
        with connection:
            found = runtime.peer(connection)
            with contextlib.suppress(OSError, EOFError, frames.FrameError):
                ask(connection, {"do": "stop"}, timeout=patience)
        # Not until the lock is free: whoever needs the oracle may have started the next one meanwhile.
        deadline, killed = time.monotonic() + patience, False
        while found is not None and is_locked(framework) and is_running(found[0]):
            if time.monotonic() > deadline:
                if killed:
                    raise OracleError(f"{framework}: process {found[0]} does not end; it was told to, and killed.")
                os.kill(found[0], signal.SIGKILL)
                deadline, killed = deadline + patience, True
            time.sleep(0.02)
        reap(framework)
    return stopped


def is_running(process: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent to notice is none."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        pass
    except OSError:
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not os.path.isdir("/proc/self")  # with /proc there, a missing entry says it is gone
