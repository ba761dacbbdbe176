"""One wrong answer and what can be asked about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from autograder.compare import Mismatch, compare
from autograder.spec import Inputs, Tolerance

COTANGENTS = ("g", "cotangent", "grad", "upstream")
"""What specs call the cotangent that comes in."""


@dataclass
class Evidence:
    """One wrong answer.

    Parameters
    ----------
    inputs : dict
    want, got : plain data
        Whole answers.
    mismatches : list of Mismatch
        From `compare`; the first one is looked at closest.
    ask : callable, optional
        ``ask(inputs) -> want`` for other inputs: what the oracles would say if, say, the cotangent were all ones.
    changed, aliased : sequences of str
        Inputs that the call changed in place, or returned as its result.
    """

    inputs: Inputs
    want: Any
    got: Any
    mismatches: list[Mismatch]
    ask: Callable[[Inputs], Any] | None = None
    tolerance: Tolerance | None = None
    changed: Sequence[str] = ()
    aliased: Sequence[str] = ()

    _asked: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def first(self) -> Mismatch:
        return self.mismatches[0]

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs that are arrays, named as the learner sees them; one level into lists and dicts."""
        return dict(named_arrays(self.inputs))

    @cached_property
    def cotangent(self) -> np.ndarray | None:
        return next(
            (
                np.asarray(self.inputs[name])
                for name in COTANGENTS
                if isinstance(self.inputs.get(name), (np.ndarray, np.generic))
            ),
            None,
        )

    @cached_property
    def pair(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(got, want) of the first mismatch, if both are numbers, not empty, and differ in more than type."""
        one, other = self.first.got, self.first.want
        if not (is_numeric(one) and is_numeric(other)):
            return None
        got, want = np.asarray(one), np.asarray(other)
        return (got, want) if got.size and want.size and not self.close(got, want) else None

    def close(self, got: Any, want: Any) -> bool:
        """Same shape and values, whatever the dtype."""
        got, want = np.asarray(got), np.asarray(want)
        if got.shape != want.shape or (got.dtype.kind == "c" and want.dtype.kind != "c" and np.any(got.imag)):
            return False
        plain = got.real if want.dtype.kind != "c" else got
        return not compare(plain.astype(want.dtype), want, self.tolerance)

    def instead(self, label: str, **changed: Any) -> Any:
        """The oracles' answer to other inputs, at the place of the first mismatch; None if there is none."""
        if self.ask is None:
            return None
        if label not in self._asked:
            self._asked[label] = self.ask(self.inputs | changed)
        return at(self._asked[label], self.first.where)


def is_numeric(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.ndarray, np.generic)) and np.asarray(value).dtype.kind in "biufc"


def named_arrays(inputs: Inputs) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in inputs.items():
        if isinstance(value, (np.ndarray, np.generic)):
            yield name, np.asarray(value)
        elif isinstance(value, (list, tuple, dict)):
            for key, part in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(part, (np.ndarray, np.generic)):
                    yield f"{name}[{key!r}]", np.asarray(part)


def at(value: Any, where: str) -> Any:
    """The part of `value` that `where` (as in ``[1]['w']``) leads to; None if there is none."""
    for key in re.findall(r"\[('(?:[^'\\]|\\.)*'|\"[^\"]*\"|\d+)\]", where):
        step = int(key) if key.isdigit() else key[1:-1]
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def summed_to(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """`value` summed over the axes along which `shape` would broadcast to it; None if it would not."""
    try:
        if np.broadcast_shapes(value.shape, shape) != value.shape:
            return None
    except ValueError:
        return None
    lead = value.ndim - len(shape)
    axes = tuple(
        axis for axis in range(value.ndim) if axis < lead or (shape[axis - lead] == 1 and value.shape[axis] != 1)
    )
    return value.sum(axis=axes).reshape(shape)


def part(e: Evidence) -> str:
    """The part of the result that is wrong, as the subject of a sentence."""
    return f"`result{e.first.where}`" if e.first.where else "The result"


def within(e: Evidence) -> str:
    """The same, inside a sentence."""
    return f"`result{e.first.where}`" if e.first.where else "the result"
