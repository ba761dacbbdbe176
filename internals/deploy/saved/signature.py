"""What a saved model can be called with: named inputs, each with a shape, of which sizes may be open, and a dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from internals.deploy.errors import SignatureError
from internals.ops.spec import as_dtype
from internals.tensor import Tensor

Size = int | str | None
"""A size; or an open one: by a name, which is one size throughout a call, or None, which may differ each time."""

MOST_AXES = 32
LARGEST = 2**40
"""More entries along one axis than any machine's memory has."""


_SHAPES, _WHOLE = (tuple, list), (int, np.integer)


class TensorSpec:
    """The shape and dtype of one input or output.

    Parameters
    ----------
    shape : sequence of (int, str or None)
        A size that is left open is a name, such as ``"batch"``, or None.
    dtype : dtype, optional

    Raises
    ------
    TypeError, ValueError
        A size that is none of these, or no such dtype.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Sequence[Size], dtype: Any = "float32") -> None:
        if not isinstance(shape, _SHAPES) and (isinstance(shape, str) or not isinstance(shape, Sequence)):
            raise TypeError(f"TensorSpec: shape must be a tuple, got {shape!r}. One axis of that size is ({shape!r},).")
        for size in shape:
            whole = isinstance(size, _WHOLE) and not isinstance(size, bool)
            if not (size is None or whole or (isinstance(size, str) and size.isidentifier())):
                raise TypeError(
                    f"TensorSpec: sizes are whole numbers, names or None, got {size!r} in {tuple(shape)!r}."
                )
            if isinstance(size, int) and not 0 <= size <= LARGEST:
                raise ValueError(f"TensorSpec: a size must be 0 to {LARGEST}, got {size} in {tuple(shape)!r}.")
        if len(shape) > MOST_AXES:
            raise ValueError(f"TensorSpec: at most {MOST_AXES} axes, got {len(shape)}.")
        self.shape: tuple[Size, ...] = tuple([int(s) if isinstance(s, np.integer) else s for s in shape])
        self.dtype = as_dtype("TensorSpec", dtype)

    @property
    def open_shape(self) -> tuple[int | None, ...]:
        """The shape with None for every size that is left open, as graphs have it."""
        return tuple([size if isinstance(size, int) else None for size in self.shape])

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of open sizes."""
        return tuple(dict.fromkeys(size for size in self.shape if isinstance(size, str)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"{self.dtype.name}[{', '.join('?' if size is None else str(size) for size in self.shape)}]"


@dataclass(frozen=True)
class Signature:
    """One way to call a model.

    Parameters
    ----------
    inputs : mapping of str to TensorSpec
        In the order in which the function takes them. When a Graph is saved: to its Nodes.
    outputs : sequence of str, optional
        Names for the results, in order. When a Graph is saved: a mapping of str to Nodes.
    function : callable, optional
        What is traced; the model's own call unless given.

    Attributes
    ----------
    results : mapping of str to TensorSpec
        What comes out; known of a model that was loaded.
    """

    inputs: Mapping[str, Any]
    outputs: Any = ()
    function: Callable[..., Any] | None = None
    results: Mapping[str, TensorSpec] = field(default_factory=dict)

    def __str__(self) -> str:
        given, made = (", ".join(f"{k}: {v}" for k, v in part.items()) for part in (self.inputs, self.results))
        return f"({given}) -> ({made})"


def fitted(name: str, inputs: Mapping[str, TensorSpec], given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a call, checked against what the signature says.

    Plain Python lists take the input's dtype, if it holds them; arrays and Tensors must have it.

    Raises
    ------
    SignatureError
        An input is missing or unknown, of another dtype or shape, or two open sizes of one name differ.
    """
    for kind, names in (("missing", inputs.keys() - given.keys()), ("unknown", given.keys() - inputs.keys())):
        if names:
            raise SignatureError(
                f"{name}: {kind} input {', '.join(sorted(map(str, names)))}; it takes "
                f"{', '.join(f'{one}: {spec}' for one, spec in inputs.items()) or 'none'}."
            )
    sizes: dict[str, tuple[int, str]] = {}
    arrays = {}
    for key, spec in inputs.items():
        array = arrays[key] = _array(f"{name}: {key}", spec, given[key])
        if len(array.shape) != len(spec.shape):
            raise SignatureError(f"{name}: {key} has shape {array.shape}; expected {spec}, of {len(spec.shape)} axes.")
        for axis, (size, came) in enumerate(zip(spec.shape, array.shape, strict=True)):
            if isinstance(size, int) and size != came:
                raise SignatureError(f"{name}: {key} has shape {array.shape}; expected {spec}: axis {axis} is {size}.")
            if isinstance(size, str):
                known, where = sizes.setdefault(size, (came, f"{key}, axis {axis}"))
                if known != came:
                    raise SignatureError(
                        f"{name}: {size} is {known} in {where} and {came} in {key}, axis {axis}; it must be one size."
                    )
    return arrays


def _array(what: str, spec: TensorSpec, value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.detach().to("cpu").numpy()
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype != spec.dtype:
            raise SignatureError(
                f"{what} is {value.dtype.name}; expected {spec}. Cast it: value.astype({spec.dtype.name!r})."
            )
        return np.asarray(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise SignatureError(f"{what} is no array ({error}); expected {spec}.") from None
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(spec.dtype)
    whole = array.dtype.kind in "iu" and spec.dtype.kind in "iu"  # whose range is looked at below
    if array.dtype.kind not in "biuf" or not (whole or np.can_cast(array.dtype, spec.dtype, "same_kind")):
        told = {"U": "texts", "O": "nulls or objects"}.get(array.dtype.kind, array.dtype.name)
        raise SignatureError(f"{what} holds {told}; expected {spec}.")
    if whole and array.size:
        bounds = np.iinfo(spec.dtype)
        if array.min() < bounds.min or array.max() > bounds.max:
            raise SignatureError(f"{what} has entries that {spec.dtype.name} can't hold; expected {spec}.")
    return array.astype(spec.dtype)
