"""An ONNX graph while it is being written: operators, initialisers, and what a rule needs to know of values."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from internals.graph import Function
from internals.graph.node import Node, Shape

OLDEST, NEWEST, DEFAULT = 17, 28, 17
"""Versions of ONNX's operator set that can be written."""

IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 13, 28: 14}
"""The version of the file format that came with an operator set: older runtimes refuse newer ones."""


class Value(NamedTuple):
    """A value of the ONNX graph, with what our graph knows of it; open sizes are None."""

    name: str
    shape: Shape
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_known(self) -> bool:
        return None not in self.shape

    @property
    def is_float(self) -> bool:
        return self.dtype.kind not in "biu"


Name = str
"""Of a value; the empty one stands for an optional input that is not given."""


def load_onnx() -> Any:
    """The onnx package.

    Raises
    ------
    ImportError
        It is not installed; says what to install.
    """
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise ImportError("ONNX models need the onnx package: pip install onnx") from None


def _no_functions(*_: Any) -> list[Name]:
    raise TypeError("this builder writes no functions")


class Builder:
    """Collects operators and initialisers.

    Parameters
    ----------
    opset : int
        The version of ONNX's operator set.
    """

    def __init__(self, opset: int) -> None:
        self.onnx = load_onnx()
        self.opset = opset
        self.nodes: list[Any] = []
        self.initialisers: dict[str, np.ndarray] = {}
        self.names: set[str] = set()
        self.scope = ""
        self.name_of: Callable[[Node], str] = lambda node: node.name
        self.value_of: Callable[[Any], np.ndarray | None] = lambda node: None
        self.inline: Callable[[Function, Sequence[Value | Name], Sequence[Any]], list[Name]] = _no_functions
        self.weights: list[str] = []
        self.last_cells: set[str] = set()
        self._kept: dict[tuple[Any, ...], str] = {}

    # Names

    def name(self, wanted: str) -> str:
        """A name that is not taken."""
        full, number = wanted, 0
        while full in self.names:
            number += 1
            full = f"{wanted}_{number}"
        self.names.add(full)
        return full

    # Writing

    def op(self, kind: str, *inputs: Value | Name, **attrs: Any) -> Name:
        """Add an operator of one result; attributes that are None are left out."""
        return self.ops(kind, 1, *inputs, **attrs)[0]

    def ops(self, kind: str, results: int, *inputs: Value | Name, **attrs: Any) -> list[Name]:
        """Add an operator of several results."""
        outputs = [self.name(f"{self.scope}/{kind}") for _ in range(results)]
        names = [one.name if isinstance(one, Value) else one for one in inputs]
        while names and not names[-1]:
            names.pop()
        given = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(kind, names, outputs, outputs[0], **given))
        return outputs

    def typed(self, name: Name, shape: Sequence[Any], dtype: np.dtype) -> Any:
        """What ONNX says of an input or an output."""
        helper = self.onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))

    def graph(
        self, what: str, inputs: Sequence[Value], write: Callable[[], Sequence[Name]], results: Sequence[Value]
    ) -> Any:
        """A graph within an operator: a branch, or the body of a loop. Values of the graphs around can be read in it.

        Parameters
        ----------
        inputs : sequence of Value
            With names of their own.
        write : callable
            Adds the operators, and gives the names of the results.
        results : sequence of Value
            The shapes and dtypes of the results.
        """
        outer, self.nodes = self.nodes, []
        try:
            names: list[Name] = []
            for name in write():
                own = name not in names and any(name in one.output for one in self.nodes)
                names.append(name if own else self.op("Identity", name))
            nodes = self.read_by(names)
        finally:
            self.nodes = outer
        ends = [self.typed(one.name, one.shape, one.dtype) for one in inputs]
        given = [self.typed(name, one.shape, one.dtype) for name, one in zip(names, results, strict=True)]
        return self.onnx.helper.make_graph(nodes, f"{self.scope}/{what}", ends, given)

    def read_by(self, outputs: Sequence[Name]) -> list[Any]:
        """Of the operators those that outputs need, themselves or through others."""
        read = set(outputs)
        kept = []
        for node in reversed(self.nodes):
            if read & set(node.output):
                kept.append(node)
                read |= names_read(node)
        return kept[::-1]

    def initialiser(self, name: str, array: np.ndarray) -> Name:
        """An array that is kept in the file, under a name of its own."""
        self.names.add(name)
        self.initialisers[name] = np.asarray(array)
        return name

    def constant(self, value: Any, dtype: Any = None) -> Name:
        """A small array that operators read; the same one is kept once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._kept:
            text = f"{array.item():g}" if array.ndim == 0 and array.dtype.kind != "b" else array.dtype.name
            self._kept[key] = self.initialiser(self.name(f"constant/{text}"), array)
        return self._kept[key]

    def like(self, number: float, value: Value) -> Name:
        """A number in the dtype of a value."""
        return self.constant(number, value.dtype)

    def integers(self, values: Sequence[int]) -> Name:
        """Sizes, axes, indices: a vector of int64."""
        return self.constant(np.asarray(values, np.int64).reshape(-1))

    def weight(self, what: str, array: np.ndarray) -> Name:
        """A weight in the layout that an operator wants, made when the file is written."""
        name, there = f"{self.scope}/{what}", self.initialisers.get(f"{self.scope}/{what}")
        if there is None or not np.array_equal(there, array):  # else it was written before, and read back
            name = self.initialiser(self.name(name), array)
        self.weights.append(name)
        return name

    # What several rules are made of

    def cast(self, value: Value | Name, dtype: Any) -> Name:
        return self.op("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reduce(self, kind: str, x: Value | Name, axes: Sequence[int], keepdims: bool) -> Name:
        """A reduction; before operator set 18 all but the sum had their axes as an attribute."""
        if not axes:
            return self.op("Identity", x)
        if kind == "ReduceSum" or self.opset >= 18:
            return self.op(kind, x, self.integers(axes), keepdims=int(keepdims))
        return self.op(kind, x, axes=list(axes), keepdims=int(keepdims))

    def reshape(self, x: Value | Name, shape: Sequence[int]) -> Name:
        """To this shape; -1 is found out, and 0 is a size of 0."""
        return self.op("Reshape", x, self.integers(shape), allowzero=1 if 0 in shape else None)

    def unsqueeze(self, x: Value | Name, axes: Sequence[int]) -> Name:
        return self._undone("Squeeze", x, axes) or self.op("Unsqueeze", x, self.integers(axes))

    def squeeze(self, x: Value | Name, axes: Sequence[int]) -> Name:
        return self._undone("Unsqueeze", x, axes) or self.op("Squeeze", x, self.integers(axes))

    def _undone(self, kind: str, x: Value | Name, axes: Sequence[int]) -> Name:
        """What `x` was made from, if it was made by the operator that is undone now."""
        name = x.name if isinstance(x, Value) else x
        made = next((one for one in reversed(self.nodes) if name in one.output), None)
        if made is None or made.op_type != kind or made.input[1] != self.integers(axes):
            return ""
        source: Name = made.input[0]
        return source

    def slice(self, x: Value | Name, axis: int, start: int, stop: int, step: int = 1) -> Name:
        parts = [self.integers([one]) for one in (start, stop, axis, step)]
        return self.op("Slice", x, *parts)

    def shape_of(self, x: Value, change: dict[int, int] | None = None) -> Name:
        """The shape of a value as a vector, with some sizes changed; open ones are found out as the graph runs."""
        changed = [(change or {}).get(axis, size) for axis, size in enumerate(x.shape)]
        known = [size for size in changed if size is not None]
        if len(known) == len(changed):
            return self.integers(known)
        whole = self.op("Shape", x)
        parts = [
            self.integers([size]) if size is not None else self.slice(whole, 0, axis, axis + 1)
            for axis, size in enumerate(changed)
        ]
        return self.op("Concat", *parts, axis=0)

    def filled(self, shape: Name, number: float, dtype: Any) -> Name:
        """An array of one number."""
        value = self.onnx.numpy_helper.from_array(np.asarray([number], dtype))
        return self.op("ConstantOfShape", shape, value=value)

    def count(self, x: Value, axes: Sequence[int], dtype: Any) -> Name:
        """How many entries a reduction over axes brings together."""
        sizes = [x.shape[axis] for axis in axes]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            return self.constant(math.prod(known), dtype)
        picked = self.op("Gather", self.op("Shape", x), self.integers(axes))
        return self.cast(self.reduce("ReduceProd", picked, [0], False), dtype)


def names_read(node: Any) -> set[str]:
    """The names of the values that an operator reads, the graphs within it too."""
    found = set(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            found |= {one.name for one in graph.output}
            found = found.union(*map(names_read, graph.node))
    return found
