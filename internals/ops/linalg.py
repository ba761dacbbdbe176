"""Linear algebra: matrix products in all ranks."""

from __future__ import annotations

from typing import Any

from internals.ops.shape import expand_dims, reshape, swapaxes
from internals.ops.spec import Spec, broadcast_shapes
from internals.ops.table import row


def _matmul_infer(x: Spec, y: Spec) -> Spec:
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(f"matmul: {x.shape} @ {y.shape}: a 0-d tensor has no axis to multiply along; use *.")
    rows, columns = x.shape[-2:-1], y.shape[-1:] if y.ndim > 1 else ()
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise ValueError(
            f"matmul: {x.shape} @ {y.shape}: inner sizes {x.shape[-1]} and {inner} differ. Transpose the weight, or "
            "check the layer's in_features."
        )
    return Spec((*broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2]), *rows, *columns), x.dtype)


def _by_left(g: Any, out: Any, x: Any, y: Any) -> Any:
    if y.ndim == 1:
        return g * y if x.ndim == 1 else expand_dims(g, axis=-1) * y
    if x.ndim == 1:
        return (y @ expand_dims(g, axis=-1))[..., 0]
    return g @ (y.T if y.ndim == 2 else swapaxes(y, -1, -2))


def _by_right(g: Any, out: Any, x: Any, y: Any) -> Any:
    if x.ndim == 1:
        return x * g if y.ndim == 1 else expand_dims(x, axis=-1) * expand_dims(g, axis=-2)
    if y.ndim == 1:
        return (swapaxes(x, -1, -2) @ expand_dims(g, axis=-1))[..., 0]
    if y.ndim == 2 and x.ndim > 2:
        # One product over all rows of the batch; the other way makes a matrix per example and sums them.
        n, m = x.shape[-1], g.shape[-1]
        rows = x.size // n if n else 0
        return (
            swapaxes(reshape(x, shape=(rows, n)), 0, 1) @ reshape(g, shape=(g.size // m if m else rows, m))
            if n and m
            else _by_batch(g, x)
        )
    return _by_batch(g, x)


def _by_batch(g: Any, x: Any) -> Any:
    return (x.T if x.ndim == 2 else swapaxes(x, -1, -2)) @ g


matmul = row(
    "matmul",
    "matmul",
    vjp=(_by_left, _by_right),
    jvp="bilinear",
    saves=("y", "x"),
    infer=_matmul_infer,
    dtypes="promote",
    broadcasts=True,
    doc="Matrix product over the last two axes, the others broadcast; a 1-D input is a row on the left, a column on "
    "the right, and its axis goes away (NumPy's and PyTorch's rule; tf.matmul takes no 1-D input, tf.tensordot stands "
    "for it in the tests).",
)
