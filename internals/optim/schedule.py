"""Schedules: the step size as a function of the step.

A schedule is told ``step()`` after each step of its optimizer (or after each epoch: it counts what it is told). Most
multiply the step size that is there, so that schedules can be chained and a step size changed by hand stays changed;
`at` is the same in closed form, from the step size at the start.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from internals.optim.optimizer import Optimizer


class Schedule:
    """The base of the schedules that only count.

    Parameters
    ----------
    optimizer : Optimizer
        The step size of each group when the first schedule is made is its ``"initial_lr"``.

    Attributes
    ----------
    t : int
        How often `step` was called.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{self._name}: expected an optimizer first, got {type(optimizer).__name__}.")
        self.optimizer, self.t = optimizer, 0
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.begin()

    def begin(self) -> None:
        """Set the step sizes of step 0."""
        for number, group in enumerate(self.optimizer.param_groups):
            group["lr"] = float(group["lr"] * self._ratio(number, group))

    def _ratio(self, number: int, group: Mapping[str, Any]) -> float:
        initial = group["initial_lr"]
        return self.at(initial, 0, number) / initial if initial else 1.0

    def at(self, initial: float, t: int, group: int = 0) -> float:
        """The step size of step `t`, in closed form."""
        raise NotImplementedError(f"{self._name} has no closed form; write at.")

    def move(self, lr: float, initial: float, t: int, group: int = 0) -> float:
        """The step size of step `t`, from that of step ``t - 1``."""
        return self.at(initial, t, group)

    def step(self) -> None:
        """Set the step sizes of the next step."""
        self.t += 1
        for number, group in enumerate(self.optimizer.param_groups):
            group["lr"] = float(self.move(group["lr"], group["initial_lr"], self.t, number))

    def restart(self) -> None:
        """Go back to step 0 and its step sizes, as `SequentialLR` does when it comes to this schedule."""
        self.t = 0
        for number, group in enumerate(self.optimizer.param_groups):
            group["lr"] = float(self.at(group["initial_lr"], 0, number))

    @property
    def last_lr(self) -> list[float]:
        """The step size of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    kept: ClassVar[tuple[str, ...]] = ("t",)
    """What a saved schedule resumes from; its settings are given anew, the step sizes are the optimizer's."""

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule is; to be saved with the optimizer's state, which has the step sizes."""
        return {name: getattr(self, name) for name in self.kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        if state.keys() != set(self.kept):
            raise ValueError(
                f"{self._name}: load_state_dict: got {', '.join(map(str, state))}; expected {', '.join(self.kept)}. "
                "Was it saved by another schedule?"
            )
        for name in self.kept:
            setattr(self, name, state[name])

    @property
    def _name(self) -> str:
        return type(self).__name__


class LambdaLR(Schedule):
    """``initial * factor(t)``.

    Parameters
    ----------
    factor : callable ``factor(t) -> float``, or one for each group
    """

    def __init__(self, optimizer: Optimizer, factor: Callable[[int], float] | Sequence[Callable[[int], float]]) -> None:
        groups = len(optimizer.param_groups) if isinstance(optimizer, Optimizer) else 0
        self.factors = [factor] * groups if callable(factor) else list(factor) if isinstance(factor, Sequence) else []
        if len(self.factors) != groups and groups:
            raise ValueError(f"LambdaLR: {len(self.factors)} functions for {groups} groups; give one for each, or one.")
        if not all(callable(one) for one in self.factors):
            raise TypeError("LambdaLR: a factor must be a function of the step, or there must be one for each group.")
        super().__init__(optimizer)

    def begin(self) -> None:
        self.restart()

    def at(self, initial: float, t: int, group: int = 0) -> float:
        return initial * self.factors[group](t)


class StepLR(Schedule):
    """Times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        check_positive("StepLR", "step_size", step_size)
        check_number("StepLR", "gamma", gamma)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def at(self, initial: float, t: int, group: int = 0) -> float:
        return initial * self.gamma ** (t // self.step_size)

    def move(self, lr: float, initial: float, t: int, group: int = 0) -> float:
        return lr if t % self.step_size else lr * self.gamma


class MultiStepLR(Schedule):
    """Times `gamma` at each of the `milestones`; at one that is there twice, twice."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        if not all(isinstance(milestone, int) for milestone in milestones):
            raise TypeError(f"MultiStepLR: milestones must be whole numbers, got {milestones!r}.")
        check_number("MultiStepLR", "gamma", gamma)
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer)

    def at(self, initial: float, t: int, group: int = 0) -> float:
        return initial * self.gamma ** bisect_right(self.milestones, t)

    def move(self, lr: float, initial: float, t: int, group: int = 0) -> float:
        return lr * self.gamma ** self.milestones.count(t)


