"""Where the boxes of a drawing go: layers from sources to results, few crossings, short lines.

The method is Sugiyama's: give each box a layer, cut long lines into pieces of one layer each, order the boxes of a
layer by the mean place of their neighbours, then move them as near to those neighbours as their widths allow.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Point = tuple[float, float]

GAP_ACROSS = 22.0
GAP_DOWN = 34.0
PORT = 14.0
SWEEPS = 12
PULLS = 60


@dataclass
class Layout:
    """Centres of boxes, and the points each line passes through, top left at (0, 0)."""

    width: float = 0.0
    height: float = 0.0
    centres: dict[Hashable, Point] = field(default_factory=dict)
    lines: list[list[Point]] = field(default_factory=list)


def layered(sizes: dict[Hashable, Point], edges: Sequence[tuple[Hashable, Hashable]]) -> Layout:
    """Place boxes so that every line goes from a lower layer to a higher one.

    Parameters
    ----------
    sizes : dict of box to (width, height)
        In the order in which they were made: each box after those it was made from.
    edges : sequence of (box, box it was made from)
        Without cycles; a pair may occur twice.
    """
    layer = _layers(list(sizes), edges)
    chains = [_chain(edge, number, layer) for number, edge in enumerate(edges)]
    rows: list[list[Hashable]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for box in layer:
        rows[layer[box]].append(box)
    widths = {box: sizes[box][0] if box in sizes else 0.0 for box in layer}
    above, below = _neighbours(layer, chains)
    _order(rows, above, below)
    across = _place_across(rows, widths, above, below)
    down, height = _place_down(rows, sizes)
    left = min((across[box] - widths[box] / 2 for box in layer), default=0.0)
    right = max((across[box] + widths[box] / 2 for box in layer), default=0.0)
    layout = Layout(right - left, height)
    layout.centres = {box: (across[box] - left, down[layer[box]]) for box in sizes}
    starts = _ports([chain[0] for chain in chains], [across[chain[1]] for chain in chains], sizes)
    ends = _ports([chain[-1] for chain in chains], [across[chain[-2]] for chain in chains], sizes)
    for chain, start, end in zip(chains, starts, ends, strict=True):
        points = [(across[box] - left, down[layer[box]]) for box in chain]
        points[0] = (points[0][0] + start, points[0][1] - sizes[chain[0]][1] / 2)
        points[-1] = (points[-1][0] + end, points[-1][1] + sizes[chain[-1]][1] / 2)
        layout.lines.append(points)
    return layout


def _ports(boxes: list[Hashable], towards: list[float], sizes: dict[Hashable, Point]) -> list[float]:
    """How far from the middle of its box each line ends, so that lines of one box stay apart and don't cross there."""
    lines: dict[Hashable, list[int]] = {}
    for number, box in enumerate(boxes):
        lines.setdefault(box, []).append(number)
    offsets = [0.0] * len(boxes)
    for box, numbers in lines.items():
        step = min(PORT, sizes[box][0] / (len(numbers) + 1))
        for place, number in enumerate(sorted(numbers, key=towards.__getitem__)):
            offsets[number] = (place - (len(numbers) - 1) / 2) * step
    return offsets


def _layers(boxes: list[Hashable], edges: Sequence[tuple[Hashable, Hashable]]) -> dict[Hashable, int]:
    """The longest way from a source; then each source as near to its first reader as it can be."""
    made_from: dict[Hashable, list[Hashable]] = {box: [] for box in boxes}
    readers: dict[Hashable, list[Hashable]] = {box: [] for box in boxes}
    for box, source in edges:
        made_from[box].append(source)
        readers[source].append(box)
    layer: dict[Hashable, int] = {}
    for box in boxes:
        layer[box] = 1 + max((layer[source] for source in made_from[box]), default=-1)
    for box in boxes:
        if not made_from[box] and readers[box]:
            layer[box] = min(layer[reader] for reader in readers[box]) - 1
    return layer


def _chain(edge: tuple[Hashable, Hashable], number: int, layer: dict[Hashable, int]) -> list[Hashable]:
    """The boxes a line passes, with an empty one on each layer it crosses."""
    start, end = edge
    crossed: list[Hashable] = [("crossing", number, depth) for depth in range(layer[start] - 1, layer[end], -1)]
    for depth, box in zip(range(layer[start] - 1, layer[end], -1), crossed, strict=True):
        layer[box] = depth
    return [start, *crossed, end]


Neighbours = dict[Hashable, list[Hashable]]


def _neighbours(layer: dict[Hashable, int], chains: list[list[Hashable]]) -> tuple[Neighbours, Neighbours]:
    above: Neighbours = {box: [] for box in layer}
    below: Neighbours = {box: [] for box in layer}
    for chain in chains:
        for lower, upper in pairwise(chain):
            above[lower].append(upper)
            below[upper].append(lower)
    return above, below


def _order(rows: list[list[Hashable]], above: Neighbours, below: Neighbours) -> None:
    for sweep in range(SWEEPS):
        order = rows if sweep % 2 == 0 else rows[::-1]
        side = above if sweep % 2 == 0 else below
        for before, row in pairwise(order):
            place = {box: i for i, box in enumerate(before)}
            mean = {
                box: sum(place[n] for n in side[box]) / len(side[box]) if side[box] else float(i)
                for i, box in enumerate(row)
            }
            row.sort(key=mean.__getitem__)


def _place_across(
    rows: list[list[Hashable]], widths: dict[Hashable, float], above: Neighbours, below: Neighbours
) -> dict[Hashable, float]:
    across: dict[Hashable, float] = {}
    for row in rows:
        offsets = _offsets(row, widths)
        for box, offset in zip(row, offsets, strict=True):
            across[box] = offset - offsets[-1] / 2
    for _ in range(PULLS):
        for row in [*rows, *rows[::-1]]:
            wish = []
            for box in row:
                near = [across[n] for n in (*above[box], *below[box])]
                wish.append(sum(near) / len(near) if near else across[box])
            offsets = _offsets(row, widths)
            spread = _nondecreasing([w - o for w, o in zip(wish, offsets, strict=True)])
            for box, free, offset in zip(row, spread, offsets, strict=True):
                across[box] = free + offset
    return across


def _offsets(row: list[Hashable], widths: dict[Hashable, float]) -> list[float]:
    """How far each box must at least be from the first of its row, centre to centre."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + GAP_ACROSS)
    return offsets


def _nondecreasing(wishes: list[float]) -> list[float]:
    """The nearest nondecreasing sequence, by pooling neighbours that are out of order."""
    pools: list[tuple[float, int]] = []
    for wish in wishes:
        mean, count = wish, 1
        while pools and pools[-1][0] > mean:
            before, members = pools.pop()
            mean, count = (mean * count + before * members) / (count + members), count + members
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def _place_down(rows: list[list[Hashable]], sizes: dict[Hashable, Point]) -> tuple[list[float], float]:
    down: list[float] = []
    top = 0.0
    for row in rows:
        tallest = max((sizes[box][1] for box in row if box in sizes), default=0.0)
        down.append(top + tallest / 2)
        top += tallest + GAP_DOWN
    return down, max(top - GAP_DOWN, 0.0)
