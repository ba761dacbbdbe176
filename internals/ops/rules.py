"""Applying a row's rules: the bookkeeping that every rule would otherwise repeat, done once for every style.

A rule states the mathematics. Here the cotangent it returns is summed over the axes along which its input was
broadcast, its shape and dtype are checked, and errors name the op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from internals.ops.spec import Shape, Spec
from internals.ops.table import TABLE, Op


def pull(
    op: Op, cotangent: Any, out: Any, inputs: Sequence[Any], attrs: dict[str, Any], wanted: Sequence[Any]
) -> list[Any]:
    """The cotangents of a row's inputs, from that of its result.

    Parameters
    ----------
    cotangent, out, inputs
        Of one style: bare arrays, Tensors, graph nodes. Where the row does not save a value, anything with its shape
        and dtype will do.
    wanted : sequence
        For each input None, or something with the shape and dtype that its cotangent must have.

    Returns
    -------
    list, one per input
        None where the cotangent is not wanted, or the row has no rule for it.

    Raises
    ------
    RuntimeError
        A rule returned the wrong number of cotangents, or one of the wrong shape or dtype.
    """
    pieces: list[Any] = []
    if op.joint:
        joint = op.vjp(cotangent, out, *inputs, **attrs)  # type: ignore[operator, misc]  # one rule, when joint
        if not isinstance(joint, tuple | list):
            raise RuntimeError(
                f"backward: the rule of {op.name} gave {type(joint).__name__}; expected a tuple of {len(inputs)}, with "
                "the cotangent of each input."
            )
        if len(joint) != len(inputs):
            raise RuntimeError(
                f"backward: the rule of {op.name} gave {len(joint)} cotangents for {len(inputs)} inputs."
            )
        for position, (want, piece) in enumerate(zip(wanted, joint, strict=True)):
            pieces.append(None if want is None or piece is None else fitted(op, position, piece, want))
        return pieces
    for want, rule in zip(wanted, op.vjp):  # type: ignore[arg-type]  # noqa: B905 - of one length, and this loop is hot
        if want is None or rule is None:
            pieces.append(None)
            continue
        piece = rule(cotangent, out, *inputs, **attrs)
        if piece.shape != want.shape or piece.dtype is not want.dtype:
            piece = fitted(op, len(pieces), piece, want)
        pieces.append(piece)
    return pieces


def push(op: Op, tangents: Sequence[Any], out: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """The tangent of a row's result, from those of its inputs.

    Parameters
    ----------
    tangents : sequence
        For each input its tangent, of its shape and dtype, or None where that is zero.
    out, inputs
        Values of one style.

    Returns
    -------
    The tangent, of the shape and dtype of `out`; None where it is zero. A tuple of them for several results.
    """
    moving = [i for i, tangent in enumerate(tangents) if tangent is not None and op.has_rule(i)]
    if not moving:
        return None
    if callable(op.jvp):  # one rule for all inputs, as `swap_jvp` puts in
        return op.jvp(tangents, out, inputs, attrs)
    if op.jvp == "linear":
        moved = [
            value if not op.has_rule(i) else TABLE["zeros_like"](value) if tangent is None else tangent
            for i, (value, tangent) in enumerate(zip(inputs, tangents, strict=True))
        ]
        return op(moved, **attrs) if op.variadic else op(*moved, **attrs)
    # Where the Jacobian is its own transpose, pulling back and pushing forward are one.
    rules: Any = op.vjp if op.jvp == "symmetric" else op.jvp
    total = None
    for i in moving:
        if op.jvp == "bilinear":
            moved = [tangents[i] if k == i else value for k, value in enumerate(inputs)]
            term = op(moved, **attrs) if op.variadic else op(*moved, **attrs)
        else:
            rule = rules[i]
            tangent = tangents[i]
            if op.broadcasts and op.jvp == "symmetric" and tangent.shape != out.shape:
                tangent = TABLE["broadcast_to"](tangent, shape=tuple(out.shape))
            term = rule(tangent, out, *inputs, **attrs)
        total = term if total is None else _together(total, term)
    return total


def _together(one: Any, two: Any) -> Any:
    """The sum of two tangents, each None where it is zero, or a tuple of such."""
    if isinstance(one, tuple):
        return tuple([_together(x, y) for x, y in zip(one, two, strict=True)])
    return two if one is None else one if two is None else one + two


def promoted(op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs, cast to the dtypes that the row asks for; Python numbers stay as they are."""
    if op.dtypes == "own":
        return inputs
    return tuple(
        [
            TABLE["cast"](value, dtype=dtype)
            if dtype is not None and hasattr(value, "dtype") and value.dtype != dtype
            else value
            for value, dtype in zip(inputs, op.input_dtypes(inputs), strict=True)
        ]
    )


def fitted(op: Op, position: int, piece: Any, want: Any) -> Any:
    """A cotangent, summed over axes that were broadcast, and checked against what it must be."""
    if not hasattr(piece, "dtype"):
        raise RuntimeError(
            f"backward: the rule of {op.name} gave {type(piece).__name__} for its input "
            f"{op.inputs[min(position, op.arity - 1)]!r}; expected an array, or None where nothing flows."
        )
    if op.broadcasts and piece.shape != want.shape:
        piece = unbroadcast(piece, want.shape)
    if piece.shape != want.shape or piece.dtype != want.dtype:
        raise RuntimeError(
            f"backward: the rule of {op.name} gave a cotangent of {Spec(piece.shape, piece.dtype)} for its input "
            f"{op.inputs[min(position, op.arity - 1)]!r}, which is {Spec(want.shape, want.dtype)}."
        )
    return piece


def unbroadcast(cotangent: Any, shape: Shape) -> Any:
    """Sum a cotangent over the axes along which a value of `shape` was stretched; the reverse of broadcasting."""
    extra = cotangent.ndim - len(shape)
    if extra > 0:
        cotangent = TABLE["sum"](cotangent, axis=tuple(range(extra)), keepdims=False)
    stretched = tuple(
        [
            axis
            for axis, size in enumerate(shape)
            if size == 1 and cotangent.ndim == len(shape) and cotangent.shape[axis] != 1
        ]
    )
    return TABLE["sum"](cotangent, axis=stretched, keepdims=True) if stretched else cotangent
