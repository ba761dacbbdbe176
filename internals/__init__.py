"""A small deep-learning framework, made to be read: one op table, executed in every style there is.

Importing it costs nothing but NumPy.
"""

from internals import autodiff, memory, nn, ops, optim
from internals.autodiff import grad
from internals.device import DeviceError, cuda_is_available, device
from internals.tensor import Tensor, enable_grad, no_grad, shares_memory

__all__ = [
    "DeviceError",
    "Tensor",
    "autodiff",
    "cuda_is_available",
    "device",
    "enable_grad",
    "grad",
    "memory",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "shares_memory",
]
