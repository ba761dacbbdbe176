"""Draw a recorded tape: one box per node, an arrow from each result to what it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from internals.observe import picture
from internals.observe.layout import layered
from internals.observe.picture import CHARACTER, Picture, text
from internals.ops.spec import DEFAULT_FLOAT, Spec
from internals.tensor import Leaf, Node, Tensor, specs_of

PAD = 10.0
LINE_HEIGHT = 16.0
ARROW = (
    '<defs><marker id="{name}-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0 L8 4 L0 8 Z" fill="{picture.LINE}"/></marker></defs>'
)


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
    sizes = {
        node: (max(len(line) for line in box) * CHARACTER + 2 * PAD, len(box) * LINE_HEIGHT + 10)
        for node, box in lines.items()
    }
    edges = [(node, edge) for node in nodes for edge in node.inputs if edge is not None]
    layout = layered(sizes, edges)  # type: ignore[arg-type]  # nodes are hashable
    body = [ARROW]
    for points in layout.lines:
        line = f'd="{_curve(points)}" fill="none" stroke="{picture.LINE}" stroke-width="1.5"'
        body.append(f'<path {line} marker-end="url(#{{name}}-arrow)"/>')
    for node in nodes:
        body.append(_box(node, lines[node], layout.centres[node], sizes[node]))
    margin = 4.0
    return Picture(
        f'<g transform="translate({margin} {margin})">{"".join(body)}</g>',
        layout.width + 2 * margin,
        layout.height + 2 * margin,
        title=title,
        description=_in_words(nodes, called, first),
    )


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
    if cotangent is not None:
        box.append(f"cotangent {_short(cotangent)}")
    return box


def _call(node: Node) -> str:
    given = [f"{key}={value}" for key, value in (node.attrs or {}).items() if value not in (None, False)]
    return f"{node.op.name}({', '.join(given)})" if given and len(", ".join(given)) <= 24 else node.op.name


def _kept(node: Node) -> str:
    if node.saved is None:
        return "freed"
    inputs = node.op.inputs if not node.op.variadic else ()
    kept = [name for name, value in zip(inputs, node.saved, strict=False) if isinstance(value, Tensor)]
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
                if node.saved is None
                else "made from constants"
            )
            sentences.append(f"{label[node]}: {came}")  # type: ignore[index]
    return "; ".join(sentences) + "." if sentences else "One leaf."


def _curve(points: list[tuple[float, float]]) -> str:
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for nx, ny in points[1:]:
        middle = (y + ny) / 2
        path += f" C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}"
        x, y = nx, ny
    return path


def _box(node: Node | Leaf, lines: list[str], centre: tuple[float, float], size: tuple[float, float]) -> str:
    (x, y), (width, height) = centre, size
    leaf = isinstance(node, Leaf)
    freed = not leaf and node.saved is None  # type: ignore[union-attr]  # a Node, then
    stroke, fill = (
        (picture.LEAF, picture.FILL_LEAF)
        if leaf
        else (picture.LINE, picture.FILL_FREED)
        if freed
        else (picture.OP, picture.FILL_OP)
    )
    dashes = ' stroke-dasharray="4 3"' if freed else ""
    corner = height / 2 if leaf else 5
    place = (
        f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{corner:.1f}"'
    )
    shape = f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="1.5"{dashes}/>'
    top = y - height / 2 + 17
    written = [text(x, top, lines[0], fill=stroke if not freed else picture.MUTED, weight="bold")]
    for i, line in enumerate(lines[1:], 1):
        strong = line.startswith("cotangent")
        written.append(
            text(
                x,
                top + i * LINE_HEIGHT,
                line,
                fill=picture.TEXT if strong else picture.MUTED,
                weight="bold" if strong else "normal",
            )
        )
    return f"<g>{shape}{''.join(written)}</g>"
