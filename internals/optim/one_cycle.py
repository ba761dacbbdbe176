"""One cycle of the step size over all of training."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from internals.optim.optimizer import Optimizer
from internals.optim.schedule import Schedule, check_positive


class OneCycleLR(Schedule):
    """Up to `max_lr` and down to far below the start, over all of training, while the momentum goes the other way.

    Parameters
    ----------
    max_lr : float
    total_steps : int
        All steps of the training; one more is an error.
    pct_start : float
        The share of the steps that goes up.
    anneal_strategy : {"cos", "linear"}
    cycle_momentum : bool
        Move the momentum (or β₁) between `max_momentum`, where lr is small, and `base_momentum`.
    div_factor, final_div_factor : float
        It starts at ``max_lr / div_factor`` and ends at ``max_lr / div_factor / final_div_factor``.
    three_phase : bool
        Down as it went up, and only then to the end.

    References
    ----------
    Smith and Topin (2019), Super-convergence: very fast training of neural networks using large learning rates.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        *,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        check_positive("OneCycleLR", "total_steps", total_steps)
        if not max_lr > 0 or not div_factor > 0 or not final_div_factor > 0:
            raise ValueError(
                "OneCycleLR: max_lr, div_factor and final_div_factor must be positive, got "
                f"{max_lr}, {div_factor} and {final_div_factor}."
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}.")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be in [0, 1], got {pct_start}.")
        start = max_lr / div_factor
        lrs = [start, max_lr, start / final_div_factor]
        momenta = [max_momentum, base_momentum, max_momentum]
        ends = [pct_start * total_steps - 1, total_steps - 1]
        if three_phase:
            lrs.insert(2, start)
            momenta.append(max_momentum)
            ends.insert(1, 2 * pct_start * total_steps - 2)
        self.total_steps, self._lrs, self._momenta, self._ends = total_steps, lrs, momenta, ends
        self._along = _cosine if anneal_strategy == "cos" else _line
        self._momentum = None
        if cycle_momentum and isinstance(optimizer, Optimizer):
            self._momentum = next((name for name in ("betas", "momentum") if optimizer.param_groups[0].get(name)), None)
            if self._momentum is None:
                raise ValueError(
                    f"OneCycleLR: {type(optimizer).__name__} has no momentum to move; pass cycle_momentum=False."
                )
        super().__init__(optimizer)

    def begin(self) -> None:
        for group in self.optimizer.param_groups:
            group["initial_lr"] = group["lr"] = self._lrs[0]
        self._set_momentum()

    def _on_the_way(self, values: Sequence[float], t: int) -> float:
        phase = min(bisect_left(self._ends, t), len(self._ends) - 1)
        begin, end = self._ends[phase - 1] if phase else 0.0, self._ends[phase]
        return self._along(values[phase], values[phase + 1], (t - begin) / (end - begin) if end != begin else 1.0)

    def at(self, initial: float, t: int, group: int = 0) -> float:
        if t >= self.total_steps:
            raise ValueError(f"OneCycleLR: step {t} is past the cycle; total_steps is {self.total_steps}.")
        return self._on_the_way(self._lrs, t)

    def step(self) -> None:
        super().step()
        self._set_momentum()

    def _set_momentum(self) -> None:
        if self._momentum is None:
            return
        momentum = self._on_the_way(self._momenta, self.t)
        for group in self.optimizer.param_groups:
            group[self._momentum] = momentum if self._momentum == "momentum" else (momentum, *group["betas"][1:])


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share
