"""A small deep-learning framework, made to be read: one op table, executed in every style there is.

Importing it costs nothing but NumPy.
"""

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
