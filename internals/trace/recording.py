"""What happens to Tensors while a function is traced: they become nodes, by reference.

A Tensor that the function was not given, a parameter for instance, would compute eagerly where it meets no node, and
what came out would be frozen into the trace. So for the time of tracing, and on the thread that traces, operations on
Tensors add nodes; a write into a Tensor becomes a new node, written back after each run; and reading a value out of a
Tensor into Python, which a later run could not repeat, is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from internals.graph import Graph, Node, current, gradients
from internals.graph.function import Draw, FunctionGraph, LaterSeed, graph_op
from internals.graph.graph import run_on_nodes
from internals.graph.node import line_outside, spec_text
from internals.nn import Module
from internals.ops import cast
from internals.ops.seed import placed
from internals.ops.spec import kind_rank
from internals.ops.table import Op, execution_of, style
from internals.tensor import Tensor, eager, inplace, is_recording, tensor
from internals.tensor.storage import storage_of
from internals.trace.convert import captured_forward
from internals.trace.errors import TraceError
from internals.trace.sharing import refuse_shared


class _Tracing(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []


_tracing = _Tracing()
_lock = threading.RLock()
_installed: list[Callable[[], None]] = []
_depth = 0


def is_tracing() -> bool:
    """Whether this thread is tracing a function."""
    return bool(_tracing.graphs)


def is_watched() -> bool:
    """Whether autocast, anomaly mode or the like stands in for the style of Tensors; a graph would pass it by."""
    return not _installed and execution_of(Tensor) is not eager.run_eagerly


@contextmanager
def recording(graph: Graph) -> Iterator[None]:
    """Build `graph` from what is done inside, to nodes and to Tensors."""
    global _depth
    with _lock:
        if not _depth:
            _install()
        _depth += 1
    _tracing.graphs.append(graph)
    try:
        with graph, placed(lambda rng: LaterSeed.of(Draw(rng))):
            yield
    finally:
        _tracing.graphs.pop()
        with _lock:
            _depth -= 1
            if not _depth:
                _installed.pop()()


def _install() -> None:
    # Nothing asks at each operation whether somebody traces: while one does, other functions stand in the places of
    # the style of Tensors, of its shortcut, of writes and of reads.
    execution, shortcut, write = execution_of(Tensor), eager.binary, inplace.write_in_place
    reads = {name: getattr(Tensor, name) for name in ("item", "tolist")}

    def run(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if not _tracing.graphs:
            return execution(op, inputs, attrs)
        return run_on_nodes(op, tuple([eager.as_operand(value, op.name) for value in inputs]), attrs)

    def binary(op: Op, x: Any, y: Any) -> Any:
        if not _tracing.graphs:
            return shortcut(op, x, y)
        return run(op, (x, y), {})

    def written(target: Tensor, op: Op, *others: Any, **attrs: Any) -> Tensor:
        if not _tracing.graphs:
            return write(target, op, *others, **attrs)
        return _written(target, op, others, attrs)

    style(Tensor, run, rank=10)
    eager.binary = binary
    inplace.write_in_place = tensor.write_in_place = written
    for name, read in reads.items():
        setattr(Tensor, name, _refusing(name, read))
    for name in ("add", "sub", "mul", "truediv"):
        setattr(Node, f"__i{name}__", _rebinding(name))
    call = Module.__call__

    def called(self: Module, *inputs: Any, **settings: Any) -> Any:
        if not _tracing.graphs or self._hooks:
            return call(self, *inputs, **settings)
        return captured_forward(self)(*inputs, **settings)

    Module.__call__ = called  # type: ignore[method-assign]

    def undo() -> None:
        Module.__call__ = call  # type: ignore[method-assign]
        style(Tensor, execution, rank=10)
        eager.binary = shortcut
        inplace.write_in_place = tensor.write_in_place = write
        for name, read in reads.items():
            setattr(Tensor, name, read)
        for name in ("add", "sub", "mul", "truediv"):
            delattr(Node, f"__i{name}__")

    _installed.append(undo)


def _refusing(name: str, read: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def refused(self: Tensor) -> Any:
        if _tracing.graphs:
            raise TraceError(
                f"{line_outside()}: {name} would read a Tensor's value once, while the function is traced, and every "
                "later call would go on with that number. Compute with the Tensor itself, or read it outside and pass "
                "the number as an argument."
            )
        return read(self)

    return refused


def _rebinding(name: str) -> Callable[[Node, Any], Any]:
    """``node += other``: another node, as nothing is shared; but the caller's Tensor would have changed."""

    def rebound(self: Node, other: Any) -> Any:
        if _tracing.graphs and self in getattr(self.graph, "arguments", ()):
            raise TraceError(
                f"{line_outside()}: in-place {name} of an argument writes into the caller's Tensor, and a graph has no "
                "hold of that. Write x = x + y, or return the new value."
            )
        if _tracing.graphs:
            refuse_shared(name, self, line_outside())
        return getattr(Node, f"__{name}__")(self, other)

    return rebound


