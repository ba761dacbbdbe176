"""Optimizers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from internals import optim
from internals.front.names import choose
from internals.tensor import Tensor

OPTIMIZERS: dict[str, Callable[[list[Tensor]], optim.Optimizer]] = {
    "sgd": lambda parameters: optim.SGD(parameters, lr=0.01),
    "adam": lambda parameters: optim.Adam(parameters, lr=0.001, eps=1e-7),
    "adamw": lambda parameters: optim.AdamW(parameters, lr=0.001, eps=1e-7, weight_decay=0.004),
    "rmsprop": lambda parameters: optim.RMSProp(parameters, lr=0.001, alpha=0.9, eps=1e-7),
    "adagrad": lambda parameters: optim.AdaGrad(parameters, lr=0.001, initial_accumulator_value=0.1, eps=1e-7),
    "lion": lambda parameters: optim.Lion(parameters, lr=0.001, betas=(0.9, 0.99)),
}
"""By Keras's names, with Keras's settings."""


def optimizer(wanted: Any) -> Any:
    """The function that makes the optimizer of a name; a function, or an optimizer, is handed back.

    Raises
    ------
    TypeError
        A class that can't be made from the parameters alone.
    """
    if wanted is optim.SGD:
        raise TypeError("compile: SGD needs a step size: lambda parameters: optim.SGD(parameters, lr=0.1).")
    return wanted if isinstance(wanted, optim.Optimizer) else choose("optimizer", wanted, OPTIMIZERS)
