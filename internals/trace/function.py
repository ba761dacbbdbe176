"""A Python function that runs as a graph: traced once for each kind of call, then run without Python's own steps.

Tracing runs the function on placeholders. What it does to them is written down; what else it does happens now, and not
again: a ``print`` prints once, an ``if`` is decided once. The trace is kept under everything that it depends on, and
made anew when some of that is different.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals.autodiff import tree
from internals.device import device_of
from internals.graph import Function, GraphError, Node
from internals.graph.function import FunctionGraph, as_node
from internals.graph.split import split_op
from internals.ops import Op
from internals.ops.table import is_array
from internals.tensor import Tensor, is_recording, wrap
from internals.trace.state import fingerprint, read_by


class TraceError(GraphError):
    """A function can't be run as a graph; says which line and what to write instead."""


@dataclass
class Trace:
    """One trace.

    Attributes
    ----------
    function : Function
    signature : str
        The arguments it was made for.
    reason : str
        Why it was made.
    """

    function: Function
    signature: str
    reason: str
    answer: Any
    """What the function gave, nodes in it numbered by `places`."""
    places: list[int | None]

    @functools.cached_property
    def op(self) -> Op:
        """The function as one differentiable operation; made when a gradient is first asked for."""
        return split_op(self.function)

    def run(self, tensors: list[Tensor]) -> list[Tensor]:
        """The outputs for these inputs, recorded where a gradient may be asked."""
        values = [*tensors, *self.function.captures]
        if is_recording() and any(value.node is not None for value in values if isinstance(value, Tensor)):
            return list(self.op(values))
        arrays = [value.data if isinstance(value, Tensor) else value for value in values]
        return [wrap(np.asarray(one) if isinstance(one, np.generic) else one) for one in self.function(*arrays)]


class Traced:
    """A function that runs as a graph. Made by `function`.

    Attributes
    ----------
    traces : list of Trace
        In the order in which they were made.
    """

    def __init__(self, python: Callable[..., Any], *, most: int = 32) -> None:
        functools.update_wrapper(self, python)
        self.python, self.most = python, most
        self.traces: list[Trace] = []
        self._kept: dict[Any, Trace] = {}
        self._bound: weakref.WeakKeyDictionary[Any, Traced] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: type | None = None) -> Traced:
        if instance is None:
            return self
        if instance not in self._bound:
            self._bound[instance] = Traced(self.python.__get__(instance, owner), most=self.most)
        return self._bound[instance]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = tree.leaves((args, kwargs))
        if any(isinstance(value, Node) for value in given):
            return self.python(*args, **kwargs)  # inside another trace: part of it
        tensors = [value if isinstance(value, Tensor) else Tensor(value) for value in given if _is_tensor(value)]
        trace = self.trace_for(args, kwargs, given)
        found = trace.run(tensors)
        return tree.rebuilt(
            trace.answer,
            [
                value if place is None else found[place]
                for value, place in zip(tree.leaves(trace.answer), trace.places, strict=True)
            ],
        )

    def trace_for(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Any] | None = None) -> Trace:
        """The trace that a call with these arguments uses; made if there is none."""
        given = tree.leaves((args, kwargs)) if given is None else given
        key = (
            tree.shape_of_tree((args, kwargs)),
            tuple([_kind(value) for value in given]),
            tuple([(name, fingerprint(value)) for name, value in read_by(self.python).items()]),
            fingerprint(getattr(self.python, "__self__", None)),
            is_recording(),
        )
        trace = self._kept.get(key)
        if trace is None:
            with self._lock:
                trace = self._kept.get(key)
                if trace is None:
                    trace = self._made(args, kwargs, given, key)
                    self._kept[key] = trace
                    self.traces.append(trace)
        return trace

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Any], key: Any) -> Trace:
        if len(self.traces) >= self.most:
            raise TraceError(
                f"{self.python.__name__}: traced {self.most} times, the last time because {self.traces[-1].reason}. "
                "Something changes at every call: pass it as a Tensor, or raise `most`."
            )
        before = {name: fingerprint(value) for name, value in read_by(self.python).items()}
        graph = FunctionGraph()
        with graph:
            inputs: list[Node] = []
            leaves = []
            for value in given:
                if _is_tensor(value):
                    inputs.append(graph.placeholder(value.shape, value.dtype, name=f"input_{len(inputs)}"))
                    leaves.append(inputs[-1])
                else:
                    leaves.append(value)
            traced_args, traced_kwargs = tree.rebuilt((args, kwargs), leaves)
            answer = self.python(*traced_args, **traced_kwargs)
            outputs: list[Node] = []
            places: list[int | None] = []
            for value in tree.leaves(answer):
                if isinstance(value, Node | Tensor) or is_array(value):
                    places.append(len(outputs))
                    outputs.append(as_node(graph, value))
                else:
                    places.append(None)
        for name, was in before.items():
            if fingerprint(read_by(self.python).get(name)) != was:
                raise TraceError(
                    f"{self.python.__name__}: tracing it changed {name!r}, which happens once, not at every call. "
                    "Return the value instead."
                )
        function = Function(graph, inputs, outputs, self.python.__name__)
        signature = ", ".join(_shown(value) for value in given)
        return Trace(function, signature, self._reason(key), answer, places)

    def _reason(self, key: Any) -> str:
        if not self._kept:
            return "it was called for the first time"
        last = list(self._kept)[-1]
        for position, (now, before) in enumerate(zip(key[1], last[1], strict=False)):
            if now != before:
                return f"argument {position} was {_kind_text(before)} and is {_kind_text(now)}"
        for (name, now), (_, before) in zip(key[2], last[2], strict=False):
            if now != before:
                return f"{name} is not what it was"
        return "the structure of its arguments, its object or the recording of gradients changed"

    def __repr__(self) -> str:
        return f"<traced {self.python.__name__}: {len(self.traces)} traces>"


def function(python: Callable[..., Any] | None = None, *, most: int = 32) -> Any:
    """Run a function as a graph, as ``@function`` or ``@function(most=...)``.

    Parameters
    ----------
    python : callable
        Of Tensors, and of Python values, in nested tuples, lists and dicts; so is what it returns.
    most : int
        How many traces are made before something must be wrong.

    Returns
    -------
    Traced
        Called as the function is. Its results are on the tape as one operation, whose backward part is a graph too.
    """
    return functools.partial(Traced, most=most) if python is None else Traced(python, most=most)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _kind(value: Any) -> Any:
    if _is_tensor(value):
        array = value.data if isinstance(value, Tensor) else value
        return "tensor", value.shape, value.dtype, device_of(array).name
    return fingerprint(value)


def _kind_text(kind: Any) -> str:
    return f"{kind[2]}{list(kind[1])} on {kind[3]}" if kind[0] == "tensor" and len(kind) == 4 else repr(kind[-1])


def _shown(value: Any) -> str:
    return _kind_text(_kind(value)) if _is_tensor(value) else repr(value)
