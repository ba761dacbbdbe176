"""A seccomp filter: no sockets, no new processes, no reach to other processes, no ways around limits.

A lab of several processes may have TCP, where the sandbox's network is a loopback of its own.
Imports only the standard library: the launcher runs it outside any package.
A refused call fails with an error number, so that ordinary code gets an ordinary exception.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_NEWEST = 462
"""Numbers above are system calls this table has never heard of: they don't exist inside."""

# name: (x86_64, aarch64); -1 where it doesn't exist.
_NETWORK = {
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242), "bind": (49, 200),
    "listen": (50, 201),
}  # fmt: skip
_REFUSED = {
    # Other processes, and this one's place among them.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "setsid": (112, 157), "setpgid": (109, 154),
    "setpriority": (141, 140), "tkill": (200, 130), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "ioprio_set": (251, 30), "migrate_pages": (256, 238),
    "move_pages": (279, 239), "mbind": (237, 235), "set_mempolicy": (238, 237),
    # Namespaces, mounts, the kernel.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "acct": (163, 89), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "syslog": (103, 116), "personality": (135, 92), "iopl": (172, -1), "ioperm": (173, -1),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "modify_ldt": (154, -1),
    "vhangup": (153, 58),
    # Memory and queues that the limits on this process don't count, or that outlive it.
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "io_setup": (206, 0),
    # A second way to do what is refused above.
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
}  # fmt: skip
# What Landlock doesn't watch: a user's files, changed without being opened for writing.
_CHANGES = {
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "truncate": (76, 45),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
# The same, but part of copying a file: they do nothing, and say that they did.
_IGNORED = {
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "utime": (132, -1),
    "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
}  # fmt: skip
_FORKS = {"fork": (57, -1), "vfork": (58, -1)}
_CLONE, _CLONE3, _SOCKETPAIR = (56, 220), (435, 435), (53, 199)
_KILL, _TGKILL, _QUEUE, _TGQUEUE = (62, 129), (234, 131), (129, 138), (297, 240)
_PRLIMIT, _FCNTL, _IOCTL = (302, 261), (72, 25), (16, 29)

_AF_UNIX, _AF_INET, _SOCK_STREAM, _IPPROTO_TCP = 1, 2, 1, 6
_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020000 | 0x00000080
_F_SETSIG, _F_SETOWN, _F_SETOWN_EX = 10, 8, 15
_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902

_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NR, _ARCH, _ARGS = 0, 4, 16
_INSTRUCTION = 8


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", 0x20, 0, 0, offset)


def _mask(mask: int) -> bytes:
    return struct.pack("HBBI", 0x54, 0, 0, mask)


def _if_equal(value: int, skip_else: int, skip_then: int = 0) -> bytes:
    return struct.pack("HBBI", 0x15, skip_then, skip_else, value & 0xFFFFFFFF)


def _if_any_bit(mask: int, skip_else: int) -> bytes:
    return struct.pack("HBBI", 0x45, 0, skip_else, mask)


def _if_greater(value: int, skip_else: int) -> bytes:
    return struct.pack("HBBI", 0x25, 0, skip_else, value)


def _give(action: int) -> bytes:
    return struct.pack("HBBI", 0x06, 0, 0, action)


def _refuse(number: int) -> bytes:
    return _give(_ERRNO | number)


def _argument(index: int) -> bytes:
    return _load(_ARGS + 8 * index)


def _case(number: int, *steps: bytes) -> bytes:
    """If the call has this number, do the steps; the last one returns."""
    if number < 0:
        return b""
    body = b"".join(steps)
    return _if_equal(number, len(body) // _INSTRUCTION) + body


def _only(family: int, kind: int, *then: bytes) -> tuple[bytes, ...]:
    """Allow a socket of this family and kind, if `then` does; refuse any other."""
    steps = then or (_give(_ALLOW),)
    return (
        _argument(0),
        _if_equal(family, 3 + len(steps)),
        _argument(1),
        _mask(0xF),
        _if_equal(kind, len(steps)),
        *steps,
        _refuse(errno.EACCES),
    )


def program(
    *, processes: int, pid: int | None, changes: bool = True, loopback: bool = False, machine: str | None = None
) -> bytes:
    """The filter as the kernel reads it.

    Parameters
    ----------
    processes : int
        1 refuses new processes (threads are free); more leaves their number to other limits.
    pid : int or None
        The only process that may be sent signals; None where a pid namespace, or Landlock, hides all others.
    changes : bool
        Whether owners and modes of files may be changed: only where no file of this user can be seen.
    loopback : bool
        Whether there may be TCP connections: only where a network namespace has nothing but a loopback.

    Raises
    ------
    OSError
        The machine's architecture isn't in the table.
    """
    machine = machine or os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"seccomp: no table of system calls for {machine}; x86_64 and aarch64 have one")
    audit, column = _ARCHITECTURES[machine]
    parts = [_load(_ARCH), _if_equal(audit, 0, 1), _give(_KILL_PROCESS), _load(_NR)]
    parts.append(_if_greater(_NEWEST, 1) + _refuse(errno.ENOSYS))
    for name, numbers in _NETWORK.items():
        if not loopback:
            parts.append(_case(numbers[column], _refuse(errno.EACCES)))
        elif name == "socket":
            tcp = (_argument(2), _if_equal(0, 1), _give(_ALLOW), _if_equal(_IPPROTO_TCP, 1), _give(_ALLOW))
            parts.append(_case(numbers[column], *_only(_AF_INET, _SOCK_STREAM, *tcp)))
    for numbers in (*_REFUSED.values(), *(() if changes else _CHANGES.values())):
        parts.append(_case(numbers[column], _refuse(errno.EPERM)))
    for numbers in () if changes else _IGNORED.values():
        parts.append(_case(numbers[column], _refuse(0)))
    # Only the low 32 bits of arguments are looked at: the kernel takes these as 32-bit, too.
    # What an event loop wakes itself with. A datagram socket could write to any path.
    parts.append(_case(_SOCKETPAIR[column], *_only(_AF_UNIX, _SOCK_STREAM)))
    # glibc falls back to clone, whose flags can be read here; those of clone3 lie in memory.
    parts.append(_case(_CLONE3[column], _refuse(errno.ENOSYS)))
    if processes <= 1:
        for numbers in _FORKS.values():
            parts.append(_case(numbers[column], _refuse(errno.EPERM)))
        parts.append(
            _case(_CLONE[column], _argument(0), _if_any_bit(_CLONE_THREAD, 1), _give(_ALLOW), _refuse(errno.EPERM))
        )
    else:
        parts.append(
            _case(_CLONE[column], _argument(0), _if_any_bit(_CLONE_NEW, 1), _refuse(errno.EPERM), _give(_ALLOW))
        )
    if pid is not None:
        for numbers in (_KILL, _TGKILL, _QUEUE, _TGQUEUE):
            parts.append(_case(numbers[column], _argument(0), _if_equal(pid, 1), _give(_ALLOW), _refuse(errno.EPERM)))
    parts.append(_case(_PRLIMIT[column], _argument(0), _if_equal(0, 1), _give(_ALLOW), _refuse(errno.EPERM)))
    for number, commands in (
        (_FCNTL, (_F_SETSIG, _F_SETOWN, _F_SETOWN_EX)),
        (_IOCTL, (_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP)),
    ):
        checks = [step for command in commands for step in (_if_equal(command, 1), _refuse(errno.EPERM))]
        parts.append(_case(number[column], _argument(1), *checks, _give(_ALLOW)))
    parts.append(_give(_ALLOW))
    return b"".join(parts)


def install(filter_program: bytes) -> None:
    """Put this process, and all it will start, under the filter, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(filter_program, len(filter_program))
    header = struct.pack("HxxxxxxP", len(filter_program) // _INSTRUCTION, ctypes.addressof(buffer))
    libc.prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    if libc.prctl(38, 1, None, 0, 0):  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "seccomp: no_new_privs is refused")
    if libc.prctl(
        22, 2, ctypes.cast(ctypes.c_char_p(header), ctypes.c_void_p), 0, 0
    ):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "seccomp: the kernel refuses the filter")
