"""A job of several processes of this machine, started for one function and ended with it."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import secrets
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from internals.distributed.errors import DeadlineExceeded, PeerLost, RemoteError
from internals.distributed.group.rendezvous import assemble
from internals.distributed.launch.descendants import descendants
from internals.distributed.launch.job import threads
from internals.distributed.transport import open_endpoint

REST = 4.0
"""Seconds that the other ranks have, after one has failed, to find out and end by themselves."""
DIES_WITH_PARENT = 1
"""Linux: PR_SET_PDEATHSIG."""


@dataclass
class _Rank:
    """A child, and what is known of it."""

    process: SpawnProcess
    connection: Connection
    done: bool = False
    result: Any = None
    failed: float | None = None
    error: BaseException | None = None
    died: bool = False


def run_processes(
    size: int,
    function: Callable[..., Any],
    *arguments: Any,
    transport: str = "shm",
    deadline: float = 60.0,
) -> list[Any]:
    """Run ``function(group, *arguments)`` in `size` new processes, one per rank.

    Parameters
    ----------
    size : int
    function : callable
        Of a module, or of the script that runs; not of a notebook, and not defined in another function.
    *arguments
        Passed to every rank, as copies.
    transport : str
        ``"shm"`` or ``"tcp"``.
    deadline : float
        Seconds for the whole; each wait of a rank lasts four fifths of it at most.

    Returns
    -------
    list
        What the function returned, by rank: plain data and arrays.

    Raises
    ------
    PeerLost
        A rank's process died; says which, and by what signal.
    DeadlineExceeded
        Names the ranks that had not ended. They are killed.
    BaseException
        What was raised first by any rank, with the rank and its traceback in notes.

    Notes
    -----
    No process is left, whatever happens: the ranks are killed when this returns or raises, and die with this process.
    """
    if size < 1:
        raise ValueError(f"run_processes: {size} ranks; at least 1")
    _importable(function)
    context = multiprocessing.get_context("spawn")
    secret, end = secrets.token_hex(16), time.monotonic() + deadline
    ranks: list[_Rank] = []
    try:
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(
                target=_child,
                args=(there, rank, size, function, arguments, transport, secret, 0.8 * deadline),
                name=f"rank {rank}",
                daemon=False,
            )
            ranks.append(_Rank(process, here))
            with _fair_threads(size):
                process.start()
            there.close()
        _watch(ranks, end, deadline)
    finally:
        _end(ranks)
    _raise_first(ranks)
    return [rank.result for rank in ranks]


@contextlib.contextmanager
def _fair_threads(size: int) -> Iterator[None]:
    """The environment in which a child starts: with a fair share of the cores for linear algebra."""
    added = threads(os.environ, size)
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _importable(function: Callable[..., Any]) -> None:
    name, module = getattr(function, "__qualname__", repr(function)), getattr(function, "__module__", None)
    home = sys.modules.get(module or "")
    if "<" in name or home is None:
        raise ValueError(
            f"run_processes: {name} can't be found by another process: it is to be a function of a module, not a "
            "lambda or one defined inside another function"
        )
    if module == "__main__" and not getattr(home, "__file__", None):
        raise ValueError(
            f"run_processes: {name} was defined in a notebook or at a prompt, where another process can't find it: put "
            "it in a module and import it, or use run_threads"
        )


def _watch(ranks: Sequence[_Rank], end: float, deadline: float) -> None:
    """Read what the ranks have to say until all have ended, one has failed and the rest had time, or time is up."""
    stop = end
    while not all(rank.done for rank in ranks):
        left = stop - time.monotonic()
        if left <= 0:
            if not any(rank.error for rank in ranks):
                late = ", ".join(str(number) for number, rank in enumerate(ranks) if not rank.done)
                raise DeadlineExceeded(
                    f"run_processes: rank {late} had not ended within {deadline:g} s; they were killed"
                )
            return
        waiting: list[Any] = [rank.connection for rank in ranks if not rank.done]
        for ready in wait(waiting, left):
            number, rank = next((number, rank) for number, rank in enumerate(ranks) if rank.connection is ready)
            try:
                told, *rest = rank.connection.recv()
            except (EOFError, OSError):
                rank.done = rank.died = True
                rank.failed, rank.error = time.monotonic(), _death(number, rank)
                stop = min(stop, time.monotonic() + REST)
                continue
            if told == "listening":
                for other in ranks[1:]:
                    with contextlib.suppress(OSError):  # it died, which its end of the pipe will tell
                        other.connection.send(*rest)
            elif told == "result":
                (rank.result,) = rest
                rank.done = True
            else:
                rank.failed, rank.error = rest
                rank.done = True
                stop = min(stop, time.monotonic() + REST)


def _join(rank: _Rank, seconds: float) -> None:
    """Wait until a rank's process has ended. What `join` waits for stays open as long as a child that it left lives."""
    end = time.monotonic() + seconds
    while rank.process.exitcode is None and time.monotonic() < end:
        rank.process.join(0.02)


