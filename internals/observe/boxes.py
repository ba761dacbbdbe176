"""Boxes of text with arrows between them, laid out in layers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from internals.observe import picture
from internals.observe.layout import layered
from internals.observe.picture import CHARACTER, Picture, text

PAD = 10.0
LINE_HEIGHT = 16.0
ARROW = (
    '<defs><marker id="{name}-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M0 0 L8 4 L0 8 Z" fill="{picture.LINE}"/></marker></defs>'
)
MARGIN = 4.0

STROKES = {"leaf": picture.LEAF, "op": picture.OP, "freed": picture.LINE, "plain": picture.LINE}
FILLS = {"leaf": picture.FILL_LEAF, "op": picture.FILL_OP, "freed": picture.FILL_FREED, "plain": "none"}


@dataclass(frozen=True)
class Box:
    """Lines of text in a frame.

    Attributes
    ----------
    lines : list of str
        The first in bold; one that starts with "cotangent" stands out.
    kind : {"leaf", "op", "freed", "plain"}
        Its colours; a leaf is round, what is freed is dashed.
    """

    lines: list[str]
    kind: str


def draw_boxes(
    boxes: Mapping[Hashable, Box], edges: Sequence[tuple[Hashable, Hashable]], *, title: str, description: str
) -> Picture:
    """Draw boxes and arrows.

    Parameters
    ----------
    boxes : mapping
        In an order in which each box comes after those it was made from.
    edges : sequence of (box, box it was made from)
    """
    sizes = {
        key: (max(len(line) for line in box.lines) * CHARACTER + 2 * PAD, len(box.lines) * LINE_HEIGHT + 10)
        for key, box in boxes.items()
    }
    layout = layered(sizes, edges)
    body = [ARROW]
    for points in layout.lines:
        line = f'd="{_curve(points)}" fill="none" stroke="{picture.LINE}" stroke-width="1.5"'
        body.append(f'<path {line} marker-end="url(#{{name}}-arrow)"/>')
    body += [_drawn(box, layout.centres[key], sizes[key]) for key, box in boxes.items()]
    return Picture(
        f'<g transform="translate({MARGIN} {MARGIN})">{"".join(body)}</g>',
        layout.width + 2 * MARGIN,
        layout.height + 2 * MARGIN,
        title=title,
        description=description,
    )


def _curve(points: list[tuple[float, float]]) -> str:
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for nx, ny in points[1:]:
        middle = (y + ny) / 2
        path += f" C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}"
        x, y = nx, ny
    return path


def _drawn(box: Box, centre: tuple[float, float], size: tuple[float, float]) -> str:
    (x, y), (width, height) = centre, size
    stroke, fill = STROKES[box.kind], FILLS[box.kind]
    dashes = ' stroke-dasharray="4 3"' if box.kind == "freed" else ""
    corner = height / 2 if box.kind == "leaf" else 5
    place = (
        f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{corner:.1f}"'
    )
    shape = f'<rect {place} fill="{fill}" stroke="{stroke}" stroke-width="1.5"{dashes}/>'
    top = y - height / 2 + 17
    head = picture.MUTED if box.kind == "freed" else picture.TEXT if box.kind == "plain" else stroke
    written = [text(x, top, box.lines[0], fill=head, weight="bold")]
    for i, line in enumerate(box.lines[1:], 1):
        strong = line.startswith("cotangent")
        colour = picture.TEXT if strong else picture.MUTED
        written.append(text(x, top + i * LINE_HEIGHT, line, fill=colour, weight="bold" if strong else "normal"))
    return f"<g>{shape}{''.join(written)}</g>"
