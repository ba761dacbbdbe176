"""Shapes and dtypes: what is known of a value without computing it, and the rules by which they combine."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]

DEFAULT_FLOAT = np.dtype(np.float32)


class Spec:
    """What is known of a value without computing it: its shape and dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


def shape_of(value: Any) -> Shape:
    """The shape of an array, Spec or Tensor; a Python number is 0-d."""
    return tuple(value.shape) if hasattr(value, "shape") else ()


def dtype_of(value: Any) -> np.dtype:
    """The dtype of an array, Spec or Tensor, or the one a Python number takes alone."""
    return np.dtype(value.dtype) if hasattr(value, "dtype") else promote([value])


def promote(values: Sequence[Any]) -> np.dtype:
    """The dtype that values of several dtypes are brought to.

    The kind decides first (boolean < integer < floating), then the width among values of that kind; Python numbers only
    raise the kind. So int64 with float32 is float32, and float32 with the number 2.5 stays float32: PyTorch's rules,
    where NumPy would go to float64 in the first case. A 0-d array counts as any array does (NumPy 2;
    PyTorch lets it yield).
    """
    dtypes = [value.dtype for value in values if hasattr(value, "dtype")]
    if dtypes and dtypes[0].kind == "f" and dtypes.count(dtypes[0]) == len(dtypes):
        return dtypes[0]  # as nearly always
    kinds = [kind_rank(dtype) for dtype in dtypes]
    rank = max(kinds, default=-1)
    scalars = max((_scalar_rank(value) for value in values if isinstance(value, bool | int | float)), default=-1)
    if scalars > rank:
        return (np.dtype(bool), np.dtype(np.int64), DEFAULT_FLOAT)[scalars]
    if rank < 0:
        raise TypeError("promote: none of the values has a dtype.")
    widest = [dtype for dtype, kind in zip(dtypes, kinds, strict=True) if kind == rank]
    if len({dtype for dtype in widest if is_half(dtype)}) == 2:
        widest.append(DEFAULT_FLOAT)  # neither of float16 and bfloat16 holds the other
        widest = [dtype for dtype in widest if not is_half(dtype)]
    return np.result_type(*widest)


def as_arrays(xp: Any, values: Sequence[Any]) -> Sequence[Any]:
    """The values, with Python numbers as 0-d arrays of the dtype that all are brought to.

    NumPy's ufuncs let a number yield to an array; functions such as stack and einsum make float64 of it first.
    """
    if all(hasattr(value, "dtype") for value in values):
        return values
    dtype = promote(values)
    return [value if hasattr(value, "dtype") else xp.asarray(value, dtype=dtype) for value in values]


def kind_rank(dtype: np.dtype) -> int:
    return 0 if dtype.kind == "b" else 1 if dtype.kind in "iu" else 2


def is_floating(dtype: np.dtype) -> bool:
    """Whether entries are floating numbers. NumPy's ``kind`` of bfloat16, which is not its own, is "V"."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name == "bfloat16")


def is_half(dtype: np.dtype) -> bool:
    """Whether it is float16 or bfloat16."""
    return dtype.itemsize == 2 and is_floating(dtype)


def as_dtype(name: str, dtype: Any) -> np.dtype:
    """`dtype` as NumPy has it, in this machine's byte order; `name` is who asks, for the error.

    Raises
    ------
    TypeError
        There is no such dtype.
    ImportError
        It is bfloat16, and ml_dtypes is not installed.
    """
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            importlib.import_module("ml_dtypes")  # with it, NumPy knows the name
        except ImportError:
            raise ImportError(
                f"{name}: bfloat16 needs ml_dtypes, which is not installed. Install it with: pip install ml_dtypes"
            ) from None
    try:
        if dtype is not None:  # NumPy takes None for float64
            return np.dtype(dtype).newbyteorder("=")
    except TypeError:
        pass
    raise TypeError(f"{name}: {dtype!r} is not a dtype; expected one such as 'float32' or numpy.int64.")


def _scalar_rank(value: bool | int | float) -> int:
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape that `shapes` broadcast to: aligned at the right, axes of size 1 are stretched.

    Raises
    ------
    ValueError
        An axis has two sizes, neither of them 1; names the op, the shapes and the axis.
    """
    ndim = max((len(shape) for shape in shapes), default=0)
    result: list[int] = []
    for axis in range(-ndim, 0):
        sizes = _sizes_along(axis, shapes)
        if len(sizes) > 1:
            raise ValueError(
                f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast: axis {axis} has sizes "
                f"{' and '.join(map(str, sorted(sizes)))}. Axes are aligned at the right; one of two sizes must be 1, "
                "or both equal."
            )
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def _sizes_along(axis: int, shapes: Sequence[Shape]) -> set[int]:
    """The sizes other than 1 of an axis, counted from the back, of the shapes that have it."""
    return {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}


def explain_broadcast(*shapes: Shape) -> str:
    """How `broadcast_shapes` comes to its result, or why there is none: a table with a column for each axis.

    Parameters
    ----------
    shapes : tuple of int

    Returns
    -------
    str
        One line for each shape, aligned at the right, and one for the result. ``1 -> 4`` is an axis that is stretched,
        ``-> 4`` one that is added in front, ``!`` marks an axis whose sizes do not go together.
    """
    ndim = max((len(shape) for shape in shapes), default=0)
    along = {axis: _sizes_along(axis, shapes) for axis in range(-ndim, 0)}
    rows = [["axis", *map(str, along)]]
    for shape in shapes:
        cells = [str(tuple(shape))]
        for axis, sizes in along.items():
            own = shape[axis] if len(shape) >= -axis else None
            new = next(iter(sizes), 1) if len(sizes) < 2 else None
            if own == new or new is None:
                cells.append("" if own is None else str(own))
            else:
                cells.append(f"-> {new}" if own is None else f"{own} -> {new}")
        rows.append(cells)
    try:
        result = broadcast_shapes("broadcast", *shapes)
        rows.append([str(result), *map(str, result)])
        verdict = ""
    except ValueError as error:
        rows.append(["none", *("!" if len(sizes) > 1 else "" for sizes in along.values())])
        verdict = f"\n{error}"
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]
    rule = "-" * max(map(len, lines))
    return "\n".join([*lines[:1], rule, *lines[1:-1], rule, lines[-1]]) + verdict


def normalise_axis(name: str, axis: int, ndim: int) -> int:
    """`axis` counted from the front.

    Raises
    ------
    ValueError
        The axis is not there.
    """
    if not isinstance(axis, int | np.integer):
        raise TypeError(f"{name}: axis must be an integer, got {type(axis).__name__}.")
    if not -ndim <= axis < ndim:
        there = f"axes {-ndim} to {ndim - 1}" if ndim else "no axes"
        raise ValueError(f"{name}: axis {axis} is out of range; a tensor of {ndim} dimensions has {there}.")
    return int(axis) % ndim


def normalise_axes(name: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """`axis` as a tuple counted from the front: None means every axis."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(normalise_axis(name, one, ndim) for one in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: axis {axis} names an axis twice.")
    return axes
