"""Let an unprivileged user reach files that lie under a closed directory, and nothing else there.

An interpreter under ``/root`` can be read by root only because of the directory, not because of itself. In a mount
namespace of its own, the launcher covers such a directory by an empty one and puts the needed files back in place.
Imports only the standard library: the launcher runs it outside any package.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

_NEWNS = 0x00020000
_BIND, _REC, _PRIVATE, _NOSUID, _NODEV = 4096, 16384, 1 << 18, 2, 4


def closed_ancestor(path: str) -> str | None:
    """The outermost directory above `path` that others may not enter; None if the way is open."""
    directory = "/"
    for part in path.strip("/").split("/")[:-1]:
        directory = os.path.join(directory, part)
        if not os.stat(directory).st_mode & 0o001:
            return directory
    return None


def make_reachable(paths: Iterable[str]) -> None:
    """Open the way to `paths` for every user, in a new mount namespace of this process (needs root).

    Raises
    ------
    OSError
        A mount is refused.
    """
    closed: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        ancestor = closed_ancestor(path)
        if ancestor is not None:
            closed.setdefault(ancestor, []).append(path)
    if not closed:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWNS):
        raise OSError(ctypes.get_errno(), "a mount namespace is refused")
    _mount(libc, "none", "/", None, _REC | _PRIVATE, None)
    for ancestor, kept in closed.items():
        # Opened in the new namespace: the kernel binds nothing across namespaces.
        descriptors = [os.open(path, os.O_PATH) for path in kept]
        _mount(libc, "tmpfs", ancestor, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m")
        for path, descriptor in zip(kept, descriptors, strict=True):
            source = f"/proc/self/fd/{descriptor}"
            if os.path.isdir(source):
                os.makedirs(path, mode=0o755, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
            _mount(libc, source, path, None, _BIND, None)
            os.close(descriptor)


def _mount(libc: ctypes.CDLL, source: str, target: str, kind: str | None, flags: int, data: str | None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    if libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]):
        number = ctypes.get_errno()
        raise OSError(number, f"mounting {target}: {os.strerror(number)}")
