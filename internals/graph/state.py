"""What a session keeps from run to run: the values of variables, and the steps that read and change them.

A run sees each variable as it was when the run started. A step that changes one therefore makes a new array, unless
nobody holds the old one: then it is moved in place, which is what makes an optimizer in a graph as cheap as outside.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals import optim
from internals.device import Array, device_of, is_writable, move
from internals.graph.graph import APPLY, ASSIGN, ASSIGN_ADD, READ
from internals.graph.node import GraphError, Node, spec_text
from internals.graph.plan import Kernel, value_of
from internals.nn.weights import load_arrays, save_arrays
from internals.ops.table import Op
from internals.tensor import Tensor


class State:
    """The values of variables.

    Attributes
    ----------
    values : dict of str to array
        By the variable's name; nothing for one that was not initialised.
    lock : RLock
        Held while a run takes values, and while one is changed in place.
    """

    def __init__(self) -> None:
        self.values: dict[str, Array] = {}
        self.lock = threading.RLock()

    @property
    def kernels(self) -> dict[Op, Callable[[Node], Kernel]]:
        """How a plan runs what reads or changes variables."""
        return {ASSIGN: self._assign, ASSIGN_ADD: self._assign_add, READ: self._read, APPLY: self._apply}

    def _read(self, node: Node) -> Kernel:
        variable = node.inputs[0]
        return lambda: value_of(variable, self.values)

    def _assign(self, node: Node) -> Kernel:
        name = node.inputs[0].name

        def assign(value: Array) -> Array:
            # Nobody may change it later: who fed it, or a step that owns what it is a view of.
            value = value.copy()
            with self.lock:
                self.values[name] = value
            return value

        return assign

    def _assign_add(self, node: Node) -> Kernel:
        variable = node.inputs[0]

        def assign_add(value: Array) -> Array:
            with self.lock:
                result = np.asarray(value_of(variable, self.values) + value)
                self.values[variable.name] = result
            return result

        return assign_add

    def _apply(self, node: Node) -> Kernel:
        """A rule of `internals.optim` on one variable; its slots are variables too."""
        variable, settings = node.inputs[0], node.attrs["settings"]
        slots = node.inputs[3:]
        names = [slot.name.rpartition("/")[2] for slot in slots]
        rule = rule_of(node.attrs["optimizer"], settings)
        group = rule.param_groups[0]

        plain = type(rule) is optim.SGD and not any(settings[name] for name in ("momentum", "weight_decay", "maximize"))

        def apply(gradient: Array, lr: Any, out: Array | None = None) -> Array:
            with self.lock:
                x, lr = self._own(variable), lr if isinstance(lr, float | int) else float(_on_host(lr))
                if plain and out is not None:  # nobody reads the gradient again: its memory takes the product
                    np.subtract(x, np.multiply(gradient, lr, out=out), out=x)
                    return x
                group["lr"] = lr
                kept = {name: self._own(slot) for name, slot in zip(names, slots, strict=True)}
                if slots:
                    kept["step"] = int(kept["step"]) + 1
                    self.values[slots[0].name] = np.asarray(kept["step"], np.int64)
                rule.move(x, gradient, kept, group)
                return x

        return apply

    def _own(self, variable: Node) -> Array:
        """A variable's array to be changed in place: the one that is kept, if nobody else holds it; else a copy."""
        value = value_of(variable, self.values)
        if sys.getrefcount(value) > _KEPT_ALONE or not is_writable(value):
            value = value.copy()
            self.values[variable.name] = value
        return value

    # In files

    def save(self, path: str | os.PathLike[str], variables: Sequence[Node]) -> None:
        """Write the values of variables to a safetensors file, which is replaced whole or not at all."""
        save_arrays(path, {node.name: _on_host(value_of(node, self.values)) for node in variables})

    def restore(self, path: str | os.PathLike[str], variables: Sequence[Node], place: Any) -> None:
        """Read what `save` wrote; all values change, or none.

        Raises
        ------
        GraphError
            A variable is missing in the file, or has another shape or dtype there.
        """
        arrays, _ = load_arrays(path)
        for node in variables:
            if node.name not in arrays:
                raise GraphError(
                    f"restore: {os.fspath(path)} has no {node.name} (made at {node.where}); it has "
                    f"{', '.join(sorted(arrays)) or 'nothing'}."
                )
            found = arrays[node.name]
            if found.shape != node.shape or found.dtype != node.dtype:
                raise GraphError(
                    f"restore: {node!r} (made at {node.where}) does not fit {spec_text(found.shape, found.dtype)}, "
                    f"which {os.fspath(path)} has under its name."
                )
        moved = {node.name: move(arrays[node.name], node.device or place) for node in variables}
        with self.lock:
            self.values.update(moved)


def rule_of(optimizer: str, settings: dict[str, Any]) -> optim.Optimizer:
    """A rule of `internals.optim`, which checks its settings."""
    kind = getattr(optim, optimizer, None)
    if not (isinstance(kind, type) and issubclass(kind, optim.Optimizer)):
        raise GraphError(f"minimize: internals.optim has no optimizer called {optimizer!r}.")
    return kind([Tensor(np.zeros(1, np.float32), requires_grad=True)], **{"lr": 1.0, **settings})


def _kept_alone() -> int:
    kept = {"v": np.empty(1)}
    value = kept["v"]
    return sys.getrefcount(value)


_KEPT_ALONE = _kept_alone()


def _on_host(array: Array) -> np.ndarray:
    return device_of(array).to_host(array)
