"""Programs that change memory through views of it, and under them; written once for torch and for us."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from in_place_cases import Program, by, changed, plus_one, random, setitem


def through(view: Callable[[Any], Any], change: Callable[[Any], Any] = plus_one) -> Program:
    """Change x * x through a view of it; both come out."""

    def program(m: Any, x: Any) -> Any:
        y = x * x
        v = view(y)
        change(v)
        return y, v

    return program


def under(view: Callable[[Any], Any], change: Callable[[Any], Any] = plus_one) -> Program:
    """Change x * x while there is a view of it; both come out."""

    def program(m: Any, x: Any) -> Any:
        y = x * x
        v = view(y)
        change(y)
        return v * v, y

    return program


def siblings(one: Callable[[Any], Any], other: Callable[[Any], Any]) -> Program:
    """Change one view of x * x while there is another; all come out."""

    def program(m: Any, x: Any) -> Any:
        y = x * x
        v, w = one(y), other(y)
        v *= 3.0
        return y * y, v, w * w

    return program


def base_let_go(m: Any, x: Any) -> Any:
    v = (x * x)[1:]
    w = v[0]
    v *= 3.0
    return w * w, v


def item_added_to(key: Any) -> Program:
    def program(m: Any, x: Any) -> Any:
        y = x * x
        y[key] += x[key] * 0.5
        return y

    return program


def put(key: Any, value: Callable[[Any, Any], Any]) -> Program:
    def program(m: Any, x: Any) -> Any:
        y = x * x
        y[key] = value(m, x)
        return y * y

    return program


def filled_row_by_row(m: Any, x: Any) -> Any:
    out = m.const(np.zeros((3, 4), np.float32))
    for i in range(3):
        out[i] = x[i] * float(i + 1)
    return out * out


def running_sum(m: Any, x: Any) -> Any:
    y = x * 1.0
    for i in range(1, 3):
        y[i] += y[i - 1]
    return y * y


def constant_through_a_view(m: Any, x: Any) -> Any:
    c = m.const(random(3, 4, seed=5))
    v, w = c[0], c[:, 1:]
    v += x[0] * x[0]
    return c, v, w * w


def constant_base_of_a_view(m: Any, x: Any) -> Any:
    c = m.const(random(3, 4, seed=5))
    v = c.T[1:]
    c *= x
    return c, v


def view_of_a_leaf_in_no_grad(m: Any, x: Any) -> Any:
    v = x[0]
    with m.no_grad():
        v += 1.0
    return v * v, x * x


def view_made_in_no_grad(m: Any, x: Any, change: Callable[[Any, Any], Any]) -> Any:
    y = x * x
    with m.no_grad():
        v = y[0]
    change(v, x)
    return y


def view_of_a_constant_made_in_no_grad(m: Any, x: Any) -> Any:
    c = m.const(random(3, 4, seed=5))
    with m.no_grad():
        v = c[0]
    v += x[0]
    return c


def constant_view_of_a_constant(m: Any, x: Any) -> Any:
    c = m.const(random(3, 4, seed=5))
    with m.no_grad():
        v = c[0]
    v += 1.0
    return c * x


def saved_then_changed_through_a_view(m: Any, x: Any, recorded: bool) -> Any:
    y = x * 2
    v = y[1]
    out = y * y
    with contextlib.nullcontext() if recorded else m.no_grad():
        v += 1.0
    return out


def view_saved_then_base_changed(m: Any, x: Any) -> Any:
    y = x * 2
    v = y[1]
    out = v * v
    y += 1.0
    return out


def view_saved_then_sibling_changed(m: Any, x: Any) -> Any:
    y = x * 2
    out = y[1] * y[1]
    y[0].add_(1.0)
    return out


def view_used_before_and_after(m: Any, x: Any) -> Any:
    y = x * x
    v = y[0]
    before = v + 1.0
    y *= 3.0
    return before, v + 1.0


def twice_through_two_views(m: Any, x: Any) -> Any:
    y = x * x
    v, w = y[0], y.T[1]
    v *= 2.0
    w *= 3.0
    v += 1.0
    return y, v, w


def requires_grad_after_the_view(m: Any, x: Any) -> Any:
    c = m.const(random(3, 4, seed=5))
    v = c[0]
    c.requires_grad = True
    v += 1.0
    return c * x


def view_that_is_a_leaf(m: Any, x: Any) -> Any:
    c = m.const(random(3, 4, seed=5))
    v = c[0]
    v.requires_grad = True
    v += 1.0
    return c * x


def retained(m: Any, x: Any) -> Any:
    y = x * x
    y.retain_grad()
    y *= 3.0
    z = y * y
    z.backward(m.const(random(3, 4, seed=8)))
    return y.grad * x


def row_by_another(m: Any, x: Any) -> Any:
    y = x * x
    y[0] += y[1]
    y[2].mul_(y[0])
    return y


def overlapping_shift(m: Any, x: Any) -> Any:
    y = x * x
    y[1:] += y[:-1]
    return y


def n(m: Any) -> Any:
    return m.const(np.array([1, 2, 3]))


MASK = random(3, 4, seed=6) > 0
ROWS = np.array([2, 0])

VIEWS: dict[str, Program] = {
    "base of a view that is gone": lambda m, x: changed(x * 2, lambda y: (y.reshape(-1), y.add_(1.0))),
    "base of a view that is let go": base_let_go,
    "view of a leaf": lambda m, x: changed(x[0]),
    "view of a view of a leaf": lambda m, x: changed(x.T[0]),
    "view of a leaf under no_grad": view_of_a_leaf_in_no_grad,
    "row": through(lambda y: y[0]),
    "row, times": through(lambda y: y[0], lambda v: v.mul_(3.0)),
    "row by a negative index": through(lambda y: y[-1], lambda v: v.mul_(3.0)),
    "one entry": through(lambda y: y[1, 2], lambda v: v.mul_(3.0)),
    "column": through(lambda y: y[:, 1], lambda v: v.mul_(3.0)),
    "every second": through(lambda y: y[:, ::2], lambda v: v.mul_(3.0)),
    "nothing": through(lambda y: y[:0], lambda v: v.mul_(3.0)),
    "all": through(lambda y: y[...], lambda v: v.mul_(3.0)),
    "new axis": through(lambda y: y[None, :, 1], lambda v: v.mul_(3.0)),
    "transpose": through(lambda y: y.T, lambda v: v.mul_(3.0)),
    "permute of three axes": through(lambda y: y.reshape(3, 2, 2).permute(2, 0, 1), lambda v: v[0].mul_(3.0)),
    "reshape": through(lambda y: y.reshape(2, 6), lambda v: v.mul_(3.0)),
    "reshape that copies": through(lambda y: y.T.reshape(-1), lambda v: v.mul_(3.0)),
    "unsqueeze": through(lambda y: y.unsqueeze(1), lambda v: v.mul_(3.0)),
    "squeeze": through(lambda y: y[:1].squeeze(0), lambda v: v.mul_(3.0)),
    "swapaxes": through(lambda y: y.swapaxes(0, 1), lambda v: v.mul_(3.0)),
    "view of a view": through(lambda y: y[1:][0], lambda v: v.mul_(3.0)),
    "view of a view of a view": through(lambda y: y.T[1:].reshape(-1)[:5], lambda v: v.mul_(3.0)),
    "slice of the transpose of a reshape": through(lambda y: y.reshape(2, 6).T[2:5, 1], lambda v: v.mul_(3.0)),
    "exp_ through a view": through(lambda y: y[0], lambda v: v.exp_()),
    "zero_ through a view": through(lambda y: y[0], lambda v: v.zero_()),
    "setitem through a view": through(lambda y: y[1:], setitem((slice(None), 0), 7.0)),
    "mask through a view": through(lambda y: y[1:], lambda v: v.mul_(2.0).__setitem__((v > 1.0), 0.5)),
    "changed, under a row": under(lambda y: y[0], lambda y: y.mul_(3.0)),
    "changed, under a transpose": under(lambda y: y.T, lambda y: y.mul_(3.0)),
    "changed, under a view of a view": under(lambda y: y.T[1:3], lambda y: y.exp_()),
    "one entry changed, under a view of it": under(lambda y: y[:, 0], setitem((0, 0), 5.0)),
    "one entry changed, under a view of others": under(lambda y: y[:, 1], setitem((0, 0), 5.0)),
    "changed, under a copy": under(lambda y: y[[0, 2]], lambda y: y.mul_(3.0)),
    "siblings that overlap": siblings(lambda y: y[0], lambda y: y[:, 1]),
    "siblings that do not overlap": siblings(lambda y: y[0], lambda y: y[1]),
    "siblings that are equal": siblings(lambda y: y[0], lambda y: y[0]),
    "sibling that is a view of the other": siblings(lambda y: y[1:], lambda y: y[1:][0]),
    "sibling above": siblings(lambda y: y.T[1], lambda y: y.T),
    "by a value on the tape": by(lambda m, x: x[1] * x[2], lambda y: y[0]),
    "by another row": row_by_another,
    "row += ": item_added_to(0),
    "entry +=": item_added_to((0, 1)),
    "slice +=": item_added_to((slice(None), slice(1, 3))),
    "row by an array +=": lambda m, x: item_added_to(m.index(ROWS))(m, x),
    "mask +=": lambda m, x: item_added_to(m.index(MASK))(m, x),
    "mask = number": lambda m, x: put(m.index(MASK), lambda m, x: 2.0)(m, x),
    "mask = values": lambda m, x: put(m.index(MASK), lambda m, x: x[m.index(MASK)] * 3.0)(m, x),
    "mask = broadcast value": lambda m, x: put(m.index(MASK), lambda m, x: x[0, 0])(m, x),
    "rows = broadcast row": put(slice(1, 3), lambda m, x: x[0]),
    "rows by an array = values": lambda m, x: put(m.index(ROWS), lambda m, x: x[1:] * 2.0)(m, x),
    "entry = entry": put((0, 0), lambda m, x: x[2, 2]),
    "everything = number": put(Ellipsis, lambda m, x: 3.0),
    "too large a value": put(0, lambda m, x: x),
    "filled row by row": filled_row_by_row,
    "a running sum": running_sum,
    "overlapping shift": overlapping_shift,
    "constant, through a view": constant_through_a_view,
    "constant, under a view": constant_base_of_a_view,
    "view made under no_grad, by a number": lambda m, x: view_made_in_no_grad(m, x, lambda v, x: v.add_(1.0)),
    "view made under no_grad, by a value": lambda m, x: view_made_in_no_grad(m, x, lambda v, x: v.add_(x[0])),
    "view of a constant, made under no_grad": view_of_a_constant_made_in_no_grad,
    "view of a constant, made under no_grad, not recorded": constant_view_of_a_constant,
    "saved, then changed through a view": lambda m, x: saved_then_changed_through_a_view(m, x, True),
    "saved, then changed through a view under no_grad": lambda m, x: saved_then_changed_through_a_view(m, x, False),
    "view saved, then the base changed": view_saved_then_base_changed,
    "view saved, then a sibling changed": view_saved_then_sibling_changed,
    "view used before and after": view_used_before_and_after,
    "through two views in turn": twice_through_two_views,
    "leaf of which there is a view": requires_grad_after_the_view,
    "view that is a leaf": view_that_is_a_leaf,
    "broadcast view": lambda m, x: changed((x * 2)[:, :1].broadcast_to((3, 4))),
    "broadcast view, base changed": under(lambda y: y[0].broadcast_to((3, 4)), lambda y: y.mul_(3.0)),
    "view of a broadcast view": lambda m, x: changed((x * 2)[0].broadcast_to((3, 4))[1]),
    "broadcast view that stretches nothing": lambda m, x: changed((x * 2).broadcast_to((3, 4))),
    "retained gradient": retained,
    "integer view": lambda m, x: x * changed(n(m), lambda v: v[1:].mul_(2)),
    "integer plus float": lambda m, x: changed(n(m), lambda v: v.add_(0.5)),
    "integer view plus float": lambda m, x: changed(n(m)[1:], lambda v: v.add_(0.5)),
    "integer times value on the tape": lambda m, x: changed(n(m), lambda v: v.mul_(x[0, 0])),
    "boolean plus integer": lambda m, x: changed(n(m) > 1, lambda v: v.add_(1)),
    "float32 plus float64": lambda m, x: changed(x * 1.0, lambda v: v.add_(m.const(random(3, 4).astype(np.float64)))),
}
