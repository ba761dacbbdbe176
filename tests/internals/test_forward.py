"""Forward mode: every row's tangents against its cotangents, and against torch's forward mode."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from op_answers import assert_close, attrs_of, call, laid_out, to_host, torch_joined
from op_examples import GROUPS, Example, Group

from internals import Tensor, grad, ops
from internals.autodiff import jvp
from internals.ops import TABLE

DIFFERENTIABLE = [group for group in GROUPS if group.dtype == "float64" and TABLE[group.case.op].differentiable]
DEVICES = ["cpu", "sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)]

# torch has no forward derivative for these, or none at the examples' points (ties, zeros, -inf).
NOT_IN_TORCH = {
    *("products_of_others", "unindex", "scatter_add", "index_put", "transfer", "one_hot", "ctc", "fake_quantise"),
}


def directions(example: Example) -> list[np.ndarray]:
    rng = np.random.default_rng(example.rng.integers(1 << 30))
    return [np.asarray(rng.standard_normal(np.shape(example.inputs()[i]))) for i in example.wrt()]


def pushed(example: Example, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Value and tangent of one example."""
    inputs = [laid_out(array, example.layout, where) for array in example.inputs()]
    wrt = example.wrt()

    def function(*moving: Any) -> Any:
        full: list[Any] = list(inputs)
        for i, value in zip(wrt, moving, strict=True):
            full[i] = value
        return call(example, full, where)

    tangents = [Tensor(t, device=where) for t in directions(example)]
    value, tangent = jvp(function, [inputs[i] for i in wrt], tangents)
    return to_host(value), to_host(tangent)


@pytest.mark.slow
@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("group", DIFFERENTIABLE, ids=str)
def test_tangents_are_the_transpose_of_cotangents(group: Group, where: str) -> None:
    """For a random cotangent g and direction t: <g, J t> = <J^T g, t>."""
    for example in group.examples:
        if not example.wrt():
            continue
        value, tangent = pushed(example, where)
        assert (tangent.shape, tangent.dtype) == (value.shape, value.dtype), str(example)
        inputs = [laid_out(array, example.layout, where) for array in example.inputs()]
        wrt = [inputs[i] for i in example.wrt()]
        for x in wrt:
            x.requires_grad = True
        out = call(example, inputs, where)
        assert isinstance(out, Tensor)
        np.testing.assert_array_equal(to_host(out), value)
        if not out.requires_grad:
            assert not np.any(tangent), str(example)
            continue
        if np.isnan(value).all():  # the mean of nothing, whose tangent is as undefined
            continue
        tolerance = {"float16": 1e-2, "float32": 1e-5}.get(value.dtype.name, 1e-9)
        g = example.cotangent(value)
        found = grad(out, wrt, Tensor(g, device=out.device))
        forward = np.sum(g.astype(float) * tangent)
        backward = sum(np.sum(to_host(f) * t) for f, t in zip(found, directions(example), strict=True))
        np.testing.assert_allclose(forward, backward, rtol=tolerance, atol=tolerance, err_msg=str(example))


@pytest.mark.slow
@pytest.mark.parametrize("group", [g for g in DIFFERENTIABLE if g.case.op not in NOT_IN_TORCH], ids=str)
def test_tangents_as_torch(group: Group) -> None:
    for example in group.examples:
        wrt = example.wrt()
        if not wrt:
            continue
        inputs = [torch.tensor(array) for array in example.inputs()]

        def function(*moving: Any, inputs: list[Any] = inputs, wrt: Any = wrt, example: Example = example) -> Any:
            full = list(inputs)
            for i, value in zip(wrt, moving, strict=True):
                full[i] = value
            return torch_joined(example.case.call("torch")(torch, *full, **attrs_of(example)))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            tangents = tuple(torch.tensor(t) for t in directions(example))
            _, want = torch.func.jvp(function, tuple(inputs[i] for i in wrt), tangents)
        _, tangent = pushed(example, "cpu")
        assert_close(tangent, want.numpy(), str(example))


def test_every_differentiable_row_pushes_forward() -> None:
    assert {name for name, op in TABLE.items() if op.differentiable} == {
        name for name, op in TABLE.items() if op.jvp is not None
    }
    with pytest.raises(ValueError, match="not both"):
        ops.row("half", "negative", vjp=lambda g, out, x: -g, infer=lambda x: x)
    assert "half" not in TABLE


def test_forward_over_forward() -> None:
    def slope(x: Any) -> Any:
        return jvp(lambda y: y**3, x, ops.ones_like(x))[1]

    value, curvature = jvp(slope, Tensor(2.0), Tensor(1.0))
    assert (value.item(), curvature.item()) == (12.0, 12.0)


def test_no_confusion_of_perturbations() -> None:
    """d/dx (x * d/dy (x + y)) is 1: the inner derivative must not see the outer direction (Siskind & Pearlmutter)."""
    one = Tensor(1.0)
    _, slope = jvp(lambda x: x * jvp(lambda y: x + y, one, one)[1], one, one)
    assert slope.item() == 1.0


def test_reverse_over_forward_is_a_hessian_vector_product() -> None:
    rng = np.random.default_rng(3)
    at, along, weight = rng.standard_normal(4), rng.standard_normal(4), rng.standard_normal((4, 4))
    x = Tensor(at, requires_grad=True)
    _, slope = jvp(lambda v: ops.tanh(Tensor(weight) @ v).sum() * v.prod(), x, Tensor(along))
    product = grad(slope, x)
    _, want = torch.autograd.functional.hvp(
        lambda v: torch.tanh(torch.tensor(weight) @ v).sum() * v.prod(), torch.tensor(at), torch.tensor(along)
    )
    np.testing.assert_allclose(product.numpy(), want.numpy(), rtol=1e-10)


def test_what_does_not_depend_on_the_input_has_tangent_zero() -> None:
    for function in (lambda x: Tensor([1.0, 2.0]), lambda x: ops.cast(x, dtype=np.int64), lambda x: x > 0):
        _, tangent = jvp(function, Tensor([1.0, 2.0]), Tensor([1.0, 1.0]))
        assert tangent.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "match"),
    [
        ([[1.0]], [[1.0, 2.0]], ValueError, r"tangent 0 is float32\[2\], but its primal float32\[1\]"),
        ([[1.0], [2.0]], [[1.0]], ValueError, "2 primals need as many tangents, got 1"),
        ([[1]], [[1]], TypeError, "primal 0 is int64"),
    ],
)
def test_bad_input(primals: Any, tangents: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        jvp(lambda *x: x[0], [Tensor(p) for p in primals], [Tensor(t) for t in tangents])


def test_a_function_that_returns_no_tensor() -> None:
    with pytest.raises(TypeError, match="returned float"):
        jvp(float, Tensor(1.0), Tensor(1.0))
