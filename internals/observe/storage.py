"""A picture of one piece of memory, and of the tensors that read it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from internals.observe import picture
from internals.observe.picture import CHARACTER, Picture, text
from internals.tensor import Tensor

CELL, GRID, GAP = 36.0, 30.0, 26.0
"""The side of a place in memory, the width of an entry in a grid, and the room between the two."""

WIDEST = 24
"""Places that fit on a page."""


def draw_storage(tensors: Mapping[str, Tensor], *, title: str) -> Picture:
    """Draw the memory that tensors share, and below it how each of them reads it.

    Each place in memory has the index of the entry that lies there; ``*`` stands for an axis all of whose entries lie
    there. Beside that are the entries in the shape of the tensor.

    Parameters
    ----------
    tensors : mapping of name to Tensor
        On one storage of at most 24 entries, of one dtype, with at most two axes each.
    title : str

    Raises
    ------
    ValueError
        There is nothing to draw, the tensors do not share a storage, or they are too large to be read.
    """
    shown = list(tensors.values())
    if not shown or any(tensor.storage is not shown[0].storage for tensor in shown):
        raise ValueError(f"draw_storage: expected tensors that are views of one memory, got {len(shown)} that are not.")
    places = shown[0].storage.nbytes // shown[0].itemsize
    if not 0 < places <= WIDEST or any(tensor.ndim > 2 or tensor.size > WIDEST for tensor in shown):
        raise ValueError(
            f"draw_storage: {places} places in memory, read in shapes {[tensor.shape for tensor in shown]}; a picture "
            f"has 1 to {WIDEST} places and tensors of at most two axes."
        )
    values: dict[int, str] = {}
    for tensor in shown:
        entries = np.array(tensor.tolist(), dtype=object)
        values.update({place: _short(entries[index], CELL) for index, place in _places(tensor)})
    size = shown[0].itemsize
    body = [text(1, 14, f"memory: {places * size} bytes", anchor="start", weight="bold")]
    body.append(_strip({place: values.get(place, "") for place in range(places)}, 22, picture.TEXT))
    for place in range(places):
        body.append(text((place + 0.5) * CELL + 1, 22 + CELL + 14, f"{place * size}", fill=picture.MUTED))
    down, right = 22 + CELL + 44, places * CELL + 2
    for name, tensor in tensors.items():
        drawn, height, width = _reading(name, tensor, places, down)
        body.append(drawn)
        down += height
        right = max(right, width)
    return Picture("".join(body), right, down - 20, title=title, description=_in_words(tensors))


def _places(tensor: Tensor) -> list[tuple[tuple[int, ...], int]]:
    """Every index of a tensor, with the place in memory that it leads to, counted in entries."""
    strides, size = tensor.strides, tensor.itemsize
    return [
        (index, (tensor.offset + sum(i * stride for i, stride in zip(index, strides, strict=True))) // size)
        for index in np.ndindex(tensor.shape)
    ]


def _reading(name: str, tensor: Tensor, places: int, top: float) -> tuple[str, float, float]:
    """One tensor: what it is called, where its entries lie, and the entries; with the height and width of that."""
    facts = f"shape {tensor.shape}, strides {tensor.strides}, offset {tensor.offset}"
    drawn = [text(1, top, name, anchor="start", weight="bold")]
    drawn.append(text(1 + (len(name) + 2) * CHARACTER, top, facts, anchor="start", fill=picture.MUTED))
    found: dict[int, list[tuple[int, ...]]] = {}
    for index, place in _places(tensor):
        found.setdefault(place, []).append(index)
    labels = {place: _label(found[place], tensor.ndim) if place in found else "" for place in range(places)}
    drawn.append(_strip(labels, top + 8, picture.LEAF))
    rows, columns = (1, 1, *tensor.shape)[-2:]
    entries = np.array(tensor.tolist(), dtype=object).reshape(rows, columns)
    left = places * CELL + GAP
    for (row, column), value in np.ndenumerate(entries):
        x, y = left + column * GRID, top + 8 + row * GRID * 0.8
        where = f'x="{x:.1f}" y="{y:.1f}" width="{GRID:.1f}" height="{GRID * 0.8:.1f}"'
        drawn.append(f'<rect {where} fill="none" stroke="{picture.LINE}" stroke-width="0.5"/>')
        drawn.append(text(x + GRID / 2, y + GRID * 0.4 + 4, _short(value, GRID)))
    height = max(CELL, rows * GRID * 0.8) + 46
    return "".join(drawn), height, max(left + columns * GRID + 2, (len(name) + len(facts) + 3) * CHARACTER)


def _short(value: float, room: float) -> str:
    """A number with as many digits as there is room for, at most four; an ellipsis if there is none."""
    return next((word for n in (4, 3, 2, 1) if len(word := f"{value:.{n}g}") * CHARACTER <= room), "…")


def _label(indices: list[tuple[int, ...]], ndim: int) -> str:
    """Which entries lie at one place: an index, with ``*`` for an axis along which all of them do."""
    along = [sorted({index[axis] for index in indices}) for axis in range(ndim)]
    if len(indices) == np.prod([len(found) for found in along], dtype=int):
        return ",".join(str(found[0]) if len(found) == 1 else "*" for found in along) or "()"
    return f"{len(indices)}×"


def _strip(labels: Mapping[int, str], top: float, colour: str) -> str:
    drawn = []
    for place, label in labels.items():
        square = f'x="{place * CELL + 1:.1f}" y="{top:.1f}" width="{CELL:.1f}" height="{CELL:.1f}"'
        used = label and colour == picture.LEAF
        fill = picture.FILL_LEAF if used else "none"
        stroke = picture.LEAF if used else picture.LINE
        width = "1.5" if used else "0.5"
        drawn.append(f'<rect {square} fill="{fill}" stroke="{stroke}" stroke-width="{width}"/>')
        if label:
            drawn.append(text((place + 0.5) * CELL + 1, top + CELL / 2 + 4, label, fill=colour))
    return "".join(drawn)


def _in_words(tensors: Mapping[str, Tensor]) -> str:
    return " ".join(
        f"{name}: shape {tensor.shape}, strides {tensor.strides}, offset {tensor.offset}; in the order of its entries "
        f"it reads places {[place for _, place in _places(tensor)]}."
        for name, tensor in tensors.items()
    )
