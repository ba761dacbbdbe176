"""Devices by name, and which device an array lives on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from internals.device.base import Array, Cpu, Device, DeviceError
from internals.device.cuda import Cuda
from internals.device.sim import Sim, SimArray

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


def base_array(array: Array, name: str) -> Array:
    """The same memory as an array of NumPy's own class, where it is of a subclass such as a matrix or a memory map.

    A subclass has rules of its own: ``*`` of two matrices is a matrix product. `name` is who asks, for the error.

    Raises
    ------
    TypeError
        The array is masked: its own class knows which entries have a value, the base class does not.
    """
    if type(array) is np.ndarray or not isinstance(array, np.ndarray):
        return array
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array has entries without a value. Give them one: x.filled(0).")
    return np.asarray(array)


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
