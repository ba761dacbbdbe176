"""What a training run is, apart from who takes part in it: model, optimizer, step. Kept, taken back, handed over."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.distributed.collectives import all_gather, broadcast
from internals.distributed.group import Group
from internals.nn import Module
from internals.optim import Optimizer

STATE = "elastic/state"


class State:
    """Model, optimizer and step of an elastic run.

    Parameters
    ----------
    model : Module
    optimizer : Optimizer
        Of its parameters.

    Attributes
    ----------
    step : int
        How many steps are done.
    kept : int
        The step of the last `keep`; -1 before the first.
    """

    def __init__(self, model: Module, optimizer: Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self.step = 0
        self.kept = -1
        self._kept: Any = None

    def keep(self) -> None:
        """Remember all of it, as it is now."""
        self._kept = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.kept = self.step

    def take_back(self) -> None:
        """Be what was kept last; gradients are forgotten."""
        if self._kept is None:
            raise ValueError("State: nothing was kept yet")
        self.model.load_state_dict(self._kept["model"])
        self.optimizer.load_state_dict(self._kept["optimizer"])
        self.model.zero_grad()
        self.step = self.kept

    def share(self, group: Group) -> int:
        """Let all ranks have the state of the one that is furthest; the rank it came from.

        A rank is one step further than another if the sum over all ranks reached it just before one died, and the other
        did not get it any more. Its step is as good as any: it was made of what all had sent.
        """
        steps = all_gather(np.array([self.kept]), group=group)[:, 0]
        source = int(steps.argmax())
        if steps[source] < 0:
            self.keep()  # nobody has begun: rank 0's start is everybody's
            source = 0
        mine = group.rank == source
        arrays: list[np.ndarray] = []
        if mine:
            assert self._kept is not None
            form = _taken_apart(self._kept, arrays)
            specs = [[array.dtype.name, list(array.shape)] for array in arrays]
            for rank in range(group.size):
                if rank != source:
                    group.send(rank, STATE, form=form, specs=specs, step=self.kept)
        else:
            told = group.receive(source, STATE).fields
            arrays = [np.empty(shape, dtype) for dtype, shape in told["specs"]]
            form = told["form"]
        for array in arrays:
            broadcast(array, source, group=group)
        if not mine:
            self._kept, self.kept = _put_together(form, arrays), told["step"]
        self.take_back()
        return source


def _taken_apart(value: Any, arrays: list[np.ndarray]) -> Any:
    """Plain data in which arrays are numbers, and keys may be any plain data."""
    if isinstance(value, np.ndarray):
        arrays.append(np.array(value))
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {"dict": [[key, _taken_apart(one, arrays)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_taken_apart(one, arrays) for one in value]}
    return {"value": value.item() if isinstance(value, np.generic) else value}


def _put_together(form: Any, arrays: list[np.ndarray]) -> Any:
    ((kind, held),) = form.items()
    if kind == "array":
        return arrays[held]
    if kind == "dict":
        return {key: _put_together(one, arrays) for key, one in held}
    if kind in ("list", "tuple"):
        parts = [_put_together(one, arrays) for one in held]
        return tuple(parts) if kind == "tuple" else parts
    return held
