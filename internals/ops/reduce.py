"""Reductions: rows that take axes away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.ops.elementwise import cast, exp, ones_like, where, zeros_like
from internals.ops.index import index_put
from internals.ops.shape import broadcast_to, reshape
from internals.ops.spec import DEFAULT_FLOAT, Spec, normalise_axes, normalise_axis
from internals.ops.table import Op, row

Axis = int | Sequence[int] | None


def kept(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """`shape` with the reduced axes at size 1."""
    axes = normalise_axes("reduction", axis, len(shape))
    return tuple(1 if i in axes else size for i, size in enumerate(shape))


def _reduced(name: str, x: Spec, axis: Axis, keepdims: bool) -> tuple[int, ...]:
    axes = normalise_axes(name, axis, x.ndim)
    return kept(x.shape, axis) if keepdims else tuple(size for i, size in enumerate(x.shape) if i not in axes)


def spread(g: Any, x: Any, axis: Axis) -> Any:
    """A cotangent of a reduction, repeated over the axes that were reduced."""
    return broadcast_to(reshape(g, shape=kept(tuple(x.shape), axis)), shape=tuple(x.shape))


def count(shape: tuple[int, ...], axis: Axis) -> int:
    """How many entries of an input of `shape` go into one entry of the result."""
    return int(np.prod([shape[i] for i in normalise_axes("reduction", axis, len(shape))], dtype=np.int64))


def share(n: int) -> float:
    """1/n, as a factor: dividing float16 by an n above 65,504 would be dividing by infinity. 0 for n = 0."""
    return 1 / n if n else 0.0


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype a sum is held in while it grows: integers in int64, half precision in float32, else as it is."""
    if dtype.kind in "biu":
        return np.dtype(np.int64)
    return DEFAULT_FLOAT if dtype.itemsize < 4 else dtype


def wide(x: Any) -> Any:
    """`x` in the dtype in which sums over it are held."""
    return x.astype(accumulator(x.dtype), copy=False)


def _axis(axis: Axis) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def reduction(
    name: str, kernel: Any, *, result: Any = lambda dtype: dtype, needs_entries: bool = False, **columns: Any
) -> Op:
    """A row with ``axis`` (None, one or several) and ``keepdims``."""

    def infer(x: Spec, *, axis: Axis = None, keepdims: bool = False) -> Spec:
        shape = _reduced(name, x, axis, keepdims)
        if needs_entries and x.size == 0 and count(x.shape, axis) == 0:
            raise ValueError(
                f"{name}: a tensor of shape {x.shape} has no entries along axis {axis}, and {name} of nothing is not "
                "defined."
            )
        return Spec(shape, result(x.dtype))

    return row(name, kernel, infer=infer, **columns)


