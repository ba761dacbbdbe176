"""A small deep-learning framework, made to be read: one op table, executed in every style there is.

Importing it costs nothing but NumPy.
"""

from importlib import import_module
from typing import Any

from internals import autodiff, memory, nn, ops, optim
from internals.autodiff import grad
from internals.device import DeviceError, cuda_is_available, device
from internals.tensor import (
    Tensor,
    arange,
    enable_grad,
    eye,
    full,
    linspace,
    no_grad,
    normal,
    ones,
    shares_memory,
    uniform,
    zeros,
)

memory.keep_freed_memory()

__all__ = [
    "DeviceError",
    "Tensor",
    "arange",
    "autodiff",
    "cuda_is_available",
    "device",
    "enable_grad",
    "eye",
    "full",
    "grad",
    "linspace",
    "memory",
    "nn",
    "no_grad",
    "normal",
    "ones",
    "ops",
    "optim",
    "shares_memory",
    "uniform",
    "zeros",
]


def __getattr__(name: str) -> Any:
    """Rooms that are imported when they are first asked for."""
    if name in ("data", "front"):
        return import_module(f"internals.{name}")
    raise AttributeError(f"module 'internals' has no attribute {name!r}")
