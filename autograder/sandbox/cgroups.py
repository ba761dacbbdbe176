"""A control group for one sandbox: memory and number of processes, counted over all its processes together.

Imports only the standard library: the launcher runs it outside any package. Version 1 needs root; version 2 needs
a directory that was delegated to this user. Where neither is to be had, `create` gives None: other limits stand alone.
"""

from __future__ import annotations

import contextlib
import os
import time

_ROOT = "/sys/fs/cgroup"


class Group:
    """Limits on everything that joined. Directories hold one controller each (v1), or all (v2)."""

    def __init__(self, directories: list[str], unified: bool) -> None:
        self.directories = directories
        self.unified = unified

    @property
    def words(self) -> str:
        return "cgroup v2" if self.unified else "cgroup v1"

    def join(self) -> None:
        """Move the calling process in; its children follow."""
        for directory in self.directories:
            _write(directory, "cgroup.procs", "0")

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a member for its memory."""
        name, key = ("memory.events", "oom_kill") if self.unified else ("memory.oom_control", "oom_kill")
        for directory in self.directories:
            with contextlib.suppress(OSError):
                for line in _read(directory, name).splitlines():
                    parts = line.split()
                    if len(parts) == 2 and parts[0] == key:
                        return int(parts[1]) > 0
        return False

    def members(self) -> list[int]:
        """Pids of the members, as this process sees them."""
        found: set[int] = set()
        for directory in self.directories:
            with contextlib.suppress(OSError):
                found.update(int(line) for line in _read(directory, "cgroup.procs").split())
        return sorted(found - {0})

    def remove(self) -> None:
        """Take the group away; its members must have ended (the kernel may need a moment to notice)."""
        for directory in self.directories:
            for _ in range(50):
                try:
                    os.rmdir(directory)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)


def create(name: str, *, memory: int, processes: int) -> Group | None:
    """A new group with these limits, or None where this process may not make one."""
    try:
        lines = _read("/proc/self", "cgroup").splitlines()
    except OSError:
        return None
    own = {
        controller: path for line in lines for _, names, path in [line.split(":", 2)] for controller in names.split(",")
    }
    return _version_2(own.get("", "/"), name, memory, processes) or _version_1(own, name, memory, processes)


def _version_1(own: dict[str, str], name: str, memory: int, processes: int) -> Group | None:
    settings = {
        "memory": [
            ("memory.limit_in_bytes", memory),
            ("memory.memsw.limit_in_bytes", memory),
            ("memory.swappiness", 0),
        ],
        "pids": [("pids.max", processes)],
    }
    made: list[str] = []
    for controller, values in settings.items():
        directory = os.path.join(_ROOT, controller, own.get(controller, "/").lstrip("/"), name)
        if not os.path.isdir(os.path.join(_ROOT, controller)):
            _undo(made)
            return None
        try:
            os.mkdir(directory)
            made.append(directory)
            for key, value in values:
                # Swap accounting is a boot option, and may be off.
                if os.path.exists(os.path.join(directory, key)):
                    _write(directory, key, str(value))
        except OSError:
            _undo(made)
            return None
    return Group(made, unified=False)


def _version_2(own: str, name: str, memory: int, processes: int) -> Group | None:
    for root in (_ROOT, os.path.join(_ROOT, "unified")):
        mine = os.path.normpath(os.path.join(root, own.lstrip("/")))
        # A group with processes of its own can't have limited children, so the parent is tried, too.
        for parent in dict.fromkeys((mine, os.path.dirname(mine))):
            if not parent.startswith(root) or not os.path.exists(os.path.join(parent, "cgroup.subtree_control")):
                continue
            directory = os.path.join(parent, name)
            try:
                if not {"memory", "pids"} <= set(_read(parent, "cgroup.subtree_control").split()):
                    continue
                os.mkdir(directory)
            except OSError:
                continue
            try:
                _write(directory, "memory.max", str(memory))
                _write(directory, "pids.max", str(processes))
                if os.path.exists(os.path.join(directory, "memory.swap.max")):
                    _write(directory, "memory.swap.max", "0")
                return Group([directory], unified=True)
            except OSError:
                _undo([directory])
    return None


def _undo(directories: list[str]) -> None:
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _read(directory: str, name: str) -> str:
    with open(os.path.join(directory, name), encoding="ascii") as file:
        return file.read()


def _write(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "w", encoding="ascii") as file:
        file.write(text)
