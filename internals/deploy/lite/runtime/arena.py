"""Where each value lies in one block of memory, decided before anything runs.

Values that are never alive at the same time may share bytes. The largest go first, each into the smallest gap between
those already placed that are alive with it (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
inference", greedy by size).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass
class Block:
    """Bytes that are needed from one step to another, both included.

    Attributes
    ----------
    name : str
    size : int
        Bytes, rounded up to a multiple of 64.
    first, last : int
        Steps; -1 is before the first operator.
    offset : int
        Where in the arena; bytes.
    """

    name: str
    size: int
    first: int
    last: int
    offset: int = -1

    def meets(self, other: Block) -> bool:
        """Whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(blocks: Sequence[Block]) -> int:
    """Give each block its offset; returns how many bytes the arena has.

    While no less than `lower_bound` would do, the block that reaches highest is put first and all are placed again,
    a limited number of times; the smallest arena found is taken.
    """
    order = sorted(blocks, key=lambda one: (-one.size, one.first))
    best, least, chosen = _placed(order), lower_bound(blocks), [block.offset for block in blocks]
    for _ in range(min(64, 4096 // max(1, len(blocks)))):
        if best <= least:
            break
        highest = max(order, key=lambda one: one.offset + one.size)
        order = [highest, *(one for one in order if one is not highest)]
        size = _placed(order)
        if size < best:
            best, chosen = size, [block.offset for block in blocks]
    for block, offset in zip(blocks, chosen):
        block.offset = offset
    return best


def _placed(order: Sequence[Block]) -> int:
    placed: list[Block] = []
    for block in order:
        put(block, placed)
        placed.append(block)
        placed.sort(key=lambda one: one.offset)
    return max((block.offset + block.size for block in order), default=0)


def put(block: Block, placed: Sequence[Block]) -> None:
    """Give a block its offset: the smallest gap between others, in the order in which they lie, or behind them."""
    end, best, smallest = 0, -1, 0
    for other in placed:
        if other.meets(block):
            gap = other.offset - end
            if gap >= block.size and (best < 0 or gap < smallest):
                best, smallest = end, gap
            end = max(end, other.offset + other.size)
    block.offset = end if best < 0 else best


def lower_bound(blocks: Sequence[Block]) -> int:
    """The most bytes that are alive at one step: no plan has a smaller arena."""
    steps = {block.first for block in blocks}
    return max((sum(b.size for b in blocks if b.first <= step <= b.last) for step in steps), default=0)
