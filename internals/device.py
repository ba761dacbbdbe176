"""Where arrays live: ``cpu`` (NumPy), ``cuda:i`` (CuPy) and ``sim:i``, a simulated accelerator.

A device is a name, an array module (`xp`, with NumPy's interface) and two transfers. Kernels are written once,
against `xp`, and run on whichever arrays they are given.

The simulated accelerator behaves like a GPU where it matters to a learner and needs none: its arrays are not NumPy
arrays, nothing moves between host and device unless a transfer is asked for, every transfer and every live byte is
counted, and an operation that mixes arrays of two devices is an error.
"""

from __future__ import annotations

import importlib
import importlib.util
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Array = Any
"""A bare array of one of the devices: numpy.ndarray, cupy.ndarray or SimArray."""


class DeviceError(ValueError):
    """Arrays of two devices met, or a device was asked for that this machine does not have."""


class Device:
    """One place where arrays live.

    Attributes
    ----------
    name : str
        ``"cpu"``, ``"cuda:0"``, ``"sim:1"``.
    xp : module-like
        NumPy's interface for the arrays of this device.
    """

    name: str
    xp: Any

    def from_host(self, array: np.ndarray) -> Array:
        """Copy a NumPy array to this device (no copy where this device is the host)."""
        raise NotImplementedError

    def to_host(self, array: Array) -> np.ndarray:
        """Copy an array of this device into a NumPy array (no copy where this device is the host)."""
        raise NotImplementedError

    def scope(self) -> AbstractContextManager[object]:
        """Within it, new arrays are made on this device."""
        return nullcontext()

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __str__(self) -> str:
        return self.name


