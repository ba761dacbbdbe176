"""The pool: requests in, handles out, figures and a picture of what it holds."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.memory.blocks import RULES, Block, Segment, free_run, order
from internals.memory.sizes import GRANULE, SMALL, bytes_as_text, round_up, segment_size
from internals.memory.source import Source


class OutOfMemory(MemoryError):
    """A request fits neither in the cache nor in what the device has left."""


class Handle:
    """Memory in use. It is freed when nothing refers to the handle any more, or by `free`, once.

    Attributes
    ----------
    address : int
    nbytes : int
        What was asked for.
    size : int
        What the block holds: `nbytes` rounded up, or more where the rest was too small to cut off.
    """

    __slots__ = ("__weakref__", "_block", "_pool", "address", "nbytes", "size")

    def __init__(self, pool: Pool, block: Block | None, nbytes: int) -> None:
        self._pool, self._block, self.nbytes = pool, block, nbytes
        self.address = 0 if block is None else block.address
        self.size = 0 if block is None else block.size

    @property
    def memory(self) -> tuple[Any, int]:
        """The raw memory of the segment, and the offset of this block in it."""
        if self._block is None:
            raise ValueError(f"memory: this handle of {bytes_as_text(self.nbytes)} holds no block: it was freed.")
        return self._block.segment.memory, self.address - self._block.segment.address

    def free(self) -> None:
        """Give the block back to the cache.

        Raises
        ------
        ValueError
            It was given back before.
        """
        if self.nbytes and not self._let_go():
            raise ValueError(
                f"memory: the block at {self.address:#x} ({bytes_as_text(self.nbytes)}) was freed before. A handle "
                "frees its block once; allocate again to get another."
            )

    def _let_go(self) -> bool:
        block, self._block = self._block, None
        if block is not None:
            self._pool._take_back(block)
        return block is not None

    def __del__(self) -> None:
        self._let_go()

    def __repr__(self) -> str:
        return f"Handle({self.address:#x}, {bytes_as_text(self.nbytes)})"


@dataclass(frozen=True)
class Figures:
    """What a pool holds, in bytes, and what it has done."""

    requested: int
    """What the handles alive asked for."""
    current: int
    """What their blocks hold; at least `requested`."""
    peak: int
    """The most that `current` has been, since the pool was made or `reset_peak`."""
    reserved: int
    """Held in segments: in use or cached."""
    cached: int
    """Free blocks: `reserved` - `current`."""
    largest_free: int
    """The largest free block: what can be asked for without asking the device."""
    segments: int
    allocations: int
    """Requests so far."""
    hits: int
    """Of them, those that a cached block served."""

    @property
    def fragmentation(self) -> float:
        """1 - largest free block / all free bytes: 0 if what is free is in one piece (or nothing is), near 1 if it
        is in crumbs."""
        return 1 - self.largest_free / self.cached if self.cached else 0.0


@dataclass(frozen=True)
class BlockShown:
    address: int
    size: int
    requested: int
    free: bool


@dataclass(frozen=True)
class SegmentShown:
    address: int
    size: int
    kind: str
    blocks: tuple[BlockShown, ...]


def segment_shown(segment: Segment) -> SegmentShown:
    blocks = [BlockShown(block.address, block.size, block.requested, block.free) for block in segment.blocks()]
    return SegmentShown(segment.address, segment.size, segment.kind, tuple(blocks))


class Pool:
    """A caching memory pool.

    Parameters
    ----------
    source : Source
        Where segments come from.
    capacity : int or None
        Bytes that segments may take in all; None leaves it to the source.
    name : str
        Who it belongs to, for errors.

    A block may be given out again as soon as its handle goes, while the device still works on it. That is right as
    long as all work on the pool's memory is in one queue, whose order keeps the reuse behind the use.
    """

    def __init__(self, source: Source, *, capacity: int | None = None, name: str = "memory") -> None:
        if capacity is not None and capacity < 0:
            raise ValueError(f"{name}: a capacity is bytes or None, got {capacity}.")
        self.source, self.capacity, self.name = source, capacity, name
        self._segments: dict[int, Segment] = {}
        self._free: dict[str, list[Block]] = {"small": [], "large": []}  # in order of size, then address
        self._requested = self._current = self._peak = self._reserved = self._allocations = self._hits = 0
        self._lock = threading.Lock()
        # The garbage collector may drop a handle at any moment, also while this thread holds the lock. So blocks come
        # back through a queue, which needs no lock.
        self._returned: deque[Block] = deque()
        self._failure: Exception | None = None

    def allocate(self, nbytes: int) -> Handle:
        """A handle on `nbytes` bytes, whose contents are whatever was there before.

        Raises
        ------
        OutOfMemory
            Also after the cache was emptied, the source has no segment for it.
        """
        if isinstance(nbytes, bool) or not isinstance(nbytes, int | np.integer) or nbytes < 0:
            raise ValueError(f"{self.name}: allocate takes a number of bytes that is not negative, got {nbytes!r}.")
        nbytes = int(nbytes)
        if nbytes == 0:
            return Handle(self, None, 0)
        size = round_up(nbytes, GRANULE)
        kind = "small" if size <= SMALL else "large"
        with self._lock:
            self._settle()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            self._allocations += 1
            block = RULES["best_fit"](self._free[kind], size)
            if block is not None:
                self._check_fit(block, size)
                self._hits += 1
                self._forget(block)
            else:
                block = self._grow(kind, size)
            rest = block.size - size
            if rest > (SMALL if kind == "large" else 0):
                self._remember(RULES["split"](block, size))
            block.free, block.requested = False, nbytes
            self._requested += nbytes
            self._current += block.size
            self._peak = max(self._peak, self._current)
            return Handle(self, block, nbytes)

    def empty_cache(self) -> int:
        """Give segments that are wholly free back to the source; how many bytes that were."""
        with self._lock:
            self._settle()
            return self._empty()

    def reset_peak(self) -> None:
        """Let `peak` start again from what is in use now."""
        with self._lock:
            self._settle()
            self._peak = self._current

    @property
    def figures(self) -> Figures:
        with self._lock:
            self._settle()
            return self._figures()

    def snapshot(self) -> list[SegmentShown]:
        """Segments and their blocks as they are now, in order of address."""
        with self._lock:
            self._settle()
            return [segment_shown(self._segments[address]) for address in sorted(self._segments)]

    def __repr__(self) -> str:
        now = self.figures
        return (
            f"Pool({self.name}: {bytes_as_text(now.current)} in use, {bytes_as_text(now.cached)} cached, "
            f"{now.segments} segments)"
        )

    # --- under the lock ---

    def _take_back(self, block: Block) -> None:
        self._returned.append(block)
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._settle()
            except Exception as error:  # noqa: BLE001 - a swapped rule failed where nobody can catch it
                self._failure = error
            finally:
                self._lock.release()

    def _settle(self) -> None:
        """Put blocks that came back into the cache."""
        while self._returned:
            block = self._returned.popleft()
            self._requested -= block.requested
            self._current -= block.size
            for neighbour in free_run(block):
                self._forget(neighbour)
            block.free, block.requested = True, 0
            start, end = block.address, block.address + block.size
            merged = RULES["merge"](block)
            try:
                covered = merged.free and merged.address <= start and merged.address + merged.size >= end
            except AttributeError:
                covered = False
            if not covered:
                raise ValueError(
                    f"{self.name}: merge returned {merged!r} for the free block at {start:#x} of "
                    f"{bytes_as_text(end - start)}; expected the free block that covers it now."
                )
            self._remember(merged)
            for known in free_run(merged):
                self._remember(known)

    def _grow(self, kind: str, size: int) -> Block:
        """The one block of a new segment that holds `size` bytes."""
        for emptied in (False, True):
            if emptied:
                self._empty()
            # Where a segment of the usual size does not fit, one of just this size may.
            for wanted in dict.fromkeys((segment_size(size), size)):
                if self.capacity is not None and self._reserved + wanted > self.capacity:
                    continue
                try:
                    address, memory = self.source.allocate(wanted)
                except MemoryError:
                    continue
                segment = self._segments[address] = Segment(address, wanted, kind, memory)
                self._reserved += wanted
                return segment.first
        now = self._figures()
        left = "" if self.capacity is None else f", of {bytes_as_text(self.capacity)}"
        raise OutOfMemory(
            f"{self.name}: out of memory: {bytes_as_text(size)} asked for; {bytes_as_text(now.current)} in use and "
            f"{bytes_as_text(now.cached)} cached{left}; the largest free block is {bytes_as_text(now.largest_free)}. "
            "Let go of arrays that are no longer needed, or use a smaller batch, or checkpoint the model."
        )

    def _empty(self) -> int:
        given_back = 0
        for segment in list(self._segments.values()):
            if segment.first.free and segment.first.next is None:
                self._forget(segment.first)
                del self._segments[segment.address]
                # The segment and its block hold each other; the memory is not to wait for the garbage collector.
                memory, segment.memory = segment.memory, None
                self.source.free(memory)
                del memory
                given_back += segment.size
        self._reserved -= given_back
        return given_back

    def _figures(self) -> Figures:
        largest = max((blocks[-1].size for blocks in self._free.values() if blocks), default=0)
        return Figures(
            requested=self._requested,
            current=self._current,
            peak=self._peak,
            reserved=self._reserved,
            cached=self._reserved - self._current,
            largest_free=largest,
            segments=len(self._segments),
            allocations=self._allocations,
            hits=self._hits,
        )

    def _remember(self, block: Block) -> None:
        insort(self._free[block.segment.kind], block, key=order)

    def _forget(self, block: Block) -> None:
        free = self._free[block.segment.kind]
        del free[bisect_left(free, order(block), key=order)]

    def _check_fit(self, block: Block, size: int) -> None:
        if not isinstance(block, Block) or not block.free or block.size < size:
            raise ValueError(
                f"{self.name}: best_fit chose {block!r} for {bytes_as_text(size)}; expected a free block of at least "
                "that size, or None."
            )
