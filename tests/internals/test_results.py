"""Rows with several results: one node, a cotangent for each result, whichever of them are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, grad, ops
from internals.autodiff import StaleTape, jvp
from internals.ops import Op, Spec
from internals.tensor import specs_of

polar = Op(
    "polar",
    lambda xp, x, y: (xp.hypot(x, y), xp.arctan2(y, x), xp.signbit(x).astype(np.int64)),
    vjp=(
        lambda g, out, x, y: g[0] * x / out.radius - g[1] * y / (out.radius * out.radius),
        lambda g, out, x, y: g[0] * y / out.radius + g[1] * x / (out.radius * out.radius),
    ),
    jvp=(
        lambda t, out, x, y: (t * x / out.radius, -t * y / (out.radius * out.radius), None),
        lambda t, out, x, y: (t * y / out.radius, t * x / (out.radius * out.radius), None),
    ),
    saves="radius x y",
    results=("radius", "angle", "side"),
    infer=lambda x, y: (Spec(x.shape, x.dtype), Spec(x.shape, x.dtype), Spec(x.shape, np.int64)),
    dtypes="float",
)

halves = Op(
    "halves",
    lambda xp, x: (x[: len(x) // 2], x[len(x) // 2 :]),
    vjp=lambda g, out, x: ops.concat(list(g)),
    jvp="linear",
    results="several",
    infer=lambda x: (Spec((x.shape[0] // 2,), x.dtype), Spec((x.shape[0] - x.shape[0] // 2,), x.dtype)),
    view=True,
)


def torch_polar(x: Any, y: Any) -> tuple[Any, ...]:
    return torch.hypot(x, y), torch.atan2(y, x)


USES = {
    "both": lambda r, a: (r * r * a).sum(),
    "radius": lambda r, a: (r**3).sum(),
    "angle": lambda r, a: (a**3).sum(),
    "angle, twice": lambda r, a: (a * a * a).sum() + a.sum(),
}


def points() -> list[np.ndarray]:
    return [2 + np.random.default_rng().standard_normal(5) for _ in range(2)]


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
@pytest.mark.parametrize("use", USES)
def test_gradients_to_second_order_as_torch(use: str, where: str) -> None:
    values = points()
    x, y = (Tensor(v, device=where, requires_grad=True) for v in values)
    s, t = (torch.tensor(v, requires_grad=True) for v in values)
    mine = grad(USES[use](*polar(x, y)[:2]), [x, y], create_graph=True)
    theirs = torch.autograd.grad(USES[use](*torch_polar(s, t)), [s, t], create_graph=True)
    plain = grad(USES[use](*polar(x, y)[:2]), [x, y])
    seconds = grad((mine[0] * mine[1]).sum(), [x, y])
    their_seconds = torch.autograd.grad((theirs[0] * theirs[1]).sum(), [s, t])
    for got, want in zip((*mine, *plain, *seconds), (*theirs, *theirs, *their_seconds), strict=True):
        np.testing.assert_allclose(got.to("cpu").detach().numpy(), want.detach().numpy(), rtol=1e-10)


def test_results_are_named_and_an_integer_one_has_no_gradient() -> None:
    x, y = (Tensor(v, requires_grad=True) for v in points())
    out = polar(x, y)
    assert out._fields == ("radius", "angle", "side")
    assert [one.requires_grad for one in out] == [True, True, False]
    assert [spec.dtype.name for spec in specs_of(out.angle.node.inputs[0])] == ["float64", "float64", "int64"]
    assert polar(np.ones(2), np.ones(2)).radius.shape == (2,)


def test_one_node_serves_all_results() -> None:
    x, y = (Tensor(v, requires_grad=True) for v in points())
    out = polar(x, y)
    assert out.radius.node.inputs[0] is out.angle.node.inputs[0]
    assert out.radius.node.inputs[0].saved[0] is x


@pytest.mark.slow
def test_forward_mode_as_torch() -> None:
    (vx, vy), (dx, dy) = points(), points()
    value, tangent = jvp(
        lambda x, y: USES["both"](*polar(x, y)[:2]), [Tensor(vx), Tensor(vy)], [Tensor(dx), Tensor(dy)]
    )
    tensors = [torch.tensor(v) for v in (vx, vy, dx, dy)]
    want, theirs = torch.func.jvp(lambda x, y: USES["both"](*torch_polar(x, y)), tuple(tensors[:2]), tuple(tensors[2:]))
    np.testing.assert_allclose([value.item(), tangent.item()], [want.item(), theirs.item()], rtol=1e-10)


def test_a_saved_result_that_was_changed_is_refused_by_its_name() -> None:
    x, y = (Tensor(v, requires_grad=True) for v in points())
    out = polar(x, y)
    loss = out.angle.sum()
    out.radius.detach()[...] = 1.0
    with pytest.raises(StaleTape, match="polar saved its radius"):
        loss.backward()


def test_results_that_are_views_share_memory_and_versions() -> None:
    x = Tensor(np.arange(5.0), requires_grad=True)
    low, high = halves(x)
    assert low.storage is x.storage is high.storage
    g = np.random.default_rng().standard_normal(3)
    (high * Tensor(g)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, *g])


def test_second_pass_over_one_result_is_refused() -> None:
    x, y = (Tensor(v, requires_grad=True) for v in points())
    out = polar(x, y)
    out.radius.sum().backward()
    with pytest.raises(StaleTape, match="polar"):
        out.angle.sum().backward()
