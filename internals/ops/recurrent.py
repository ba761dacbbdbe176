"""Recurrent layers, each fused over all steps of time: a row that runs the recurrence, given the projected inputs.

What a step adds to the product of the hidden state and its weight is known before the first step, so the caller makes
it by one product for all steps. The gates are among the results: the rules read them, and work on all steps at once as
far as they can; only what is passed from step to step is left to their loops.

Everything is (time, batch, ...), and the weights have PyTorch's layout, (gates * units, units).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from internals.ops.elementwise import cast, greater, tanh, zeros_like
from internals.ops.reduce import sum, wide
from internals.ops.shape import concat, expand_dims, reshape, stack
from internals.ops.spec import Spec
from internals.ops.table import row


def _part(x: Any, index: int, parts: int) -> Any:
    """One of equal parts of the last axis."""
    n = x.shape[-1] // parts
    return x[..., index * n : (index + 1) * n]


def _before(first: Any, states: Any) -> Any:
    """The state that each step began with."""
    return concat([expand_dims(first, axis=0), states[:-1]], axis=0)


def _at(states: Any, t: int) -> Any:
    return None if states is None else states[t]


def _total(*terms: Any) -> Any:
    """The sum of those that are not None; None if all are."""
    there = [term for term in terms if term is not None]
    return reduce(operator.add, there) if there else None


def _by_weight(d: Any, before: Any) -> Any:
    """The sum over all steps of the outer products of cotangents and states."""
    rows = d.shape[0] * d.shape[1]
    return reshape(d, shape=(rows, d.shape[2])).T @ reshape(before, shape=(rows, before.shape[2]))


def _weight_for_steps(xp: Any, weight: Any) -> Any:
    return xp.ascontiguousarray(weight.T)


def _logistic(xp: Any, x: Any) -> None:
    """The logistic function in place, by a tanh, which does not overflow."""
    xp.multiply(x, 0.5, out=x)
    xp.tanh(x, out=x)
    xp.multiply(x, 0.5, out=x)
    xp.add(x, 0.5, out=x)


def _narrow(dtype: np.dtype, *results: Any) -> tuple[Any, ...]:
    return tuple([x.astype(dtype, copy=False) for x in results])


# Elman's network: h = f(x + h W^T)


def _rnn(xp: Any, x: Any, h0: Any, weight: Any, nonlinearity: str) -> Any:
    dtype, x, h, weight = x.dtype, wide(x), wide(h0), _weight_for_steps(xp, wide(weight))
    hidden = xp.empty((*x.shape[:2], h.shape[-1]), x.dtype)
    for t in range(len(x)):
        new = hidden[t]
        xp.matmul(h, weight, out=new)
        xp.add(new, x[t], out=new)
        if nonlinearity == "tanh":
            xp.tanh(new, out=new)
        else:
            xp.maximum(new, 0, out=new)
        h = new
    return hidden.astype(dtype, copy=False)


def _slope(h: Any, nonlinearity: str) -> Any:
    return 1 - h * h if nonlinearity == "tanh" else cast(greater(h, 0), dtype=h.dtype)


def _rnn_vjp(g: Any, hidden: Any, x: Any, h0: Any, weight: Any, nonlinearity: str) -> tuple[Any, ...]:
    slope, found, back = _slope(hidden, nonlinearity), [], None
    for t in reversed(range(x.shape[0])):
        by_h = g[t] if back is None else g[t] + back
        d = by_h * slope[t]
        back = d @ weight
        found.append(d)
    d = stack(found[::-1], axis=0)
    return d, back, _by_weight(d, _before(h0, hidden))


def _rnn_push(moving: int) -> Callable[..., Any]:
    def rule(tangent: Any, hidden: Any, x: Any, h0: Any, weight: Any, nonlinearity: str) -> Any:
        slope, before, found = _slope(hidden, nonlinearity), _before(h0, hidden), []
        by_h = tangent if moving == 1 else None
        for t in range(x.shape[0]):
            terms = [] if by_h is None else [by_h @ weight.T]
            terms += [tangent[t]] if moving == 0 else [before[t] @ tangent.T] if moving == 2 else []
            by_h = _total(*terms) * slope[t]
            found.append(by_h)
        return stack(found, axis=0)

    return rule


# Long short-term memory


def _lstm(xp: Any, x: Any, h0: Any, c0: Any, weight: Any) -> Any:
    dtype, x, h, c, weight = x.dtype, wide(x), wide(h0), wide(c0), _weight_for_steps(xp, wide(weight))
    n = h.shape[-1]
    gates = xp.empty(x.shape, x.dtype)
    hidden, cell = (xp.empty((*x.shape[:2], n), x.dtype) for _ in range(2))
    # The logistic function of the gates is half a tanh of half: one pass does all four.
    half = xp.full(4 * n, 0.5, x.dtype)
    half[2 * n : 3 * n] = 1
    rest = 1 - half
    new = xp.empty(h.shape, x.dtype)
    for t in range(len(x)):
        a = gates[t]
        xp.matmul(h, weight, out=a)
        xp.add(a, x[t], out=a)
        xp.multiply(a, half, out=a)
        xp.tanh(a, out=a)
        xp.multiply(a, half, out=a)
        xp.add(a, rest, out=a)
        xp.multiply(a[:, :n], a[:, 2 * n : 3 * n], out=new)
        xp.multiply(a[:, n : 2 * n], c, out=cell[t])
        h, c = hidden[t], cell[t]
        xp.add(c, new, out=c)
        xp.tanh(c, out=h)
        xp.multiply(h, a[:, 3 * n :], out=h)
    return _narrow(dtype, hidden, cell, gates)


def _lstm_bends(weight: Any) -> Any:
    """1 where a gate is a tanh, and 0 where it is the logistic function; (4 * units,)."""
    zeros = zeros_like(weight[: weight.shape[1], 0])
    return concat([zeros, zeros, zeros + 1, zeros], axis=0)


def _lstm_slopes(gates: Any, bends: Any) -> Any:
    """What the activations of the gates pass on: s (1 - s), and of a tanh (1 + s) (1 - s)."""
    return (gates + bends) * (1 - gates)


def _lstm_vjp(by: Any, out: Any, x: Any, h0: Any, c0: Any, weight: Any) -> tuple[Any, ...]:
    by_hidden, by_cell, by_gates = by
    bends, found = _lstm_bends(weight), []
    h_back = c_back = None
    for t in reversed(range(x.shape[0])):
        # One step at a time, all of it: what is between its parts stays in the cache.
        gates, cell, before = out.gates[t], out.cell[t], out.cell[t - 1] if t else c0
        i, f, g, o = (_part(gates, k, 4) for k in range(4))
        squashed = tanh(cell)
        by_h = _total(_at(by_hidden, t), h_back)
        by_h = 0 * cell if by_h is None else by_h
        by_c = _total(by_h * o * (1 - squashed * squashed), _at(by_cell, t), c_back)
        by_activations = _total(concat([by_c * g, by_c * before, by_c * i, by_h * squashed], axis=1), _at(by_gates, t))
        d = by_activations * _lstm_slopes(gates, bends)
        h_back, c_back = d @ weight, by_c * f
        found.append(d)
    d = stack(found[::-1], axis=0)
    return d, h_back, c_back, _by_weight(d, _before(h0, out.hidden))


def _lstm_push(moving: int) -> Callable[..., Any]:
    def rule(tangent: Any, out: Any, x: Any, h0: Any, c0: Any, weight: Any) -> tuple[Any, ...]:
        before_h, before_c = _before(h0, out.hidden), _before(c0, out.cell)
        slopes, squashed = _lstm_slopes(out.gates, _lstm_bends(weight)), tanh(out.cell)
        by_h, by_c = (tangent if moving == k else None for k in (1, 2))
        found: tuple[list[Any], ...] = [], [], []
        for t in range(x.shape[0]):
            i, f, g, o = (_part(out.gates[t], k, 4) for k in range(4))
            terms = [] if by_h is None else [by_h @ weight.T]
            terms += [tangent[t]] if moving == 0 else [before_h[t] @ tangent.T] if moving == 3 else []
            a = _total(*terms) * slopes[t] if terms else 0 * slopes[t]
            di, df, dg, do = (_part(a, k, 4) for k in range(4))
            moved = di * g + i * dg + df * before_c[t]
            by_c = moved if by_c is None else moved + f * by_c
            by_h = do * squashed[t] + o * (1 - squashed[t] * squashed[t]) * by_c
            for one, value in zip(found, (by_h, by_c, a), strict=True):
                one.append(value)
        return tuple([stack(one, axis=0) for one in found])

    return rule


# Gated recurrent unit


def _gru(xp: Any, x: Any, h0: Any, weight: Any, bias: Any) -> Any:
    dtype, x, h, weight, bias = x.dtype, wide(x), wide(h0), _weight_for_steps(xp, wide(weight)), wide(bias)
    n = h.shape[-1]
    hidden, gates = xp.empty((*x.shape[:2], n), x.dtype), xp.empty((*x.shape[:2], 4 * n), x.dtype)
    product, new = xp.empty((x.shape[1], 3 * n), x.dtype), xp.empty(h.shape, x.dtype)
    for t in range(len(x)):
        xp.matmul(h, weight, out=product)
        xp.add(product, bias, out=product)
        a = gates[t]
        a[:, 3 * n :] = product[:, 2 * n :]
        ru, r, u, candidate = a[:, : 2 * n], a[:, :n], a[:, n : 2 * n], a[:, 2 * n : 3 * n]
        xp.add(product[:, : 2 * n], x[t][:, : 2 * n], out=ru)
        _logistic(xp, ru)
        xp.multiply(r, a[:, 3 * n :], out=candidate)
        xp.add(candidate, x[t][:, 2 * n :], out=candidate)
        xp.tanh(candidate, out=candidate)
        # (1 - u) n + u h is n + u (h - n)
        xp.subtract(h, candidate, out=new)
        xp.multiply(new, u, out=new)
        h = hidden[t]
        xp.add(new, candidate, out=h)
    return _narrow(dtype, hidden, gates)


def _gru_vjp(by: Any, out: Any, x: Any, h0: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    by_hidden, by_gates = by
    size, back, found = out.hidden.shape[-1], None, []
    for t in reversed(range(x.shape[0])):
        r, u, n, p = (_part(out.gates[t], k, 4) for k in range(4))
        direct_r, direct_u, direct_n, direct_p = (
            (None,) * 4 if by_gates is None else (_part(by_gates[t], k, 4) for k in range(4))
        )
        before = out.hidden[t - 1] if t else h0
        by_h = _total(_at(by_hidden, t), back)
        by_h = 0 * before if by_h is None else by_h
        by_n = _total(by_h * (1 - u), direct_n) * (1 - n * n)
        by_r = _total(by_n * p, direct_r) * r * (1 - r)
        by_u = _total(by_h * (before - n), direct_u) * u * (1 - u)
        by_p = _total(by_n * r, direct_p)
        product = concat([by_r, by_u, by_p], axis=1)
        back = product @ weight + by_h * u
        found.append((by_n, product))
    products = stack([product for _, product in found[::-1]], axis=0)
    by_x = concat([products[..., : 2 * size], stack([by_n for by_n, _ in found[::-1]], axis=0)], axis=-1)
    return by_x, back, _by_weight(products, _before(h0, out.hidden)), sum(products, axis=(0, 1))


def _gru_push(moving: int) -> Callable[..., Any]:
    def rule(tangent: Any, out: Any, x: Any, h0: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        before, found_h, found_gates = _before(h0, out.hidden), [], []
        by_h = tangent if moving == 1 else None
        for t in range(x.shape[0]):
            r, u, n, p = (_part(out.gates[t], k, 4) for k in range(4))
            terms = [] if by_h is None else [by_h @ weight.T]
            if moving == 2:
                terms.append(before[t] @ tangent.T)
            if moving == 3:
                terms.append(0 * out.gates[t][:, : tangent.shape[0]] + tangent)
            product = _total(*terms) if terms else 0 * tangent[t]
            given = product + tangent[t] if moving == 0 else product
            dp = _part(product, 2, 3)
            dr, du = _part(given, 0, 3) * r * (1 - r), _part(given, 1, 3) * u * (1 - u)
            dn = (_part(given - product, 2, 3) + dr * p + r * dp) * (1 - n * n)
            moved = (1 - u) * dn + du * (before[t] - n)
            by_h = moved if by_h is None else moved + u * by_h
            found_h.append(by_h)
            found_gates.append(concat([dr, du, dn, dp], axis=1))
        return stack(found_h, axis=0), stack(found_gates, axis=0)

    return rule


# What all three check


def _check(name: str, gates: int, x: Spec, weight: Spec, **states: Spec) -> tuple[int, int, int]:
    """(time, batch, units), or an error that says what does not fit."""
    if x.ndim != 3 or weight.ndim != 2 or x.shape[0] == 0:
        raise ValueError(
            f"{name}: x has shape {x.shape}, the weight {weight.shape}; expected (time, batch, {gates} * units) with "
            f"one step or more, and ({gates} * units, units)."
        )
    if x.dtype.kind in "biu":
        raise TypeError(f"{name}: x must have a floating dtype, got {x.dtype}. Cast it, or embed indices first.")
    steps, batch, width = x.shape
    units = weight.shape[1]
    if weight.shape[0] != gates * units or width != gates * units:
        raise ValueError(
            f"{name}: x has shape {x.shape}, the weight {weight.shape}: for {units} units both need {gates} * {units} "
            "entries, x along its last axis and the weight along its first."
        )
    for what, state in states.items():
        if state.shape != (batch, units):
            raise ValueError(f"{name}: {what} has shape {state.shape}; expected (batch, units), {(batch, units)}.")
    return steps, batch, units


def _rnn_infer(x: Spec, h0: Spec, weight: Spec, *, nonlinearity: str = "tanh") -> Spec:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}.")
    return Spec(_check("rnn", 1, x, weight, h0=h0), x.dtype)


def _lstm_infer(x: Spec, h0: Spec, c0: Spec, weight: Spec) -> tuple[Spec, ...]:
    shape = _check("lstm", 4, x, weight, h0=h0, c0=c0)
    return Spec(shape, x.dtype), Spec(shape, x.dtype), Spec(x.shape, x.dtype)


def _gru_infer(x: Spec, h0: Spec, weight: Spec, bias: Spec) -> tuple[Spec, ...]:
    steps, batch, units = _check("gru", 3, x, weight, h0=h0)
    if bias.shape != (3 * units,):
        raise ValueError(f"gru: the bias has shape {bias.shape}; expected {(3 * units,)}, that of 3 * {units} gates.")
    return Spec((steps, batch, units), x.dtype), Spec((steps, batch, 4 * units), x.dtype)


rnn = row(
    "rnn",
    _rnn,
    vjp=_rnn_vjp,
    jvp=tuple(_rnn_push(i) for i in range(3)),
    saves="h0 weight out",
    joint=True,
    infer=_rnn_infer,
    strict=True,
    dtypes="promote",
    doc="h = tanh(x + h W^T), or relu, at each step (Elman 1990); x holds the projected inputs of all steps and their "
    "biases, (time, batch, units). torch.nn.RNN and keras.layers.SimpleRNN, past their input projection.",
)

lstm = row(
    "lstm",
    _lstm,
    vjp=_lstm_vjp,
    jvp=tuple(_lstm_push(i) for i in range(4)),
    saves="h0 c0 weight hidden cell gates",
    joint=True,
    results=("hidden", "cell", "gates"),
    fills=False,
    infer=_lstm_infer,
    strict=True,
    dtypes="promote",
    doc="Long short-term memory (Hochreiter & Schmidhuber 1997; the forget gate, Gers et al. 2000): with a = x + h W^T "
    "in the order i, f, g, o, c = s(f) c + s(i) tanh(g) and h = s(o) tanh(c). x holds the projected inputs of all "
    "steps and their biases, (time, batch, 4 * units). torch.nn.LSTM, past its input projection; Keras's order is the "
    "same.",
)

gru = row(
    "gru",
    _gru,
    vjp=_gru_vjp,
    jvp=tuple(_gru_push(i) for i in range(4)),
    saves="h0 weight hidden gates",
    joint=True,
    results=("hidden", "gates"),
    fills=False,
    infer=_gru_infer,
    strict=True,
    dtypes="promote",
    doc="Gated recurrent unit (Cho et al. 2014) in the order r, u, n: n = tanh(x_n + r (h W_n^T + b_n)) and h = "
    "(1 - u) n + u h. PyTorch's form, Keras's with reset_after=True, where the reset gate acts after the product; in "
    "the paper before it. The gates are r, u, n and h W_n^T + b_n. Keras's order is u, r, n.",
)
