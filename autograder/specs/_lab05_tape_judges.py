"""What is wrong with an answer of ``lab05_tape``, in words, where a plain comparison says too little.

What came is not trusted: it may be any plain data. Where gradients are wrong, the usual mistakes are played through on
the same graph; if one of them gives the very numbers that came, it is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from autograder.compare import compare
from autograder.drivers.lab05_tape import label
from autograder.spec import Inputs

# --- order ----------------------------------------------------------------------------------------


def order(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Each reached node once, the root first, every node after all of its consumers."""
    edges, repeat, size = inputs["inputs"], inputs["repeat"], len(inputs["inputs"])
    given = got.get("order") if isinstance(got, dict) else None
    if repeat > 1:
        if not (isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype == np.int64):
            return ["topological_order did not give a list of nodes."]
        if _chain_is_in_order(given, edges, repeat):
            return []
        found, whole = given.tolist(), _chained(edges, repeat)
        needed = set(range((size - 1) * repeat + 1))
    else:
        place = {label(index): index for index in range(size)}
        if not (isinstance(given, list) and all(isinstance(name, str) and name in place for name in given)):
            return ["topological_order did not give a list of nodes."]
        found, whole = [place[name] for name in given], dict(enumerate(edges))
        needed = {place[name] for name in want["reached"]}

    wrong = []
    twice, times = Counter(found).most_common(1)[0] if found else (0, 0)
    if times > 1:
        wrong.append(
            f"Node {label(twice)} comes {times} times; each node belongs in the list once. Remember which nodes have "
            "been seen."
        )
    if extra := set(found) - needed:
        wrong.append(f"Node {label(min(extra))} is in the list, but the root was not computed from it.")
    if lacking := needed - set(found):
        among = f", and {len(lacking) - 1} more of {len(needed)}" if len(lacking) > 1 else ""
        wrong.append(
            f"Node {label(min(lacking))}{among} is missing from the list: every node the root was computed from "
            "belongs in it, the root and the leaves too."
        )
    if wrong:
        return wrong
    if early := _early(found, whole):
        if _early(found[::-1], whole) is None:
            return ["The order is exactly reversed: the root comes last. Reverse mode starts at the root."]
        node, consumer = early
        return [
            f"Node {label(node)} comes before {label(consumer)}, which consumes it: when {label(node)}'s turn comes, "
            "the cotangent "
            f"from {label(consumer)} is still missing. A node may go in only when all of its consumers have."
        ]
    return []


def _chained(edges: list[list[int]], repeat: int) -> dict[int, list[int]]:
    step = len(edges) - 1
    whole: dict[int, list[int]] = {}
    for copy in range(repeat):
        for index, needed in enumerate(edges):
            if needed or index < step:
                whole[copy * step + index] = [copy * step + k for k in needed]
    return whole


def _chain_is_in_order(found: np.ndarray, edges: list[list[int]], repeat: int) -> bool:
    """Whether a long graph is in order, without building it: each node once, no node before a consumer."""
    step = len(edges) - 1
    size = step * repeat + 1
    if len(found) != size or not np.array_equal(np.sort(found), np.arange(size)):
        return False
    place = np.empty(size, dtype=np.int64)
    place[found] = np.arange(size)
    ends = [(consumer, node) for consumer, needed in enumerate(edges) for node in needed]
    offsets = step * np.arange(repeat)
    return all((place[offsets + consumer] < place[offsets + node]).all() for consumer, node in ends)


def _early(found: list[int], edges: dict[int, list[int]]) -> tuple[int, int] | None:
    """A node that comes before one of its consumers, with that consumer."""
    position = {index: place for place, index in enumerate(found)}
    for consumer in found:
        for node in edges.get(consumer, []):
            if position[node] < position[consumer]:
                return node, consumer
    return None


# --- accumulate -----------------------------------------------------------------------------------


