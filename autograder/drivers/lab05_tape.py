"""Drivers for ``lab05_tape``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

Names = Mapping[str, Any]

DEEP = 2000
"""Calls within calls that no loop makes."""


class Node:
    """What a tape holds: the nodes it was computed from, and the rule that turns its cotangent into theirs."""

    __slots__ = ("index", "inputs")

    rule: Any = None

    def __init__(self, index: int, inputs: tuple[Node, ...] = ()) -> None:
        self.index = index
        self.inputs = inputs

    def __repr__(self) -> str:
        return f"<node {label(self.index)}>"


class Computed(Node):
    """A node with a rule, which counts how often it runs."""

    __slots__ = ("calls", "partials")

    def __init__(self, index: int, inputs: tuple[Node, ...], partials: list[Any]) -> None:
        self.index = index
        self.inputs = inputs
        self.partials = partials
        self.calls = 0

    def rule(self, g: Any) -> tuple[Any, ...]:
        self.calls += 1
        if g is None:
            raise TypeError(f"the rule of {self!r} was given None; a node that no cotangent reached passes nothing on.")
        return tuple([_pass_on(g, partial) for partial in self.partials])


class Tensor:
    """An array and a count of how often it was changed in place."""

    __slots__ = ("data", "version")

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self.version = 0

    def add_(self, change: np.ndarray) -> None:
        self.data += change
        self.version += 1


class Inputs:
    """Gives the inputs of a node, and looks now and then how many calls deep it is asked for them."""

    def __init__(self) -> None:
        self.asked = 0
        self.deep = False

    def __call__(self, node: Node) -> tuple[Node, ...]:
        self.asked += 1
        if self.asked % 1000 == 0:
            frame, depth = sys._getframe(), 0
            while frame.f_back is not None and depth < DEEP:
                frame, depth = frame.f_back, depth + 1
            self.deep = self.deep or depth == DEEP
        return node.inputs


def label(index: int) -> str:
    """The letter a node goes by in the feedback: a, b, c, ..., then n26, n27, ..."""
    return chr(ord("a") + index) if index < 26 else f"n{index}"


def rules(names: Names, op: str, g: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[Any]:
    """Both gradients of the learner's rule for `op`. The three arrays can't be changed: others hold them too."""
    name = {"mul": "mul_rule", "matmul": "matmul_rule"}[op]
    for array in (g, x, y):
        array.flags.writeable = False
    answer = names[name](g, x, y)
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise TypeError(f"{name} returned {_kind(answer)}; expected a pair (dx, dy).")
    return list(answer)


def order(names: Names, inputs: list[list[int]], root: int, repeat: int) -> dict[str, Any]:
    """The nodes of a graph in the learner's order: their labels, or their numbers where the graph is repeated.

    `inputs` lists what each node of a motif was computed from. With `repeat` above 1 the motif is chained that
    often: the last node of one copy is node 0 of the next.
    """
    with _building():
        step = len(inputs) - 1
        whole = [Node(index) for index in range(step * repeat + 1)]
        for copy in range(repeat):
            for index, needed in enumerate(inputs):
                if needed:
                    whole[step * copy + index].inputs = tuple([whole[step * copy + k] for k in needed])
    inputs_of = Inputs()
    answer = names["topological_order"](whole[root], inputs_of)
    if isinstance(answer, (str, bytes)) or not hasattr(answer, "__iter__"):
        raise TypeError(f"topological_order returned {_kind(answer)}; expected a list of nodes.")
    if inputs_of.deep:  # under a higher limit, which no machine's memory is ready for
        raise RecursionError(f"topological_order made more than {DEEP} calls within calls on {len(whole)} nodes")
    found = []
    for node in answer:
        if not isinstance(node, Node):
            raise TypeError(f"topological_order returned a list with {_kind(node)} in it; expected nodes only.")
        found.append(node.index)
    if repeat > 1:
        return {"order": np.array(found, dtype=np.int64)}
    return {"order": [label(index) for index in found]}


def accumulate(names: Names, arrays: list[np.ndarray], steps: list[list[Any]], nodes: int) -> dict[str, Any]:
    """What the learner's dict holds after some contributions, and which of the arrays given were changed meanwhile.

    A step is ``[node, "array", k]``, ``[node, "none", 0]``, or ``[node, "sum", other]``: what `other` has so far.
    """
    before = [array.copy() for array in arrays]
    made = [Node(index) for index in range(nodes)]
    cotangents: dict[Node, Any] = {}
    for index, kind, which in steps:
        value = None if kind == "none" else arrays[which] if kind == "array" else cotangents[made[which]]
        names["accumulate"](cotangents, made[index], value)
    sums = {label(node.index): cotangents[node] for node in made if node in cotangents}
    changed = [f"arrays[{k}]" for k, then in enumerate(before) if not np.array_equal(then, arrays[k])]
    return {"sums": sums, "changed": ", ".join(changed)}


def backward(
    names: Names, steps: list[dict[str, Any]], partials: list[list[Any]], root: int, cotangent: np.ndarray, repeat: int
) -> dict[str, Any]:
    """Gradients the learner's backward pass finds, whether `cotangent` was changed, and how often rules ran.

    `partials` holds, per step and input, how a cotangent is passed on: ``["same"]``, ``["negated"]``,
    ``["times", array]``, ``["spread", shape]`` or ``["none"]``. With `repeat` above 1 the graph is chained that
    often through its only leaf, step 0.
    """
    with _building():
        whole: list[Node] = []
        place = {}
        for copy in range(repeat):
            nodes = whole[-1:] if copy else []
            for index, step in enumerate(steps):
                if step["op"] != "leaf":
                    nodes.append(Computed(index, tuple([nodes[k] for k in step["inputs"]]), partials[index]))
                elif not copy:
                    nodes.append(Node(index))
            if not copy:
                place = {node: label(node.index) for node in nodes if not node.inputs}
                whole.extend(nodes)
            else:
                whole.extend(nodes[1:])
    before = cotangent.copy()
    answer = names["backward"](whole[root] if repeat == 1 else whole[-1], cotangent)
    if not isinstance(answer, dict):
        raise TypeError(f"backward returned {_kind(answer)}; expected a dict from leaf to gradient.")
    gradients = {}
    for node, gradient in answer.items():
        if not isinstance(node, Node):
            raise TypeError(f"backward returned a dict with {_kind(node)} as a key; expected leaves (nodes).")
        gradients[place.get(node, f"{label(node.index)}, which is not a leaf")] = gradient
    again = [node for node in whole if isinstance(node, Computed) and node.calls > 1][:3]
    answer = {
        "gradients": gradients,
        "again": ", ".join(f"{label(node.index)}: {node.calls} times" for node in again),
        "changed": "" if np.array_equal(before, cotangent) else "cotangent",
    }
    return {
        "answer": answer,
        "counted": {"rules": sum(node.calls for node in whole if isinstance(node, Computed))},
    }


def stale(names: Names, tensors: list[np.ndarray], events: list[list[Any]]) -> list[dict[str, Any]]:
    """What each ``take`` of a script came to: the arrays, or the refusal and whether it names the op.

    An event is ``["record", op, which]``, ``["change", tensor, amount]`` or ``["take", record, retain]``.
    """
    Saved, StaleTape = names["Saved"], names["StaleTape"]
    held = [Tensor(array.copy()) for array in tensors]
    records: list[tuple[str, Any]] = []
    outcomes: list[dict[str, Any]] = []
    for kind, first, second in events:
        if kind == "record":
            records.append((first, Saved(first, *(held[k] for k in second))))
        elif kind == "change":
            held[first].add_(second)
        else:
            op, saved = records[first]
            try:
                arrays = saved.take(retain=True) if second else saved.take()
            except RuntimeError as error:
                # A StaleTape is an answer, and so is a plain RuntimeError (a wrong one); any other is to be shown.
                if not isinstance(error, StaleTape) and type(error) is not RuntimeError:
                    raise
                outcomes.append({"raised": type(error).__name__, "names_op": op in str(error)})
                continue
            if not isinstance(arrays, (tuple, list)):
                raise TypeError(f"Saved.take returned {_kind(arrays)}; expected a tuple of arrays.")
            for array in arrays:
                if not isinstance(array, (np.ndarray, np.generic)):
                    raise TypeError(
                        f"Saved.take returned {_kind(array)} among its arrays; expected what tensor.data is."
                    )
            outcomes.append({"arrays": [np.array(array) for array in arrays]})
    return outcomes


@contextmanager
def _building() -> Iterator[None]:
    """Make many objects without the collector looking through them, now or while the learner's code runs."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _pass_on(g: Any, partial: list[Any]) -> Any:
    match partial:
        case ["same"]:
            return g
        case ["negated"]:
            return -g
        case ["times", array]:
            return g * array
        case ["spread", shape]:
            return np.broadcast_to(g, tuple(shape))
        case ["none"]:
            return None
    raise ValueError(f"no cotangent is passed on like {partial!r}.")


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}{size}"
