"""Hooks: functions that see a cotangent as it passes a tensor on its way back, and may put another in its place."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from internals.tensor.node import Leaf, Node
    from internals.tensor.tensor import Tensor

HookFunction = Callable[["Tensor"], "Tensor | None"]

_next_key = itertools.count().__next__

hooks: weakref.WeakKeyDictionary[Node | Leaf, dict[int, HookFunction]] = weakref.WeakKeyDictionary()
"""The hooks of each entry of the tape that has some, in the order of registration."""


class Hook:
    """A registered hook; `remove` takes it off."""

    def __init__(self, entry: Node | Leaf, function: HookFunction) -> None:
        self._entry, self._key = weakref.ref(entry), _next_key()
        hooks.setdefault(entry, {})[self._key] = function

    def remove(self) -> None:
        """Take the hook off; once it is off, nothing happens."""
        entry = self._entry()
        if entry is not None and entry in hooks:
            hooks[entry].pop(self._key, None)
            if not hooks[entry]:
                del hooks[entry]

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
