"""Gradient clipping as torch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor
from internals.optim import clip_grad_norm, clip_grad_value


def with_gradients(*gradients: Any, where: str = "cpu") -> list[Tensor]:
    parameters = []
    for gradient in gradients:
        array = np.asarray(0.0 if gradient is None else gradient)
        x = Tensor(np.zeros_like(array), device=where, requires_grad=True)
        x.grad = None if gradient is None else Tensor(gradient, dtype=array.dtype, device=where)
        parameters.append(x)
    return parameters


def random(dtype: str) -> list[Any]:
    rng = np.random.default_rng(5)
    shapes: list[Any] = [(4, 3), None, (), (0, 2), (5,)]
    return [None if shape is None else np.asarray(rng.standard_normal(shape), dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", [2.0, 1.0, 3.5, math.inf])
@pytest.mark.parametrize("bound", [0.0, 0.3, 100.0])
@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_by_norm(dtype: str, p: float, bound: float, where: str) -> None:
    """Within the bound nothing is touched; a gradient that is not there and an empty one count for nothing."""
    mine = with_gradients(*random(dtype), where=where)
    theirs = [torch.zeros(x.shape, dtype=getattr(torch, dtype)) for x in mine]
    for t, gradient in zip(theirs, random(dtype), strict=True):
        t.requires_grad_()
        t.grad = None if gradient is None else torch.tensor(gradient)
    want = torch.nn.utils.clip_grad_norm_([t for t in theirs if t.numel() or p < math.inf], bound, norm_type=p)
    versions = [0 if x.grad is None else x.grad.version for x in mine]
    assert clip_grad_norm(mine, bound, p=p) == pytest.approx(float(want), rel=1e-6)
    for x, t, version in zip(mine, theirs, versions, strict=True):
        if x.grad is None:
            continue
        np.testing.assert_allclose(x.grad.to("cpu").numpy(), t.grad.numpy(), rtol=2e-6, atol=1e-12)  # type: ignore[union-attr]
        assert x.grad.version == version + (bound < 100)


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_by_value(where: str) -> None:
    mine = with_gradients(*random("float32"), [math.nan, math.inf, -math.inf], where=where)
    clip_grad_value(mine, 0.25)
    for x, gradient in zip(mine, random("float32"), strict=False):
        if gradient is not None:
            t = torch.zeros(x.shape, requires_grad=True)
            t.grad = torch.tensor(gradient)
            torch.nn.utils.clip_grad_value_([t], 0.25)
            np.testing.assert_array_equal(x.grad.to("cpu").numpy(), t.grad.numpy())
    np.testing.assert_array_equal(mine[-1].grad.to("cpu").numpy(), [math.nan, 0.25, -0.25])


@pytest.mark.parametrize(
    ("gradient", "norm"),
    [
        (np.array([3e25, 4e25], np.float32), 5e25),
        (np.array([3e-25, 4e-25], np.float32), 5e-25),
        (np.array([3e4, 4e4], np.float16), 5e4),
    ],
    ids=["huge", "tiny", "half"],
)
def test_squares_out_of_range(gradient: np.ndarray, norm: float) -> None:
    """The sum of squares would be infinite, or 0, in the gradient's own dtype."""
    (x,) = with_gradients(gradient)
    assert clip_grad_norm(x, norm / 10) == pytest.approx(norm, rel=1e-3)
    if norm > 1:
        np.testing.assert_allclose(x.grad.numpy().astype(float), gradient.astype(float) / 10, rtol=1e-3)


def test_none_at_all() -> None:
    assert clip_grad_norm([], 1.0) == 0.0
    assert clip_grad_norm(with_gradients(None), 1.0) == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_not_finite_names_the_parameter_and_scales_nothing(bad: float) -> None:
    mine = with_gradients([3.0], [1.0, bad])
    with pytest.raises(RuntimeError, match=r"clip_grad_norm: the norm .* is (nan|inf): in that of parameter 1"):
        clip_grad_norm(mine, 1.0, error_if_nonfinite=True)
    assert mine[0].grad.item() == 3.0
    clip_grad_norm(mine, 1.0)
    assert mine[0].grad.item() == 0.0 or math.isnan(mine[0].grad.item())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: clip_grad_norm([x], -1.0), "max_norm must not be negative, got -1.0"),
        (lambda x: clip_grad_norm([x], math.nan), "max_norm must not be negative, got nan"),
        (lambda x: clip_grad_norm([x], "1"), "max_norm must be a number, got str"),
        (lambda x: clip_grad_norm([x], 1.0, p=0), "p must be positive, got 0"),
        (lambda x: clip_grad_norm([np.ones(2)], 1.0), "parameter 0 is a ndarray; expected a Tensor"),
        (lambda x: clip_grad_value([x], -1.0), "clip_value must not be negative, got -1.0"),
    ],
)
def test_refused(call: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"clip_grad_(norm|value): {message}"):
        call(Tensor([1.0], requires_grad=True))
