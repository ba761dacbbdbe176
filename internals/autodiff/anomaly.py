"""Anomaly mode: find the line of the forward pass to which a NaN goes back."""

from __future__ import annotations

import linecache
import sys
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from internals import ops
from internals.autodiff.tape import pullback, rule_in_use
from internals.device import device_of
from internals.ops.table import Op, execution_of, style
from internals.tensor import Node, Tensor, eager
from internals.tensor.results import Parts

_FRAMEWORK = str(Path(ops.__file__).parents[1])


class AnomalyError(RuntimeError):
    """A NaN or an infinity came up under `detect_anomaly`; the message has the line that made it.

    Attributes
    ----------
    op : str
    filename : str or None
    line : int or None
        Where the operation was called; None if it was recorded outside of `detect_anomaly`.
    """

    def __init__(self, message: str, op: str, place: traceback.FrameSummary | None) -> None:
        super().__init__(message)
        self.op = op
        self.filename: str | None = place.filename if place else None
        self.line: int | None = place.lineno if place else None


_calls: weakref.WeakKeyDictionary[Node, traceback.StackSummary] = weakref.WeakKeyDictionary()


@contextmanager
def detect_anomaly(*, forward: bool = False, infinities: bool = False) -> Iterator[None]:
    """Stop where a NaN comes up, and name the line of the forward pass behind it.

    Parameters
    ----------
    forward : bool
        Look at the result of every operation too, not only at what the backward pass computes. A NaN that an input has
        already is not held against the operation.
    infinities : bool
        Stop at infinities as well.

    Raises
    ------
    AnomalyError
        Inside the block: names the operation, the file, the line and its text, with the calls that led there.

    For looking for a mistake: each operation notes the stack it was called from. Outside the block nothing is noted
    and nothing is slower. The mode holds for all threads. In `vjp` and its kin the backward pass is operations too:
    `forward` looks at those, and names the line that asked for the derivative. As torch.autograd.detect_anomaly, which
    looks at the backward pass alone; tf.debugging.enable_check_numerics looks at both.
    """

    def run(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        out = execution(op, inputs, attrs)
        results = out if op.results else (out,)
        stack = _stack()
        for result in results:
            if type(result.node) is Node and result.node not in _calls:
                _calls[result.node] = stack
                for edge in result.node.inputs if op.results else ():
                    if type(edge) is Node:
                        _calls[edge] = stack
        if forward:
            found = next((name for result in results if (name := _odd(result, infinities))), None)
            if found and not any(isinstance(one, Tensor) and _odd(one, infinities) for one in inputs):
                raise _error(f"{op.name} gave {found}", op.name, stack)
        return out

    def binary(op: Op, x: Any, y: Any) -> Tensor:
        return op(eager.as_operand(x, op.name), eager.as_operand(y, op.name))

    def rule(node: Node, cotangent: Any, retain_graph: bool = False, wanted: Sequence[Any] | None = None) -> Any:
        name = node.op.name
        pieces = pullback(node, cotangent, retain_graph, wanted)
        given = cotangent.pieces if isinstance(cotangent, Parts) else (cotangent,)
        before = any(_odd(one, infinities) for one in given)
        for position, piece in enumerate(pieces):
            if piece is None or isinstance(piece, Parts):
                continue
            found = _odd(piece, infinities)
            if found and not before:
                called = node.op.inputs[min(position, node.op.arity - 1)]
                raise _error(f"the gradient of {name} by its {called} is {found}", name, _calls.get(node))
        return pieces

    execution, shortcut = execution_of(Tensor), eager.binary
    # Nothing asks at each operation whether the mode is on: for the block, other functions stand in the places of the
    # style of Tensors, of its shortcut, and of the tape's rule.
    style(Tensor, run, rank=10)
    eager.binary = binary
    try:
        with rule_in_use(rule):
            yield
    finally:
        eager.binary = shortcut
        style(Tensor, execution, rank=10)


def _odd(value: Any, infinities: bool) -> str:
    """What is wrong with a tensor's or an array's entries; empty if nothing is."""
    array = value.data if isinstance(value, Tensor) else value
    if array is None or array.dtype.kind in "biu" or array.size == 0:
        return ""
    host = device_of(array).to_host(array)
    if ops.any(ops.isnan(host)):
        return "NaN"
    return "infinite" if infinities and ops.any(ops.isinf(host)) else ""


def _stack() -> traceback.StackSummary:
    """The calls that led here, without those inside the framework."""
    frames = [
        (frame, line)
        for frame, line in traceback.walk_stack(sys._getframe(1))
        if not frame.f_code.co_filename.startswith(_FRAMEWORK)
    ]
    return traceback.StackSummary.extract(iter(frames[::-1]), lookup_lines=False)


def _error(what: str, op: str, stack: traceback.StackSummary | None) -> AnomalyError:
    if not stack:
        return AnomalyError(
            f"detect_anomaly: {what}. {op} was recorded outside of detect_anomaly; run the forward pass inside "
            "to learn where.",
            op,
            None,
        )
    place = stack[-1]
    text = place.line or linecache.getline(place.filename, place.lineno or 0).strip()
    calls = "".join(stack.format())
    return AnomalyError(
        f"detect_anomaly: {what}, called in {place.filename}, line {place.lineno}: {text}\nThe calls that led there "
        f"(most recent last):\n{calls.rstrip()}",
        op,
        place,
    )
