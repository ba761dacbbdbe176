"""A GPU, through CuPy, with arrays that lie in a pool of our own."""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np

from internals.device.base import Array, Device, DeviceError
from internals.memory import Pool


class Cuda(Device):
    """A GPU, through CuPy.

    CuPy's allocator is set to one that takes all memory from the pool of the current GPU. The pool assumes one
    stream, CuPy's default one, on which everything in `internals` runs.
    """

    def __init__(self, index: int) -> None:
        self.xp = import_cupy()
        count = self.xp.cuda.runtime.getDeviceCount()
        if index >= count:
            raise DeviceError(
                f"device: cuda:{index} does not exist; this machine has {count} (cuda:0 to cuda:{count - 1})."
            )
        self.index = index
        self.name = f"cuda:{index}"
        self.memory = _pool(self.xp, index)
        self.xp.cuda.set_allocator(allocator(self.xp))

    def scope(self) -> AbstractContextManager[object]:
        return self.xp.cuda.Device(self.index)

    def from_host(self, array: np.ndarray) -> Array:
        with self.scope():
            return self.xp.asarray(array)

    def to_host(self, array: Array) -> np.ndarray:
        return self.xp.asnumpy(array)

    def synchronise(self) -> None:
        with self.scope() as gpu:
            gpu.synchronize()  # type: ignore[attr-defined]


_OUT_OF_MEMORY = 2
"""``cudaErrorMemoryAllocation``, which CuPy does not name."""


class CudaSource:
    """Segments from ``cudaMalloc`` on one GPU; CuPy's ``Memory`` gives them back when it goes."""

    def __init__(self, cupy: Any, index: int) -> None:
        self._cupy, self._index = cupy, index

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        runtime = self._cupy.cuda.runtime
        try:
            with self._cupy.cuda.Device(self._index):
                memory = self._cupy.cuda.Memory(nbytes)
        except runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise
            raise MemoryError(str(error)) from None
        return memory.ptr, memory

    def free(self, memory: Any) -> None:
        # Kernels on other memory of the segment may still be in the queue; cudaFree waits for them itself.
        del memory


_pools: dict[int, Pool] = {}


def _pool(cupy: Any, index: int) -> Pool:
    if index not in _pools:
        _pools[index] = Pool(CudaSource(cupy, index), name=f"cuda:{index}")
    return _pools[index]


def allocator(cupy: Any) -> Any:
    """What CuPy calls for memory: ``allocate(nbytes) -> cupy.cuda.MemoryPointer``, from the pool of the current GPU."""

    def allocate(nbytes: int) -> Any:
        index = cupy.cuda.runtime.getDevice()
        handle = _pool(cupy, index).allocate(nbytes)
        # The array holds the pointer, which holds the memory, which holds the handle: the block is free when the last
        # array on it goes.
        memory = cupy.cuda.UnownedMemory(handle.address, handle.nbytes, handle, index)
        return cupy.cuda.MemoryPointer(memory, 0)

    return allocate


def import_cupy() -> ModuleType:
    if importlib.util.find_spec("cupy") is None:
        raise DeviceError("device: cuda needs CuPy, which is not installed. Install it with: pip install cupy-cuda12x")
    cupy = importlib.import_module("cupy")
    if not cupy.is_available():
        raise DeviceError(
            "device: cuda was asked for, but CuPy sees no GPU here. Use 'cpu', or 'sim:0' for a simulated accelerator."
        )
    return cupy


def cuda_is_available() -> bool:
    """Whether CuPy is installed and sees a GPU."""
    try:
        import_cupy()
    except DeviceError:
        return False
    return True
