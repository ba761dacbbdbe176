"""A step size for every entry, from the squares of its gradients: AdaGrad, which adds them up, and RMSProp."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from internals.device import Array
from internals.optim.optimizer import Optimizer, Settings, State


class AdaGrad(Optimizer):
    """``s += g²;  x -= lr * g / (√s + eps)``.

    Parameters
    ----------
    parameters, lr, weight_decay, maximize
        See `SGD`.
    lr_decay : float
        The step size in step t is ``lr / (1 + (t - 1) * lr_decay)``.
    initial_accumulator_value : float
        Where s starts.
    eps : float

    Notes
    -----
    PyTorch's. Keras has ``lr * g / √(s + eps)``, eps = 1e-7, and s starts at 0.1: the same steps where eps is too
    small to matter and s starts alike.

    References
    ----------
    Duchi, Hazan, Singer (2011), Adaptive subgradient methods for online learning and stochastic optimization.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-2,
        *,
        lr_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        settings = {
            "lr": lr,
            "lr_decay": lr_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(parameters, settings)

    def check(self, settings: Settings) -> None:
        for name in ("lr_decay", "initial_accumulator_value", "eps"):
            self.within(settings, name, 0, math.inf)

    def slots(self, settings: Settings) -> tuple[str, ...]:
        return ("sum",)

    def start(self, slot: str, parameter: Array, xp: Any, settings: Settings) -> Array:
        return xp.full_like(parameter, settings["initial_accumulator_value"])

    def update(self, xp: Any, x: Array, g: Array, step: int, state: State, settings: Settings) -> None:
        lr = settings["lr"] / (1 + (step - 1) * settings["lr_decay"])
        total = state["sum"]
        xp.add(total, g * g, out=total)
        xp.subtract(x, lr * g / (xp.sqrt(total) + settings["eps"]), out=x)


class RMSProp(Optimizer):
    """``s = alpha * s + (1 - alpha) * g²;  x -= lr * g / (√s + eps)``.

    Parameters
    ----------
    parameters, lr, weight_decay, maximize
        See `SGD`.
    alpha : float
        How much of the mean square is kept in each step; in [0, 1).
    eps : float
    momentum : float
        Above 0, the step is not ``g / (√s + eps)`` but its velocity ``v = momentum * v + g / (√s + eps)``.
    centered : bool
        Take the variance of the gradient for s: subtract the square of its mean.

    Notes
    -----
    PyTorch's. Keras and TensorFlow have eps inside the root, ``√(s + eps)`` with eps = 1e-7, call alpha `rho` (0.9
    unless given), and keep lr inside the velocity: the same steps where eps is too small to matter and lr stays.

    References
    ----------
    Tieleman and Hinton (2012), Lecture 6.5 of Neural Networks for Machine Learning. Centred: Graves (2013), Generating
    sequences with recurrent neural networks, eq. 38-45.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-2,
        *,
        alpha: float = 0.99,
        eps: float = 1e-8,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "momentum": momentum, "centered": centered}
        super().__init__(parameters, settings | {"weight_decay": weight_decay, "maximize": maximize})

    def check(self, settings: Settings) -> None:
        self.within(settings, "alpha", 0, 1)
        self.within(settings, "eps", 0, math.inf)
        self.within(settings, "momentum", 0, 1)

    def slots(self, settings: Settings) -> tuple[str, ...]:
        more = ("mean",) if settings["centered"] else ()
        return ("mean_square", *more, "velocity") if settings["momentum"] else ("mean_square", *more)

    def update(self, xp: Any, x: Array, g: Array, step: int, state: State, settings: Settings) -> None:
        lr, alpha = settings["lr"], settings["alpha"]
        s = state["mean_square"]
        xp.multiply(s, alpha, out=s)
        xp.add(s, (1 - alpha) * g * g, out=s)
        if settings["centered"]:
            mean = state["mean"]
            xp.add(mean, (1 - alpha) * (g - mean), out=mean)
            s = s - mean * mean
        direction = g / (xp.sqrt(s) + settings["eps"])
        if settings["momentum"]:
            velocity = state["velocity"]
            xp.multiply(velocity, settings["momentum"], out=velocity)
            xp.add(velocity, direction, out=velocity)
            direction = velocity
        xp.subtract(x, lr * direction, out=x)
