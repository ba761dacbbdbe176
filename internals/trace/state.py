"""What a function's code reads that it was not given: the state that a trace depends on.

A trace is right for as long as this state is what it was. Tensors are read by reference, so their values may change;
what may not change is which Tensors they are, whether a model is training, and every number, text, list and dict.
"""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Iterator, Mapping
from typing import Any

from internals.nn import Module
from internals.ops.table import is_array
from internals.tensor import Tensor

DEEPEST = 6
"""How far lists, dicts, objects and functions are followed."""

KEPT = "_traced_"
"""What the names begin with under which objects keep their traced methods."""

PLAIN = frozenset((type(None), bool, int, float, str, bytes, complex))


def read_by(function: Any) -> dict[str, Any]:
    """The variables of enclosing functions and of the module that a function's code names, with their values."""
    return {name: value for name, value, _ in _reads(function)}


def _reads(function: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, value, and where it is kept: a cell, or the module's dict."""
    function = function.__func__ if isinstance(function, types.MethodType) else function
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents, cell
        except ValueError:  # not assigned yet
            continue
    for name in dict.fromkeys(_names(code)):
        if name in function.__globals__ and not hasattr(builtins, name):
            yield name, function.__globals__[name], function.__globals__


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def fingerprint(value: Any) -> Any:
    """Of a plain value: what compares equal for the same value and type only; -0.0 is not 0.0, and NaN is NaN."""
    if type(value) is float:
        return float, value.hex()
    if type(value) in PLAIN:
        return type(value), value
    if isinstance(value, list | tuple):
        return type(value), tuple([fingerprint(part) for part in value])
    return "object", id(value)


def same(one: Any, two: Any) -> bool:
    """Whether a trace that read the one may go on with the other."""
    if one is two:
        return True
    return type(one) is type(two) and type(one) in PLAIN and fingerprint(one) == fingerprint(two)


class State:
    """The state that a function reads, as it was.

    Parameters
    ----------
    function : callable
        A method's object is part of it.
    """

    def __init__(self, function: Any) -> None:
        self._cells: list[tuple[str, Any, Any]] = []
        self._modules: list[tuple[str, dict[str, Any], str, Any]] = []
        self._parts: list[tuple[str, Any, list[Any], list[Any], type]] = []
        self._tensors: list[tuple[str, Tensor, Any, Any, type]] = []
        self._held: list[Any] = []
        self._seen: set[int] = set()
        owner = getattr(function, "__self__", None)
        if owner is not None:
            self._note("self", owner, 0)
        self._note_function("", function, 0)

    def holds(self) -> bool:
        """Whether all of it is as it was."""
        for _, cell, was in self._cells:
            if cell.cell_contents is not was and not same(cell.cell_contents, was):
                return False
        for _, module, name, was in self._modules:
            if module.get(name) is not was and not same(module.get(name), was):
                return False
        for _, part, names, values, kind in self._parts:
            now = part.values() if type(part) is dict else part
            if len(part) == len(values) and all(map(operator.is_, now, values)) and (not names or list(part) == names):
                continue
            if type(part) is dict and len(part) > len(values):
                mine = {name: value for name, value in part.items() if name in names or not _is_old(kind, name, value)}
                if list(mine) != names or not all(map(same, mine.values(), values)):
                    return False
                names[:], values[:] = part, part.values()
            elif len(part) != len(values) or not all(map(same, now, values)) or (names and list(part) != names):
                return False
        for _, tensor, shape, dtype, kind in self._tensors:
            data = tensor.data
            if data.shape != shape or data.dtype is not dtype or type(data) is not kind:
                return False
        return True

    def changed(self) -> str:
        """What is not as it was, in words; empty if nothing is."""
        for path, cell, was in self._cells:
            if not same(cell.cell_contents, was):
                return _difference(path, was, cell.cell_contents)
        for path, module, name, was in self._modules:
            if not same(module.get(name), was):
                return _difference(path, was, module.get(name))
        for path, part, names, values, kind in self._parts:
            if type(part) is dict:
                before = dict(zip(names, values, strict=True))
                for name in [*part, *names]:
                    if name not in before and not _is_old(kind, name, part[name]):
                        return _new(_at(path, name), kind, name, part[name])
                    if name not in part:
                        return f"{_at(path, name)} is gone"
                    if name in before and not same(part[name], before[name]):
                        return _difference(_at(path, name), before[name], part[name])
                if [name for name in part if name in before] != names:
                    return f"the order of {path} changed"
                continue
            if len(part) != len(values):
                return f"{path} had {len(values)} entries and has {len(part)}"
            for i, (now, was) in enumerate(zip(part, values, strict=True)):
                if not same(now, was):
                    return _difference(f"{path}[{i}]", was, now)
        for path, tensor, shape, dtype, kind in self._tensors:
            data = tensor.data
            if data.shape != shape or data.dtype != dtype or type(data) is not kind:
                return f"{path} was {dtype}{list(shape)} and is {data.dtype}{list(data.shape)} on {tensor.device}"
        return ""

    def _note_function(self, path: str, function: Any, depth: int) -> None:
        for name, value, kept in _reads(function):
            full = f"{path}{name}"
            if isinstance(kept, dict):
                self._modules.append((full, kept, name, value))
            else:
                self._cells.append((full, kept, value))
            self._note(full, value, depth + 1)

    def _note(self, path: str, value: Any, depth: int) -> None:
        if type(value) in PLAIN or id(value) in self._seen or depth > DEEPEST or is_array(value):
            return
        if isinstance(value, types.ModuleType | type):
            return
        self._seen.add(id(value))
        self._held.append(value)  # so that its id stays its own
        if isinstance(value, Tensor):
            self._tensors.append((path, value, value.shape, value.dtype, type(value.data)))
        elif isinstance(value, Mapping):
            if type(value) is dict:
                self._note_part(path, value, depth)
        elif isinstance(value, list):
            self._note_part(path, value, depth)
        elif isinstance(value, tuple):
            for i, part in enumerate(value):
                self._note(f"{path}[{i}]", part, depth + 1)
        elif isinstance(value, types.FunctionType):
            if not (value.__module__ or "").startswith("internals."):
                self._note_function(f"{path}: ", value, depth)
        elif isinstance(value, types.MethodType):
            self._note(path, value.__self__, depth)
            self._note(path, value.__func__, depth)
        elif hasattr(value, "python") and type(value).__module__.startswith("internals.trace"):
            self._note(path, value.python, depth)
        elif isinstance(value, Module):
            self._note_part(path, vars(value), depth - 1, type(value))  # models are as deep as they are
        elif hasattr(value, "__dict__") and not type(value).__module__.startswith(("internals.", "numpy")):
            self._note_part(path, vars(value), depth, type(value))

    def _note_part(self, path: str, part: Any, depth: int, kind: type = object) -> None:
        names = list(part) if isinstance(part, dict) else []
        values = list(part.values()) if isinstance(part, dict) else list(part)
        self._parts.append((path, part, names, values, kind))
        for name, value in zip(names or range(len(values)), values, strict=True):
            if name != "_parameter_names":
                self._note(_at(path, name), value, depth + 1)


def _is_old(kind: type, name: Any, value: Any) -> bool:
    """Whether an attribute that was not there says nothing new: its class says the same, or it is a traced method."""
    if not isinstance(name, str) or name == "_parameter_names":
        return name == "_parameter_names"
    return name.startswith(KEPT) or same(getattr(kind, name, _NOTHING), value)


_NOTHING = object()


def _new(path: str, kind: type, name: Any, value: Any) -> str:
    was = getattr(kind, name, _NOTHING) if isinstance(name, str) else _NOTHING
    return f"{path} is new" if was is _NOTHING else _difference(path, was, value)


def _at(path: str, name: Any) -> str:
    return f"{path}.{name}" if isinstance(name, str) and name.isidentifier() else f"{path}[{name!r}]"


def _difference(path: str, was: Any, now: Any) -> str:
    if type(was) in PLAIN and type(now) in PLAIN:
        return f"{path} was {was!r} and is {now!r}"
    return f"{path} is another {type(now).__name__}" if type(was) is type(now) else f"{path} is not what it was"