def _written(target: Tensor, op: Op, others: Sequence[Any], attrs: dict[str, Any]) -> Tensor:
    """``target = op(target, *others)``: a node for the new value, which is written after each run."""
    root, here, where = _tracing.graphs[-1], current(), line_outside()
    if not isinstance(root, FunctionGraph):
        raise TraceError(f"{where}: in-place {op.name} of a Tensor in a graph; make it a variable, and assign to it.")
    if here is not root:
        raise TraceError(
            f"{where}: in-place {op.name} of a Tensor in a branch or a loop that is part of the graph. Assign the new "
            "value to a variable there, and write it into the Tensor afterwards."
        )
    if is_recording() and target.node is not None:
        raise TraceError(
            f"{where}: in-place {op.name} of a Tensor that requires a gradient. Do it under no_grad(), as an update."
        )
    if target._storage is not None and storage_of(target).is_shared(target):
        raise TraceError(
            f"{where}: in-place {op.name} of a Tensor that shares its memory with another, which the graph would read "
            "as it was. Write into the one, or clone() the other."
        )
    value = run_on_nodes(op, tuple([eager.as_operand(one, op.name) for one in (target, *others)]), attrs)
    if value.shape != target.shape or kind_rank(value.dtype) > kind_rank(target.dtype):
        raise TraceError(
            f"{where}: in-place {op.name}: the result is {spec_text(value.shape, value.dtype)} and does not fit a "
            f"Tensor of {spec_text(target.shape, target.dtype)}."
        )
    root.write(target, value if value.dtype == target.dtype else cast(value, dtype=target.dtype))
    return target


def show(value: Any, label: str = "") -> Any:
    """Print a value at every run, where ``print`` prints a node once, while tracing; the value itself comes back.

    Parameters
    ----------
    value : Tensor or Node
    label : str
        Put before it.

    Inside a branch or a loop it prints where what it returns is used.
    """
    if not isinstance(value, Node) and not is_tracing():
        print(label, Tensor(value).tolist()) if label else print(Tensor(value).tolist())
        return value
    (shown,) = _show_op(label)([value])
    graph = current()
    if isinstance(graph, FunctionGraph) and is_tracing() and graph is _tracing.graphs[-1]:
        graph.effects.append(shown)
    return shown


def _show_op(label: str) -> Op:
    def kernel(xp: Any, array: Any) -> list[Any]:
        print(label, Tensor(array).tolist()) if label else print(Tensor(array).tolist())
        return [array]

    return graph_op("show", kernel, vjp=lambda g, out, value: [g[0]], infer=lambda *values: values)


def gradient(result: Any, sources: Sequence[Any]) -> list[Any]:
    """The gradients of a number by Tensors or nodes, as nodes, while a function is traced.

    Parameters
    ----------
    result : Node of one entry
    sources : sequence of Tensor or Node
        Zeros come back for one that the result does not depend on.

    Outside of tracing it is `internals.grad`.
    """
    if not isinstance(result, Node):
        from internals.autodiff import grad

        return list(grad(result, list(sources)))
    nodes = [result.graph.own(source) for source in sources]
    found = gradients([result], nodes)
    return [node * 0 if one is None else one for node, one in zip(nodes, found, strict=True)]
