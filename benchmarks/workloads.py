"""The numbers of every workload: batches, targets and starting weights, the same for every framework.

- A 784-256-10 perceptron, batch 128.
- A LeNet on 1 x 28 x 28 images, batch 64.
- An LSTM of 128 units that reads an image's 28 rows of 28, batch 32, and a linear layer on its last output.
- A transformer block (normalisation first, gelu) of width 128, 4 heads and 512 inner features, on 16 sequences of 64.

All in float32, trained by plain SGD.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

LR = 0.1
SIZES = (784, 256, 10)
UNITS, ROWS = 128, 28
WIDTH, HEADS, INNER, LENGTH = 128, 4, 512, 64


@dataclass(frozen=True)
class Numbers:
    """A batch, its targets, and parameters to start from. Weights of linear layers are (inputs, outputs)."""

    x: np.ndarray
    target: np.ndarray
    parameters: list[np.ndarray]


def _weight(rng: np.random.Generator, *shape: int, fan: int) -> np.ndarray:
    return (rng.standard_normal(shape) * fan**-0.5).astype(np.float32)


def _bias(size: int) -> np.ndarray:
    return np.zeros(size, np.float32)


def perceptron() -> Numbers:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, SIZES[0])).astype(np.float32)
    labels = rng.integers(0, SIZES[-1], len(x))
    parameters: list[np.ndarray] = []
    for n, m in pairwise(SIZES):
        parameters += [_weight(rng, n, m, fan=n), _bias(m)]
    return Numbers(x, labels, parameters)


def lenet() -> Numbers:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 1, 28, 28)).astype(np.float32)
    labels = rng.integers(0, 10, len(x))
    parameters: list[np.ndarray] = []
    for shape in ((6, 1, 5, 5), (16, 6, 5, 5), (256, 120), (120, 84), (84, 10)):
        inputs, outputs = (int(np.prod(shape[1:])), shape[0]) if len(shape) == 4 else shape
        parameters += [_weight(rng, *shape, fan=inputs), _bias(outputs)]
    return Numbers(x, labels, parameters)


def lstm() -> Numbers:
    """Weights (4 * units, inputs) and (4 * units, units), gates in the order i, f, g, o, a bias; the linear layer's."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((32, ROWS, ROWS)).astype(np.float32)
    labels = rng.integers(0, 10, len(x))
    return Numbers(
        x,
        labels,
        [
            _weight(rng, 4 * UNITS, ROWS, fan=UNITS),
            _weight(rng, 4 * UNITS, UNITS, fan=UNITS),
            _bias(4 * UNITS),
            _weight(rng, UNITS, 10, fan=UNITS),
            _bias(10),
        ],
    )


def transformer() -> Numbers:
    """In and out projection, two linear layers, two normalisations; each a weight and a bias."""
    rng = np.random.default_rng(3)
    x, target = rng.standard_normal((2, 16, LENGTH, WIDTH)).astype(np.float32)
    parameters: list[np.ndarray] = []
    for n, m in ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH)):
        parameters += [_weight(rng, n, m, fan=n), _bias(m)]
    for _ in range(2):
        parameters += [np.ones(WIDTH, np.float32), _bias(WIDTH)]
    return Numbers(x, target, parameters)


def threads() -> int:
    """How many threads each library may use: OMP_NUM_THREADS, or all cores."""
    return int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
