"""What ``lab14_all_reduce`` is tried on: 1 to 5 ranks, odd sizes, messages that come late, a rank that dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

RANKS = (1, 2, 3, 4, 5)
DTYPES = ("float64", "float32", "int64")
CALM: dict[str, Any] = {}


def late(rng: np.random.Generator) -> dict[str, Any]:
    """Messages come late, and those of different ranks overtake each other."""
    return {"seed": int(rng.integers(1 << 30)), "delay": 0.003}


def array(rng: np.random.Generator, n: int, dtype: str = "float64") -> np.ndarray:
    """Numbers of very different sizes, so that the order in which they are added shows in the last digits."""
    if dtype == "int64":
        return rng.integers(-1000, 1000, n)
    drawn = rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 2, n)
    return np.array([float(f"{number:.4g}") for number in drawn], dtype)


def arrays(rng: np.random.Generator, ranks: int, n: int, dtype: str = "float64") -> list[np.ndarray]:
    return [array(rng, n, dtype) for _ in range(ranks)]


# --- chunks ---------------------------------------------------------------------------------------


def chunks_edges(rng: np.random.Generator) -> list[Inputs]:
    pairs = [(0, 1), (0, 3), (1, 1), (1, 4), (3, 4), (4, 4), (5, 4), (7, 3), (8, 4), (9, 2), (11, 5), (1001, 7)]
    return [{"n": n, "p": p} for n, p in pairs]


def chunks_strategy() -> Any:
    from hypothesis import strategies as st

    return st.fixed_dictionaries({"n": st.integers(0, 60), "p": st.integers(1, 8)})


# --- exchange -------------------------------------------------------------------------------------


def exchange_edges(rng: np.random.Generator) -> list[Inputs]:
    waits = {"rendezvous": True}
    made = [{"values": arrays(rng, ranks, 2), "conditions": dict(waits)} for ranks in RANKS]
    made += [{"values": [array(rng, n) for n in (3, 0, 1)], "conditions": dict(waits)}]
    made += [{"values": arrays(rng, ranks, 1), "conditions": waits | late(rng)} for ranks in (3, 4)]
    made += [{"values": arrays(rng, 3, 2), "conditions": dict(CALM)}]
    return made


def exchange_strategy() -> Any:
    from hypothesis import strategies as st

    def made(drawn: tuple[int, int, int]) -> Inputs:
        ranks, n, seed = drawn
        return {"values": arrays(np.random.default_rng(seed), ranks, n), "conditions": {"rendezvous": True}}

    return st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**32 - 1)).map(made)


# --- reduce_scatter and all_reduce ------------------------------------------------------------------


def _sized(rng: np.random.Generator) -> list[Inputs]:
    made = []
    for ranks in RANKS:
        for n in sorted({0, 1, ranks - 1, ranks, ranks + 1, 2 * ranks + 1}):
            made.append({"values": arrays(rng, ranks, n), "conditions": dict(CALM)})
    made += [{"values": arrays(rng, 3, 8, dtype), "conditions": dict(CALM)} for dtype in DTYPES[1:]]
    made += [{"values": arrays(rng, ranks, 7), "conditions": late(rng)} for ranks in (3, 4)]
    return made


def reduce_scatter_edges(rng: np.random.Generator) -> list[Inputs]:
    return _sized(rng)


def all_reduce_edges(rng: np.random.Generator) -> list[Inputs]:
    made = _sized(rng)
    for ranks, victim, after in ((2, 1, 0), (3, 1, 2), (4, 2, 5)):
        made.append({"values": arrays(rng, ranks, 6), "conditions": {"kill": [victim, after]}})
    return made


def sum_strategy() -> Any:
    from hypothesis import strategies as st

    def made(drawn: tuple[int, int, int, str]) -> Inputs:
        ranks, n, seed, dtype = drawn
        return {"values": arrays(np.random.default_rng(seed), ranks, n, dtype), "conditions": dict(CALM)}

    return st.tuples(st.integers(1, 5), st.integers(0, 12), st.integers(0, 2**32 - 1), st.sampled_from(DTYPES)).map(
        made
    )


# --- buckets --------------------------------------------------------------------------------------


def model(
    rng: np.random.Generator, ranks: int, shapes: list[tuple[int, ...]], capacity: int, dtype: str = "float64"
) -> Inputs:
    """Gradients of one model on several ranks; the capacity of a bucket is in numbers here, in bytes as given."""
    gradients = [[array(rng, int(np.prod(shape)), dtype).reshape(shape) for shape in shapes] for _ in range(ranks)]
    return {"gradients": gradients, "capacity": capacity * np.dtype(dtype).itemsize, "conditions": dict(CALM)}


def buckets_edges(rng: np.random.Generator) -> list[Inputs]:
    layers: list[tuple[int, ...]] = [(3, 2), (2,), (2, 2), (2,), (1,)]
    made = [model(rng, ranks, layers, capacity) for ranks in (1, 2, 3) for capacity in (1, 3, 4, 6, 100)]
    made += [
        model(rng, 2, [], 4),
        model(rng, 2, [()], 4),
        model(rng, 3, [(), (2,), ()], 2),
        model(rng, 2, [(0,), (2,), (0, 3)], 2),
        model(rng, 2, [(9,), (1,), (1,)], 2),
        model(rng, 2, [(1,), (1,), (9,)], 2),
        model(rng, 4, [(2, 1, 2), (3,)], 5, "float32"),
    ]
    made.append(model(rng, 3, layers, 4) | {"conditions": late(rng)})
    return made


def buckets_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shapes = draw(st.lists(st.lists(st.integers(1, 3), max_size=2).map(tuple), max_size=5))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return model(rng, draw(st.integers(1, 3)), shapes, draw(st.integers(1, 9)))

    return cases()