def _death(number: int, rank: _Rank) -> PeerLost:
    _join(rank, 5.0)
    code = rank.process.exitcode
    how = f"its process ended with exit code {code} before it had a result"
    if code is not None and code < 0:
        how = f"its process was killed by {signal.Signals(-code).name}"
    return PeerLost(f"rank:{number}", how)


def _raise_first(ranks: Sequence[_Rank]) -> None:
    """Raise what made the job fail: a process that died, before the errors that this caused in others."""
    failed = [(number, rank) for number, rank in enumerate(ranks) if rank.error is not None]
    if not failed:
        return
    died = [entry for entry in failed if entry[1].died]
    number, first = min(died or failed, key=lambda entry: entry[1].failed or 0.0)
    assert first.error is not None
    first.error.add_note(f"raised by rank {number} of {len(ranks)}")
    raise first.error


def _end(ranks: Sequence[_Rank]) -> None:
    """Leave nothing behind: neither the children nor what they started."""
    started = [rank for rank in ranks if rank.process.pid is not None]
    # Whoever made a session of its own is known by its parent only, which is alive until it is told that all is over.
    theirs = [pid for rank in started for pid in descendants(rank.process.pid or 0)]
    for rank in started:
        if rank.error is None and rank.done:
            with contextlib.suppress(OSError):
                rank.connection.send("end")
    for rank in started:
        if rank.error is None and rank.done:
            _join(rank, 5.0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            assert rank.process.pid is not None
            os.killpg(rank.process.pid, signal.SIGKILL)
        rank.process.kill()
        rank.process.join()
        rank.connection.close()
    for pid in theirs:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


# In the child.


def _child(
    connection: Connection,
    rank: int,
    size: int,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    transport: str,
    secret: str,
    deadline: float,
) -> None:
    _die_with_parent()

    def listening() -> None:
        connection.send(("listening", endpoint.address))

    try:
        endpoint = open_endpoint(f"rank:{rank}", transport=transport, secret=secret, job="run_processes")
        first = endpoint.address if rank == 0 else connection.recv()
        with assemble(endpoint, rank, size, first, deadline, listening) as group:
            try:
                result = function(group, *arguments)
            except BaseException as error:  # noqa: BLE001  it is raised again, in the parent
                connection.send(("failed", time.monotonic(), _portable(error, rank)))
                return
            connection.send(("result", result))
            connection.recv()  # until all have a result: the others may still have to send something here
    except (EOFError, BrokenPipeError):
        os._exit(1)  # nobody is there to tell
    except BaseException as error:  # noqa: BLE001  as above: it could not join, or its result can't be sent
        connection.send(("failed", time.monotonic(), _portable(error, rank)))


def _die_with_parent() -> None:
    """Whatever ends the parent ends this process; and a signal to this process's group ends what it has started."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        if not parent.is_alive():
            os._exit(1)
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _portable(error: BaseException, rank: int) -> BaseException:
    """An error that can be raised in another process: itself where it can be pickled."""
    trace = "".join(traceback.format_exception(error))
    try:
        error.__traceback__ = error.__cause__ = error.__context__ = None
        portable = pickle.loads(pickle.dumps(error)) if isinstance(error, Exception) else None
    except Exception:  # noqa: BLE001  what a stranger's class does when it is pickled can be anything
        portable = None
    if portable is None:
        portable = RemoteError(f"rank:{rank}", type(error).__name__, str(error))
    portable.add_note(f"in rank {rank}:\n{trace.rstrip()}")
    return portable
