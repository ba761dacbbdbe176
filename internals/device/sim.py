"""``sim:i``, a simulated accelerator: memory of its own, a queue of kernels, and a clock.

It behaves like a GPU where it matters to a learner and needs none: its arrays are not NumPy arrays, they lie in the
memory pool of the device, nothing moves between host and device unless a transfer is asked for, every transfer and
every live byte is counted, and an operation that mixes arrays of two devices is an error. What it computes, NumPy
computes, at once; how long that would take, `timing` says.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from internals.device.base import Device, DeviceError
from internals.device.cost import WRITING, bytes_moved, operations
from internals.device.timing import Clock, Event, Model
from internals.memory import GIB, Handle, HostSource, Pool


@dataclass
class Counters:
    """What a simulated accelerator has done. All byte figures are exact, all counts are of whole calls."""

    allocated: int = 0
    """Bytes alive now."""
    peak: int = 0
    """Most bytes alive at once."""
    to_device: int = 0
    """Transfers from the host."""
    to_device_bytes: int = 0
    to_host: int = 0
    """Transfers to the host."""
    to_host_bytes: int = 0
    launches: int = 0
    """Kernels: calls that made a new array or wrote into one; views are free, as on a GPU."""


_counting = threading.RLock()
"""Held while counters change: loaders copy from threads of their own. One thread may enter it twice, since the garbage
collector may drop an array while a counter changes."""


class Sim(Device):
    """A simulated accelerator with a memory of its own.

    Attributes
    ----------
    memory : Pool
        What its arrays lie in; 16 GiB at most. Another pool may be put in its place; arrays keep theirs.
    counters : Counters
        Transfers, launches and memory since the device was made or `reset` last.
    clock : Clock
        When what would have happened, as if one host thread did all of it.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.name = f"sim:{index}"
        self.memory = Pool(HostSource(), capacity=16 * GIB, name=self.name)
        self.counters = Counters()
        self.clock = Clock()
        self.xp = SimModule(self)

    def reset(self) -> None:
        """Start counting afresh, at time 0 with nothing in the queue; live memory stays counted."""
        self.counters = Counters(allocated=self.counters.allocated, peak=self.counters.allocated)
        self.clock = Clock(self.model)

    @property
    def model(self) -> Model:
        """How fast it is. What has happened already keeps its times when another is set."""
        return self.clock.model

    @model.setter
    def model(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"{self.name}: model takes a Model, got {type(model).__name__}: Model(bandwidth=100e9).")
        self.clock.model = model

    @property
    def now(self) -> float:
        """The host's time on the simulated clock, in seconds."""
        return self.clock.now

    def synchronise(self) -> None:
        """Let the host wait, on the simulated clock, until queue and copies are done."""
        self.clock.synchronise()

    def timeline(self) -> list[Event]:
        """What happened since `reset`, in the order in which the host caused it."""
        return list(self.clock.events)

    def from_host(self, array: np.ndarray, *, pinned: bool = False) -> SimArray:
        """A copy of a NumPy array in device memory.

        With `pinned`, the host does not wait, and neither does the copy for the queue: as from page-locked memory,
        on a stream of its own. Kernels that read the copy wait for it.
        """
        if not isinstance(array, np.ndarray | np.generic):
            raise TypeError(f"{self.name}: from_host takes a NumPy array, got {type(array).__name__}.")
        if array.dtype.hasobject:
            raise DeviceError(f"{self.name}: an array of {array.dtype} can't lie in device memory; only numbers can.")
        strides = array.strides if array.flags.c_contiguous else np.empty_like(array, order="K").strides
        block = _Block(self, array.nbytes)
        memory = block.array(array.shape, array.dtype, strides)
        np.copyto(memory, array)
        with _counting:
            self.counters.to_device += 1
            self.counters.to_device_bytes += array.nbytes
        arrived = self.clock.copy("copy to device", array.nbytes, pinned=pinned)
        block.arrival = (self.clock, arrived) if pinned else None
        return SimArray(memory, self, block)

    def arrival(self, arrays: list[SimArray]) -> float:
        """When the last of the arrays that are still on their way will be there."""
        awaited = [array._block.arrival for array in arrays if array._block.arrival is not None]
        return max([time for clock, time in awaited if clock is self.clock], default=0.0)

    def to_host(self, array: SimArray) -> np.ndarray:
        with _counting:
            self.counters.to_host += 1
            self.counters.to_host_bytes += array.nbytes
        self.clock.copy("copy to host", array.nbytes)
        return array._memory.copy(order="K")


