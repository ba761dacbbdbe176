"""Where results lie: rows of the blocks that batches gave, and how rows of several blocks become one.

What a batch gives is cut where its readers change, so that most inputs of later batches are whole blocks: nothing is
copied, and nothing is filled with zeros on the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.device import device_of
from internals.ops.lookup import take
from internals.ops.shape import concat, stack
from internals.ops.spec import Spec
from internals.ops.table import Op
from internals.tensor import Tensor
from internals.tensor.eager import wrap


def _cut_infer(x: Spec, *, sizes: tuple[int, ...]) -> tuple[Spec, ...]:
    return tuple(Spec((size, *x.shape[1:]), x.dtype) for size in sizes)


def _cut_rows(xp: Any, x: Any, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    ends = np.cumsum(sizes).tolist()
    return tuple([x[end - size : end] for end, size in zip(ends, sizes, strict=True)])


CUT = Op(
    "cut_rows",
    _cut_rows,
    vjp=lambda g, out, x, sizes: concat(list(g), axis=0),
    jvp="linear",
    infer=_cut_infer,
    results="several",
    doc="x cut along its first axis into pieces of the given sizes, views.",
)

UNSTACK = Op(
    "unstack_rows",
    lambda xp, x: tuple([x[i] for i in range(x.shape[0])]),
    vjp=lambda g, out, x: stack(list(g), axis=0),
    jvp="linear",
    infer=lambda x: tuple([Spec(x.shape[1:], x.dtype)] * x.shape[0]),
    results="several",
    doc="The rows of x, views.",
)


def _pick_infer(x: Spec, *, index: Any) -> Spec:
    return Spec((len(index), *x.shape[1:]), x.dtype)


def _unpick(g: Any, out: Any, x: Any, index: Any) -> Any:
    return PLACE(g, index=index, size=x.shape[0])


def _place(xp: Any, x: Any, index: Any, size: int) -> Any:
    out = xp.zeros((size, *x.shape[1:]), x.dtype)
    out[device_of(x).from_host(index)] = x
    return out


def _place_infer(x: Spec, *, index: Any, size: int) -> Spec:
    return Spec((size, *x.shape[1:]), x.dtype)


PICK = Op(
    "pick_rows",
    lambda xp, x, index: x[device_of(x).from_host(index)],
    vjp=_unpick,
    jvp="linear",
    infer=_pick_infer,
    doc="Rows of x, none of them twice: on the way back each cotangent has a place of its own.",
)

PLACE = Op(
    "place_rows",
    _place,
    vjp=lambda g, out, x, index, size: PICK(g, index=index),
    jvp="linear",
    infer=_place_infer,
    doc="The rows of x at the places that `index` names, none of them twice, among `size` rows of zeros.",
)


class Block:
    """Results of one batch, along the first axis.

    Attributes
    ----------
    tensor : Tensor, shape (size, ...)
    size : int
    """

    __slots__ = ("size", "tensor")

    def __init__(self, tensor: Any, size: int) -> None:
        self.tensor, self.size = tensor, size

    def pick(self, rows: Sequence[int]) -> Any:
        """The given rows as one tensor; the block itself where they are all its rows in order."""
        if len(rows) == self.size and rows == list(range(self.size)):
            return self.tensor
        if len(set(rows)) == len(rows):
            return PICK(self.tensor, index=np.array(rows, dtype=np.int64))
        return take(self.tensor, _on_device_of(self.tensor, np.array(rows, dtype=np.int64)), axis=0)


def _on_device_of(tensor: Any, index: np.ndarray) -> Any:
    return wrap(tensor.device.from_host(index))


def cut(tensor: Any, sizes: Sequence[int]) -> list[Block]:
    """A batch's result as one block for each group of readers."""
    if len(sizes) == 1:
        return [Block(tensor, sizes[0])]
    return [Block(piece, size) for piece, size in zip(CUT(tensor, sizes=tuple(sizes)), sizes, strict=True)]


def gathered(places: Sequence[tuple[Block, int]]) -> Any:
    """One tensor from rows of blocks, in the given order."""
    first = places[0][0]
    if all(block is first for block, _ in places):
        return first.pick([row for _, row in places])
    rows: dict[Block, list[int]] = {}
    order: dict[Block, list[int]] = {}
    for position, (block, row) in enumerate(places):
        rows.setdefault(block, []).append(row)
        order.setdefault(block, []).append(position)
    whole = concat([block.pick(mine) for block, mine in rows.items()], axis=0)
    came = [position for mine in order.values() for position in mine]
    if came == list(range(len(came))):
        return whole
    back = np.empty(len(came), dtype=np.int64)
    back[came] = np.arange(len(came))
    return PICK(whole, index=back)


def stacked_leaves(values: Sequence[Any]) -> Any:
    """Values that nothing has computed, one below the other."""
    if all(type(value) is Tensor and value.node is None and type(value.data) is np.ndarray for value in values):
        return wrap(np.stack([value.data for value in values]))
    return stack(list(values), axis=0)
