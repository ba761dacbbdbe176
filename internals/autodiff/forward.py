"""Forward mode: carry a tangent along with every value, through the same table.

A dual number is a value and how it changes along one direction. Running a row on duals runs it on the values, and
pushes the tangents forward by the row's `jvp`. Nothing is recorded: when the value is there, so is its derivative
(Wengert 1964).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.ops.operators import Operators
from internals.ops.rules import promoted, push
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Op, style
from internals.tensor import Tensor

_next_level = itertools.count(1).__next__


class Dual(Operators):
    """A value and its tangent.

    Attributes
    ----------
    value : Tensor, or a Dual of an enclosing `jvp`
    tangent : like `value`
        Of its shape and dtype; None where it is zero.
    level : int
        Which `jvp` it belongs to: inside a nested one, the outer one's duals are constants.
    """

    __slots__ = ("level", "tangent", "value")

    def __init__(self, value: Any, tangent: Any, level: int) -> None:
        self.value, self.tangent, self.level = value, tangent, level

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, tangent={self.tangent!r})"


def run_on_duals(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run a row on the values, and push the tangents forward beside it."""
    inputs = promoted(op, inputs)
    level = max(value.level for value in inputs if isinstance(value, Dual))
    mine = [isinstance(value, Dual) and value.level == level for value in inputs]
    values = [value.value if own else value for value, own in zip(inputs, mine, strict=True)]
    tangents = [value.tangent if own else None for value, own in zip(inputs, mine, strict=True)]
    out = op(values, **attrs) if op.variadic else op(*values, **attrs)
    if op.results:
        pushed = push(op, tangents, out, values, attrs) or (None,) * len(out)
        return op.bundle(
            [
                one if one.dtype.kind in "biu" else Dual(one, tangent, level)
                for one, tangent in zip(out, pushed, strict=True)
            ]
        )
    tangent = push(op, tangents, out, values, attrs) if out.dtype.kind not in "biu" else None
    return Dual(out, tangent, level)


def jvp(
    function: Callable[..., Any], primals: Tensor | Sequence[Tensor], tangents: Tensor | Sequence[Tensor]
) -> tuple[Any, Any]:
    """A function's value, and its derivative along one direction, in one forward pass.

    Parameters
    ----------
    function : callable
        Takes as many tensors as there are primals and returns one. It is given dual numbers, which can be used in
        operations and indexed as Tensors can.
    primals : Tensor or sequence of Tensors
        Where to differentiate.
    tangents : Tensor or sequence of Tensors
        The direction; each of the shape and dtype of its primal.

    Returns
    -------
    value, tangent : Tensor
        Of one shape and dtype (duals, where the call is inside another `jvp`). They can be differentiated in turn,
        backward or forward.

    Raises
    ------
    ValueError
        A tangent does not fit its primal, or their numbers differ.
    TypeError
        A primal is not floating, or the function returns something else than a tensor.
    """
    points = [primals] if isinstance(primals, Tensor | Dual) else list(primals)
    directions = [tangents] if isinstance(tangents, Tensor | Dual) else list(tangents)
    if len(points) != len(directions):
        raise ValueError(f"jvp: {len(points)} primals need as many tangents, got {len(directions)}.")
    for position, (point, direction) in enumerate(zip(points, directions, strict=True)):
        if point.dtype.kind in "biu":
            raise TypeError(f"jvp: primal {position} is {point.dtype}; only floating tensors have a derivative.")
        if point.shape != direction.shape or point.dtype != direction.dtype:
            raise ValueError(
                f"jvp: tangent {position} is {Spec(direction.shape, direction.dtype)}, but its primal "
                f"{Spec(point.shape, point.dtype)}; they must agree."
            )
    level = _next_level()
    out = function(*[Dual(point, direction, level) for point, direction in zip(points, directions, strict=True)])
    if not isinstance(out, Tensor | Dual):
        raise TypeError(f"jvp: the function returned {type(out).__name__}; expected a tensor.")
    if not isinstance(out, Dual) or out.level != level:
        return out, TABLE["zeros_like"](out)
    return out.value, TABLE["zeros_like"](out.value) if out.tangent is None else out.tangent


style(Dual, run_on_duals, rank=20)