def _sum(xp: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    wide = accumulator(x.dtype)
    total = xp.sum(x, axis=_axis(axis), keepdims=keepdims, dtype=wide)
    return total if x.dtype == wide or x.dtype.kind in "biu" else total.astype(x.dtype)


def _mean(xp: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    # Divided while still wide: the sum of many float16 numbers may overflow where their mean does not.
    total = xp.sum(x, axis=_axis(axis), keepdims=keepdims, dtype=accumulator(x.dtype))
    n = count(x.shape, axis)
    mean = total / n if n else total * float("nan")
    return mean if mean.dtype == x.dtype else mean.astype(x.dtype)


def _share_of_ties(g: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    # Counted in a wide dtype: more than 65,504 ties are infinitely many in float16.
    tied = cast(x == spread(out, x, axis), dtype=accumulator(g.dtype))
    return spread(g, x, axis) * cast(tied / sum(tied, axis=axis, keepdims=True), dtype=g.dtype)


def _mean_of_ties(t: Any, out: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    return sum(_share_of_ties(ones_like(out), out, x, axis, keepdims) * t, axis=axis, keepdims=keepdims)


sum = reduction(
    "sum",
    _sum,
    vjp=lambda g, out, x, axis, keepdims: spread(g, x, axis),
    jvp="linear",
    result=lambda dtype: accumulator(dtype) if dtype.kind in "biu" else dtype,
    doc="Sum over axes. Integers and booleans add up in int64, float16 in float32, rounded once at the end. "
    "PyTorch does the same; TensorFlow keeps the integer dtype it is given.",
)

mean = reduction(
    "mean",
    _mean,
    vjp=lambda g, out, x, axis, keepdims: spread(g * share(count(tuple(x.shape), axis)), x, axis),
    jvp="linear",
    dtypes="float",
    doc="Mean over axes; NaN of no entries. Integers average in float32; PyTorch refuses them, and TensorFlow rounds "
    "to an integer. float16 is added up in float32 as in PyTorch; in TensorFlow the sum may overflow.",
)

max = reduction(
    "max",
    lambda xp, x, axis, keepdims: xp.max(x, axis=_axis(axis), keepdims=keepdims),
    vjp=_share_of_ties,
    jvp=_mean_of_ties,
    saves="out x",
    needs_entries=True,
    doc="Largest entry over axes. Entries that tie share the cotangent evenly: torch.amax and tf.reduce_max. "
    "(torch.max along a dim, which also gives the index, hands it all to that index.) Of no entries it is an error as "
    "in PyTorch; TensorFlow gives -inf.",
)

min = reduction(
    "min",
    lambda xp, x, axis, keepdims: xp.min(x, axis=_axis(axis), keepdims=keepdims),
    vjp=_share_of_ties,
    jvp=_mean_of_ties,
    saves="out x",
    needs_entries=True,
    doc="Smallest entry over axes. Entries that tie share the cotangent evenly: torch.amin and tf.reduce_min.",
)


def _products_of_others(xp: Any, x: Any, axis: int) -> Any:
    # By products from both sides rather than by division, so that zeros among the entries are no special case.
    one = xp.ones_like(xp.take(x, [0], axis=axis)) if x.shape[axis] else xp.zeros_like(x)
    before = xp.cumprod(xp.concatenate([one, x], axis=axis), axis=axis, dtype=x.dtype)
    back = xp.concatenate([one, xp.flip(x, axis)], axis=axis)
    after = xp.flip(xp.cumprod(back, axis=axis, dtype=x.dtype), axis)
    n = x.shape[axis]
    first, rest = [slice(None)] * x.ndim, [slice(None)] * x.ndim
    first[axis], rest[axis] = slice(0, n), slice(1, n + 1)
    return before[tuple(first)] * after[tuple(rest)]


def _one_axis(name: str, axis: Any) -> None:
    if axis is not None and not isinstance(axis, int | np.integer):
        raise TypeError(
            f"{name}: axis must be None or one integer, got {axis!r}. Reshape, or take one after the other."
        )


def _prod_infer(x: Spec, *, axis: int | None = None, keepdims: bool = False) -> Spec:
    _one_axis("prod", axis)
    return Spec(_reduced("prod", x, axis, keepdims), np.int64 if x.dtype.kind in "biu" else x.dtype)


def _prod_vjp(g: Any, out: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    if axis is None:
        others = reshape(products_of_others(reshape(x, shape=(-1,)), axis=0), shape=tuple(x.shape))
    else:
        others = products_of_others(x, axis=axis)
    return spread(g, x, axis) * others


def _prod_jvp(t: Any, out: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    return sum(_prod_vjp(ones_like(out), out, x, axis, keepdims) * t, axis=axis, keepdims=keepdims)


def _products_of_others_vjp(g: Any, out: Any, x: Any, axis: int) -> Any:
    # Entry i of the result is the product of all but x[i]; its derivative by x[j] is the product of all but x[i] and
    # x[j].
    n = x.shape[axis]
    total = zeros_like(g)
    for i in range(n):
        at_i: list[Any] = [slice(None)] * x.ndim
        at_i[axis] = slice(i, i + 1)
        without_i = index_put(x, 1, key=tuple(at_i))
        contribution = g[tuple(at_i)] * products_of_others(without_i, axis=axis)
        total = total + index_put(contribution, 0, key=tuple(at_i))
    return total


def _products_of_others_infer(x: Spec, *, axis: int) -> Spec:
    normalise_axis("products_of_others", axis, x.ndim)
    return x


products_of_others = row(
    "products_of_others",
    _products_of_others,
    vjp=_products_of_others_vjp,
    jvp="symmetric",
    saves="x",
    infer=_products_of_others_infer,
    doc="For each entry, the product of the others along one axis: the derivative of prod, exact where entries are 0.",
)

prod = row(
    "prod",
    lambda xp, x, axis, keepdims: xp.prod(
        x, axis=axis, keepdims=keepdims, dtype=np.int64 if x.dtype.kind in "biu" else x.dtype
    ),
    vjp=_prod_vjp,
    jvp=_prod_jvp,
    saves="x",
    infer=_prod_infer,
    strict=True,
    doc="Product over one axis, or of all entries. The derivative is exact also where entries are 0.",
)


def _logsumexp(xp: Any, x: Any, axis: Axis, keepdims: bool) -> Any:
    dtype, x = x.dtype, wide(x)
    top = xp.max(x, axis=_axis(axis), keepdims=True) if x.size else xp.zeros(kept(x.shape, axis), x.dtype)
    # Where all entries are -inf, or one is inf, the shift would be infinite, and inf - inf is NaN.
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    with np.errstate(divide="ignore"):  # the logarithm of 0 is the -inf that is wanted
        total = xp.log(xp.sum(xp.exp(x - top), axis=_axis(axis), keepdims=True)) + top
    total = total.astype(dtype, copy=False)
    return (
        total
        if keepdims
        else xp.reshape(total, tuple(s for i, s in enumerate(x.shape) if i not in normalise_axes("", axis, x.ndim)))
    )


logsumexp = reduction(
    "logsumexp",
    _logsumexp,
    vjp=lambda g, out, x, axis, keepdims: (
        spread(g, x, axis) * exp(x - spread(where(out == float("-inf"), 0, out), x, axis))
    ),
    jvp=lambda t, out, x, axis, keepdims: sum(
        t * exp(x - spread(where(out == float("-inf"), 0, out), x, axis)), axis=axis, keepdims=keepdims
    ),
    saves="out x",
    dtypes="float",
    doc="log(sum(exp(x))) over axes, without overflow. Where every entry is -inf the result is -inf and the "
    "derivative 0, so that a fully masked row does no harm; PyTorch and TensorFlow give NaN.",
)


def _arg_infer(name: str) -> Any:
    def infer(x: Spec, *, axis: int | None = None, keepdims: bool = False) -> Spec:
        _one_axis(name, axis)
        shape = _reduced(name, x, axis, keepdims)
        if count(x.shape, axis) == 0:
            raise ValueError(f"{name}: a tensor of shape {x.shape} has no entries along axis {axis} to choose from.")
        return Spec(shape, np.int64)

    return infer


argmax = row(
    "argmax",
    lambda xp, x, axis, keepdims: xp.argmax(x, axis=axis, keepdims=keepdims),
    vjp=None,
    infer=_arg_infer("argmax"),
    doc="Index of the largest entry, the first of several; into the flattened tensor if axis is None. NaN counts as "
    "the largest, as in PyTorch; TensorFlow passes it over.",
)
argmin = row(
    "argmin",
    lambda xp, x, axis, keepdims: xp.argmin(x, axis=axis, keepdims=keepdims),
    vjp=None,
    infer=_arg_infer("argmin"),
    doc="Index of the smallest entry, the first of several; into the flattened tensor if axis is None. NaN counts as "
    "the smallest, as in PyTorch; TensorFlow passes it over.",
)

amax, amin = max, min
"""PyTorch's and NumPy's names, beside torch.max, which is another function."""

any = reduction(
    "any",
    lambda xp, x, axis, keepdims: xp.any(x, axis=_axis(axis), keepdims=keepdims),
    vjp=None,
    result=lambda dtype: np.dtype(bool),
    doc="Whether some entry is true (not 0).",
)
all = reduction(
    "all",
    lambda xp, x, axis, keepdims: xp.all(x, axis=_axis(axis), keepdims=keepdims),
    vjp=None,
    result=lambda dtype: np.dtype(bool),
    doc="Whether every entry is true (not 0).",
)
