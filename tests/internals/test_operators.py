"""Python's own notation on tensors: the signs that other libraries give a meaning of bits, and arrays of a subclass."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape, dtype=np.float32)


def test_truths_combine() -> None:
    x = random(3)
    np.testing.assert_array_equal(((Tensor(x) > 0) ^ (x < 1)).numpy(), (x > 0) ^ (x < 1))
    for other in (True, False):
        np.testing.assert_array_equal((other & (Tensor(x) > 0)).numpy(), other & (x > 0))
        np.testing.assert_array_equal((other | (Tensor(x) > 0)).numpy(), other | (x > 0))
        np.testing.assert_array_equal((other ^ (Tensor(x) > 0)).numpy(), other ^ (x > 0))


@pytest.mark.parametrize("sign", ["and_", "or_", "xor"])
@pytest.mark.parametrize(("left", "right"), [([6], [3]), ([6], 3), ([True], 3), ([True], [0.5]), ([0.5], [True])])
def test_the_bits_of_numbers_are_not_taken_for_truths(sign: str, left: list[float], right: Any) -> None:
    """``6 & 3`` is 2 to NumPy and PyTorch."""
    with pytest.raises(TypeError, match=r"^[&|^]: takes booleans, got (int|int64|float32)\. Compare first"):
        getattr(operator, sign)(Tensor(left), Tensor(right) if isinstance(right, list) else right)
    if left != [True]:
        with pytest.raises(TypeError, match="^~: takes booleans"):
            ~Tensor(left)


@pytest.mark.parametrize(("left", "right"), [([-7, 7, 5], [3, -3, 5]), ([-7.5, 7.0, 0.0], [2.0, -3.0, 5.0])])
def test_the_remainder_has_the_sign_of_the_divisor(left: list[float], right: list[float]) -> None:
    want = torch.tensor(left) % torch.tensor(right)
    np.testing.assert_array_equal((Tensor(left) % Tensor(right)).numpy(), want.numpy())
    np.testing.assert_array_equal((left[0] % Tensor(right)).numpy(), (left[0] % torch.tensor(right)).numpy())


def test_what_arrays_of_a_subclass_hold_is_taken_and_not_their_rules(tmp_path: Path) -> None:
    x = random(2, 2)
    mapped = np.memmap(tmp_path / "x", x.dtype, "w+", shape=x.shape)
    mapped[:] = x
    for odd in (np.array(x, copy=True).view(np.matrix), mapped):
        for got in (Tensor(odd), Tensor(x) * 1.0 + odd - x, Tensor(odd, dtype="float32")):
            assert type(got.data) is np.ndarray
            np.testing.assert_allclose(got.numpy(), x, rtol=1e-6)
        np.testing.assert_allclose((Tensor(odd) * odd).sum(axis=1).numpy(), (x * x).sum(axis=1), rtol=1e-5)
    masked = np.ma.masked_array(x, x > 0)
    for call in (Tensor, lambda array: Tensor(x) + array):
        with pytest.raises(TypeError, match="a masked array has entries without a value.*filled"):
            call(masked)


@pytest.mark.parametrize(
    "write", [lambda x, array: x * array, lambda x, array: array * x, lambda x, array: (x * 1.0).mul_(array)]
)
def test_an_array_is_taken_by_value(write: Any) -> None:
    """A tape could not know that it was changed before the backward pass: a buffer of batches is."""
    array = random(3)
    want = array.copy()
    x = Tensor(random(3), requires_grad=True)
    product = write(x, array)
    array[:] = 0
    product.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), want)
