"""Where the raw memory of a pool comes from."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from internals.memory.sizes import GRANULE, SEGMENT_STEP, round_up


class Source(Protocol):
    """Where a pool gets its segments."""

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        """An address, and the raw memory there. Raises MemoryError when there is none."""

    def free(self, memory: Any) -> None:
        """Take back what `allocate` gave."""


class HostSource:
    """Segments that are NumPy buffers of bytes. Addresses are made up, the same in every run, and never used twice."""

    def __init__(self, start: int = 0x7000_0000_0000) -> None:
        self._next = start

    def allocate(self, nbytes: int) -> tuple[int, np.ndarray]:
        memory = np.empty(nbytes + GRANULE, np.uint8)
        aligned = -memory.ctypes.data % GRANULE
        memory = memory[aligned : aligned + nbytes]
        address = self._next
        self._next += round_up(nbytes, SEGMENT_STEP)
        return address, memory

    def free(self, memory: np.ndarray) -> None:
        pass
