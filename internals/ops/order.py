"""Rows that put entries in order along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.ops.index import gather, scatter_add
from internals.ops.spec import Spec, normalise_axis
from internals.ops.table import row


def _order(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """Where the entries in order are found; of equal ones the first comes first, whichever the direction."""
    if not descending:
        return xp.argsort(x, axis=axis, kind="stable")
    backwards = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - xp.flip(backwards, axis)


def _argsort_infer(x: Spec, *, axis: int = -1, descending: bool = False) -> Spec:
    normalise_axis("argsort", axis, x.ndim)
    return Spec(x.shape, np.int64)


argsort = row(
    "argsort",
    _order,
    vjp=None,
    infer=_argsort_infer,
    strict=True,
    doc="The indices that put x in order along an axis. The first of equal entries comes first, which PyTorch and "
    "TensorFlow promise with stable=True only. NaN counts as the largest. Integers, so without a derivative: gather "
    "with them has one.",
)


def _sort_infer(x: Spec, *, axis: int = -1, descending: bool = False) -> tuple[Spec, Spec]:
    normalise_axis("sort", axis, x.ndim)
    return x, Spec(x.shape, np.int64)


def _sort(xp: Any, x: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    order = _order(xp, x, axis, descending)
    return xp.take_along_axis(x, order, axis), order


sort = row(
    "sort",
    _sort,
    vjp=lambda g, out, x, axis, descending: scatter_add(g[0], out.indices, axis=axis, size=x.shape[axis]),
    jvp=lambda t, out, x, axis, descending: (gather(t, out.indices, axis=axis), None),
    saves="indices",
    results=("values", "indices"),
    infer=_sort_infer,
    strict=True,
    doc="The entries in order along an axis, and the indices they were at; a cotangent goes back there. Equal entries "
    "keep their order. NaN counts as the largest, as in PyTorch and NumPy; tf.sort, which gives the values alone, "
    "leaves it where it is.",
)


def _topk_infer(x: Spec, *, k: int, axis: int = -1, largest: bool = True) -> tuple[Spec, Spec]:
    along = normalise_axis("topk", axis, x.ndim)
    if not isinstance(k, int | np.integer) or isinstance(k, bool):
        raise TypeError(f"topk: k must be an integer, got {k!r}.")
    if not 0 <= k <= x.shape[along]:
        raise ValueError(f"topk: k is {k}, but axis {axis} of shape {x.shape} has {x.shape[along]} entries.")
    shape = (*x.shape[:along], int(k), *x.shape[along + 1 :])
    return Spec(shape, x.dtype), Spec(shape, np.int64)


def _topk(xp: Any, x: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    order = _order(xp, x, axis, largest)
    first = order[(slice(None),) * (axis % x.ndim) + (slice(0, k),)]
    return xp.take_along_axis(x, first, axis), first


topk = row(
    "topk",
    _topk,
    vjp=lambda g, out, x, k, axis, largest: scatter_add(g[0], out.indices, axis=axis, size=x.shape[axis]),
    jvp=lambda t, out, x, k, axis, largest: (gather(t, out.indices, axis=axis), None),
    saves="indices",
    results=("values", "indices"),
    infer=_topk_infer,
    strict=True,
    doc="The k largest entries along an axis (or smallest), the largest first, and the indices they are at; a "
    "cotangent goes back there. Of equal entries the first is taken, as in TensorFlow; PyTorch leaves it open. NaN "
    "counts as the largest, as in both. tf.math.top_k goes over the last axis only.",
)
