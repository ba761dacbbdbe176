"""Symbolic gradients: the table's rules, run on nodes, add the nodes of the backward pass to the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.graph.graph import ASSIGN, CONSTANT, PLACEHOLDER, READ, VARIABLE, own
from internals.graph.node import GraphError, Node
from internals.ops import ones_like
from internals.ops.rules import pull
from internals.tensor.results import RESULT, Parts

GRADIENT = own(
    "gradient",
    lambda *values, index, outputs: values[2 * outputs + index],
    "A gradient by a size that is not known yet; its nodes are made when the graph is run and sizes are known.",
)


def gradients(
    outputs: Node | Sequence[Node], inputs: Node | Sequence[Node], starts: Sequence[Node] | None = None
) -> list[Node | None]:
    """Nodes for the gradients of outputs by inputs.

    Parameters
    ----------
    outputs, inputs : Node or sequence of Nodes
        Of one graph.
    starts : sequence of Node, optional
        The cotangent of each output; ones unless given, as `tf.gradients` has it: of several entries, their sum is
        differentiated.

    Returns
    -------
    list
        One node for each input, of its shape and dtype; None where the outputs do not depend on it.
    """
    results = [outputs] if isinstance(outputs, Node) else list(outputs)
    sources = [inputs] if isinstance(inputs, Node) else list(inputs)
    for node in (*results, *sources):
        if not isinstance(node, Node):
            raise GraphError(f"gradients: expected nodes, got {type(node).__name__}.")
        if isinstance(node.dtype, tuple) or node.dtype.kind in "biu":
            raise GraphError(f"gradients: {node!r} (made at {node.where}) is not floating, so it has no gradient.")
    if not results or not sources:
        return [None] * len(sources)
    seeds = list(starts) if starts is not None else [ones_like(node) for node in results]
    if len(seeds) != len(results):
        raise GraphError(f"gradients: {len(results)} outputs need as many starts, got {len(seeds)}.")
    useful = _between(results, sources)
    if all(_is_known(node) for node in useful):
        return _reverse(results, sources, seeds, useful)
    graph = results[0].graph
    found: list[Node | None] = []
    for index, source in enumerate(sources):
        if source not in useful:
            found.append(None)
            continue
        attrs = {"index": index, "outputs": len(results)}
        node = graph.add(GRADIENT, (*results, *seeds, *sources), attrs)
        node.shape = source.shape
        found.append(node)
    return found


def _is_known(node: Node) -> bool:
    return node.is_known and all(value.is_known for value in node.inputs if isinstance(value, Node))


def _between(results: Sequence[Node], sources: Sequence[Node]) -> set[Node]:
    """The nodes that lead from sources to results; through these cotangents flow."""
    wanted, reached, stack = set(sources), set(), list(results)
    while stack:
        node = stack.pop()
        if node not in reached:
            reached.add(node)
            stack += [value for value in node.inputs if isinstance(value, Node)]
    useful: set[Node] = set()
    for node in sorted(reached, key=lambda node: node.order):
        leads = any(value in useful for value in node.inputs if isinstance(value, Node))
        if node in wanted or (leads and _passes(node)):
            useful.add(node)
    return useful


def _passes(node: Node) -> bool:
    floating = isinstance(node.dtype, tuple) or node.dtype.kind not in "biu"
    return floating and (node.op in (RESULT, ASSIGN, READ, GRADIENT) or node.op.differentiable)


_ENDS = (PLACEHOLDER, VARIABLE, CONSTANT)


def _reverse(results: list[Node], sources: list[Node], seeds: list[Any], useful: set[Node]) -> list[Node | None]:
    pending: dict[Node, Any] = {}
    for node, seed in zip(results, seeds, strict=True):
        pending[node] = seed if node not in pending else pending[node] + seed
    found: dict[Node, Any] = {}
    wanted = set(sources)
    for node in sorted(useful, key=lambda node: -node.order):
        cotangent = pending.pop(node, None)
        if cotangent is None:
            continue
        if node in wanted:
            found[node] = cotangent
        if node.op in _ENDS:
            continue
        edges = [value if isinstance(value, Node) and value in useful else None for value in node.inputs]
        if not any(edge is not None for edge in edges):
            continue
        for edge, piece in zip(edges, _pulled(node, cotangent, edges), strict=True):
            if edge is not None and piece is not None:
                pending[edge] = piece if edge not in pending else pending[edge] + piece
    return [found.get(source) for source in sources]


def _pulled(node: Node, cotangent: Any, edges: list[Node | None]) -> Sequence[Any]:
    if node.op is RESULT:
        (bundle,) = node.inputs
        pieces: list[Any] = [None] * len(bundle.shape)
        pieces[node.attrs["index"]] = cotangent
        return [Parts(tuple(pieces), bundle.shape, bundle.dtype)]
    if node.op in (ASSIGN, READ):  # the value that was assigned, or read
        return [None, cotangent] if node.op is ASSIGN else [cotangent]
    out: Any = node
    if isinstance(cotangent, Parts):
        cotangent = _filled(cotangent, node) if node.op.fills else cotangent.pieces
        out = node.op.bundle([node.graph.add(RESULT, (node,), {"index": i}) for i in range(len(node.dtype))])
    # Beside the forward node, on its device: what the rule reads is there.
    with node.graph.scope(f"gradient/{node.name.rpartition('/')[2]}"), node.graph.device(node.device):
        return pull(node.op, cotangent, out, node.inputs, node.attrs, edges)


def _filled(parts: Parts, node: Node) -> tuple[Any, ...]:
    """Cotangents of all results: zeros for a floating one that nothing came to."""
    return tuple(
        node.graph.constant(np.zeros(shape, dtype)) if piece is None and dtype.kind not in "biu" else piece
        for piece, shape, dtype in zip(parts.pieces, parts.shape, parts.dtype, strict=True)
    )
