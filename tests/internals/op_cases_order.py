"""The cases of internals/ops/order.py, and of rows that choose: clamp, scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import anything, on, positive, shapes

INT, HALF = ("int64",), ("float16",)


def torch_sort(t: Any, x: Any, axis: int, descending: bool) -> Any:
    return tuple(t.sort(x, dim=axis, descending=descending, stable=True))


def tf_order(f: Any, x: Any, axis: int, descending: bool) -> Any:
    return f.cast(f.argsort(x, axis, "DESCENDING" if descending else "ASCENDING", stable=True), "int64")


def tf_sort(f: Any, x: Any, axis: int, descending: bool) -> Any:
    order = tf_order(f, x, axis, descending)
    return f.experimental.numpy.take_along_axis(x, order, axis), order


def tf_topk(f: Any, x: Any, k: int, axis: int, largest: bool) -> Any:
    last = f.experimental.numpy.moveaxis(x if largest else -x, axis, -1)
    values, indices = f.math.top_k(last, k)
    values, indices = (f.experimental.numpy.moveaxis(one, -1, axis) for one in (values, indices))
    return values if largest else -values, f.cast(indices, "int64")


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Far enough apart for float16 and for finite differences, in random order."""
    return (rng.permutation(int(np.prod(shape))).reshape(shape) - 0.4) / 4


def places(n: int) -> Any:
    """Indices of an axis of n entries, none of them twice along axis 1 (or 0 of what is 1-D)."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        along = min(len(shape) - 1, 1)
        order = np.argsort(rng.random((*shape[:along], n, *shape[along + 1 :])), axis=along)
        return np.take(order, np.arange(shape[along]), axis=along)

    return draw


def tf_scatter(f: Any, x: Any, index: Any, value: Any, axis: int) -> Any:
    found = np.indices(tuple(index.shape))
    found[axis] = index.numpy()
    return f.tensor_scatter_nd_update(x, np.moveaxis(found, 0, -1), value)


SORTED = [on((1,)), on((0, 3)), on((5,), descending=True), on((4, 3), axis=0), on((2, 4, 3), axis=1, descending=True),
          on((2, 4, 3), axis=1)]  # fmt: skip

ORDER = [
    Case("argsort", lambda t, x, axis, descending: t.argsort(x, dim=axis, descending=descending, stable=True), tf_order,
         SORTED, distinct, also=INT),
    Case("sort", torch_sort, tf_sort, SORTED, distinct, also=HALF + INT),
    Case("topk", lambda t, x, k, axis, largest: tuple(t.topk(x, k, axis, largest)), tf_topk,
         [on((1,), k=1), on((0, 3), k=2), on((5,), k=0), on((4, 3), k=2, axis=0, largest=False), on((2, 4, 3), k=3,
         axis=1)], distinct, also=HALF),
    Case("clamp", "clamp", "clip_by_value",
         shapes(((), (), ()), ((0,), (1,), ()), ((1,), (1,), (1,)), ((3, 4), (4,), (3, 1)), ((2, 3, 4), (3, 1), ())),
         (anything, lambda rng, shape: -positive(rng, shape), positive), also=INT),
    Case("scatter", lambda t, x, i, v, axis: t.scatter(x, axis, i, v), tf_scatter,
         [on((3,), (2,), (2,), axis=0), on((3,), (0,), (0,), axis=0), on((1, 3), (1, 1), (1, 1), axis=-1),
          on((2, 3, 4), (2, 2, 4), (2, 2, 4), axis=1)], (anything, places(3), anything), also=INT),
]  # fmt: skip
