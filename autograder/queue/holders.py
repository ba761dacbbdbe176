"""Who holds a lease: a process, named so that others on its machine can see whether it still lives."""

from __future__ import annotations

import json
import os
import socket
from functools import cache
from pathlib import Path


@cache
def _machine() -> list[str]:
    """This host since it was started, and the numbering of processes that this one is in."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    try:
        return [socket.gethostname(), boot.read_text().strip(), os.readlink("/proc/self/ns/pid")]
    except OSError:
        return [socket.gethostname(), "", ""]


def _born(pid: int) -> str:
    """When a process was started, in the kernel's own count; empty where there is none, or it is dead but unburied."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def me() -> str:
    """This process."""
    return json.dumps([*_machine(), os.getpid(), _born(os.getpid())])


def is_gone(holder: str) -> bool:
    """Whether the process is known to have ended. False where that can't be seen from here: another machine."""
    try:
        *machine, pid, born = json.loads(holder)
    except (ValueError, TypeError):
        return False
    return bool(born) and machine == _machine() and machine[1] != "" and _born(pid) != born


def shown(holder: str) -> str:
    """For a person to read: ``host, process 123``."""
    try:
        host, _, _, pid, _ = json.loads(holder)
    except (ValueError, TypeError):
        return holder
    return f"{host}, process {pid}"
