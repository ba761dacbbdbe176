"""Drivers for ``lab15_partition``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from autograder.inside.peers import Peers
    from autograder.inside.ranks import Ended

Names = Mapping[str, Any]
Plain = dict[str, dict[str, Any]]
Steps = list[list[Any]]


class Node(NamedTuple):
    """A node, as the notebook defines it."""

    op: str
    inputs: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    device: str | None = None
    beside: str | None = None


def graph_of(plain: Plain) -> dict[str, Node]:
    """The graph that a case describes."""
    return {
        name: Node(one["op"], tuple(one["inputs"]), tuple(one["controls"]), one["device"], one["beside"])
        for name, one in plain.items()
    }


def chain(length: int) -> dict[str, Node]:
    """n0, n1, ...: each made from the one before, or ordered after it, in turn."""
    return {
        f"n{i}": Node("add", (f"n{i - 1}",) if i % 2 else (), (f"n{i - 1}",) if i and not i % 2 else ())
        for i in range(length)
    }


def reach(names: Names, graph: Plain, fetches: list[str], length: int) -> list[str]:
    """The names that the learner keeps, sorted. With a `length`, of a chain, of which the last is fetched."""
    whole = chain(length) if length else graph_of(graph)
    found = names["prune"](whole, [f"n{length - 1}"] if length else list(fetches))
    if isinstance(found, (str, bytes)) or not hasattr(found, "__iter__"):
        raise TypeError(f"prune returned {_kind(found)}; expected a set of names.")
    listed = list(found)
    for name in listed:
        if not isinstance(name, str) or name not in whole:
            raise TypeError(f"prune returned {name!r} among its names; no node of the graph is called that.")
    return sorted(listed)


def places(names: Names, graph: Plain, default: str) -> dict[str, str]:
    """The device that the learner gives each node."""
    found = names["place"](graph_of(graph), default)
    if not isinstance(found, dict):
        raise TypeError(f"place returned {_kind(found)}; expected a dict from name to device.")
    for name, device in found.items():
        if name not in graph or not isinstance(device, str):
            raise TypeError(f"place gave {name!r}: {device!r}; expected the name of a node and a device.")
    return dict(found)


def cut(names: Names, graph: Plain, places: dict[str, str]) -> dict[str, Steps]:
    """The steps of each device."""
    found = names["cut"](graph_of(graph), dict(places))
    if not isinstance(found, dict):
        raise TypeError(f"cut returned {_kind(found)}; expected a dict from device to a list of steps.")
    parts: dict[str, Steps] = {}
    for device, steps in found.items():
        if not isinstance(device, str) or not isinstance(steps, (list, tuple)):
            raise TypeError(f"cut gave {device!r}: {_kind(steps)}; expected a device and a list of steps.")
        parts[device] = [_step(step, graph) for step in steps]
    return parts


def _step(step: Any, graph: Plain) -> list[str]:
    sizes = {"run": 2, "send": 3, "recv": 3}
    if not isinstance(step, (list, tuple)) or not step or sizes.get(step[0]) != len(step):
        raise TypeError(
            f"cut gave {step!r} as a step; expected ('run', name), ('send', name, to device) or ('recv', name, from "
            "device)."
        )
    if step[1] not in graph or not all(isinstance(part, str) for part in step):
        raise TypeError(f"cut gave {step!r} as a step; no node of the graph is called {step[1]!r}.")
    return list(step)


def meet(names: Names, actions: list[list[Any]]) -> dict[str, Any]:
    """What each `take` gave, and how many values are held at the end."""
    rendezvous = names["Rendezvous"]()
    taken = []
    for what, step, *rest in actions:
        if what == "put":
            rendezvous.put(step, rest[0], rest[1])
        elif what == "take":
            value = rendezvous.take(step, rest[0])
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer))):
                raise TypeError(f"take returned {_kind(value)}; expected the value that was put, or None.")
            taken.append(None if value is None else int(value))
        else:
            rendezvous.abort(step)
    return {"taken": taken, "held": len(rendezvous)}


def share(
    names: Names,
    parts: list[Steps],
    inputs: dict[str, list[str]],
    constants: dict[str, float],
    count: int,
    conditions: dict[str, Any],
) -> list[Ended]:
    """The values that each rank has, for each of `count` steps."""
    from ranks import raise_first, run_ranks  # type: ignore[import-not-found]  # beside the worker, in a sandbox

    def on_rank(peers: Peers) -> Any:
        ran: list[list[Any]] = []

        def calculate(step: Any, name: Any, values: Any) -> np.ndarray:
            if not isinstance(values, dict):
                raise TypeError(f"calculate was given {_kind(values)}; its third argument is the dict of values.")
            for source in inputs[name]:
                if source not in values:
                    raise KeyError(f"calculate({step}, {name!r}, values): {source} is not among the values yet")
            ran.append([int(step), name])
            total = np.array([constants[name] * (int(step) + 1)])
            for source in inputs[name]:
                total = total + values[source]
            return total

        steps = [tuple(step) for step in parts[peers.rank]]
        found = names["run_part"](steps, calculate, count, peers)
        if not isinstance(found, (list, tuple)) or len(found) != count:
            raise TypeError(f"run_part returned {_kind(found)}; expected a list with a dict for each of {count} steps.")
        answer = []
        for values in found:
            if not isinstance(values, dict):
                raise TypeError(f"run_part returned {_kind(values)} for a step; expected the dict of its values.")
            answer.append({str(name): _array(value) for name, value in values.items()})
        return {"values": answer, "ran": ran}

    ended: list[Ended] = run_ranks(on_rank, len(parts), conditions=conditions, limit=2.5)
    if not conditions.get("kill"):
        raise_first(ended)
    for one in ended:
        one.pop("counts", None)
    return ended


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"run_part returned {_kind(value)} among its values; expected what calculate gave.")
    return np.asarray(value)


def _kind(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return "nothing" if value is None else type(value).__name__