class Cpu(Device):
    name = "cpu"
    xp = np

    def from_host(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return array


class Cuda(Device):
    """A GPU, through CuPy."""

    def __init__(self, index: int) -> None:
        self.xp = _import_cupy()
        count = self.xp.cuda.runtime.getDeviceCount()
        if index >= count:
            raise DeviceError(
                f"device: cuda:{index} does not exist; this machine has {count} (cuda:0 to cuda:{count - 1})."
            )
        self.index = index
        self.name = f"cuda:{index}"

    def scope(self) -> AbstractContextManager[object]:
        return self.xp.cuda.Device(self.index)

    def from_host(self, array: np.ndarray) -> Array:
        with self.scope():
            return self.xp.asarray(array)

    def to_host(self, array: Array) -> np.ndarray:
        return self.xp.asnumpy(array)


def _import_cupy() -> ModuleType:
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
        _import_cupy()
    except DeviceError:
        return False
    return True


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
    """Kernels that made a new array; views are free, as on a GPU."""


class Sim(Device):
    """A simulated accelerator with a memory of its own.

    Attributes
    ----------
    counters : Counters
        Transfers, launches and memory since the device was made or `reset` last.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.name = f"sim:{index}"
        self.counters = Counters()
        self.xp = SimModule(self)

    def reset(self) -> None:
        """Start counting afresh; live memory stays counted."""
        self.counters = Counters(allocated=self.counters.allocated, peak=self.counters.allocated)

    def from_host(self, array: np.ndarray) -> SimArray:
        self.counters.to_device += 1
        self.counters.to_device_bytes += array.nbytes
        return SimArray(np.array(array, order="K"), self)

    def to_host(self, array: SimArray) -> np.ndarray:
        self.counters.to_host += 1
        self.counters.to_host_bytes += array.nbytes
        return array._memory.copy(order="K")


class _Block:
    """Counts one allocation while anything refers to it."""

    __slots__ = ("device", "nbytes")

    def __init__(self, device: Sim, nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        counters = device.counters
        counters.allocated += nbytes
        counters.peak = max(counters.peak, counters.allocated)

    def __del__(self) -> None:
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

    __slots__ = ("__weakref__", "_block", "_memory", "device")
    __array_ufunc__ = None

    def __init__(self, memory: np.ndarray, device: Sim, block: _Block | None = None) -> None:
        self._memory = memory
        self.device = device
        self._block = block or _Block(device, memory.nbytes)

    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)
    ndim = property(lambda self: self._memory.ndim)
    size = property(lambda self: self._memory.size)
    nbytes = property(lambda self: self._memory.nbytes)
    strides = property(lambda self: self._memory.strides)
    flags = property(lambda self: self._memory.flags)
    itemsize = property(lambda self: self._memory.itemsize)

    @property
    def base(self) -> SimArray | None:
        """An array over the memory this one is a view of, or None if it owns its memory (as NumPy's `base`)."""
        return None if self._memory.base is None else SimArray(self._memory.base, self.device, self._block)

    @property
    def T(self) -> SimArray:
        return self._view(self._memory.T)

    def _view(self, memory: np.ndarray) -> SimArray:
        return SimArray(memory, self.device, self._block)

    def reshape(self, *shape: Any) -> SimArray:
        return self.device.xp.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> SimArray:
        return self._view(self._memory.transpose(*axes))

    def astype(self, dtype: Any, copy: bool = True) -> SimArray:
        return self.device.xp._launch(np.ndarray.astype, (self, dtype), {"copy": copy})

    def copy(self) -> SimArray:
        return self.device.xp._launch(np.copy, (self,), {})

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


_HOST_ALLOWED = (bool, int, float, complex, str, type(None), slice, type(Ellipsis), np.dtype, type, np.generic)


class SimModule:
    """NumPy's functions for SimArrays: each call checks where its arrays are, computes, and wraps the result."""

    ndarray = SimArray

    def __init__(self, device: Sim) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
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
        return self._wrap(result, operands)

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

    def _wrap(self, result: Any, operands: list[SimArray]) -> Any:
        if isinstance(result, tuple | list):
            return type(result)([self._wrap(item, operands) for item in result])
        if isinstance(result, np.generic):
            result = np.asarray(result)
        if not isinstance(result, np.ndarray):
            return result
        for operand in operands:
            if result is operand._memory:
                return operand
            if result.base is not None and np.may_share_memory(result, operand._memory):
                return operand._view(result)
        self._device.counters.launches += 1
        return SimArray(result, self._device)


cpu = Cpu()
_devices: dict[str, Device] = {"cpu": cpu}


def device(name: str | Device) -> Device:
    """The device called `name`.

    Parameters
    ----------
    name : str or Device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"sim"``, ``"sim:1"``; a Device is handed back.

    Raises
    ------
    DeviceError
        The name is unknown, CuPy is missing, or there is no such GPU.
    """
    if isinstance(name, Device):
        return name
    if not isinstance(name, str):
        raise TypeError(f"device: expected a name such as 'cpu' or 'sim:0', got {type(name).__name__}.")
    kind, _, index = name.partition(":")
    if kind in ("cuda", "sim") and (index == "" or index.isdecimal()):
        name = f"{kind}:{int(index or 0)}"
        if name not in _devices:
            _devices[name] = Cuda(int(index or 0)) if kind == "cuda" else Sim(int(index or 0))
    if name not in _devices:
        raise DeviceError(
            f"device: {name!r} is not a device; there are 'cpu', 'cuda:0', 'cuda:1', ..., 'sim:0', 'sim:1', ..."
        )
    return _devices[name]


def device_of(array: Array, name: str = "device_of") -> Device:
    """The device a bare array lives on; `name` is who asks, for the error."""
    if isinstance(array, np.ndarray | np.generic):
        return cpu
    if isinstance(array, SimArray):
        return array.device
    if type(array).__module__.partition(".")[0] == "cupy":
        return device(f"cuda:{array.device.id}")
    raise TypeError(
        f"{name}: {type(array).__name__} is not an array of any device; expected an array, a Tensor or a number."
    )


def is_writable(array: Array) -> bool:
    """Whether a bare array may be written to.

    CuPy has no read-only arrays; there a broadcast view, whose entries share memory, is known by its strides.
    """
    if isinstance(array, np.ndarray | SimArray):
        return bool(array.flags.writeable)
    return not any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))


def shares_memory(a: Array, b: Array) -> bool:
    """Whether two bare arrays of one device overlap in memory."""
    if device_of(a) is not device_of(b):
        return False
    if isinstance(a, SimArray):
        return bool(np.shares_memory(a._memory, b._memory))
    return bool(device_of(a).xp.shares_memory(a, b))


def move(array: Array, target: str | Device) -> Array:
    """A bare array on another device, through the host; itself if it is there already."""
    there, here = device(target), device_of(array)
    return array if there is here else there.from_host(here.to_host(array))


def check_one_device(name: str, arrays: Sequence[Array]) -> None:
    """Raise DeviceError when bare arrays live on more than one device; Python numbers live on all."""
    names = {device_of(array).name: None for array in arrays if not isinstance(array, bool | int | float)}
    if len(names) > 1:
        first, second = list(names)[:2]
        raise DeviceError(f"{name}: inputs are on {first} and {second}. Move one of them: x.to('{first}').")
