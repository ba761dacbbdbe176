"""Rows of a table picked by a tensor of indices, and cotangents added back to where they were picked."""

from __future__ import annotations

from typing import Any

from internals.ops.spec import Spec, normalise_axis, shape_of
from internals.ops.table import row


def _check_index(name: str, index: Spec) -> None:
    if index.dtype.kind not in "iu":
        raise TypeError(f"{name}: the index must be of an integer dtype, got {index.dtype}.")


def _take_infer(x: Spec, index: Spec, *, axis: int = 0) -> Spec:
    _check_index("take", index)
    along = normalise_axis("take", axis, x.ndim)
    return Spec((*x.shape[:along], *index.shape, *x.shape[along + 1 :]), x.dtype)


def _take_vjp(g: Any, out: Any, x: Any, index: Any, axis: int) -> Any:
    return untake(g, index, axis=normalise_axis("take", axis, x.ndim), size=x.shape[axis])


take = row(
    "take",
    lambda xp, x, index, axis: xp.take(x, index, axis=axis),
    vjp=(_take_vjp, None),
    jvp="linear",
    saves="index",
    infer=_take_infer,
    strict=True,
    doc="The slices of x along an axis that `index`, of any shape, names; with axis 0 the rows of an embedding table. "
    "torch.embedding and tf.gather. A negative index counts from the back, as in NumPy; PyTorch and TensorFlow refuse "
    "it. Out of range it is an error on the cpu, and on a GPU wraps around, since looking would mean waiting for it.",
)


def _untake_infer(g: Spec, index: Spec, *, axis: int, size: int) -> Spec:
    _check_index("untake", index)
    if g.ndim < index.ndim:
        raise ValueError(f"untake: values of shape {g.shape} have fewer axes than the index, {index.shape}.")
    along = normalise_axis("untake", axis, g.ndim - index.ndim + 1)
    if g.shape[along : along + index.ndim] != index.shape:
        raise ValueError(f"untake: values of shape {g.shape} must have the index's shape {index.shape} at axis {axis}.")
    return Spec((*g.shape[:along], size, *g.shape[along + index.ndim :]), g.dtype)


def _untake(xp: Any, g: Any, index: Any, axis: int, size: int) -> Any:
    shape = shape_of(index)
    along = axis % (g.ndim - len(shape) + 1)
    result = xp.zeros((*g.shape[:along], size, *g.shape[along + len(shape) :]), g.dtype)
    xp.add.at(result, (slice(None),) * along + (index,), g)
    return result


untake = row(
    "untake",
    _untake,
    vjp=(lambda v, out, g, index, axis, size: take(v, index, axis=axis), None),
    jvp="linear",
    saves="index",
    infer=_untake_infer,
    strict=True,
    doc="Zeros with the slices of g added at `index` along an axis of length `size`: the derivative of take. A slice "
    "picked twice receives both.",
)


def index_add(x: Any, index: Any, value: Any, *, axis: int = 0) -> Any:
    """x, with the slices of `value` added at `index` along an axis; one that is named twice receives both.

    Parameters
    ----------
    index : integers, any shape
    value : of the shape that ``take(x, index, axis=axis)`` has
    """
    along = normalise_axis("index_add", axis, x.ndim)
    expected = (*x.shape[:along], *shape_of(index), *x.shape[along + 1 :])
    if tuple(value.shape) != expected:
        raise ValueError(
            f"index_add: a value of shape {tuple(value.shape)} does not fit an index of shape {shape_of(index)} along "
            f"axis {axis} of shape {tuple(x.shape)}; expected {expected}."
        )
    return x + untake(value, index, axis=along, size=x.shape[along])
