"""Reverse mode as a transformation: `vjp` records on a tape of its own, whatever the values are.

`Tensor.backward` records on Tensors and pulls bare arrays, which is what training wants. Here the values on the tape
may be duals, batches, or values of an outer `vjp`, and the cotangents too: the same rules run on them, and derivatives
of any order and mixture come of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from heapq import heappop, heappush
from typing import Any

from internals.autodiff import tree
from internals.autodiff.checkpoint import recompute
from internals.autodiff.lifted import Lifted, apply, is_tensor, next_level
from internals.ops.rules import promoted, pull
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Op
from internals.tensor import Tensor, enable_grad, is_recording
from internals.tensor.node import next_order, pulling
from internals.tensor.results import RESULT


class Entry:
    """One entry of the tape: as `internals.tensor.Node`, but what it saved are values of the levels below.

    A primal's entry has no `op`.
    """

    __slots__ = ("__weakref__", "attrs", "dtype", "inputs", "op", "order", "out", "saved", "shape")

    def __init__(self, op: Op | None, inputs: tuple[Any, ...], saved: Any, out: Any, attrs: Any, spec: Any) -> None:
        self.op, self.inputs, self.saved, self.out, self.attrs = op, inputs, saved, out, attrs
        self.shape, self.dtype, self.order = spec.shape, spec.dtype, next_order()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    size = Spec.size


class Recorded(Lifted):
    """A value, and the entry of the tape that made it."""

    __slots__ = ("entry",)

    def __init__(self, value: Any, entry: Entry, level: int) -> None:
        self.value, self.entry, self.level = value, entry, level

    @classmethod
    def run(cls, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], level: int) -> Any:
        inputs = promoted(op, inputs)
        mine = [type(value) is Recorded and value.level == level for value in inputs]
        values = [value.value if own else value for value, own in zip(inputs, mine, strict=True)]
        out = apply(op, values, attrs)
        if not is_recording() or not op.differentiable:
            return out
        edges = tuple(
            value.entry if own and op.has_rule(i) else None
            for i, (value, own) in enumerate(zip(inputs, mine, strict=True))
        )
        floating = [one.dtype.kind not in "biu" for one in (out if op.results else (out,))]
        if not any(floating) or not any(edge is not None for edge in edges):
            return out
        kept, keeps_out = op.keeps(edges)
        saved = [
            value if keep or not hasattr(value, "shape") else Spec(value.shape, value.dtype)
            for value, keep in zip(values, kept, strict=True)
        ]
        if not op.results:
            return Recorded(out, Entry(op, edges, saved, out if keeps_out else None, attrs, out), level)
        wanted = keeps_out if isinstance(keeps_out, tuple) else (keeps_out,) * len(out)
        results = op.bundle([one if keep else None for one, keep in zip(out, wanted, strict=True)])
        row = Entry(op, edges, saved, results, attrs, _Bundle(out))
        return op.bundle(
            [
                Recorded(one, Entry(RESULT, (row,), (), None, {"index": i}, one), level) if moves else one
                for i, (one, moves) in enumerate(zip(out, floating, strict=True))
            ]
        )

    def entries(self) -> tuple[Any, ...]:
        return (self.entry,)


class _Bundle:
    """The shapes and dtypes of a row's several results."""

    def __init__(self, results: Any) -> None:
        self.shape = tuple(tuple(one.shape) for one in results)
        self.dtype = tuple(one.dtype for one in results)


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """A function's value, and the function that pulls a cotangent of it back to the arguments.

    Parameters
    ----------
    function : callable
        Takes the primals and returns a tensor, or a nested structure of them.
    *primals : Tensor, or tuple, list or dict of them, nested
        Where to differentiate. Integer tensors and what is no tensor are constants.
    has_aux : bool
        The function returns ``(out, aux)``; `aux` is handed through and not differentiated.

    Returns
    -------
    out : as the function returns
    pull : callable
        ``pull(cotangent)`` takes what `out` is, shape for shape, and returns a tuple, one cotangent for each primal
        and of its structure: zeros where the result does not depend on it, None for a constant. It can be called
        often, under `vmap` too, and differentiated.
    aux
        If `has_aux`.

    Raises
    ------
    TypeError
        The function returns something else than tensors.
    ValueError
        From `pull`: the cotangent does not fit the result.

    As jax.vjp and torch.func.vjp. (Griewank & Walther 2008, section 3.2.)
    """
    level = next_level()
    given = tree.leaves(primals)
    entries = [
        Entry(None, (), (), None, None, one) if is_tensor(one) and one.dtype.kind not in "biu" else None
        for one in given
    ]
    lifted = [one if entry is None else Recorded(one, entry, level) for one, entry in zip(given, entries, strict=True)]
    # An outer no_grad is about the outer tape; the function's own no_grad blocks still hold.
    recording = is_recording()
    with nullcontext() if recording else enable_grad():
        result = function(*tree.rebuilt(primals, lifted))
    aux: Any = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"vjp: with has_aux the function must return (out, aux), got {type(result).__name__}.")
        result, aux = result
        aux = tree.mapped(lambda one: _lowered(one, level, recording), aux)
    outs = tree.leaves(result)
    for one in outs:
        if not is_tensor(one):
            raise TypeError(f"vjp: the function returned {_named(one)}; expected a tensor, or tensors in a structure.")
    tops = [one.entry if type(one) is Recorded and one.level == level else None for one in outs]
    values = [_lowered(one, level, recording) for one in outs]
    specs = [Spec(one.shape, one.dtype) for one in values]
    places = [one.device for one in values]
    zeros = [None if entry is None else one for one, entry in zip(given, entries, strict=True)]

    def pull_back(cotangent: Any) -> tuple[Any, ...]:
        starts = tree.leaves(cotangent)
        if len(starts) != len(specs):
            raise ValueError(f"vjp: the result has {len(specs)} tensors, but the cotangent {len(starts)}.")
        pending: dict[Entry, Any] = {}
        for start, top, spec, place in zip(starts, tops, specs, places, strict=True):
            if start is None:
                continue
            if not is_tensor(start) or tuple(start.shape) != spec.shape or start.dtype != spec.dtype:
                raise ValueError(f"vjp: the cotangent is {_named(start)}, but the result {spec}; they must agree.")
            if start.device is not place:
                raise ValueError(
                    f"vjp: the cotangent is on {start.device}, but the result on {place}. Move it: "
                    f"cotangent.to('{place}')."
                )
            if top is not None:
                pending[top] = start if top not in pending else pending[top] + start
        found = _pulled(pending)
        pieces = [
            None if entry is None else found[entry] if entry in found else TABLE["zeros_like"](zero)
            for entry, zero in zip(entries, zeros, strict=True)
        ]
        return tuple(tree.rebuilt(primals, pieces))

    out = tree.rebuilt(result, values)
    return (out, pull_back, aux) if has_aux else (out, pull_back)


