"""Programs that change memory in place, written once for torch and for us."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any, Any], Any]
"""``program(m, x)``: `m` is the framework, `x` a leaf of shape (3, 4); one tensor or several come out."""


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(np.float32)


def setitem(key: Any, value: Any) -> Callable[[Any], None]:
    def write(x: Any) -> None:
        x[key] = value

    return write


def plus_one(x: Any) -> None:
    x += 1.0


def changed(value: Any, how: Callable[[Any], Any] = plus_one) -> Any:
    """`value` after an in-place change."""
    how(value)
    return value


def after(m: Any, x: Any, *, make: Callable[[Any], Any], change: Any = plus_one, recorded: bool = True) -> Any:
    """Compute a result from x * 2, then change x * 2, and hand the result on."""
    y = x * 2
    out = make(y)
    with contextlib.nullcontext() if recorded else m.no_grad():
        change(y)
    return out


def leaf_in_no_grad(m: Any, x: Any, then: Callable[[Any], Any]) -> Any:
    with m.no_grad():
        x += 1.0
    return then(x)


def through_detach(m: Any, x: Any) -> Any:
    y = x * 2
    out = y * y
    y.detach().add_(1.0)
    return out


def into_detached(m: Any, x: Any) -> Any:
    y = x * 2
    alias = y.detach()
    alias += x
    return y * 1.0, alias


def through_view_of_detached(m: Any, x: Any) -> Any:
    y = x * 2
    v = y.detach()[0]
    v += x[0]
    return y * 1.0, v


def constant_changed(m: Any, x: Any, make: Callable[[Any, Any], Any]) -> Any:
    c = m.const(random(3, 4, seed=5))
    out = make(x, c)
    c += 1.0
    return out


def multiplied_by_itself(m: Any, x: Any) -> Any:
    y = x * 2
    y *= y
    return y


def by(amount: Callable[[Any, Any], Any], view: Callable[[Any], Any] = lambda y: y) -> Program:
    """Add something that is on the tape, in place, to x * x or a view of it."""

    def program(m: Any, x: Any) -> Any:
        y = x * x
        v = view(y)
        v += amount(m, x)
        return y, v

    return program


def result_of_in_place_changed(how: Callable[[Any], Any]) -> Program:
    """The result that an in-place op saved is changed once more."""

    def program(m: Any, x: Any) -> Any:
        y = x * 2
        how(y)
        y += 1.0
        return y

    return program


def same_memory_twice(m: Any, x: Any) -> Any:
    y = x * x
    y += y
    v = y[0]
    v += v
    return y


def method(name: str, *others: Any) -> Program:
    """An in-place method on values for which it is smooth, and on a view of them."""

    def program(m: Any, x: Any) -> Any:
        y = m.sigmoid(x) * 0.8 + 0.1
        arguments = [m.const(other) if isinstance(other, np.ndarray) else other for other in others]
        z = y * 1.0
        getattr(z, name)(*arguments)
        w = y * 1.0
        getattr(w[1:], name)(*[a[1:] if getattr(a, "ndim", 0) else a for a in arguments])
        return z, w

    return program


WRITES: dict[str, Program] = {
    "leaf": lambda m, x: changed(x),
    "leaf, one entry": lambda m, x: changed(x, setitem(0, 1.0)),
    "leaf, zero_": lambda m, x: changed(x, lambda x: x.zero_()),
    "leaf under no_grad, before use": lambda m, x: leaf_in_no_grad(m, x, lambda x: x * x),
    "leaf under no_grad, after mul": lambda m, x: leaf_in_no_grad(m, x, (lambda z: lambda x: z)(x * x)),
    "leaf under no_grad, after add": lambda m, x: leaf_in_no_grad(m, x, (lambda z: lambda x: z)(x + x)),
    "result of mul": lambda m, x: changed(x * 2),
    "result of exp": lambda m, x: changed(m.exp(x)),
    "result of tanh": lambda m, x: changed(m.tanh(x)),
    "result of relu": lambda m, x: changed(m.relu(x)),
    "result of softmax": lambda m, x: changed(m.softmax(x)),
    "result of softmax, through a view": lambda m, x: changed(m.softmax(x)[0]),
    "input of mul": lambda m, x: after(m, x, make=lambda y: y * y),
    "input of mul, under no_grad": lambda m, x: after(m, x, make=lambda y: y * y, recorded=False),
    "input of mul by a number": lambda m, x: after(m, x, make=lambda y: y * 3),
    "input of add": lambda m, x: after(m, x, make=lambda y: y + 1),
    "input of matmul": lambda m, x: after(m, x, make=lambda y: y @ y.T),
    "input of exp": lambda m, x: after(m, x, make=m.exp),
    "input of div": lambda m, x: after(m, x, make=lambda y: y / y),
    "input of 1 / y": lambda m, x: after(m, x, make=lambda y: 1 / y),
    "input of sum": lambda m, x: after(m, x, make=lambda y: y.sum()),
    "input of max": lambda m, x: after(m, x, make=lambda y: y.max()),
    "input of square, one entry": lambda m, x: after(m, x, make=lambda y: y * y, change=setitem((0, 0), 5.0)),
    "input of add, one entry": lambda m, x: after(m, x, make=lambda y: y + 1, change=setitem((0, 0), 5.0)),
    "alias by detach": through_detach,
    "a value on the tape into a detached alias": into_detached,
    "through a view of a detached alias": through_view_of_detached,
    "constant that mul saved": lambda m, x: constant_changed(m, x, lambda x, c: x * c),
    "constant that add did not save": lambda m, x: constant_changed(m, x, lambda x, c: x + c),
    "several": lambda m, x: changed(changed(x * 2), lambda y: y.__imul__(3.0)) * 1.0,
    "isub, itruediv": lambda m, x: changed(changed(x * 2, lambda y: y.__isub__(3.0)), lambda y: y.__itruediv__(2.0)),
    "by a tensor on the tape": lambda m, x: changed(x * 2, lambda y: y.__imul__(x)),
    "by itself": multiplied_by_itself,
    "twice itself, and a view of itself": same_memory_twice,
    "value on the tape into a constant": lambda m, x: changed(m.const(random(3, 4)), setitem(0, x[1] * 2)),
    "to a larger shape": lambda m, x: changed(x.sum(), lambda y: y.__iadd__(x)),
    "view to a larger shape": lambda m, x: changed((x * 2)[0], lambda y: y.__iadd__(x)),
    "add with broadcasting": by(lambda m, x: x[0] * 2),
    "add with broadcasting, one entry": by(lambda m, x: x[0, 0] * 2, lambda y: y[1:]),
    "add with broadcasting, a column": by(lambda m, x: x[:, :1] * 2, lambda y: y[:, 1:]),
}

# fmt: off
UNARY = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "log", "log10",
    "log1p", "log2", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "square", "tan", "tanh", "trunc", "erf", "zero",
]
# fmt: on

METHODS: dict[str, Program] = {
    **{f"{name}_": method(f"{name}_") for name in UNARY},
    **{
        f"{name}_ by {kind}": method(f"{name}_", other)
        for name in ("add", "sub", "mul", "div", "pow", "remainder", "copy")
        for kind, other in (("number", 1.5), ("tensor", np.abs(random(3, 4, seed=9)) + 0.5))
        if (name, kind) != ("copy", "number")
    },
    "atan2_": method("atan2_", random(3, 4, seed=9)),
    "hypot_": method("hypot_", random(3, 4, seed=9)),
    "fill_": method("fill_", 0.3),
    "clip_": method("clip_", 0.3, 0.6),
    **{
        f"{name}_, then changed": result_of_in_place_changed(lambda y, name=name: getattr(y, f"{name}_")())
        for name in ("exp", "tanh", "relu", "sigmoid", "sin", "neg", "square", "abs")
    },
}
