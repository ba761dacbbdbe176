"""What the canary runs inside a sandbox: it tries to get out, and says what it got.

Sent into the sandbox as source, the way a lab's drivers are. It knows nothing about the outside but the paths and
the process it is told to try.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any


def network(names: dict[str, Any]) -> list[str]:
    """Kinds of network that could be opened."""
    attempts: dict[str, Callable[[], object]] = {
        "an internet socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "an IPv6 socket": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM),
        "a datagram socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "a Unix socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        "a netlink socket": lambda: socket.socket(16, socket.SOCK_RAW),
    }
    return [what for what, attempt in attempts.items() if _works(attempt)]


def beyond(names: dict[str, Any], port: int) -> list[str]:
    """Where a sandbox with TCP of its own gets to: a listener outside at `port`, or any address that isn't its own."""
    got = [f"{what} could be opened" for what in network(names) if what != "an internet socket"]
    if _connect("127.0.0.1", port) != errno.ECONNREFUSED:
        got.append("a port outside was reached")
    if _connect("192.0.2.1", 9) != errno.ENETUNREACH:
        got.append("there is a route to other machines")
    with socket.create_server(("127.0.0.1", 0)) as own:
        if _connect(*own.getsockname()):
            got.append("its own loopback is down")
    return got


def _connect(host: str, port: int) -> int:
    with socket.socket() as made:
        made.settimeout(1.0)
        return made.connect_ex((host, port))


def files(names: dict[str, Any], target: str, readable: list[str], writable: list[str]) -> list[str]:
    """Paths outside that could be read or written. `target` is tried to be changed: whether it was is seen outside."""
    got = [f"read {path}" for path in readable if _works(partial(_read, path))]
    for change in (_chmod, _truncate, _touch):
        _works(partial(change, target))
    for directory in writable:
        path = os.path.join(directory, "canary-was-here")
        if _works(partial(_write, path)):
            got.append(f"wrote {path}")
    return got


def _read(path: str) -> None:
    if os.path.isdir(path):
        os.listdir(path)
        return
    with open(path, "rb") as file:
        file.read(1)


def _write(path: str) -> None:
    with open(path, "xb"):
        pass
    os.remove(path)


def _chmod(path: str) -> None:
    os.chmod(path, 0o600)


def _truncate(path: str) -> None:
    os.truncate(path, 0)


def _touch(path: str) -> None:
    os.utime(path, (1, 1))


def processes(names: dict[str, Any], outside: int) -> list[str]:
    """Ways in which a new process could be made, or another one reached."""
    libc = ctypes.CDLL(None)
    got = []
    if _works(_fork_once):
        got.append("started a process")
    if outside > 20 and _works(lambda: os.kill(outside, 0)):
        got.append("could signal the grader")
    buffer = ctypes.create_string_buffer(8)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    calls = {
        "traced a process": lambda: libc.ptrace(16, outside, 0, 0),
        "read another process": lambda: libc.process_vm_readv(outside, vector, 1, vector, 1, 0),
        "made a namespace": lambda: libc.unshare(0x10000000),
        "made a shared memory segment": lambda: libc.shmget(0, 4096, 0o1600),
    }
    return got + [what for what, call in calls.items() if call() >= 0]


def identity(names: dict[str, Any]) -> int:
    """Who this is, inside."""
    return os.getuid()


def one_block(names: dict[str, Any], size: int) -> str:
    """Take `size` bytes at once."""
    return f"got {len(bytearray(size)) >> 20} MB"


def creep(names: dict[str, Any], size: int) -> str:
    """Take `size` bytes little by little."""
    kept = []
    for _ in range(size >> 20):
        kept.append(bytearray(b"x") * (1 << 20))
    return f"got {len(kept)} MB"


def family(names: dict[str, Any]) -> int:
    """Leave children behind that try to lead a session of their own; count all that could be made."""
    made = 0
    for _ in range(200):
        try:
            pid = os.fork()
        except OSError:
            return made
        if pid == 0:
            for leave in (os.setsid, lambda: os.setpgid(0, 0)):
                try:
                    leave()
                except OSError:
                    continue
            time.sleep(600)
            os._exit(0)
        made += 1
    return made


def _fork_once() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True
