"""What must always hold in a caching pool, and a source that costs nothing."""

from __future__ import annotations

from typing import Any

from internals import memory
from internals.memory import HostSource, Pool


def check(pool: Pool) -> None:
    """Blocks cover their segments without gap or overlap, no two free ones touch, and the figures add up."""
    shown, now = pool.snapshot(), pool.figures
    used = requested = 0
    free: list[int] = []
    for segment in shown:
        place, before_free = segment.address, False
        for block in segment.blocks:
            assert block.address == place
            assert block.size > 0
            assert block.size % memory.GRANULE == 0
            assert not (before_free and block.free), "two free neighbours"
            assert block.free or 0 < block.requested <= block.size
            place, before_free = place + block.size, block.free
            used += 0 if block.free else block.size
            requested += block.requested
            free += [block.size] if block.free else []
        assert place == segment.address + segment.size
    assert (now.current, now.requested, now.cached) == (used, requested, sum(free))
    assert now.reserved == sum(segment.size for segment in shown) == now.current + now.cached
    assert now.segments == len(shown)
    assert now.largest_free == max(free, default=0)
    assert now.fragmentation == (1 - max(free) / sum(free) if free else 0)
    assert now.peak >= now.current
    assert now.hits <= now.allocations


class Counted(HostSource):
    """No memory at all, so that large sizes cost nothing; counts what is out."""

    def __init__(self) -> None:
        super().__init__()
        self.out: dict[int, int] = {}

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        address, self._next = self._next, self._next + nbytes
        self.out[address] = nbytes
        return address, address

    def free(self, memory: Any) -> None:
        del self.out[memory]
