"""The tape's entries: what was run, on what, and what its rule will need.

Entries point backwards only, so a result keeps its own history alive and nothing else does. Walking them is the
business of `internals.autodiff`.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from internals.device import Array
from internals.ops.spec import Spec
from internals.ops.table import Op
from internals.tensor.storage import Storage

if TYPE_CHECKING:
    from internals.tensor.tensor import Tensor

next_order = itertools.count().__next__


Function = TypeVar("Function", bound=Callable[..., Any])


class Mode(threading.local):
    recording = True
    pulling = False
    """Whether a reverse pass runs on Tensors: its rules keep to the dtypes of the forward pass."""

    def __init__(self) -> None:
        self.before: list[bool] = []
        self.pulled: list[bool] = []


mode = Mode()


class no_grad(ContextDecorator):
    """Nothing done inside is recorded; as a context manager or a decorator. Each thread has its own setting."""

    _recording = False

    def __enter__(self) -> None:
        # On the thread, not on self: one instance may be entered again before it is left, and by several threads.
        mode.before.append(mode.recording)
        mode.recording = self._recording

    def __exit__(self, *_: object) -> None:
        mode.recording = mode.before.pop()

    def __call__(self, function: Function) -> Function:
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{type(self).__name__}: the body of {function.__qualname__} runs after the call has returned, so "
                f"decorating it changes nothing. Write `with {type(self).__name__}():` inside it."
            )
        return super().__call__(function)


class enable_grad(no_grad):
    """Record again inside a `no_grad` block."""

    _recording = True


class pulling(ContextDecorator):
    """A reverse pass whose rules run on Tensors."""

    def __enter__(self) -> None:
        mode.pulled.append(mode.pulling)
        mode.pulling = True

    def __exit__(self, *_: object) -> None:
        mode.pulling = mode.pulled.pop()


class recorded_pass(enable_grad):
    """A reverse pass that is recorded itself."""

    def __enter__(self) -> None:
        super().__enter__()
        _PULLING.__enter__()

    def __exit__(self, *_: object) -> None:
        _PULLING.__exit__()
        super().__exit__()


_PULLING = pulling()


def is_recording() -> bool:
    """Whether operations of this thread are being recorded."""
    return mode.recording


class Leaf:
    """The end of the tape: a Tensor that a gradient was asked for. Holds the gradient."""

    __slots__ = ("__weakref__", "dtype", "grad", "shape")

    inputs: tuple[()] = ()

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self.grad: Tensor | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    size = Spec.size

    def __repr__(self) -> str:
        return f"<leaf {Spec(self.shape, self.dtype)}>"


class Node:
    """One entry of the tape: an operation that was run.

    Attributes
    ----------
    op : Op
    inputs : tuple of (Node, Leaf or None)
        Where each input came from; None for an input that needs no gradient.
    saved : tuple
        For each input the Tensor, if the rule reads its value, else something that has its shape and dtype.
    guards : tuple of (Storage, int, str)
        The version of each saved value when it was saved, and what the op calls it.
    out : array or None
        The result, if the rule reads it. The bare array: the Tensor would keep this node alive in a circle.
    attrs : dict or None
    order : int
        Counts up over all nodes, so a node's order is above that of everything it was made from.
    shape, dtype
        Of the result; tuples of them for a row with several results.
    """

    __slots__ = (
        "__weakref__",
        "attrs",
        "dtype",
        "guards",
        "inputs",
        "op",
        "order",
        "out",
        "retained",
        "saved",
        "shape",
    )

    op: Op
    inputs: tuple[Node | Leaf | None, ...]
    saved: tuple[Any, ...] | None
    guards: tuple[tuple[Storage, int, str], ...]
    out: Array
    attrs: dict[str, Any] | None
    order: int
    shape: tuple[int, ...]
    dtype: np.dtype
    retained: Leaf | None

    ndim = Leaf.ndim
    size = Spec.size

    def __repr__(self) -> str:
        return f"<node {self.order}: {self.op.name} -> {', '.join(map(str, specs_of(self)))}>"


def specs_of(node: Node | Leaf) -> list[Spec]:
    """What came out of a node: one Spec, or one for each result."""
    if isinstance(node.dtype, tuple):
        return [Spec(shape, dtype) for shape, dtype in zip(node.shape, node.dtype, strict=True)]
    return [Spec(node.shape, node.dtype)]


ReversePass = Callable[..., None]
"""``reverse_pass(tensor, gradient, retain_graph=..., create_graph=...)``."""

_reverse_passes: list[ReversePass] = []


def install_reverse_pass(run: ReversePass) -> None:
    """Say who walks the tape for `Tensor.backward`: `internals.autodiff` does so when it is imported."""
    _reverse_passes[:] = [run]


def reverse_pass() -> ReversePass:
    """What `Tensor.backward` runs."""
    if not _reverse_passes:
        raise RuntimeError("backward: nothing walks the tape yet; import internals.autodiff.")
    return _reverse_passes[0]
