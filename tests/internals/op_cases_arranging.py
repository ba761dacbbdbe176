"""The cases of internals/ops/lookup.py, arrange.py and contract.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import anything, below, on, shapes

INT = ("int64",)


def torch_take(t: Any, x: Any, index: Any, axis: int) -> Any:
    along = axis % x.ndim
    return x.index_select(along, index.reshape(-1)).reshape(*x.shape[:along], *index.shape, *x.shape[along + 1 :])


def torch_untake(t: Any, g: Any, index: Any, axis: int, size: int) -> Any:
    before, after = g.shape[:axis], g.shape[axis + index.ndim :]
    zeros = t.zeros((*before, size, *after), dtype=g.dtype)
    return zeros.index_add(axis, index.reshape(-1), g.reshape(*before, index.numel(), *after))


def tf_untake(f: Any, g: Any, index: Any, axis: int, size: int) -> Any:
    hot = f.one_hot(f.reshape(index, [-1]), size, dtype=g.dtype)
    before, after = g.shape[:axis], g.shape[axis + len(index.shape) :]
    rows = f.reshape(g, [*before, int(np.prod(index.shape)), *after])
    return f.experimental.numpy.moveaxis(f.tensordot(rows, hot, [[axis], [0]]), -1, axis)


def torch_triangle(name: str) -> Any:
    return lambda t, x, k: getattr(t, name)(x, diagonal=k)


def tf_triangle(name: str) -> Any:
    return lambda f, x, k: x * f.constant(getattr(np, name)(np.ones(x.shape[-2:]), k), x.dtype)


def tf_diagonal(f: Any, x: Any, offset: int) -> Any:
    # tensorflow refuses a diagonal that has no entries.
    return f.linalg.diag_part(x, k=offset) if offset < x.shape[-1] else x[..., 0, :0]


def torch_diag_embed(t: Any, x: Any, offset: int, shape: Any) -> Any:
    if shape is None:
        return t.diag_embed(x, offset)
    return t.diagonal_scatter(t.zeros((*x.shape[:-1], *shape), dtype=x.dtype), x, offset, -2, -1)


def tf_diag_embed(f: Any, x: Any, offset: int, shape: Any) -> Any:
    rows, columns = shape or (x.shape[-1] + abs(offset),) * 2
    hot = np.zeros((x.shape[-1], rows, columns))
    for i in range(x.shape[-1]):
        hot[i, i + max(-offset, 0), i + max(offset, 0)] = 1
    return f.tensordot(x, f.constant(hot, x.dtype), 1)


def tf_roll(f: Any, x: Any, shift: Any, axis: Any) -> Any:
    return f.reshape(f.roll(f.reshape(x, [-1]), shift, 0), x.shape) if axis is None else f.roll(x, shift, axis)


def borders(x: Any, width: Any) -> Any:
    return [[width, width]] * len(x.shape) if isinstance(width, int) else width


def torch_pad(t: Any, x: Any, width: Any, value: float) -> Any:
    return t.nn.functional.pad(x, [n for pair in borders(x, width)[::-1] for n in pair], value=value)


def tf_tile(f: Any, x: Any, reps: Any) -> Any:
    counts = list(np.atleast_1d(reps))
    ndim = max(len(counts), len(x.shape))
    return f.tile(f.reshape(x, [1] * (ndim - len(x.shape)) + list(x.shape)), [1] * (ndim - len(counts)) + counts)


TRIANGLES = [on((1, 1)), on((0, 2)), on((3, 3), k=1), on((2, 3), k=-1), on((2, 2, 3))]
DIAGONALS = [on((1, 1)), on((0, 2)), on((3, 2), offset=-1), on((2, 3), offset=3), on((2, 2, 3), offset=1)]

ARRANGING = [
    Case("tril", torch_triangle("tril"), tf_triangle("tril"), TRIANGLES, also=INT),
    Case("triu", torch_triangle("triu"), tf_triangle("triu"), TRIANGLES, also=INT),
    Case("diagonal", lambda t, x, offset: t.diagonal(x, offset, -2, -1), tf_diagonal, DIAGONALS, also=INT),
    Case("diag_embed", torch_diag_embed, tf_diag_embed,
         [on((1,)), on((0,), offset=1), on((2,), offset=-1, shape=(3, 4)), on((2, 3), offset=1), on((2, 2))], also=INT),
    Case("roll", lambda t, x, shift, axis: t.roll(x, shift, axis), tf_roll,
         [on((1,), shift=1), on((0, 2), shift=-1), on((2, 3), shift=2), on((2, 3), shift=1, axis=-1),
          on((2, 3, 2), shift=(1, -2), axis=(0, 1))], also=INT),
    Case("pad", torch_pad, lambda f, x, width, value: f.pad(x, borders(x, width), constant_values=value),
         [on((1,), width=0), on((0, 2), width=1), on((2, 3), width=[(0, 2), (1, 0)], value=1.5),
          on((2, 1, 3), width=((1, 1), (0, 0), (0, 1)))]),
    Case("repeat", lambda t, x, repeats, axis: t.repeat_interleave(x, repeats, axis), "repeat",
         [on((1,), repeats=2, axis=0), on((0, 2), repeats=3, axis=1), on((2,), repeats=0, axis=0),
          on((2, 3, 2), repeats=2, axis=1)], also=INT),
    Case("tile", lambda t, x, reps: t.tile(x, reps), tf_tile,
         [on((), reps=[2]), on((1,), reps=(2, 3)), on((0, 2), reps=(1, 2)), on((2, 3), reps=(2,)),
          on((2, 3), reps=(2, 1, 2))], also=INT),
    Case("einsum", lambda t, *x, equation: t.einsum(equation, *x), lambda f, *x, equation: f.einsum(equation, *x),
         [on((2, 3), (3, 4), equation="ij,jk->ik"), on((), (3,), equation=",i->i"), on((1,), (1,), equation="i,i"),
          on((0, 2), (2, 3), equation="ij,jk"), on((2, 3), equation="ji"), on((2, 3, 2), equation="aib->b"),
          on((2, 3), (4,), equation="ij,k -> ki"), on((2,), (2, 3), (3,), equation="i,ij,j->"),
          on((2, 3, 2), (2, 4, 3), equation="bij,bki->bjk")]),
    Case("outer", "outer", lambda f, x, y: f.tensordot(x, y, 0), shapes(((1,), (1,)), ((0,), (2,)), ((3,), (2,)))),
    Case("tensordot", lambda t, x, y, axes: t.tensordot(x, y, axes), "tensordot",
         [on((1, 1), (1, 1)), on((0, 2), (2, 3), axes=1), on((), (2,), axes=0), on((2, 3), (2, 3)),
          on((2, 3, 2), (2, 4, 3), axes=([1, 0], [-1, 0])), on((2, 3, 2), (3, 2, 2), axes=((1, 2), (0, 2)))]),
    Case("take", torch_take, lambda f, x, index, axis: f.gather(x, index, axis=axis),
         [on((3, 2), ()), on((3,), (0,)), on((3,), (1,)), on((3, 2), (2, 2)), on((2, 3, 2), (2, 2), axis=1),
          on((2, 3), (4,), axis=-1)], (anything, below(3)), also=INT),
    Case("untake", torch_untake, tf_untake,
         [on((), (), axis=0, size=3), on((0, 2), (0,), axis=0, size=3), on((1,), (1,), axis=0, size=3),
          on((2, 2, 2), (2, 2), axis=0, size=3), on((2, 4), (4,), axis=1, size=3)], (anything, below(3)), also=INT),
]  # fmt: skip
