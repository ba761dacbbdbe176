"""The cases of internals/ops/lookup.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import anything, below, on

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


ARRANGING = [
    Case("take", torch_take, lambda f, x, index, axis: f.gather(x, index, axis=axis),
         [on((3, 2), ()), on((3,), (0,)), on((3,), (1,)), on((3, 2), (2, 2)), on((2, 3, 2), (2, 2), axis=1),
          on((2, 3), (4,), axis=-1)], (anything, below(3)), also=INT),
    Case("untake", torch_untake, tf_untake,
         [on((), (), axis=0, size=3), on((0, 2), (0,), axis=0, size=3), on((1,), (1,), axis=0, size=3),
          on((2, 2, 2), (2, 2), axis=0, size=3), on((2, 4), (4,), axis=1, size=3)], (anything, below(3)), also=INT),
]  # fmt: skip
