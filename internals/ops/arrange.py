"""Rows that rearrange and also fill in, cut off or repeat: triangles, diagonals, borders, copies side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.ops.reduce import sum
from internals.ops.shape import reshape
from internals.ops.spec import Spec, normalise_axes, normalise_axis
from internals.ops.table import row


def _integer(name: str, attr: str, value: Any) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name}: {attr} must be an integer, got {value!r}.")
    return int(value)


def _natural(name: str, attr: str, value: Any) -> int:
    if _integer(name, attr, value) < 0:
        raise ValueError(f"{name}: {attr} can't be negative, got {value}.")
    return int(value)


def _matrices(name: str, shape: Sequence[int]) -> None:
    if len(shape) < 2:
        raise ValueError(f"{name}: expected matrices, of two axes or more, got shape {tuple(shape)}.")


def _triangle_infer(name: str) -> Callable[..., Spec]:
    def infer(x: Spec, *, k: int = 0) -> Spec:
        _matrices(name, x.shape)
        _integer(name, "k", k)
        return x

    return infer


tril = row(
    "tril",
    lambda xp, x, k: xp.tril(x, k),
    vjp=lambda g, out, x, k: tril(g, k=k),
    jvp="linear",
    infer=_triangle_infer("tril"),
    strict=True,
    doc="The lower triangle of matrices, the last two axes: entries above the k-th diagonal are 0.",
)

triu = row(
    "triu",
    lambda xp, x, k: xp.triu(x, k),
    vjp=lambda g, out, x, k: triu(g, k=k),
    jvp="linear",
    infer=_triangle_infer("triu"),
    strict=True,
    doc="The upper triangle of matrices, the last two axes: entries below the k-th diagonal are 0.",
)


def _diagonal_length(shape: Sequence[int], offset: int) -> int:
    rows, columns = shape[-2:]
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


def _diagonal_infer(x: Spec, *, offset: int = 0) -> Spec:
    _matrices("diagonal", x.shape)
    _integer("diagonal", "offset", offset)
    return Spec((*x.shape[:-2], _diagonal_length(x.shape, offset)), x.dtype)


diagonal = row(
    "diagonal",
    lambda xp, x, offset: xp.diagonal(x, offset, -2, -1).copy(),
    vjp=lambda g, out, x, offset: diag_embed(g, offset=offset, shape=tuple(x.shape[-2:])),
    jvp="linear",
    infer=_diagonal_infer,
    strict=True,
    doc="The diagonal of matrices, the last two axes; above the main one if offset is positive. A copy. As "
    "tf.linalg.diag_part; torch.diagonal takes the first two axes unless told, and gives a view.",
)


def _diag_embed_infer(x: Spec, *, offset: int = 0, shape: Sequence[int] | None = None) -> Spec:
    if x.ndim == 0:
        raise ValueError("diag_embed: a 0-d tensor has no axis to lay along a diagonal.")
    n = x.shape[-1]
    size = (n + abs(_integer("diag_embed", "offset", offset)),) * 2 if shape is None else tuple(shape)
    if len(size) != 2 or _diagonal_length(size, offset) != n:
        raise ValueError(f"diag_embed: {n} entries are not the diagonal {offset} of a matrix of shape {size}.")
    return Spec((*x.shape[:-1], *size), x.dtype)


def _diag_embed(xp: Any, x: Any, offset: int, shape: Sequence[int] | None) -> Any:
    n = x.shape[-1]
    result = xp.zeros((*x.shape[:-1], *((n + abs(offset),) * 2 if shape is None else shape)), x.dtype)
    along = xp.arange(n)
    result[..., along + max(-offset, 0), along + max(offset, 0)] = x
    return result


diag_embed = row(
    "diag_embed",
    _diag_embed,
    vjp=lambda g, out, x, offset, shape: diagonal(g, offset=offset),
    jvp="linear",
    infer=_diag_embed_infer,
    strict=True,
    doc="Matrices of zeros with the last axis of x on a diagonal; square unless their shape is given.",
)


def _roll_infer(x: Spec, *, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Spec:
    shifts = shift if isinstance(shift, tuple | list) else (shift,)
    for one in shifts:
        _integer("roll", "shift", one)
    axes = normalise_axes("roll", axis, x.ndim)
    if len(shifts) != (1 if axis is None else len(axes)):
        raise ValueError(f"roll: shift {shift!r} and axis {axis!r} must name as many axes.")
    return x


def _back(shift: int | Sequence[int]) -> int | tuple[int, ...]:
    return -shift if isinstance(shift, int | np.integer) else tuple(-one for one in shift)


roll = row(
    "roll",
    lambda xp, x, shift, axis: xp.roll(x, shift, axis),
    vjp=lambda g, out, x, shift, axis: roll(g, shift=_back(shift), axis=axis),
    jvp="linear",
    infer=_roll_infer,
    strict=True,
    doc="The entries moved along axes, those pushed out at the end coming in at the front; of the flattened tensor if "
    "axis is None.",
)


def _borders(x: Any, width: int | Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """How much is added before and after, axis by axis."""
    if isinstance(width, int | np.integer):
        return [(_natural("pad", "width", width),) * 2] * x.ndim
    pairs = list(width) if isinstance(width, tuple | list) else []
    if len(pairs) != x.ndim or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            f"pad: width must be an integer, or a pair (before, after) for each of the {x.ndim} axes, got {width!r}."
        )
    return [(_natural("pad", "width", before), _natural("pad", "width", after)) for before, after in pairs]


def _pad_infer(x: Spec, *, width: int | Sequence[Sequence[int]], value: float = 0) -> Spec:
    borders = _borders(x, width)
    return Spec(tuple(n + before + after for n, (before, after) in zip(x.shape, borders, strict=True)), x.dtype)


def _pad_vjp(g: Any, out: Any, x: Any, width: Any, value: float) -> Any:
    borders = _borders(x, width)
    return g[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, borders, strict=True))]


pad = row(
    "pad",
    lambda xp, x, width, value: xp.pad(x, _borders(x, width), mode="constant", constant_values=value),
    vjp=_pad_vjp,
    jvp=lambda t, out, x, width, value: pad(t, width=width),
    infer=_pad_infer,
    strict=True,
    doc="A border of one value around x, of one width everywhere or (before, after) for each axis. The pairs come in "
    "the order of the axes, as in NumPy and TensorFlow; PyTorch's begin with the last axis, and need not be all.",
)


def _repeat_infer(x: Spec, *, repeats: int, axis: int) -> Spec:
    along = normalise_axis("repeat", axis, x.ndim)
    size = x.shape[along] * _natural("repeat", "repeats", repeats)
    return Spec((*x.shape[:along], size, *x.shape[along + 1 :]), x.dtype)


def _repeat_vjp(g: Any, out: Any, x: Any, repeats: int, axis: int) -> Any:
    along = normalise_axis("repeat", axis, x.ndim)
    apart = reshape(g, shape=(*x.shape[: along + 1], repeats, *x.shape[along + 1 :]))
    return sum(apart, axis=along + 1, keepdims=False)


repeat = row(
    "repeat",
    lambda xp, x, repeats, axis: xp.repeat(x, repeats, axis=axis),
    vjp=_repeat_vjp,
    jvp="linear",
    infer=_repeat_infer,
    strict=True,
    doc="Each entry along an axis several times in a row, as numpy.repeat, tf.repeat and torch.repeat_interleave have "
    "it; Tensor.repeat of PyTorch is tile.",
)


def _tiles(x: Any, reps: int | Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of x and the repetitions, the shorter one filled up with ones in front."""
    given = tuple(reps) if isinstance(reps, tuple | list) else (reps,)
    counts = tuple(_natural("tile", "reps", one) for one in given)
    ndim = max(x.ndim, len(counts))
    return (1,) * (ndim - x.ndim) + tuple(x.shape), (1,) * (ndim - len(counts)) + counts


def _tile_infer(x: Spec, *, reps: int | Sequence[int]) -> Spec:
    shape, counts = _tiles(x, reps)
    return Spec(tuple(n * count for n, count in zip(shape, counts, strict=True)), x.dtype)


def _tile_vjp(g: Any, out: Any, x: Any, reps: int | Sequence[int]) -> Any:
    shape, counts = _tiles(x, reps)
    apart = reshape(g, shape=tuple(n for pair in zip(counts, shape, strict=True) for n in pair))
    return reshape(sum(apart, axis=tuple(range(0, 2 * len(shape), 2)), keepdims=False), shape=tuple(x.shape))


tile = row(
    "tile",
    lambda xp, x, reps: xp.tile(x, tuple(reps) if isinstance(reps, list) else reps),
    vjp=_tile_vjp,
    jvp="linear",
    infer=_tile_infer,
    strict=True,
    doc="Copies of x side by side, so many along each axis. With fewer counts than axes the last axes are meant, with "
    "more there are new axes in front, as in NumPy and PyTorch; TensorFlow wants one count per axis.",
)
