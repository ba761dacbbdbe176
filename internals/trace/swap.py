"""A learner's tracer in the place of ours, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from internals import ops
from internals.tensor import Tensor
from internals.trace.function import Traced
from internals.trace.state import read_by

KERNELS: dict[str, Callable[..., Any]] = {
    name: getattr(ops, name)
    for name in ("add", "sub", "mul", "div", "matmul", "neg", "exp", "tanh", "relu", "sum", "greater", "where")
}


@contextmanager
def swap(
    *,
    record: Callable[..., Any],
    replay: Callable[..., Any],
    signature: Callable[..., Any],
    prune: Callable[..., Any] = lambda program: program,
) -> Iterator[dict[Any, Any]]:
    """Trace with other pieces: what was traced before, or is called with keywords, is not affected.

    Parameters
    ----------
    record : callable, ``record(function, n)`` -> program
        Of a function of `n` Tensors.
    replay : callable, ``replay(program, tensors, kernels)``
        `kernels` has an operation for each name that a step can have.
    signature : callable, ``signature(args, state)`` -> hashable
        `state` has what the function reads from outside, by name; Tensors come as arrays.
    prune : callable, ``prune(program)`` -> program

    Yields
    ------
    dict
        The programs, by function and signature.
    """
    programs: dict[Any, Any] = {}
    before = Traced.__call__

    def call(self: Traced, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return before(self, *args, **kwargs)
        arrays = tuple([one.data if isinstance(one, Tensor) else one for one in args])
        state = {
            name: value
            for name, value in read_by(self.python).items()
            if isinstance(value, bool | int | float | str | np.ndarray) or value is None
        }
        key = self.python, signature(arrays, state)
        tensors = [one for one in args if isinstance(one, Tensor)]
        if key not in programs:
            programs[key] = prune(record(_of_tensors(self.python, args), len(tensors)))
        return replay(programs[key], tensors, KERNELS)

    Traced.__call__ = call  # type: ignore[method-assign]
    try:
        yield programs
    finally:
        Traced.__call__ = before  # type: ignore[method-assign]


def _of_tensors(python: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """The function with what is no Tensor filled in."""

    def filled(*symbols: Any) -> Any:
        waiting = iter(symbols)
        return python(*[next(waiting) if isinstance(one, Tensor) else one for one in args])

    return filled