class _Block:
    """One allocation, counted while anything refers to it."""

    __slots__ = ("arrival", "device", "handle", "nbytes")

    def __init__(self, device: Sim, nbytes: int) -> None:
        self.handle: Handle | None = None
        self.handle = device.memory.allocate(nbytes)
        self.device, self.nbytes = device, nbytes
        self.arrival: tuple[Clock, float] | None = None
        with _counting:
            counters = device.counters
            counters.allocated += nbytes
            counters.peak = max(counters.peak, counters.allocated)

    def array(self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...], start: int = 0) -> np.ndarray:
        """The memory as an array, whose first entry is `start` bytes behind the first byte."""
        if self.handle is None or not self.nbytes:
            return np.empty(shape, dtype)
        memory, offset = self.handle.memory
        return np.ndarray(shape, dtype, memory, offset + start, strides)

    def __del__(self) -> None:
        if self.handle is not None:
            with _counting:
                self.device.counters.allocated -= self.nbytes


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: self.device.xp._launch(function, (self, *others), {})


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: self.device.xp._launch(function, (other, self), {})


def pick(array: Any, key: Any) -> Any:
    """``array[key]``: a view for every basic key, also of one entry, which NumPy would copy out."""
    picked = array[key]
    if isinstance(picked, np.generic):
        return array[(*key, ...) if isinstance(key, tuple) else (key, ...)]
    return picked


