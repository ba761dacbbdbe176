"""Looking into branches and loops: their bodies, run so that what watches a run is told of the nodes in them too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from internals.device import Device, cpu
from internals.graph.function import Function
from internals.graph.graph import Graph
from internals.graph.graphdef import op_of
from internals.graph.node import Node
from internals.graph.plan import Plan
from internals.graph.specialise import specialise
from internals.graph.watch import Asked


def names_in(nodes: Sequence[Node], path: str = "") -> Iterator[str]:
    """The names of nodes, and of those in the bodies of branches and loops among them."""
    for node in nodes:
        yield f"{path}{node.name}"
        for role, function in _functions(node).items():
            yield from names_in(function.graph.nodes, f"{path}{node.name}/{role}/")


def open_bodies(graph: Graph, asked: Asked, path: str = "") -> None:
    """Have the branches and loops of a graph tell of the nodes in them; the graph is changed."""
    for node in graph.nodes:
        functions = _functions(node)
        if functions:
            kind, _, numbers = node.op.made  # type: ignore[attr-defined]
            inside = {role: Inside(one, f"{path}{node.name}/{role}/", asked) for role, one in functions.items()}
            node.op = op_of(kind, inside, numbers)


class Inside(Function):
    """A function whose nodes are told of as it runs; each by its name, after the names of what it is in."""

    def __init__(self, function: Function, path: str, asked: Asked) -> None:
        vars(self).update(vars(function))
        self._plans = {}
        self._function, self._path, self._asked = function, path, asked

    def plan(self, shapes: Sequence[tuple[int, ...]], place: Device = cpu) -> Plan:
        key = (tuple(shapes), place)
        plan = self._plans.get(key)
        if plan is None:
            graph, there = specialise(self.graph.nodes, dict(zip(self.inputs, shapes, strict=True)))
            open_bodies(graph, self._asked, self._path)
            plan = Plan(
                [there[node] for node in self.inputs],
                [there[node] for node in self.outputs],
                place=place,
                watch=lambda node: self._asked(node, self._path + node.name),
            )
            self._plans[key] = plan
        return plan

    def gradient(self) -> Function:
        return Inside(self._function.gradient(), f"{self._path}gradient/", self._asked)


def _functions(node: Node) -> dict[str, Any]:
    made = getattr(node.op, "made", None)
    return dict(made[1]) if made is not None else {}
