"""Where the inputs of an op come from, and the shapes and attributes it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Values = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

# Where inputs come from


def anything(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 2 * rng.standard_normal(shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.3, 3, shape)


def away_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 3, shape)


def fraction(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Between -1 and 1."""
    return rng.uniform(-0.9, 0.9, shape)


def above_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(1.2, 4, shape)


def beyond_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Of both signs, and not 0 as whole numbers either."""
    return np.copysign(above_one(rng, shape), rng.standard_normal(shape))


def whole(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-2, 4, shape).astype(float)


def with_zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.5, 2, shape) * rng.choice([-1, 0, 1, 1], shape)


def with_nan(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([np.nan, np.inf, -np.inf, 0.5], shape)


def booleans(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.random(shape) < 0.5


def few(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, so that comparisons meet equal ones."""
    return rng.integers(0, 3, shape).astype(float)


def below(n: int) -> Values:
    """Indices of an axis of n entries."""
    return lambda rng, shape: rng.integers(0, n, shape)


# What they are called with

Sample = tuple[tuple[tuple[int, ...], ...], dict[str, Any]]


def shapes(*several: Any) -> list[Sample]:
    """Samples without attributes; each a tuple of input shapes."""
    return [(one, {}) for one in several]


def on(*inputs: tuple[int, ...], **attrs: Any) -> Sample:
    return inputs, attrs


ONE = shapes(((),), ((0,),), ((1,),), ((2, 0, 3),), ((2, 3, 4),))
BRIEF = shapes(((),), ((0,),), ((1,),), ((2, 3),))
BRIEF_TWO = shapes(((), ()), ((0,), (1,)), ((1,), (1,)), ((3, 1), (2,)), ((2, 3), (2, 3)))
TWO = shapes(
    ((), ()),
    ((), (2, 3)),
    ((3, 1), (4,)),
    ((0,), (1,)),
    ((1,), (1,)),
    ((2, 0, 3), (3,)),
    ((2, 1, 3), (4, 1)),
    ((2, 3, 4), (2, 3, 4)),
)
REDUCED = [
    on(()),
    on((1,), axis=0),
    on((3,), axis=-1, keepdims=True),
    on((0, 3), axis=1),
    on((2, 3), keepdims=True),
    on((2, 3, 4), axis=(0, -1)),
    on((2, 3, 4), axis=[1], keepdims=True),
    on((2, 3, 4), axis=1),
]
REDUCED_EMPTY = [on((0,)), on((2, 0, 3), axis=1), on((2, 0), axis=(0, 1), keepdims=True)]
ONE_AXIS = [
    on(()),
    on((1,), axis=0),
    on((3,), axis=-1, keepdims=True),
    on((0, 3), axis=1),
    on((2, 3)),
    on((2, 3, 4), axis=1),
]
ALONG = [on((1,), axis=0), on((0, 3), axis=-1), on((4,)), on((2, 3, 4), axis=1)]
LOSS = [
    on((), ()),
    on((1,), (1,), reduction="sum"),
    on((0,), (0,), reduction="sum"),
    on((2, 3), (2, 3), reduction="none"),
    on((2, 3, 4), (2, 3, 4)),
]

KEYS = [
    on((3,), key=1),
    on((3,), key=slice(None, None, -1)),
    on((0, 3), key=(slice(None), None, -1)),
    on((2, 3), key=(Ellipsis, slice(1, 1))),
    on((4, 3), key=np.array([0, 2, 2, -1])),
    on((2, 3), key=np.array([[True, False, True], [False, True, False]])),
    on((2, 3, 4), key=(slice(None), np.array([2, 0]), np.array([1, 1]))),
    on((2, 3, 4), key=(1, slice(None, None, 2), slice(3, None, -2))),
]
