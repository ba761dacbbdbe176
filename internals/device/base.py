"""What every device offers, and the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from internals.memory import Pool

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
    memory : Pool
        The caching pool its arrays lie in. `cpu` has none.
    """

    name: str
    xp: Any
    memory: Pool

    def from_host(self, array: np.ndarray) -> Array:
        """Copy a NumPy array to this device (no copy where this device is the host)."""
        raise NotImplementedError

    def to_host(self, array: Array) -> np.ndarray:
        """Copy an array of this device into a NumPy array (no copy where this device is the host)."""
        raise NotImplementedError

    def synchronise(self) -> None:
        """Wait until the device has done all that it was given; nothing to wait for where this device is the host."""

    def scope(self) -> AbstractContextManager[object]:
        """Within it, new arrays are made on this device."""
        return nullcontext()

    def __reduce__(self) -> tuple[Callable[[str], Device], tuple[str]]:
        # A device is one of its kind: copies and what is unpickled are the device of that name.
        from internals.device.lookup import device

        return device, (self.name,)

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __str__(self) -> str:
        return self.name


class Cpu(Device):
    name = "cpu"
    xp = np

    @property
    def memory(self) -> Pool:  # type: ignore[override]
        raise DeviceError(
            "cpu: there is no pool here; NumPy asks the system for memory. Use 'sim:0' for a pool to look at."
        )

    def from_host(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_host(self, array: np.ndarray) -> np.ndarray:
        return array
