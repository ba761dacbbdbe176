"""vmap: a function of one example, run on a batch of them at once.

A batch is a value with one more axis, in front, that the function does not see. Running a row on batches runs the same
row once, on whole batches, told to leave the first axis alone; for most rows that means a shift of its axes. A row
nobody wrote a batching rule for runs example by example: slow, and right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from internals.autodiff import tree
from internals.autodiff.batching import batching_rule, each, front
from internals.autodiff.lifted import Lifted, is_tensor, next_level
from internals.ops.shape import moveaxis
from internals.ops.spec import normalise_axis
from internals.ops.table import TABLE, Op


class Batch:
    """One `vmap` that is running: its level, how many examples there are, and whether they share random numbers."""

    def __init__(self, level: int, size: int, randomness: str) -> None:
        self.level, self.size, self.randomness = level, size, randomness


class Batched(Lifted):
    """One value per example.

    Attributes
    ----------
    value : Tensor, or a value of another transformation
        The examples along its first axis. `shape` is that of one example.
    batch : Batch
    """

    __slots__ = ("batch",)

    def __init__(self, value: Any, batch: Batch) -> None:
        self.value, self.batch, self.level = value, batch, batch.level

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape[1:])

    @classmethod
    def run(cls, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], level: int) -> Any:
        mine = [type(value) is Batched and value.level == level for value in inputs]
        batch = next(value.batch for value, own in zip(inputs, mine, strict=True) if own)
        # Asked of one example first, so that what is wrong is said of that. A custom row can't say.
        spec = op.infer_from(inputs, attrs) if TABLE.get(op.name) is op or not batch.size else None
        values = [value.value if own else value for value, own in zip(inputs, mine, strict=True)]
        out = None
        rule = batching_rule(op)
        if rule is not None and batch.size:
            out = rule(op, values, mine, attrs, spec, batch)
        if out is None:
            out = each(op, values, mine, attrs, spec, batch)
        return op.bundle([Batched(one, batch) for one in out]) if op.results else Batched(out, batch)

    def detach(self) -> Any:
        return Batched(self.value.detach(), self.batch)

    def _one_per_example(self, *_: Any) -> Any:
        raise TypeError(
            "vmap: this value differs from example to example, so Python can't branch on it or make a number of it. "
            "Use ops.where for a choice, ops.take or ops.gather for an index."
        )

    __bool__ = __float__ = __int__ = __index__ = item = _one_per_example

    def __repr__(self) -> str:
        return f"Batched({self.value!r}, examples={self.batch.size})"


def vmap(
    function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, randomness: str = "same"
) -> Callable[..., Any]:
    """The function that does to each example of a batch what `function` does to one.

    Parameters
    ----------
    function : callable
        Of tensors, or nested tuples, lists and dicts of them; returns such.
    in_axes : int, None, or a structure of them
        Along which axis of each argument the examples lie; None where all examples share the argument. One for all
        arguments, or a tuple with one entry for each, which may follow an argument's structure down.
    out_axes : int, or a structure of them
        Where the examples are to lie in each result.
    randomness : {"same", "different"}
        Whether a random row (dropout), whose seed is an argument like any other, gives every example the same mask, as
        a loop over the examples would with that seed, or each its own. A mask for a value that all examples share is
        shared.

    Returns
    -------
    callable
        Takes what `function` takes, with the examples' axis added. It nests with itself, `vjp` and `jvp`.

    Raises
    ------
    TypeError
        On the call: an argument with an axis is not a tensor, or the function branches on what differs.
    ValueError
        On the call: an axis is not there, the arguments hold different numbers of examples, or none is batched.

    As jax.vmap and torch.func.vmap (Agarwal & Ganichev 2019, for the idea of one rule per row).
    """
    if randomness not in ("same", "different"):
        raise ValueError(f"vmap: randomness is 'same' or 'different', got {randomness!r}.")

    @functools.wraps(function)
    def over_the_batch(*args: Any, **kwargs: Any) -> Any:
        given = tree.leaves(args)
        if isinstance(in_axes, tuple | list) and len(in_axes) != len(args):
            raise ValueError(f"vmap: in_axes {in_axes!r} are for {len(in_axes)} arguments, got {len(args)}.")
        axes = tree.spread(tuple(in_axes) if isinstance(in_axes, list) else in_axes, args, "vmap: in_axes")
        axes = [None if axis is None else _axis_of(one, axis) for one, axis in zip(given, axes, strict=True)]
        sizes = sorted({one.shape[axis] for one, axis in zip(given, axes, strict=True) if axis is not None})
        if len(sizes) != 1:
            shapes = ", ".join(
                f"{tuple(one.shape)} along {axis}" for one, axis in zip(given, axes, strict=True) if axis is not None
            )
            raise ValueError(
                f"vmap: the arguments must hold one number of examples, got {shapes}."
                if sizes
                else "vmap: no argument is batched; at least one in_axes must be an axis of a tensor."
            )
        batch = Batch(next_level(), sizes[0], randomness)
        lifted = [
            one if axis is None else Batched(moveaxis(one, axis, 0) if axis else one, batch)
            for one, axis in zip(given, axes, strict=True)
        ]
        result = function(*tree.rebuilt(args, lifted), **kwargs)
        outs = tree.leaves(result)
        places = tree.spread(out_axes, result, "vmap: out_axes")
        return tree.rebuilt(result, [_lowered(one, axis, batch) for one, axis in zip(outs, places, strict=True)])

    return over_the_batch


def _axis_of(value: Any, axis: Any) -> int:
    if not is_tensor(value):
        raise TypeError(f"vmap: an argument is {type(value).__name__}, which has no axis {axis!r}; pass in_axes None.")
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"vmap: in_axes are integers or None, got {axis!r}.")
    return normalise_axis("vmap", axis, len(value.shape))


def _lowered(out: Any, axis: Any, batch: Batch) -> Any:
    if not is_tensor(out):
        if out is None:
            return None
        raise TypeError(f"vmap: the function returned {type(out).__name__}; expected a tensor.")
    if type(out) is Batched and out.level == batch.level:
        value = out.value
    elif axis is None:
        return out
    else:
        value = front(out, batch.size)
    if axis is None or isinstance(axis, bool) or not isinstance(axis, int):
        raise ValueError(f"vmap: out_axes must be an integer for a result that differs between examples, got {axis!r}.")
    axis = normalise_axis("vmap", axis, len(value.shape))
    return moveaxis(value, 0, axis) if axis else value