def accumulate(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The right sums, and no array changed on the way."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["accumulate did not leave a dict of arrays behind."]
    wrong = []
    if got["changed"] != "":
        wrong.append(
            "An array that accumulate was given has changed. `+=` writes into the array it finds, which another node "
            "may hold too; let each sum be a new array."
        )
    mismatches = compare(got["sums"], want["sums"])
    if mismatches and not wrong:
        wrong.extend(
            _accumulate_words(inputs, got["sums"], want["sums"]) or [mismatch.message for mismatch in mismatches[:2]]
        )
    return wrong


def _accumulate_words(inputs: Inputs, got: Any, want: dict[str, np.ndarray]) -> list[str]:
    if not isinstance(got, dict):
        return []
    for index in range(inputs["nodes"]):
        name = label(index)
        if name not in want and name in got:
            return [
                f"Node {name} was only ever given None, and yet has an entry. None means that no cotangent flows "
                "there: leave the dict as it is."
            ]
        if name in want and got.get(name) is None:
            return [f"Node {name} has no array at the end, although it was given one."]
    if _same(got, want):
        return []
    plays: dict[str, Callable[[Any, Any], Any]] = {
        "Only the last contribution is kept: it replaces the earlier ones where it should be added to "
        "them.": lambda old, new: new,
        "Only the first contribution is kept; the later ones are lost.": lambda old, new: old,
        "The contributions are averaged; they have to be added.": lambda old, new: (old + new) / 2,
        "The first contribution is counted twice.": lambda old, new: old + new,
    }
    fitting = []
    for words, combine in plays.items():
        sums: dict[str, Any] = {}
        for node, kind, which in inputs["steps"]:
            if kind == "none":
                continue
            value = inputs["arrays"][which] if kind == "array" else sums[label(which)]
            first = 2 * value if "twice" in words else value
            sums[label(node)] = combine(sums[label(node)], value) if label(node) in sums else first
        if _same(got, sums):
            fitting.append(words)
    if len(fitting) > 1:
        return ["The contributions are not added up: only one of them is there."]
    return fitting


# --- backward -------------------------------------------------------------------------------------


def backward(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The right gradient for every leaf that a cotangent reaches, and the cotangent left alone."""
    if not isinstance(got, dict) or got.keys() != want.keys() or not isinstance(got["gradients"], dict):
        return ["backward did not give a dict from leaf to gradient."]
    wrong = []
    mismatches = compare(got["gradients"], want["gradients"])
    if mismatches:
        wrong.extend(
            _backward_words(inputs, got["gradients"], want["gradients"])
            or [mismatch.message for mismatch in mismatches[:2]]
        )
    if got["changed"] != "":
        wrong.append(
            "The cotangent that backward was given has been changed. Add without `+=`: the caller still holds that "
            "array."
        )
    return wrong


def _backward_words(inputs: Inputs, got: dict[str, Any], want: dict[str, np.ndarray]) -> list[str]:
    inner = [name for name in got if "not a leaf" in name]
    if inner:
        return [
            f"The dict holds {inner[0]}: return the gradients of leaves only (nodes without inputs), and drop the "
            "others when their rule has run."
        ]
    if lacking := [name for name in want if name not in got]:
        return [f"Leaf {lacking[0]} is missing, although a cotangent reaches it."]
    if extra := [name for name in got if name not in want]:
        return [
            f"Leaf {extra[0]} has a gradient, although no cotangent reaches it: a rule gave None for it. Leave it out."
        ]
    if inputs["repeat"] > 1:
        return []
    if _same(got, want):
        return []
    fitting = [words for words, gradients in _mistakes(inputs) if _same(got, gradients)]
    partial = [words for words in fitting if words in ONE_CONTRIBUTION]
    if len(partial) > 1:
        # Which of the contributions is there can't be told from this graph.
        fitting = [words for words in fitting if words not in partial]
        fitting.append(
            "Where a node is used more than once, only one of its contributions is here; they have to be added, also "
            "when one consumer uses a node twice (x * x)."
        )
    return [" Or: ".join(fitting)] if fitting else []


ONE_CONTRIBUTION = (
    "Where a node is used more than once, its contributions replace each other; they have to be added.",
    "Where a node is used more than once, only the first contribution is kept; they have to be added.",
    "A node used twice by the same consumer (as in x * x) gets only one of its two contributions. Go through `inputs` "
    "by position.",
)


def _mistakes(inputs: Inputs) -> Iterator[tuple[str, dict[str, Any]]]:
    """What some wrong backward passes give, in words and numbers."""
    yield (
        "The cotangent is ignored: these are the gradients for a cotangent of ones.",
        _play(inputs, seed=np.ones_like(inputs["cotangent"])),
    )
    replaced, first, once = ONE_CONTRIBUTION
    yield replaced, _play(inputs, add=lambda old, new: new)
    yield first, _play(inputs, add=lambda old, new: old)
    yield once, _play(inputs, once=True)
    yield (
        "An array is shared: `+=` changed a cotangent that another node was given as well. Make a new array: old + "
        "new.",
        _play(inputs, add=np.add, in_place=True),
    )
    yield (
        "A node passes its cotangent on before all of its consumers have added to it. Go through the nodes in "
        "topological order.",
        _play(inputs, order=_breadth_first(inputs["steps"], inputs["root"])),
    )
    yield (
        "Only the root passes its cotangent on: the nodes are visited from the leaves to the root. Start at the root.",
        _play(inputs, order=range(inputs["root"] + 1)),
    )


def _play(
    inputs: Inputs,
    *,
    seed: np.ndarray | None = None,
    add: Callable[[Any, Any], Any] = np.add,
    once: bool = False,
    in_place: bool = False,
    order: Iterable[int] | None = None,
) -> dict[str, Any]:
    """A backward pass over the case's graph with one thing about it changed."""
    steps, partials, root = inputs["steps"], inputs["partials"], inputs["root"]
    held: dict[int, Any] = {root: (inputs["cotangent"] if seed is None else seed).copy()}
    for index in range(root, -1, -1) if order is None else order:
        if index not in held:
            continue
        seen: set[int] = set()
        for target, partial in zip(steps[index]["inputs"], partials[index], strict=True):
            value = _passed(held[index], partial)
            if value is None or (once and target in seen):
                continue
            seen.add(target)
            if target not in held:
                held[target] = value
            elif in_place and isinstance(held[target], np.ndarray) and held[target].flags.writeable:
                held[target] += value
            else:
                held[target] = add(held[target], value)
    return {label(index): value for index, value in held.items() if steps[index]["op"] == "leaf"}


def _breadth_first(steps: list[dict[str, Any]], root: int) -> list[int]:
    found = [root]
    for index in found:
        found.extend(dict.fromkeys(k for k in steps[index]["inputs"] if k not in found))
    return found


def _passed(g: Any, partial: list[Any]) -> Any:
    match partial[0]:
        case "same":
            return g
        case "negated":
            return -g
        case "times":
            return g * partial[1]
        case "spread":
            return np.broadcast_to(g, tuple(partial[1]))
    return None


# --- stale ----------------------------------------------------------------------------------------


def stale(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Each take of the script: the recorded arrays, or a StaleTape that names the op."""
    if not isinstance(got, list) or len(got) != len(want) or not all(isinstance(one, dict) for one in got):
        return ["Saved.take did not give tuples of arrays."]
    takes = _takes(inputs["events"])
    for one, other, (line, op, why) in zip(got, want, takes, strict=True):
        if "arrays" in other and "raised" in one:
            return [
                f"Event {line}: take of {op} raised {one['raised']}, although nothing it saved was changed since it "
                "was recorded, and it was not used up."
            ]
        if "raised" in other and "arrays" in one:
            return [f"Event {line}: take of {op} should raise StaleTape: {why}."]
        if "raised" in other and one.get("raised") != "StaleTape":
            return [f"Event {line}: take of {op} raised {one.get('raised')}; expected StaleTape."]
        if "raised" in other and one.get("names_op") is not True:
            return [
                f"Event {line}: take of {op} raised StaleTape, but its message does not name the op ({op!r}); without "
                "it nobody finds the place."
            ]
        mismatches = compare(one, other)
        if mismatches:
            return [f"Event {line}: take of {op}: {mismatches[0].message}"]
    return []


def _takes(events: list[list[Any]]) -> list[tuple[int, str, str]]:
    """For every take: its line in the script, its op, and why it may have to be refused."""
    changes: dict[int, int] = {}
    records: list[dict[str, Any]] = []
    found = []
    for line, (kind, first, second) in enumerate(events):
        if kind == "record":
            records.append({"op": first, "of": second, "at": [changes.get(k, 0) for k in second], "used": False})
        elif kind == "change":
            changes[first] = changes.get(first, 0) + 1
        else:
            record = records[first]
            moved = [k for k, at in zip(record["of"], record["at"], strict=True) if changes.get(k, 0) != at]
            why = (
                f"tensor {moved[0]} was changed in place since it was recorded"
                if moved
                else "it was taken before, and not retained"
            )
            found.append((line, record["op"], why))
            record["used"] = record["used"] or (not second and not moved)
    return found


# --- shared ---------------------------------------------------------------------------------------


def _same(got: dict[str, Any], want: dict[str, Any]) -> bool:
    """Whether two dicts hold the same numbers, whatever the kinds of array."""
    if got.keys() != want.keys() or not all(
        isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iufc" for value in got.values()
    ):
        return False
    return all(
        np.shape(got[key]) == np.shape(want[key]) and np.allclose(got[key], want[key], rtol=1e-4, atol=1e-6)
        for key in got
    )
