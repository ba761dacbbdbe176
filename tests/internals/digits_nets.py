"""Real digits, and networks that learn them in a second or two."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from internals import Tensor, nn, no_grad, ops, optim


@cache
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 1, 8, 8) from 0 to 1 and labels, to train on and to test on."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), y[order]
    return x[:1300], y[:1300], x[1300:], y[1300:]


def mlp(seed: int = 0) -> nn.Sequential:
    rng = np.random.default_rng(seed)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 48, rng=rng), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 10, rng=rng)
    )


def cnn(seed: int = 0) -> nn.Sequential:
    rng = np.random.default_rng(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, rng=rng),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, rng=rng),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 10, rng=rng),
    )


def fit(model: Any, epochs: int = 8, lr: float = 0.01) -> Any:
    x, y, _, _ = digits()
    optimizer = optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(epochs):
        for start in range(0, len(x), 100):
            loss = ops.cross_entropy(model(Tensor(x[start : start + 100])), Tensor(y[start : start + 100]))
            model.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def logits(model: Any, x: np.ndarray) -> np.ndarray:
    with no_grad():
        found: np.ndarray = model(Tensor(x)).numpy()
    return found


def accuracy(model: Any) -> float:
    _, _, x, y = digits()
    return float((logits(model, x).argmax(1) == y).mean())
