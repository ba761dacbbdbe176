"""Landlock: an unprivileged process gives up all files but some, and TCP.

Imports only the standard library: the launcher runs it outside any package. See landlock(7).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_TRUNCATE = 1 << 14
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
WRITE = READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _TRUNCATE
DEVICE = _READ_FILE | _WRITE_FILE


def abi() -> int:
    """The version of Landlock the kernel offers; 0 if none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, libc.syscall(_CREATE, None, 0, 1))


def restrict(rules: Iterable[tuple[str, int]]) -> None:
    """Leave this process only what `rules` allow: pairs of a path and rights (`READ`, `LIST`, `WRITE`, `DEVICE`).

    Raises
    ------
    OSError
        The kernel has no Landlock, or a path isn't there.
    """
    version = abi()
    if version == 0:
        raise OSError(errno.ENOSYS, "Landlock: this kernel has none, or it is switched off")
    libc = ctypes.CDLL(None, use_errno=True)
    files = (1 << (13 if version == 1 else 14 if version == 2 else 15 if version < 5 else 16)) - 1
    tcp = 3 if version >= 4 else 0
    scoped = 3 if version >= 6 else 0
    attributes = struct.pack("QQQ", files, tcp, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc.syscall(_CREATE, ctypes.c_char_p(attributes), len(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock: the kernel refuses the ruleset")
    for path, rights in rules:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):
            rights &= _FILE_ONLY
        rule = struct.pack("=Qi", rights & files, beneath)
        if libc.syscall(_ADD, ruleset, 1, ctypes.c_char_p(rule), 0):
            raise OSError(ctypes.get_errno(), f"Landlock: the rule for {path} is refused")
        os.close(beneath)
    if libc.prctl(38, 1, 0, 0, 0) or libc.syscall(_RESTRICT, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock: the kernel refuses to restrict this process")
    os.close(ruleset)


def without(tree: str, masks: Iterable[str]) -> list[str]:
    """What is left of a directory when `masks` are cut out: the fewest paths that cover the rest."""
    masks = [mask for mask in masks if mask == tree or mask.startswith(tree.rstrip("/") + "/")]
    if tree in masks:
        return []
    if not masks:
        return [tree]
    return [path for name in sorted(os.listdir(tree)) for path in without(os.path.join(tree, name), masks)]