class SimArray:
    """An array in the memory of a simulated accelerator. NumPy can't read it; ``device.to_host`` copies it out."""

    __slots__ = ("__weakref__", "_block", "_memory", "base", "device")
    __array_ufunc__ = None

    def __init__(self, memory: np.ndarray, device: Sim, block: _Block, base: SimArray | None = None) -> None:
        self._memory = memory
        self.device = device
        self._block = block
        self.base = base
        """The array that this one is a view of, or None if it has its memory to itself (as NumPy's `base`)."""

    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)
    ndim = property(lambda self: self._memory.ndim)
    size = property(lambda self: self._memory.size)
    nbytes = property(lambda self: self._memory.nbytes)
    strides = property(lambda self: self._memory.strides)
    flags = property(lambda self: self._memory.flags)
    itemsize = property(lambda self: self._memory.itemsize)

    @property
    def address(self) -> int:
        """Where in the memory of the device the first entry is; 0 for an array without entries."""
        handle = self._block.handle
        if handle is None or not handle.nbytes:
            return 0
        memory, offset = handle.memory
        return handle.address + self._memory.ctypes.data - (memory.ctypes.data + offset)

    @property
    def T(self) -> SimArray:
        return self._view(self._memory.T)

    def _view(self, memory: np.ndarray) -> SimArray:
        return SimArray(memory, self.device, self._block, self if self.base is None else self.base)

    def reshape(self, *shape: Any) -> SimArray:
        return self.device.xp.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> SimArray:
        return self._view(self._memory.transpose(*axes))

    def astype(self, dtype: Any, copy: bool = True) -> SimArray:
        return self.device.xp._launch(np.ndarray.astype, (self, dtype), {"copy": copy})

    def copy(self) -> SimArray:
        return self.device.xp._launch(np.ndarray.copy, (self,), {})

    def __deepcopy__(self, memo: dict[int, Any]) -> SimArray:
        return self.device.xp.copy(self)

    def __reduce__(self) -> tuple[Callable[..., SimArray], tuple[np.ndarray]]:
        return self.device.from_host, (self.device.to_host(self),)

    def __getitem__(self, key: Any) -> SimArray:
        return self.device.xp._launch(pick, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.device.xp._launch(np.ndarray.__setitem__, (self, key, value), {})

    def __len__(self) -> int:
        return len(self._memory)

    def _no_host_read(self, *_: Any, **__: Any) -> Any:
        raise DeviceError(
            f"{self.device.name}: an array of shape {self.shape} on {self.device.name} can't be read by the host. "
            "Copy it first: tensor.to('cpu'), or device.to_host(array)."
        )

    __array__ = __float__ = __int__ = __bool__ = __index__ = __iter__ = _no_host_read

    def __repr__(self) -> str:
        return f"SimArray(shape={self.shape}, dtype={self.dtype}, device={self.device.name})"

    # Python's own operators, so that the host's arrays inside take the path that they take on the host.
    __add__, __radd__ = _operator(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _operator(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _operator(operator.truediv), _reflected(operator.truediv)
    __pow__, __rpow__ = _operator(operator.pow), _reflected(operator.pow)
    __matmul__, __rmatmul__ = _operator(operator.matmul), _reflected(operator.matmul)
    __and__, __or__ = _operator(operator.and_), _operator(operator.or_)
    __neg__, __invert__ = _operator(operator.neg), _operator(operator.invert)
    __lt__, __le__, __gt__, __ge__ = map(_operator, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = _operator(operator.eq), _operator(operator.ne)
    __hash__ = None  # type: ignore[assignment]  # as NumPy: element-wise equality can't hash


def _is_on(result: np.ndarray, memory: np.ndarray) -> bool:
    """Whether an array lies on the memory of another; one without entries overlaps nothing, and may yet be a view."""
    if result.size:
        return np.may_share_memory(result, memory)
    return memory.base is not None and _owner(result) is _owner(memory)


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


_HOST_ALLOWED = (bool, int, float, complex, str, type(None), slice, type(Ellipsis), np.dtype, type, np.generic)


class SimModule:
    """NumPy's functions for SimArrays: each call checks where its arrays are, computes, and wraps the result."""

    ndarray = SimArray

    def __init__(self, device: Sim, module: ModuleType = np) -> None:
        self._device, self._module = device, module

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)
        if isinstance(function, ModuleType):
            module = SimModule(self._device, function)  # numpy.linalg and the like
            setattr(self, name, module)
            return module
        if not callable(function) or isinstance(function, type):
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._launch(function, args, kwargs)

        if isinstance(function, np.ufunc):
            call.at = lambda *args: self._launch(function.at, args, {})  # type: ignore[attr-defined]  # as ufuncs have it
        setattr(self, name, call)
        return call

    def asarray(self, value: Any, dtype: Any = None) -> SimArray:
        """`value` as an array of this device: its own arrays as they are, Python numbers as constants."""
        if isinstance(value, SimArray):
            return value if dtype is None else value.astype(dtype, copy=False)
        return self._launch(np.asarray, (value,), {"dtype": dtype})

    def _launch(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        operands: list[SimArray] = []
        name = getattr(function, "__name__", str(function))
        result = function(
            *[self._read(arg, name, operands) for arg in args],
            **{key: self._read(arg, name, operands) for key, arg in kwargs.items()},
        )
        made: list[np.ndarray] = []
        wrapped = self._wrap(result, operands, made)
        if made or name in WRITING or kwargs.get("out") is not None:
            inputs = [operand._memory for operand in operands]
            with _counting:
                self._device.counters.launches += 1
            self._device.clock.launch(
                name,
                bytes_moved(name, inputs, made),
                operations(name, args, inputs, made),
                self._device.arrival(operands),
            )
        return wrapped

    def _read(self, value: Any, name: str, operands: list[SimArray]) -> Any:
        if isinstance(value, SimArray):
            if value.device is not self._device:
                raise DeviceError(
                    f"{name}: arrays on {self._device.name} and {value.device.name} can't be mixed. Move one to the "
                    "other's device first."
                )
            operands.append(value)
            return value._memory
        if isinstance(value, tuple | list):
            return type(value)([self._read(item, name, operands) for item in value])
        if isinstance(value, np.ndarray):
            raise DeviceError(
                f"{name}: a NumPy array of shape {value.shape} met an array on {self._device.name}. Copy it there "
                "first: device.from_host(array)."
            )
        if isinstance(value, _HOST_ALLOWED) or callable(value):
            return value
        raise DeviceError(f"{name}: {type(value).__name__} can't be used on {self._device.name}.")

    def _wrap(self, result: Any, operands: list[SimArray], made: list[np.ndarray]) -> Any:
        if isinstance(result, tuple | list):
            parts = [self._wrap(item, operands, made) for item in result]
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        if isinstance(result, np.generic):
            result = np.asarray(result)
        if not isinstance(result, np.ndarray):
            return result
        for operand in operands:
            if result is operand._memory:
                return operand
            if result.base is not None and _is_on(result, operand._memory):
                return operand._view(result)
        made.append(result)
        return self._store(result)

    def _store(self, result: np.ndarray) -> SimArray:
        """What NumPy computed, moved into the memory of the device, in the same layout."""
        if result.dtype.hasobject:
            raise DeviceError(f"{self._device.name}: objects can't lie in device memory; only numbers can.")
        owner = _owner(result)
        if not owner.flags.owndata:
            owner = result = np.array(result, order="K")
        block = _Block(self._device, owner.nbytes)
        memory = block.array(owner.shape, owner.dtype, owner.strides)
        np.copyto(memory, owner)
        stored = SimArray(memory, self._device, block)
        if result is owner:
            return stored
        start = result.ctypes.data - owner.ctypes.data
        view = block.array(result.shape, result.dtype, result.strides, start)
        view.flags.writeable = result.flags.writeable
        return SimArray(view, self._device, block, stored)
