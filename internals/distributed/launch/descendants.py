"""Nothing is left behind: who a process has started, at any depth, and how to be rid of them.

A child whose parent dies belongs to process 1 from then on, and is forgotten; that is how jobs leave processes behind.
On Linux a process can ask to be given such orphans itself (a *subreaper*, prctl(2)), and to be killed when its own
parent dies. Elsewhere only process groups are left, and a grandchild that has made a group of its own is lost. It is
lost, too, where everybody who knew of it is killed at one moment; only a container or a control group ends it then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36


def adopt_orphans() -> bool:
    """Become the parent of descendants whose own parent dies; False where the system has no such thing."""
    libc = _libc()
    return libc is not None and libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent() -> Callable[[], None]:
    """A function for a child to call between fork and exec: it is killed when the parent is."""
    parent, libc = os.getpid(), _libc()

    def called_in_child() -> None:
        if libc is not None:
            libc.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it died before that
                os._exit(1)

    return called_in_child


def descendants(pid: int) -> list[int]:
    """The processes that `pid` has started, and those that they have, and so on; not those that have ended."""
    if not Path("/proc/self/stat").exists():
        return []
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path("/proc", entry, "stat").read_bytes()
                # The name is in brackets and may hold anything, brackets too.
                state, parent = stat[stat.rindex(b")") + 2 :].split()[:2]
                if state not in (b"Z", b"X"):
                    children[int(parent)].append(int(entry))
                else:
                    children[int(parent)] += []
    found, due = [], [pid]
    while due:
        for child in children[due.pop()]:
            found.append(child)
            due.append(child)
    return found


def end_descendants(*, patience: float = 5.0) -> list[int]:
    """Kill all that this process has started, at any depth, and wait until they are gone.

    One that starts others meanwhile is killed with them: it is looked again until none is found.

    Returns
    -------
    list of int
        What could not be killed within `patience` seconds: none, but for processes stuck in the kernel.
    """
    end = time.monotonic() + patience
    while (left := descendants(os.getpid())) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        reap()
        time.sleep(0.005)
    reap()
    return left


def reap() -> list[tuple[int, int]]:
    """Children that have ended since, and how: pid and exit code, negative for a signal."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended.append((pid, os.waitstatus_to_exitcode(status)))


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
