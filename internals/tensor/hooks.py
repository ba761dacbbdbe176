"""Hooks: functions that see a cotangent as it passes a tensor on its way back, and may put another in its place.

Others see a leaf when its gradient has been added to.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from internals.tensor.node import Leaf, Node
    from internals.tensor.tensor import Tensor

HookFunction = Callable[["Tensor"], "Tensor | None"]

_next_key = itertools.count().__next__

hooks: weakref.WeakKeyDictionary[Node | Leaf, dict[int, HookFunction]] = weakref.WeakKeyDictionary()
"""The hooks of each entry of the tape that has some, in the order of registration."""

accumulated: weakref.WeakKeyDictionary[Leaf, dict[int, Callable[[], None]]] = weakref.WeakKeyDictionary()
"""The hooks of each leaf that are called when its gradient has been added to."""


class Hook:
    """A registered hook; `remove` takes it off."""

    def __init__(self, entry: Node | Leaf, function: Callable[..., Any], kind: Any = hooks) -> None:
        self._entry, self._key, self._kind = weakref.ref(entry), _next_key(), kind
        kind.setdefault(entry, {})[self._key] = function

    def remove(self) -> None:
        """Take the hook off; once it is off, nothing happens."""
        entry = self._entry()
        if entry is not None and entry in self._kind:
            self._kind[entry].pop(self._key, None)
            if not self._kind[entry]:
                del self._kind[entry]

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register(tensor: Tensor, function: HookFunction) -> Hook:
    """See `Tensor.register_hook`."""
    if tensor.node is None:
        raise RuntimeError(
            "register_hook: this tensor does not require a gradient, so no cotangent will pass it. Set requires_grad "
            "before computing."
        )
    if not callable(function):
        raise TypeError(f"register_hook: expected a function of the gradient, got {type(function).__name__}.")
    return Hook(tensor.node, function)


def register_accumulated(tensor: Tensor, function: Callable[[Tensor], None]) -> Hook:
    """See `Tensor.register_post_accumulate_grad_hook`."""
    if tensor.node is None or not tensor.is_leaf:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: only a leaf that requires a gradient is given one; use register_hook "
            "for the cotangent of a tensor that was computed."
        )
    if not callable(function):
        raise TypeError(
            f"register_post_accumulate_grad_hook: expected a function of the tensor, got {type(function).__name__}."
        )
    seen = weakref.ref(tensor)

    def called() -> None:
        leaf = seen()
        if leaf is not None:
            function(leaf)

    return Hook(tensor.node, called, accumulated)
