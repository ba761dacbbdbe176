"""Derivatives as functions of functions: gradient, Jacobian, Hessian, and products with them.

Each is a few lines on `vjp`, `jvp` and `vmap`, so they nest in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.autodiff import tree
from internals.autodiff.forward import jvp
from internals.autodiff.lifted import is_tensor
from internals.autodiff.recorded import vjp
from internals.autodiff.vmap import vmap
from internals.device import device
from internals.ops.spec import Spec
from internals.ops.table import TABLE
from internals.tensor import Tensor

Function = Callable[..., Any]


def value_and_grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The function that gives a scalar function's value and its gradient.

    Parameters
    ----------
    function : callable
        Returns a floating tensor of one entry and no axes; with `has_aux` a pair of it and anything else.
    argnums : int or sequence of int
        The arguments to differentiate by; each a tensor, or a nested tuple, list or dict of them. Negative ones count
        from the back.
    has_aux : bool

    Returns
    -------
    callable
        Takes the function's arguments and returns ``(value, gradient)``, or ``((value, aux), gradient)``. The gradient
        has the structure of its argument; a tuple of such if `argnums` is a sequence.

    Raises
    ------
    TypeError, ValueError
        On the call: the function's value is no floating scalar, or there is no such argument.

    As jax.value_and_grad and torch.func.grad_and_value, which hands them back the other way round.
    """

    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        chosen, positions = _chosen("gradient", args, argnums)
        out, pull, *aux = vjp(_partly(function, args, positions, kwargs), *chosen, has_aux=has_aux)
        if not is_tensor(out) or tuple(out.shape) != () or out.dtype.kind in "biu":
            came = Spec(out.shape, out.dtype) if is_tensor(out) else tree.shape_of_tree(out)
            raise TypeError(
                f"gradient: {_name(function)} returned {came}; a gradient is of a floating scalar. Reduce it, or use "
                "jacobian or vjp."
            )
        pieces = pull(TABLE["ones_like"](out))
        return ((out, *aux) if has_aux else out), (pieces if isinstance(argnums, Sequence) else pieces[0])

    return both


