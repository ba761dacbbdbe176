"""Scaled dot-product attention as one row, which keeps no table of probabilities."""

from __future__ import annotations

from typing import Any

from internals.ops.arrange import tril
from internals.ops.elementwise import cast, greater, logical_and, ones_like, where
from internals.ops.loss import softmax
from internals.ops.reduce import accumulator, sum, wide
from internals.ops.shape import broadcast_to, swapaxes
from internals.ops.spec import Spec, broadcast_shapes, dtype_of, shape_of
from internals.ops.table import row

BLOCK = 1 << 18
"""How many scores the kernel holds at once: about a megabyte of float32, which stays in a core's cache."""

_LOW = -1e30
"""Stands for minus infinity where all keys of a query are hidden, and infinity less infinity would be NaN."""


def _attention(xp: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    dtype, q, k, v = q.dtype, wide(q), wide(k), wide(v)
    queries, keys = q.shape[-2], k.shape[-2]
    out = xp.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    q = q * _scale(q, scale)
    seen = xp.tril(xp.ones((queries, keys), bool)) if causal else None
    if q.ndim == 2:
        return _block(xp, q, k, v, mask, seen, out).astype(dtype, copy=False)
    step = max(1, BLOCK * len(q) // max(q.size // max(q.shape[-1], 1) * keys, 1))
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        _block(xp, q[part], k[part], v[part], mask[part] if shape_of(mask) else mask, seen, out[part])
    return out.astype(dtype, copy=False)


def _block(xp: Any, q: Any, k: Any, v: Any, mask: Any, seen: Any, out: Any) -> Any:
    """Attention for some of the batch, written into `out`; q is scaled already."""
    scores = xp.matmul(q, xp.swapaxes(k, -1, -2))
    if dtype_of(mask).kind == "b":
        scores = xp.where(mask, scores, float("-inf"))
    elif shape_of(mask) or hasattr(mask, "dtype") or mask:
        scores += mask
    if seen is not None:
        scores = xp.where(seen, scores, float("-inf"))
    if not k.shape[-2]:
        out[...] = 0
        return out
    top = xp.max(scores, axis=-1, keepdims=True)
    scores -= xp.where(top == float("-inf"), 0, top)
    xp.exp(scores, out=scores)
    total = xp.sum(scores, axis=-1, keepdims=True)
    xp.matmul(scores, v, out=out)
    return xp.divide(out, xp.where(total == 0, 1, total), out=out)


def _scale(q: Any, scale: float | None) -> float:
    return max(q.shape[-1], 1) ** -0.5 if scale is None else scale


def _broad(x: Any) -> Any:
    """x in the dtype in which sums over it are held."""
    return cast(x, dtype=accumulator(x.dtype)) if x.dtype.itemsize < 4 else x


def _probabilities(q: Any, k: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    """softmax(q k^T scale + mask); 0 throughout for a query that may see no key."""
    scores = (q * _scale(q, scale)) @ swapaxes(k, -1, -2)
    if not k.shape[-2]:
        return scores
    allowed = mask if dtype_of(mask).kind == "b" and shape_of(mask) else None
    if allowed is None and hasattr(mask, "dtype"):
        scores = scores + (mask if mask.dtype == scores.dtype else cast(mask, dtype=scores.dtype))
        allowed = greater(scores, float("-inf"))
    if causal:
        seen = greater(tril(ones_like(scores)), 0.5)
        allowed = seen if allowed is None else logical_and(allowed, seen)
    if allowed is None:
        return softmax(scores, axis=-1)
    return softmax(where(allowed, scores, _LOW), axis=-1) * cast(allowed, dtype=scores.dtype)


def _spread(p: Any, by_p: Any) -> Any:
    """A cotangent or tangent of the probabilities as one of the scores, or the other way: softmax's Jacobian."""
    return p * (by_p - sum(p * by_p, axis=-1, keepdims=True))


def _vjp(
    g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None
) -> tuple[Any, Any, Any, Any]:
    dtype = q.dtype
    g, out, q, k, v = (_broad(x) for x in (g, out, q, k, v))
    p = _probabilities(q, k, mask, causal, scale)
    # The sum over keys of p times its cotangent is g . out, which has no axis of keys (Dao et al. 2022, appendix B.2).
    by_scores = p * (g @ swapaxes(v, -1, -2) - sum(g * out, axis=-1, keepdims=True))
    by_q = by_scores @ k * _scale(q, scale)
    by_k = swapaxes(by_scores, -1, -2) @ (q * _scale(q, scale))
    by_v = swapaxes(p, -1, -2) @ g
    cotangents = [x if x.dtype == dtype else cast(x, dtype=dtype) for x in (by_q, by_k, by_v)]
    return *cotangents, _by_mask(by_scores, mask)


def _by_mask(by_scores: Any, mask: Any) -> Any:
    """The cotangent of an additive mask; None for a boolean one, or for none."""
    if not hasattr(mask, "dtype") or mask.dtype.kind == "b":
        return None
    total = by_scores if mask.ndim else sum(by_scores)
    return total if total.dtype == mask.dtype else cast(total, dtype=mask.dtype)


def _pushed(by_scores: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    """The tangent of the result, from a function of the probabilities that gives the scores' tangent."""
    dtype, q, k, v = q.dtype, _broad(q), _broad(k), _broad(v)
    moved = _spread(_probabilities(q, k, mask, causal, scale), by_scores(q, k)) @ v
    return moved if moved.dtype == dtype else cast(moved, dtype=dtype)


def _jvp_q(t: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    scores = lambda q, k: (_broad(t) * _scale(q, scale)) @ swapaxes(k, -1, -2)  # noqa: E731
    return _pushed(scores, q, k, v, mask, causal, scale)


def _jvp_k(t: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    scores = lambda q, k: (q * _scale(q, scale)) @ swapaxes(_broad(t), -1, -2)  # noqa: E731
    return _pushed(scores, q, k, v, mask, causal, scale)


def _jvp_v(t: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    moved = _probabilities(_broad(q), _broad(k), mask, causal, scale) @ _broad(t)
    return moved if moved.dtype == out.dtype else cast(moved, dtype=out.dtype)


def _jvp_mask(t: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    return _pushed(lambda q, k: _broad(t), q, k, v, mask, causal, scale)


def _infer(q: Spec, k: Spec, v: Spec, mask: Spec, *, causal: bool = False, scale: float | None = None) -> Spec:
    name = "scaled_dot_product"
    if q.dtype.kind in "biu" or not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"{name}: q, k and v must have one floating dtype, got {q.dtype}, {k.dtype} and {v.dtype}. Cast them."
        )
    if min(q.ndim, k.ndim, v.ndim) < 2 or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(
            f"{name}: q {q.shape}, k {k.shape} and v {v.shape} must be (..., queries, depth), (..., keys, depth) and "
            "(..., keys, value depth), with the same axes in front."
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{name}: q {q.shape} and k {k.shape} differ in depth, {q.shape[-1]} and {k.shape[-1]}.")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{name}: there are {k.shape[-2]} keys, k {k.shape}, but {v.shape[-2]} values, v {v.shape}.")
    scores = (*q.shape[:-1], k.shape[-2])
    if mask.shape not in ((), scores):
        raise ValueError(f"{name}: the mask has shape {mask.shape}; the scores have {scores}.")
    if mask.shape and mask.dtype.kind in "iu":
        raise TypeError(
            f"{name}: the mask must be boolean, True where a key may be seen, or floating, to be added to the scores; "
            f"got {mask.dtype}."
        )
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, int | float)):
        raise TypeError(f"{name}: scale must be a number, or None for depth ** -0.5, got {scale!r}.")
    return Spec((*q.shape[:-1], v.shape[-1]), q.dtype)


scaled_dot_product = row(
    "scaled_dot_product",
    _attention,
    vjp=_vjp,
    jvp=(_jvp_q, _jvp_k, _jvp_v, _jvp_mask),
    saves="q k v mask out",
    infer=_infer,
    strict=True,
    joint=True,
    doc="softmax(q k^T scale + mask) v (Vaswani et al. 2017, 3.2.1), computed block by block: the probabilities are "
    "made again in the backward pass, not kept (Dao et al. 2022). The mask has the scores' shape, or is a number. "
    "`attention` is the function to call. PyTorch's scaled_dot_product_attention; TensorFlow has the formula.",
)


def attention(q: Any, k: Any, v: Any, mask: Any = None, *, causal: bool = False, scale: float | None = None) -> Any:
    """Scaled dot-product attention: each query's mean of the values, weighted by softmax(q k^T scale + mask).

    Parameters
    ----------
    q : (..., queries, depth)
    k : (..., keys, depth)
    v : (..., keys, value depth)
        Axes in front are broadcast.
    mask : broadcasts to (..., queries, keys), optional
        Boolean, True where a query may see a key; or floating, added to the scores.
    causal : bool
        A query sees the keys up to its own position, besides what the mask says. PyTorch takes one or the other.
    scale : float, optional
        depth ** -0.5 unless given.

    Returns
    -------
    (..., queries, value depth). Zeros for a query that may see no key, as in PyTorch; by TensorFlow's formula, NaN.

    Raises
    ------
    TypeError, ValueError
        dtypes or shapes that do not fit.
    """
    given = {"q": q, "k": k, "v": v} | ({} if mask is None else {"the mask": mask})
    for name, value in given.items():
        if not hasattr(value, "shape"):
            raise TypeError(f"attention: {name} must be a Tensor, got {type(value).__name__}.")
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(f"attention: q {q.shape}, k {k.shape} and v {v.shape} must each have two axes or more.")
    front = broadcast_shapes("attention", q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (x if x.shape[:-2] == front else broadcast_to(x, shape=(*front, *x.shape[-2:])) for x in (q, k, v))
    scores = (*front, q.shape[-2], k.shape[-2])
    if mask is not None:
        if broadcast_shapes("attention", mask.shape, scores) != scores:
            raise ValueError(f"attention: a mask of shape {mask.shape} does not fit scores of shape {scores}.")
        mask = mask if mask.shape == scores else broadcast_to(mask, shape=scores)
    return scaled_dot_product(q, k, v, 0.0 if mask is None else mask, causal=causal, scale=scale)
