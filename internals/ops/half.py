"""float16 and bfloat16: formats to store in. What is computed on them is computed in float32, and rounded once.

A sum of a thousand float16 entries, added in float16, loses most of its digits on the way; bfloat16 has eight bits to
lose from the start. So a row runs on them in a *form* of its own: inputs are widened, the kernel and the rules are
those of the row, and results are rounded to the dtype that the row infers. PyTorch does the same inside most of its
CPU kernels.

Rows that only move entries need no such form, and views must not have one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from internals.ops.operators import Operators
from internals.ops.spec import DEFAULT_FLOAT, Spec, is_half
from internals.ops.table import TABLE, Op, is_array

MOVES = {"shape", "arrange", "eager"}
"""Rooms whose rows move entries and compute nothing."""
MOVE = {"cast", "clone", "zeros_like", "ones_like", "gather", "take", "index_put", "one_hot"}
"""Rows of other rooms that do."""


def half_form(op: Op) -> Op:
    """The row as it runs on float16 and bfloat16."""
    if op.view or op.room in MOVES or op.name in MOVE or TABLE.get(op.name) is not op:
        return op
    rules, form = vars(op).get("_half_form", (None, None))
    if form is None or rules is not op.vjp:  # `swap` puts other rules in a row
        form = _made(op)
        op._half_form = op.vjp, form  # type: ignore[attr-defined]
    return form


def _made(op: Op) -> Op:
    form = copy.copy(op)
    form.kernel = partial(_kernel, op)
    form.on_numpy = partial(_kernel, op, np)
    if op.vjp is not None:
        form.vjp = (
            partial(_joint_rule, op.vjp, op.bundle if op.results else None)
            if callable(op.vjp)
            else tuple([rule and partial(_rule, rule, i, op.variadic) for i, rule in enumerate(op.vjp)])
        )
    return form


def _kernel(op: Op, xp: Any, *arrays: Any, **attrs: Any) -> Any:
    specs = op.infer_from(arrays, attrs)
    out = op.kernel(xp, *[_wide(array) for array in arrays], **attrs)
    if op.results:
        return op.bundle([_rounded(one, spec.dtype) for one, spec in zip(out, specs, strict=True)])
    return _rounded(out, specs.dtype)


def _rule(rule: Callable[..., Any], position: int, variadic: bool, g: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
    piece = rule(_wide(g), _wide(out), *[_wide(value) for value in inputs], **attrs)
    return _rounded(piece, inputs[position].dtype)


def _joint_rule(rule: Callable[..., Any], bundle: Any, g: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
    if bundle is not None:
        g = tuple([_wide(one) for one in g])
        out = out if out is None else bundle([_wide(one) for one in out])
    pieces = rule(_wide(g), _wide(out), *[_wide(value) for value in inputs], **attrs)
    return tuple(
        [
            piece if piece is None or not hasattr(value, "dtype") else _rounded(piece, value.dtype)
            for piece, value in zip(pieces, inputs, strict=True)
        ]
    )


def _wide(value: Any) -> Any:
    """A value of half precision in float32, and what stands for one that nobody reads; all else as it is."""
    if not hasattr(value, "dtype") or isinstance(value.dtype, tuple) or not is_half(value.dtype):
        return value
    if is_array(value) or isinstance(value, Operators):
        return TABLE["cast"](value, dtype=DEFAULT_FLOAT)
    return Spec(value.shape, DEFAULT_FLOAT)


def _rounded(value: Any, dtype: np.dtype) -> Any:
    return value if value.dtype == dtype else TABLE["cast"](value, dtype=dtype)
