"""What NumPy does with values of ours that it is given: ``np.add(array, x)``, ``np.sum(x)``.

An operator of an array is one of NumPy's universal functions, so those that have a row run the row, and the result is
a value of ours with its history. Everything else is NumPy's code, which reads arrays and gives arrays: as in PyTorch,
it is refused where a gradient would be lost on the way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from internals.ops.table import TABLE

_SIGNS = {
    **{
        ufunc: (f"__{sign}__", f"__r{sign}__")
        for ufunc, sign in {
            np.add: "add",
            np.bitwise_and: "and",
            np.bitwise_or: "or",
            np.bitwise_xor: "xor",
            np.divide: "truediv",
            np.divmod: "divmod",
            np.floor_divide: "floordiv",
            np.matmul: "matmul",
            np.multiply: "mul",
            np.power: "pow",
            np.remainder: "mod",
            np.subtract: "sub",
        }.items()
    },
    np.equal: ("__eq__", "__eq__"),
    np.greater: ("__gt__", "__lt__"),
    np.greater_equal: ("__ge__", "__le__"),
    np.less: ("__lt__", "__gt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.not_equal: ("__ne__", "__ne__"),
}
"""What Python calls the sign of a function of two inputs, where ours stands to the left of it and to the right."""

_LOOKED_AT = frozenset((
    np.can_cast, np.empty_like, np.iscomplexobj, np.isrealobj, np.ones_like, np.result_type, np.zeros_like,
))  # fmt: skip
"""Functions that ask for a shape and a dtype, and for no entry."""

_WRITERS = frozenset((np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask))
"""Functions that write into their first input."""


@cache
def _rows() -> dict[Any, Callable[..., Any]]:
    """The row of each universal function that has one."""
    return {row.on_numpy: row for row in TABLE.values() if isinstance(row.on_numpy, np.ufunc)}


def run_ufunc(ours: type, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """NumPy's protocol for universal functions (NEP 13)."""
    if method == "__call__" and not named:
        sign = _SIGNS.get(ufunc)
        if sign is not None:
            x, y = inputs
            return getattr(x, sign[0])(y) if isinstance(x, ours) else getattr(y, sign[1])(x)
        row = _rows().get(ufunc)
        if row is not None:
            return row(*inputs)
        if ufunc is np.invert:
            return operator.invert(*inputs)
        if ufunc is np.positive:
            return operator.pos(*inputs)
    if any(isinstance(one, ours) for one in (inputs[:1] if method == "at" else named.get("out", ()))):
        raise _written_to(ufunc)
    run = ufunc if method == "__call__" else getattr(ufunc, method)
    return run(*_bare(ours, ufunc, inputs), **_bare(ours, ufunc, named))


def run_function(ours: type, function: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """NumPy's protocol for its other functions (NEP 18)."""
    if function in (np.shape, np.ndim) and len(inputs) == 1 and isinstance(inputs[0], ours):
        return getattr(inputs[0], function.__name__)
    if function is np.size and inputs and isinstance(inputs[0], ours):
        axis = inputs[1] if len(inputs) > 1 else named.get("axis")
        return inputs[0].size if axis is None else inputs[0].shape[axis]  # type: ignore[attr-defined]
    if isinstance(named.get("out"), ours) or (function in _WRITERS and inputs and isinstance(inputs[0], ours)):
        raise _written_to(function)
    bare = _outlined if function in _LOOKED_AT else _bare
    return function(*bare(ours, function, inputs), **bare(ours, function, named))


def _bare(ours: type, function: Any, value: Any) -> Any:
    """`value` with an array in each place where a value of ours stands."""
    if isinstance(value, ours):
        if getattr(value, "requires_grad", False):
            raise RuntimeError(
                f"{_name(function)}: a tensor here requires a gradient, which NumPy can't follow. Use "
                f"{_instead(function)}, or detach() first."
            )
        array = value.__array__().view()  # type: ignore[attr-defined]  # which says why, where there is none
        array.flags.writeable = False  # nor may NumPy write to it by the way, as nan_to_num(x, copy=False) would
        return array
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([_bare(ours, function, part) for part in value])
    if kind is dict:
        return {key: _bare(ours, function, part) for key, part in value.items()}
    return value


def _outlined(ours: type, function: Any, value: Any) -> Any:
    """`value` with an array of the same shape and dtype, and of no memory, in each place where one of ours stands."""
    kind = type(value)
    if isinstance(value, ours):
        return np.broadcast_to(np.zeros((), value.dtype), value.shape)  # type: ignore[attr-defined]
    if kind is tuple:
        return tuple([_outlined(ours, function, part) for part in value])
    if kind is dict:
        return {key: _outlined(ours, function, part) for key, part in value.items()}
    return value


def _name(function: Any) -> str:
    room = (getattr(function, "__module__", None) or "numpy").replace("numpy", "np", 1)
    return f"{room}.{function.__name__}"


def _instead(function: Any) -> str:
    from internals import ops

    name = _OUR_NAMES.get(function.__name__, function.__name__)
    return f"internals.ops.{name}" if hasattr(ops, name) else "the functions of internals.ops"


_OUR_NAMES = {"concatenate": "concat", "dot": "matmul", "absolute": "abs"}


def _written_to(function: Any) -> TypeError:
    return TypeError(
        f"{_name(function)}: it would write into a tensor, and no tape could know. Use x.copy_(result), or write to an "
        "array."
    )
