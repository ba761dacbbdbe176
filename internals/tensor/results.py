"""Rows with several results, on the tape.

The row is one node, whose cotangent is a tuple. Each of its results hangs on it by a node of the row `result`, which
picks one out; pulled back, that puts a cotangent at its place in the tuple and leaves the others empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.device import Array, device_of
from internals.ops.spec import Spec
from internals.ops.table import Op
from internals.tensor.node import Node, next_order
from internals.tensor.storage import Storage

_new = object.__new__


class Parts:
    """The cotangents of one node's results: None where nothing has come yet.

    Attributes
    ----------
    pieces : tuple of (array, Tensor or None)
    shape, dtype : tuple
        Those of the node.
    """

    __slots__ = ("dtype", "pieces", "shape")

    def __init__(self, pieces: tuple[Any, ...], shape: Any, dtype: Any) -> None:
        self.pieces, self.shape, self.dtype = pieces, shape, dtype

    def __add__(self, other: Parts) -> Parts:
        sums = [
            one if two is None else two if one is None else one + two
            for one, two in zip(self.pieces, other.pieces, strict=True)
        ]
        return Parts(tuple(sums), self.shape, self.dtype)

    def filled(self, fills: bool = True) -> tuple[tuple[Any, ...], bool]:
        """The pieces, zeros (if it `fills`) where nothing came to a floating result; and whether they are Tensors."""
        there = next(piece for piece in self.pieces if piece is not None)
        recorded = hasattr(there, "node")
        if not fills:
            return self.pieces, recorded
        place = device_of(there.data if recorded else there)
        pieces = list(self.pieces)
        for i, (piece, shape, dtype) in enumerate(zip(pieces, self.shape, self.dtype, strict=True)):
            if piece is None and dtype.kind not in "biu":
                with place.scope():
                    zeros = place.xp.zeros(shape, dtype)
                pieces[i] = type(there)(zeros) if recorded else zeros
        return tuple(pieces), recorded


def _at(g: Any, out: Any, bundle: Any, index: int) -> Parts:
    pieces = [None] * len(bundle.shape)
    pieces[index] = g
    return Parts(tuple(pieces), bundle.shape, bundle.dtype)


def _infer(bundle: Spec, *, index: int) -> Spec:
    return Spec(bundle.shape[index], bundle.dtype[index])  # type: ignore[arg-type]  # a bundle has one for each result


RESULT = Op("result", lambda xp, bundle, index: bundle[index], vjp=_at, jvp="linear", infer=_infer)
"""One of several results. Not in the table: it is never called, it only stands on the tape."""


def bundled(op: Op, arrays: Sequence[Array]) -> Node:
    """A node for all results of a row together; the caller adds what is saved."""
    node = _new(Node)
    node.op, node.order, node.retained = op, next_order(), None
    node.shape = tuple([array.shape for array in arrays])
    node.dtype = tuple([array.dtype for array in arrays])  # type: ignore[assignment]  # a bundle's are tuples
    return node


def kept_results(node: Node, keeps: Any, arrays: Sequence[Array], storages: Sequence[Storage]) -> None:
    """Keep the results that a rule reads, and guard them."""
    names = node.op.results if isinstance(node.op.results, tuple) else ()
    wanted = keeps if isinstance(keeps, tuple) else (keeps,) * len(arrays)
    if any(wanted):
        node.out = node.op.bundle([array if keep else None for array, keep in zip(arrays, wanted, strict=True)])
        node.guards += tuple(
            [
                (storage, storage.version, names[i] if names else f"result {i}")
                for i, (storage, keep) in enumerate(zip(storages, wanted, strict=True))
                if keep
            ]
        )


def picked(node: Node, index: int) -> Node:
    """The node that stands for one result of `node`."""
    pick = _new(Node)
    pick.op, pick.attrs, pick.order, pick.retained = RESULT, {"index": index}, next_order(), None
    pick.shape, pick.dtype = node.shape[index], node.dtype[index]  # type: ignore[assignment]  # a bundle's are tuples
    pick.inputs = pick.saved = (node,)
    pick.guards, pick.out = (), None
    return pick


def is_floating(array: Array) -> bool:
    return bool(np.dtype(array.dtype).kind not in "biu")
