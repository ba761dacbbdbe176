"""A saved model rewritten so that it computes the same with fewer nodes.

Its variables become constants; what depends on constants alone is computed once; a scale and a shift that follow a
convolution or a linear layer, such as a normalisation in evaluation, go into its weight; what is computed twice is
computed once; what no signature needs is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.deploy.saved.model import SavedModel
from internals.deploy.saved.signature import Signature
from internals.deploy.saved.sources import Content, Ends, content_of, frozen
from internals.graph import Graph, Node, needed
from internals.graph.graph import CONSTANT, PLACEHOLDER
from internals.graph.passes import again, fold_constants, is_pure, share_subexpressions, simplify
from internals.ops import TABLE

ROUNDS = 20
LAYERS = ("linear", "matmul", "conv1d", "conv2d")
"""Rows whose second input is a weight that a scale can go into."""


@dataclass
class Optimised:
    """A model after rewriting.

    Attributes
    ----------
    model : SavedModel
        Frozen; `internals.deploy.save` writes it.
    nodes, nbytes : (int, int)
        Before and after: nodes that signatures need, and bytes of variables and constants.
    steps : Counter of str
        How often each rule was used.
    """

    model: SavedModel
    nodes: tuple[int, int]
    nbytes: tuple[int, int]
    steps: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        used = ", ".join(f"{name} {count}" for name, count in sorted(self.steps.items())) or "none"
        return (
            f"{self.nodes[0]} nodes -> {self.nodes[1]}, {self.nbytes[0]:,} bytes -> {self.nbytes[1]:,} (rules: {used})"
        )


def optimise(source: Any, signatures: Mapping[str, Signature] | None = None) -> Optimised:
    """The same model in fewer nodes, equal to within float rounding.

    Parameters
    ----------
    source, signatures
        As `internals.deploy.save` takes them: a SavedModel, a Module, a Graph, a function.

    Raises
    ------
    TypeError, SignatureError, GraphError
        It is nothing that can be saved, or it writes variables and so can't be frozen.
    """
    content = content_of(source, signatures)
    before, size = len(needed(_ends(content))), _nbytes(content)
    steps: Counter[str] = Counter()
    now = frozen(content)
    for _ in range(ROUNDS):
        after, used = _once(now)
        steps += used
        now = after
        if not used:
            break
    return Optimised(SavedModel(now), (before, len(needed(_ends(now)))), (size, _nbytes(now)), steps)


def _ends(content: Content) -> list[Node]:
    return [node for one in content.signatures.values() for side in one.values() for node, _ in side.values()]


def _nbytes(content: Content) -> int:
    constants = [node.attrs["value"] for node in needed(_ends(content)) if node.op is CONSTANT]
    return sum(np.asarray(one).nbytes for one in [*content.values.values(), *constants])


def _once(content: Content) -> tuple[Content, Counter[str]]:
    """Every rule once along the graph."""
    ends = _ends(content)
    nodes = sorted({*needed(ends)}, key=lambda node: node.order)
    uses = Counter(value for node in nodes for value in (*node.inputs, *node.controls) if isinstance(value, Node))
    uses.update(ends)
    graph, share = Graph(), share_subexpressions()
    graph.reserve(node.name for node in nodes)
    there: dict[Node, Node] = {}
    readers: Counter[Node] = Counter()
    used: Counter[str] = Counter()

    def folded(graph: Graph, node: Node, inputs: list[Any]) -> Node | None:
        return fold_norm_node(graph, node, inputs, readers)

    def computed(graph: Graph, node: Node, inputs: list[Any]) -> Node | None:
        return fold_constants(graph, node, inputs) if None not in node.shape else None

    def simpler(graph: Graph, node: Node, inputs: list[Any]) -> Node | None:
        # Of an open size it is not known whether a broadcast changes it.
        moves = node.op.name in ("reshape", "broadcast_to") and None in node.shape
        return None if moves or isinstance(node.dtype, tuple) else simplify(graph, node, inputs)

    rules: dict[str, Callable[..., Node | None]] = {"constants": computed, "norms": folded, "simplify": simpler}
    for node in nodes:
        inputs = [there[value] if isinstance(value, Node) else value for value in node.inputs]
        made, rule = None, ""
        if node.op is PLACEHOLDER:
            made = graph.placeholder(node.shape, node.dtype, name=node.name)
            made.where = node.where
        for name, one in rules.items() if made is None and is_pure(node) and not node.op.results else ():
            made, rule = one(graph, node, inputs), name
            if made is not None:
                break
        if made is None:
            known = len(graph.nodes)
            made, rule = share(graph, node, inputs), "share"
            if made is None:  # not a row of the table
                made = again(graph, node, inputs)
            if len(graph.nodes) > known:
                rule = ""
        if rule:
            used[rule] += 1
        elif node.op is not PLACEHOLDER:
            made.shape = node.shape
        made.controls = made.controls or tuple(there[control] for control in node.controls)
        there[node] = made
        readers[made] += uses[node]
    moved: dict[str, Ends] = {
        name: {side: {key: (there[node], spec) for key, (node, spec) in part.items()} for side, part in one.items()}
        for name, one in content.signatures.items()
    }
    return Content(graph, moved, {}, {}, content.assets), used


# A scale and a shift behind a layer


def fold_norm_node(graph: Graph, node: Node, inputs: list[Any], readers: Mapping[Node, int]) -> Node | None:
    """What stands for ``layer * s``, ``layer + t`` or ``(y + t) * s`` with constants s and t; None if it is not that.

    Parameters
    ----------
    readers : mapping of Node to int
        How many read a node of the new graph: a layer that others read too stays as it is.
    """
    if node.op.name not in ("add", "sub", "mul"):
        return None
    for first, second in (inputs, inputs[::-1]):
        if node.op.name == "sub" and first is inputs[1]:
            continue
        constant = _value(second)
        if constant is None or not isinstance(first, Node) or readers[first] != 1 or first.dtype != node.dtype:
            continue
        if node.op.name == "mul":
            return _scaled(graph, first, constant, node)
        return _shifted(graph, first, -constant if node.op.name == "sub" else constant, node)
    return None


def _value(value: Any) -> np.ndarray | None:
    """What a constant floating input holds."""
    held = value.attrs["value"] if isinstance(value, Node) and value.op is CONSTANT else value
    held = np.asarray(held) if isinstance(held, np.ndarray | float | int) and not isinstance(held, bool) else None
    return held if held is not None and (held.ndim == 0 or held.dtype.kind == "f") else None


def _per_output(constant: np.ndarray, ndim: int, axis: int, outputs: int) -> np.ndarray | None:
    """One number per output; None where the constant differs along other axes, or adds some."""
    if constant.ndim > ndim:
        return None
    shape = (*(1,) * (ndim - constant.ndim), *constant.shape)
    if any(size != 1 for i, size in enumerate(shape) if i != axis) or shape[axis] not in (1, outputs):
        return None
    return np.broadcast_to(constant.reshape(-1), (outputs,)).astype(np.float64)


def _scaled(graph: Graph, first: Node, constant: np.ndarray, node: Node) -> Node | None:
    name = first.op.name
    if name in LAYERS and (name != "matmul" or first.ndim >= 2):
        weight = _value(first.inputs[1])
        if weight is None or (name in ("linear", "matmul") and weight.ndim != 2):
            return None
        axis, own = (first.ndim - 1, 1) if name in ("linear", "matmul") else (1, 0)
        scale = _per_output(constant, first.ndim, axis, weight.shape[own])
        if scale is None:
            return None
        spread = scale.reshape([-1 if i == own else 1 for i in range(weight.ndim)])
        rest: list[Any] = []
        if name == "linear":
            bias = _value(first.inputs[2])
            if bias is None:
                return None
            rest = [graph.constant((bias * scale).astype(weight.dtype))]
        return _made(
            graph, first, [first.inputs[0], graph.constant((weight * spread).astype(weight.dtype)), *rest], node
        )
    if name == "add" and node.shape == first.shape:  # (y + t) * s = y s + t s
        for y, t in (first.inputs, first.inputs[::-1]):
            shift = _value(t)
            if shift is not None and isinstance(y, Node) and y.op.name in LAYERS and y.shape == first.shape:
                scaled = graph.add(TABLE["mul"], [y, graph.constant(constant.astype(node.dtype))], {})
                scaled.shape = first.shape
                product = np.multiply(shift, constant, dtype=np.float64).astype(node.dtype)
                return _made(graph, first, [scaled, graph.constant(product)], node)
    return None


def _shifted(graph: Graph, first: Node, constant: np.ndarray, node: Node) -> Node | None:
    name = first.op.name
    if name == "linear":
        weight, bias = _value(first.inputs[1]), _value(first.inputs[2])
        if weight is None or bias is None or weight.ndim != 2:
            return None
        shift = _per_output(constant, first.ndim, first.ndim - 1, weight.shape[1])
        if shift is None:
            return None
        return _made(graph, first, [*first.inputs[:2], graph.constant((bias + shift).astype(weight.dtype))], node)
    if name == "add":
        for y, t in (first.inputs, first.inputs[::-1]):
            other = _value(t)
            if other is not None and isinstance(y, Node) and y.shape == first.shape == node.shape:
                total = np.add(other, constant, dtype=np.float64).astype(node.dtype)
                return _made(graph, first, [y, graph.constant(total)], node)
    return None


def _made(graph: Graph, like: Node, inputs: list[Any], node: Node) -> Node:
    """The layer once more with other constants, where the node was."""
    made = graph.add(like.op, inputs, like.attrs, name=node.name if node.name not in graph.by_name else "")
    made.shape, made.where, made.device = node.shape, node.where, node.device
    return made
