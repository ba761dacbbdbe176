"""Stochastic gradient descent, with the momentum of a heavy ball or of Nesterov."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from internals.device import Array
from internals.optim.optimizer import Optimizer, Settings, State


class SGD(Optimizer):
    """``v = momentum * v + (1 - dampening) * g;  x -= lr * v``, and with Nesterov ``x -= lr * (g + momentum * v)``.

    Parameters
    ----------
    parameters : iterable of Tensors that require a gradient, or of groups; see `Optimizer`
    lr : float
        Step size, positive.
    momentum : float
        In [0, 1); 0 is plain gradient descent. The first velocity is the first gradient, undamped, as in PyTorch.
    dampening : float
        How much of each new gradient is left out of the velocity.
    nesterov : bool
        Look ahead along the velocity; wants a momentum and no dampening.
    weight_decay : float
        Times the parameter, added to the gradient: L2 regularisation. Keras's `weight_decay` shrinks the weight
        instead, as AdamW does.
    maximize : bool
        Go up the gradient.

    Raises
    ------
    TypeError, ValueError
        See `Optimizer`.

    Notes
    -----
    Keras keeps the velocity ``momentum * v - lr * g``: the same steps while lr stays as it is, others once it changes.

    References
    ----------
    Polyak (1964), Some methods of speeding up the convergence of iteration methods. Sutskever et al. (2013), On the
    importance of initialization and momentum in deep learning, whose form of Nesterov's (1983) method this is.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
        super().__init__(parameters, settings | {"weight_decay": weight_decay, "maximize": maximize})

    def check(self, settings: Settings) -> None:
        self.within(settings, "momentum", 0, 1)
        if settings["nesterov"] and not (settings["momentum"] > 0 and settings["dampening"] == 0):
            raise ValueError(
                f"SGD: nesterov wants a momentum and no dampening, got momentum={settings['momentum']}, "
                f"dampening={settings['dampening']}."
            )

    def slots(self, settings: Settings) -> tuple[str, ...]:
        return ("velocity",) if settings["momentum"] else ()

    def update(self, xp: Any, x: Array, g: Array, step: int, state: State, settings: Settings) -> None:
        lr, momentum, dampening = settings["lr"], settings["momentum"], settings["dampening"]
        if momentum:
            velocity = state["velocity"]
            if step == 1:
                velocity[...] = g
            else:
                xp.multiply(velocity, momentum, out=velocity)
                xp.add(velocity, (1 - dampening) * g if dampening else g, out=velocity)
            g = g + momentum * velocity if settings["nesterov"] else velocity
        xp.subtract(x, lr * g, out=x)
