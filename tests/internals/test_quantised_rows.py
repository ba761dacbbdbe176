"""The quantised rows beyond the op table's own tests: what they refuse, and where frameworks round otherwise."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, ops
from internals.ops import TABLE

F, I8 = np.float32, np.int8


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng([5, *shape]).standard_normal(shape).astype(F)


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng([6, *shape]).integers(-128, 128, shape).astype(I8)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "NaN": (lambda: ops.quantise(Tensor(F([1, np.nan])), F(0.1), np.array(0, I8)), ValueError, "quantise: x holds NaN"),
    "integers": (lambda: ops.quantise(Tensor(integers(3)), F(0.1), I8(0)), TypeError, "quantise: x must be floating"),
    "zero point": (
        lambda: ops.quantise(Tensor(floats(3)), F(0.1), np.int64(0)),
        TypeError,
        "must be int8 or uint8, got int64",
    ),
    "scales without axis": (
        lambda: ops.quantise(Tensor(floats(3)), floats(3), integers(3)),
        ValueError,
        "give axis for one",
    ),
    "scales of another size": (
        lambda: ops.quantise(Tensor(floats(2, 3)), floats(2), integers(2), axis=1),
        ValueError,
        r"the scale has shape \(2,\); expected \(3,\)",
    ),
    "axis": (
        lambda: ops.dequantise(Tensor(integers(2)), floats(2), integers(2), axis=1),
        ValueError,
        "axis 1 is out of range",
    ),
    "floats to read": (
        lambda: ops.dequantise(Tensor(floats(2)), F(0.1), I8(0)),
        TypeError,
        "expected integers, got float32",
    ),
    "ends": (
        lambda: ops.fake_quantise(Tensor(floats(2)), F(0.1), np.int32(0), low=7, high=7),
        ValueError,
        "low < high",
    ),
    "float ends": (
        lambda: ops.fake_quantise(Tensor(floats(2)), F(0.1), np.int32(0), low=0.5, high=7),
        ValueError,
        "integers",
    ),
    "sizes": (
        lambda: ops.matmul_integer(Tensor(integers(2, 3)), integers(2, 3), I8(0), I8(0)),
        ValueError,
        r"got \(2, 3\) and \(2, 3\)",
    ),
    "float factors": (
        lambda: ops.matmul_integer(Tensor(floats(2, 3)), integers(3, 2), I8(0), I8(0)),
        TypeError,
        "x must be int8 or uint8, got float32. Use quantise",
    ),
    "points per row": (
        lambda: ops.matmul_integer(Tensor(integers(2, 3)), integers(3, 2), integers(2), I8(0)),
        ValueError,
        r"expected \(\) for x",
    ),
    "long sums": (
        lambda: ops.matmul_integer(Tensor(integers(1, 40000)), integers(40000, 1), I8(0), I8(0)),
        ValueError,
        "a sum of 40000 products may not fit int32",
    ),
    "channels": (
        lambda: ops.conv2d_integer(Tensor(integers(1, 2, 3, 3)), integers(1, 3, 2, 2), I8(0), I8(0)),
        ValueError,
        "conv2d_integer: x of shape",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_fake_quantise_as_torch_with_any_scale(axis: int | None) -> None:
    """Values and straight-through gradients, bit for bit."""
    rng = np.random.default_rng(2)
    x = (4 * rng.standard_normal((40, 30))).astype(F)
    shape = () if axis is None else (x.shape[axis],)
    scale = np.asarray(rng.uniform(0.01, 0.1, shape), F)
    zero_point = np.asarray(rng.integers(-9, 9, shape), np.int32)
    g = rng.standard_normal(x.shape).astype(F)
    mine = Tensor(x, requires_grad=True)
    out = ops.fake_quantise(mine, scale, zero_point, low=-128, high=127, axis=axis)
    out.backward(Tensor(g))
    theirs, s, z = torch.tensor(x, requires_grad=True), torch.tensor(scale), torch.tensor(zero_point)
    if axis is None:
        want = torch.fake_quantize_per_tensor_affine(theirs, s, z, -128, 127)
    else:
        want = torch.fake_quantize_per_channel_affine(theirs, s, z, axis, -128, 127)
    want.backward(torch.tensor(g))
    np.testing.assert_array_equal(out.detach().numpy(), want.detach().numpy())
    np.testing.assert_array_equal(mine.grad.numpy(), theirs.grad.numpy())


def test_where_torch_rounds_otherwise() -> None:
    """quantize_per_tensor adds the zero point before it rounds, fake_quantize after: at a tie they differ."""
    x, scale = F([20.5, 20.25]), F(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.quantize_per_tensor(torch.tensor(x), 1.0, 1, torch.qint8).int_repr().tolist()
    assert ops.quantise(x, scale, I8(1)).tolist() == [21, 21]
    assert theirs == [22, 21]


def test_a_zero_point_per_output_channel() -> None:
    x, w, zeros = integers(2, 3, 5, 5), integers(4, 3, 3, 3), integers(4)
    want = ops.conv2d(x - 7.0, w - zeros.reshape(-1, 1, 1, 1).astype(float), padding=1)
    np.testing.assert_array_equal(ops.conv2d_integer(x, w, I8(7), zeros, padding=1), want)


@pytest.mark.slow
def test_where_tensorflow_rounds_otherwise(tf: Any) -> None:
    """fake_quant_with_min_max_vars rounds ties up, and ends the gradient at the range, half a step before ours."""
    x = F([0.5, 2.5, 127.3, 127.7])
    mine = Tensor(x, requires_grad=True)
    out = ops.fake_quantise(mine, F(1), np.int32(0), low=-128, high=127)
    out.backward(Tensor(np.full(4, 3, F)))
    given = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(given)
        theirs = tf.quantization.fake_quant_with_min_max_vars(given, -128.0, 127.0)
    assert out.detach().numpy().tolist() == [0, 2, 127, 127]
    assert theirs.numpy().tolist() == [1, 3, 127, 127]
    assert mine.grad.numpy().tolist() == [3, 3, 3, 0]
    assert tape.gradient(theirs, given, tf.fill([4], 3.0)).numpy().tolist() == [3, 3, 0, 0]


def test_every_quantised_row_refuses_something() -> None:
    called = {name for do, _, _ in REFUSED.values() for name in do.__code__.co_names}
    assert {name for name, op in TABLE.items() if op.room == "quantise"} <= called
