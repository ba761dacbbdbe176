"""Other rules and kernels in the table for a while: a learner's, in place of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from internals.device import Array
from internals.ops.spec import Spec
from internals.ops.table import TABLE, Rule


@contextmanager
def swap(**rules: Rule) -> Iterator[None]:
    """Put other vjp rules in the table for a while: ``with swap(mul=my_rule): train()``.

    A rule here has the form that a learner writes first, ``rule(cotangent, *inputs)`` -> one cotangent per input, and
    may do its own summing over broadcast axes.

    Raises
    ------
    ValueError
        No row has that name.
    TypeError
        A rule is no function.
    """
    unknown = [name for name in rules if name not in TABLE]
    if unknown:
        raise ValueError(f"swap: there is no op called {', '.join(unknown)}.")
    for name, rule in rules.items():
        if not callable(rule):
            raise TypeError(f"swap: the rule of {name} must be a function, got {type(rule).__name__}.")
    kept = {name: TABLE[name] for name in rules}
    columns = {name: dict(vars(op)) for name, op in kept.items()}
    try:
        for name, op in kept.items():
            op.vjp, op.joint = partial(_without_out, rules[name]), True
            op.saves, op._by_rule, op._keeps = op.inputs, [op.inputs], {}
        yield
    finally:
        for name, op in kept.items():
            vars(op).update(columns[name])


def _without_out(rule: Rule, cotangent: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
    return rule(cotangent, *inputs, **attrs)


@contextmanager
def swap_jvp(**rules: Callable[..., Any]) -> Iterator[None]:
    """Put other forward rules in the table for a while: ``with swap_jvp(mul=my_rule): hvp(...)``.

    A rule here has the form that a learner writes first, ``rule(*tangents, *inputs, **attrs)`` -> the tangent of the
    result. A tangent is None where it is zero; one at least is not.

    Raises
    ------
    ValueError
        No row has that name, or it has several results.
    RuntimeError
        Inside: a rule returned something else than a tangent of the result's shape and dtype.
    """
    unknown = [name for name in rules if name not in TABLE or TABLE[name].results]
    if unknown:
        raise ValueError(f"swap_jvp: there is no op called {', '.join(unknown)}, of one result.")
    kept = {name: TABLE[name].jvp for name in rules}
    try:
        for name, rule in rules.items():
            TABLE[name].jvp = partial(_pushed, name, rule)  # type: ignore[assignment]  # `push` knows this form
        yield
    finally:
        for name, columns in kept.items():
            TABLE[name].jvp = columns


def _pushed(name: str, rule: Rule, tangents: Sequence[Any], out: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    moved = rule(*tangents, *inputs, **attrs)
    shape, dtype = getattr(moved, "shape", None), getattr(moved, "dtype", None)
    if shape != out.shape or dtype != out.dtype:
        came = type(moved).__name__ if shape is None or dtype is None else Spec(shape, dtype)
        raise RuntimeError(
            f"swap_jvp: the rule of {name} gave {came}, but the result is {Spec(out.shape, out.dtype)}; they must "
            "agree."
        )
    return moved


@contextmanager
def swap_kernels(**kernels: Callable[..., Array]) -> Iterator[None]:
    """Put other kernels in the table for a while: ``with swap_kernels(reshape=mine): train()``.

    A kernel here has the form that a learner writes first, ``kernel(*arrays, **attrs)``, without the array module.

    Raises
    ------
    ValueError
        No row has that name.
    """
    unknown = [name for name in kernels if name not in TABLE]
    if unknown:
        raise ValueError(f"swap_kernels: there is no op called {', '.join(unknown)}.")
    kept = {name: (TABLE[name].kernel, TABLE[name].on_numpy) for name in kernels}
    try:
        for name, kernel in kernels.items():
            TABLE[name].kernel, TABLE[name].on_numpy = partial(_without_module, kernel), kernel
        yield
    finally:
        for name, columns in kept.items():
            TABLE[name].kernel, TABLE[name].on_numpy = columns


def _without_module(kernel: Callable[..., Array], xp: Any, *arrays: Array, **attrs: Any) -> Array:
    return kernel(*arrays, **attrs)
