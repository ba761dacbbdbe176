"""Arrays of the devices lie in the pools of the devices."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pool_checks import check

from internals import Tensor, device
from internals.device import Model, cuda
from internals.memory import MIB, HostSource, OutOfMemory, Pool


def test_a_view_without_entries_is_a_view() -> None:
    sim = device("sim:6")
    sim.memory = Pool(HostSource(), name="sim:6")
    x = Tensor(np.ones((3, 4), np.float32), device=sim)
    sim.reset()
    none = x[:, :0]
    assert (none.storage is x.storage, sim.counters.launches, sim.memory.figures.current) == (True, 0, 512)
    assert none.sum().item() == 0


def test_arrays_of_sim_lie_in_its_pool() -> None:
    sim = device("sim:6")
    pool = sim.memory = Pool(HostSource(), name="sim:6")
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=sim)
    y = x * 2
    segment = pool.snapshot()[0]
    assert [block.requested for block in segment.blocks] == [24, 24, 0]
    assert [x.data.address, y.data.address] == [block.address for block in segment.blocks[:2]]
    assert y.T[1:].data.address == y.data.address + 4
    (raw,) = [found.memory for found in pool._segments.values()]
    np.testing.assert_array_equal(raw[:24].view(np.float32), np.arange(6))
    np.testing.assert_array_equal(raw[512:536].view(np.float32), 2 * np.arange(6))
    address = y.data.address
    del y
    assert (x + 1).data.address == address


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
def test_threads_share_a_simulated_accelerator(often: None) -> None:
    """Loaders copy from threads of their own: nothing is lost from memory, counters or clock."""
    sim, wrong = device("sim:6"), []
    sim.memory, sim.model = Pool(HostSource(), name="sim:6"), Model(latency=1e-3)
    sim.reset()
    before = sim.counters.allocated

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for _ in range(200):
                host = rng.standard_normal(int(rng.integers(1, 2000))).astype(np.float32)
                array = sim.from_host(host, pinned=bool(rng.integers(2)))
                np.testing.assert_array_equal(sim.to_host(array * 2 + array), host * 2 + host)
        except Exception as error:  # noqa: BLE001 - to be shown by the test's own thread
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    counted = sim.counters
    assert (counted.allocated, counted.launches, counted.to_device, counted.to_host) == (before, 1600, 800, 800)
    kernels = [event for event in sim.timeline() if event.lane == "queue"]
    assert len(kernels) == 1600
    assert all(one.end <= other.start for one, other in pairwise(kernels)), "two kernels at once in one queue"
    assert sim.memory.figures.current == 0
    check(sim.memory)


def test_an_array_too_large_for_sim_is_refused_and_nothing_is_counted() -> None:
    sim = device("sim:6")
    sim.memory = Pool(HostSource(), capacity=4 * MIB, name="sim:6")
    x = Tensor(np.zeros(300_000, np.float32), device=sim)
    before = sim.counters.allocated
    with pytest.raises(OutOfMemory, match="sim:6: out of memory: 9.155 MiB asked for"):
        x[:, None] + Tensor(np.zeros((1, 8), np.float32), device=sim)
    assert sim.counters.allocated == before
    assert (x[:10] + 1).cpu().numpy().tolist() == [1] * 10


def test_the_host_has_no_pool() -> None:
    with pytest.raises(ValueError, match="cpu: there is no pool here"):
        _ = device("cpu").memory


# CUDA, with CuPy's own classes, as far as they go without a GPU


class Gpuless:
    """CuPy, with the two calls that need a GPU answered by counting."""

    def __init__(self, cupy: Any, capacity: int) -> None:
        self.out: list[int] = []
        fake = self

        class Memory:
            def __init__(self, size: int) -> None:
                if sum(fake.out) + size > capacity:
                    raise OutOfCuda
                self.size, self.ptr = size, 0x10_0000_0000 + (len(fake.out) << 30)
                fake.out.append(size)

            def __del__(self) -> None:
                if hasattr(self, "size"):
                    fake.out.remove(self.size)

        class OutOfCuda(Exception):
            status = 2  # cudaErrorMemoryAllocation

        class Current:
            def __init__(self, index: int) -> None:
                assert index == 0

            def __enter__(self) -> None: ...

            def __exit__(self, *error: object) -> None: ...

        class Runtime:
            CUDARuntimeError = OutOfCuda
            getDevice = staticmethod(lambda: 0)

        class Cuda:
            runtime, Device = Runtime, Current
            UnownedMemory, MemoryPointer = cupy.cuda.UnownedMemory, cupy.cuda.MemoryPointer

        Cuda.Memory = Memory  # type: ignore[attr-defined]
        self.cuda = Cuda


def test_cupy_arrays_lie_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = pytest.importorskip("cupy")
    assert issubclass(cupy.cuda.runtime.CUDARuntimeError, Exception)
    assert callable(cupy.cuda.runtime.getDevice)
    assert callable(cupy.cuda.Memory)
    monkeypatch.setattr(cuda, "_pools", {})
    fake = Gpuless(cupy, capacity=30 * MIB)
    allocate = cuda.allocator(fake)
    array = cupy.ndarray((100, 10), np.float32, memptr=allocate(4000))
    pool = cuda._pools[0]
    assert array.data.ptr == pool.snapshot()[0].address == 0x10_0000_0000
    assert pool.figures.requested == 4000
    view = array[10:]
    del array
    assert pool.figures.requested == 4000, "the view keeps it alive"
    del view
    assert pool.figures.requested == 0
    assert allocate(0).ptr == 0
    with pytest.raises(OutOfMemory, match="cuda:0: out of memory: 40 MiB asked for"):
        allocate(40 * MIB)
    assert pool.empty_cache() == 0  # it was emptied on the way
    assert fake.out == []


@pytest.mark.gpu
def test_cuda_arrays_lie_in_the_pool() -> None:
    import cupy

    gpu = device("cuda:0")
    gpu.memory.empty_cache()
    before = gpu.memory.figures
    x = Tensor(np.arange(3 * MIB, dtype=np.float32), device=gpu)
    assert gpu.memory.figures.requested - before.requested == 12 * MIB
    assert any(s.address <= x.data.data.ptr < s.address + s.size for s in gpu.memory.snapshot())
    y = (x * 2)[5:]
    gpu.synchronise()
    np.testing.assert_array_equal(cupy.asnumpy(y.data)[:3], [10, 12, 14])
    hits = gpu.memory.figures.hits
    del y
    _ = x + 1
    assert gpu.memory.figures.hits == hits + 1
    del x, _
    assert gpu.memory.figures.requested == before.requested
    check(gpu.memory)
