"""Draw a graph: one box per node, an arrow from each node to what it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from internals.graph import Node, needed
from internals.graph.node import spec_text, specs
from internals.observe.boxes import Box, draw_boxes
from internals.observe.picture import Picture

SOURCES = ("placeholder", "variable", "constant")


def draw_graph(
    nodes: Node | Sequence[Node],
    *,
    names: Mapping[Node, str] | None = None,
    title: str = "A graph",
    most: int = 60,
) -> Picture:
    """Draw what nodes are made from.

    Parameters
    ----------
    nodes : Node or sequence of Nodes
        The results; what does not lead to them is left out.
    names : mapping of Node to str, optional
        What to call nodes beside their own names.
    title : str
    most : int
        Refuse to draw a larger graph.

    Raises
    ------
    ValueError
        There are more than `most` nodes.
    """
    shown = needed([nodes] if isinstance(nodes, Node) else nodes)
    if len(shown) > most:
        raise ValueError(
            f"draw_graph: this graph has {len(shown)} nodes; a picture of more than {most} shows little. "
            f"Pass most={len(shown)} to draw it all the same."
        )
    called = names or {}
    boxes = {node: Box(_lines(node, called.get(node)), "leaf" if node.op.name in SOURCES else "op") for node in shown}
    edges = [(node, value) for node in shown for value in (*node.inputs, *node.controls) if isinstance(value, Node)]
    words = "; ".join(
        f"{node.name}: {node.op.name} of {' and '.join(v.name if isinstance(v, Node) else str(v) for v in node.inputs)}"
        for node in shown
        if node.inputs
    )
    return draw_boxes(boxes, edges, title=title, description=f"{words}." if words else "No operation.")  # type: ignore[arg-type]  # nodes are hashable


def _lines(node: Node, called: str | None) -> list[str]:
    if node.op.name in SOURCES:
        head = called or node.name
    else:
        operands = ", ".join("" if isinstance(value, Node) else f"{value:g}" for value in node.inputs)
        head = f"{node.op.name}({operands})" if any(not isinstance(v, Node) for v in node.inputs) else node.op.name
        head = f"{head} = {called}" if called else head
    return [head, ", ".join(spec_text(shape, dtype) for shape, dtype in specs(node))]
