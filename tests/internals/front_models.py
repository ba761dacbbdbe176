"""A small model and data that several tests of the front train on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from internals import front
from internals.front import BatchNormalization, Dense, Dropout, Input, Sequential

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(8)
X = RNG.normal(size=(64, 5)).astype(np.float32)
Y = (X @ RNG.normal(size=(5, 3))).argmax(1)


def small(*, dropout: float = 0.0, shape: Any = (5,)) -> Sequential:
    front.set_random_seed(3)
    return Sequential([Input(shape), Dense(8, "relu"), BatchNormalization(), Dropout(dropout), Dense(3, "softmax")])


def compiled(model: Any = None, optimizer: Any = "adam") -> Any:
    model = model or small()
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def same_weights(one: Any, other: Any) -> None:
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(value, other.state_dict()[name], err_msg=name)
