"""Several schedules on one optimizer: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from internals.optim.optimizer import Optimizer
from internals.optim.schedule import Schedule


class Combination(Schedule):
    """What schedules made of schedules share: checks, and state that holds that of the parts."""

    def __init__(self, optimizer: Optimizer, schedules: Sequence[Schedule]) -> None:
        if not schedules or not all(isinstance(schedule, Schedule) for schedule in schedules):
            raise TypeError(f"{self._name}: expected a list of schedules, got {list(schedules)!r}.")
        if any(schedule.optimizer is not optimizer for schedule in schedules):
            raise ValueError(f"{self._name}: all schedules must be on the same optimizer.")
        self.schedules = list(schedules)
        super().__init__(optimizer)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"schedules": [schedule.state_dict() for schedule in self.schedules]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        parts = state.get("schedules", [])
        if len(parts) != len(self.schedules):
            raise ValueError(
                f"{self._name}: load_state_dict: {len(parts)} schedules, but this has {len(self.schedules)}."
            )
        super().load_state_dict({name: value for name, value in state.items() if name != "schedules"})
        for schedule, part in zip(self.schedules, parts, strict=True):
            schedule.load_state_dict(part)


class SequentialLR(Combination):
    """One schedule after the other: from the step `milestones[i]` on, the schedule i + 1, from its own step 0.

    A warm-up and what follows it::

        SequentialLR(optimizer, [LinearLR(optimizer, 10), CosineAnnealingLR(optimizer, 90)], milestones=[10])
    """

    def __init__(self, optimizer: Optimizer, schedules: Sequence[Schedule], milestones: Sequence[int]) -> None:
        if len(milestones) != len(schedules) - 1 or list(milestones) != sorted(set(milestones)):
            raise ValueError(
                f"SequentialLR: {len(schedules)} schedules need {len(schedules) - 1} rising milestones, got "
                f"{list(milestones)}."
            )
        self.milestones = list(milestones)
        super().__init__(optimizer, schedules)

    def begin(self) -> None:
        self.schedules[0].restart()  # the others' first step sizes are undone

    def step(self) -> None:
        self.t += 1
        place = bisect_right(self.milestones, self.t)
        if self.t in self.milestones:
            self.schedules[place].restart()
        else:
            self.schedules[place].step()


class ChainedScheduler(Combination):
    """All the schedules at once: each moves the step size that the one before it left."""

    def __init__(self, schedules: Sequence[Schedule]) -> None:
        super().__init__(schedules[0].optimizer if schedules else None, schedules)  # type: ignore[arg-type]  # refused

    def begin(self) -> None:
        pass  # each schedule has begun when it was made

    def step(self) -> None:
        self.t += 1
        for schedule in self.schedules:
            schedule.step()
