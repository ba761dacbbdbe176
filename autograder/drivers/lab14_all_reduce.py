"""Drivers for ``lab14_all_reduce``: plain data in, the learner's function on several ranks, plain data out.

No answers here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autograder.inside.peers import Peers
    from autograder.inside.ranks import Ended

Names = Mapping[str, Any]
Conditions = dict[str, Any]


def chunks(names: Names, n: int, p: int) -> list[list[int]]:
    """The bounds that the learner gives."""
    found = names["chunk_bounds"](n, p)
    if not isinstance(found, (list, tuple)):
        raise TypeError(f"chunk_bounds returned {_kind(found)}; expected a list of pairs (start, stop).")
    bounds = []
    for pair in found:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(f"chunk_bounds returned a list with {_kind(pair)} in it; expected pairs (start, stop).")
        bounds.append([_integer(pair[0]), _integer(pair[1])])
    return bounds


def exchange(names: Names, values: list[np.ndarray], conditions: Conditions) -> list[Ended]:
    """What each rank has from its left neighbour."""
    return _each(names["pass_right"], values, conditions)


def reduce_scatter(names: Names, values: list[np.ndarray], conditions: Conditions) -> dict[str, Any]:
    """What each rank has of the sum; counted: the bytes that one rank sent, the most of all."""
    return _weighed(_each(names["reduce_scatter"], values, conditions))


def all_reduce(names: Names, values: list[np.ndarray], conditions: Conditions) -> dict[str, Any]:
    """The sum that each rank has; counted: the bytes that one rank sent, the most of all."""
    return _weighed(_each(names["all_reduce"], values, conditions))


def buckets(names: Names, gradients: list[list[np.ndarray]], capacity: int, conditions: Conditions) -> list[Ended]:
    """The averages that each rank has, and what it gave to be summed, in order."""

    def on_rank(peers: Peers) -> Any:
        given: list[np.ndarray] = []

        def summed(array: Any, among: Any) -> np.ndarray:
            if not isinstance(array, np.ndarray) or array.ndim != 1:
                raise TypeError(f"all_reduce was given {_kind(array)}; it takes a flat array, of shape (n,).")
            given.append(np.array(array))
            return _through_rank_0(array, peers)

        own = [np.array(one) for one in gradients[peers.rank]]
        found = names["average_gradients"](own, capacity, peers, summed)
        if not isinstance(found, (list, tuple)):
            raise TypeError(f"average_gradients returned {_kind(found)}; expected a list of arrays.")
        return {"averages": [_array(one) for one in found], "given": given, "own": own}

    return _run(on_rank, len(gradients), conditions)


# --- inside ---------------------------------------------------------------------------------------


def _each(function: Callable[..., Any], values: list[np.ndarray], conditions: Conditions) -> list[Ended]:
    """``function(own array, peers)`` on each rank; what it returned, and its array as it was afterwards."""

    def on_rank(peers: Peers) -> Any:
        own = np.array(values[peers.rank])
        return {"result": _array(function(own, peers)), "own": own}

    return _run(on_rank, len(values), conditions)


def _weighed(ended: list[Ended]) -> dict[str, Any]:
    sent = [sum(size for what, _, size in one.get("log", []) if what == "send") for one in ended]
    return {"answer": ended, "counted": {"bytes": max(sent)}}


def _run(on_rank: Callable[[Peers], Any], size: int, conditions: Conditions) -> list[Ended]:
    from ranks import raise_first, run_ranks  # type: ignore[import-not-found]  # beside the worker, in a sandbox

    ended: list[Ended] = run_ranks(on_rank, size, conditions=conditions, limit=2.0 if conditions.get("kill") else 3.0)
    if not conditions.get("kill"):
        raise_first(ended)
    for one in ended:
        one.pop("counts", None)
    return ended


def _through_rank_0(array: np.ndarray, peers: Peers) -> np.ndarray:
    """A sum that is slow and plain: everything goes to rank 0 and comes back."""
    if peers.rank:
        peers.send(0, array)
        received: np.ndarray = peers.receive(0)
        return received
    total = np.array(array)
    for source in range(1, peers.size):
        other = peers.receive(source)
        if other.shape != total.shape:
            raise ValueError(
                f"all_reduce: rank 0 gives {total.size} numbers and rank {source} gives {other.size}; "
                "every rank has to make the same buckets in the same order."
            )
        total = total + other
    for to in range(1, peers.size):
        peers.send(to, total)
    return total


def _array(found: Any) -> np.ndarray:
    if isinstance(found, np.generic):
        return np.asarray(found)
    if not isinstance(found, np.ndarray):
        raise TypeError(f"the function returned {_kind(found)}; expected an array.")
    return found


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"chunk_bounds gave {value!r} as a bound; expected an integer.")
    return int(value)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return "nothing" if value is None else type(value).__name__
