"""Drivers for ``lab08_fold``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


def depth(names: Names, inputs: list[list[int]]) -> list[int]:
    """The depths that the learner's function finds."""
    return _integers("depths", names["depths"]([list(read) for read in inputs]))


def groups(names: Names, calls: list[dict[str, Any]]) -> list[list[int]]:
    """The groups that the learner's function makes of calls."""
    given = [
        {
            "op": call["op"],
            "attrs": dict(map(tuple, call["attrs"])),
            "inputs": [_described(one) for one in call["inputs"]],
        }
        for call in calls
    ]
    return _lists("groups", names["groups"](given))


def schedule(names: Names, inputs: list[list[int]], signatures: list[str]) -> list[list[int]]:
    """The batches that the learner's function makes."""
    return _lists("schedule", names["schedule"]([list(read) for read in inputs], list(signatures)))


def gather(names: Names, batches: list[list[int]], inputs: list[list[int]], k: int) -> list[list[Any]]:
    """For each input slot of batch k: the blocks, and the rows or None."""
    found = names["gather"]([list(batch) for batch in batches], [list(read) for read in inputs], k)
    if not isinstance(found, list | tuple):
        raise TypeError(f"gather returned {_kind(found)}; expected a list with one pair for each input.")
    answer = []
    for pair in found:
        if not (isinstance(pair, list | tuple) and len(pair) == 2):
            raise TypeError(f"gather returned a list with {_kind(pair)} in it; expected pairs (blocks, rows).")
        blocks, rows = pair
        answer.append([_integers("gather", blocks), None if rows is None else _integers("gather", rows)])
    return answer


def run(
    names: Names,
    batches: list[list[int]],
    inputs: list[list[int]],
    ops: list[str],
    values: list[np.ndarray],
    weights: dict[str, np.ndarray],
) -> dict[str, Any]:
    """The results of all calls, and which kernels were launched on how many rows; counted: the launches."""
    launches: list[list[Any]] = []

    def counted(op: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def launch(*arrays: Any) -> Any:
            launches.append([op, len(arrays[0]) if np.ndim(arrays[0]) > 1 else 0])
            return kernel(*arrays)

        return launch

    kernels = {op: counted(op, kernel) for op, kernel in kernels_of(weights).items()}
    waiting = iter(values)
    leaves = [np.array(next(waiting)) if op == "value" else None for op in ops]
    found = names["run"](
        [list(batch) for batch in batches], [list(read) for read in inputs], list(ops), leaves, kernels
    )
    if not isinstance(found, list | tuple):
        raise TypeError(f"run returned {_kind(found)}; expected a list with one array for each call.")
    answer = {"results": [np.array(one) for one in found], "launches": launches}
    return {"answer": answer, "counted": {"launches": len(launches)}}


def kernels_of(weights: Mapping[str, np.ndarray]) -> dict[str, Callable[..., Any]]:
    """Kernels on batches: the first axis of every array is that of the calls."""

    def dense(name: str) -> Callable[..., Any]:
        return lambda x, y: np.tanh(np.concatenate([x, y], axis=1) @ weights[name])

    return {
        "sub": lambda x, y: np.subtract(_batch(x), _batch(y)),
        "mul": lambda x, y: np.multiply(_batch(x), _batch(y)),
        "tanh": lambda x: np.tanh(_batch(x)),
        **{f"dense {name}": dense(name) for name in sorted(weights)},
    }


def _batch(x: Any) -> Any:
    if np.ndim(x) != 2:
        raise ValueError(f"a kernel was given an array with {np.ndim(x)} axes; it takes batches: (calls, entries).")
    return x


def _described(one: list[Any]) -> tuple[Any, ...]:
    return (one[0], tuple(one[1]), one[2]) if one[0] == "value" else (one[0], one[1])


def _integers(name: str, found: Any) -> list[int]:
    if isinstance(found, np.ndarray):
        found = found.tolist()
    if not isinstance(found, list | tuple):
        raise TypeError(f"{name} returned {_kind(found)} where a list of integers was expected.")
    for one in found:
        if isinstance(one, bool) or not isinstance(one, int | np.integer):
            raise TypeError(f"{name} returned a list with {_kind(one)} in it; expected integers.")
    return [int(one) for one in found]


def _lists(name: str, found: Any) -> list[list[int]]:
    if not isinstance(found, list | tuple):
        fix = " Its values, in a list, are list(groups.values())." if isinstance(found, dict) else ""
        raise TypeError(f"{name} returned {_kind(found)}; expected a list of lists of call numbers.{fix}")
    return [_integers(name, one) for one in found]


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
