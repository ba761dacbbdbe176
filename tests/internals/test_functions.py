"""What the table of cases does not reach: exactness over a whole range, extremes, and rows put together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, grad, ops


def test_erf_is_exact_to_the_last_digits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20_001), 10.0 ** np.arange(-300, 0, 7), [math.inf, -math.inf]])
    want = np.array([math.erf(value) for value in x])
    np.testing.assert_allclose(ops.erf(x), want, rtol=1e-15)
    np.testing.assert_allclose(ops.erf(x.astype(np.float32)), want, rtol=1e-6, atol=1e-37)


EXTREMES = [
    ("gelu", 300.0), ("gelu", -300.0), ("gelu_tanh", 300.0), ("gelu_tanh", -300.0), ("silu", 300.0),
    ("silu", -300.0), ("softsign", 1000.0), ("elu", 300.0), ("elu", -300.0),
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("name", "value"), EXTREMES)
def test_activations_far_out(name: str, value: float, dtype: str) -> None:
    """No overflow on the way, and no NaN in the gradient: as in float64, rounded."""
    near, exact = [Tensor(np.array([value], kind), requires_grad=True) for kind in (dtype, "float64")]
    for got, want in zip(
        (ops.TABLE[name](near), grad(ops.TABLE[name](near).sum(), near)),
        (ops.TABLE[name](exact), grad(ops.TABLE[name](exact).sum(), exact)),
        strict=True,
    ):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=5e-3, atol=1e-6)


@pytest.mark.parametrize("zeros", [[0], [3], [0, 2], [1, 2, 3], [0, 1, 2, 3]])
def test_cumprod_with_zeros(zeros: list[int]) -> None:
    values = np.array([1.5, -2.0, 0.5, 3.0])
    values[zeros] = 0
    x, t = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    start = np.array([1.0, 2.0, -0.5, 0.25])
    (want,) = torch.autograd.grad(torch.cumprod(t, 0), t, torch.tensor(start))
    np.testing.assert_allclose(grad(x.cumprod(0), x, Tensor(start)).numpy(), want.numpy())


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("var", ()), ("var", (0,)), ("std", ()), ("std", (1,)), ("norm", ()), ("cumsum", (1,)), ("cumprod", (0,))],
)
def test_methods_as_torch_spells_them(method: str, arguments: Any) -> None:
    values = np.random.default_rng(4).standard_normal((3, 4))
    want = getattr(torch.tensor(values), method)(*arguments)
    np.testing.assert_allclose(getattr(Tensor(values), method)(*arguments).numpy(), want.numpy())


def test_einsum_is_attention() -> None:
    """Two einsums and a softmax, differentiated twice."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 4))]

    def attend(einsum: Any, softmax: Any, q: Any, k: Any, v: Any) -> Any:
        return einsum([softmax(einsum([q, k], "bqd,bkd->bqk")), v], "bqk,bkd->bqd")

    ours = [Tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = attend(ops.einsum, ops.softmax, *ours)
    want = attend(lambda x, e: torch.einsum(e, *x), lambda s: torch.softmax(s, -1), *theirs)
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy())
    first = grad((out * out).sum(), ours, create_graph=True)
    theirs_first = torch.autograd.grad((want * want).sum(), theirs, create_graph=True)
    second = grad((first[0] * first[1][:, :3]).sum(), ours)
    theirs_second = torch.autograd.grad((theirs_first[0] * theirs_first[1][:, :3]).sum(), theirs)
    for mine, other in zip((*first, *second), (*theirs_first, *theirs_second), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_an_einsum_of_one_operand_shares_no_memory_with_it() -> None:
    x = Tensor(np.zeros((2, 3)))
    turned = ops.einsum([x], "ij->ji")
    x[0, 0] = 1.0
    assert turned.tolist() == [[0, 0], [0, 0], [0, 0]]


def test_running_sums_are_held_in_a_wider_dtype() -> None:
    """A float16 total stops growing at 2,048 when 1 is added to it; an int8 one turns over at 128."""
    assert ops.cumsum(Tensor(np.ones(3000, np.float16)), axis=0)[-1].item() == 3000
    assert ops.cumsum(Tensor(np.ones(300, np.int8)), axis=0)[-1].item() == 300
    assert ops.cumsum(Tensor(np.ones(300, bool)), axis=0).dtype == np.int64


@pytest.mark.parametrize(("name", "value"), [("std", 2.0), ("norm", 0.0)])
def test_the_gradient_is_0_where_all_entries_are_equal(name: str, value: float) -> None:
    x = Tensor(np.full(3, value), requires_grad=True)
    assert grad(ops.TABLE[name](x), x).tolist() == [0, 0, 0]
