"""Seeds for random rows. A row is a function of its seed; who calls it draws one, and can have it drawn again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


class _Draws(threading.local):
    def __init__(self) -> None:
        self.kept: list[list[int] | Iterator[int]] = []
        self.placed: list[Callable[[np.random.Generator], Any]] = []


_draws = _Draws()


def draw_seed(rng: np.random.Generator) -> int:
    """A seed for one call of a random row; inside `replayed`, the one that was drawn at this point before."""
    if _draws.placed:
        return _draws.placed[-1](rng)
    replay = next((kept for kept in reversed(_draws.kept) if not isinstance(kept, list)), None)
    seed = int(rng.integers(2**63)) if replay is None else next(replay, None)
    if seed is None:
        raise RuntimeError("draw_seed: the second run draws more random numbers than the first did.")
    for kept in reversed(_draws.kept):
        if not isinstance(kept, list):
            break
        kept.append(seed)
    return seed


@contextmanager
def drawn() -> Iterator[list[int]]:
    """Note the seeds that are drawn inside, in a list."""
    seeds: list[int] = []
    with _keeping(seeds):
        yield seeds


@contextmanager
def placed(stand_in: Callable[[np.random.Generator], Any]) -> Iterator[None]:
    """Draw nothing inside: what ``stand_in(rng)`` gives stands for the seed that a later run draws."""
    _draws.placed.append(stand_in)
    try:
        yield
    finally:
        _draws.placed.pop()


@contextmanager
def replayed(seeds: list[int]) -> Iterator[None]:
    """Give out these seeds again, instead of drawing."""
    with _keeping(iter(seeds)):
        yield


@contextmanager
def _keeping(kept: list[int] | Iterator[int]) -> Iterator[None]:
    _draws.kept.append(kept)
    try:
        yield
    finally:
        _draws.kept.pop()
