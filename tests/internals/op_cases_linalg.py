"""The cases of internals/ops/solve.py and decompose.py. Where signs are open, the frameworks' are brought to ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import anything, on, shapes


def regular(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Matrices far from singular, of either sign of the determinant."""
    return rng.standard_normal(shape) + 3 * np.eye(*shape[-2:]) * rng.choice([-1, 1], shape[-1])


def orthogonal(rng: np.random.Generator, batch: tuple[int, ...], n: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((*batch, n, n)))[0]


def positive_definite(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    q = orthogonal(rng, shape[:-2], shape[-1])
    return q * np.arange(1, shape[-1] + 1) @ np.swapaxes(q, -1, -2)


def well_apart(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Matrices whose singular values are 1, 2, 3, ..."""
    *batch, m, n = shape
    k = min(m, n)
    u, v = orthogonal(rng, tuple(batch), m)[..., :k], orthogonal(rng, tuple(batch), n)[..., :k]
    return u * np.arange(1, k + 1) @ np.swapaxes(v, -1, -2)


def columns(b: Any) -> Any:
    return b if len(b.shape) > 1 else b[..., None]


def tf_solve(f: Any, a: Any, b: Any) -> Any:
    """With the batch spelled out, and vectors as matrices."""
    b, vector = columns(b), len(b.shape) == 1
    batch = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    a, b = f.broadcast_to(a, (*batch, *a.shape[-2:])), f.broadcast_to(b, (*batch, *b.shape[-2:]))
    out = f.linalg.solve(a, b)
    return out[..., 0] if vector else out


def torch_solve(t: Any, a: Any, b: Any) -> Any:
    out = t.linalg.solve(a, columns(b))
    return out if b.ndim > 1 else out[..., 0]


def torch_triangular(t: Any, a: Any, b: Any, upper: bool, transposed: bool) -> Any:
    part = t.triu(a) if upper else t.tril(a)
    return t.linalg.solve_triangular(part.mT if transposed else part, b, upper=upper != transposed)


def tf_triangular(f: Any, a: Any, b: Any, upper: bool, transposed: bool) -> Any:
    return f.linalg.triangular_solve(a, b, lower=not upper, adjoint=transposed)


def torch_symmetric(x: Any) -> Any:
    return (x + x.mT) / 2


def tf_symmetric(f: Any, x: Any) -> Any:
    return (x + f.linalg.matrix_transpose(x)) / 2


def torch_towards(t: Any, vectors: Any) -> Any:
    if not vectors.numel():
        return 1
    return vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True)).sign().detach()


def tf_towards(f: Any, vectors: Any) -> Any:
    size = f.abs(vectors)
    largest = f.where(size == f.reduce_max(size, -2, keepdims=True), vectors, f.zeros_like(vectors))
    return f.stop_gradient(f.sign(f.reduce_sum(largest, -2, keepdims=True)))


def torch_qr(t: Any, x: Any) -> Any:
    q, r = t.linalg.qr(x)
    signs = r.diagonal(0, -2, -1).sign().detach()
    return q * signs[..., None, :], r * signs[..., None]


def tf_qr(f: Any, x: Any) -> Any:
    q, r = f.linalg.qr(x)
    signs = f.stop_gradient(f.sign(f.linalg.diag_part(r)))
    return q * signs[..., None, :], r * signs[..., None]


def torch_eigh(t: Any, x: Any) -> Any:
    values, vectors = t.linalg.eigh(torch_symmetric(x))
    return values, vectors * torch_towards(t, vectors)


def tf_eigh(f: Any, x: Any) -> Any:
    values, vectors = f.linalg.eigh(tf_symmetric(f, x))
    return values, vectors * tf_towards(f, vectors)


def torch_svd(t: Any, x: Any) -> Any:
    u, s, vh = t.linalg.svd(x, full_matrices=False)
    signs = torch_towards(t, u)
    return u * signs, s, vh * (signs.mT if x.numel() else 1)


def tf_svd(f: Any, x: Any) -> Any:
    s, u, v = f.linalg.svd(x)
    signs = tf_towards(f, u)
    return u * signs, s, f.linalg.matrix_transpose(v * signs)


SQUARE = shapes(((1, 1),), ((0, 2, 2),), ((3, 3),), ((2, 3, 3),))
RIGHT = shapes(((1, 1), (1, 1)), ((0, 2, 2), (2, 1)), ((3, 3), (3,)), ((2, 3, 3), (3,)), ((3, 3), (2, 3, 1)),
               ((2, 3, 3), (2, 3, 2)))  # fmt: skip
TRIANGULAR = [on((1, 1), (1, 1)), on((0, 2, 2), (0, 2, 1)), on((3, 3), (3, 2), upper=True),
              on((3, 3), (3, 2), transposed=True), on((3, 3), (3, 1), upper=True, transposed=True),
              on((2, 3, 3), (2, 3, 2))]  # fmt: skip
TALL = shapes(((1, 1),), ((0, 3, 2),), ((3, 3),), ((4, 2),), ((2, 3, 2),))
WIDE = shapes(((2, 4),), ((2, 2, 3),))

LINALG = [
    Case("solve", torch_solve, tf_solve, RIGHT, (regular, anything)),
    Case("triangular_solve", torch_triangular, tf_triangular, TRIANGULAR, (regular, anything)),
    Case("inverse", "linalg.inv", "linalg.inv", SQUARE, regular),
    Case("det", "linalg.det", "linalg.det", SQUARE, regular),
    Case("slogdet", lambda t, x: tuple(t.linalg.slogdet(x)), lambda f, x: tuple(f.linalg.slogdet(x)), SQUARE, regular),
    Case("cholesky", lambda t, x: t.linalg.cholesky(torch_symmetric(x)), lambda f, x: f.linalg.cholesky(tf_symmetric(f,
         x)), SQUARE, positive_definite),
    Case("qr", torch_qr, tf_qr, TALL, well_apart),
    Case("qr", torch_qr, tf_qr, WIDE, well_apart),
    Case("eigh", torch_eigh, tf_eigh, SQUARE, positive_definite),
    Case("svd", torch_svd, tf_svd, TALL, well_apart),
    Case("svd", torch_svd, tf_svd, WIDE, well_apart),
]  # fmt: skip
