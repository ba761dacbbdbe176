"""What is wrong with an answer of ``lab17_quantise``, in words. What came is not trusted: it may be any plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.compare import Tolerance, compare
from autograder.spec import Inputs

ONE_PRODUCT = Tolerance(relative=2e-6, absolute=0.0)
"""What one product in float32 may be off."""


def _shaped(what: str, got: Any, want: Any) -> list[str]:
    if not isinstance(got, np.ndarray | np.generic) or got.dtype.kind not in "iuf":
        return [f"{what} is no array of numbers."]
    if got.shape != want.shape:
        return [f"{what} has shape {got.shape}; expected {want.shape}."]
    return []


def _worst(got: np.ndarray, want: np.ndarray) -> tuple[int, ...]:
    with np.errstate(all="ignore"):
        off = np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(np.nan_to_num(off, nan=np.inf))), off.shape))


def _place(index: tuple[int, ...]) -> str:
    return f" at {list(index)}" if index else ""


# --- scale and zero point -------------------------------------------------------------------------


def scale_point(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first slice whose scale or zero point is wrong."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["scale_and_zero_point did not give a scale and a zero point."]
    for what in ("scale", "zero_point"):
        if wrong := _shaped(f"The {what}", got[what], np.asarray(want[what])):
            return wrong
    scale, right = np.asarray(got["scale"], np.float64), np.asarray(want["scale"])
    low, high, symmetric = np.asarray(inputs["low"]), np.asarray(inputs["high"]), inputs["symmetric"]
    if not np.allclose(scale, right, rtol=1e-5, atol=0):
        at = _worst(scale / right, np.ones_like(right))
        span = f"from {low[at]:.6g} to {high[at]:.6g}"
        why = "the largest magnitude by 127" if symmetric else "the range, which has to hold 0, by 255"
        if (max(-low[at], high[at]) <= 0 and symmetric) or (low[at] == high[at] == 0):
            why = "a range of nothing has the scale SMALLEST, so that it can be divided by"
        return [f"The scale{_place(at)} for a range {span} is {scale[at]:.6g}; expected {right[at]:.6g}: {why}."]
    zero, expected = np.asarray(got["zero_point"], np.float64), np.asarray(want["zero_point"])
    # Next to a tie, float32 and float64 may round to either side.
    exact = np.zeros_like(right) if symmetric else -128 - np.minimum(low, 0).astype(np.float64) / right
    off = np.abs(zero - expected) > np.where(np.abs(np.abs(exact - np.floor(exact)) - 0.5) < 1e-3, 1, 0)
    if off.any():
        at = tuple(int(i) for i in np.argwhere(off)[0])
        if not -128 <= zero[at] <= 127:
            return [f"The zero point{_place(at)} is {zero[at]:g}, and no int8: it lies outside -128 to 127."]
        return [
            f"The zero point{_place(at)} for a range from {low[at]:.6g} to {high[at]:.6g} is {zero[at]:g}; expected "
            f"{expected[at]:g}, the integer that stands for 0.0."
        ]
    return []


# --- quantise and dequantise ----------------------------------------------------------------------


def integers(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first integer that is wrong, then the first real."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["quantise and dequantise did not give two arrays."]
    q, right = got["q"], np.asarray(want["q"])
    if wrong := _shaped("quantise's result", q, right):
        return wrong
    if q.dtype != np.int8:
        return [f"quantise's result is {q.dtype}; expected int8."]
    if not np.array_equal(q, right):
        at = _worst(q, right)
        x = np.asarray(inputs["x"])
        scale, zero = (_at(inputs[name], inputs["axis"], at, x.ndim) for name in ("scale", "zero_point"))
        steps = float(x[at]) / float(scale)
        words = f"x{_place(at)} is {steps:g} steps, and the zero point {int(zero)}: expected {right[at]}, got {q[at]}"
        if not -128 <= steps + int(zero) <= 127:
            return [f"{words}. What lies beyond the grid goes to its end."]
        return [f"{words}. The nearest integer is taken, of two that are as near the even number of steps."]
    back, real = got["back"], np.asarray(want["back"])
    if wrong := _shaped("dequantise's result", back, real):
        return wrong
    if back.dtype != np.float32:
        return [f"dequantise's result is {back.dtype}; expected float32."]
    if compare(np.asarray(back), real, ONE_PRODUCT):
        at = _worst(back, real)
        return [
            f"dequantise read {q[at]}{_place(at)} as {back[at]:g}; expected {real[at]:g}: (q - zero_point) * scale."
        ]
    return []


def _at(values: Any, axis: int | None, at: tuple[int, ...], ndim: int) -> Any:
    values = np.asarray(values)
    return values[()] if axis is None else values[at[axis % ndim]]


# --- the product ----------------------------------------------------------------------------------


def product(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first entry that is wrong, and the sum behind it."""
    right = np.asarray(want)
    if wrong := _shaped("int8_matmul's result", got, right):
        return wrong
    if got.dtype != np.int8:
        return [f"int8_matmul's result is {got.dtype}; expected int8."]
    if np.array_equal(got, right):
        return []
    at = _worst(got, right)
    row, column = inputs["qx"][at[0]].astype(np.int64), inputs["qw"][:, at[1]].astype(np.int64)
    zx, zw = int(inputs["x"][1]), int(np.broadcast_to(inputs["w"][1], right.shape[1])[at[1]])
    plain, exact = int(row @ column), int((row - zx) @ (column - zw))
    sw = float(np.broadcast_to(inputs["w"][0], right.shape[1])[at[1]])
    steps = exact * float(inputs["x"][0]) * sw / float(inputs["y"][0])
    return [
        f"Entry {list(at)} is {got[at]}; expected {right[at]}. The integers' product is {plain}, and {exact} "
        f"without what the zero points put in; that is {steps:g} steps of y, whose zero point is {int(inputs['y'][1])}."
    ]


