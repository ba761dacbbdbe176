"""Exact derivatives of a program by arithmetic on truncated polynomials, which is what the frameworks are held against.

A `Jet` is a polynomial in any number of infinitesimals, each of which squares to zero: a dict from the set of
infinitesimals in a term to its coefficient, an array. Every `jvp` in a program takes an infinitesimal of its own, so
there is nothing to confuse, and no levels are needed. A jet with one infinitesimal is a dual number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Term = frozenset[int]
Function = Callable[[Any], Any]

fresh = itertools.count().__next__


class Jet:
    """``sum over terms of coefficient * product of infinitesimals``."""

    __array_ufunc__ = None

    def __init__(self, terms: dict[Term, Any]) -> None:
        self.terms = terms

    @property
    def standard(self) -> Any:
        return self.terms[frozenset()]

    def map(self, linear: Callable[[Any], Any]) -> Jet:
        return Jet({term: linear(part) for term, part in self.terms.items()})

    def apart(self, eps: int) -> tuple[Jet, Jet]:
        """``a`` and ``b`` in ``a + b eps``."""
        without = {term: part for term, part in self.terms.items() if eps not in term}
        along = {term - {eps}: part for term, part in self.terms.items() if eps in term}
        zero = np.zeros_like(self.standard)
        return Jet({frozenset(): zero} | without), Jet({frozenset(): zero} | along)

    def __add__(self, other: Any) -> Jet:
        one, two = self.terms, jet(other).terms
        shape = np.broadcast_shapes(np.shape(self.standard), np.shape(jet(other).standard))
        return Jet({t: np.broadcast_to(one.get(t, 0.0) + two.get(t, 0.0), shape) for t in {**one, **two}})

    def __neg__(self) -> Jet:
        return self.map(np.negative)

    def __sub__(self, other: Any) -> Jet:
        return self + -jet(other)

    def __rsub__(self, other: Any) -> Jet:
        return jet(other) + -self

    def __mul__(self, other: Any) -> Jet:
        return _product(self, jet(other), np.multiply)

    def __matmul__(self, other: Any) -> Jet:
        return _product(self, jet(other), np.matmul)

    def __rmatmul__(self, other: Any) -> Jet:
        return _product(jet(other), self, np.matmul)

    def __truediv__(self, other: Any) -> Jet:
        return self * reciprocal(jet(other))

    def __rtruediv__(self, other: Any) -> Jet:
        return jet(other) * reciprocal(self)

    __radd__, __rmul__ = __add__, __mul__


def jet(value: Any) -> Jet:
    return value if isinstance(value, Jet) else Jet({frozenset(): np.asarray(value, dtype=np.float64)})


def _product(one: Jet, two: Jet, times: Callable[[Any, Any], Any]) -> Jet:
    terms: dict[Term, Any] = {}
    for a, x in one.terms.items():
        for b, y in two.terms.items():
            if not a & b:
                terms[a | b] = terms.get(a | b, 0.0) + times(x, y)
    return Jet(terms)


def _smooth(kernel: Callable[[Any], Any], slope: Callable[[Jet], Jet]) -> Function:
    """A function of jets: ``f(a + b eps) = f(a) + f'(a) b eps``, one infinitesimal at a time."""

    def function(x: Any) -> Jet:
        x = jet(x)
        present = set().union(*x.terms)
        if not present:
            return Jet({frozenset(): kernel(x.standard)})
        eps = max(present)
        a, b = x.apart(eps)
        return function(a) + slope(a) * b * Jet({frozenset(): np.float64(0.0), frozenset({eps}): np.float64(1.0)})

    return function


exp: Function = _smooth(np.exp, lambda x: exp(x))
sin: Function = _smooth(np.sin, lambda x: cos(x))
cos: Function = _smooth(np.cos, lambda x: -sin(x))
log: Function = _smooth(np.log, lambda x: reciprocal(x))
reciprocal: Function = _smooth(lambda x: 1.0 / x, lambda x: -(reciprocal(x) * reciprocal(x)))
tanh: Function = _smooth(np.tanh, lambda x: 1.0 - tanh(x) * tanh(x))


def total(x: Any, axis: Any = None, keepdims: bool = False) -> Jet:
    return jet(x).map(lambda part: np.sum(part, axis=axis, keepdims=keepdims))


def spread(x: Any, shape: Any) -> Jet:
    return jet(x).map(lambda part: np.broadcast_to(part, shape))


def softmax(x: Any) -> Jet:
    powers = exp(x)
    return powers / total(powers, axis=-1, keepdims=True)


def moved(value: Any, direction: Any, eps: int) -> Jet:
    """``value + direction eps``."""
    if direction is None:
        return jet(value)
    return jet(value) + jet(direction) * Jet({frozenset(): np.float64(0.0), frozenset({eps}): np.float64(1.0)})


def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Jet, Jet]:
    eps = fresh()
    out = jet(function(*[moved(x, dx, eps) for x, dx in zip(primals, tangents, strict=True)]))
    return out.apart(eps)


def confused(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Jet, Jet]:
    """As `jvp`, but all of them share one infinitesimal: perturbation confusion."""
    out = jet(function(*[moved(x, dx, -1) for x, dx in zip(primals, tangents, strict=True)]))
    return out.apart(-1)


NAMES: dict[str, Any] = {
    "exp": exp,
    "log": log,
    "sin": sin,
    "cos": cos,
    "tanh": tanh,
    "softmax": softmax,
    "total": total,
    "spread": spread,
    "jvp": jvp,
}
"""What a program may call."""


def program(text: str, arguments: str, constants: dict[str, Any], **instead: Any) -> Callable[..., Any]:
    """A program, as a function of its arguments."""
    found: Callable[..., Any] = eval(f"lambda {arguments}: {text}", NAMES | constants | instead)
    return found
