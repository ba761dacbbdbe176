"""Where the time of a training step goes: kernels forward, rules backward, the optimizer, and the rest, bookkeeping."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from internals.autodiff import tape
from internals.ops import TABLE
from internals.optim import SGD


@dataclass
class Profile:
    """Seconds of one step, by op.

    Attributes
    ----------
    total : float
    forward, backward : dict of op name to seconds
        Kernels that the forward pass ran; rules that the backward pass ran, with all that they called.
    optimizer : float
    """

    total: float = 0.0
    forward: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    backward: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    optimizer: float = 0.0

    @property
    def bookkeeping(self) -> float:
        """What is neither: dispatch, recording, walking the tape."""
        return self.total - sum(self.forward.values()) - sum(self.backward.values()) - self.optimizer

    def lines(self, workload: str, most: int = 8) -> list[str]:
        """The ops that take the most, as rows of a table, and what is left."""
        spent = {name: self.forward[name] + self.backward[name] for name in {*self.forward, *self.backward}}
        shown = sorted(spent, key=lambda name: -spent[name])[:most]
        other = sum(spent.values()) - sum(spent[name] for name in shown)
        rows = [(name, self.forward[name], self.backward[name]) for name in shown]
        rows += [("all other ops", other, 0.0)] if other > 0 else []
        rows += [("optimizer", self.optimizer, 0.0), ("bookkeeping", self.bookkeeping, 0.0)]
        return [
            f"| {workload} | {name} | {1e3 * ahead:.2f} | {1e3 * back:.2f} | {(ahead + back) / self.total:.0%} |"
            for name, ahead, back in rows
        ]


def profile(step: Callable[[], object], *, calls: int = 10) -> Profile:
    """The mean of `calls` steps, after as many that warm up."""
    for _ in range(3):
        step()
    found = Profile()
    with _watched(found):
        start = time.perf_counter()
        for _ in range(calls):
            step()
        found.total = (time.perf_counter() - start) / calls
    for by_op in (found.forward, found.backward):
        for name in by_op:
            by_op[name] /= calls
    found.optimizer /= calls
    return found


@contextmanager
def _watched(found: Profile) -> Iterator[None]:
    """Note what kernels, rules and the optimizer take, each only where none of the others is running."""
    inside = False

    def timed(function: Callable[..., Any], note: Callable[[float, tuple[Any, ...]], None]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:
                return function(*args, **kwargs)
            inside, start = True, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                note(time.perf_counter() - start, args)
                inside = False

        return run

    def forward(name: str) -> Callable[[float, tuple[Any, ...]], None]:
        def note(seconds: float, args: tuple[Any, ...]) -> None:
            found.forward[name] += seconds

        return note

    def backward(seconds: float, args: tuple[Any, ...]) -> None:
        found.backward[args[0].name] += seconds

    def optimizer(seconds: float, args: tuple[Any, ...]) -> None:
        found.optimizer += seconds

    kernels = {name: op.on_numpy for name, op in TABLE.items()}
    pull, step = tape.pull, SGD.step
    try:
        for name, op in TABLE.items():
            op.on_numpy = timed(op.on_numpy, forward(name))
        tape.pull, SGD.step = timed(pull, backward), timed(step, optimizer)  # type: ignore[method-assign]
        yield
    finally:
        for name, op in TABLE.items():
            op.on_numpy = kernels[name]
        tape.pull, SGD.step = pull, step  # type: ignore[method-assign]
