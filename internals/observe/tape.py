"""Draw a recorded tape: one box per node, an arrow from each result to what it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from internals.autodiff.checkpoint import is_waiting
from internals.observe.boxes import Box, draw_boxes
from internals.observe.picture import Picture
from internals.ops.spec import DEFAULT_FLOAT, Spec
from internals.tensor import Leaf, Node, Tensor, specs_of
from internals.tensor.hooks import hooks


def nodes_of(tensor: Tensor) -> list[Node | Leaf]:
    """The tape that a tensor keeps alive, each entry once, in the order of recording; leaves first.

    Raises
    ------
    ValueError
        The tensor has no tape.
    """
    if tensor.node is None:
        raise ValueError(
            "nodes_of: this tensor has no tape: it does not require a gradient, or was made under no_grad."
        )
    seen: dict[Node | Leaf, None] = {tensor.node: None}
    waiting: list[Node | Leaf] = [tensor.node]
    while waiting:
        for edge in waiting.pop().inputs:
            if edge is not None and edge not in seen:
                seen[edge] = None
                waiting.append(edge)
    return sorted(seen, key=lambda node: node.order if isinstance(node, Node) else -1)


def draw_tape(
    tensor: Tensor,
    *,
    names: Mapping[str, Tensor] | None = None,
    cotangents: Mapping[Any, Any] | None = None,
    title: str = "A tape",
    most: int = 60,
) -> Picture:
    """Draw the tape that led to a tensor, as it is now.

    Parameters
    ----------
    tensor : Tensor
        The result; it stands at the bottom, what it was made from above it.
    names : mapping of str to Tensor, optional
        What to call leaves and results.
    cotangents : mapping of node to array, optional
        Written into the boxes of the nodes it has.
    title : str
    most : int
        Refuse to draw a larger tape.

    Raises
    ------
    ValueError
        There is no tape, or it has more than `most` nodes.
    """
    nodes = nodes_of(tensor)
    if len(nodes) > most:
        raise ValueError(
            f"draw_tape: this tape has {len(nodes)} nodes; a picture of more than {most} shows little. "
            f"Pass most={len(nodes)} to draw it all the same."
        )
    called = {named.node: name for name, named in (names or {}).items() if named.node is not None}
    first = min((node.order for node in nodes if isinstance(node, Node)), default=0)
    lines = {node: _lines(node, called.get(node), first, (cotangents or {}).get(node)) for node in nodes}
    boxes = {
        node: Box(lines[node], "leaf" if isinstance(node, Leaf) else "freed" if _is_freed(node) else "op")
        for node in nodes
    }
    edges = [(node, edge) for node in nodes for edge in node.inputs if edge is not None]
    return draw_boxes(boxes, edges, title=title, description=_in_words(nodes, called, first))  # type: ignore[arg-type]  # nodes are hashable


def _kind(node: Node | Leaf) -> str:
    return ", ".join(map(_spec, specs_of(node)))


def _spec(spec: Spec) -> str:
    dtype = "" if spec.dtype == DEFAULT_FLOAT else spec.dtype.name
    return f"{dtype}{list(spec.shape)}" if spec.shape else f"{dtype} scalar".strip()


def _lines(node: Node | Leaf, name: str | None, first: int, cotangent: Any) -> list[str]:
    if isinstance(node, Leaf):
        box = [name or "leaf", _kind(node)]
    else:
        head = f"{node.order - first + 1}: {_call(node)}"
        box = [f"{head} = {name}" if name else head, _kind(node), _kept(node)]
    if node in hooks:
        box.append("1 hook" if len(hooks[node]) == 1 else f"{len(hooks[node])} hooks")
    if cotangent is not None:
        box.append(f"cotangent {_short(cotangent)}")
    return box


def _call(node: Node) -> str:
    given = [f"{key}={value}" for key, value in (node.attrs or {}).items() if value not in (None, False)]
    return f"{node.op.name}({', '.join(given)})" if given and len(", ".join(given)) <= 24 else node.op.name


def _is_freed(node: Node) -> bool:
    return node.saved is None and not is_waiting(node)


def _kept(node: Node) -> str:
    if is_waiting(node):
        return "to be recomputed"
    if node.saved is None:
        return "freed"
    inputs = node.op.inputs * len(node.saved) if node.op.variadic else node.op.inputs
    kept = [name for name, value in zip(inputs, node.saved, strict=False) if isinstance(value, Tensor)]
    if node.op.variadic and kept:
        kept = [f"{len(kept)} of {len(node.saved)} {kept[0]}"]
    kept += ["out"] if node.out is not None else []
    return f"keeps {', '.join(kept)}" if kept else "keeps no value"


def _short(array: Any) -> str:
    return f"{array.item():.4g}" if array.size == 1 else f"{list(array.shape)}"


def _in_words(nodes: list[Node | Leaf], called: Mapping[Any, str], first: int) -> str:
    leaves = [node for node in nodes if isinstance(node, Leaf)]
    label = {leaf: called.get(leaf, f"leaf {i}") for i, leaf in enumerate(leaves, 1)}
    sentences = []
    for node in nodes:
        if isinstance(node, Node):
            label[node] = f"node {node.order - first + 1} ({node.op.name})"  # type: ignore[index]  # nodes are labelled like leaves
            sources = [label[edge] for edge in node.inputs if edge is not None]  # type: ignore[index]
            came = (
                f"made from {' and '.join(sources)}"
                if sources
                else "freed"
                if _is_freed(node)
                else "made from constants"
            )
            sentences.append(f"{label[node]}: {came}")  # type: ignore[index]
    return "; ".join(sentences) + "." if sentences else "One leaf."
