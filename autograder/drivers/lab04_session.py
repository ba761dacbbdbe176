"""Drivers for ``lab04_session``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]
Graph = dict[str, list[str]]


def chain(length: int) -> Graph:
    """n0, n1, ...: each made from the one before, which it reads twice."""
    return {f"n{i}": [f"n{i - 1}"] * 2 if i else [] for i in range(length)}


def prune(names: Names, inputs: Graph, fetches: list[str], fed: list[str], length: int) -> dict[str, Any]:
    """The names that the learner keeps, sorted. With a `length`, of a chain, of which the last is fetched."""
    graph = chain(length) if length else inputs
    answer = names["needed"](list(fetches) if not length else [f"n{length - 1}"], _copied(graph), set(fed))
    return {"needed": sorted(_names(answer, "needed", graph))}


def order(names: Names, inputs: Graph, length: int) -> dict[str, Any]:
    """The learner's order, or that a cycle was reported, and what the message says."""
    graph = dict(reversed(chain(length).items())) if length else inputs
    try:
        answer = names["run_order"](list(graph), _copied(graph))
    except names["CycleError"] as error:
        return {"cycle": str(error)}
    return {"order": _names(answer, "run_order", graph)}


def queue(names: Names, inputs: Graph, seconds: dict[str, float], workers: int) -> dict[str, Any]:
    """For each node: its worker, when it starts, and when it is done."""
    answer = names["simulate"](_copied(inputs), dict(seconds), workers)
    if not isinstance(answer, dict):
        raise TypeError(
            f"simulate returned {type(answer).__name__}; expected a dict from node to (worker, start, end)."
        )
    found = {}
    for name, entry in answer.items():
        if not isinstance(name, str) or not isinstance(entry, (tuple, list)) or len(entry) != 3:
            raise TypeError(f"simulate gave {name!r}: {entry!r}; expected a node's name and (worker, start, end).")
        worker, start, end = entry
        found[name] = [int(worker), float(start), float(end)]
    return found


def free(names: Names, order: list[str], inputs: Graph, fetches: list[str]) -> dict[str, Any]:
    """What may be freed after each step, sorted."""
    answer = names["free_after"](list(order), _copied(inputs), set(fetches))
    if isinstance(answer, (str, bytes, dict)) or not hasattr(answer, "__iter__"):
        raise TypeError(f"free_after returned {type(answer).__name__}; expected a list, with an entry for each step.")
    return {"freed": [sorted(_names(step, "free_after", inputs)) for step in answer]}


def feed(names: Names, name: str, shape: list[int | None], dtype: str, value: np.ndarray) -> dict[str, Any]:
    """The array that the learner lets through, or the message with which it is refused."""
    try:
        answer = names["check_feed"](name, tuple(shape), dtype, value)
    except names["FeedError"] as error:
        return {"refused": str(error)}
    if isinstance(answer, np.generic):  # what NumPy makes of an array of no axes
        answer = np.asarray(answer)
    if not isinstance(answer, np.ndarray):
        raise TypeError(f"check_feed returned {type(answer).__name__}; expected the array.")
    return {"array": answer}


def _copied(graph: Graph) -> Graph:
    return {name: list(needed) for name, needed in graph.items()}


def _names(answer: Any, function: str, graph: Graph) -> list[str]:
    if isinstance(answer, (str, bytes)) or not hasattr(answer, "__iter__"):
        raise TypeError(f"{function} returned {type(answer).__name__}; expected a collection of names.")
    found = list(answer)
    for name in found:
        if not isinstance(name, str) or name not in graph:
            raise TypeError(f"{function} returned {name!r} among its names; no node of the graph is called that.")
    return found
