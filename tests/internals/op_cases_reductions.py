"""The cases of internals/ops/statistics.py and scan.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import away_from_zero, on

INT, HALF = ("int64",), ("float16",)


def torch_spread(name: str) -> Any:
    def call(t: Any, x: Any, axis: Any, keepdims: bool, correction: float) -> Any:
        return getattr(t, name)(x, dim=axis, keepdim=keepdims, correction=correction)

    return call


def tf_var(f: Any, x: Any, axis: Any, keepdims: bool, correction: float) -> Any:
    """With tensorflow's, which divides by n, brought to the correction."""
    axes = range(len(x.shape)) if axis is None else np.atleast_1d(axis)
    n = np.prod([x.shape[i] for i in axes])
    with np.errstate(all="ignore"):
        factor = np.float64(n) / (n - correction)
    return f.math.reduce_variance(x, axis, keepdims) * f.constant(factor, x.dtype)


def tf_norm(f: Any, x: Any, p: float, axis: Any, keepdims: bool) -> Any:
    if p == 2:
        return f.sqrt(f.reduce_sum(f.square(x), axis, keepdims))
    return (f.reduce_sum if p == 1 else f.reduce_max)(f.abs(x), axis, keepdims)


VARIED = [on(()), on((1,), axis=0), on((0, 3), axis=1), on((4,), correction=0, keepdims=True),
          on((2, 3, 2), axis=[0, -1]), on((2, 3), axis=1)]  # fmt: skip
NORMED = [on(()), on((1,), axis=0), on((0, 3), axis=1), on((2, 3), p=1, axis=-1, keepdims=True), on((2, 3), p=1),
          on((2, 3, 2), axis=(0, 2)), on((2, 3), axis=1)]  # fmt: skip
LARGEST = [on(()), on((1,), axis=0), on((0, 3), axis=1), on((2, 3), axis=1)]
ALONG = [on((1,), axis=0), on((0, 3), axis=0), on((4,), axis=-1), on((2, 3, 2), axis=1)]

REDUCTIONS = [
    Case("var", torch_spread("var"), tf_var, VARIED, also=HALF),
    Case("std", torch_spread("std"), lambda f, x, **attrs: f.sqrt(tf_var(f, x, **attrs)), VARIED, also=HALF),
    Case("norm", lambda t, x, p, axis, keepdims: t.linalg.vector_norm(x, p, axis, keepdims), tf_norm, NORMED,
         away_from_zero, also=HALF),
    Case("norm", lambda t, x, p, axis, keepdims: t.linalg.vector_norm(x, p, axis, keepdims), tf_norm,
         [on(shape, **attrs, p=np.inf) for (shape,), attrs in LARGEST], away_from_zero, ties=True),
    Case("cumsum", lambda t, x, axis: t.cumsum(x, axis), "cumsum", ALONG, also=HALF + INT),
    Case("cumprod", lambda t, x, axis: t.cumprod(x, axis), "math.cumprod", ALONG, away_from_zero, also=INT),
]  # fmt: skip
