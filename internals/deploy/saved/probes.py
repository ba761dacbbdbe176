"""A function traced at several sizes in place of those that a signature leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from internals.deploy.errors import SignatureError
from internals.deploy.saved.signature import TensorSpec
from internals.deploy.saved.sizes import FARTHER, PROBE
from internals.graph import GraphError
from internals.graph.function import Draw
from internals.ops.table import is_array
from internals.tensor import Tensor
from internals.trace.function import Traced
from internals.trace.kinds import program_of
from internals.trace.trace import Trace


def open_axes(spec: TensorSpec) -> Iterator[tuple[int, str | None]]:
    for axis, size in enumerate(spec.shape):
        if not isinstance(size, int):
            yield axis, size


def key_of(name: str, axis: int, size: str | None) -> str:
    return f"{name}[{axis}]" if size is None else size


def _shape(key: str, spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(
        size if isinstance(size, int) else sizes.get(key_of(key, axis, size), PROBE)
        for axis, size in enumerate(spec.shape)
    )


def trace_at(traced: Traced, name: str, inputs: Mapping[str, TensorSpec], sizes: Mapping[str, int]) -> Trace:
    shapes = [_shape(key, spec, sizes) for key, spec in inputs.items()]
    try:
        trace = traced.traced_at(shapes, [spec.dtype for spec in inputs.values()])
    except (ValueError, TypeError, IndexError) as error:
        if not sizes or isinstance(error, GraphError):
            raise
        (moved,) = sizes
        raise SignatureError(
            f"{name}: where {moved} alone is another size, {traced.__name__} fails: {error} If it is the same size as "
            "another one, give both one name; else give it as a number."
        ) from None
    if trace.written:
        raise GraphError(
            f"{name}: {traced.__name__} writes into a Tensor that it was not given, as batch normalisation does in "
            "training. A saved function only computes; save the model as it evaluates: model.eval()."
        )
    if any(isinstance(one, Draw) for one in trace.function.captures):
        raise GraphError(
            f"{name}: {traced.__name__} draws random numbers, as dropout does in training. Save the model as it "
            "evaluates: model.eval()."
        )
    return trace


def farther_trace(traced: Traced, name: str, inputs: Mapping[str, TensorSpec], one: str) -> tuple[int, Trace] | None:
    """A trace at a size that is far from the others, by which is known that what they have in common goes on."""
    for size in FARTHER:
        try:
            return size, trace_at(traced, name, inputs, {one: size})
        except Exception:  # noqa: BLE001  # the function may refuse sizes, in its own way
            continue
    return None


def opened_trace(traced: Traced, name: str, inputs: Mapping[str, TensorSpec], traces: list[Trace]) -> Trace | None:
    """A trace with the sizes open, where the function goes through with that and is the same program at each size."""
    if len(traces) == 1:
        return None
    try:
        opened = traced.traced_at([spec.open_shape for spec in inputs.values()], [s.dtype for s in inputs.values()])
        for trace in traces:
            shapes = [node.shape for node in trace.function.inputs]
            if len(shapes) != len(opened.function.inputs) or _same_captures(opened, trace) is False:
                return None
            if program_of(opened.function.at(shapes)) != program_of(trace.function):
                return None
    except (GraphError, TypeError, ValueError, IndexError):
        return None
    return opened


def _same_captures(one: Trace, two: Trace) -> bool:
    return all(a is b or _equal(a, b) for a, b in zip(one.function.captures, two.function.captures, strict=True))


def _equal(one: Any, two: Any) -> bool:
    """Whether two arrays, or Tensors that the function makes of numbers each time, are the same."""
    if isinstance(one, Tensor) and isinstance(two, Tensor) and not (one.requires_grad or two.requires_grad):
        one, two = one.numpy(), two.numpy()
    return is_array(one) and is_array(two) and np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
