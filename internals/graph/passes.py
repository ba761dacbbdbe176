"""Rewriting a graph before it runs. Each pass is one rule; a rule looks at one node, its inputs already rewritten.

What no fetch needs is never made ready (`needed`), so dead code needs no pass of its own: a rule that leaves a node
unused has removed it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.graph.graph import CONSTANT, PLACEHOLDER, VARIABLE, Graph
from internals.graph.node import Node
from internals.graph.plan import needed
from internals.ops.table import TABLE, is_array, run_on_arrays

Rule = Callable[[Graph, Node, list[Any]], Node | None]
"""``rule(graph, node, inputs)``: what stands for `node` in the new graph, or None to make it as it is."""

LARGEST_FOLDED = 1 << 20
"""Bytes. A constant is kept for as long as the plan, so a large one costs more than computing it again."""


def is_pure(node: Node) -> bool:
    """Whether a node is a row of the table: the same inputs give the same result, and nothing else happens."""
    return TABLE.get(node.op.name) is node.op and not node.controls


def fold_constants(graph: Graph, node: Node, inputs: list[Any]) -> Node | None:
    """Compute now what depends on constants alone."""
    if not is_pure(node) or node.op.results or not inputs or "seed" in node.attrs:
        return None
    values = [value.attrs["value"] if isinstance(value, Node) else value for value in inputs if _is_constant(value)]
    if len(values) < len(inputs) or not any(is_array(value) for value in values):
        return None
    if math.prod(node.shape) * node.dtype.itemsize > LARGEST_FOLDED:
        return None
    return graph.constant(np.asarray(run_on_arrays(node.op, tuple(values), node.attrs)))


class _Shared:
    """Make what is computed twice from the same inputs once."""

    def __init__(self) -> None:
        self.made: dict[Any, Node] = {}

    def __call__(self, graph: Graph, node: Node, inputs: list[Any]) -> Node | None:
        if not is_pure(node) and node.op is not CONSTANT:
            return None
        key = (node.op.name, node.device, tuple(_key(v) for v in inputs), _key(node.attrs))
        if key in self.made:
            return self.made[key]
        made = again(graph, node, inputs)
        self.made[key] = made
        return made


def share_subexpressions() -> Rule:
    return _Shared()


def simplify(graph: Graph, node: Node, inputs: list[Any]) -> Node | None:
    """Leave out what changes nothing: times 1, plus 0, to the shape or dtype that is there, twice reversed."""
    if not is_pure(node) or not inputs or not isinstance(inputs[0], Node | bool | int | float):
        return None
    name, first = node.op.name, inputs[0]
    if name == "ones_like" and node.size <= LARGEST_FOLDED // 8:
        return graph.constant(np.ones(node.shape, node.dtype))
    for found in _simpler(node, name, first, inputs[1] if len(inputs) > 1 else None):
        if isinstance(found, Node) and found.shape == node.shape and found.dtype == node.dtype:
            return found
    return None


def _simpler(node: Node, name: str, first: Any, second: Any) -> Iterator[Any]:
    """What might stand for a node, if it has its shape and dtype."""
    if name in ("add", "sub") and _is_all(second, 0):
        yield first
    if name == "add" and _is_all(first, 0):
        yield second
    if name in ("mul", "div", "pow") and _is_all(second, 1):
        yield first
    if name == "mul" and _is_all(first, 1):
        yield second
    if name in ("reshape", "broadcast_to", "cast", "clone"):
        yield first
    twice = isinstance(first, Node) and first.op is node.op
    if twice and (name in ("neg", "reshape") or (name == "transpose" and _undoes(first, node))):
        yield first.inputs[0]


PASSES: dict[str, Callable[[], Rule]] = {
    "fold": lambda: fold_constants,
    "simplify": lambda: simplify,
    "share": share_subexpressions,
}
"""By name, each with a way to make its rule. Those of a session run in this order."""


@dataclass
class Rewritten:
    """A graph after passes.

    Attributes
    ----------
    graph : Graph
    there : dict of Node to Node
        What stands for each old node.
    sizes : dict of str to (int, int)
        How many nodes the fetches needed before and after each pass.
    """

    graph: Graph
    there: dict[Node, Node]
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)


def rewrite(nodes: Sequence[Node], fetches: Sequence[Node], passes: Iterable[str]) -> Rewritten:
    """Run passes over nodes, all of whose sizes are known.

    Raises
    ------
    ValueError
        There is no pass of that name.
    """
    there = {node: node for node in nodes}
    graph = nodes[0].graph if nodes else Graph()
    sizes = {}
    for name in passes:
        if name not in PASSES:
            raise ValueError(f"passes: there is no pass called {name!r}; there are {', '.join(PASSES)}.")
        before = needed([there[node] for node in fetches])
        graph, moved = _once(before, PASSES[name]())
        there = {old: moved[now] for old, now in there.items() if now in moved}
        sizes[name] = len(before), len(needed([there[node] for node in fetches]))
    return Rewritten(graph, there, sizes)


def _once(nodes: Sequence[Node], rule: Rule) -> tuple[Graph, dict[Node, Node]]:
    graph = Graph()
    graph.reserve(node.name for node in nodes)
    there: dict[Node, Node] = {}
    for node in nodes:
        inputs = [there[value] if isinstance(value, Node) else value for value in node.inputs]
        made = rule(graph, node, inputs) if node.op not in (PLACEHOLDER, VARIABLE) else None
        if made is None:
            made = again(graph, node, inputs)
            made.controls = tuple(there[control] for control in node.controls)
        there[node] = made
    return graph, there


def again(graph: Graph, node: Node, inputs: list[Any]) -> Node:
    """The node once more in another graph."""
    name = node.name if node.name not in graph.by_name else ""
    made = graph.add(node.op, inputs, node.attrs, name=name)
    made.where, made.device = node.where, node.device
    return made


def _is_constant(value: Any) -> bool:
    return value.op is CONSTANT if isinstance(value, Node) else isinstance(value, bool | int | float)


def _is_all(value: Any, number: float) -> bool:
    if isinstance(value, Node):
        held = value.attrs["value"] if value.op is CONSTANT else None
        return isinstance(held, np.ndarray) and held.size > 0 and bool(np.all(held == number))
    return isinstance(value, int | float) and value == number


def _undoes(first: Node, second: Node) -> bool:
    order = [node.attrs["axes"] or tuple(range(node.ndim))[::-1] for node in (first, second)]
    return [order[0][axis] for axis in order[1]] == list(range(first.ndim))


def _key(value: Any) -> Any:
    """Something hashable that is equal for equal attributes; an input stands for itself."""
    if isinstance(value, Node):
        return id(value)
    if isinstance(value, dict):
        return tuple((name, _key(part)) for name, part in value.items())
    if isinstance(value, tuple | list):
        return tuple(_key(part) for part in value)
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    return type(value), repr(value)
