"""Products of int8 arrays, summed in int32: the kernels of integer-only inference, on NumPy.

Real numbers stand behind the integers: with ``x = sx (qx - zx)`` and ``w = sw (qw - zw)``, the product is
``sx sw (qx @ qw - zx sum(qw) - zw sum(qx) + k zx zw)``: one integer product, and corrections that cost a row and a
column (Jacob et al. 2018, eq. 7). The integer product is exact: float32's matmul is used while its 24 bits hold the
sum, float64's beyond, since no BLAS has an integer one.
"""

from __future__ import annotations

import numpy as np

from internals.deploy.compress.scale import Grid, Quantisation

EXACT_IN_FLOAT32 = 1 << 24
LARGEST = 1 << 31


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The exact product of two integer arrays of at most 8 bits, in int32.

    Parameters
    ----------
    a : (..., m, k) int8 or uint8
    b : (..., k, n) int8 or uint8

    Raises
    ------
    OverflowError
        ``k`` is so long that int32 might not hold a sum.
    """
    for name, array in (("a", a), ("b", b)):
        if array.dtype not in (np.int8, np.uint8):
            raise TypeError(f"matmul: {name} must be int8 or uint8, got {array.dtype}.")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul: (..., m, k) and (..., k, n) expected, got {a.shape} and {b.shape}.")
    bound = a.shape[-1] * _largest(a.dtype) * _largest(b.dtype)
    if bound >= LARGEST:
        raise OverflowError(f"matmul: sums over k = {a.shape[-1]} may not fit int32; split k.")
    exact = np.float32 if bound <= EXACT_IN_FLOAT32 else np.float64
    return np.matmul(a.astype(exact), b.astype(exact)).astype(np.int32)


def _largest(dtype: np.dtype) -> int:
    return 255 if dtype == np.uint8 else 128


def corrected(product: np.ndarray, qx: np.ndarray, qw: np.ndarray, x: Quantisation, w: Quantisation) -> np.ndarray:
    """Subtract from ``qx @ qw`` what the zero points put in; int32, (..., m, n)."""
    zx, zw = np.int32(x.zero_point), w.zero_point.astype(np.int32)
    out = product
    if zx:
        out = out - zx * qw.sum(-2, dtype=np.int32, keepdims=True)
    if zw.any():
        out = out - zw * qx.sum(-1, dtype=np.int32, keepdims=True) + np.int32(qx.shape[-1]) * zx * zw
    return out


def linear(
    qx: np.ndarray,
    qw: np.ndarray,
    x: Quantisation,
    w: Quantisation,
    bias: np.ndarray | None = None,
    out: Quantisation | None = None,
    relu: bool = False,
) -> np.ndarray:
    """``x @ w + bias`` from integers.

    Parameters
    ----------
    qx : (..., k) integers of `x`, which has one scale for all
    qw : (k, n) integers of `w`, with one scale, or one per column (axis 1)
    bias : (n,) int32, optional
        In steps of ``x.scale * w.scale``; see `bias_steps`.
    out : Quantisation, optional
        How the result is written, one scale for all; None: as float32.
    relu : bool
        Cut off below 0, which on integers is a bound.
    """
    rows = qx.reshape(-1, qx.shape[-1])
    steps = corrected(matmul(rows, qw), rows, qw, x, w)
    if bias is not None:
        steps = steps + bias
    return _requantised(steps, x.scale * w.scale, out, relu).reshape(*qx.shape[:-1], qw.shape[1])


def bias_steps(bias: np.ndarray, x: Quantisation, w: Quantisation) -> np.ndarray:
    """A bias in the steps of the sums it is added to: int32."""
    limits = np.iinfo(np.int32)
    return np.clip(np.rint(bias / (x.scale * w.scale).astype(np.float64)), limits.min, limits.max).astype(np.int32)


def _requantised(steps: np.ndarray, step: np.ndarray, out: Quantisation | None, relu: bool) -> np.ndarray:
    """Sums in steps of `step` as reals, or as the integers of `out`."""
    if out is None:
        real = steps.astype(np.float32) * step
        return np.maximum(real, 0, out=real) if relu else real
    # In float64, as the fixed-point multiplier of 31 bits that integer hardware uses: float32 would round twice.
    ratio = step.astype(np.float64) / float(out.scale)
    grid: Grid = out.grid
    low = max(grid.low, int(out.zero_point)) if relu else grid.low
    return np.clip(np.rint(steps * ratio) + int(out.zero_point), low, grid.high).astype(grid.dtype)


def conv2d(
    qx: np.ndarray,
    qw: np.ndarray,
    x: Quantisation,
    w: Quantisation,
    bias: np.ndarray | None = None,
    out: Quantisation | None = None,
    relu: bool = False,
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
) -> np.ndarray:
    """A convolution of integers: windows laid out as rows, then `linear`.

    Parameters
    ----------
    qx : (batch, channels, height, width)
    qw : (out_channels, channels, kernel height, kernel width), one scale, or one per output channel (axis 0)
    bias : (out_channels,) int32, optional

    Returns
    -------
    (batch, out_channels, ...) float32, or integers of `out`
    """
    if qx.ndim != 4 or qw.ndim != 4 or qx.shape[1] != qw.shape[1]:
        raise ValueError(f"conv2d: (n, c, h, w) and (o, c, kh, kw) expected, got {qx.shape} and {qw.shape}.")
    (ph, pw), (sh, sw) = padding, stride
    zero = int(x.zero_point)  # the integer that is 0.0: what is padded with
    padded = np.pad(qx, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=zero)
    kh, kw = qw.shape[2:]
    if padded.shape[2] < kh or padded.shape[3] < kw:
        raise ValueError(f"conv2d: a window of {kh} x {kw} does not fit an image of {padded.shape[2:]}.")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (2, 3))[:, :, ::sh, ::sw]
    n, c, height, width = windows.shape[:4]
    rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, c * kh * kw)
    columns = qw.reshape(qw.shape[0], -1).T
    by_column = w if w.axis is None else Quantisation(w.scale, w.zero_point, w.grid, 1)
    flat = linear(rows, columns, x, by_column, bias, out, relu)
    return np.ascontiguousarray(flat.reshape(n, height, width, -1).transpose(0, 3, 1, 2))
