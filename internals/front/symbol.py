"""Shapes without values: what `Input` gives and layers are called with, before there is any data.

A layer's result is found by running the layer on values that have a shape and dtype only: every operation on them is
answered by the op table's `infer`. So no layer has to say what its result's shape is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from internals.ops.operators import Operators
from internals.ops.spec import Spec
from internals.ops.table import Op, style
from internals.tensor import no_grad

if TYPE_CHECKING:
    from internals.front.layer import Layer

Shape = tuple[int | None, ...]


class Shaped(Operators):
    """A value of which only the shape and dtype are known."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    ndim, size = Spec.ndim, Spec.size

    def __repr__(self) -> str:
        return f"Shaped({self.dtype.name}{list(self.shape)})"


def _infer(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    found = op.infer_from(inputs, attrs)
    if isinstance(found, Spec):
        return Shaped(found.shape, found.dtype)
    return tuple(Shaped(spec.shape, spec.dtype) for spec in found)


style(Shaped, _infer, rank=40)


class Symbol:
    """A value that a model will have when it runs.

    Attributes
    ----------
    shape : tuple of (int or None)
        None: known only when the model runs; the batch axis always is.
    dtype : dtype
    layer : Layer or None
        What makes it; None for an input.
    inputs : tuple of Symbol
        What it is made from.
    position : int
        Which of the layer's results it is.
    name : str
        Of an input.
    """

    __slots__ = ("dtype", "inputs", "layer", "name", "position", "shape")

    def __init__(
        self,
        shape: Shape,
        dtype: Any,
        layer: Layer | None = None,
        inputs: tuple[Symbol, ...] = (),
        position: int = 0,
        name: str = "",
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.layer, self.inputs, self.position, self.name = layer, inputs, position, name

    def __repr__(self) -> str:
        maker = f", made by {self.layer.name}" if self.layer is not None else ""
        return f"<symbol {self.dtype.name}{told(self.shape)}{maker}>"


def Input(shape: Sequence[int | None], dtype: Any = "float32", *, name: str = "") -> Symbol:
    """An input of a model.

    Parameters
    ----------
    shape : sequence of (int or None)
        Of one example, without the batch axis. None: any size, such as that of a sequence.
    dtype : dtype
    name : str, optional

    Raises
    ------
    TypeError
        A shape that is no sequence of sizes: one axis of n is ``(n,)``.
    """
    if isinstance(shape, int | np.integer):
        raise TypeError(f"Input: shape must be a tuple, got {shape!r}. One axis of that size is ({shape},).")
    sizes = tuple(shape)
    wrong = [size for size in sizes if size is not None and not (isinstance(size, int | np.integer) and size > 0)]
    if wrong:
        raise TypeError(f"Input: sizes must be positive integers or None, got {wrong[0]!r} in {sizes}.")
    return Symbol((None, *sizes), dtype, name=name)


# Two sizes for what is unknown. What differs between the results is unknown in them too.
_TRIALS = ((96, 64), (160, 128))


def infer(layer: Layer, inputs: Sequence[Symbol]) -> list[tuple[Shape, np.dtype]]:
    """Shapes and dtypes of a layer's results, without computing them.

    Raises
    ------
    ValueError
        The inputs do not fit the layer.
    """
    trials = []
    training = layer.training
    layer.eval()  # what layers do in training only, such as moving averages, needs values
    try:
        with no_grad():
            for batch, other in _TRIALS:
                values = [Shaped(_filled(symbol.shape, batch, other), symbol.dtype) for symbol in inputs]
                results = layer.forward(*values)
                trials.append(results if isinstance(results, tuple | list) else [results])
    except (ValueError, TypeError, IndexError) as error:
        shapes = " and ".join(told(symbol.shape) for symbol in inputs)
        raise type(error)(f"{layer.name}: inputs of shape {shapes} (None as {batch} and {other}): {error}") from error
    finally:
        layer.train(training)
    return [
        (tuple(n if n == m else None for n, m in zip(one.shape, two.shape, strict=True)), one.dtype)
        for one, two in zip(*trials, strict=True)
    ]


def _filled(shape: Shape, batch: int, other: int) -> tuple[int, ...]:
    return tuple((batch if axis == 0 else other) if size is None else size for axis, size in enumerate(shape))


def told(shape: Shape) -> str:
    """A shape as Keras prints it."""
    return f"({', '.join(str(size) for size in shape)}{',' if len(shape) == 1 else ''})"
