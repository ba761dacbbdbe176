"""The cases of linear and recurrent layers and of attention."""

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


def torch_rnn(t: Any, x: Any, h0: Any, weight: Any, nonlinearity: str) -> Any:
    zeros = t.zeros(len(weight), dtype=x.dtype)
    weights = [t.eye(len(weight), dtype=x.dtype), weight, zeros, zeros]
    run = getattr(t._VF, f"rnn_{nonlinearity}")
    return run(x, h0[None], weights, True, 1, 0.0, False, False, False)[0]


def recurrence(f: Any, step: Any, x: Any, *states: Any) -> tuple[Any, ...]:
    """What `step` gives for all steps; its first results are the states that the next step begins with."""
    found = []
    for t in range(x.shape[0]):
        results = step(x[t], *states)
        states = results[: len(states)]
        found.append(results)
    return tuple(f.stack([results[i] for results in found]) for i in range(len(found[0])))


def tf_rnn(f: Any, x: Any, h0: Any, weight: Any, nonlinearity: str) -> Any:
    squash = getattr(f.nn, nonlinearity)
    return recurrence(f, lambda x, h: (squash(x + h @ f.transpose(weight)),), x, h0)[0]


def lstm_by(cat: Any, split: Any, transpose: Any) -> Any:
    """The formula, in a framework's own names for three functions."""

    def call(f: Any, x: Any, h0: Any, c0: Any, weight: Any) -> Any:
        def step(x: Any, h: Any, c: Any) -> tuple[Any, ...]:
            i, g, n, o = split(f, x + h @ transpose(f, weight), 4)
            i, g, n, o = f.sigmoid(i), f.sigmoid(g), f.tanh(n), f.sigmoid(o)
            c = g * c + i * n
            return o * f.tanh(c), c, cat(f, [i, g, n, o])

        return recurrence(f, step, x, h0, c0)

    return call


def gru_by(cat: Any, split: Any, transpose: Any) -> Any:
    def call(f: Any, x: Any, h0: Any, weight: Any, bias: Any) -> Any:
        def step(x: Any, h: Any) -> tuple[Any, ...]:
            (r, u, p), (xr, xu, xn) = split(f, h @ transpose(f, weight) + bias, 3), split(f, x, 3)
            r, u = f.sigmoid(r + xr), f.sigmoid(u + xu)
            n = f.tanh(xn + r * p)
            return (1 - u) * n + u * h, cat(f, [r, u, n, p])

        return recurrence(f, step, x, h0)

    return call


TORCHS = (
    lambda t, parts: t.cat(parts, -1),
    lambda t, x, n: t.tensor_split(x, n, -1),
    lambda t, x: x.T,
)
TENSORFLOWS = (
    lambda f, parts: f.concat(parts, -1),
    lambda f, x, n: f.split(x, n, -1),
    lambda f, x: f.transpose(x),
)


def recurrent(gates: int, *more: Any) -> list[Any]:
    """Samples: one of everything, an empty batch, several steps."""
    sizes = [(1, 1, 1), (2, 0, 2), (3, 2, 2)]
    return [
        on((t, b, gates * n), *[(b, n)] * (2 if gates == 4 else 1), (gates * n, n), *[(m * n,) for m in more])
        for t, b, n in sizes
    ]


def moderate(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 0.7 * rng.standard_normal(shape)


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
    Case("linear", lambda t, x, w, b: x @ w + b, lambda f, x, w, b: f.tensordot(x, w, 1) + b,
         [on((1,), (1, 1), ()), on((0, 2), (2, 3), (3,)), on((4, 3), (3, 2), (2,)), on((2, 3, 4), (4, 2), (2,))],
         also=("float16",)),
    Case("rnn", torch_rnn, tf_rnn,
         [(sizes, {"nonlinearity": name}) for sizes, _ in recurrent(1) for name in ("relu", "tanh")], moderate),
    Case("lstm", lstm_by(*TORCHS), lstm_by(*TENSORFLOWS), recurrent(4), moderate),
    Case("gru", gru_by(*TORCHS), gru_by(*TENSORFLOWS), recurrent(3, 3), moderate),
]  # fmt: skip