class ExponentialLR(Schedule):
    """Times `gamma` in every step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        check_number("ExponentialLR", "gamma", gamma)
        self.gamma = gamma
        super().__init__(optimizer)

    def at(self, initial: float, t: int, group: int = 0) -> float:
        return initial * self.gamma**t

    def move(self, lr: float, initial: float, t: int, group: int = 0) -> float:
        return lr * self.gamma


class LinearLR(Schedule):
    """Warm-up: from `start_factor` to `end_factor` of the step size in `total_steps` steps, along a line.

    References
    ----------
    Goyal et al. (2017), Accurate, large minibatch SGD: training ImageNet in 1 hour, §2.2.
    """

    def __init__(
        self, optimizer: Optimizer, total_steps: int, *, start_factor: float = 1 / 3, end_factor: float = 1.0
    ) -> None:
        check_positive("LinearLR", "total_steps", total_steps)
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(
                f"LinearLR: start_factor must be in (0, 1] and end_factor in [0, 1], got {start_factor} and "
                f"{end_factor}."
            )
        self.total_steps, self.start_factor, self.end_factor = total_steps, start_factor, end_factor
        super().__init__(optimizer)

    def _factor(self, t: int) -> float:
        return self.start_factor + (self.end_factor - self.start_factor) * min(t, self.total_steps) / self.total_steps

    def at(self, initial: float, t: int, group: int = 0) -> float:
        return initial * self._factor(t)

    def move(self, lr: float, initial: float, t: int, group: int = 0) -> float:
        return lr if t > self.total_steps else lr * self._factor(t) / self._factor(t - 1)


class CosineAnnealingLR(Schedule):
    """Down half a cosine from the step size to `eta_min` in `total_steps` steps, and up again if it goes on.

    References
    ----------
    Loshchilov and Hutter (2017), SGDR: stochastic gradient descent with warm restarts, eq. 5; without the restarts.
    """

    def __init__(self, optimizer: Optimizer, total_steps: int, eta_min: float = 0.0) -> None:
        check_positive("CosineAnnealingLR", "total_steps", total_steps)
        check_number("CosineAnnealingLR", "eta_min", eta_min)
        self.total_steps, self.eta_min = total_steps, eta_min
        super().__init__(optimizer)

    def _height(self, t: int) -> float:
        return (1 + math.cos(math.pi * t / self.total_steps)) / 2

    def at(self, initial: float, t: int, group: int = 0) -> float:
        return self.eta_min + (initial - self.eta_min) * self._height(t)

    def move(self, lr: float, initial: float, t: int, group: int = 0) -> float:
        if (t - 1) % (
            2 * self.total_steps
        ) == self.total_steps:  # up from the bottom, where there is nothing to multiply
            return lr + (initial - self.eta_min) * self._height(t)
        return self.eta_min + (lr - self.eta_min) * self._height(t) / self._height(t - 1)


def check_positive(who: str, name: str, value: int) -> None:
    """Raise unless a number of steps is one."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{who}: {name} must be a positive integer, got {value!r}.")


def check_number(who: str, name: str, value: float) -> None:
    """Raise unless a factor is a finite number that is not negative."""
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{who}: {name} must be a number, finite and not negative, got {value!r}.")
