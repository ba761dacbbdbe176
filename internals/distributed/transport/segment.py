"""Shared memory without a name: what a killed process leaves behind is nothing.

A segment is a file that exists in memory only (Linux's memfd). Its owner writes arrays into it; a peer attaches it
through the owner's file descriptor. The first bytes say who still reads it, one byte per reader, so that it is used
again without a message.
"""

from __future__ import annotations

import fcntl
import itertools
import mmap
import os
import struct
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.distributed.errors import ProtocolError

READERS = 56
"""How many can read one segment at once."""
RETIRED = 64
"""The byte that says that its owner has given it up."""
START = 4096
"""Where the arrays begin."""
ALIGN = 64
SEALS = getattr(fcntl, "F_SEAL_SHRINK", 2)
IDENTITY = struct.Struct("<Q")

_serials = itertools.count(int.from_bytes(os.urandom(4), "little") << 24)


def room(arrays: Sequence[Any]) -> int:
    """Bytes that arrays (one-dimensional buffers of bytes) take, each aligned."""
    return sum(-(-len(array) // ALIGN) * ALIGN for array in arrays)


class Segment:
    """Memory of this process's own that peers can read.

    Parameters
    ----------
    capacity : int
        Bytes of arrays.

    Raises
    ------
    OSError
        There is no such memory here.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.serial = next(_serials)
        self.fd = os.memfd_create("internals", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, START + capacity)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
            self.map = mmap.mmap(self.fd, START + capacity, mmap.MAP_SHARED)
        except BaseException:
            os.close(self.fd)
            raise
        self.bytes = np.frombuffer(self.map, np.uint8)
        self.map[READERS : READERS + IDENTITY.size] = IDENTITY.pack(self.serial)
        self.readers: dict[int, str] = {}
        self._closing = weakref.finalize(self, os.close, self.fd)

    def write(self, arrays: Sequence[Any]) -> list[tuple[int, int]]:
        """Copy arrays in; the place and the size of each."""
        places, at = [], START
        for array in arrays:
            size = len(array)
            if size:
                self.bytes[at : at + size] = np.frombuffer(array, np.uint8)
            places.append((at, size))
            at += -(-size // ALIGN) * ALIGN
        return places

    def lend(self, peer: str) -> int:
        """Take down that `peer` is about to read; the number of its byte."""
        reader = next(number for number in range(READERS) if number not in self.readers)
        self.readers[reader] = peer
        self.map[reader] = 1
        return reader

    def free(self) -> bool:
        """Whether nobody reads it any more."""
        for reader in [reader for reader in self.readers if not self.map[reader]]:
            del self.readers[reader]
        return not self.readers

    def close(self) -> None:
        """Give it up. Peers that have attached it keep what they read, and let go of the rest."""
        self.map[RETIRED] = 1
        self._closing()


class Attached:
    """A peer's segment, mapped into this process.

    Raises
    ------
    ProtocolError
        There is none: the peer is of another user or container, or has sent what is not so.
    """

    def __init__(self, pid: int, fd: int, serial: int) -> None:
        self.serial = serial
        path = f"/proc/{pid}/fd/{fd}"
        try:
            if not os.readlink(path).startswith("/memfd:internals"):
                raise ProtocolError(f"{path} is not shared memory of ours")
            own = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise ProtocolError(f"process {pid} has no shared memory {fd} that can be attached ({error})") from None
        try:
            size = os.fstat(own).st_size
            if not fcntl.fcntl(own, fcntl.F_GET_SEALS) & SEALS or size < START:
                raise ProtocolError(f"{path} could shrink while it is read")
            self.map = mmap.mmap(own, size, mmap.MAP_SHARED)
        finally:
            os.close(own)
        if IDENTITY.unpack_from(self.map, READERS)[0] != serial:
            raise ProtocolError(f"{path} is another segment than the one that was sent")
        self.size = size

    @property
    def retired(self) -> bool:
        """Whether its owner will not write to it again."""
        return bool(self.map[RETIRED])

    def read(self, places: Sequence[tuple[int, int]], reader: int) -> list[memoryview]:
        """Views of the arrays; once the last of them is gone the owner is told that it may write there again."""
        if not 0 <= reader < READERS or any(not START <= at <= at + size <= self.size for at, size in places):
            raise ProtocolError("a reference to shared memory that is outside of it")
        # A view of a view keeps the first alive: when this one dies, all are gone.
        whole = np.frombuffer(self.map, np.uint8)
        whole.flags.writeable = False
        lease = weakref.ref(whole, _Return(self.map, reader))
        _leases[id(lease)] = lease
        view = whole.data
        return [view[at : at + size] for at, size in places]


class _Return:
    """Called when a view is gone. It takes no lock: it may be called at any moment, in any thread."""

    def __init__(self, memory: mmap.mmap, reader: int) -> None:
        self.memory = memory
        self.reader = reader

    def __call__(self, lease: weakref.ref[Any]) -> None:
        self.memory[self.reader] = 0
        _leases.pop(id(lease), None)


_leases: dict[int, weakref.ref[Any]] = {}
