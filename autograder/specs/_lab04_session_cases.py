"""What ``lab04_session`` is tried on: graphs that are always tried, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

LENGTH = 3000
"""Nodes of the longest chain; Python gives up after about 1000 nested calls."""

Graph = dict[str, list[str]]
DIAMOND: Graph = {"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}
UNEVEN: Graph = {"e": ["a", "d"], "d": ["c"], "c": ["b"], "b": ["a"], "a": []}


# --- prune ----------------------------------------------------------------------------------------


def wanted(inputs: Graph, fetches: str, fed: str = "", length: int = 0) -> Inputs:
    return {"inputs": inputs, "fetches": list(fetches), "fed": list(fed), "length": length}


def prune_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        wanted({"a": []}, "a"),
        wanted(DIAMOND, "d"),
        wanted(DIAMOND, "b"),
        wanted(DIAMOND, ""),
        wanted(DIAMOND, "d", "b"),
        wanted(DIAMOND, "d", "bc"),  # a is behind fed nodes only
        wanted(DIAMOND, "d", "d"),  # a fetch that is fed
        wanted(DIAMOND, "b", "c"),  # fed, and not needed
        wanted(DIAMOND, "bc", "a"),
        wanted(UNEVEN, "e", "c"),  # a is behind c, and needed by another way
        wanted({"b": ["a", "a"], "a": [], "c": ["b"]}, "bb"),
        wanted({"b": ["a"], "a": [], "d": ["c"], "c": []}, "bd", "c"),
        wanted({}, "", length=LENGTH),
    ]


def _drawn_graph(draw: Callable[..., Any], st: Any, most: int = 9) -> Graph:
    """Letters in a random order, each made from letters that come before it in the alphabet."""
    size = draw(st.integers(2, most))
    letters = [chr(ord("a") + i) for i in range(size)]
    graph = {
        letter: draw(st.lists(st.sampled_from(letters[:i]), max_size=3)) if i else []
        for i, letter in enumerate(letters)
    }
    return {letter: graph[letter] for letter in draw(st.permutations(letters))}


def prune_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        graph = _drawn_graph(draw, st)
        some = st.lists(st.sampled_from(sorted(graph)), max_size=3, unique=True)
        return {"inputs": graph, "fetches": draw(some), "fed": draw(some), "length": 0}

    return cases()


# --- order ----------------------------------------------------------------------------------------


def ordered(inputs: Graph, length: int = 0) -> Inputs:
    return {"inputs": inputs, "length": length}


def order_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        ordered({}),
        ordered({"a": []}),
        ordered({"b": ["a"], "a": []}),
        ordered(DIAMOND),
        ordered(UNEVEN),
        ordered({"a": [], "b": []}),
        ordered({"c": ["b", "b", "a"], "b": ["a", "a"], "a": []}),
        ordered({"a": ["a"]}),
        ordered({"a": ["b"], "b": ["a"]}),
        ordered({"a": [], "b": ["a", "d"], "c": ["b"], "d": ["c"], "e": ["d"]}),  # a cycle in the middle
        ordered({"e": ["d"], "a": [], "d": ["c"], "c": ["b"], "b": ["d", "a"]}),  # one that only reads from it first
        ordered({"a": [], "b": ["a"], "c": ["c"]}),
        ordered({}, LENGTH),
    ]


def order_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        graph = _drawn_graph(draw, st)
        if draw(st.booleans()) and draw(st.booleans()):
            one, two = (draw(st.sampled_from(sorted(graph))) for _ in range(2))
            graph[one] = [*graph[one], two]  # a cycle, if two is made from one
        return ordered(graph)

    return cases()


# --- queue ----------------------------------------------------------------------------------------


def timed(rng: np.random.Generator, inputs: Graph, workers: int) -> Inputs:
    return {"inputs": inputs, "seconds": {name: float(rng.integers(1, 9)) for name in inputs}, "workers": workers}


def queue_edges(rng: np.random.Generator) -> list[Inputs]:
    forest: Graph = {"f": [], "e": [], "d": [], "c": [], "b": [], "a": []}
    comb: Graph = {"g": ["c", "f"], "f": ["e"], "e": ["d"], "d": [], "c": ["b"], "b": ["a"], "a": []}
    slow_first = timed(rng, forest, 2)
    slow_first["seconds"]["f"] = 9.0
    return [
        {"inputs": {}, "seconds": {}, "workers": 2},
        slow_first,  # the other worker is free again and again
        timed(rng, {"a": []}, 3),
        *[timed(rng, graph, workers) for graph in (DIAMOND, UNEVEN, forest, comb) for workers in (1, 2, 3, 9)],
        {"inputs": {"b": ["a", "a"], "a": []}, "seconds": {"a": 2.0, "b": 1.0}, "workers": 2},
        {"inputs": comb, "seconds": {name: 0.0 if name in "bf" else 1.5 for name in comb}, "workers": 2},
    ]


def queue_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        graph = _drawn_graph(draw, st)
        seconds = {name: draw(st.integers(0, 6)) * 0.5 for name in sorted(graph)}
        return {"inputs": graph, "seconds": seconds, "workers": draw(st.integers(1, 4))}

    return cases()


# --- free -----------------------------------------------------------------------------------------


def run(inputs: Graph, order: str, fetches: str) -> Inputs:
    return {"order": list(order), "inputs": inputs, "fetches": list(fetches)}


def free_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        run({}, "", ""),
        run({"a": []}, "a", "a"),
        run({"a": []}, "a", ""),
        run(DIAMOND, "abcd", "d"),
        run(DIAMOND, "acbd", "db"),
        run(DIAMOND, "abcd", "a"),
        run(UNEVEN, "abcde", "e"),
        run({"a": [], "b": ["a"], "c": ["a"]}, "abc", "b"),  # nobody reads c
        run({"a": [], "b": ["a", "a"], "c": ["b", "a", "b"]}, "abc", "c"),
        run({"a": [], "b": [], "c": ["a", "b"]}, "bac", "c"),
    ]


def free_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        graph = _drawn_graph(draw, st)
        fetches = draw(st.lists(st.sampled_from(sorted(graph)), max_size=2, unique=True))
        return {"order": sorted(graph), "inputs": graph, "fetches": fetches}

    return cases()


# --- feed -----------------------------------------------------------------------------------------

PLACES = ("images", "labels", "x", "step_size")


def fed(rng: np.random.Generator, shape: list[int | None], dtype: str, given: tuple[int, ...], kind: str) -> Inputs:
    value = (rng.standard_normal(given) * 5).astype(kind)
    return {"name": str(rng.choice(PLACES)), "shape": shape, "dtype": dtype, "value": np.asarray(value)}


def feed_edges(rng: np.random.Generator) -> list[Inputs]:
    f, d, i = "float32", "float64", "int64"
    return [
        fed(rng, [], f, (), f),
        fed(rng, [2, 3], f, (2, 3), f),
        fed(rng, [None, 3], f, (5, 3), f),
        fed(rng, [None, 3], f, (0, 3), f),
        fed(rng, [None, None], d, (1, 4), d),
        fed(rng, [None], i, (4,), i),
        fed(rng, [None, 3], f, (3,), f),
        fed(rng, [None, 3], f, (5, 2, 3), f),
        fed(rng, [None, 3], f, (5, 1), f),  # would broadcast, and is refused
        fed(rng, [1, 3], f, (5, 3), f),
        fed(rng, [0], f, (1,), f),
        fed(rng, [], f, (1,), f),
        fed(rng, [None], f, (), f),
        fed(rng, [None, 3], f, (5, 3), d),
        fed(rng, [None, 3], d, (5, 3), f),
        fed(rng, [2], i, (2,), f),
        fed(rng, [2], f, (2,), i),
    ]


def feed_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        shape = draw(st.lists(st.sampled_from([None, 0, 1, 2, 3]), max_size=3))
        given = [draw(st.integers(0, 3)) if size is None or draw(st.integers(0, 5)) == 0 else size for size in shape]
        dtype = draw(st.sampled_from(["float32", "float64", "int64"]))
        kind = dtype if draw(st.integers(0, 3)) else draw(st.sampled_from(["float32", "float64", "int64"]))
        return fed(rng, shape, dtype, tuple(given), kind)

    return cases()
