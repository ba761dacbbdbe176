"""The caching pool: against a naive one, its invariants, its figures, and what it refuses."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pool_checks import Counted, check

from internals import memory
from internals.memory import KIB, MIB, Block, Handle, HostSource, OutOfMemory, Pool, Segment, SegmentShown

START = 0x7000_0000_0000


class Naive:
    """The same rules, written as lists of [start, size, free] that are searched from end to end."""

    def __init__(self) -> None:
        self.segments: list[tuple[str, list[list[Any]]]] = []
        self.next = START
        self.hits = self.peak = 0

    def allocate(self, nbytes: int) -> int:
        size = (nbytes + 511) // 512 * 512
        kind = "small" if size <= 2**20 else "large"
        fits = [(b[1], b[0], b, bs) for k, bs in self.segments if k == kind for b in bs if b[2] and b[1] >= size]
        if fits:
            self.hits += 1
            _, _, block, blocks = min(fits, key=lambda fit: fit[:2])
        else:
            whole = (
                2**21 if kind == "small" else 20 * 2**20 if size < 10 * 2**20 else (size + 2**21 - 1) // 2**21 * 2**21
            )
            block = [self.next, whole, True]
            blocks = [block]
            self.segments.append((kind, blocks))
            self.next += whole
        rest = block[1] - size
        if rest > (0 if kind == "small" else 2**20):
            blocks.insert(blocks.index(block) + 1, [block[0] + size, rest, True])
            block[1] = size
        block[2] = False
        self.peak = max(self.peak, sum(b[1] for _, bs in self.segments for b in bs if not b[2]))
        return block[0]

    def free(self, address: int) -> None:
        for _, blocks in self.segments:
            for block in blocks:
                if block[0] == address:
                    block[2] = True
            place = 0
            while place + 1 < len(blocks):
                if blocks[place][2] and blocks[place + 1][2]:
                    blocks[place][1] += blocks.pop(place + 1)[1]
                else:
                    place += 1

    def shown(self) -> list[tuple[int, int, bool]]:
        return sorted((b[0], b[1], b[2]) for _, bs in self.segments for b in bs)


sizes = st.one_of(
    st.integers(1, 5000),
    st.integers(1, 2 * MIB),
    st.integers(1, 30 * MIB),
    st.sampled_from([1, 511, 512, 513, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 20 * MIB]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(sizes, st.integers(-12, -1)), max_size=40))
def test_random_requests_go_where_a_naive_pool_puts_them(requests: list[int]) -> None:
    """A positive number allocates so many bytes; -k frees the k-th of the handles alive."""
    pool, naive, alive = Pool(Counted()), Naive(), []
    for request in requests:
        if request > 0:
            alive.append(pool.allocate(request))
            assert alive[-1].address == naive.allocate(request)
        elif alive:
            handle = alive.pop(request % len(alive))
            naive.free(handle.address)
            handle.free()
        check(pool)
    assert [(b.address, b.size, b.free) for s in pool.snapshot() for b in s.blocks] == naive.shown()
    assert (pool.figures.hits, pool.figures.peak) == (naive.hits, naive.peak)
    alive.clear()
    assert pool.figures.current == 0
    pool.empty_cache()
    assert pool.source.out == {}
    check(pool)


def test_every_block_is_whole_again_when_all_is_freed() -> None:
    pool = Pool(Counted())
    alive = [pool.allocate(n) for n in np.random.default_rng(5).integers(1, 300_000, 60)]
    for place in np.random.default_rng(6).permutation(60):
        alive[place].free()
    assert all(len(segment.blocks) == 1 for segment in pool.snapshot())
    assert pool.figures.fragmentation == 1 - 1 / pool.figures.segments


# Figures, by hand


def test_figures_of_a_case_known_by_hand() -> None:
    """Eight blocks of 256 KiB fill a small segment; every second is freed."""
    pool = Pool(Counted())
    alive = [pool.allocate(256 * KIB - 100) for _ in range(8)]
    now = pool.figures
    assert (now.requested, now.current, now.reserved) == (8 * (256 * KIB - 100), 2 * MIB, 2 * MIB)
    assert (now.segments, now.allocations, now.hits, now.fragmentation) == (1, 8, 7, 0)
    for handle in alive[::2]:
        handle.free()
    now = pool.figures
    assert (now.cached, now.largest_free, now.fragmentation) == (MIB, 256 * KIB, 0.75)
    assert now.peak == 2 * MIB
    pool.reset_peak()
    assert pool.figures.peak == MIB
    kept = pool.allocate(512 * KIB)  # 1 MiB is free, and no 512 KiB in one piece
    assert pool.figures.segments == 2
    assert pool.figures.hits == 7
    check(pool)
    del kept


def test_a_freed_block_is_the_next_one_given() -> None:
    pool = Pool(Counted())
    first = pool.allocate(1000)
    address = first.address
    second = pool.allocate(1000)
    del first
    assert pool.allocate(900).address == address
    assert second.address == address + 1024


def test_best_fit_takes_the_smallest_that_is_large_enough() -> None:
    pool = Pool(Counted())
    alive = [pool.allocate(n * KIB) for n in (64, 8, 16, 8, 32, 8)]
    addresses = [handle.address for handle in alive]
    for place in (0, 2, 4):
        alive[place].free()
    kept = [pool.allocate(n * KIB) for n in (12, 20, 40)]
    assert [handle.address for handle in kept] == [addresses[2], addresses[4], addresses[0]]


@pytest.mark.parametrize(
    ("nbytes", "segment", "block"),
    [
        (1, 2 * MIB, 512),
        (512, 2 * MIB, 512),
        (513, 2 * MIB, 1024),
        (MIB, 2 * MIB, MIB),
        (MIB + 1, 20 * MIB, MIB + 512),
        (10 * MIB - 512, 20 * MIB, 10 * MIB - 512),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # a rest of 1 MiB is not cut off
        (11 * MIB - 512, 12 * MIB, 11 * MIB - 512),
    ],
)
def test_sizes(nbytes: int, segment: int, block: int) -> None:
    pool = Pool(Counted())
    handle = pool.allocate(nbytes)
    assert (pool.figures.reserved, pool.figures.current, handle.size) == (segment, block, block)
    assert handle.nbytes == pool.figures.requested == nbytes


def test_nothing_takes_no_memory() -> None:
    pool = Pool(Counted())
    handle = pool.allocate(0)
    assert (handle.nbytes, handle.address, pool.figures.reserved, pool.figures.allocations) == (0, 0, 0, 0)
    handle.free()
    handle.free()


def test_a_snapshot_shows_every_block() -> None:
    pool = Pool(Counted())
    kept = [pool.allocate(1000), pool.allocate(3 * MIB)]
    small, large = pool.snapshot()
    assert isinstance(small, SegmentShown)
    assert (small.kind, [(b.size, b.requested, b.free) for b in small.blocks]) == (
        "small",
        [(1024, 1000, False), (2 * MIB - 1024, 0, True)],
    )
    assert (large.kind, large.blocks[0].requested) == ("large", 3 * MIB)
    assert repr(pool) == "Pool(memory: 3.001 MiB in use, 19 MiB cached, 2 segments)"
    del kept


# Handles


def test_a_handle_is_freed_with_the_last_who_holds_it() -> None:
    pool = Pool(Counted())
    handle = pool.allocate(1000)
    another = [handle]
    del handle
    assert pool.figures.current == 1024
    another.clear()
    assert pool.figures.current == 0


def test_a_second_free_is_refused() -> None:
    pool = Pool(Counted())
    handle = pool.allocate(1000)
    handle.free()
    with pytest.raises(ValueError, match=r"memory: the block at 0x\w+ \(1000 B\) was freed before"):
        handle.free()
    with pytest.raises(ValueError, match="holds no block"):
        _ = handle.memory
    other = pool.allocate(1000)
    del handle  # the block is another's now
    assert pool.figures.current == 1024
    check(pool)
    del other


@pytest.mark.slow
def test_handles_in_a_circle_go_with_the_garbage_collector_also_while_the_pool_works() -> None:
    class Owner:
        pass

    pool = Pool(Counted())
    found = []

    class Collecting(Counted):
        def allocate(self, nbytes: int) -> tuple[int, Any]:
            gc.collect()  # drops a handle while this thread holds the pool's lock
            found.append(True)
            return super().allocate(nbytes)

    pool.source = Collecting()
    owner = Owner()
    owner.handle, owner.itself = pool.allocate(1000), owner  # type: ignore[attr-defined]
    del owner
    kept = pool.allocate(5 * MIB)
    assert len(found) == 2
    assert pool.figures.current == kept.size
    check(pool)


# Refusals


@pytest.mark.parametrize("nbytes", [-1, 1.5, "4", None, True])
def test_what_is_no_number_of_bytes(nbytes: Any) -> None:
    with pytest.raises(ValueError, match="allocate takes a number of bytes that is not negative, got"):
        Pool(HostSource()).allocate(nbytes)


def test_a_capacity_below_zero() -> None:
    with pytest.raises(ValueError, match="a capacity is bytes or None, got -1"):
        Pool(HostSource(), capacity=-1)


def test_out_of_memory_says_what_was_asked_and_what_there_is() -> None:
    pool = Pool(Counted(), capacity=24 * MIB, name="sim:5")
    kept = [pool.allocate(12 * MIB), pool.allocate(MIB)]
    with pytest.raises(
        OutOfMemory,
        match=r"sim:5: out of memory: 11 MiB asked for; 13 MiB in use and 1 MiB cached, of 24 MiB; the largest free "
        r"block is 1 MiB. .*smaller batch",
    ):
        pool.allocate(11 * MIB)
    check(pool)
    assert isinstance(pool.allocate(4 * MIB), Handle)  # a refusal breaks nothing
    del kept


def test_the_cache_is_emptied_before_a_request_is_refused() -> None:
    pool = Pool(Counted(), capacity=24 * MIB)
    pool.allocate(12 * MIB)  # freed at once, and cached
    handle = pool.allocate(20 * MIB)
    assert (pool.figures.reserved, pool.figures.segments) == (20 * MIB, 1)
    del handle


def test_where_a_usual_segment_does_not_fit_one_of_the_size_may() -> None:
    pool = Pool(Counted(), capacity=3 * MIB)
    assert pool.allocate(2 * MIB).size == pool.figures.reserved == 2 * MIB


def test_a_source_without_memory_is_asked_again_after_the_cache_was_emptied() -> None:
    class Small(Counted):
        def allocate(self, nbytes: int) -> tuple[int, Any]:
            if sum(self.out.values()) + nbytes > 20 * MIB:
                raise MemoryError
            return super().allocate(nbytes)

    pool = Pool(Small())
    pool.allocate(12 * MIB)
    kept = pool.allocate(14 * MIB)
    with pytest.raises(OutOfMemory, match="14 MiB asked for; 14 MiB in use and 0 B cached; the"):
        pool.allocate(14 * MIB)
    del kept


@pytest.mark.slow
def test_memory_that_was_given_back_is_gone_at_once() -> None:
    """Segment and block refer to each other, yet no garbage collector is waited for."""
    gc.collect()
    gc.disable()
    try:
        pool = Pool(HostSource())
        pool.allocate(4 * MIB)
        (segment,) = pool._segments.values()
        assert segment.memory is not None
        assert pool.empty_cache() == 20 * MIB
        assert segment.memory is None
    finally:
        gc.enable()


# Threads


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_share_a_pool(often: None) -> None:
    pool, wrong = Pool(Counted()), []

    def work(seed: int) -> None:
        rng, alive = np.random.default_rng(seed), []
        try:
            for size in rng.integers(1, 200_000, 300):
                alive.append(pool.allocate(size))
                if len(alive) > 20:
                    alive.pop(int(rng.integers(len(alive))))
        except Exception as error:  # noqa: BLE001 - to be shown by the test's own thread
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.figures.current == 0
    assert pool.figures.allocations == 1200
    check(pool)


# Other rules in place of the pool's


def first_fit(free: list[Block], size: int) -> Block | None:
    return next((block for block in free if block.size >= size), None)


def test_swapped_rules_are_used_and_put_back() -> None:
    calls = []

    def noted(rule: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: calls.append(rule.__name__) or rule(*args)

    pool = Pool(Counted())
    with memory.swap(best_fit=noted(first_fit), split=noted(memory.split), merge=noted(memory.merge)):
        pool.allocate(1000).free()
    assert calls == ["first_fit", "split", "merge"]
    pool.allocate(1000)
    assert len(calls) == 3
    check(pool)


def test_first_fit_is_seen_in_order_of_address() -> None:
    pool = Pool(Counted())
    alive = [pool.allocate(n * KIB) for n in (64, 8, 16, 8)]
    alive[0].free()
    alive[2].free()
    with memory.swap(best_fit=first_fit):
        assert pool.allocate(12 * KIB).address == alive[0].address
    check(pool)


def test_a_pool_that_did_not_merge_is_mended_by_one_that_does() -> None:
    pool = Pool(Counted())
    alive = [pool.allocate(100 * KIB) for _ in range(10)]
    with memory.swap(merge=lambda block: block):
        for handle in alive[:9]:
            handle.free()
        assert len(pool.snapshot()[0].blocks) == 11
        assert pool.figures.fragmentation > 0.4
    alive[9].free()
    assert len(pool.snapshot()[0].blocks) == 1
    check(pool)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"best_fit": lambda free, size: free[0]}, r"best_fit chose Block\(.*4 KiB, free\) for 8 KiB"),
        ({"best_fit": lambda free, size: 7}, "best_fit chose 7 for 8 KiB"),
        ({"merge": lambda block: None}, "merge returned None for the free block at"),
        ({"merge": lambda block: block.next}, "merge returned .* for the free block at"),
    ],
)
def test_what_a_swapped_rule_got_wrong_is_named(rules: dict[str, Any], words: str) -> None:
    pool = Pool(Counted())
    first, kept = pool.allocate(4 * KIB), pool.allocate(4 * KIB)
    with memory.swap(**rules):
        del first
        with pytest.raises(ValueError, match=words):
            pool.allocate(8 * KIB)
    del kept


def test_blocks_and_pools_print_what_they_are() -> None:
    block = Block(Segment(0x1000, 2048, "small", None), 0x1000, 2048)
    assert repr(block) == "Block(0x1000, 2 KiB, free)"
    assert repr(Pool(Counted()).allocate(600)) == f"Handle({START:#x}, 600 B)"
