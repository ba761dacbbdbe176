"""Systems of linear equations, inverses and determinants, of matrices in the last two axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from internals.ops.arrange import tril, triu
from internals.ops.reduce import sum
from internals.ops.shape import expand_dims, swapaxes
from internals.ops.spec import Spec, broadcast_shapes
from internals.ops.table import row


def turned(x: Any) -> Any:
    """The transpose of each matrix."""
    return swapaxes(x, -1, -2)


def matrices(name: str, x: Spec, what: str = "x") -> Spec:
    """Refuse what LAPACK has no routine for."""
    if x.ndim < 2:
        raise ValueError(f"{name}: {what} must be matrices, of two axes or more, got shape {x.shape}.")
    if x.dtype.itemsize < 4:
        raise TypeError(f"{name}: not computed in {x.dtype}, whose precision is too low. Cast it: x.to('float32').")
    return x


def square(name: str, x: Spec, what: str = "x") -> Spec:
    matrices(name, x, what)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name}: {what} must be square matrices, got shape {x.shape}.")
    return x


def lapack(name: str, fault: str, function: Callable[..., Any], *arrays: Any, **settings: Any) -> Any:
    """A routine's result; what it can't do is said in terms of the op. (CuPy gives NaN: looking would mean waiting.)"""
    try:
        return function(*arrays, **settings)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{name}: {fault} ({error}).") from None


SINGULAR = "a matrix is singular, so there is no one solution. Add a small multiple of the identity, or check the rows"


def _fitting(name: str, a: Spec, b: Spec) -> tuple[int, ...]:
    square(name, a, "a")
    rows = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if rows != a.shape[-1]:
        raise ValueError(f"{name}: a of shape {a.shape} has {a.shape[-1]} rows, but b of shape {b.shape} has {rows}.")
    return (*broadcast_shapes(name, a.shape[:-2], b.shape[:-2]), rows, *b.shape[-1:][: b.ndim - 1])


def _solved(xp: Any, name: str, a: Any, b: Any) -> Any:
    columns = b if b.ndim > 1 else b[:, None]
    batch = broadcast_shapes(name, a.shape[:-2], columns.shape[:-2])
    a = xp.broadcast_to(a, (*batch, *a.shape[-2:]))
    columns = xp.broadcast_to(columns, (*batch, *columns.shape[-2:]))
    out = lapack(name, SINGULAR, xp.linalg.solve, a, columns)
    return out if b.ndim > 1 else out[..., 0]


def _solve_infer(a: Spec, b: Spec) -> Spec:
    if b.ndim == 0:
        raise ValueError("solve: b of shape () is no right-hand side; expected (n,) or (..., n, k).")
    return Spec(_fitting("solve", a, b), a.dtype)


def _columns(x: Any, b: Any) -> Any:
    """A solution or its cotangent as matrices, also where b is a vector."""
    return x if b.ndim > 1 else expand_dims(x, axis=-1)


def _as_b(columns: Any, b: Any) -> Any:
    return columns if b.ndim > 1 else columns[..., 0]


def _solve_by_b(g: Any, out: Any, a: Any, b: Any) -> Any:
    return _as_b(solve(turned(a), _columns(g, b)), b)


def _solve_by_a(g: Any, out: Any, a: Any, b: Any) -> Any:
    return -(solve(turned(a), _columns(g, b)) @ turned(_columns(out, b)))


solve = row(
    "solve",
    lambda xp, a, b: _solved(xp, "solve", a, b),
    vjp=(_solve_by_a, _solve_by_b),
    jvp=(
        lambda t, out, a, b: -_as_b(solve(a, t @ _columns(out, b)), b),
        lambda t, out, a, b: solve(a, t),
    ),
    saves=("out a", "a"),
    infer=_solve_infer,
    strict=True,
    dtypes="float",
    broadcasts=True,
    doc="The x for which a @ x is b. b is a vector if it is 1-D, and matrices else; the axes in front broadcast "
    "(NumPy's rule; torch.linalg.solve also takes batches of vectors, tf.linalg.solve matrices alone). A singular "
    "matrix is an error on the cpu.",
)


def _triangle(upper: bool) -> Any:
    return triu if upper else tril


def _triangular_infer(a: Spec, b: Spec, *, upper: bool = False, transposed: bool = False) -> Spec:
    if b.ndim < 2:
        raise ValueError(f"triangular_solve: b must be matrices, of two axes or more, got shape {b.shape}.")
    return Spec(_fitting("triangular_solve", a, b), a.dtype)


def _triangular(xp: Any, a: Any, b: Any, upper: bool, transposed: bool) -> Any:
    a = xp.triu(a) if upper else xp.tril(a)
    return _solved(xp, "triangular_solve", xp.swapaxes(a, -1, -2) if transposed else a, b)


def _triangular_by_a(g: Any, out: Any, a: Any, b: Any, upper: bool, transposed: bool) -> Any:
    by_b = triangular_solve(a, g, upper=upper, transposed=not transposed)
    return -_triangle(upper)(out @ turned(by_b) if transposed else by_b @ turned(out))


def _triangular_pushed(t: Any, out: Any, a: Any, b: Any, upper: bool, transposed: bool) -> Any:
    moved = _triangle(upper)(t)
    moved = (turned(moved) if transposed else moved) @ out
    return -triangular_solve(a, moved, upper=upper, transposed=transposed)


triangular_solve = row(
    "triangular_solve",
    _triangular,
    vjp=(
        _triangular_by_a,
        lambda g, out, a, b, upper, transposed: triangular_solve(a, g, upper=upper, transposed=not transposed),
    ),
    jvp=(
        _triangular_pushed,
        lambda t, out, a, b, upper, transposed: triangular_solve(a, t, upper=upper, transposed=transposed),
    ),
    saves=("out a", "a"),
    infer=_triangular_infer,
    strict=True,
    dtypes="float",
    broadcasts=True,
    doc="The x for which a @ x is b, of a only the lower triangle being looked at, or the upper one; or its transpose. "
    "torch.linalg.solve_triangular, tf.linalg.triangular_solve.",
)


inverse = row(
    "inverse",
    lambda xp, x: lapack("inverse", SINGULAR, xp.linalg.inv, x),
    vjp=lambda g, out, x: -(turned(out) @ g @ turned(out)),
    jvp=lambda t, out, x: -(out @ t @ out),
    saves="out",
    infer=lambda x: square("inverse", x),
    strict=True,
    dtypes="float",
    doc="The inverse of each matrix; solve is better where it is only multiplied by. A singular matrix is an error on "
    "the cpu. torch.linalg.inv, tf.linalg.inv.",
)


def _everywhere(g: Any) -> Any:
    """One number for each matrix, for all its entries."""
    return expand_dims(expand_dims(g, axis=-1), axis=-1)


det = row(
    "det",
    lambda xp, x: xp.asarray(xp.linalg.det(x)),
    vjp=lambda g, out, x: _everywhere(g * out) * turned(inverse(x)),
    jvp=lambda t, out, x: out * sum(turned(inverse(x)) * t, axis=(-2, -1)),
    saves="out x",
    infer=lambda x: Spec(square("det", x).shape[:-2], x.dtype),
    strict=True,
    dtypes="float",
    doc="The determinant of each matrix. The derivative goes by way of the inverse, so at a singular matrix it is an "
    "error on the cpu, though there is one. torch.linalg.det, tf.linalg.det.",
)


slogdet = row(
    "slogdet",
    lambda xp, x: tuple(xp.linalg.slogdet(x)),
    vjp=lambda g, out, x: _everywhere(g[1]) * turned(inverse(x)),
    jvp=lambda t, out, x: (None, sum(turned(inverse(x)) * t, axis=(-2, -1))),
    saves="x",
    results=("sign", "logabsdet"),
    infer=lambda x: (Spec(square("slogdet", x).shape[:-2], x.dtype),) * 2,
    strict=True,
    dtypes="float",
    doc="The sign of the determinant of each matrix, and the logarithm of its absolute value, where the determinant "
    "itself would overflow. A singular matrix has sign 0 and logarithm -inf, and its derivative is an error on the "
    "cpu. torch.linalg.slogdet, tf.linalg.slogdet.",
)
