"""The table of import rules: for each ONNX operator that is read, what it is in rows of ours.

A rule is ``rule(call, *inputs)`` and gives the result, or a list where there are several; an input that is left out is
None. It computes with the op table on whatever it is given: on arrays what is known when the model is read, such as the
shape that a Reshape takes, and on nodes the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from internals.deploy.errors import FormatError
from internals.ops.table import Op, run_on_arrays, style
from internals.tensor import Tensor

Rule = Callable[..., Any]

READERS: dict[str, Rule] = {}

LARGEST = 2**24
"""Entries of an array that is computed while a model is read."""
MOST = 2**16
"""Parts, steps, rounds or places of a window that a node is written out in."""


class NotKnown(FormatError):
    """A value that must be known when a model is read is computed from what is fed."""


class Known(np.ndarray):
    """An array whose value is known while a model is read; what is computed from such alone is known too."""


def known(value: Any, dtype: Any = None) -> Known:
    return np.asarray(value, dtype).view(Known)


def _run(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    # What comes out is looked at first: an absurd shape costs nothing until it is computed.
    specs = op.infer_from(inputs, attrs)
    for spec in specs if isinstance(specs, tuple) else (specs,):
        if spec.size > LARGEST:
            raise FormatError(f"{op.name} would make an array of shape {spec.shape} while the model is read")
    padding = attrs.get("padding")
    if padding and len(getattr(inputs[0], "shape", ())) > 2:
        most = max((padding,) if isinstance(padding, int) else padding)
        if math.prod(size + 2 * most for size in inputs[0].shape[2:]) > LARGEST:
            raise FormatError(f"{op.name} would pad by {padding} while the model is read")
    casts = op.input_dtypes(inputs)
    arrays = []
    for value, dtype in zip(inputs, casts, strict=True):
        array = np.asarray(value) if hasattr(value, "dtype") else value
        if dtype is not None and (not hasattr(array, "dtype") or array.dtype != dtype):
            array = np.asarray(array).astype(dtype)
        arrays.append(array)
    found = run_on_arrays(op, tuple(arrays), attrs)
    return op.bundle([known(one) for one in found]) if op.results else known(found)


style(Known, _run, rank=5)


class Call:
    """One node of an ONNX graph, as a rule sees it.

    Attributes
    ----------
    name, kind : str
    attrs : dict
        Numbers, text, lists of them, arrays.
    opset : int
    outputs : int
        How many results are asked for.
    around : mapping of str to value
        What there is where the node stands, which graphs within it may read.
    """

    def __init__(self, name: str, kind: str, attrs: Mapping[str, Any], opset: int, outputs: int) -> None:
        self.name, self.kind, self.attrs, self.opset, self.outputs = name, kind, attrs, opset, outputs
        self.around: Mapping[str, Any] = {}

    def get(self, attr: str, default: Any = None) -> Any:
        return self.attrs.get(attr, default)

    def known(self, value: Any, what: str) -> np.ndarray:
        """An input's value, where it has to be known when the model is read.

        Raises
        ------
        NotKnown
            It is computed from what is fed.
        """
        if isinstance(value, Tensor):
            return value.detach().numpy()
        if not isinstance(value, np.ndarray):
            raise NotKnown(f"its {what} is known only when the model runs; here it must be known when it is read")
        return np.asarray(value)

    def integers(self, value: Any, what: str) -> list[int]:
        return [int(one) for one in self.known(value, what).reshape(-1)]

    def axes(self, ndim: int, given: Any, since: int) -> list[int] | None:
        """The axes, an attribute before operator set `since` and an input from then on; counted from the front."""
        if self.opset < since or given is None:
            axes = self.get("axes")
        else:
            axes = self.integers(given, "axes")
        return None if axes is None else [int(axis) % max(ndim, 1) for axis in axes]

    def body(self, attr: str) -> Any:
        """A graph within the node: `run(around, inputs)` gives its results, `reads(i)` says if it looks at an input."""
        found = self.attrs[attr]
        if not hasattr(found, "steps"):
            raise self.refuse(f"its attribute {attr} is no graph")
        return found

    def bounded(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of an array that is made while the model is read.

        Raises
        ------
        FormatError
            It is absurd.
        """
        sizes = tuple(int(size) for size in shape)
        if any(size < 0 for size in sizes) or math.prod(sizes) > LARGEST:
            raise self.refuse(f"it would make an array of shape {sizes} while the model is read")
        return sizes

    def counted(self, count: int, what: str) -> int:
        """How many parts the node is written out in.

        Raises
        ------
        FormatError
            They are too many.
        """
        if count > MOST:
            raise self.refuse(f"it has {count:,} {what}, each written out; more than {MOST:,} are refused")
        return count

    def refuse(self, what: str) -> FormatError:
        return FormatError(what)


def reads(*kinds: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of these operators."""

    def entered(function: Rule) -> Rule:
        for kind in kinds:
            READERS[kind] = function
        return function

    return entered
