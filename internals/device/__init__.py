"""Where arrays live: ``cpu`` (NumPy), ``cuda:i`` (CuPy) and ``sim:i``, a simulated accelerator.

A device is a name, an array module (`xp`, with NumPy's interface), two transfers and a memory pool. Kernels are
written once, against `xp`, and run on whichever arrays they are given.
"""

from internals.device.base import Array, Cpu, Device, DeviceError
from internals.device.cuda import Cuda, cuda_is_available
from internals.device.lookup import (
    base_array,
    check_one_device,
    cpu,
    device,
    device_of,
    is_writable,
    move,
    shares_memory,
)
from internals.device.sim import Counters, Sim, SimArray, SimModule, pick
from internals.device.timing import Clock, Event, Model

__all__ = [
    "Array",
    "Clock",
    "Counters",
    "Cpu",
    "Cuda",
    "Device",
    "DeviceError",
    "Event",
    "Model",
    "Sim",
    "SimArray",
    "SimModule",
    "base_array",
    "check_one_device",
    "cpu",
    "cuda_is_available",
    "device",
    "device_of",
    "is_writable",
    "move",
    "pick",
    "shares_memory",
]
