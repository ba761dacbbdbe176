"""A function cut in two: what runs forward, and what runs when the cotangents are there.

The joint graph has the function, a placeholder for each cotangent, and the gradient. Nodes that were made before the
cotangents and are read by nodes made after them are what must be kept between the two parts; everything else can be
freed. PyTorch's AOTAutograd and JAX's linearize cut at the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from internals.device import Array, cpu, device_of
from internals.graph.function import Function, FunctionGraph, as_op, inline, is_floating
from internals.graph.gradients import gradients
from internals.graph.node import GraphError, Node
from internals.graph.plan import Plan
from internals.ops import zeros_like
from internals.ops.spec import Spec
from internals.ops.table import Op
from internals.tensor.results import RESULT


def split_op(function: Function, answers: int | None = None) -> Op:
    """The function, all of whose sizes are known, as one operation that computes nothing twice.

    Its results are those of the function, then what the backward part reads. Past the first `answers`, no gradient is
    asked of the function's results.
    """
    split = Split(function, answers)

    def infer(*values: Spec) -> tuple[Spec, ...]:
        return tuple(Spec(node.shape, node.dtype) for node in (*function.outputs, *split.kept))

    def vjp(g: Sequence[Any], out: Any, *values: Any) -> list[Any]:
        n = len(function.outputs)
        m = n if answers is None else answers
        if any(one is not None for one in g[m:n]):
            raise GraphError(f"{function.name}: what it writes is no result and has no gradient.")
        if any(one is not None for one in g[n:]):  # a derivative of the derivative: what was kept has one too
            return _whole(split.forward, g, out, values)
        starts = [_start(one, like) for one, like in zip(g[:m], out[:m], strict=True) if like.dtype.kind not in "biu"]
        given = {**dict(zip(split.inputs, values, strict=True)), **dict(zip(split.kept, out[n:], strict=True))}
        found = iter(as_op(split.backward)([*[given[node] for node in split.reads], *starts]))
        return [next(found) if is_floating(node) else None for node in function.inputs]

    return Op(
        function.name,
        lambda xp, *arrays: split.run(arrays),
        vjp=vjp,
        jvp=as_op(function).jvp,
        infer=infer,
        joint=True,
        variadic=True,
        results="several",
        saves="values out",
        fills=False,
    )


def _start(cotangent: Any, like: Any) -> Any:
    return zeros_like(like) if cotangent is None else cotangent


def _whole(function: Function, g: Sequence[Any], out: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    starts = [_start(one, like) for one, like in zip(g, out, strict=True) if like.dtype.kind not in "biu"]
    found = iter(as_op(function.gradient())([*values, *starts]))
    return [next(found) if is_floating(node) else None for node in function.inputs]


class Split:
    """The joint graph and where it is cut.

    Attributes
    ----------
    inputs : list of Node
        The function's inputs, in the joint graph.
    kept : list of Node
        What the backward part reads that is not an input.
    reads : list of Node
        All that it reads, in the order in which `backward` takes it, before the cotangents.
    forward, backward : Function
    """

    def __init__(self, function: Function, answers: int | None = None) -> None:
        graph = FunctionGraph(literal=True)
        with graph:
            self.inputs = [
                graph.placeholder(n.shape, n.dtype, name=f"input_{i}") for i, n in enumerate(function.inputs)
            ]
            outputs = inline(function, graph, dict(zip(function.inputs, self.inputs, strict=True)))
            border = len(graph)
            floating = [node for node in outputs[:answers] if is_floating(node)]
            starts = [graph.placeholder(n.shape, n.dtype, name=f"cotangent_{i}") for i, n in enumerate(floating)]
            sources = [node for node in self.inputs if is_floating(node)]
            found = gradients(floating, sources, starts) if floating else [None] * len(sources)
            pulled = [zeros_like(source) if one is None else one for one, source in zip(found, sources, strict=True)]
        late = [node for node in graph.nodes[border:] if not _is_early(node, border)]
        reads = [v for node in late for v in node.inputs if isinstance(v, Node) and _is_early(v, border)]
        self.reads = list(dict.fromkeys([*reads, *(node for node in pulled if _is_early(node, border))]))
        given = set(self.inputs)
        self.kept = [node for node in self.reads if node not in given]
        self.forward = Function(graph, self.inputs, [*outputs, *self.kept], function.name)
        self.backward = _rest(late, self.reads, starts, pulled, function.name)
        self._plans: dict[Any, Plan] = {}

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        place = device_of(arrays[0]) if arrays else cpu
        if place not in self._plans:
            self._plans[place] = Plan(self.inputs, self.forward.outputs, place=place)
        return self._plans[place].run(arrays)


def _is_early(node: Node, border: int) -> bool:
    """Whether a node belongs to the forward part; so does a result, picked later, of a row that ran there."""
    return node.order < border or (node.op is RESULT and node.inputs[0].order < border)


def _rest(
    late: Sequence[Node], reads: Sequence[Node], starts: Sequence[Node], answers: Sequence[Node], name: str
) -> Function:
    """The backward part as a function of what it reads."""
    rest = FunctionGraph(literal=True)
    with rest:
        given = [rest.placeholder(node.shape, node.dtype, name=f"kept_{i}") for i, node in enumerate(reads)]
        cotangents = [rest.placeholder(n.shape, n.dtype, name=f"cotangent_{i}") for i, n in enumerate(starts)]
        there = dict(zip([*reads, *starts], [*given, *cotangents], strict=True))
        for node in late:
            if node not in there:
                inputs = [there[value] if isinstance(value, Node) else value for value in node.inputs]
                there[node] = rest.add(node.op, inputs, node.attrs)
                there[node].where = node.where
    return Function(rest, [*given, *cotangents], [there[node] for node in answers], f"gradient of {name}")
