"""Large arrays go through shared memory, copied once; the memory is used again, and nothing of it is left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals.distributed.errors import ProtocolError
from internals.distributed.transport import Message, shm
from internals.distributed.transport.segment import READERS, START, Attached, Segment
from internals.distributed.transport.shm import LEAST, Pool, ShmEndpoint

WAIT = 20.0
RANDOM = np.random.default_rng(22)

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="shared memory is Linux's")


@pytest.fixture
def two() -> Iterator[tuple[ShmEndpoint, ShmEndpoint]]:
    with ShmEndpoint("one") as one, ShmEndpoint("two") as other:
        one.connect("two", other.address, WAIT)
        until_attached(one, "two")
        yield one, other


def until_attached(endpoint: ShmEndpoint, peer: str) -> None:
    end = time.monotonic() + WAIT
    while not endpoint._links[peer].attached and time.monotonic() < end:
        time.sleep(0.005)
    assert endpoint._links[peer].attached


def in_shared_memory(array: np.ndarray) -> bool:
    """Whether the array lies in a mapping of a segment, by what the kernel says."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        if low <= address < high:
            return "memfd:internals" in line
    return False


def passed(one: ShmEndpoint, other: ShmEndpoint, *arrays: np.ndarray) -> list[np.ndarray]:
    one.send("two", Message("x", {}, list(arrays)))
    return other.receive("x", "one", WAIT).arrays