# --- calibration ----------------------------------------------------------------------------------


def calibrate(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """Which end is wrong."""
    if not isinstance(got, list) or len(got) != 2 or not all(isinstance(one, float) for one in got):
        return ["calibrate did not give two numbers."]
    for name, one, right in zip(("low", "high"), got, want, strict=True):
        if not abs(one - right) <= 1e-5 * max(1.0, abs(right)):
            outside = (100 - inputs["percentile"]) / 2
            if right == 0:
                return [f"The {name} end is {one:.6g}; expected 0: the range has to hold 0."]
            return [
                f"The {name} end is {one:.6g}; expected {right:.6g}: {outside:g} % of all numbers of all batches "
                "together lie beyond it."
            ]
    return []


# --- straight through -----------------------------------------------------------------------------


def straight_through(inputs: Inputs, got: Any, want: Any) -> list[str]:
    """The first number, or the first cotangent, that is wrong."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        return ["fake_quantise and fake_quantise_backward did not give two arrays."]
    x, scale, zero = np.asarray(inputs["x"]), float(inputs["scale"]), int(inputs["zero_point"])
    for what, key in (("fake_quantise's result", "y"), ("the cotangent", "g")):
        one, right = got[key], np.asarray(want[key])
        if wrong := _shaped(what, one, right):
            return wrong
        if not compare(np.asarray(one, right.dtype), right):
            continue
        at = _worst(one, right)
        where = f"x{_place(at)} rounds to the grid's {np.rint(float(x[at]) / scale) + zero:g}"
        if key == "y":
            return [f"{where}: it should come back as {right[at]:g}; fake_quantise gave {one[at]:g}."]
        if right[at] == 0:
            return [f"{where}, outside -128 to 127, so nothing passes; fake_quantise_backward gave {one[at]:g}."]
        return [f"{where}, which is on it, so {right[at]:g} passes as it is; fake_quantise_backward gave {one[at]:g}."]
    return []
