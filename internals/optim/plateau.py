"""A step size that falls when there is no progress."""

from __future__ import annotations

import math
from typing import Any

from internals.optim.optimizer import Optimizer
from internals.optim.schedule import Schedule


class ReduceLROnPlateau(Schedule):
    """Times `factor` when what is watched has not got better for more than `patience` steps.

    Parameters
    ----------
    optimizer : Optimizer
    mode : {"min", "max"}
        Whether a lower value is better (a loss) or a higher one (an accuracy).
    factor : float
        In (0, 1).
    patience : int
        Steps without progress that are let pass.
    threshold, threshold_mode : float, {"rel", "abs"}
        By how much a value must be better than the best, as a share of it or as it is.
    cooldown : int
        Steps after a reduction in which nothing is counted.
    min_lr : float
    eps : float
        A reduction by less is not made.

    Attributes
    ----------
    best : float
    num_bad_epochs : int
        Steps since there was progress.
    """

    kept = ("t", "best", "num_bad_epochs", "cooldown_counter")

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                "ReduceLROnPlateau: mode must be 'min' or 'max' and threshold_mode 'rel' or 'abs', got "
                f"{mode!r} and {threshold_mode!r}."
            )
        if not 0 < factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be in (0, 1), got {factor}.")
        self.mode, self.factor, self.patience, self.cooldown = mode, factor, patience, cooldown
        self.threshold, self.threshold_mode, self.min_lr, self.eps = threshold, threshold_mode, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        super().__init__(optimizer)

    def begin(self) -> None:
        pass  # the step sizes are the optimizer's until something is seen

    def step(self, value: Any = None) -> None:
        """Take note of a value, and lower the step sizes if it is time.

        Parameters
        ----------
        value : float or Tensor of one entry
            NaN is no progress.
        """
        if value is None:
            raise TypeError("ReduceLROnPlateau: step wants the value that is watched: step(loss).")
        current = float(value)
        self.t += 1
        if self._better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                lowered = max(group["lr"] * self.factor, self.min_lr)
                if group["lr"] - lowered > self.eps:
                    group["lr"] = lowered
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _better(self, value: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        margin = sign * self.threshold
        bar = self.best * (1 + margin) if self.threshold_mode == "rel" else self.best + margin
        return sign * value > sign * bar
