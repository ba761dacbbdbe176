"""Nonsense for linear and recurrent layers and for attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from internals import DeviceError, Tensor, ops


def of(*shape: int, dtype: Any = np.float32, where: str = "cpu") -> Tensor:
    return Tensor(np.ones(shape, dtype), device=where)


def attend(*shapes: tuple[int, ...], **settings: Any) -> Any:
    return ops.attention(*[of(*shape) for shape in shapes], **settings)


def fused(*shapes: tuple[int, ...], **settings: Any) -> Any:
    return ops.scaled_dot_product(*[of(*shape) for shape in shapes], **settings)


QKV = ((2, 3, 4), (2, 5, 4), (2, 5, 6))

SEQUENCES_WRONG: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("linear", lambda: ops.linear(of(2, 3), of(2, 3), 0.0), ValueError, r"\(2, 3\), the weight \(2, 3\).*in_features"),
    ("linear", lambda: ops.linear(of(), of(2, 3), 0.0), ValueError, r"x has shape \(\)"),
    ("linear", lambda: ops.linear(of(2, 3), of(3, 2), of(3)), ValueError, r"bias has shape \(3,\); expected \(2,\)"),
    ("linear", lambda: ops.linear(of(2, 3), of(3, 2, where="sim:0"), 0.0), DeviceError, "cpu and sim:0"),
    ("rnn", lambda: ops.rnn(of(4, 2, 3), of(2, 3), of(3, 2)), ValueError, r"\(4, 2, 3\), the weight \(3, 2\)"),
    ("rnn", lambda: ops.rnn(of(4, 2, 3), of(1, 3), of(3, 3)), ValueError, r"h0 has shape \(1, 3\); .*\(2, 3\)"),
    ("rnn", lambda: ops.rnn(of(4, 2, 3), of(2, 3), of(3, 3), nonlinearity="x"), ValueError, "'relu', got 'x'"),
    ("lstm", lambda: ops.lstm(of(0, 2, 8), of(2, 2), of(2, 2), of(8, 2)), ValueError, "one step or more"),
    ("lstm", lambda: ops.lstm(of(3, 2, 8), of(2, 2), of(2, 3), of(8, 2)), ValueError, r"c0 has shape \(2, 3\)"),
    ("lstm", lambda: ops.lstm(of(3, 2, 6), of(2, 2), of(2, 2), of(8, 2)), ValueError, r"for 2 units both need 4 \* 2"),
    ("lstm", lambda: ops.lstm(of(3, 2, 8, dtype=int), of(2, 2, dtype=int), of(2, 2, dtype=int), of(8, 2, dtype=int)),
     TypeError, "floating dtype, got int64"),
    ("lstm", lambda: ops.lstm(of(3, 2, 8), of(2, 2, where="sim:0"), of(2, 2), of(8, 2)), DeviceError, "cpu and sim:0"),
    ("gru", lambda: ops.gru(of(3, 2, 6), of(2, 2), of(6, 2), of(2)), ValueError, r"bias has shape \(2,\); .*\(6,\)"),
    ("gru", lambda: ops.gru(of(3, 2), of(2, 2), of(6, 2), of(6)), ValueError, r"x has shape \(3, 2\)"),
    ("scaled_dot_product", lambda: fused(*QKV, (3, 5)), ValueError, r"\(3, 5\); the scores .*\(2, 3, 5\)"),
    ("scaled_dot_product", lambda: fused((1, 3, 4), *QKV[1:], ()), ValueError, "the same axes in front"),
    ("scaled_dot_product", lambda: fused(*QKV[:2], (2, 4, 6), ()), ValueError, "there are 5 keys.* but 4 values"),
    ("scaled_dot_product", lambda: fused(*QKV, (), scale="big"), TypeError, "scale must be a number.*'big'"),
    ("scaled_dot_product", lambda: ops.scaled_dot_product(of(2, 3), of(2, 3), of(2, 3, dtype=float), 0.0), TypeError,
     "one floating dtype, got float32, float32 and float64"),
    ("attention", lambda: ops.attention(None, of(2, 3), of(2, 3)), TypeError, "q must be a Tensor, got NoneType"),
    ("attention", lambda: attend(*QKV, mask=[[True]]), TypeError, "the mask must be a Tensor, got list"),
    ("attention", lambda: attend((3,), *QKV[1:]), ValueError, r"q \(3,\).*two axes"),
    ("attention", lambda: attend((2, 3, 4), (3, 5, 4), (3, 5, 6)), ValueError, r"\(2,\) and \(3,\)"),
    ("scaled_dot_product", lambda: attend((2, 3, 2), *QKV[1:]), ValueError, "differ in depth, 2 and 4"),
    ("attention", lambda: attend(*QKV, mask=of(4, 2, 3, 5)), ValueError, r"mask of shape \(4, 2, 3, 5\) does not fit"),
    ("attention", lambda: attend(*QKV, mask=of(2, 4)), ValueError, r"\(2, 4\) and \(2, 3, 5\)"),
    ("scaled_dot_product", lambda: attend(*QKV, mask=of(3, 5, dtype=int)), TypeError, "boolean.*got int64"),
    ("scaled_dot_product", lambda: attend(*QKV, mask=of(3, 5, where="sim:0")), DeviceError, "cpu and sim:0"),
]  # fmt: skip
