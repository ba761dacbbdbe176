"""Views: which tensors lie on one memory, how each was cut out of it, and where in it they are.

A view remembers the tensor that it is a view of, its base, and the view rows that lead there. By those rows the tape
can follow a change through memory, either way: a change to the base gives each view a new history, which starts at the
changed base; and a change to a view gives the base one, in which the view's new value has been put back into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from internals import ops
from internals.ops.spec import normalise_axes
from internals.ops.table import Op, run_on_arrays
from internals.tensor import eager
from internals.tensor.node import mode
from internals.tensor.storage import storage_of

if TYPE_CHECKING:
    from internals.tensor.tensor import Tensor

Step = tuple[Op, dict[str, Any]]
"""A view row and its attributes."""


class View:
    """How a tensor was cut out of its base.

    Attributes
    ----------
    base : Tensor
        Not a view itself: views of views have the base of the first.
    steps : tuple of (Op, attrs)
        The rows that make the view from the base.
    unfollowed : str
        Why the tape can't follow a write through this view; empty if it can.
    """

    __slots__ = ("base", "steps", "unfollowed")

    def __init__(self, base: Tensor, steps: tuple[Step, ...], unfollowed: str) -> None:
        self.base, self.steps, self.unfollowed = base, steps, unfollowed


def view_of(tensor: Tensor) -> View | None:
    return getattr(tensor, "_view", None)


def note_view(source: Tensor, view: Tensor, op: Op, attrs: dict[str, Any]) -> None:
    """Note that `view` is on the memory of `source`, made by a view row."""
    storage_of(source).share(source, view)
    above = view_of(source)
    unfollowed = above.unfollowed if above else ""
    if not mode.recording:
        unfollowed = unfollowed or "it was made under no_grad"
    elif op.results:
        unfollowed = unfollowed or f"{op.name} gave several views at once"
    step = (op, attrs if view.node is None else view.node.attrs or attrs)  # type: ignore[union-attr]  # a Node
    view._view = View(above.base, (*above.steps, step), unfollowed) if above else View(source, (step,), unfollowed)


def recorded_view(source: Tensor, step: Step) -> Tensor:
    """The view that one step makes of `source`, on the tape if `source` is."""
    op, attrs = step
    out = eager.wrap(run_on_arrays(op, (source.data,), attrs))
    if source.node is not None:
        eager.record(op, (source,), attrs, out)
    return out


def renew_views(base: Tensor, changed: Tensor) -> None:
    """Give every view of `base` but `changed` a history that starts at the base as it is now."""
    for tensor in base.storage.tensors:
        view = view_of(tensor)
        if view is None or tensor is changed or view.base is not base or view.unfollowed:
            continue
        fresh = base
        for step in view.steps:
            fresh = recorded_view(fresh, step)
        take_over(tensor, fresh.node)


def take_over(tensor: Tensor, node: Any) -> None:
    """Let `node` be the history of a tensor that was changed; the gradient that it is to retain is of its new value."""
    retained = getattr(tensor.node, "retained", None)
    if retained is not None and tensor.node is not node:
        tensor.node.retained, node.retained = None, retained  # type: ignore[union-attr]  # a Node
    tensor.node = node


def put_back(view: View, value: Tensor) -> None:
    """Record in the base's history that `value` is now where the view is; the rest of the base is as it was."""
    before = eager.wrap(view.base.data)
    before.node = view.base.node
    sources = [before]
    for step in view.steps[:-1]:
        sources.append(recorded_view(sources[-1], step))
    for source, (op, attrs) in zip(reversed(sources), reversed(view.steps), strict=True):
        row, how = PUT_BACK[op.name](source, **attrs)
        out = eager.wrap(source.data)
        eager.record(row, (source, value) if row.arity == 2 else (value,), how, out)
        value = out
    take_over(view.base, value.node)


def _turned_back(x: Any, axes: Any) -> Step:
    if axes is None:
        return ops.transpose, {"axes": None}
    return ops.transpose, {"axes": tuple(int(i) for i in np.argsort(normalise_axes("transpose", tuple(axes), x.ndim)))}


def _shaped_back(x: Any, **_: Any) -> Step:
    return ops.reshape, {"shape": tuple(x.shape)}


PUT_BACK: dict[str, Callable[..., Step]] = {
    "getitem": lambda x, key: (ops.index_put, {"key": key}),
    "reshape": _shaped_back,
    "expand_dims": _shaped_back,
    "squeeze": _shaped_back,
    "transpose": _turned_back,
    "flip": lambda x, axis: (ops.flip, {"axis": axis}),
}
"""For a view row that can be written through, the row that puts the view's value back: ``row(source, value)`` where the
view leaves part of the source out, ``row(value)`` where it has every entry."""
