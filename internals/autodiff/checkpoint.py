"""Checkpointing: forget what a stretch of the forward pass saved, and compute it again when the backward pass comes.

The tape stays as it was recorded, edges and all; only the saved values go. The first rule that misses its values has
the stretch run once more, and every entry takes over what its double has saved. So hooks, closed-over parameters,
`grad`, higher orders and nested checkpoints work as they do without.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from internals.autodiff import tree
from internals.autodiff.lifted import Lifted, is_tensor
from internals.ops.seed import drawn, replayed
from internals.tensor import Tensor, enable_grad, is_recording
from internals.tensor.node import Node, next_order


class CheckpointError(RuntimeError):
    """A checkpointed function did something else the second time, or its inputs were changed in between."""


class _Stretch:
    """One checkpointed call: how to run it again, and the entries that wait for it."""

    def __init__(
        self, function: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any], seeds: list[int]
    ) -> None:
        self.function, self.inputs, self.kwargs, self.seeds = function, inputs, kwargs, seeds
        self.versions = [_version(one) for one in tree.leaves(inputs)]
        self.entries: list[list[weakref.ref[Any]]] = []  # for each operation those that wait for what it saved

    def run_again(self) -> None:
        """Give every entry back what it saved."""
        name = _name(self.function)
        if [_version(one) for one in tree.leaves(self.inputs)] != self.versions:
            raise CheckpointError(
                f"checkpoint: an input of {name} was changed in place since; it can't be computed again. clone() it "
                "before the change."
            )
        first = next_order()
        with enable_grad(), replayed(self.seeds):
            doubles = _entries_since(first, self.function(*self.inputs, **self.kwargs))
        if len(doubles) != len(self.entries):
            raise CheckpointError(
                f"checkpoint: {name} recorded {len(self.entries)} operations the first time and {len(doubles)} the "
                "second. It must do the same each time: draw seeds with ops.draw_seed, and read nothing that changes."
            )
        for refs, double in zip(self.entries, doubles, strict=True):
            for entry in [entry for ref in refs if (entry := ref()) is not None]:
                self._give(entry, double, name)

    def _give(self, entry: Any, double: Any, name: str) -> None:
        """Let an entry take over what its double saved."""
        if (entry.op, entry.shape, entry.dtype) != (double.op, double.shape, double.dtype):
            raise CheckpointError(
                f"checkpoint: {name} recorded {entry.op.name} of shape {entry.shape} the first time and "
                f"{double.op.name} of shape {double.shape} the second. It must do the same each time."
            )
        if _waiting.get(entry) is not self:
            return
        inner = _waiting.get(double)
        if inner is not None:  # of a checkpoint inside this one: the entry waits for that, as its double does
            _waiting[entry] = inner
            next(refs for refs in inner.entries if refs[0]() is double).append(weakref.ref(entry))
            return
        del _waiting[entry]
        entry.saved, entry.out, entry.attrs = double.saved, double.out, double.attrs
        if type(entry) is Node:
            entry.guards = double.guards


_waiting: weakref.WeakKeyDictionary[Any, _Stretch] = weakref.WeakKeyDictionary()


def checkpoint(function: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
    """``function(*inputs)``, whose intermediate values are computed again in the backward pass instead of kept.

    Parameters
    ----------
    function : callable
        Of tensors, or nested tuples, lists and dicts of them; returns such. It must compute the same each time it is
        called. Random rows do if their seed comes from `ops.draw_seed`, as in `nn.Dropout`. What it writes elsewhere,
        such as BatchNorm's running statistics, it writes twice.
    *inputs, **kwargs
        Kept until the backward pass.

    Returns
    -------
    As the function returns.

    Raises
    ------
    CheckpointError
        In the backward pass: the function recorded other operations than the first time, or an input was changed in
        place since.

    A chain of n layers in k segments keeps about k + n / k values instead of n, for one more forward pass: k = sqrt(n)
    is best (Chen et al. 2016); with checkpoints inside checkpoints, it is a logarithm of n (Griewank & Walther 2000).
    As torch.utils.checkpoint with use_reentrant=False, and jax.checkpoint.
    """
    if not callable(function):
        raise TypeError(f"checkpoint: expected a function and its inputs, got {type(function).__name__} first.")
    if not is_recording():
        return function(*inputs, **kwargs)
    first = next_order()
    with drawn() as seeds:
        out = function(*inputs, **kwargs)
    stretch = _Stretch(function, inputs, kwargs, seeds)
    for entry in _entries_since(first, out):
        stretch.entries.append([weakref.ref(entry)])
        kept = entry.saved is not None and any(map(is_tensor, entry.saved))
        if kept or entry.out is not None or entry in _waiting:
            _forget(entry)
            _waiting[entry] = stretch
    return out


def checkpoint_sequential(functions: Sequence[Callable[..., Any]], segments: int, *inputs: Any) -> Any:
    """A chain of functions, each of the one before, in checkpointed segments of about equal length.

    Parameters
    ----------
    functions : sequence of callables
        The first takes the inputs, each other the result of the one before.
    segments : int
        Between 1 and the number of functions. The last segment is not checkpointed: its values are needed at once.
    *inputs

    Raises
    ------
    ValueError
        There are no functions, or the number of segments is out of range.

    As torch.utils.checkpoint.checkpoint_sequential.
    """
    functions = list(functions)
    if not functions or not isinstance(segments, int) or not 1 <= segments <= len(functions):
        raise ValueError(
            f"checkpoint_sequential: {len(functions)} functions can be cut into 1 to {len(functions)} segments, got "
            f"{segments!r}."
        )
    cuts = [len(functions) * i // segments for i in range(segments + 1)]
    parts = [_chain(functions[start:stop]) for start, stop in pairwise(cuts)]
    for part in parts[:-1]:
        inputs = (checkpoint(part, *inputs),)
    return parts[-1](*inputs)


def _chain(functions: list[Callable[..., Any]]) -> Callable[..., Any]:
    def chain(*inputs: Any) -> Any:
        value = functions[0](*inputs)
        for function in functions[1:]:
            value = function(value)
        return value

    return chain


def recompute(entry: Any) -> bool:
    """Bring back what an entry of the tape had saved, if a checkpoint forgot it; whether it did."""
    while entry.saved is None and entry in _waiting:
        _waiting[entry].run_again()
    return entry.saved is not None


def is_waiting(entry: Any) -> bool:
    """Whether what an entry saved is to be computed again."""
    return entry in _waiting and entry.saved is None


def _forget(entry: Any) -> None:
    entry.saved, entry.out = None, None
    if type(entry) is Node:
        entry.guards = ()
    if hasattr(entry.op, "forget"):
        entry.op.forget(entry.attrs)


def _entries_since(first: int, out: Any) -> list[Any]:
    """The entries of every tape that led to a result and were made after `first`, in an order that only depends on
    what was done."""
    seen: dict[Any, None] = {}
    stack = [entry for value in tree.leaves(out) for entry in _tops(value)]
    while stack:
        entry = stack.pop()
        if entry is not None and getattr(entry, "order", -1) > first and entry not in seen:
            seen[entry] = None
            stack.extend(entry.inputs)
    return list(seen)


def _tops(value: Any) -> list[Any]:
    """The entries that made a value, on its own tape and those of the values it holds."""
    if isinstance(value, Tensor):
        return [value.node]
    if not isinstance(value, Lifted):
        return []
    return [*value.entries(), *[entry for one in value.beneath() for entry in _tops(one)]]


def _version(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.version
    return sum(_version(one) for one in value.beneath()) if isinstance(value, Lifted) else 0


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
