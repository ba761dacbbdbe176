"""What a function's code reads that it was not given: the state that a trace depends on.

A trace is right for as long as this state is what it was. Tensors are read by reference, so their values may change;
what may not change is which Tensors they are, whether a model is training, and every number, text, list and dict.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from internals.nn import Module
from internals.tensor import Tensor

DEEPEST = 6
"""How far lists, dicts and functions are followed."""


def read_by(function: Any) -> dict[str, Any]:
    """The variables of enclosing functions and of the module that a function's code names, with their values."""
    function = function.__func__ if isinstance(function, types.MethodType) else function
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    found = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in _names(code):
        if name in function.__globals__:
            found[name] = function.__globals__[name]
    return found


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def fingerprint(value: Any, depth: int = 0) -> Any:
    """Something that compares equal while a trace that read `value` stays right."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return type(value), value
    if isinstance(value, Tensor):
        return "tensor", id(value), value.shape, value.dtype
    if isinstance(value, Module):
        parts = [
            (id(part), part.training, tuple(id(one) for one in vars(part).values() if isinstance(one, Tensor)))
            for part in value.modules()
        ]
        return "module", tuple(parts)
    if depth < DEEPEST and isinstance(value, list | tuple):
        return type(value), tuple([fingerprint(part, depth + 1) for part in value])
    if depth < DEEPEST and isinstance(value, Mapping):
        return type(value), tuple([(name, fingerprint(part, depth + 1)) for name, part in value.items()])
    if depth < DEEPEST and isinstance(value, types.FunctionType) and not value.__module__.startswith("internals"):
        read = read_by(value)
        return id(value.__code__), tuple([(name, fingerprint(part, depth + 1)) for name, part in read.items()])
    return "object", id(value)
