"""The eager Tensor: compute at once, and write down what was done."""

import sys
from types import ModuleType
from typing import Any, NoReturn

from internals.tensor.eager import run_eagerly, wrap
from internals.tensor.fill import arange, eye, full, linspace, normal, ones, uniform, zeros
from internals.tensor.node import (
    Leaf,
    Node,
    enable_grad,
    install_reverse_pass,
    is_recording,
    no_grad,
    specs_of,
)
from internals.tensor.storage import Storage, shares_memory
from internals.tensor.tensor import Tensor

__all__ = [
    "Leaf",
    "Node",
    "Storage",
    "Tensor",
    "arange",
    "enable_grad",
    "eye",
    "full",
    "install_reverse_pass",
    "is_recording",
    "linspace",
    "no_grad",
    "normal",
    "ones",
    "run_eagerly",
    "shares_memory",
    "specs_of",
    "uniform",
    "wrap",
    "zeros",
]


class _Package(ModuleType):
    """Other libraries make a tensor with a function of this package's name."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "internals.tensor is a package, not a function. A tensor is made by its class: internals.Tensor(data, "
            "dtype=..., device=..., requires_grad=...); see also zeros, ones, full, arange and normal."
        )


sys.modules[__name__].__class__ = _Package
