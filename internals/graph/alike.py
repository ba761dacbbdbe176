"""Nodes like one that was read before from the same file: what was checked of the one holds for the others.

All that the checks of a row of the table look at is its attributes and, of its inputs, shapes, dtypes and numbers. A
model of many layers has few kinds of nodes and many of each, so that most of reading it is to see which kind one is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from internals.graph.calls import Sizes
from internals.graph.graph import CONSTANT, PLACEHOLDER, VARIABLE, Graph
from internals.graph.node import Node, spec_text, types
from internals.ops.spec import Spec
from internals.ops.table import TABLE

There = dict[str, tuple[Node, int]]
"""The nodes of one graph by their names, each with its kind: a number for shape, dtype and shape at a batch of 1."""

_KEPT = {"variable": (VARIABLE, "initial"), "constant": (CONSTANT, "value")}
_NUMBERS = (int, float, bool)
_FIXED = (bool, int, float, str, type(None), type(Ellipsis), np.dtype)


class Alike:
    """What was checked of nodes.

    Parameters
    ----------
    kept : mapping of str to array
        The arrays that are kept outside the file.
    sizes : Sizes
        What checks how large values are.
    check : callable ``(graph, record, inputs) -> Node``
        Makes a node of a row with all checks.
    """

    def __init__(self, kept: Mapping[str, np.ndarray], sizes: Sizes, check: Callable[..., Node]) -> None:
        self._kept, self._sizes, self._check = kept, sizes, check
        self._rows: dict[tuple[Any, ...], tuple[Node, list[str], int, Any]] = {}
        self._arrays: dict[tuple[Any, ...], tuple[Spec, list[str], int]] = {}
        self._kinds: dict[Any, int] = {}

    def make(self, graph: Graph, records: Sequence[dict[str, Any]], start: int, there: There) -> int:
        """Make the nodes of records, from `start` on, up to one that has more to be looked at; which that is."""
        for at in range(start, len(records)):
            record = records[at]
            get = record.get
            name, op, given, attrs, said, where = (
                get("name"), get("op"), get("inputs"), get("attrs"), get("type"), get("where"))  # fmt: skip
            parts = 4 + (attrs is not None) + (said is not None) + (where is not None)
            if not (type(name) is type(op) is str and name and type(given) is list and len(record) == parts):
                return at  # "line" is the fourth
            if name in there or (where is not None and (type(where) is not str or not where)):
                return at
            if op in _KEPT:
                row, key = _KEPT[op]
                array = self._array(key, attrs)
                if array is None or given:
                    return at
                spec, kinds, kind = self._arrays.get((array.shape, id(array.dtype))) or self._of_array(array)
                if said is not None and said != kinds:
                    return at
                node = graph.like(row, (), {key: array}, name, spec, where or record["line"])
            else:
                found = _call(op, attrs, given, there)
                if found is None:
                    return at
                known = self._rows.get(found[0])
                if known is None:
                    if not _is_plain(op, attrs, found[0][1], said):
                        return at
                    node = self._check(graph, record, found[1])
                    node.where = where or record["line"]
                    at_one = self._sizes.at_one(node)
                    kind = self._kind(node.shape, node.dtype, at_one)
                    there[name] = node, kind
                    if all(map(_is_fixed, node.attrs.values())):
                        open_at_one = None if node.is_known else at_one
                        self._rows[found[0]] = node, said or types(node), kind, open_at_one
                    continue
                first, kinds, kind, at_one = known
                if said is not None and said != kinds:
                    return at
                node = graph.like(first.op, found[1], first.attrs.copy(), name, first, where or record["line"])
                if at_one is not None:
                    self._sizes.take(node, at_one)
            there[name] = node, kind
        return len(records)

    def take(self, node: Node, there: There) -> None:
        """A node that was made in another way."""
        there[node.name] = node, self._kind(node.shape, node.dtype, self._sizes.at_one(node))

    def _array(self, key: str, attrs: Any) -> np.ndarray | None:
        """The array that is the only attribute, kept outside."""
        held = attrs.get(key) if type(attrs) is dict and len(attrs) == 1 else None
        name = held.get("kept") if type(held) is dict and len(held) == 1 else None
        return self._kept.get(name) if type(name) is str else None

    def _of_array(self, array: np.ndarray) -> tuple[Spec, list[str], int]:
        shape, dtype = array.shape, array.dtype
        found = Spec(shape, dtype), [spec_text(shape, dtype)], self._kind(shape, dtype, shape)
        self._arrays[shape, id(dtype)] = found  # `_kept` holds the array, and so the dtype
        return found

    def _kind(self, *told: Any) -> int:
        return self._kinds.setdefault(told, len(self._kinds))


def _call(op: str, attrs: Any, given: Sequence[Any], there: There) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """All that the checks look at, and the inputs; None where an input is not there, or neither node nor number."""
    key: list[Any] = [op, None if attrs is None else repr(attrs)]
    inputs: list[Any] = []
    for one in given:
        if type(one) is dict:
            name = one.get("node")
            found = there.get(name) if len(one) == 1 and type(name) is str else None
            if found is None:
                return None
            inputs.append(found[0])
            key.append(found[1])
        elif type(one) in _NUMBERS:
            inputs.append(one)
            key.append(repr(one))
        else:
            return None
    return tuple(key), tuple(inputs)


def _is_plain(op: str, attrs: Any, shown: str | None, said: Any) -> bool:
    """Whether an operation is a row of the table, its attributes, which `shown` shows, no nodes, and its type of one
    result."""
    return (
        (op in TABLE or op == PLACEHOLDER.name)
        and (attrs is None or (type(attrs) is dict and "'node'" not in (shown or "")))
        and (said is None or (type(said) is list and len(said) == 1 and type(said[0]) is str))
    )


def _is_fixed(value: Any) -> bool:
    """Whether nothing can change a value, so that nodes can share it."""
    if isinstance(value, tuple):
        return all(map(_is_fixed, value))
    if isinstance(value, slice):
        return all(map(_is_fixed, (value.start, value.stop, value.step)))
    return isinstance(value, _FIXED)
