"""Blocks of a segment, and the three rules by which they are found, cut and joined."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from internals.memory.sizes import bytes_as_text


class Block:
    """A stretch of a segment, in use or free, linked to the blocks before and after it in the same segment."""

    __slots__ = ("address", "free", "next", "prev", "requested", "segment", "size")

    def __init__(self, segment: Segment, address: int, size: int) -> None:
        self.segment, self.address, self.size = segment, address, size
        self.free = True
        self.requested = 0
        self.prev: Block | None = None
        self.next: Block | None = None

    def __repr__(self) -> str:
        return f"Block({self.address:#x}, {bytes_as_text(self.size)}, {'free' if self.free else 'in use'})"


class Segment:
    """Memory as it came from the source: a chain of blocks that starts with `first`."""

    def __init__(self, address: int, size: int, kind: str, memory: Any) -> None:
        self.address, self.size, self.kind, self.memory = address, size, kind, memory
        self.first = Block(self, address, size)

    def blocks(self) -> Iterator[Block]:
        block: Block | None = self.first
        while block is not None:
            yield block
            block = block.next


# --- the three rules, which can be swapped --------------------------------------------------------


def best_fit(free: Sequence[Block], size: int) -> Block | None:
    """The smallest block that holds `size` bytes, of equals the one with the lowest address; None if none does.

    `free` is in order of size, then address.
    """
    place = bisect_left(free, size, key=_size)
    return free[place] if place < len(free) else None


def split(block: Block, size: int) -> Block:
    """Cut `block` to `size` bytes; the rest becomes a free block after it, which is returned."""
    rest = Block(block.segment, block.address + size, block.size - size)
    rest.prev, rest.next = block, block.next
    if block.next is not None:
        block.next.prev = rest
    block.next, block.size = rest, size
    return rest


def merge(block: Block) -> Block:
    """Join a free block with its free neighbours; the block that covers them all, which is the first of them."""
    while block.prev is not None and block.prev.free:
        block = block.prev
    while block.next is not None and block.next.free:
        gone = block.next
        block.size += gone.size
        block.next = gone.next
        if gone.next is not None:
            gone.next.prev = block
    return block


RULES: dict[str, Callable[..., Any]] = {"best_fit": best_fit, "split": split, "merge": merge}


@contextmanager
def swap(
    *,
    best_fit: Callable[[list[Block], int], Block | None] | None = None,
    split: Callable[[Block, int], Block] | None = None,
    merge: Callable[[Block], Block] | None = None,
) -> Iterator[None]:
    """Let other functions search, cut and join blocks for a while, in every pool: ``with swap(merge=mine): train()``.

    Parameters
    ----------
    best_fit : callable, ``best_fit(free, size) -> Block or None``
        `free` is a list of free blocks in order of address. Any block that is large enough may be returned.
    split : callable, ``split(block, size) -> rest``
        Cuts `block`, and links the rest after it.
    merge : callable, ``merge(block) -> Block``
        Joins a free block with the free blocks at its sides, and returns the block that covers them.
    """
    before = dict(RULES)
    if best_fit is not None:
        search = best_fit
        RULES["best_fit"] = lambda free, size: search(sorted(free, key=_address), size)
    RULES.update({name: rule for name, rule in (("split", split), ("merge", merge)) if rule is not None})
    try:
        yield
    finally:
        RULES.update(before)


def free_run(block: Block) -> Iterator[Block]:
    """The free blocks that `block` touches, directly or through other free blocks, without itself."""
    for towards in ("prev", "next"):
        near = getattr(block, towards)
        while near is not None and near.free:
            yield near
            near = getattr(near, towards)


def _size(block: Block) -> int:
    return block.size


def _address(block: Block) -> int:
    return block.address


def order(block: Block) -> tuple[int, int]:
    return block.size, block.address