@pytest.mark.slow
@pytest.mark.parametrize("nbytes", [LEAST - 8, LEAST, LEAST + 8, 3 << 20])
def test_arrays_from_the_limit_on_lie_in_shared_memory(two: tuple[ShmEndpoint, ShmEndpoint], nbytes: int) -> None:
    array = RANDOM.normal(size=nbytes // 8)
    (arrived,) = passed(*two, array)
    assert (arrived == array).all()
    assert in_shared_memory(arrived) == (nbytes >= LEAST)
    with pytest.raises(ValueError, match="read-only"):
        arrived[0] = 1
    if nbytes >= LEAST:
        with pytest.raises(ValueError, match="WRITEABLE"):
            arrived.flags.writeable = True


@pytest.mark.slow
def test_memory_is_used_again_once_the_last_view_is_gone(two: tuple[ShmEndpoint, ShmEndpoint]) -> None:
    one, other = two
    array = RANDOM.normal(size=(50_000,))
    for _ in range(20):
        passed(one, other, array)
        gc.collect()
    assert len(one._pool._segments) == 1
    view = passed(one, other, array)[0][5:7]
    again = passed(one, other, array + 1)[0]
    assert len(one._pool._segments) == 2
    assert (view == array[5:7]).all()
    assert (again == array + 1).all()


@pytest.mark.slow
def test_one_copy_serves_all_who_are_sent_it() -> None:
    with ShmEndpoint("hub") as hub, ShmEndpoint("a") as a, ShmEndpoint("b") as b:
        for peer in (a, b):
            hub.connect(peer.name, peer.address, WAIT)
            until_attached(hub, peer.name)
        array = RANDOM.normal(size=50_000)
        hub.send_all(["a", "b"], Message("x", {}, [array]))
        held = [peer.receive("x", "hub", WAIT).arrays[0] for peer in (a, b)]
        assert len(hub._pool._segments) == 1
        del held[0]
        gc.collect()
        assert not hub._pool._segments[0].free()
        assert (held[0] == array).all()
        del held[0]
        gc.collect()
        assert hub._pool._segments[0].free()


@pytest.mark.slow
def test_memory_that_a_lost_peer_was_reading_is_not_written_to_again(two: tuple[ShmEndpoint, ShmEndpoint]) -> None:
    one, other = two
    array = RANDOM.normal(size=50_000)
    (kept,) = passed(one, other, array)
    other.close()
    end = time.monotonic() + WAIT
    while "two" not in one.lost and time.monotonic() < end:
        time.sleep(0.01)
    assert one._pool._segments == []
    assert (kept == array).all()
    one.close()
    assert (kept == array).all()


@pytest.mark.slow
def test_memory_that_its_owner_gives_up_is_let_go_of(
    two: tuple[ShmEndpoint, ShmEndpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shm, "IDLE", 0.0)
    one, other = two
    for doubling in range(7):
        passed(one, other, RANDOM.normal(size=10_000 << doubling))
        gc.collect()
    assert len(one._pool._segments) <= 2
    assert len(other._attached["one"]) <= 2


@pytest.mark.slow
def test_where_memory_runs_out_arrays_go_through_the_socket(
    two: tuple[ShmEndpoint, ShmEndpoint], monkeypatch: pytest.MonkeyPatch, logged: Any
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "ftruncate", full)
    array = RANDOM.normal(size=50_000)
    (arrived,) = passed(*two, array)
    assert (arrived == array).all()
    assert not in_shared_memory(arrived)
    assert "no more shared memory" in logged.text


@pytest.mark.slow
@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_who_has_no_shared_memory_is_sent_arrays_through_the_socket(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: Any) -> Any:
        raise OSError("no memory of this kind")

    with monkeypatch.context() as patched:
        patched.setattr(shm, "Segment" if side == "sender" else "Attached", nothing)
        one, other = ShmEndpoint("one"), ShmEndpoint("two")
        with one, other:
            one.connect("two", other.address, WAIT)
            array = RANDOM.normal(size=50_000)
            for _ in range(2):
                (arrived,) = passed(one, other, array)
                assert (arrived == array).all()
                assert not in_shared_memory(arrived)
                time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_process_leaves_no_memory() -> None:
    code = (
        "import os, signal, numpy as np\n"
        "from internals.distributed.transport.shm import Pool\n"
        "pool = Pool(); pool.put([np.ones(10_000_000, np.uint8).data], ['x'])\n"
        "print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    before = set(os.listdir("/dev/shm"))
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], check=False, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "internals" in name]


def test_a_segment_is_what_was_written_and_is_freed_by_its_readers() -> None:
    segment = Segment(10_000)
    arrays = [RANDOM.integers(0, 256, size, np.uint8) for size in (3, 0, 700, 64)]
    places = segment.write([array.data for array in arrays])
    readers = [segment.lend("a"), segment.lend("b")]
    attached = Attached(os.getpid(), segment.fd, segment.serial)
    views = [attached.read(places, reader) for reader in readers]
    assert [[bytes(part) for part in view] for view in views] == [[array.tobytes() for array in arrays]] * 2
    part = views[0][2]
    del views[0]
    gc.collect()
    assert not segment.free()
    del part, views[0]
    gc.collect()
    assert segment.free()
    segment.close()


@pytest.mark.parametrize(
    ("places", "reader"),
    [([(0, 8)], 0), ([(START, 10_001)], 0), ([(START + 9_999, 2)], 0), ([(START, 1)], READERS), ([(1 << 63, 1)], 0)],
)
def test_a_reference_outside_of_a_segment_is_refused(places: list[tuple[int, int]], reader: int) -> None:
    segment = Segment(10_000)
    with pytest.raises(ProtocolError, match="outside of it"):
        Attached(os.getpid(), segment.fd, segment.serial).read(places, reader)
    segment.close()


def test_only_segments_can_be_attached(tmp_path: Path) -> None:
    segment = Segment(100)
    plain = os.memfd_create("internals")
    os.ftruncate(plain, 8192)
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        for fd, serial, says in (
            (segment.fd, segment.serial + 1, "another segment"),
            (plain, 0, "could shrink"),
            (other, 0, "not shared memory of ours"),
            (9999, 0, "has no shared memory 9999"),
        ):
            with pytest.raises(ProtocolError, match=says):
                Attached(os.getpid(), fd, serial)
    finally:
        os.close(plain)
        os.close(other)
        segment.close()


def test_a_pool_gives_back_what_nobody_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    open_files = len(os.listdir("/proc/self/fd"))
    for size in (100_000, 900_000):
        segment, _, (reader,) = pool.put([np.zeros(size, np.uint8).data], ["a"])
        segment.map[reader] = 0
    assert len(pool._segments) == 2
    monkeypatch.setattr(shm, "IDLE", 0.0)
    pool.put([np.zeros(10_000_000, np.uint8).data], ["a"])
    assert [segment.capacity >= 10_000_000 for segment in pool._segments] == [True]
    pool.close()
    del segment
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == open_files
