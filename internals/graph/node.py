"""A value that is yet to be computed: which operation makes it, from which other values.

Nodes are made by calling the rows of the op table on nodes. Nothing is computed then, but everything that can be known
is: the shape and dtype of the result, and so whether the call makes sense at all. An error comes from the line that
made the node, not from the run.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from internals.ops.operators import Operators
from internals.ops.spec import Spec
from internals.ops.table import Op
from internals.tensor.results import RESULT

if TYPE_CHECKING:
    from internals.graph.graph import Graph

Shape = tuple[int | None, ...]
"""Sizes; None where one is known only when the graph runs."""

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"


class GraphError(ValueError):
    """A graph was put together or run in a way that has no meaning; names the node and the line that made it."""


STOP_GRADIENT = Op("stop_gradient", lambda xp, x: x, vjp=None, infer=lambda x: x, doc="x, a constant to gradients.")


class Node(Operators):
    """One node of a graph.

    Attributes
    ----------
    graph : Graph
    op : Op
        A row of the table, or one of the graph's own (`placeholder`, `variable`, `constant`, `assign`, ...).
    inputs : tuple of (Node, bool, int or float)
        Python numbers stay what they are, as they do in eager code.
    attrs : dict
    name : str
        Unique in the graph.
    shape : tuple of (int or None)
        None where a size is known only when the graph runs. Of a row with several results, a tuple of such tuples.
    dtype : numpy.dtype, or a tuple of them
    controls : tuple of Node
        What must have run before this node, though nothing flows from it.
    device : str or None
        Where it was asked to run; None leaves it to the placement.
    where : str
        The file and line that made it.
    """

    __slots__ = (
        "__weakref__", "attrs", "controls", "device", "dtype", "graph", "inputs", "name", "op", "order", "shape",
        "where",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        op: Op,
        inputs: tuple[Any, ...],
        attrs: dict[str, Any],
        name: str,
        spec: Any,
        order: int,
        where: str = "",
    ) -> None:
        self.graph, self.op, self.inputs, self.attrs, self.name, self.order = graph, op, inputs, attrs, name, order
        several = isinstance(spec, tuple)
        self.shape: Any = tuple(one.shape for one in spec) if several else spec.shape
        self.dtype: Any = tuple(one.dtype for one in spec) if several else spec.dtype
        self.controls: tuple[Node, ...] = ()
        self.device: str | None = None
        self.where = where or line_outside()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        if None in self.shape:
            raise GraphError(
                f"{self.name}: its shape {self.shape} is known only when the graph runs, so it has no size yet."
            )
        return math.prod(self.shape)

    @property
    def is_known(self) -> bool:
        """Whether all sizes are known."""
        if isinstance(self.dtype, tuple):
            return all(None not in shape for shape in self.shape)
        return None not in self.shape

    def detach(self) -> Node:
        """The same value; no gradient goes through."""
        return self.graph.add(STOP_GRADIENT, (self,))

    def __bool__(self) -> bool:
        raise GraphError(
            f"{self.name}: a node has no value while the graph is built (made at {self.where}), so Python's if, while "
            "and and can't ask it. Use cond or while_loop, or run it first: session.run(node)."
        )

    def __iter__(self) -> Any:
        if not self.shape or self.shape[0] is None:
            raise GraphError(f"{self.name}: a node of shape {self.shape} can't be iterated over.")
        return (self[i] for i in range(self.shape[0]))

    def __len__(self) -> int:
        if not self.shape or self.shape[0] is None:
            raise GraphError(f"{self.name}: a node of shape {self.shape} has no length.")
        return int(self.shape[0])

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise GraphError(f"{self.name}: a node has no value to make an array of; run it: session.run(node).")

    def __repr__(self) -> str:
        kinds = ", ".join(spec_text(shape, dtype) for shape, dtype in specs(self))
        return f"<{self.name}: {self.op.name} -> {kinds}>"


def specs(node: Node) -> list[tuple[Shape, np.dtype]]:
    """Shape and dtype of each result."""
    if isinstance(node.dtype, tuple):
        return list(zip(node.shape, node.dtype, strict=True))
    return [(node.shape, node.dtype)]


_name_of = functools.cache(lambda dtype: dtype.name)  # NumPy puts it together anew each time


def spec_text(shape: Shape, dtype: np.dtype) -> str:
    return f"{_name_of(dtype)}[{', '.join(['?' if size is None else str(size) for size in shape])}]"


def types(node: Node) -> list[str]:
    """How shape and dtype of each result are written."""
    return [spec_text(shape, dtype) for shape, dtype in specs(node)]


def line_outside() -> str:
    """The innermost line of the call stack that is not of this package."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        place = _place(frame.f_code.co_filename)
        if place:
            return place.format(frame.f_lineno)
        frame = frame.f_back
    return "an unknown place"


@functools.cache
def _place(filename: str) -> str:
    """How a line of a file is called; empty for a file of this package."""
    if filename.startswith(_PACKAGE):
        return ""
    path = Path(filename)
    # A notebook's cells have files of made-up names.
    return "line {} of a cell" if "ipykernel" in path.parent.name else path.name.replace("{", "{{") + ":{}"


# Two values that stand for a size that is not known. What comes out different for the two depends on it. They have
# many divisors, so that a reshape into equal parts goes through.
_PROBES = (55440, 166320)


class _Partial:
    """A node's shape with a probe in place of unknown sizes, as `infer` is asked about it."""

    def __init__(self, node: Node, probe: int) -> None:
        self.dtype = node.dtype
        self.shape = _filled(node.shape, probe)
        self.ndim = len(self.shape)


def _filled(shape: Any, probe: int) -> Any:
    return tuple(
        [probe if size is None else _filled(size, probe) if isinstance(size, tuple) else size for size in shape]
    )


def infer(op: Op, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """The Spec of a row's result, or a tuple of them; sizes that depend on unknown ones are None.

    All unknown sizes are taken to be one, the batch. Where an op needs it to be some known size, such as that of the
    other input, it is taken to be that; where the two turn out to differ, the run says so.
    """
    if op is RESULT:
        bundle, index = inputs[0], attrs["index"]
        return _spec(bundle.shape[index], bundle.dtype[index])
    nodes = [value for value in inputs if isinstance(value, Node)]
    if not [node for node in nodes if not node.is_known]:
        return op.infer_from(inputs, attrs)
    try:
        one, two = [_inferred(op, inputs, attrs, probe) for probe in _PROBES]
    except (ValueError, TypeError, IndexError) as error:
        for size in sorted({size for node in nodes for size in node.shape if isinstance(size, int)} - {1}):
            with contextlib.suppress(ValueError, TypeError, IndexError):
                return _inferred(op, inputs, attrs, size)
        raise type(error)(str(error).replace(str(_PROBES[0]), "?")) from None
    return tuple(map(_merged, one, two)) if isinstance(one, tuple) else _merged(one, two)


def _inferred(op: Op, inputs: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    probed = [_Partial(one, size) if isinstance(one, Node) and not one.is_known else one for one in inputs]
    return op.infer_from(probed, attrs)


def _merged(one: Spec, two: Spec) -> Spec:
    return _spec(tuple([a if a == b else None for a, b in zip(one.shape, two.shape, strict=True)]), one.dtype)


def _spec(shape: Any, dtype: np.dtype) -> Spec:
    """A Spec whose sizes may be open."""
    spec = Spec((), dtype)
    spec.shape = shape
    return spec
