"""What is wrong with an answer of ``lab04_session``, in words. What came is not trusted: it may be any plain data."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np

from autograder.drivers.lab04_session import chain
from autograder.spec import Inputs

SLACK = 1e-9
"""Seconds by which sums of floating numbers may differ."""

Graph = dict[str, list[str]]


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:6])}, ... ({len(names)} in all)"


def _strings(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _read_by(inputs: Graph) -> dict[str, list[str]]:
    return {name: [other for other, needed in inputs.items() if name in needed] for name in inputs}


# --- prune ----------------------------------------------------------------------------------------


def prune(inputs: Inputs, got: Any, want: Any) -> list[str]:
    found = got.get("needed") if isinstance(got, dict) else None
    if not _strings(found):
        return ["needed did not give a collection of names."]
    twice = [name for name, times in Counter(found).items() if times > 1]
    if twice:
        return [f"{twice[0]} is in the result {found.count(twice[0])} times; once is enough. A set holds a name once."]
    lacking, extra = sorted(set(want["needed"]) - set(found)), sorted(set(found) - set(want["needed"]))
    words = []
    if lacking:
        words.append(f"{_listed(lacking)} is missing: {_why(lacking[0], inputs)}")
    if extra:
        behind = inputs["fed"] and not inputs["length"]
        words.append(
            f"{_listed(extra)} is not needed: "
            + ("no fetch is made from it, except by way of a value that is fed. Past a fed node nothing runs."
               if behind else "no fetch is made from it.")
        )  # fmt: skip
    return words


def _why(name: str, inputs: Inputs) -> str:
    if name in inputs["fetches"]:
        return "it is fetched." + (" That it is fed too makes no difference." if name in inputs["fed"] else "")
    if name in inputs["fed"]:
        return "it is fed and something needed reads it. A fed node is needed; what it is made from is not."
    return "a node that is needed is made from it."


# --- order ----------------------------------------------------------------------------------------


def order(inputs: Inputs, got: Any, want: Any) -> list[str]:
    graph = chain(inputs["length"]) if inputs["length"] else inputs["inputs"]
    if not isinstance(got, dict):
        return ["run_order did not give a list of names."]
    if "cycle" in got:
        if not want["cycle"]:
            return ["CycleError was raised, but there is no cycle: every node can run after its inputs."]
        # By whole words, of which one may be a node's name and an article: "there is a cycle".
        words = re.findall(r"\w+", re.sub(r"\ba (?=(cycle|circle|loop|node)\b)", "", str(got["cycle"])))
        named, circle = [word for word in words if word in graph], _on_cycles(graph)
        if circle.intersection(named):
            return []
        only = f"It names {named[0]}, which only waits for the cycle." if named else "Whoever reads it has to find it."
        return [f"The message of CycleError names no node of the cycle. {only}"]
    found = got.get("order")
    if not _strings(found):
        return ["run_order did not give a list of names."]
    if want["cycle"]:
        return [f"There is a cycle ({_listed(sorted(_on_cycles(graph)))}), and no CycleError was raised."]
    twice = [name for name, times in Counter(found).items() if times > 1]
    if twice:
        return [f"{twice[0]} is in the order {found.count(twice[0])} times; it has to run once."]
    lacking = [name for name in graph if name not in set(found)]
    if lacking:
        return [f"{_listed(lacking)} is missing from the order."]
    place = {name: position for position, name in enumerate(found)}
    for name, needed in graph.items():
        for one in needed:
            if place[one] > place[name]:
                if all(place[b] > place[a] for a, several in graph.items() for b in several):
                    return ["The order is exactly reversed: it starts with what is made last."]
                return [
                    f"{name} comes before {one}, which it is made from. A node may run when all of its inputs have."
                ]
    return []


def _on_cycles(graph: Graph) -> set[str]:
    """Nodes that lead back to themselves."""
    reach = {name: set(needed) for name, needed in graph.items()}
    for _ in graph:
        for name in graph:
            reach[name] |= {further for one in list(reach[name]) for further in reach[one]}
    return {name for name in graph if name in reach[name]}


# --- queue ----------------------------------------------------------------------------------------


def queue(inputs: Inputs, got: Any, want: Any) -> list[str]:
    graph, seconds, workers = inputs["inputs"], inputs["seconds"], inputs["workers"]
    if not isinstance(got, dict) or not all(
        isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], int)
        and all(isinstance(time, float) for time in entry[1:]) for entry in got.values()
    ):  # fmt: skip
        return ["simulate did not give a dict from node to (worker, start, end)."]
    if set(got) != set(graph):
        lacking, extra = sorted(set(graph) - set(got)), sorted(set(got) - set(graph))
        return [f"{_listed(lacking)} never runs." if lacking else f"{_listed(extra)} is no node of the graph."]
    for name, (worker, start, end) in got.items():
        if not 0 <= worker < workers:
            return [f"{name} runs on worker {worker}; with {workers} workers they are 0 to {workers - 1}."]
        if abs(end - start - seconds[name]) > SLACK:
            return [f"{name} takes {seconds[name]:g} s, but runs from {start:g} to {end:g}."]
        if start < -SLACK or np.isnan(start):
            return [f"{name} starts at {start:g}; the run begins at 0."]
    for name, needed in graph.items():
        for one in needed:
            if got[name][1] < got[one][2] - SLACK:
                return [
                    f"{name} starts at {got[name][1]:g}, but {one}, which it is made from, is done only at "
                    f"{got[one][2]:g}. A node is ready when all of its inputs are done."
                ]
    for worker in range(workers):
        mine = sorted((start, end, name) for name, (at, start, end) in got.items() if at == worker)
        for (_, end, one), (start, _, other) in pairwise(mine):
            if start < end - SLACK:
                return [f"Worker {worker} runs {one} and {other} at the same time ({other} starts at {start:g})."]
    for name, needed in graph.items():
        ready = max([got[one][2] for one in needed], default=0.0)
        idle = _idle(got, workers, ready, got[name][1])
        if idle is not None:
            at, worker = idle
            return [
                f"{name} is ready at {ready:g} and starts at {got[name][1]:g}, but worker {worker} has nothing to do "
                f"at {at:g}. No worker may wait while a node is ready."
            ]
    late = [name for name in graph if workers >= len(graph) and got[name][2] > want[name] + SLACK]
    return [f"{late[0]} could be done at {want[late[0]]:g} with a worker for each node." for _ in late[:1]]


def _idle(got: dict[str, Any], workers: int, begin: float, end: float) -> tuple[float, int] | None:
    """A time in [begin, end) at which a worker does nothing."""
    if end <= begin + SLACK:
        return None
    times = sorted({begin, *(entry[2] for entry in got.values() if begin < entry[2] < end - SLACK)})
    for time in times:
        for worker in range(workers):
            mine = [(start, stop) for at, start, stop in got.values() if at == worker]
            busy = any(start <= time + SLACK and (time < stop - SLACK or start >= time - SLACK) for start, stop in mine)
            if not busy:
                return time, worker
    return None


# --- free -----------------------------------------------------------------------------------------


def free(inputs: Inputs, got: Any, want: Any) -> list[str]:
    order, graph, fetches = inputs["order"], inputs["inputs"], inputs["fetches"]
    found = got.get("freed") if isinstance(got, dict) else None
    if not isinstance(found, list) or not all(map(_strings, found)):
        return ["free_after did not give a list with a collection of names for each step."]
    if len(found) != len(order):
        return [f"There are {len(order)} steps, and {len(found)} entries."]
    readers = _read_by(graph)
    for position, (names, right) in enumerate(zip(found, want["freed"], strict=True)):
        step = order[position]
        for name in names:
            if name in right and names.count(name) == 1:
                continue
            if names.count(name) > 1 or any(name in earlier for earlier in found[:position]):
                return [f"{name} is freed twice: it must be in one entry, once."]
            if name in fetches:
                return [f"{name} is freed after {step}, but it is fetched: the caller still wants it."]
            later = [other for other in order[position + 1 :] if other in readers[name]]
            if later:
                return [f"{name} is freed after {step}, but {later[0]}, which runs later, reads it."]
            if order.index(name) > position:
                return [f"{name} is freed after {step}, before it has been computed."]
            return [f"{name} is freed after {step}; it was dead before that. Free it as soon as nobody will read it."]
        for name in right:
            if name not in names:
                why = "nobody reads it after that" if readers[name] else "nobody reads it at all, so it is dead at once"
                return [f"{name} can be freed after {step}: {why}."]
    return []


# --- feed -----------------------------------------------------------------------------------------


def feed(inputs: Inputs, got: Any, want: Any) -> list[str]:
    value, shape = inputs["value"], tuple(inputs["shape"])
    what = f"{value.dtype.name} of shape {value.shape} for a placeholder of {inputs['dtype']} and shape {shape}"
    if isinstance(got, dict) and isinstance(got.get("refused"), str):
        if want["fits"]:
            return [f"{what} was refused, and fits: None stands for any size, also 0."]
        if inputs["name"] not in got["refused"]:
            return [f"The message of FeedError does not name the placeholder, {inputs['name']!r}."]
        return []
    array = got.get("array") if isinstance(got, dict) else None
    if not isinstance(array, np.ndarray):
        return ["check_feed gave no array."]
    if not want["fits"]:
        if value.ndim != len(shape):
            why = f"it has {value.ndim} axes, not {len(shape)}"
        elif value.dtype.name != inputs["dtype"]:
            why = "its dtype is another, and a silent cast hides the mistake of whoever fed it"
        else:
            why = "a size differs; that it could be broadcast does not help, since the nodes were made for that size"
        return [f"{what} was let through: {why}."]
    if array.dtype != value.dtype or array.shape != value.shape or not np.array_equal(array, value):
        return ["The array that comes out is not the one that was fed."]
    return []
