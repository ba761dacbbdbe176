"""The cases of pooling, normalisation and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
from conv_cases import channels_first, channels_last, pairs
from op_case import Case
from op_samples import below, on

FUNCTIONAL = "nn.functional."


def patches(framework: Any, x: Any, window: Any, stride: Any, padding: Any, fill: float = 0) -> Any:
    """What each place of the window meets, stacked last; in either framework."""
    (height, width), step, (top, left) = pairs(window, window if stride is None else stride, padding)
    if hasattr(framework, "nn") and hasattr(framework.nn, "functional"):
        x = framework.nn.functional.pad(x, (left, left, top, top), value=fill)
    else:
        x = framework.pad(x, [[0, 0], [0, 0], [top, top], [left, left]], constant_values=fill)
    rows, columns = ((n - k) // s + 1 for n, k, s in zip(x.shape[2:], (height, width), step, strict=True))
    met = [
        x[:, :, i : i + step[0] * (rows - 1) + 1 : step[0], j : j + step[1] * (columns - 1) + 1 : step[1]]
        for i, j in np.ndindex(height, width)
    ]
    return framework.stack(met, -1)


def torch_pick(t: Any, x: Any, index: Any, window: Any, stride: Any, padding: Any) -> Any:
    return patches(t, x, window, stride, padding).gather(-1, index[..., None])[..., 0]


def tf_pick(f: Any, x: Any, index: Any, window: Any, stride: Any, padding: Any) -> Any:
    return f.gather(patches(f, x, window, stride, padding), index, axis=-1, batch_dims=4)


def torch_unpool(t: Any, g: Any, index: Any, size: Any, **where: Any) -> Any:
    zeros = t.zeros((*g.shape[:2], *size), dtype=g.dtype)
    return t.func.vjp(lambda x: torch_pick(t, x, index, **where), zeros)[1](g)[0]


def tf_unpool(f: Any, g: Any, index: Any, size: Any, **where: Any) -> Any:
    zeros = f.zeros((*g.shape[:2], *size), g.dtype)
    with f.GradientTape() as tape:
        tape.watch(zeros)
        picked = tf_pick(f, zeros, index, **where)
    return f.convert_to_tensor(tape.gradient(picked, zeros, g))


def torch_avg(t: Any, x: Any, window: Any, stride: Any, padding: Any, count_include_pad: bool) -> Any:
    return t.nn.functional.avg_pool2d(x, window, stride, padding, count_include_pad=count_include_pad)


def tf_avg(f: Any, x: Any, window: Any, stride: Any, padding: Any, count_include_pad: bool) -> Any:
    """What is no padding counted by pooling ones."""
    pool = tf_pool("AVG", 0)
    out = pool(f, x, window, stride, padding)
    return out if count_include_pad else out / pool(f, f.ones_like(x), window, stride, padding)


def torch_avg_unpool(t: Any, g: Any, size: Any, **where: Any) -> Any:
    zeros = t.zeros((*g.shape[:2], *size), dtype=g.dtype)
    return t.func.vjp(lambda x: torch_avg(t, x, **where), zeros)[1](g)[0]


def tf_avg_unpool(f: Any, g: Any, size: Any, **where: Any) -> Any:
    zeros = f.zeros((*g.shape[:2], *size), g.dtype)
    with f.GradientTape() as tape:
        tape.watch(zeros)
        pooled = tf_avg(f, zeros, **where)
    return tape.gradient(pooled, zeros, g)


def tf_pool(kind: str, fill: float) -> Any:
    def call(f: Any, x: Any, window: Any, stride: Any, padding: Any) -> Any:
        size, step, (top, left) = pairs(window, window if stride is None else stride, padding)
        x = f.pad(channels_last(f, x), [[0, 0], [top] * 2, [left] * 2, [0, 0]], constant_values=fill)
        return channels_first(f, f.nn.pool(x, size, kind, strides=step, padding="VALID"))

    return call


def tf_adaptive(f: Any, x: Any, size: Any) -> Any:
    (rows, columns), (n, m) = *pairs(size), x.shape[2:]
    return f.stack(
        [
            f.stack(
                [
                    f.reduce_mean(
                        x[:, :, i * n // rows : -(-(i + 1) * n // rows), j * m // columns : -(-(j + 1) * m // columns)],
                        [2, 3],
                    )
                    for j in range(columns)
                ],
                -1,
            )
            for i in range(rows)
        ],
        -2,
    )


def torch_adaptive_unpool(t: Any, g: Any, size: Any) -> Any:
    zeros = t.zeros((*g.shape[:2], *pairs(size)[0]), dtype=g.dtype)
    return t.func.vjp(lambda x: t.nn.functional.adaptive_avg_pool2d(x, tuple(g.shape[2:])), zeros)[1](g)[0]


def tf_adaptive_unpool(f: Any, g: Any, size: Any) -> Any:
    zeros = f.zeros((*g.shape[:2], *pairs(size)[0]), g.dtype)
    with f.GradientTape() as tape:
        tape.watch(zeros)
        pooled = tf_adaptive(f, zeros, tuple(g.shape[2:]))
    return tape.gradient(pooled, zeros, g)


def torch_normalise(t: Any, x: Any, axis: Any, eps: float) -> Any:
    variance, mean = t.var_mean(x, axis, correction=0, keepdim=True)
    return (x - mean) / t.sqrt(variance + eps)


def tf_normalise(f: Any, x: Any, axis: Any, eps: float) -> Any:
    mean, variance = f.nn.moments(x, axis, keepdims=True)
    return f.nn.batch_normalization(x, mean, variance, None, None, eps)


def scaled(x: Any, p: float, seed: int) -> tuple[np.ndarray, float]:
    generator = np.random.Generator(np.random.Philox(seed))
    return generator.random(tuple(x.shape), np.float32) >= p, 1 / (1 - p) if p < 1 else 0.0


def torch_dropout(t: Any, x: Any, p: float, seed: int) -> Any:
    mask, factor = scaled(x, p, seed)
    return t.where(t.tensor(mask), x * factor, t.zeros((), dtype=x.dtype))


def tf_dropout(f: Any, x: Any, p: float, seed: int) -> Any:
    mask, factor = scaled(x, p, seed)
    return f.where(mask, x * f.constant(factor, x.dtype), f.zeros((), x.dtype))


POOL = [
    on((1, 1, 1, 1), window=1),
    on((0, 2, 4, 4), window=2),
    on((2, 1, 5, 6), window=(2, 3), stride=(2, 1), padding=(1, 0)),
    on((2, 3, 4, 5), window=2),
]
UNPOOL = [
    on((1, 1, 1, 1), window=1, size=(1, 1)),
    on((0, 2, 2, 2), window=2, size=(4, 4)),
    on((2, 1, 3, 4), window=(2, 3), stride=(2, 1), padding=(1, 0), size=(5, 6)),
    on((2, 3, 2, 2), window=2, size=(4, 5)),
]
PICK = [((shape, out), {k: v for k, v in attrs.items() if k != "size"}) for ((shape,), _), ((out,), attrs) in
        zip(POOL, UNPOOL, strict=True)]  # fmt: skip
LOW = float("-inf")

LAYER_CASES = [
    Case("max_pool2d", lambda t, x, window, stride, padding: t.nn.functional.max_pool2d(x, window, stride, padding),
         tf_pool("MAX", LOW), POOL, also=("float16", "int64")),
    Case("max_pool2d_index", lambda t, x, **where: patches(t, x, **where, fill=LOW).argmax(-1),
         lambda f, x, **where: f.argmax(patches(f, x, **where, fill=LOW), -1), POOL),
    Case("pick2d", torch_pick, tf_pick, PICK, (lambda rng, shape: rng.standard_normal(shape), below(1)), wrt=(0,)),
    Case("pick2d", torch_pick, tf_pick, PICK[2:], (lambda rng, shape: rng.standard_normal(shape), below(4))),
    Case("unpool2d", torch_unpool, tf_unpool, [((s[0], s[0]), attrs) for s, attrs in UNPOOL],
         (lambda rng, shape: rng.standard_normal(shape), below(1))),
    Case("unpool2d", torch_unpool, tf_unpool, [((s[0], s[0]), attrs) for s, attrs in UNPOOL[2:]],
         (lambda rng, shape: rng.standard_normal(shape), below(4))),
    Case("avg_pool2d", torch_avg, tf_avg, POOL, also=("float16",)),
    Case("avg_pool2d", torch_avg, tf_avg, [on((1, 2, 4, 5), window=3, stride=2, padding=1, count_include_pad=False),
         on((2, 1, 4, 3), window=(2, 3), stride=1, padding=(1, 1), count_include_pad=False)]),
    Case("avg_unpool2d", torch_avg_unpool, tf_avg_unpool, UNPOOL),
    Case("avg_unpool2d", torch_avg_unpool, tf_avg_unpool,
         [on((2, 1, 2, 3), window=3, stride=2, padding=1, size=(4, 5), count_include_pad=False)]),
    Case("adaptive_avg_pool2d", lambda t, x, size: t.nn.functional.adaptive_avg_pool2d(x, size), tf_adaptive,
         [on((1, 1, 1, 1), size=1), on((0, 2, 4, 4), size=2), on((2, 3, 5, 4), size=(3, 2))]),
    Case("adaptive_avg_unpool2d", torch_adaptive_unpool, tf_adaptive_unpool,
         [on((1, 1, 1, 1), size=1), on((0, 2, 2, 2), size=4), on((2, 3, 3, 2), size=(5, 4))]),
    Case("normalise", torch_normalise, tf_normalise,
         [on((1,), axis=(0,)), on((0, 3), axis=(1,)), on((4, 3), axis=-1, eps=0.1), on((3, 2, 4), axis=(0, 2))]),
    Case("rms_normalise", lambda t, x, axis, eps: x / t.sqrt((x * x).mean(axis, keepdim=True) + eps),
         lambda f, x, axis, eps: x / f.sqrt(f.reduce_mean(x * x, axis, keepdims=True) + f.constant(eps, x.dtype)),
         [on((1,), axis=(0,)), on((0, 3), axis=(1,)), on((3, 2, 4), axis=-1, eps=0.1)]),
    Case("dropout", torch_dropout, tf_dropout,
         [on((), p=0.5, seed=1), on((0,), p=0.5, seed=1), on((1,), p=1.0, seed=3), on((3, 4), p=0.0, seed=3),
          on((2, 3, 4), p=0.4, seed=7)]),
]  # fmt: skip
