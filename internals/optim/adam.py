"""Adam, AdamW and Lion: a mean of gradients gives the direction, and its size is levelled entry by entry."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from internals.device import Array
from internals.optim.optimizer import Optimizer, Settings, State


class Adam(Optimizer):
    """Running means of the gradient and of its square, corrected for their start at zero, give each entry its step.

    ::

        m = β₁ m + (1 - β₁) g
        v = β₂ v + (1 - β₂) g²
        x -= lr * m̂ / (√v̂ + eps)      m̂ = m / (1 - β₁ᵗ),  v̂ = v / (1 - β₂ᵗ)

    Parameters
    ----------
    parameters, lr, maximize
        See `SGD`.
    betas : (float, float)
        β₁ and β₂, each in [0, 1).
    eps : float
        Keeps the step finite where v̂ is 0.
    weight_decay : float
        Times the parameter, added to the gradient, so that it goes into m and v; in AdamW it does not.
    amsgrad : bool
        Divide by the largest v so far, so that the step size never grows.

    Notes
    -----
    PyTorch's, and Algorithm 1 of the paper. Keras adds eps before v is corrected (the paper's eps hat, end of §2):
    ``lr √(1 - β₂ᵗ) / (1 - β₁ᵗ) * m / (√v + eps)`` with eps = 1e-7. The same steps where eps is too small to matter.

    References
    ----------
    Kingma and Ba (2015), Adam: a method for stochastic optimization. AMSGrad: Reddi, Kale, Kumar (2018), On the
    convergence of Adam and beyond.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(parameters, settings | {"maximize": maximize})

    def check(self, settings: Settings) -> None:
        self.within(settings, "betas", 0, 1)
        self.within(settings, "eps", 0, math.inf)

    def slots(self, settings: Settings) -> tuple[str, ...]:
        return ("m", "v", "v_max") if settings["amsgrad"] else ("m", "v")

    def update(self, xp: Any, x: Array, g: Array, step: int, state: State, settings: Settings) -> None:
        beta1, beta2 = settings["betas"]
        m, v = state["m"], state["v"]
        xp.add(m, (1 - beta1) * (g - m), out=m)
        xp.multiply(v, beta2, out=v)
        xp.add(v, (1 - beta2) * g * g, out=v)
        if settings["amsgrad"]:
            v = xp.maximum(state["v_max"], v, out=state["v_max"])
        lr = settings["lr"] / (1 - beta1**step)
        xp.subtract(x, lr * m / (xp.sqrt(v) / math.sqrt(1 - beta2**step) + settings["eps"]), out=x)


class AdamW(Adam):
    """Adam, with the weight decay outside: ``x *= 1 - lr * weight_decay`` before each step.

    Added to the gradient, decay would be divided by √v̂ like the gradient itself, and weights with large gradients
    would hardly decay.

    Parameters
    ----------
    parameters, lr, betas, eps, amsgrad, maximize
        See `Adam`.
    weight_decay : float

    References
    ----------
    Loshchilov and Hutter (2019), Decoupled weight decay regularization. As in PyTorch and Keras, the decay is scaled by
    lr; in the paper by a factor that a schedule shares with lr.
    """

    coupled_decay: ClassVar[bool] = False

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            parameters, lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize
        )


class Lion(Optimizer):
    """Only the sign of the direction counts, so every entry moves by lr: ``x -= lr * sign(β₁ m + (1 - β₁) g)``.

    Then ``m = β₂ m + (1 - β₂) g``. Half of Adam's memory; wants an lr 3 to 10 times smaller.

    Parameters
    ----------
    parameters, lr, maximize
        See `SGD`.
    betas : (float, float)
        β₁ and β₂, each in [0, 1).
    weight_decay : float
        Decoupled, as in `AdamW`.

    References
    ----------
    Chen et al. (2023), Symbolic discovery of optimization algorithms, Algorithm 2. As Keras has it; PyTorch has none.
    """

    coupled_decay: ClassVar[bool] = False

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-4,
        *,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    def check(self, settings: Settings) -> None:
        self.within(settings, "betas", 0, 1)

    def slots(self, settings: Settings) -> tuple[str, ...]:
        return ("m",)

    def update(self, xp: Any, x: Array, g: Array, step: int, state: State, settings: Settings) -> None:
        beta1, beta2 = settings["betas"]
        m = state["m"]
        xp.subtract(x, settings["lr"] * xp.sign(beta1 * m + (1 - beta1) * g), out=x)
        xp.multiply(m, beta2, out=m)
        xp.add(m, (1 - beta2) * g, out=m)
