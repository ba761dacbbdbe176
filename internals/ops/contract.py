"""Sums of products over chosen axes: einsum, tensordot, outer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from internals.ops.linalg import matmul
from internals.ops.shape import broadcast_to, reshape, transpose
from internals.ops.spec import Spec, as_arrays, normalise_axes, shape_of
from internals.ops.table import row


def _parsed(equation: Any) -> tuple[list[str], str]:
    """The subscripts of each operand, and those of the result."""
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation must be a string such as 'ij,jk->ik', got {equation!r}.")
    given, arrow, result = equation.replace(" ", "").partition("->")
    operands = given.split(",")
    letters = given.replace(",", "")
    if "." in equation:
        raise ValueError(f"einsum: {equation!r}: '...' is not understood here. Name every axis by a letter.")
    if not all(letter.isascii() and letter.isalpha() for letter in letters + result):
        raise ValueError(f"einsum: {equation!r}: axes are named by single letters, as in 'ij,jk->ik'.")
    if not arrow:
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    for one in [*operands, result]:
        twice = next((letter for letter in one if one.count(letter) > 1), None)
        if twice is not None:
            raise ValueError(
                f"einsum: {equation!r}: {twice} stands twice in {one!r}. Take the diagonal first: diagonal(x)."
            )
    unknown = set(result) - set(letters)
    if unknown:
        raise ValueError(f"einsum: {equation!r}: the result has {', '.join(sorted(unknown))}, which no operand has.")
    return operands, result


def _einsum_infer(*tensors: Spec, equation: str) -> Spec:
    operands, result = _parsed(equation)
    if len(operands) != len(tensors):
        raise ValueError(f"einsum: {equation!r} is for {len(operands)} operands, got {len(tensors)}.")
    sizes: dict[str, int] = {}
    for subscripts, tensor in zip(operands, tensors, strict=True):
        if len(subscripts) != tensor.ndim:
            raise ValueError(
                f"einsum: {equation!r}: {subscripts!r} names {len(subscripts)} axes, but shape {tensor.shape} has "
                f"{tensor.ndim}."
            )
        for letter, size in zip(subscripts, tensor.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ValueError(
                    f"einsum: {equation!r}: {letter} is {sizes[letter]} in one operand and {size} in another."
                )
    return Spec(tuple(sizes[letter] for letter in result), tensors[0].dtype)


def _einsum(xp: Any, *tensors: Any, equation: str) -> Any:
    result = xp.einsum(equation, *as_arrays(xp, tensors), optimize=True)
    return result.copy() if len(tensors) == 1 else result  # of one operand it may be a view


def _einsum_vjp(g: Any, out: Any, *tensors: Any, equation: str) -> list[Any]:
    operands, result = _parsed(equation)
    pieces = []
    for i, (own, x) in enumerate(zip(operands, tensors, strict=True)):
        others = operands[:i] + operands[i + 1 :]
        met = [letter for letter in own if letter in result or any(letter in other for other in others)]
        swapped = f"{','.join([result, *others])}->{''.join(met)}"
        piece = einsum([g, *tensors[:i], *tensors[i + 1 :]], equation=swapped)
        if len(met) < len(own):  # axes that were only summed over: each entry along them has the same cotangent
            piece = reshape(
                piece, shape=tuple(n if letter in met else 1 for letter, n in zip(own, x.shape, strict=True))
            )
            piece = broadcast_to(piece, shape=tuple(x.shape))
        pieces.append(piece)
    return pieces


einsum = row(
    "einsum",
    _einsum,
    vjp=_einsum_vjp,
    jvp="bilinear",
    saves="tensors",
    infer=_einsum_infer,
    strict=True,
    dtypes="promote",
    variadic=True,
    joint=True,
    doc="Einstein's sum: axes are named by letters, entries with equal letters multiplied, letters missing from the "
    "result summed over; without an arrow the result has the letters that occur once, in alphabetical order. The "
    "tensors come first, as a list. Sizes must be equal: a size of 1 is not stretched, which NumPy and PyTorch do and "
    "TensorFlow does not. Neither a letter twice in one operand nor '...' is taken.",
)


def _outer_infer(x: Spec, y: Spec) -> Spec:
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"outer: expected two vectors, got shapes {x.shape} and {y.shape}. Flatten them first.")
    return Spec((*x.shape, *y.shape), x.dtype)


outer = row(
    "outer",
    "outer",
    vjp=(lambda g, out, x, y: matmul(g, y), lambda g, out, x, y: matmul(x, g)),
    jvp="bilinear",
    saves=("y", "x"),
    infer=_outer_infer,
    strict=True,
    dtypes="promote",
    doc="Every entry of one vector times every entry of another.",
)

Axes = int | Sequence[int | Sequence[int]]


def _summed(x: Any, y: Any, axes: Axes) -> tuple[list[int], list[int], list[int], list[int]]:
    """The axes of x and of y that are summed over, pair by pair, and those that remain."""
    of_x, of_y = shape_of(x), shape_of(y)
    n, m = len(of_x), len(of_y)
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(n, m):
            raise ValueError(f"tensordot: can't sum over {axes} axes of shapes {of_x} and {of_y}.")
        left, right = list(range(n - axes, n)), list(range(axes))
    elif isinstance(axes, tuple | list) and len(axes) == 2:
        left = list(normalise_axes("tensordot", axes[0], n))
        right = list(normalise_axes("tensordot", axes[1], m))
    else:
        raise TypeError(f"tensordot: axes must be a number of axes or a pair (of x, of y), got {axes!r}.")
    if [of_x[i] for i in left] != [of_y[i] for i in right]:
        raise ValueError(f"tensordot: axes {left} of shape {of_x} and {right} of {of_y} differ.")
    return left, right, [i for i in range(n) if i not in left], [i for i in range(m) if i not in right]


def _tensordot_infer(x: Spec, y: Spec, *, axes: Axes = 2) -> Spec:
    _, _, rows, columns = _summed(x, y, axes)
    return Spec((*[x.shape[i] for i in rows], *[y.shape[i] for i in columns]), x.dtype)


def _tensordot(xp: Any, x: Any, y: Any, axes: Axes) -> Any:
    left, right, _, _ = _summed(x, y, axes)
    return xp.tensordot(*as_arrays(xp, (x, y)), axes=(left, right))


def _ordered(piece: Any, axes: list[int]) -> Any:
    """`piece`, whose axes are those of an input in the order `axes`, with them in the input's order."""
    return transpose(piece, axes=tuple(int(i) for i in np.argsort(axes)))


def _tensordot_by_x(g: Any, out: Any, x: Any, y: Any, axes: Axes) -> Any:
    left, right, rows, columns = _summed(x, y, axes)
    piece = tensordot(g, y, axes=(list(range(len(rows), g.ndim)), columns))
    return _ordered(piece, rows + [left[right.index(i)] for i in sorted(right)])


def _tensordot_by_y(g: Any, out: Any, x: Any, y: Any, axes: Axes) -> Any:
    left, right, rows, columns = _summed(x, y, axes)
    piece = tensordot(x, g, axes=(rows, list(range(len(rows)))))
    return _ordered(piece, [right[left.index(i)] for i in sorted(left)] + columns)


tensordot = row(
    "tensordot",
    _tensordot,
    vjp=(_tensordot_by_x, _tensordot_by_y),
    jvp="bilinear",
    saves=("y", "x"),
    infer=_tensordot_infer,
    strict=True,
    dtypes="promote",
    doc="Products summed over pairs of axes: the last ones of x with the first ones of y if axes is a number, else "
    "those named.",
)
