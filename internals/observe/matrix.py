"""Matrices as grids of squares: where they are zero, and which entries are alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from internals.observe import picture
from internals.observe.picture import CHARACTER, Picture, text

WIDEST = 620.0
CELL = 38.0
"""The side of a square; smaller where the matrices would be wider than a page."""

READABLE = 24.0
"""Squares of this size have room for a short number."""

GAP, TOP, LINE = 40.0, 26.0, 18.0


def draw_matrices(matrices: Mapping[str, Any], *, title: str) -> Picture:
    """Draw matrices side by side, zeros empty, other entries the darker the larger; negative ones in another colour.

    Parameters
    ----------
    matrices : mapping of name to array, shape (rows, columns)
        At least one, with at least one entry each.
    title : str

    Raises
    ------
    ValueError
        There is nothing to draw, or something with other than two axes.
    """
    arrays = {name: np.asarray(matrix) for name, matrix in matrices.items()}
    if not arrays or any(array.ndim != 2 or not array.size for array in arrays.values()):
        shapes = [array.shape for array in arrays.values()]
        raise ValueError(f"draw_matrices: expected one or more matrices that are not empty, got shapes {shapes}.")
    columns = sum(array.shape[1] for array in arrays.values())
    cell = min(CELL, (WIDEST - GAP * (len(arrays) - 1)) / columns)
    largest = max(float(np.abs(array).max()) for array in arrays.values()) or 1.0
    body, left, lowest = [], 1.0, 0.0
    for name, array in arrays.items():
        width, height = (size * cell for size in (array.shape[1], array.shape[0]))
        room = max(width, len(name) * CHARACTER)
        middle = left + room / 2
        body += [
            text(middle, TOP - 10, name, weight="bold"),
            _grid(array, middle - width / 2, cell, largest),
            text(middle, TOP + height + LINE, f"{array.shape[0]} × {array.shape[1]}", fill=picture.MUTED),
        ]
        left += room + GAP
        lowest = max(lowest, TOP + height + LINE + 8)
    return Picture("".join(body), left - GAP + 1, lowest, title=title, description=_in_words(arrays))


def _grid(array: np.ndarray, left: float, cell: float, largest: float) -> str:
    drawn = []
    words = {place: f"{value:.3g}" for place, value in np.ndenumerate(array) if value}
    written = cell >= READABLE and all(len(word) * CHARACTER <= cell for word in words.values())
    for row, column in np.ndindex(array.shape):
        value = float(array[row, column])
        x, y = left + column * cell, TOP + row * cell
        # Under a number the square stays pale, so that the number can be read.
        strength = (0.15 + 0.3 * abs(value) / largest) if written else (0.2 + 0.75 * abs(value) / largest)
        colour = picture.LEAF if value > 0 else picture.OP
        fill = f'fill="{colour}" fill-opacity="{strength:.2f}"' if value else 'fill="none"'
        stroke = f'stroke="{picture.LINE}" stroke-width="0.5"'
        drawn.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell:.1f}" height="{cell:.1f}" {fill} {stroke}/>')
        if value and written:
            drawn.append(text(x + cell / 2, y + cell / 2 + 4, words[row, column]))
    return "".join(drawn)


def _in_words(arrays: Mapping[str, np.ndarray]) -> str:
    return " ".join(
        f"{name}: {array.shape[0]} rows, {array.shape[1]} columns, {int(np.count_nonzero(array))} of {array.size} "
        "entries are not zero."
        for name, array in arrays.items()
    )
