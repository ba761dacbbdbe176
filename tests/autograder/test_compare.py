"""What counts as the expected answer, and what every kind of mismatch is called."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.compare import compare
from autograder.spec import Tolerance

A = np.array([1.0, -2.0, 3.0])
F32 = A.astype(np.float32)

SAME = {
    "equal arrays": (A.copy(), A),
    "another memory layout": (A[::-1].copy()[::-1], A),
    "a scalar for a 0-d array": (np.float32(2.5), np.array(2.5, np.float32)),
    "a 0-d array for a scalar": (np.array(2.5), np.float64(2.5)),
    "a NumPy number for a Python float": (np.float32(0.1), 0.1000000014901161),
    "a NumPy integer for an int": (np.int64(3), 3),
    "a NumPy flag for a bool": (np.bool_(True), True),
    "NaN where NaN is due": (np.array([np.nan, 1.0]), np.array([np.nan, 1.0])),
    "infinity where it is due": (np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0])),
    "rounding in float64": (A * (1 + 1e-9), A),
    "rounding in float32": (F32 * np.float32(1 + 1e-6), F32),
    "cancellation between large entries": (np.array([1e6, 1e-7]), np.array([1e6, 0.0])),
    "empty arrays": (np.zeros((0, 3)), np.zeros((0, 3))),
    "keys in another order": ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
    "nested": ([(A, {"w": F32})], [(A, {"w": F32})]),
    "None": (None, None),
    "strings": ("tape", "tape"),
}

DIFFERENT = {
    "None came": (None, A, "none", ""),
    "None inside": ((A, None), (A, A), "none", "[1]"),
    "list for tuple": ([A, A], (A, A), "container", ""),
    "list for array": ([1.0, -2.0, 3.0], A, "container", ""),
    "array for tuple": (A, (A, A), "container", ""),
    "dict for list": ({"a": 1}, [1], "container", ""),
    "too few": ((A,), (A, A), "length", ""),
    "a key lacks": ({"a": 1}, {"a": 1, "b": 2}, "keys", ""),
    "a key too many": ({"a": 1, "b": 2}, {"a": 1}, "keys", ""),
    "Python float for array": (2.5, np.array(2.5), "scalar", ""),
    "string for array": ("2.5", np.array(2.5), "type", ""),
    "float for int": (3.0, 3, "type", ""),
    "flag for int": (True, 1, "type", ""),
    "int for flag": (1, True, "type", ""),
    "array for string": (A, "tape", "array", ""),
    "wider dtype": (A, F32, "dtype", ""),
    "narrower dtype": (F32, A, "dtype", ""),
    "integers": (A.astype(int), A, "dtype", ""),
    "shape": (A[None], A, "shape", ""),
    "shape of nothing": (np.zeros((3, 0)), np.zeros((0, 3)), "shape", ""),
    "NaN came": (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "nan", ""),
    "NaN vanished": (np.array([1.0, 2.0]), np.array([1.0, np.nan]), "nan", ""),
    "infinity came": (np.array([np.inf]), np.array([2.0]), "inf", ""),
    "infinity vanished": (np.array([2.0]), np.array([np.inf]), "inf", ""),
    "infinity of the wrong sign": (np.array([-np.inf]), np.array([np.inf]), "inf", ""),
    "float64 by way of float32": ((A * 1.1).astype(np.float32).astype(float), A * 1.1, "value", ""),
    "a value": (A + np.array([0, 0, 1e-3]), A, "value", ""),
    "a value in float32": (F32 + np.float32(1e-2), F32, "value", ""),
    "an integer": (np.array([1, 2]), np.array([1, 3]), "value", ""),
    "a large integer": (np.array([2**62 + 1]), np.array([2**62]), "value", ""),
    "a string": ("tape", "graph", "value", ""),
    "deep inside": ([{"w": (A, F32)}], [{"w": (A, -F32)}], "value", "[0]['w'][1]"),
}


@pytest.mark.parametrize("name", SAME)
def test_same(name: str) -> None:
    assert compare(*SAME[name]) == []


@pytest.mark.parametrize("name", DIFFERENT)
def test_different(name: str) -> None:
    got, want, kind, where = DIFFERENT[name]
    first = compare(got, want)[0]
    assert (first.kind, first.where) == (kind, where)
    assert first.message.endswith(".")


def test_the_worst_entry_is_named() -> None:
    want = np.zeros((2, 3))
    got = want.copy()
    got[0, 1], got[1, 2] = 0.5, -4.0
    (mismatch,) = compare(got, want)
    assert mismatch.index == (1, 2)
    assert mismatch.message == "result[1, 2] is -4; expected 0 (2 of 6 entries are wrong)."


def test_numbers_that_look_alike_are_shown_in_full() -> None:
    (mismatch,) = compare(np.array([1.00000001]), np.array([1.0]), Tolerance(0, 0))
    assert "1.00000001" in mismatch.message


def test_dtype_and_values_are_both_told() -> None:
    assert [mismatch.kind for mismatch in compare(2 * A, F32)] == ["dtype", "value"]


def test_the_spec_may_set_the_tolerance() -> None:
    assert compare(A + 1e-3, A, Tolerance(relative=0, absolute=1e-2)) == []
    assert compare(A + 1e-7, A, Tolerance(relative=0, absolute=1e-9))


def test_numbers_too_small_to_matter_do_not_widen_the_tolerance() -> None:
    assert compare(np.array([1e-3]), np.array([2e-3]))


@pytest.mark.parametrize(
    "odd", [{}, [], "", b"", None, False, 10**400, float("nan"), ..., slice(1, 2), np.array("text")]
)
@pytest.mark.parametrize("want", [A, 1, 1.5, "x", (A,), [1], {"a": A}, True])
def test_any_plain_answer_is_judged_and_wrong(odd: object, want: object) -> None:
    assert compare(odd, want)