@pulling()
def _pulled(pending: dict[Entry, Any]) -> dict[Entry, Any]:
    """Cotangents of the primals, from those of some results; entries are visited from the last one down."""
    found: dict[Entry, Any] = {}
    heap = [(-entry.order, entry) for entry in pending]
    heap.sort()
    while heap:
        entry = heappop(heap)[1]
        cotangent = pending.pop(entry)
        if entry.op is None:
            found[entry] = cotangent
            continue
        if entry.op is RESULT:
            (row,) = entry.inputs
            if row not in pending:
                pending[row] = [None] * len(row.shape)
                heappush(heap, (-row.order, row))
            pending[row][entry.attrs["index"]] = cotangent
            continue
        if entry.saved is None:
            recompute(entry)
        if entry.op.results:
            cotangent = _filled(cotangent, entry)
        pieces = pull(entry.op, cotangent, entry.out, entry.saved, entry.attrs, entry.inputs)
        for edge, piece in zip(entry.inputs, pieces, strict=True):
            if piece is None or edge is None:
                continue
            if edge in pending:
                pending[edge] = pending[edge] + piece
            else:
                pending[edge] = piece
                heappush(heap, (-edge.order, edge))
    return found


def _filled(parts: list[Any], row: Entry) -> tuple[Any, ...]:
    """The cotangents of a row's results, with zeros where nothing came to a floating one."""
    there = next(part for part in parts if part is not None)
    nothing = TABLE["zeros_like"](TABLE["sum"](there))
    return tuple(
        part
        if part is not None or dtype.kind in "biu"
        else TABLE["broadcast_to"](TABLE["cast"](nothing, dtype=dtype), shape=shape)
        for part, shape, dtype in zip(parts, row.shape, row.dtype, strict=True)
    )


def _lowered(value: Any, level: int, recording: bool) -> Any:
    if type(value) is Recorded and value.level == level:
        value = value.value
    if not recording and isinstance(value, Tensor) and value.node is not None and not value.is_leaf:
        value = value.detach()
    return value


def _named(value: Any) -> str:
    return str(Spec(value.shape, value.dtype)) if hasattr(value, "shape") else type(value).__name__
