"""What hooks do to a cotangent on its way back, and when a leaf's gradient is complete."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from internals.ops.spec import Spec
from internals.tensor import Leaf, Node, Tensor, wrap
from internals.tensor.hooks import accumulated, hooks


def passed(entry: Any, cotangent: Any) -> Any:
    """A cotangent after the hooks of an entry of the tape: a bare array or a Tensor, as it came.

    Raises
    ------
    TypeError, RuntimeError
        A hook returned something that can't stand for the gradient it was given.
    """
    recorded = type(cotangent) is Tensor
    for function in list(hooks[entry].values()):
        given = cotangent if recorded else wrap(np.asarray(cotangent) if np.isscalar(cotangent) else cotangent)
        came = function(given)
        if came is None:
            continue
        if not isinstance(came, Tensor):
            raise TypeError(
                f"register_hook: a hook returned {type(came).__name__}; expected a tensor, or None to change nothing."
            )
        if came.shape != given.shape or came.dtype != given.dtype or came.device is not given.device:
            raise RuntimeError(
                f"register_hook: a hook returned {Spec(came.shape, came.dtype)} on {came.device} for a gradient of "
                f"{Spec(given.shape, given.dtype)} on {given.device}; they must agree."
            )
        cotangent = came if recorded else came.data
    return cotangent


def last_readers(start: Iterable[Node | Leaf]) -> dict[Node, list[Leaf]]:
    """For each node, the leaves that are complete once a pass from `start` has been through it.

    A pass goes from the highest order down, so a leaf waits for the node of the lowest order that reads it. Only
    leaves are looked for that have a hook on their gradient.
    """
    reader: dict[Leaf, Node] = {}
    seen: set[Any] = set()
    stack = [node for node in start if type(node) is Node]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for edge in node.inputs:
            if type(edge) is Node:
                stack.append(edge)
            elif edge in accumulated and (edge not in reader or node.order < reader[edge].order):
                reader[edge] = node  # type: ignore[index]
    done: dict[Node, list[Leaf]] = {}
    for leaf, node in reader.items():
        done.setdefault(node, []).append(leaf)
    return done


class WholePass(threading.local):
    """A backward pass from its start until all gradients are added up; passes may be nested in a thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.endings: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.depth -= 1
        if self.depth == 0 and self.endings:
            endings, self.endings = self.endings, []
            if kind is None:
                for ending in endings:
                    ending()


whole_pass = WholePass()


def after_backward(function: Callable[[], None]) -> None:
    """Call a function when the backward pass of this thread is over; for hooks, which run in the middle of one.

    Raises
    ------
    RuntimeError
        There is no pass.
    """
    if not whole_pass.depth:
        raise RuntimeError("after_backward: no backward pass is going on in this thread; call it from a hook.")
    whole_pass.endings.append(function)
