"""Kinds of wrong that show in the numbers: sign, factor, cotangent, contributions, shifts, NaN, digits.

Each function is a row of `diagnose.KINDS`: a sentence where the kind fits the evidence, None where it doesn't.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from autograder.evidence import COTANGENTS, Evidence, part, within


def averaged(e: Evidence) -> str | None:
    if e.pair is None or e.cotangent is None:
        return None
    got, want = e.pair
    times = e.cotangent.size // max(1, want.size)
    if times > 1 and e.close(got * times, want):
        return (
            f"{part(e)} is averaged over the stretched axes where it should be summed: it is 1/{times} of what it "
            "should be."
        )
    return None


def wrong_axis(e: Evidence) -> str | None:
    """Summed, but over other axes than were stretched."""
    if e.pair is None or e.ask is None or len(e.arrays) < 2:
        return None
    got, want = e.pair
    same = {name: value for name, value in e.inputs.items() if isinstance(value, np.ndarray)}
    try:
        full_shape = np.broadcast_shapes(*(value.shape for value in same.values()))
    except ValueError:
        return None
    if full_shape == want.shape or got.size > math.prod(full_shape):
        return None
    full = e.instead("stretched", **{name: np.broadcast_to(value, full_shape) for name, value in same.items()})
    if not isinstance(full, np.ndarray):
        return None
    for length in range(1, full.ndim + 1):
        for axes in itertools.combinations((axis for axis in range(full.ndim) if full.shape[axis] > 1), length):
            for keep in (True, False):
                for name, reduced in (
                    ("summed", full.sum(axis=axes, keepdims=keep)),
                    ("averaged", full.mean(axis=axes, keepdims=keep)),
                ):
                    if e.close(got, reduced):
                        return (
                            f"{part(e)} is {name} over axis {', '.join(map(str, axes))} of {full.shape}; it should "
                            f"be summed down to {want.shape}."
                        )
    return None


def only_sign(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, want = e.pair
    if want.dtype.kind in "bu" or got.dtype.kind in "bu":
        return None
    if e.close(-got, want):
        return f"The sign of {within(e)} is wrong."
    if e.close(np.abs(got), np.abs(want)):
        return f"Some entries of {within(e)} have the wrong sign."
    return None


def constant_factor(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind not in ("value", "dtype"):
        return None
    got, want = (array.astype(complex if array.dtype.kind == "c" else float) for array in e.pair)
    if got.shape != want.shape or not np.abs(want).max() > 0:
        return None
    big = np.unravel_index(int(np.abs(want).argmax()), want.shape)
    factor = (got[big] / want[big]).real
    if factor == 0 or not math.isfinite(factor) or not e.close(got / factor, want.astype(e.pair[1].dtype)):
        return None
    if abs(abs(factor) - 1) < 1e-3:
        return None
    word, reason = name_factor(factor, e)
    if got.size == 1 and not word.removeprefix("1/").isdecimal():
        return None  # between two numbers there is always some factor
    return f"{part(e)} is {word} times what it should be{reason}"


def name_factor(factor: float, e: Evidence) -> tuple[str, str]:
    """A factor in words, and what in the inputs has that size."""
    for value, word, reason in (
        (2, "2", ": is something counted twice, or a 1/2 left out?"),
        (0.5, "1/2", ": is one of two equal contributions lost?"),
    ):
        if math.isclose(factor, value, rel_tol=1e-3):
            return word, reason
    sizes: dict[int, str] = {}
    for name, array in e.arrays.items():
        if array.ndim:
            sizes.setdefault(array.shape[0], f"the first axis of {name} (the batch size, where there is one)")
        sizes.setdefault(array.size, f"the number of entries of {name}")
        for axis, size in enumerate(array.shape):
            sizes.setdefault(size, f"axis {axis} of {name}")
    for size, what in sizes.items():
        if size > 1 and math.isclose(factor, size, rel_tol=1e-3):
            return str(size), f"; {size} is {what}."
        if size > 1 and math.isclose(factor * size, 1, rel_tol=1e-3):
            return f"1/{size}", f"; {size} is {what}."
    whole = round(1 / factor) if abs(factor) < 1 else 0
    if whole and math.isclose(factor * whole, 1, rel_tol=1e-6):
        return f"1/{whole}", "."
    return f"{factor:.4g}", "."


def cotangent_ignored(e: Evidence) -> str | None:
    if e.pair is None or e.cotangent is None:
        return None
    got, _ = e.pair
    name = next(name for name in COTANGENTS if name in e.inputs)
    for label, filled in (("ones", np.ones_like(e.cotangent)), ("zeros", np.zeros_like(e.cotangent))):
        other = e.instead(label, **{name: filled})
        if isinstance(other, (np.ndarray, np.generic)) and e.close(got, other):
            if label == "ones":
                return f"{part(e)} is what it would be if `{name}` were all ones: the cotangent is not multiplied in."
            return f"{part(e)} is zero whatever `{name}` is: nothing flows back."
    return None


def cotangent_unchanged(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, _ = e.pair
    if e.cotangent is not None and e.close(got, e.cotangent):
        return "The cotangent is returned unchanged: the local derivative is missing."
    for name, array in e.arrays.items():
        if got.size > 1 and e.close(got, array):
            return f"{part(e)} equals the input {name}, unchanged."
    return None


def contributions(e: Evidence) -> str | None:
    """A sum of two inputs, of which one is lost, or comes twice."""
    if e.pair is None:
        return None
    got, want = e.pair
    for (name, a), (other, b) in itertools.permutations(list(e.arrays.items())[:12], 2):
        if a.shape != want.shape or b.shape != want.shape or not e.close(a + b, want):
            continue
        if e.close(got, b):
            return f"Only {other} is kept: it replaces {name} where it should be added to it."
        if e.close(got, a + b + b):
            return f"{other} is counted twice."
    return None


def off_by_one(e: Evidence) -> str | None:
    if e.pair is None:
        return None
    got, want = e.pair
    if got.shape != want.shape:
        differ = (
            [axis for axis in range(want.ndim) if got.shape[axis] != want.shape[axis]] if got.ndim == want.ndim else []
        )
        if len(differ) == 1 and abs(got.shape[differ[0]] - want.shape[differ[0]]) == 1:
            return (
                f"Off by one: axis {differ[0]} has {got.shape[differ[0]]} entries where {want.shape[differ[0]]} "
                "are asked for."
            )
        return None
    if (
        want.dtype.kind in "iu"
        and got.dtype.kind in "iu"
        and (np.abs(got.astype(object) - want.astype(object)) == 1).all()
    ):
        return (
            "Off by one: every entry is "
            f"{'1 too large' if (got > want).all() else '1 too small' if (got < want).all() else 'one off'}."
        )
    for axis in range(want.ndim):
        if want.shape[axis] >= 3:
            one, other = np.moveaxis(got, axis, 0), np.moveaxis(want, axis, 0)
            if e.close(one[1:], other[:-1]) or e.close(one[:-1], other[1:]):
                return f"Off by one: the entries are shifted by one place along axis {axis}."
    return None


def reversed_entries(e: Evidence) -> str | None:
    if e.pair is None or e.pair[0].shape != e.pair[1].shape:
        return None
    for axis in range(e.pair[1].ndim):
        if e.close(np.flip(e.pair[0], axis), e.pair[1]):
            return f"The entries run backwards along axis {axis}."
    return None


def not_finite(e: Evidence) -> str | None:
    if e.first.kind not in ("nan", "inf"):
        return None
    got, want = np.asarray(e.first.got), np.asarray(e.first.want)
    if e.first.kind == "nan" and np.isnan(got).sum() > np.isnan(want).sum():
        return "NaN comes out where a number is expected: 0/0, inf - inf, 0 * inf, or the mean of nothing."
    if e.first.kind == "nan":
        return "NaN is expected and something else comes out: a NaN in the input must not disappear."
    if np.isinf(got).sum() > np.isinf(want).sum():
        return (
            "An infinity comes out where a number is expected: a division by zero, or an exp or a square that "
            "overflows."
        )
    return "An infinity is missing, or has the other sign."


def all_one_value(e: Evidence) -> str | None:
    if e.pair is None or e.pair[0].size < 2:
        return None
    got, want = e.pair
    if got.shape == want.shape and (got == got.flat[0]).all() and not (want == want.flat[0]).all():
        return f"Every entry of {within(e)} is {got.flat[0]:.6g}: it does not depend on the inputs entry by entry."
    return None


def imprecise(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "value":
        return None
    got, want = e.pair
    if (
        want.dtype.kind == "f"
        and got.shape == want.shape
        and np.allclose(got, want, rtol=1e-2, atol=1e-3 * float(np.abs(want).max()))
    ):
        return (
            "Nearly right: digits are lost on the way, as by a smaller dtype, a subtraction of nearly equal "
            "numbers, or too coarse a step."
        )
    return None


def which_entries(e: Evidence) -> str | None:
    if e.pair is None or e.first.kind != "value" or e.pair[0].shape != e.pair[1].shape:
        return None
    got, want = e.pair
    wrong = ~np.isclose(got, want, rtol=1e-4, atol=1e-6)
    if not wrong.any() or wrong.all():
        return None
    for axis in range(wrong.ndim):
        hit = wrong.any(axis=tuple(other for other in range(wrong.ndim) if other != axis))
        if hit.size > 2 and hit.sum() == 1 and (hit[0] or hit[-1]):
            return f"Only the {'first' if hit[0] else 'last'} place along axis {axis} is wrong."
    return None
