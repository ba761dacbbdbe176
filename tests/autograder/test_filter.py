"""The filter on system calls: what it answers, on every architecture, with and without processes and a loopback."""

# ruff: noqa: E501  one case, one line: a table is read by its rows
from __future__ import annotations

import struct

import pytest

from autograder.sandbox import seccomp


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("processes", [1, 8])
@pytest.mark.parametrize("pid", [None, 7])
@pytest.mark.parametrize("loopback", [False, True])
def test_every_jump_of_the_filter_lands_inside_it(
    machine: str, processes: int, pid: int | None, loopback: bool
) -> None:
    program = seccomp.program(processes=processes, pid=pid, machine=machine, loopback=loopback)
    steps = [struct.unpack("HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    assert len(steps) < 4096
    assert steps[-1][0] == 0x06
    for position, (code, then, otherwise, _) in enumerate(steps):
        if code & 0x07 == 0x05:
            assert position + 1 + max(then, otherwise) < len(steps)


def simulate(program: bytes, number: int, *arguments: int, architecture: int = 0xC000003E) -> int:
    """What the filter answers to one system call: a BPF machine in ten lines."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(list(arguments) + [0] * 6)[:6])
    accumulator, position = 0, 0
    while True:
        code, then, otherwise, k = struct.unpack("HBBI", program[position * 8 : position * 8 + 8])
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, k)
        elif code == 0x54:
            accumulator &= k
        elif code == 0x06:
            return k
        else:
            holds = {0x15: accumulator == k, 0x25: accumulator > k, 0x45: bool(accumulator & k)}[code]
            position += then if holds else otherwise


ALLOW, EPERM, EACCES, ENOSYS, KILL = 0x7FFF0000, 0x50001, 0x5000D, 0x50026, 0x80000000
CALLS = {
    "read": (0, (), ALLOW, ALLOW), "mmap": (9, (), ALLOW, ALLOW), "exit": (231, (), ALLOW, ALLOW), "socket": (41, (2, 1), EACCES, EACCES),
    "connect": (42, (), EACCES, EACCES), "socketpair-stream": (53, (1, 1 | 0o2000000), ALLOW, ALLOW), "socketpair-datagram": (53, (1, 2), EACCES, EACCES),
    "socketpair-inet": (53, (2, 1), EACCES, EACCES), "thread": (56, (0x3D0F00,), ALLOW, ALLOW), "fork": (57, (), EPERM, ALLOW), "clone": (56, (17,), EPERM, ALLOW),
    "clone-newuser": (56, (0x10000000 | 17,), EPERM, EPERM), "clone3": (435, (), ENOSYS, ENOSYS), "setsid": (112, (), EPERM, EPERM), "unshare": (272, (), EPERM, EPERM),
    "ptrace": (101, (), EPERM, EPERM), "kill-self": (62, (7, 9), ALLOW, ALLOW), "kill-all": (62, (0xFFFFFFFF, 9), EPERM, EPERM), "kill-group": (62, (0, 9), EPERM, EPERM),
    "kill-other": (62, (8, 9), EPERM, EPERM), "tgkill-self": (234, (7, 7, 6), ALLOW, ALLOW), "tgkill-other": (234, (8, 8, 9), EPERM, EPERM), "prlimit-self": (302, (0,), ALLOW, ALLOW),
    "prlimit-other": (302, (8,), EPERM, EPERM), "fcntl": (72, (3, 4), ALLOW, ALLOW), "fcntl-setown": (72, (3, 8), EPERM, EPERM), "ioctl": (16, (3, 0x5401), ALLOW, ALLOW),
    "ioctl-sti": (16, (0, 0x5412), EPERM, EPERM), "io_uring": (425, (), EPERM, EPERM), "unknown": (463, (), ENOSYS, ENOSYS), "x32": (0x40000000, (), ENOSYS, ENOSYS),
    "memfd": (319, (), EPERM, EPERM), "shmget": (29, (), EPERM, EPERM), "high-half-ignored": (56, (0xFFFFFFFF00000011,), EPERM, ALLOW),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_filters_answers(call: tuple[int, tuple[int, ...], int, int]) -> None:
    number, arguments, alone, many = call
    assert simulate(seccomp.program(processes=1, pid=7, machine="x86_64"), number, *arguments) == alone
    assert simulate(seccomp.program(processes=8, pid=7, machine="x86_64"), number, *arguments) == many


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("socket", (2, 1), ALLOW), ("socket", (2, 1 | 0o2000000, 6), ALLOW), ("socket", (2, 1, 262), EACCES),
        ("socket", (2, 1, 132), EACCES), ("socket", (2, 2), EACCES), ("socket", (2, 3), EACCES), ("socket", (10, 1), EACCES),
        ("socket", (1, 1), EACCES), ("socket", (16, 3), EACCES), ("connect", (), ALLOW), ("bind", (), ALLOW),
        ("listen", (), ALLOW), ("accept", (), ALLOW), ("accept4", (), ALLOW),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("machine", "column", "audit"), [("x86_64", 0, 0xC000003E), ("aarch64", 1, 0xC00000B7)])
def test_a_loopback_opens_tcp_and_nothing_else(
    name: str, arguments: tuple[int, ...], answer: int, machine: str, column: int, audit: int
) -> None:
    number = seccomp._NETWORK[name][column]
    program = seccomp.program(processes=8, pid=None, loopback=True, machine=machine)
    assert simulate(program, number, *arguments, architecture=audit) == answer
    closed = seccomp.program(processes=8, pid=None, machine=machine)
    assert simulate(closed, number, *arguments, architecture=audit) == EACCES


def test_other_architectures_are_killed_or_refused() -> None:
    assert simulate(seccomp.program(processes=1, pid=None, machine="x86_64"), 0, architecture=0x40000003) == KILL
    with pytest.raises(OSError, match="riscv64"):
        seccomp.program(processes=1, pid=None, machine="riscv64")
