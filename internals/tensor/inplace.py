"""Writing into memory that a tensor has, and keeping the tape right about it.

A recorded write gives the tensor a new history, as a new tensor would have it. Every other tensor on that memory has
changed with it: see `internals.tensor.views`. Values that rules had saved are guarded by the version of the memory,
which every write counts up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from internals import ops
from internals.device import Array, is_writable
from internals.ops.spec import kind_rank
from internals.ops.table import TABLE, Op
from internals.tensor import eager
from internals.tensor.node import Leaf, mode
from internals.tensor.storage import storage_of
from internals.tensor.views import put_back, renew_views, take_over, view_of

if TYPE_CHECKING:
    from internals.tensor.tensor import Tensor


def write_in_place(target: Tensor, op: Op, *others: Any, **attrs: Any) -> Tensor:
    """``target = op(target, *others)``, written into the memory that target has.

    Raises
    ------
    RuntimeError
        The change can't be recorded: `target` is a leaf that requires a gradient or a view of one, or a view that the
        tape can't follow. Or it is a broadcast view, whose entries share memory.
    ValueError, TypeError
        The result has another shape, or a dtype that this one can't hold.
    """
    name = f"in-place {op.name}"
    ready = (type(target), float)
    others = tuple([other if type(other) in ready else _operand(other, name, target) for other in others])
    recorded = mode.recording and _differentiable(target, others)
    if recorded:
        _check_recordable(target, op)
    array = target.data
    if not (array.flags.writeable if type(array) is np.ndarray else is_writable(array)):
        raise RuntimeError(f"{name}: this tensor is a broadcast view and can't be written to; clone() it first.")
    if not recorded and _written_at_once(op, array, others, attrs):
        storage_of(target).version += 1
        return target
    # The tape must see the value from before the write; a copy is needed only where the rule will read it.
    before = eager.wrap(array.copy() if recorded and op.inputs[0] in op.saves else array)
    before.node = target.node
    result = op(before, *others, **attrs)
    if result.shape != target.shape:
        raise ValueError(
            f"{name}: the result has shape {result.shape} and does not fit a tensor of shape {target.shape}."
        )
    if kind_rank(result.dtype) > kind_rank(target.dtype):
        raise TypeError(f"{name}: the result is {result.dtype} and can't be held by a tensor of {target.dtype}.")
    if result.dtype != target.dtype:
        result = ops.cast(result, dtype=target.dtype)
    array[...] = result.data
    storage_of(target).version += 1
    if recorded:
        _rewrite_history(target, result)
    return target


def _operand(value: Any, name: str, target: Tensor) -> Any:
    value = eager.as_operand(value, name, target)
    if not isinstance(value, bool | int | float) and type(value) is not eager.Tensor:
        raise TypeError(
            f"{name}: a {type(value).__name__} of a transformation can't be written into a tensor from outside. "
            "Use x = x + y, or ops.index_put."
        )
    return value


def _differentiable(target: Tensor, others: tuple[Any, ...]) -> bool:
    """Whether a gradient may be asked of what is written, or of what is written to."""
    if target.node is not None:
        return True
    for other in others:
        if type(other) is eager.Tensor and other.node is not None:
            return True
    if target._storage is None:  # as most are; asking for the view of one that is none costs more
        return False
    view = view_of(target)
    return view is not None and view.base.node is not None


def _check_recordable(target: Tensor, op: Op) -> None:
    view = view_of(target)
    if type(target.node) is Leaf or (view is not None and type(view.base.node) is Leaf):
        raise RuntimeError(
            f"in-place {op.name}: this tensor is a leaf that requires a gradient, or a view of one; its value at "
            "recording would be lost. Use no_grad() for an update, or an operation that makes a new tensor."
        )
    if view is not None and view.unfollowed:
        raise RuntimeError(
            f"in-place {op.name}: the tape can't follow a change through this view: {view.unfollowed}. Make the view "
            "alone and where operations are recorded, or clone() it first."
        )
    if not op.differentiable:
        raise RuntimeError(f"in-place {op.name}: {op.name} has no derivative, and this tensor requires a gradient.")


def _rewrite_history(target: Tensor, result: Tensor) -> None:
    """Give `target`, and all who share its memory, the history of what was written."""
    node = result.node
    if node is not None and node.out is result.data:  # type: ignore[union-attr]  # a Node
        # What the rule will read is the memory of the target from now on, so a later write to it has to be noticed.
        own, ours = result._storage, storage_of(target)
        node.out = target.data  # type: ignore[union-attr]
        node.guards = tuple(  # type: ignore[union-attr]
            [
                (ours, ours.version, name) if storage is own else (storage, version, name)
                for storage, version, name in node.guards  # type: ignore[union-attr]
            ]
        )
    take_over(target, node)
    view = view_of(target)
    if view is not None:
        put_back(view, target)
    if storage_of(target).is_shared(target):
        renew_views(target if view is None else view.base, target)


def _written_at_once(op: Op, array: Array, others: tuple[Any, ...], attrs: dict[str, Any]) -> bool:
    """Write the result straight into `array` where no copy is needed for that; whether it was."""
    if type(array) is not np.ndarray or array.dtype not in eager.SHORT or len(others) != 1:
        return False
    operand = others[0]
    if type(operand) is eager.Tensor:
        operand = operand.data
        if type(operand) is not np.ndarray or operand.dtype is not array.dtype:
            return False
        fits = operand.shape == array.shape or operand.ndim == 0
    elif type(operand) is float:
        fits = True
    else:
        return False
    if op is ops.index_put:
        op.infer_from((array, operand), attrs)
        array[attrs["key"]] = operand
        return True
    if fits and op.arity == 2 and isinstance(op.on_numpy, np.ufunc):
        op.on_numpy(array, operand, out=array)
        return True
    return False


def in_place(op: Op) -> Callable[..., Tensor]:
    """The method ``x.name_(...)`` of a row: ``name(x, ...)``, written into x."""

    def method(self: Tensor, *others: Any, **attrs: Any) -> Tensor:
        return write_in_place(self, op, *others, **attrs)

    method.__name__ = method.__qualname__ = f"{op.name}_"
    method.__doc__ = f"`ops.{op.name}`, written into this tensor."
    return method


def rows_in_place() -> list[Op]:
    """The rows that have such a method: one entry in, one entry out, and differentiable."""
    rooms, copies = ("elementwise", "functions", "activations"), ("cast", "clone")
    return [op for op in TABLE.values() if op.room in rooms and op.has_rule(0) and op.name not in copies]
