"""Momentum in the style of the time: the step size goes into the velocity, and each parameter has multipliers."""

from __future__ import annotations

from collections.abc import Iterable

from internals.layers.argument import Parameter
from internals.layers.layer import PARTS


def update(parameter: Parameter, lr: float, momentum: float, decay: float) -> None:
    """One step: ``v = momentum * v + lr * lr_mult * (g + decay * decay_mult * w)``, then ``w -= v``.

    A parameter without a gradient stays as it is. torch.optim.SGD keeps the step size out of v: the same steps while it
    is constant, others when it changes.
    """
    if parameter.gradient is None or parameter.static:
        return
    g = parameter.gradient
    if decay and parameter.decay_mult:
        g = g + (decay * parameter.decay_mult) * parameter.value
    step = (lr * parameter.lr_mult) * g
    if momentum:
        step = step if parameter.momentum is None else momentum * parameter.momentum + step
        parameter.momentum = step
    parameter.value = parameter.value - step


PARTS["update"] = update


class Momentum:
    """Stochastic gradient descent with momentum, over parameters that each have an ``lr_mult`` and a ``decay_mult``.

    Parameters
    ----------
    lr : float
        Positive; may be changed between steps.
    momentum : float
        In [0, 1).
    decay : float
        L2 regularisation: this times the value is added to the gradient.

    Raises
    ------
    ValueError
        A setting is out of range.
    """

    def __init__(self, lr: float, *, momentum: float = 0.0, decay: float = 0.0) -> None:
        for name, value, right in (
            ("lr", lr, lr > 0),
            ("momentum", momentum, 0 <= momentum < 1),
            ("decay", decay, decay >= 0),
        ):
            if not right:
                raise ValueError(
                    f"Momentum: {name} is {value!r}; lr must be positive, momentum in [0, 1), decay not negative."
                )
        self.lr, self.momentum, self.decay = lr, momentum, decay

    def __call__(self, parameter: Parameter) -> None:
        """Update one parameter; what `GradientMachine.forward_backward` takes as its callback."""
        PARTS["update"](parameter, self.lr, self.momentum, self.decay)

    def step(self, parameters: Iterable[Parameter]) -> None:
        """Update all of them."""
        for parameter in parameters:
            self(parameter)
