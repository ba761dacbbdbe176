"""The cases of attention and of recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import Values, anything, on


def torch_attention(t: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    if causal and mask.ndim:
        seen = t.ones(q.shape[-2], k.shape[-2], dtype=bool).tril()
        mask = mask.logical_and(seen) if mask.dtype is t.bool else mask.masked_fill(~seen, float("-inf"))
    attend = t.nn.functional.scaled_dot_product_attention
    with t.nn.attention.sdpa_kernel([t.nn.attention.SDPBackend.MATH]):
        if not mask.ndim:
            return attend(q, k, v, is_causal=causal, scale=scale) + 0 * mask
        return attend(q, k, v, mask, scale=scale)


def tf_attention(f: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    scores = f.linalg.matmul(q, k, transpose_b=True) * (q.shape[-1] ** -0.5 if scale is None else scale)
    low = f.constant(-1e30, scores.dtype)
    scores = f.where(mask, scores, low) if mask.dtype == f.bool else scores + mask
    if causal:
        seen = f.linalg.band_part(f.ones(scores.shape, f.bool), -1, 0)
        scores = f.where(seen, scores, low)
    p = f.nn.softmax(scores)
    if mask.dtype == f.bool:
        p = p * f.cast(f.reduce_any(mask, -1, keepdims=True), p.dtype)
    return f.linalg.matmul(p, v)


def a_number(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def some(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Booleans; the last query may see no key."""
    mask = rng.random(shape) < 0.6
    if mask.ndim and mask.size:
        mask[..., 0] = True
        mask[..., -1, :] = False
    return mask


def with_mask(values: Values) -> tuple[Values, ...]:
    return anything, anything, anything, values


SEQUENCES = [
    Case("scaled_dot_product", torch_attention, tf_attention, [
        on((1, 1), (1, 1), (1, 1), ()),
        on((0, 2, 3), (0, 4, 3), (0, 4, 2), (0, 2, 4)),
        on((3, 2), (5, 2), (5, 4), (3, 5), scale=0.3),
        on((2, 4, 3), (2, 4, 3), (2, 4, 2), (), causal=True),
        on((2, 1, 4, 3), (2, 1, 5, 3), (2, 1, 5, 2), (2, 1, 4, 5), causal=True),
    ], with_mask(a_number), also=("float16",)),
    Case("scaled_dot_product", torch_attention, tf_attention, [
        on((2, 3, 2), (2, 5, 2), (2, 5, 1), (2, 3, 5)),
    ], with_mask(some)),
]  # fmt: skip
