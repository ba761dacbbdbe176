"""Where the long-lived processes of one user meet: a private directory, and what version of the code runs in them."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
import tempfile
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
"""The directory of the `autograder` package."""

SOCKET_PATH_LIMIT = 100
"""A Unix socket's path may have 104 to 108 bytes, by system."""


class RuntimeUnsafe(RuntimeError):
    """The runtime directory belongs to someone else, or others may enter it."""


def user_id() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


@cache
def copy_name() -> str:
    """A short name for where this copy of the package lies."""
    return hashlib.sha256(os.fsencode(PACKAGE.resolve())).hexdigest()[:6]


def directory() -> Path:
    """The private directory of this user's sockets; made when it isn't there.

    ``$AUTOGRADER_RUNTIME_DIR``, else one for each copy of this package: ``$XDG_RUNTIME_DIR/autograder-<copy>``, or
    ``autograder-<uid>-<copy>`` among temporary files. So two copies never answer each other's questions.

    Raises
    ------
    RuntimeUnsafe
        It is a link, is owned by another user, or is open to others.
    """
    given, session = os.environ.get("AUTOGRADER_RUNTIME_DIR"), os.environ.get("XDG_RUNTIME_DIR")
    if given:
        path = Path(given)
    elif session and os.path.isdir(session) and os.stat(session).st_uid == user_id():
        path = Path(session) / f"autograder-{copy_name()}"
    else:
        path = Path(tempfile.gettempdir()) / f"autograder-{user_id()}-{copy_name()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise RuntimeUnsafe(
            f"{path}: {error.strerror}. Set AUTOGRADER_RUNTIME_DIR to a directory of your own."
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user_id():
        raise RuntimeUnsafe(f"{path} is not a directory of yours. Remove it, or set AUTOGRADER_RUNTIME_DIR.")
    if found.st_mode & 0o077:
        raise RuntimeUnsafe(f"{path} is open to other users (mode {found.st_mode & 0o777:o}). Run: chmod 700 {path}")
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT - len("/tensorflow.sock"):
        raise RuntimeUnsafe(f"{path} is too long for a socket's name. Set AUTOGRADER_RUNTIME_DIR to a shorter one.")
    return path


@cache
def code_version() -> str:
    """A digest of the code an oracle process runs, without the specs: when it changes, old processes are replaced."""
    digest = hashlib.sha256(copy_name().encode())  # another copy may have other specs
    for path in [*sorted((PACKAGE / "oracles").glob("*.py")), PACKAGE / "frames.py", PACKAGE / "spec.py"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def source_stamp() -> str:
    """A digest of what specs are made of (names, sizes, times): when it changes, an oracle imports them afresh."""
    digest = hashlib.sha256()
    for root in (PACKAGE / "specs", PACKAGE / "drivers", PACKAGE.parent / "internals"):
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(".py"):
                    found = os.stat(os.path.join(folder, name))
                    digest.update(f"{folder}/{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def peer(connection: socket.socket) -> tuple[int, int] | None:
    """(pid, uid) of the process at the other end, where the system tells; None where it doesn't."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def same_user(connection: socket.socket) -> bool:
    """Whether the other end is this user. Where the system can't tell, the directory's mode has kept others out."""
    found = peer(connection)
    return found is None or found[1] == user_id()
