"""Dropout: random zeros that a seed brings back."""

from __future__ import annotations

from typing import Any

import numpy as np

from internals.device import device_of
from internals.ops.reduce import wide
from internals.ops.spec import Spec
from internals.ops.table import row


def kept(shape: tuple[int, ...], p: float, seed: int) -> np.ndarray:
    """Which entries stay; the same for the same seed, on every device and in the backward pass."""
    return np.random.Generator(np.random.Philox(seed)).random(shape, np.float32) >= p


def _dropout(xp: Any, x: Any, p: float, seed: int) -> Any:
    mask = device_of(x).from_host(kept(x.shape, p, seed))
    return xp.where(mask, wide(x) * (1 / (1 - p) if p < 1 else 0.0), 0).astype(x.dtype, copy=False)


def _dropout_infer(x: Spec, *, p: float, seed: int) -> Spec:
    if not isinstance(p, int | float) or not 0 <= p <= 1:
        raise ValueError(f"dropout: p is the probability of a zero and must lie in [0, 1], got {p!r}.")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"dropout: the seed must be a non-negative integer, got {seed!r}.")
    return x


dropout = row(
    "dropout",
    _dropout,
    vjp=lambda g, out, x, p, seed: dropout(g, p=p, seed=seed),
    jvp="linear",
    infer=_dropout_infer,
    strict=True,
    dtypes="float",
    doc="Each entry is 0 with probability p, the others are divided by 1 - p (Srivastava et al. 2014, inverted). The "
    "seed decides which, so the backward pass makes the mask again and keeps nothing. PyTorch and TensorFlow draw "
    "from a global generator, and keep the mask.",
)
