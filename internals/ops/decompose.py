"""Matrix decompositions, of matrices in the last two axes.

Where a decomposition leaves signs open, they are chosen here, so that the result is one and the same on every device.
"""

from __future__ import annotations

from typing import Any

from internals.ops.arrange import diag_embed, diagonal, tril, triu
from internals.ops.elementwise import ones_like, where
from internals.ops.shape import concat, expand_dims
from internals.ops.solve import lapack, matrices, square, triangular_solve, turned
from internals.ops.spec import Spec
from internals.ops.table import row


def _symmetric(x: Any) -> Any:
    return 0.5 * (x + turned(x))


def _half_lower(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    return 0.5 * (tril(x) + tril(x, k=-1))


def _cholesky_vjp(g: Any, out: Any, x: Any) -> Any:
    inner = _half_lower(turned(out) @ tril(g))
    left = triangular_solve(out, inner, transposed=True)
    return _symmetric(turned(triangular_solve(out, turned(left), transposed=True)))


def _cholesky_jvp(t: Any, out: Any, x: Any) -> Any:
    left = triangular_solve(out, _symmetric(t))
    return out @ _half_lower(turned(triangular_solve(out, turned(left))))


INDEFINITE = "a matrix is not positive definite. Add a small multiple of the identity, or check that it is symmetric"

cholesky = row(
    "cholesky",
    lambda xp, x: lapack("cholesky", INDEFINITE, xp.linalg.cholesky, 0.5 * (x + xp.swapaxes(x, -1, -2))),
    vjp=_cholesky_vjp,
    jvp=_cholesky_jvp,
    saves="out",
    infer=lambda x: square("cholesky", x),
    strict=True,
    dtypes="float",
    doc="The lower triangular matrix whose product with its transpose is x (derivative: Murray 2016). Of x the "
    "symmetric part counts, where PyTorch and TensorFlow read the lower triangle. If x is not positive definite it is "
    "an error on the cpu. torch.linalg.cholesky, tf.linalg.cholesky.",
)


def _positive(xp: Any, x: Any) -> Any:
    """1 or -1, the sign by which x becomes positive."""
    return xp.where(x < 0, -1, 1).astype(x.dtype, copy=False)


def _qr(xp: Any, x: Any) -> tuple[Any, Any]:
    q, r = xp.linalg.qr(x, mode="reduced")
    signs = _positive(xp, xp.diagonal(r, 0, -2, -1))
    return q * signs[..., None, :], r * signs[..., None]


def _qr_infer(x: Spec) -> tuple[Spec, Spec]:
    *batch, m, n = matrices("qr", x).shape
    k = min(m, n)
    return Spec((*batch, m, k), x.dtype), Spec((*batch, k, n), x.dtype)


def _divided(x: Any, r: Any) -> Any:
    """x @ inverse(r).T, of an upper triangular r."""
    return turned(triangular_solve(r, turned(x), upper=True))


def _tall_qr_vjp(q_bar: Any, r_bar: Any, q: Any, r: Any) -> Any:
    inner = r @ turned(triu(r_bar)) - turned(q_bar) @ q
    return _divided(q_bar + q @ (tril(inner) + turned(tril(inner, k=-1))), r)


def _qr_vjp(g: Any, out: Any, x: Any) -> Any:
    (q_bar, r_bar), (q, r), k = g, out, out.q.shape[-1]
    if x.shape[-1] == k:
        return _tall_qr_vjp(q_bar, r_bar, q, r)
    # What stands to the right of the square part is q @ r there, with a q that the square part alone decides.
    more = r_bar[..., k:]
    square_part = _tall_qr_vjp(q_bar + q @ r[..., k:] @ turned(more), r_bar[..., :k], q, r[..., :k])
    return concat([square_part, q @ more], axis=-1)


def _qr_jvp(t: Any, out: Any, x: Any) -> tuple[Any, Any]:
    q, r = out
    k = q.shape[-1]
    ratio = turned(triangular_solve(r[..., :k], turned(t[..., :k]), upper=True, transposed=True))
    inner = turned(q) @ ratio
    lower = tril(inner, k=-1)
    growth = inner - lower + turned(lower)  # of r, upper triangular; what is left turns q
    q_dot, r_dot = ratio - q @ growth, growth @ r[..., :k]
    if x.shape[-1] == k:
        return q_dot, r_dot
    return q_dot, concat([r_dot, turned(q_dot) @ (q @ r[..., k:]) + turned(q) @ t[..., k:]], axis=-1)


qr = row(
    "qr",
    _qr,
    vjp=_qr_vjp,
    jvp=_qr_jvp,
    saves="q r",
    results=("q", "r"),
    infer=_qr_infer,
    strict=True,
    dtypes="float",
    doc="x as orthonormal columns q times an upper triangular r with a positive diagonal; of an (m, n) matrix the "
    "first min(m, n) columns (derivative: Walter & Lehmann 2010). The signs are chosen so that there is one answer; "
    "PyTorch and TensorFlow leave them open. The first min(m, n) columns of x must be independent, or the derivative "
    "is an error on the cpu. torch.linalg.qr, tf.linalg.qr.",
)


UNSETTLED = "the iteration did not settle. Check x for NaN and infinity"


def _towards(xp: Any, vectors: Any) -> Any:
    """For each column 1 or -1, by which its largest entry becomes positive."""
    if not vectors.size:
        return xp.ones((*vectors.shape[:-2], 1, vectors.shape[-1]), vectors.dtype)
    largest = xp.argmax(xp.abs(vectors), axis=-2, keepdims=True)
    return _positive(xp, xp.take_along_axis(vectors, largest, -2))


def _eigh(xp: Any, x: Any) -> tuple[Any, Any]:
    values, vectors = lapack("eigh", UNSETTLED, xp.linalg.eigh, 0.5 * (x + xp.swapaxes(x, -1, -2)))
    return values, vectors * _towards(xp, vectors)


def _eigh_infer(x: Spec) -> tuple[Spec, Spec]:
    return Spec(square("eigh", x).shape[:-1], x.dtype), x


def _over(x: Any, divisor: Any) -> Any:
    """x / divisor, and 0 for 0 / 0: what nothing is asked of must not become NaN where values repeat."""
    return x / where((divisor == 0) & (x == 0), 1, divisor)


def _over_gaps(x: Any, values: Any) -> Any:
    """Off the diagonal, entry (i, j) over values[j] - values[i]; 0 on it."""
    gaps = expand_dims(values, axis=-2) - expand_dims(values, axis=-1)
    return _over(x - diag_embed(diagonal(x)), gaps)


def _eigh_vjp(g: Any, out: Any, x: Any) -> Any:
    v = out.vectors
    inner = diag_embed(g[0]) + _over_gaps(turned(v) @ g[1], out.values)
    return _symmetric(v @ inner @ turned(v))


def _eigh_jvp(t: Any, out: Any, x: Any) -> tuple[Any, Any]:
    v = out.vectors
    inner = turned(v) @ _symmetric(t) @ v
    return diagonal(inner), v @ _over_gaps(inner, out.values)


eigh = row(
    "eigh",
    _eigh,
    vjp=_eigh_vjp,
    jvp=_eigh_jvp,
    saves="values vectors",
    results=("values", "vectors"),
    infer=_eigh_infer,
    strict=True,
    dtypes="float",
    doc="Eigenvalues of symmetric matrices, in ascending order, and the eigenvectors as columns (derivative: Giles "
    "2008). Of x the symmetric part counts, where PyTorch and TensorFlow read the lower triangle. The largest entry "
    "of a vector is made positive; they leave the sign open. Where eigenvalues repeat the vectors have no derivative: "
    "it is infinite or NaN if asked for, as in PyTorch; that of the values is right. torch.linalg.eigh, "
    "tf.linalg.eigh.",
)


def _svd(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    u, s, vh = lapack("svd", UNSETTLED, xp.linalg.svd, x, full_matrices=False)
    signs = _towards(xp, u)
    return u * signs, s, vh * xp.swapaxes(signs, -1, -2)


def _svd_infer(x: Spec) -> tuple[Spec, Spec, Spec]:
    *batch, m, n = matrices("svd", x).shape
    k = min(m, n)
    return Spec((*batch, m, k), x.dtype), Spec((*batch, k), x.dtype), Spec((*batch, k, n), x.dtype)


def _outside(basis: Any, x: Any) -> Any:
    """The part of x that the columns of a basis do not reach."""
    return x - basis @ (turned(basis) @ x)


def _skew(x: Any) -> Any:
    return x - turned(x)


def _svd_vjp(g: Any, out: Any, x: Any) -> Any:
    (u_bar, s_bar, vh_bar), (u, s, vh) = g, out
    v, v_bar, columns, rows = turned(vh), turned(vh_bar), expand_dims(s, axis=-2), expand_dims(s, axis=-1)
    inner = diag_embed(s_bar)
    inner = inner + _over_gaps(_skew(turned(u) @ u_bar), s * s) * columns
    inner = inner + rows * _over_gaps(_skew(turned(v) @ v_bar), s * s)
    total = u @ inner @ vh
    if u.shape[-2] > u.shape[-1]:
        total = total + _over(_outside(u, u_bar), columns * ones_like(u)) @ vh
    if v.shape[-2] > v.shape[-1]:
        total = total + u @ turned(_over(_outside(v, v_bar), columns * ones_like(v)))
    return total


def _svd_jvp(t: Any, out: Any, x: Any) -> tuple[Any, Any, Any]:
    u, s, vh = out
    v, columns, rows = turned(vh), expand_dims(s, axis=-2), expand_dims(s, axis=-1)
    inner = turned(u) @ t @ v
    u_dot = u @ _over_gaps(inner * columns + rows * turned(inner), s * s)
    v_dot = v @ _over_gaps(rows * inner + turned(inner) * columns, s * s)
    if u.shape[-2] > u.shape[-1]:
        u_dot = u_dot + _over(_outside(u, t @ v), columns * ones_like(u))
    if v.shape[-2] > v.shape[-1]:
        v_dot = v_dot + _over(_outside(v, turned(t) @ u), columns * ones_like(v))
    return u_dot, diagonal(inner), turned(v_dot)


svd = row(
    "svd",
    _svd,
    vjp=_svd_vjp,
    jvp=_svd_jvp,
    saves="u s vh",
    results=("u", "s", "vh"),
    infer=_svd_infer,
    strict=True,
    dtypes="float",
    doc="x as orthonormal columns u, times singular values s in descending order, times orthonormal rows vh; of an "
    "(m, n) matrix min(m, n) of them (derivative: Giles 2008). The largest entry of a column of u is made positive; "
    "PyTorch and TensorFlow leave the sign open. Where singular values repeat or are 0 the vectors have no "
    "derivative: it is infinite or NaN if asked for, as in PyTorch; that of s is right. torch.linalg.svd with "
    "full_matrices=False; tf.linalg.svd gives s first, and v.",
)


def lstsq(a: Any, b: Any) -> Any:
    """The x for which the sum of squares of a @ x - b is least, by way of qr.

    Parameters
    ----------
    a : (..., m, n), with m >= n and independent columns
    b : (..., m, k)

    Raises
    ------
    ValueError
        There are fewer rows than columns, or the columns are not independent.
    """
    if a.ndim < 2 or a.shape[-2] < a.shape[-1]:
        raise ValueError(f"lstsq: a of shape {tuple(a.shape)} has fewer rows than columns, so no one x is best.")
    q, r = qr(a)
    return triangular_solve(r, turned(q) @ b, upper=True)
