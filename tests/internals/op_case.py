"""What is written down for each row of the op table: its counterparts and what it is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from op_samples import Sample, Values, anything


def apply(name: str) -> Callable[..., Any]:
    """The function of that dotted name, called with inputs and attributes as they are."""

    def call(framework: Any, *inputs: Any, **attrs: Any) -> Any:
        function = framework
        for part in name.split("."):
            function = getattr(function, part)
        return function(*inputs, **attrs)

    return call


@dataclass(frozen=True, eq=False)
class Case:
    """One row's counterparts and inputs.

    Parameters
    ----------
    torch, tf : callable ``(framework, *inputs, **attrs)``, or the name of a function
    samples : list of (input shapes, attributes)
    values : one source of values for all inputs, or one for each
    wrt : tuple of int
        The inputs whose gradients are compared; all floating ones unless given.
    also : tuple of str
        More dtypes: "float16" where something accumulates, "int64" where integers are common. Integers are compared
        with torch alone; tensorflow promotes them otherwise.
    ties : bool
        Equal entries are a kink: no finite differences in the layout that repeats entries.
    staircase : bool
        The rule is not the derivative but stands in for it: no finite differences.
    """

    op: str
    torch: Callable[..., Any] | str
    tf: Callable[..., Any] | str
    samples: list[Sample]
    values: Values | tuple[Values, ...] = anything
    wrt: tuple[int, ...] | None = None
    also: tuple[str, ...] = ()
    ties: bool = False
    staircase: bool = False

    def call(self, framework: str) -> Callable[..., Any]:
        counterpart = getattr(self, framework)
        return apply(counterpart) if isinstance(counterpart, str) else counterpart
