"""Tensors from nothing: the values, dtypes and devices of torch's functions of the same names, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import internals as it

CASES = {
    "zeros": lambda m: m.zeros((2, 0, 3)),
    "zeros of one axis": lambda m: m.zeros(4),
    "ones": lambda m: m.ones((2, 3)),
    "full, float": lambda m: m.full((2, 2), 1.5),
    "full, int": lambda m: m.full((2,), 7),
    "full, bool": lambda m: m.full((), True),
    "eye": lambda m: m.eye(3),
    "eye, wide": lambda m: m.eye(2, 4),
    "arange": lambda m: m.arange(5),
    "arange, float": lambda m: m.arange(0.5, 3, 0.25),
    "arange, down": lambda m: m.arange(5, -3, -2),
    "arange, nothing": lambda m: m.arange(3, 3),
    "linspace": lambda m: m.linspace(-1, 2, 7),
    "linspace of one": lambda m: m.linspace(3, 5, 1),
}


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
@pytest.mark.parametrize("case", CASES)
def test_as_torch(case: str, where: str) -> None:
    class On:
        """internals, with `device` filled in."""

        def __getattr__(self, name: str) -> Any:
            return lambda *args: getattr(it, name)(*args, device=where)

    got, want = CASES[case](On()), CASES[case](torch).numpy()
    assert got.device is it.device(where)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got.to("cpu").numpy(), want, rtol=1e-6)


def test_dtype_and_gradient_are_as_asked() -> None:
    for made in (
        it.zeros(3, dtype="float64", requires_grad=True),
        it.full((3,), 1, dtype="float64", requires_grad=True),
        it.arange(3, dtype="float64", requires_grad=True),
        it.linspace(0, 1, 3, dtype="float64", requires_grad=True),
        it.normal(3, rng=np.random.default_rng(0), dtype="float64", requires_grad=True),
    ):
        assert (made.dtype, made.requires_grad, made.is_leaf) == (np.float64, True, True)


def test_random_numbers_are_those_of_the_generator_on_every_device() -> None:
    first = it.normal((1000,), rng=np.random.default_rng(3), mean=2, std=0.5)
    again = it.normal((1000,), rng=np.random.default_rng(3), mean=2, std=0.5, device="sim:0")
    np.testing.assert_array_equal(first.numpy(), again.to("cpu").numpy())
    assert abs(first.mean().item() - 2) < 0.1
    assert abs(first.std().item() - 0.5) < 0.05
    spread = it.uniform((1000,), rng=np.random.default_rng(4), low=-1, high=3).numpy()
    assert -1 <= spread.min() < -0.9
    assert 2.9 < spread.max() <= 3


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: it.zeros(-1), ValueError, "zeros: sizes can't be negative, got -1"),
        (lambda: it.zeros((2, 1.0)), TypeError, r"zeros: .*integers, got \(2, 1\.0\)"),
        (lambda: it.ones("3"), TypeError, "ones: .*'3'"),
        (lambda: it.full((2,), [1, 2]), TypeError, "full: .*number, got list"),
        (lambda: it.arange(0, 3, 0), ValueError, "arange: a step of 0"),
        (lambda: it.arange("3"), TypeError, "arange: .*numbers, got str"),
        (lambda: it.linspace(0, 1, -2), ValueError, "linspace: .*-2"),
        (lambda: it.eye(-2), ValueError, r"eye: .*\(-2, -2\)"),
        (lambda: it.normal(3, rng=0), TypeError, r"normal: rng must be a numpy\.random\.Generator, got int"),
        (lambda: it.uniform(3, rng=None), TypeError, "uniform: rng .*NoneType"),
        (lambda: it.arange(3, requires_grad=True), TypeError, "dtype int64 has no gradient"),
    ],
)
def test_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^.*{message}"):
        make()