def gradient(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The gradient of a scalar function, as a function: ``gradient(f)(x)``, ``gradient(gradient(f))(x)``.

    `grad` differentiates tensors that were computed; `gradient` takes the function itself, as jax.grad and
    torch.func.grad do. Parameters and errors as `value_and_grad`.

    Returns
    -------
    callable
        Takes the function's arguments and returns the gradient, or ``(gradient, aux)``.
    """
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def alone(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return alone


def jacobian(function: Function, argnums: int | Sequence[int] = 0, mode: str | None = None) -> Function:
    """All derivatives of a function's results by its arguments' entries.

    Parameters
    ----------
    function : callable
        Returns a floating tensor, or a nested structure of them.
    argnums : int or sequence of int
        As in `value_and_grad`.
    mode : {"reverse", "forward"}, optional
        "reverse" pulls back every unit cotangent, one for each entry of the results; "forward" pushes every unit
        tangent, one for each entry of the arguments. All go at once, under `vmap`. Unless given, what needs fewer.

    Returns
    -------
    callable
        Takes the function's arguments. For each result, in its structure, and each argument, in its: a tensor of shape
        ``(*result.shape, *argument.shape)``.

    Raises
    ------
    ValueError
        The mode is not one of the two, or there is no such argument.
    TypeError
        On the call: a result or an argument is not floating.

    As torch.func.jacrev and jacfwd (Griewank & Walther 2008, chapter 3).
    """
    if mode not in (None, "reverse", "forward"):
        raise ValueError(f"jacobian: mode is 'reverse' or 'forward', got {mode!r}.")

    @functools.wraps(function)
    def every(*args: Any, **kwargs: Any) -> Any:
        chosen, positions = _chosen("jacobian", args, argnums)
        moving = _partly(function, args, positions, kwargs)
        points = tree.leaves(chosen)
        for point in points:
            _floating("jacobian", "an argument", point)
        if mode == "forward":
            by_result, result = _by_columns(moving, chosen, points)
        else:
            result, pull = vjp(moving, *chosen)
            outs = tree.leaves(result)
            for out in outs:
                _floating("jacobian", "a result", out)
            if mode is None and sum(point.size for point in points) < sum(out.size for out in outs):
                by_result, result = _by_columns(moving, chosen, points)
            else:
                by_result = _by_rows(pull, result, outs)
        whole = [
            pieces if isinstance(argnums, Sequence) else pieces[0]
            for pieces in (tree.rebuilt(chosen, row) for row in by_result)
        ]
        return tree.rebuilt(result, whole)

    return every


def _by_rows(pull: Function, result: Any, outs: list[Any]) -> list[list[Any]]:
    """For each result its derivatives by every argument, from one cotangent per entry of it."""
    rows = []
    for i, out in enumerate(outs):

        def one(cotangent: Any, i: int = i, out: Any = out) -> Any:
            starts: list[Any] = [None] * len(outs)
            starts[i] = TABLE["reshape"](cotangent, shape=tuple(out.shape))
            return pull(tree.rebuilt(result, starts))

        pieces = tree.leaves(vmap(one)(_units(out)))
        rows.append([TABLE["reshape"](p, shape=(*out.shape, *p.shape[1:])) for p in pieces])
    return rows


def _by_columns(function: Function, chosen: tuple[Any, ...], points: list[Any]) -> tuple[list[list[Any]], Any]:
    """The same, from one tangent per entry of each argument; and the structure of the result."""
    columns, result = [], None
    for i, point in enumerate(points):

        def one(tangent: Any, i: int = i, point: Any = point) -> Any:
            directions: list[Any] = [None] * len(points)
            directions[i] = TABLE["reshape"](tangent, shape=tuple(point.shape))
            return jvp(function, chosen, tree.rebuilt(chosen, directions))[1]

        # The new axis goes last, where the argument's axes belong.
        moved = vmap(one, out_axes=-1)(_units(point))
        result = moved
        pieces = tree.leaves(moved)
        for piece in pieces:
            _floating("jacobian", "a result", piece)
        columns.append([TABLE["reshape"](p, shape=(*p.shape[:-1], *point.shape)) for p in pieces])
    return [list(row) for row in zip(*columns, strict=True)], result


def _units(like: Any) -> Tensor:
    """One row for each entry of `like`: 1 there, 0 elsewhere."""
    return Tensor(np.eye(like.size, dtype=like.dtype), device=device(like.device))


def hessian(function: Function, argnums: int | Sequence[int] = 0) -> Function:
    """All second derivatives: the Jacobian, forward, of the Jacobian, in reverse (Griewank & Walther 2008, chapter 5).

    Parameters
    ----------
    function : callable
        Returns a floating tensor, mostly a scalar.
    argnums : int or sequence of int
        As in `value_and_grad`.

    Returns
    -------
    callable
        Takes the function's arguments. For a result and two arguments (a structure of structures, where there are
        several) a tensor of shape ``(*result.shape, *first.shape, *second.shape)``.
    """
    return jacobian(jacobian(function, argnums, mode="reverse"), argnums, mode="forward")


def hvp(function: Function, primals: Any, tangents: Any, *, over: str = "forward") -> Any:
    """The Hessian of a scalar function times a vector, without the Hessian.

    Parameters
    ----------
    function : callable
        Returns a floating scalar.
    primals, tangents : as in `jvp`
        Where, and the vector.
    over : {"forward", "reverse"}
        Which mode differentiates the gradient. "forward" is the gradient's `jvp`, and keeps no tape of the gradient
        (Pearlmutter 1994). "reverse" pulls the tangents back through the gradient, which is the same since Hessians
        are symmetric; for functions that have no forward rule.

    Returns
    -------
    As `primals`: a tensor, or a tuple of arguments. About four times the work of the function itself.

    Raises
    ------
    TypeError, ValueError
        As `jvp` and `value_and_grad`.
    """
    if over not in ("forward", "reverse"):
        raise ValueError(f"hvp: over is 'forward' or 'reverse', got {over!r}.")
    alone = is_tensor(primals)
    points = (primals,) if alone else tuple(primals)
    vectors = (tangents,) if is_tensor(tangents) else tuple(tangents)
    slope = gradient(function, argnums=tuple(range(len(points))))
    if over == "forward":
        product = jvp(slope, points, vectors)[1]
    else:
        _, pull = vjp(slope, *points)
        product = pull(vectors)
    return product[0] if alone else product


def _chosen(name: str, args: tuple[Any, ...], argnums: int | Sequence[int]) -> tuple[tuple[Any, ...], list[int]]:
    """The arguments to differentiate by, and their positions from the front."""
    positions = list(argnums) if isinstance(argnums, Sequence) else [argnums]
    for position in positions:
        if (
            isinstance(position, bool)
            or not isinstance(position, int | np.integer)
            or not -len(args) <= position < len(args)
        ):
            raise ValueError(
                f"{name}: argnums {argnums!r} names argument {position}, but the call has {len(args)} positional."
            )
    front = [int(position) % len(args) for position in positions]
    if len(set(front)) != len(front) or not front:
        raise ValueError(f"{name}: argnums {argnums!r} must name at least one argument, and none twice.")
    for position in front:
        for leaf in tree.leaves(args[position]):
            _floating(name, f"argument {position}", leaf)
    chosen = tuple(args[position] for position in front)
    if not tree.leaves(chosen):
        raise ValueError(f"{name}: the arguments at {front} hold no tensor to differentiate by.")
    return chosen, front


def _partly(function: Function, args: tuple[Any, ...], positions: list[int], kwargs: dict[str, Any]) -> Function:
    """The function of the arguments at `positions` alone."""

    def of_these(*moving: Any) -> Any:
        full = list(args)
        for position, value in zip(positions, moving, strict=True):
            full[position] = value
        return function(*full, **kwargs)

    return of_these


def _floating(name: str, what: str, value: Any) -> None:
    if not is_tensor(value):
        raise TypeError(f"{name}: {what} is {type(value).__name__}; expected a tensor.")
    if value.dtype.kind in "biu":
        raise TypeError(f"{name}: {what} is {value.dtype}; only floating tensors have derivatives.")


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
