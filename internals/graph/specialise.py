"""A graph with sizes left open, made anew for the sizes that a run brings.

A rule may ask its inputs for their sizes (a mean divides by them), so gradients can be written down only when sizes are
known. A graph with open sizes is therefore a plan: each new set of sizes makes the nodes once more, with every size
known, and the session keeps what it made. XLA compiles one program per shape for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from internals.graph.gradients import GRADIENT, gradients
from internals.graph.graph import PLACEHOLDER, Graph
from internals.graph.node import GraphError, Node
from internals.ops import zeros_like


def specialise(nodes: Sequence[Node], shapes: Mapping[Node, tuple[int, ...]]) -> tuple[Graph, dict[Node, Node]]:
    """Make nodes anew in a graph of their own, with placeholders of known shapes.

    Parameters
    ----------
    nodes : sequence of Node
        In an order in which they can run; with everything they are made from.
    shapes : mapping of Node to shape
        Of the nodes that are fed; they become placeholders.

    Returns
    -------
    Graph
    dict
        Where each node went.

    Raises
    ------
    GraphError
        Sizes that were open do not go together; names the node and the line that made it.
    """
    graph = Graph()
    graph.reserve(node.name for node in nodes)
    there: dict[Node, Node] = {}
    expanded: dict[tuple[Node, ...], list[Node]] = {}
    for node in nodes:
        if node in shapes:
            made = graph.placeholder(shapes[node], node.dtype, name=node.name)
        elif node.op is GRADIENT:
            there[node] = _gradient(node, there, expanded)
            continue
        else:
            made = _again(graph, node, there)
        made.where, made.device = node.where, node.device
        made.controls = tuple(there[control] for control in node.controls)
        there[node] = made
    return graph, there


def _again(graph: Graph, node: Node, there: dict[Node, Node]) -> Node:
    if node.op is PLACEHOLDER:
        raise GraphError(f"{node.name} (made at {node.where}) is a placeholder and needs a value: feed it.")
    inputs = [there[value] if isinstance(value, Node) else value for value in node.inputs]
    try:
        return graph.add(node.op, inputs, node.attrs, name=node.name)
    except (ValueError, TypeError, IndexError) as error:
        raise GraphError(f"{node.name} (made at {node.where}): {error}") from None


def _gradient(node: Node, there: dict[Node, Node], expanded: dict[tuple[Node, ...], list[Node]]) -> Node:
    key = node.inputs
    if key not in expanded:
        outputs = node.attrs["outputs"]
        values = [there[value] for value in key]
        with values[0].graph, values[0].graph.scope(node.name):  # not into one that happens to be built around this
            found = gradients(values[:outputs], values[2 * outputs :], values[outputs : 2 * outputs])
            expanded[key] = [
                zeros_like(source) if one is None else one
                for one, source in zip(found, values[2 * outputs :], strict=True)
            ]
    return expanded[key][node.attrs["index"]]
