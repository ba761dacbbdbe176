"""A Python function as a graph whose sizes may be open: traced at several sizes, and what differs is what is open.

Code that reads ``x.shape[0]`` while it is traced must find a number. So it is traced once at a size, and for each open
size once at another and once far away. Where the programs are the same but for some numbers, those numbers are the open
size; where they differ otherwise, the function decides by the size what to do, and no one graph does that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from internals import ops
from internals.deploy.errors import SignatureError
from internals.deploy.saved.probes import farther_trace, key_of, open_axes, opened_trace, trace_at
from internals.deploy.saved.signature import TensorSpec
from internals.deploy.saved.sizes import (
    OTHER,
    PROBE,
    Differs,
    broadcast_sizes,
    counted,
    first_open,
    has_open,
    open_slice,
    same,
    sizes_of_reshape,
    stepped,
    times,
)
from internals.graph import Function, Graph, Node
from internals.graph.graph import CONSTANT, PLACEHOLDER
from internals.graph.graphdef import op_of
from internals.ops.table import Op
from internals.tensor import Tensor
from internals.trace.function import Traced
from internals.trace.kinds import program_of
from internals.trace.trace import Trace


def captured(
    name: str,
    function: Callable[..., Any],
    inputs: Mapping[str, TensorSpec],
    graph: Graph,
    variable: Callable[[Tensor], Node],
) -> tuple[dict[str, Node], Any, list[tuple[Node, TensorSpec]]]:
    """Make a function's nodes in a graph.

    Parameters
    ----------
    name : str
        Of the signature: the scope of the nodes.
    function : callable
        Of Tensors, in the order of `inputs`.
    graph : Graph
    variable : callable ``Tensor -> Node``
        The node for a Tensor that the function reads from outside.

    Returns
    -------
    dict
        The placeholders by the names of the inputs.
    object
        What the function returned, with something in the place of each result.
    list of (Node, TensorSpec)
        The results.

    Raises
    ------
    SignatureError
        The function does something else for another size; says where.
    GraphError
        It can't be traced, draws random numbers, or writes into a Tensor from outside.
    """
    traced = function if isinstance(function, Traced) else Traced(function)
    open_sizes = list(dict.fromkeys(key_of(k, axis, s) for k, spec in inputs.items() for axis, s in open_axes(spec)))
    probes = [(one, OTHER) for one in open_sizes]
    traces = [trace_at(traced, name, inputs, {})] + [trace_at(traced, name, inputs, dict([one])) for one in probes]
    for one in open_sizes:
        found = farther_trace(traced, name, inputs, one)
        if found is not None:
            probes.append((one, found[0]))
            traces.append(found[1])
    base = traces[0]
    made = _Merged(name, graph, variable, traces, probes, opened_trace(traced, name, inputs, traces))
    with graph, graph.scope(name):
        placeholders = {key: graph.placeholder(spec.open_shape, spec.dtype, name=key) for key, spec in inputs.items()}
        made.build(placeholders, inputs)
    results = zip(*[trace.function.outputs[: trace.answers] for trace in traces], strict=True)
    named = set(open_sizes) & {size for spec in inputs.values() for size in spec.symbols}
    return placeholders, base.answer, [(made.there[one[0]], _result(made, one, named)) for one in results]


def _result(made: _Merged, nodes: Sequence[Node], named: set[str]) -> TensorSpec:
    """The spec of a result, from what it was at each size: an open one has a name where it is that size."""
    shape = []
    for sizes in zip(*[node.shape for node in nodes], strict=True):
        found = made.number(sizes)
        is_size = isinstance(found, Differs) and found.is_size and found.by in named
        shape.append(found.by if is_size else sizes[0] if type(found) is int else None)
    return TensorSpec(shape, nodes[0].dtype)


class _Merged:
    """The nodes of several traces of one program, made once with what differs left open."""

    def __init__(
        self,
        name: str,
        graph: Graph,
        variable: Callable[[Tensor], Node],
        traces: list[Trace],
        probes: list[tuple[str, int]],
        opened: Trace | None,
    ) -> None:
        self.name, self.graph, self.variable, self.probes = name, graph, variable, probes
        self.open_sizes = list(dict.fromkeys(by for by, _ in probes))
        self.functions: list[Function] = [trace.function for trace in traces]
        self.opened = opened
        self.there: dict[Node, Node] = {}
        self.within: Node | None = None
        self._sources: dict[str, tuple[Node, int]] = {}
        self._units: dict[tuple[str, np.dtype], Node] = {}

    def build(self, placeholders: Mapping[str, Node], inputs: Mapping[str, TensorSpec]) -> None:
        for key, spec in inputs.items():
            for axis, size in open_axes(spec):
                self._sources.setdefault(key_of(key, axis, size), (placeholders[key], axis))
        base = self.functions[0]
        given = len(placeholders)
        if self.opened is not None:
            self._copy(self.opened.function, list(placeholders.values()))
            self.there |= dict(
                zip(base.graph.nodes, [self.there[one] for one in self.opened.function.graph.nodes], strict=True)
            )
            return
        self.there |= dict(zip(base.inputs[:given], placeholders.values(), strict=True))
        captured = [dict(zip(f.inputs[given:], f.captures, strict=True)) for f in self.functions]
        if len({len(one) for one in captured}) > 1:
            self._refuse("does another number of operations", base.graph.nodes[-1])
        self._merge(lambda nodes: self._captured([held[n] for held, n in zip(captured, nodes, strict=True)], nodes[0]))

    def _merge(self, outside: Callable[[Sequence[Node]], Node]) -> None:
        """Make the nodes of all functions; `outside` makes one for a placeholder."""
        numbers = [{node: i for i, node in enumerate(function.graph.nodes)} for function in self.functions]
        if len({len(one) for one in numbers}) > 1:
            self._refuse("does another number of operations", self.functions[0].graph.nodes[-1])
        for nodes in zip(*[function.graph.nodes for function in self.functions], strict=True):
            node = nodes[0]
            if node in self.there:
                continue
            if node.op is PLACEHOLDER:
                self.there[node] = outside(nodes)
                continue
            places = [
                [at[v] if isinstance(v, Node) else v for v in one.inputs]
                for at, one in zip(numbers, nodes, strict=True)
            ]
            if any(one.op.name != node.op.name for one in nodes) or any(one != places[0] for one in places):
                self._refuse("computes something else", node)
            self._make(node, nodes)

    def _inside(self, functions: Sequence[Function], node: Node) -> Function:
        """The body of a branch or a loop with the sizes open that differ."""
        inner = copy.copy(self)
        inner.functions, inner.graph, inner.there, inner.within = list(functions), Graph(), {}, node

        def outside(nodes: Sequence[Node]) -> Node:
            shape = self._merged([one.shape for one in nodes], node)
            sizes = [None if isinstance(size, Differs) else size for size in shape]
            return inner.graph.placeholder(sizes, nodes[0].dtype, name=nodes[0].name)

        with inner.graph:
            inner._merge(outside)
        first = functions[0]
        inputs, outputs = ([inner.there[one] for one in side] for side in (first.inputs, first.outputs))
        made = Function(inner.graph, inputs, outputs, first.name)
        made.captures = [None] * len(first.captures)
        return made

    def _copy(self, function: Function, given: Sequence[Node]) -> None:
        self.there |= dict(zip(function.inputs, given, strict=False))
        for node, value in zip(function.inputs[len(given) :], function.captures, strict=True):
            self.there[node] = self._outside(value)
        for node in function.graph.nodes:
            if node not in self.there:
                self._add(node, node.attrs)

    def _outside(self, value: Any) -> Node:
        return self.variable(value) if isinstance(value, Tensor) else self.graph.constant(value)

    def _captured(self, values: Sequence[Any], node: Node) -> Node:
        first = values[0]
        if all(value is first for value in values):
            return self._outside(first)
        arrays = [np.asarray(one.data if isinstance(one, Tensor) else one) for one in values]
        return self._constant(arrays, node)

    def _constant(self, arrays: Sequence[np.ndarray], node: Node) -> Node:
        """What is the same at every size; or has as many equal slices as a size says, or counts, or is a triangle."""
        shape = self._merged([one.shape for one in arrays], node)
        if not has_open(shape):
            if not all(same(one, arrays[0]) for one in arrays):
                self._refuse("has an array of other values", node)
            return self.graph.constant(np.array(arrays[0]))
        alike = [all(same(one, np.take(one, [0] * one.shape[i], i)) for one in arrays) for i in range(len(shape))]
        key = tuple(slice(0, 1) if one else slice(None) for one in alike)
        cut = [1 if one else size for one, size in zip(alike, shape, strict=True)]
        value = self._written_out([one[key] for one in arrays], cut)
        if value is None:
            self._refuse("has an array of other values", node)
        known = [size if one and not has_open(size) else 1 for one, size in zip(alike, shape, strict=True)]
        if any(size != 1 for size in known):
            value = times(value, self.graph.constant(np.ones(known, value.dtype)))
        grown = [size if one else 1 for one, size in zip(alike, shape, strict=True)]
        return self._stretched(value, grown, node)

    def _written_out(self, arrays: Sequence[np.ndarray], shape: Sequence[Any]) -> Node | None:
        """What is the same at every size; numbers that count up, and triangles, of a size that is open."""
        sizes = [size for size in shape if isinstance(size, Differs)]
        if not sizes and all(same(one, arrays[0]) for one in arrays):
            return self.graph.constant(np.array(arrays[0]))
        if not sizes or any(not size.is_size or size.by != sizes[0].by for size in sizes) or self.within is not None:
            return None
        if any(size != 1 for size in shape if not isinstance(size, Differs)):
            return None
        dtype, to = arrays[0].dtype, tuple(-1 if isinstance(size, Differs) else 1 for size in shape)
        if len(sizes) == 1 and (found := counted([np.ravel(one) for one in arrays])) is not None:
            start, step = found
            return ops.reshape(ops.cast(self._count(sizes[0].by) * step + start, dtype=dtype), shape=to)
        if len(sizes) == 2 and isinstance(shape[-2], Differs) and isinstance(shape[-1], Differs):
            square = stepped([one.reshape(one.shape[-2:]) for one in arrays])
            if square is not None:
                found_at = self._square(sizes[0].by, *square)
                for _ in shape[2:]:
                    found_at = ops.expand_dims(found_at, axis=0)
                return found_at
        return None

    def _square(self, by: str, k: int, values: Sequence[np.ndarray]) -> Node:
        """What stands below, on and above a diagonal."""
        i = self._count(by)
        along = ops.expand_dims(i, axis=0) - ops.expand_dims(i, axis=1)
        below, on, above = (np.asarray(one) for one in values)

        def chosen(where: Node, one: np.ndarray, other: Any) -> Node:
            held = self.graph.constant(one)
            if one.dtype.kind == "b":  # the other one is the other truth
                return ops.equal(where, held)
            return ops.where(where, held, self.graph.constant(other) if isinstance(other, np.ndarray) else other)

        if same(on, below):
            return chosen(ops.less_equal(along, k), below, above)
        if same(on, above):
            return chosen(ops.less(along, k), below, above)
        if same(below, above):
            return chosen(ops.equal(along, k), on, above)
        return chosen(ops.less(along, k), below, chosen(ops.equal(along, k), on, above))

    def _count(self, by: str) -> Node:
        """0, 1, 2 and so on, as many as a size says."""
        return ops.cumsum(self._unit(by, np.dtype(np.int64)), axis=0) - 1

    def _stretched(self, value: Node, shape: Sequence[Any], node: Node) -> Node:
        """A value of one entry along the axes that are open, as many times as their sizes say."""
        for axis, size in enumerate(shape):
            if isinstance(size, Differs):
                if not size.is_size:
                    self._refuse(
                        f"makes an array of {size.value} at {PROBE} and {size.others[0]} at {OTHER}", node, size.by
                    )
                unit = ops.reshape(self._unit(size.by, value.dtype), shape=(-1, *[1] * (len(shape) - 1 - axis)))
                value = times(value, unit)
        return value

    def _unit(self, by: str, dtype: np.dtype) -> Node:
        """As many ones as a size says."""
        if self.within is not None:
            self._refuse(f"makes an array of that size in a {self.within.op.name}", self.within, by)
        if (by, dtype) not in self._units:
            source, axis = self._sources[by]
            key = tuple(slice(None) if i == axis else slice(0, 1) for i in range(source.ndim))
            ones = ops.reshape(ops.ones_like(ops.getitem(source, key=key)), shape=(-1,))
            self._units[by, dtype] = ops.cast(ones, dtype=dtype)
        return self._units[by, dtype]

    def _make(self, node: Node, nodes: Sequence[Node]) -> None:
        if node.op is CONSTANT:
            self.there[node] = self._constant([np.asarray(one.attrs["value"]) for one in nodes], node)
            return
        if getattr(node.op, "made", None) is not None and len({id(one.op) for one in nodes}) > 1:
            self._make_flow(node, nodes)
            return
        if node.op.name == "reshape":
            sizes = sizes_of_reshape(nodes)
            if sizes is None:
                self._refuse(f"arranges the entries of {node.inputs[0]!r} in other sizes along several axes", node)
            self._add(node, {"shape": sizes})
            return
        if node.op.name == "getitem":
            keys = [one.attrs["key"] if isinstance(one.attrs["key"], tuple) else (one.attrs["key"],) for one in nodes]
            if len({len(key) for key in keys}) == 1 and self._first(node, keys):
                return
        attrs = {key: self._merged([one.attrs[key] for one in nodes], node) for key in node.attrs}
        open_attrs = [key for key, value in attrs.items() if has_open(value)]
        if not open_attrs:
            self._add(node, node.attrs)
        elif node.op.name == "broadcast_to":
            known, grown = broadcast_sizes(nodes, attrs["shape"])
            (x,) = node.inputs
            value = self.there[x]
            if len(known) > value.ndim or any(size != 1 for size in known):
                value = times(value, self.graph.constant(np.ones(known, value.dtype)))
            self.there[node] = self._stretched(value, grown, node)
        else:
            what = ", ".join(open_attrs)
            self._refuse(f"has {node.op.name} with another {what}", node, first_open(attrs).by)

    def _first(self, node: Node, keys: Sequence[Any]) -> bool:
        """Make ``x[:n]`` with an open n: the entries are taken by their numbers."""
        found = open_slice([self._merged([key[i] for key in keys], node) for i in range(len(keys[0]))])
        if found is None:
            return False
        key, axis, size = found
        (x,) = node.inputs
        value = self.there[x]
        if any(one != slice(None) for one in key):
            value = ops.getitem(value, key=key)
        self.there[node] = ops.take(value, self._count(size.by), axis=axis)
        return True

    def _make_flow(self, node: Node, nodes: Sequence[Node]) -> None:
        """A branch, a loop or a call, whose functions may be made for other sizes."""
        made: list[Any] = [one.op.made for one in nodes]  # type: ignore[attr-defined]
        kind, functions, numbers = made[0]
        if any((k, f.keys(), n) != (kind, functions.keys(), numbers) for k, f, n in made):
            self._refuse(f"has another {node.op.name}", node)
        if all(program_of(f[role]) == program_of(functions[role]) for _, f, _ in made for role in functions):
            self._add(node, node.attrs)
            return
        merged = {role: self._inside([f[role] for _, f, _ in made], node) for role in functions}
        self._add(node, node.attrs, op_of(kind, merged, numbers))

    def _add(self, node: Node, attrs: dict[str, Any], op: Op | None = None) -> None:
        inputs = [self.there[value] if isinstance(value, Node) else value for value in node.inputs]
        try:
            made = self.graph.add(op or node.op, inputs, attrs)
        except (ValueError, TypeError, IndexError) as error:
            raise SignatureError(
                f"{self.name}: with {', '.join(self.open_sizes)} open, {node.op.name} (made at {node.where}) is "
                f"refused: {error} Give the sizes as numbers."
            ) from None
        made.where = node.where
        self.there[node] = made

    def _merged(self, values: Sequence[Any], node: Node) -> Any:
        """One value where all are the same; a `Differs` in the place of a number that depends on one size."""
        first = values[0]
        if isinstance(first, tuple | list) and all(
            type(one) is type(first) and len(one) == len(first) for one in values
        ):
            return type(first)(self._merged(parts, node) for parts in zip(*values, strict=True))
        if isinstance(first, slice) and all(isinstance(one, slice) for one in values):
            return tuple(
                self._merged(parts, node) for parts in zip(*[(s.start, s.stop, s.step) for s in values], strict=True)
            )
        if isinstance(first, np.ndarray):
            if all(isinstance(one, np.ndarray) and np.array_equal(one, first) for one in values):
                return first
            self._refuse("has an array of other values", node)
        found = self.number(values)
        if found is None and any(one is not None for one in values):
            by = next(by for (by, _), one in zip(self.probes, values[1:], strict=True) if one != first)
            self._refuse(f"gives {node.op.name} other settings", node, by)
        return found

    def number(self, values: Sequence[Any]) -> Any:
        """What is the same at all sizes, or a number that depends on one of them; else None."""
        first = values[0]
        moved = {by: True for (by, _), one in zip(self.probes, values[1:], strict=True) if one != first}
        if not moved:
            return first
        if len(moved) > 1 or any(type(one) is not int for one in values):
            return None
        (by,) = moved
        ends = [(size, one) for (which, size), one in zip(self.probes, values[1:], strict=True) if which == by]
        return Differs(by, first, [one for _, one in ends], first == PROBE and all(size == one for size, one in ends))

    def _refuse(self, what: str, node: Node, by: str = "") -> NoReturn:
        raise SignatureError(
            f"{self.name}: for another {by or ' or '.join(self.open_sizes)} the function {what} ({node.where}), so no "
            "one graph is right for every size. Give that size as a number, or write the function so that it computes "
            "the same for all."
        )
