"""Gradings in processes of this machine, which can be ended at any time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path

from autograder.queue.grading import Fault, Outcome, Work

_ROOT = Path(__file__).resolve().parents[3]
GRADER = "autograder.queue.executors.grader"


class Pool:
    """A process for each slot, started when it is first needed, and anew after one has died or was ended.

    Parameters
    ----------
    grader : str
        The module that runs in each, as `grader`.
    """

    def __init__(self, slots: int = 2, grader: str = GRADER) -> None:
        if slots < 1:
            raise ValueError(f"slots {slots}: give at least 1")
        self.slots, self._module = slots, grader
        self._idle: list[_Process] = []
        self._busy: dict[int, _Process] = {}
        """By the identity of the future."""
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, work: Work) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_running_or_notify_cancel()
        threading.Thread(
            target=self._grade, args=(work, future), name=f"grading {work.submission_id}", daemon=True
        ).start()
        return future

    def _grade(self, work: Work, future: Future[Outcome]) -> None:
        process = None
        try:
            with self._lock:
                if self._closed:
                    raise BrokenPipeError("the pool is closed")
                process = self._idle.pop() if self._idle else _Process(self._module)
                self._busy[id(future)] = process
            outcome = process.grade(work)
        except OSError as error:
            outcome = Fault(f"No process could be started to grade it: {error}")
        with self._lock:
            self._busy.pop(id(future), None)
            if process is not None:
                if process.is_alive() and not self._closed:
                    self._idle.append(process)
                else:
                    process.end()
        future.set_result(outcome)

    def cancel(self, future: Future[Outcome]) -> None:
        """End its process, and with it the sandbox."""
        with self._lock:
            process = self._busy.get(id(future))
        if process is not None:
            process.end()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            processes = [*self._idle, *self._busy.values()]
            self._idle = []
        for process in processes:
            process.end()


class _Process:
    """A grader in a process of its own, at the other end of a socket."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:  # theirs is the child's alone, so that its end is seen
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd="/",
                env=_environment(),
            )
            self._connection = Connection(ours.detach())
        self._ended = threading.Lock()

    def grade(self, work: Work) -> Outcome:
        try:
            self._connection.send(work)
            outcome: Outcome = self._connection.recv()
        except (EOFError, OSError):
            self.end()
            return Fault(f"The process that graded it ended in the middle of it: {self._how()}.")
        return outcome

    def _how(self) -> str:
        code = self._process.returncode
        if code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-code).name
        return f"exit status {code}"

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        with self._ended:
            if self._process.poll() is None:
                self._process.kill()
            # The thread that reads from it sees its end, and with that thread the connection goes.
            self._process.wait()


def _environment() -> dict[str, str]:
    """One thread of the numerical libraries: there are other processes for the other cores."""
    paths = [os.fspath(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
