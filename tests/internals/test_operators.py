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


PARTS = np.array([-7.5, -0.0, 0.0, 0.3, 2, 7, 1e-40, 3e38, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_whole_parts_are_rounded_down_to_the_bit(dtype: str) -> None:
    """Also where the divisor is 0 or infinite, and where the quotient is a hair below a whole number."""
    if dtype == "int64":
        x, y = np.meshgrid(np.arange(-7, 8), [-3, -1, 1, 2, 5])
    else:
        x, y = np.meshgrid(np.concatenate([PARTS, random(200) * 9, [0.6, 0.9]]).astype(np.float32), [*PARTS, 0.1, -0.3])
        y = y.astype(np.float32)
    whole, rest = divmod(Tensor(x), Tensor(y))
    for got in (whole, Tensor(x) // y, x // Tensor(y)):
        want = (torch.tensor(x) // torch.tensor(y)).numpy()
        np.testing.assert_array_equal(got.numpy(), want)
        there = want == want  # NaN has no sign that means anything
        np.testing.assert_array_equal(np.signbit(got.numpy()[there]), np.signbit(want[there]))
    plain = (np.abs(y) > 0.01) & (np.abs(y) < 10) & (np.abs(x) < 1e3)
    np.testing.assert_allclose((whole * y + rest).numpy()[plain], x[plain], rtol=1e-5, atol=1e-6)
    for number in (7, -7):
        for got, want in zip(divmod(number, Tensor([2, -3])), np.divmod(number, [2, -3]), strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


def test_a_whole_part_hands_nothing_back() -> None:
    x, y = random(5) * 4, np.abs(random(5)) + 0.5
    ours = [Tensor(x, requires_grad=True), Tensor(y, requires_grad=True)]
    theirs = [torch.tensor(value, requires_grad=True) for value in (x, y)]
    (ours[0] // ours[1] * ours[0] + ours[0] % ours[1]).sum().backward()
    whole = torch.div(*theirs, rounding_mode="floor")
    (whole * theirs[0] + theirs[0] % theirs[1]).sum().backward()
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got.grad.numpy(), want.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("sign", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_a_sign_with_equals_writes_in_place(sign: str) -> None:
    """So whoever holds the tensor, or a view of it, sees it; as in torch."""
    x = np.abs(random(2, 3)) + 0.2
    for left in (Tensor(x), torch.tensor(x)):
        row, before = left[1], left
        left = getattr(operator, sign)(left, 1.5)
        assert left is before
        np.testing.assert_allclose(row.numpy(), getattr(operator, sign[1:])(x[1], np.float32(1.5)), rtol=1e-6)


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
