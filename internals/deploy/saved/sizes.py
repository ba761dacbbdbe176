"""What a program does with a size that is left open, found from what it did at two sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from internals import ops
from internals.graph import Node

PROBE, OTHER = 3, 5
"""The sizes that an open one is tried at. Neither 0 nor 1, which programs treat apart."""
FARTHER = (101, 17, 7)
"""And one of these, the first that the program takes: what goes on from 3 to 5 may end there."""


class Differs:
    """A number that is another one at another size.

    Attributes
    ----------
    by : str
        The name of that size.
    value : int
        What it is at `PROBE`.
    others : list of int
        What it is at the other sizes.
    is_size : bool
        It is that size.
    """

    def __init__(self, by: str, value: int, others: list[int], is_size: bool) -> None:
        self.by, self.value, self.others, self.is_size = by, value, others, is_size


def has_open(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(has_open, value))
    return isinstance(value, Differs)


def first_open(value: Any) -> Differs:
    if isinstance(value, Differs):
        return value
    parts = value.values() if isinstance(value, Mapping) else value
    return first_open(next(part for part in parts if has_open(part)))


def sizes_of_reshape(nodes: Sequence[Node]) -> tuple[int, ...] | None:
    """The shape for a reshape: -2 for an open size that stays where it is, -1 for one that is left.

    None where several are left.

    Parameters
    ----------
    nodes : sequence of Node
        The reshape at each of the sizes.
    """
    found = []
    shapes = [one.attrs["shape"] for one in nodes]
    given = [tuple(shape) if isinstance(shape, tuple | list) else (shape,) for shape in shapes]
    if len({len(shape) for shape in given}) > 1:
        return None
    for axis, sizes in enumerate(zip(*given, strict=True)):
        there: list[Any] = [one.inputs[0] for one in nodes]
        stays = all(x.ndim > axis and x.shape[axis] == one.shape[axis] for x, one in zip(there, nodes, strict=True))
        found.append(int(sizes[0]) if len({*sizes}) == 1 else -2 if stays else -1)
    if found.count(-1) == 0 and found.count(-2) == 1:
        found[found.index(-2)] = -1
    return tuple(found) if found.count(-1) < 2 else None


def broadcast_sizes(nodes: Sequence[Node], shape: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """How often a value is repeated along each axis: a known number of times, and by an open size.

    Parameters
    ----------
    nodes : sequence of Node
        The broadcast at each of the sizes.
    shape : sequence of (int or Differs)
        What they have in common.
    """
    sources: list[Any] = [one.inputs[0] for one in nodes]
    before = [(1,) * (len(shape) - x.ndim) + x.shape for x in sources]
    known, grown = [], []
    for axis, size in enumerate(shape):
        stays = all(was[axis] == one.shape[axis] for was, one in zip(before, nodes, strict=True))
        known.append(1 if stays or isinstance(size, Differs) else size)
        grown.append(1 if stays else size)
    return known, grown


def open_slice(key: Sequence[Any]) -> tuple[tuple[Any, ...], int, Differs] | None:
    """Of ``x[..., :n, ...]`` with an open n: the key without it, the axis of what that gives, and n; None if it isn't.

    Parameters
    ----------
    key : sequence
        Its parts, slices as (start, stop, step).
    """
    places = [i for i, part in enumerate(key) if has_open(part)]
    if len(places) != 1 or any(part is Ellipsis or not isinstance(part, tuple | int | None) for part in key):
        return None
    (place,) = places
    part = key[place]
    if not isinstance(part, tuple) or part[0] not in (None, 0) or part[2] not in (None, 1) or not part[1].is_size:
        return None
    rest = [slice(*one) if isinstance(one, tuple) else one for one in key]
    rest[place] = slice(None)
    return tuple(rest), sum(not isinstance(one, int) for one in key[:place]), part[1]


def counted(arrays: Sequence[np.ndarray]) -> tuple[int, int] | None:
    """Of whole numbers along one axis, such as ``arange`` gives: the first, and from each to the next; else None."""
    longest = max(arrays, key=len)
    if any(array.ndim != 1 for array in arrays) or len(longest) < 2 or longest.dtype.kind == "b":
        return None
    start, step = (int(one) if np.isfinite(one) else 0 for one in (longest[0], longest[1] - longest[0]))
    if not all(np.array_equal(array, start + step * np.arange(len(array))) for array in arrays):
        return None
    return start, step


def stepped(arrays: Sequence[np.ndarray]) -> tuple[int, list[np.ndarray]] | None:
    """Of a square in which it matters on which side of a diagonal an entry is, such as ``tril`` and ``eye`` give.

    Returns
    -------
    int
        k: the diagonal is where ``j - i == k``.
    list of arrays
        What stands below it, on it, and above it.
    """
    for k in (0, -1, 1):
        sides = [np.sign(-np.subtract.outer(*map(np.arange, array.shape)) - k) for array in arrays]
        values = [arrays[0][sides[0] == side][0] for side in (-1, 0, 1)]
        if all(same(np.asarray(values)[at + 1], array) for at, array in zip(sides, arrays, strict=True)):
            return k, values
    return None


def same(one: np.ndarray, two: np.ndarray) -> bool:
    return np.array_equal(one, two, equal_nan=two.dtype.kind == "f")


def times(value: Node, ones: Node) -> Node:
    """A value as often as there are ones, to the bit."""
    return ops.logical_and(value, ones) if value.dtype.kind == "b" else ops.mul(value, ones)
