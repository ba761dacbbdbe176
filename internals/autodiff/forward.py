"""Forward mode: carry a tangent along with every value, through the same table.

A dual number is a value and how it changes along one direction. Running a row on duals runs it on the values, and
pushes the tangents forward by the row's `jvp`. Nothing is recorded: when the value is there, so is its derivative
(Wengert 1964).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from internals.autodiff import tree
from internals.autodiff.lifted import Lifted, apply, is_tensor, next_level
from internals.ops.rules import promoted, push
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Op


class Dual(Lifted):
    """A value and its tangent.

    Attributes
    ----------
    value : Tensor, or a value of an enclosing transformation
    tangent : like `value`
        Of its shape and dtype; None where it is zero.
    level : int
        Which `jvp` it belongs to: inside a nested one, the outer one's duals are constants.
    """

    __slots__ = ("tangent",)

    def __init__(self, value: Any, tangent: Any, level: int) -> None:
        self.value, self.tangent, self.level = value, tangent, level

    @classmethod
    def run(cls, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], level: int) -> Any:
        """Run a row on the values, and push the tangents forward beside it."""
        inputs = promoted(op, inputs)
        mine = [type(value) is Dual and value.level == level for value in inputs]
        values = [value.value if own else value for value, own in zip(inputs, mine, strict=True)]
        tangents = [value.tangent if own else None for value, own in zip(inputs, mine, strict=True)]
        out = apply(op, values, attrs)
        if op.results:
            pushed = push(op, tangents, out, values, attrs) or (None,) * len(out)
            return op.bundle(
                [
                    one if one.dtype.kind in "biu" else Dual(one, tangent, level)
                    for one, tangent in zip(out, pushed, strict=True)
                ]
            )
        if out.dtype.kind in "biu":
            return out
        return Dual(out, push(op, tangents, out, values, attrs), level)

    def beneath(self) -> tuple[Any, ...]:
        return (self.value, self.tangent)

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, tangent={self.tangent!r})"


def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """A function's value, and its derivative along one direction, in one forward pass.

    Parameters
    ----------
    function : callable
        Takes as many arguments as there are primals and returns a tensor, or a nested structure of them. It is given
        dual numbers, which can be used in operations and indexed as Tensors can.
    primals : Tensor, or sequence of arguments
        Where to differentiate. An argument is a Tensor, or a nested tuple, list or dict of them.
    tangents : like `primals`
        The direction; each of the shape and dtype of its primal. None where an argument does not move.

    Returns
    -------
    value, tangent : as the function returns
        Of one shape and dtype (values of the outer transformation, where the call is inside one). They can be
        differentiated in turn, backward or forward.

    Raises
    ------
    ValueError
        A tangent does not fit its primal, or their numbers differ.
    TypeError
        A primal that moves is not floating, or the function returns something else than tensors.
    """
    arguments = (primals,) if is_tensor(primals) else tuple(primals)
    points = tree.leaves(arguments)
    directions = tree.leaves([tangents] if is_tensor(tangents) else list(tangents))
    if len(points) != len(directions):
        raise ValueError(f"jvp: {len(points)} primals need as many tangents, got {len(directions)}.")
    level = next_level()
    lifted = [
        point if direction is None else _dual(position, point, direction, level)
        for position, (point, direction) in enumerate(zip(points, directions, strict=True))
    ]
    result = function(*tree.rebuilt(arguments, lifted))
    outs = tree.leaves(result)
    for out in outs:
        if not is_tensor(out):
            raise TypeError(f"jvp: the function returned {type(out).__name__}; expected a tensor.")
    pairs = [(out.value, out.tangent) if isinstance(out, Dual) and out.level == level else (out, None) for out in outs]
    moved = [TABLE["zeros_like"](value) if tangent is None else tangent for value, tangent in pairs]
    return tree.rebuilt(result, [value for value, _ in pairs]), tree.rebuilt(result, moved)


def _dual(position: int, point: Any, direction: Any, level: int) -> Dual:
    if not is_tensor(point) or not is_tensor(direction):
        given = (point if not is_tensor(point) else direction).__class__.__name__
        raise TypeError(f"jvp: primal {position} and its tangent must be tensors, got {given}.")
    if point.dtype.kind in "biu":
        raise TypeError(f"jvp: primal {position} is {point.dtype}; only floating tensors have a derivative.")
    if point.shape != direction.shape or point.dtype != direction.dtype:
        raise ValueError(
            f"jvp: tangent {position} is {Spec(direction.shape, direction.dtype)}, but its primal "
            f"{Spec(point.shape, point.dtype)}; they must agree."
        )
    if point.device is not direction.device:
        raise ValueError(
            f"jvp: tangent {position} is on {direction.device}, but its primal on {point.device}. Move it: "
            f"tangent.to('{point.device}')."
        )
    return Dual(point, direction, level)
