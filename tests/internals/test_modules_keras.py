"""Modules beside their twins in Keras, with the same weights, where the two mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import Tensor, nn

pytestmark = pytest.mark.slow


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def keras(tf: Any) -> Any:
    import keras

    return keras


def recurrent(state: dict[str, np.ndarray], order: list[int]) -> list[np.ndarray]:
    """Keras's kernel, recurrent kernel and bias, its gates in another order."""

    def turned(rows: np.ndarray) -> np.ndarray:
        return np.concatenate([np.split(rows, len(order))[i] for i in order]).T

    w_ih, w_hh, b_ih, b_hh = (turned(state[f"{name}_l0"]) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    return [w_ih, w_hh, np.stack([b_ih, b_hh]) if len(order) == 3 else b_ih + b_hh]


def attention(state: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Query, key, value and output, each a kernel and a bias, with the heads as an axis of their own."""
    weights, biases = np.split(state["in_proj_weight"], 3, axis=1), np.split(state["in_proj_bias"], 3)
    pairs = [part for w, b in zip(weights, biases, strict=True) for part in (w.reshape(6, 2, 3), b.reshape(2, 3))]
    return [*pairs, state["out_proj.weight"].reshape(2, 3, 6), state["out_proj.bias"]]


CASES: list[tuple[str, Callable[[], nn.Module], Callable[[Any], Any], Callable[..., list[np.ndarray]], Any]] = [
    ("Dense", lambda: nn.Linear(4, 3), lambda k: k.layers.Dense(3), lambda s: [s["weight"], s["bias"]], random(5, 4)),
    ("Embedding", lambda: nn.Embedding(5, 3), lambda k: k.layers.Embedding(5, 3), lambda s: [s["weight"]],
     np.random.default_rng(0).integers(0, 5, (2, 4))),
    ("LayerNormalization", lambda: nn.LayerNorm(4, eps=1e-3), lambda k: k.layers.LayerNormalization(),
     lambda s: [s["weight"], s["bias"]], random(5, 4)),
    ("SimpleRNN", lambda: nn.RNN(4, 3, batch_first=True), lambda k: k.layers.SimpleRNN(3, return_sequences=True),
     lambda s: recurrent(s, [0]), random(2, 5, 4)),
    ("LSTM", lambda: nn.LSTM(4, 3, batch_first=True), lambda k: k.layers.LSTM(3, return_sequences=True),
     lambda s: recurrent(s, [0, 1, 2, 3]), random(2, 5, 4)),
    ("GRU", lambda: nn.GRU(4, 3, batch_first=True),
     lambda k: k.layers.GRU(3, return_sequences=True, reset_after=True),
     lambda s: recurrent(s, [1, 0, 2]), random(2, 5, 4)),
    ("MultiHeadAttention", lambda: nn.MultiheadAttention(6, 2), lambda k: k.layers.MultiHeadAttention(2, 3), attention,
     random(2, 5, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "make_theirs", "weights", "array"), CASES, ids=[case[0] for case in CASES])
def test_as_keras(name: str, make: Any, make_theirs: Any, weights: Any, array: np.ndarray, keras: Any, tf: Any) -> None:
    mine, theirs = make(), make_theirs(keras)
    state = {key: random(*value.shape, seed=i) for i, (key, value) in enumerate(mine.state_dict().items())}
    mine.load_state_dict(state)
    inputs = (array, array) if name == "MultiHeadAttention" else (array,)
    theirs(*inputs)
    theirs.set_weights(weights(state))
    x = tf.constant(array)
    with tf.GradientTape() as tape:
        if array.dtype.kind == "f":
            tape.watch(x)
        want = theirs(*(x,) * len(inputs))
        loss = tf.reduce_sum(want * random(*want.shape, seed=9))
    t = Tensor(array, requires_grad=array.dtype.kind == "f")
    out = mine(t)
    out = out[0] if isinstance(out, tuple) else out
    np.testing.assert_allclose(out.detach().numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    if array.dtype.kind == "f":
        (out * Tensor(random(*out.shape, seed=9))).sum().backward()
        np.testing.assert_allclose(t.grad.numpy(), tape.gradient(loss, x).numpy(), rtol=1e-3, atol=1e-4)
