"""Rows that rearrange: the same entries in another shape or order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.ops.spec import Spec, as_arrays, broadcast_shapes, normalise_axes, normalise_axis
from internals.ops.table import row

_SAME = -2
"""A size that stays as it is, where it is not known when a graph is made."""


def _reshape_infer(x: Spec, *, shape: Sequence[int]) -> Spec:
    sizes = _kept_sizes(x, shape)
    for size in sizes:
        if not isinstance(size, int | np.integer):
            raise TypeError(f"reshape: sizes must be integers, got {type(size).__name__}.")
    known = math.prod(int(size) for size in sizes if size != -1)
    if sizes.count(-1) > 1:
        raise ValueError(
            f"reshape: shape {sizes} is not valid; sizes are not negative, and one of them may be -1 (what is left)."
        )
    if -1 in sizes:
        if known == 0 or x.size % known:
            raise ValueError(
                f"reshape: {x.size} entries (shape {x.shape}) can't be arranged as {sizes}; {known} does not divide "
                "them."
            )
        return Spec(tuple(x.size // known if size == -1 else int(size) for size in sizes), x.dtype)
    if known != x.size:
        raise ValueError(
            f"reshape: {x.size} entries (shape {x.shape}) can't be arranged as {sizes}, which has {known}."
        )
    return Spec(tuple(int(size) for size in sizes), x.dtype)


def _kept_sizes(x: Any, shape: Any) -> tuple[Any, ...]:
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    try:
        if min(sizes, default=0) >= -1:
            return sizes
    except TypeError:  # not numbers; told by what reads them
        return sizes
    there = (*x.shape, *(_SAME,) * len(sizes))
    sizes = tuple(there[i] if size == _SAME else size for i, size in enumerate(sizes))
    if min(sizes) < -1:  # NumPy takes them all for -1
        raise ValueError(
            f"reshape: shape {shape} is not valid for {x.shape}; sizes are not negative, but one of them may be -1 "
            "(what is left), and -2 is the size that there is at this place."
        )
    return sizes


reshape = row(
    "reshape",
    lambda xp, x, shape: xp.reshape(x, _kept_sizes(x, shape)),
    vjp=lambda g, out, x, shape: reshape(g, shape=tuple(x.shape)),
    jvp="linear",
    infer=_reshape_infer,
    view=True,
    doc="The entries in row-major order, in another shape; -1 is what is left, -2 the size that x has at this place. A "
    "view where the memory allows, else a copy.",
)


def _transpose_infer(x: Spec, *, axes: Sequence[int] | None = None) -> Spec:
    if axes is None:
        return Spec(x.shape[::-1], x.dtype)
    order = normalise_axes("transpose", tuple(axes), x.ndim)
    if len(order) != x.ndim:
        raise ValueError(f"transpose: axes {tuple(axes)} must name each of the {x.ndim} axes of shape {x.shape} once.")
    return Spec(tuple(x.shape[i] for i in order), x.dtype)


def _transpose_vjp(g: Any, out: Any, x: Any, axes: Sequence[int] | None) -> Any:
    if axes is None:
        return transpose(g)
    return transpose(g, axes=tuple(int(i) for i in np.argsort(normalise_axes("transpose", tuple(axes), x.ndim))))


transpose = row(
    "transpose",
    lambda xp, x, axes: xp.transpose(x, axes),
    vjp=_transpose_vjp,
    jvp="linear",
    infer=_transpose_infer,
    view=True,
    doc="The axes in another order; reversed if axes is None. Always a view.",
)


def _broadcast_to_infer(x: Spec, *, shape: Sequence[int]) -> Spec:
    shape = tuple(shape)
    if len(shape) < x.ndim or broadcast_shapes("broadcast_to", x.shape, shape) != shape:
        raise ValueError(
            f"broadcast_to: shape {x.shape} can't be stretched to {shape}; only axes of size 1 stretch, and new axes "
            "come first."
        )
    return Spec(shape, x.dtype)


broadcast_to = row(
    "broadcast_to",
    lambda xp, x, shape: xp.broadcast_to(x, shape),
    vjp=lambda g, out, x, shape: g,
    jvp="linear",
    infer=_broadcast_to_infer,
    broadcasts=True,
    view=True,
    doc="Axes of size 1, and new axes in front, repeated without copying. The result can't be written to.",
)


def _expand_dims_infer(x: Spec, *, axis: int) -> Spec:
    position = normalise_axis("expand_dims", axis, x.ndim + 1)
    return Spec((*x.shape[:position], 1, *x.shape[position:]), x.dtype)


expand_dims = row(
    "expand_dims",
    lambda xp, x, axis: xp.expand_dims(x, axis),
    vjp=lambda g, out, x, axis: reshape(g, shape=tuple(x.shape)),
    jvp="linear",
    infer=_expand_dims_infer,
    view=True,
    doc="A new axis of size 1 at position `axis` of the result.",
)


def _squeeze_infer(x: Spec, *, axis: int | Sequence[int] | None = None) -> Spec:
    axes = (
        tuple(i for i, size in enumerate(x.shape) if size == 1)
        if axis is None
        else normalise_axes("squeeze", axis, x.ndim)
    )
    wrong = [i for i in axes if x.shape[i] != 1]
    if wrong:
        raise ValueError(
            f"squeeze: axis {wrong[0]} of shape {x.shape} has size {x.shape[wrong[0]]}; only axes of size 1 can go."
        )
    return Spec(tuple(size for i, size in enumerate(x.shape) if i not in axes), x.dtype)


squeeze = row(
    "squeeze",
    lambda xp, x, axis: xp.squeeze(x, axis=tuple(axis) if isinstance(axis, list) else axis),
    vjp=lambda g, out, x, axis: reshape(g, shape=tuple(x.shape)),
    jvp="linear",
    infer=_squeeze_infer,
    view=True,
    doc="Axes of size 1 taken away. Naming an axis of another size is an error, as in NumPy and "
    "TensorFlow; PyTorch leaves it.",
)


def _flip_infer(x: Spec, *, axis: int | Sequence[int] | None = None) -> Spec:
    normalise_axes("flip", axis, x.ndim)
    return x


flip = row(
    "flip",
    lambda xp, x, axis: xp.flip(x, tuple(axis) if isinstance(axis, list) else axis),
    vjp=lambda g, out, x, axis: flip(g, axis=axis),
    jvp="linear",
    infer=_flip_infer,
    view=True,
    doc="The entries in reverse order along axes. A view with negative strides, as in NumPy; PyTorch copies.",
)


def _concat_infer(*tensors: Spec, axis: int = 0) -> Spec:
    if not tensors:
        raise ValueError("concat: there is nothing to join; give at least one tensor.")
    first = tensors[0]
    if first.ndim == 0:
        raise ValueError("concat: 0-d tensors have no axis to join along; use stack.")
    along = normalise_axis("concat", axis, first.ndim)
    for other in tensors[1:]:
        same = other.ndim == first.ndim and all(
            a == b for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if i != along
        )
        if not same:
            raise ValueError(f"concat: shapes {first.shape} and {other.shape} must agree in every axis but {axis}.")
    total = sum(tensor.shape[along] for tensor in tensors)
    return Spec((*first.shape[:along], total, *first.shape[along + 1 :]), first.dtype)


def _concat_vjp(g: Any, out: Any, *tensors: Any, axis: int) -> tuple[Any, ...]:
    along, start, pieces = normalise_axis("concat", axis, g.ndim), 0, []
    for tensor in tensors:
        stop = start + tensor.shape[along]
        pieces.append(g[(slice(None),) * along + (slice(start, stop),)])
        start = stop
    return tuple(pieces)


concat = row(
    "concat",
    lambda xp, *tensors, axis: xp.concatenate(as_arrays(xp, tensors), axis=axis),
    vjp=_concat_vjp,
    jvp="linear",
    infer=_concat_infer,
    dtypes="promote",
    variadic=True,
    joint=True,
    doc="Tensors joined along an axis they have.",
)


def _stack_infer(*tensors: Spec, axis: int = 0) -> Spec:
    if not tensors:
        raise ValueError("stack: there is nothing to join; give at least one tensor.")
    first = tensors[0]
    for other in tensors[1:]:
        if other.shape != first.shape:
            raise ValueError(f"stack: shapes {first.shape} and {other.shape} differ; stacked tensors need one shape.")
    position = normalise_axis("stack", axis, first.ndim + 1)
    return Spec((*first.shape[:position], len(tensors), *first.shape[position:]), first.dtype)


def _stack_vjp(g: Any, out: Any, *tensors: Any, axis: int) -> tuple[Any, ...]:
    position = normalise_axis("stack", axis, g.ndim)
    return tuple(g[(slice(None),) * position + (i,)] for i in range(len(tensors)))


stack = row(
    "stack",
    lambda xp, *tensors, axis: xp.stack(as_arrays(xp, tensors), axis=axis),
    vjp=_stack_vjp,
    jvp="linear",
    infer=_stack_infer,
    dtypes="promote",
    variadic=True,
    joint=True,
    doc="Tensors of one shape joined along a new axis.",
)


def swapaxes(x: Any, a: int, b: int) -> Any:
    """`x` with two axes exchanged; a view."""
    axes = list(range(x.ndim))
    a, b = normalise_axis("swapaxes", a, x.ndim), normalise_axis("swapaxes", b, x.ndim)
    axes[a], axes[b] = b, a
    return transpose(x, axes=tuple(axes))


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """`x` with one axis moved elsewhere, the others kept in order; a view."""
    axes = list(range(x.ndim))
    axes.insert(normalise_axis("moveaxis", destination, x.ndim), axes.pop(normalise_axis("moveaxis", source, x.ndim)))
    return transpose(x, axes=tuple(axes))


def split(x: Any, size: int | Sequence[int], *, axis: int = 0) -> tuple[Any, ...]:
    """Pieces of the given size along an axis, views where the layout allows; the last is smaller if it must be.

    Parameters
    ----------
    size : int, or one for each piece
        Sizes, as in PyTorch; NumPy and TensorFlow take a single number for how many pieces there are, as chunk does.

    Raises
    ------
    ValueError
        The size is not positive, or sizes do not add up to the axis.
    """
    n = x.shape[normalise_axis("split", axis, x.ndim)]
    if isinstance(size, int | np.integer) and not isinstance(size, bool):
        if size < 1:
            raise ValueError(f"split: the size of a piece must be positive, got {size}.")
        each = [min(int(size), n - start) for start in range(0, n, int(size))] or [0]
    else:
        each = list(size) if isinstance(size, tuple | list) else []
        if not all(isinstance(one, int | np.integer) and one >= 0 for one in each) or sum(each) != n:
            raise ValueError(f"split: sizes {size!r} are not those of pieces of axis {axis} of shape {tuple(x.shape)}.")
    before = (slice(None),) * normalise_axis("split", axis, x.ndim)
    ends = list(itertools.accumulate(each))
    return tuple(x[(*before, slice(end - one, end))] for one, end in zip(each, ends, strict=True))


def chunk(x: Any, pieces: int, *, axis: int = 0) -> tuple[Any, ...]:
    """So many pieces along an axis, of one size but for the last; fewer if entries do not go round (PyTorch's rule).

    Raises
    ------
    ValueError
        `pieces` is not positive.
    """
    if not isinstance(pieces, int | np.integer) or pieces < 1:
        raise ValueError(f"chunk: the number of pieces must be a positive integer, got {pieces!r}.")
    n = x.shape[normalise_axis("chunk", axis, x.ndim)]
    return split(x, max(1, -(-n // int(pieces))), axis=axis)


def unbind(x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, which goes away: the reverse of stack; tf.unstack."""
    along = normalise_axis("unbind", axis, x.ndim)
    return tuple(x[(slice(None),) * along + (i,)] for i in range(x.shape[along]))
