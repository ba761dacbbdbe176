"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from internals.ops.elementwise import ones_like
from internals.ops.reduce import accumulator
from internals.ops.shape import concat, flip, stack
from internals.ops.spec import Spec, is_floating, normalise_axis
from internals.ops.table import row


def _scan_infer(name: str) -> Callable[..., Spec]:
    def infer(x: Spec, *, axis: int) -> Spec:
        normalise_axis(name, axis, x.ndim)
        return Spec(x.shape, np.int64 if x.dtype.kind in "biu" else x.dtype)

    return infer


def _scan(name: str) -> Callable[..., Any]:
    def kernel(xp: Any, x: Any, axis: int) -> Any:
        held = getattr(xp, name)(x, axis=axis, dtype=accumulator(x.dtype))
        return held.astype(x.dtype, copy=False) if is_floating(x.dtype) else held

    return kernel


cumsum = row(
    "cumsum",
    _scan("cumsum"),
    vjp=lambda g, out, x, axis: flip(cumsum(flip(g, axis=axis), axis=axis), axis=axis),
    jvp="linear",
    infer=_scan_infer("cumsum"),
    strict=True,
    doc="Sum of the entries so far, along an axis. Integers and booleans add up in int64, as in PyTorch; TensorFlow "
    "keeps the integer dtype it is given.",
)


def _slices(x: Any, axis: int) -> list[Any]:
    """The entries along an axis, each a tensor without that axis."""
    before = (slice(None),) * normalise_axis("cumprod", axis, x.ndim)
    return [x[(*before, i)] for i in range(x.shape[axis])]


def _shifted(out: Any, axis: int) -> Any:
    """The product of the entries before each one: those of `out`, one place on."""
    before, n = (slice(None),) * normalise_axis("cumprod", axis, out.ndim), out.shape[axis]
    first, rest = out[(*before, slice(0, min(n, 1)))], out[(*before, slice(0, max(n - 1, 0)))]
    return concat([ones_like(first), rest], axis=axis)


def _cumprod_vjp(g: Any, out: Any, x: Any, axis: int) -> Any:
    # By x[j]: what stands before it, times what follows from there on: follows[j] = g[j] + x[j + 1] * follows[j + 1].
    # No division, so zeros among the entries are no special case.
    cotangents, entries = _slices(g, axis), _slices(x, axis)
    follows = cotangents[-1:]
    for cotangent, entry in zip(cotangents[-2::-1], entries[:0:-1], strict=True):
        follows.append(cotangent + entry * follows[-1])
    return _shifted(out, axis) * stack(follows[::-1], axis=axis) if follows else g


def _cumprod_jvp(t: Any, out: Any, x: Any, axis: int) -> Any:
    tangents, entries, before = _slices(t, axis), _slices(x, axis), _slices(_shifted(out, axis), axis)
    pushed = tangents[:1]
    for tangent, entry, product in zip(tangents[1:], entries[1:], before[1:], strict=True):
        pushed.append(tangent * product + entry * pushed[-1])
    return stack(pushed, axis=axis) if pushed else t


cumprod = row(
    "cumprod",
    _scan("cumprod"),
    vjp=_cumprod_vjp,
    jvp=_cumprod_jvp,
    saves="out x",
    infer=_scan_infer("cumprod"),
    strict=True,
    doc="Product of the entries so far, along an axis. Integers multiply in int64. The derivative is exact also where "
    "entries are 0, as in PyTorch; TensorFlow divides, and gives NaN.",
)
