"""custom_vjp: a rule of the user's own, in every mode, on every level; and what is said of a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from op_answers import assert_close, to_host

from internals import Tensor, grad, ops
from internals.autodiff import (
    StaleTape,
    checkpoint,
    custom_vjp,
    detect_anomaly,
    gradcheck,
    gradgradcheck,
    gradient,
    hessian,
    jacobian,
    jvp,
    tree,
    vmap,
)
from internals.ops import TABLE


@custom_vjp
def swish(x: Any, w: Any, *, k: float = 1.0) -> Any:
    """x sigmoid(k x), scaled."""
    s = ops.sigmoid(x * k)
    return x * s * w.sum(), (x, s, w)


@swish.backward
def _(saved: Any, g: Any, *, k: float = 1.0) -> Any:
    x, s, w = saved
    return g * (s + k * x * s * (1 - s)) * w.sum(), ops.broadcast_to((g * x * s).sum(), shape=w.shape)


def plain(x: Any, w: Any, *, k: float = 1.0) -> Any:
    return x * ops.sigmoid(x * k) * w.sum()


RNG = np.random.default_rng(2)
X, W = RNG.standard_normal(5), RNG.standard_normal(3)
XS = RNG.standard_normal((4, 5))

USES: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f(Tensor(X), Tensor(W), k=2.0),
    "array": lambda f: f(X, Tensor(W), k=2.0),
    "gradient": lambda f: gradient(lambda x, w: (f(x, w, k=2.0) ** 2).sum(), (0, 1))(Tensor(X), Tensor(W)),
    "hessian": lambda f: hessian(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(Tensor(X), Tensor(W)),
    "third": lambda f: jacobian(hessian(lambda x: (f(x, Tensor(W)) ** 2).sum()))(Tensor(X)),
    "jvp": lambda f: jvp(lambda x, w: f(x, w, k=0.5), (Tensor(X), Tensor(W)), (Tensor(X), Tensor(W))),
    "forward jacobian": lambda f: jacobian(f, (0, 1), mode="forward")(Tensor(X), Tensor(W)),
    "reverse jacobian": lambda f: jacobian(f, (0, 1), mode="reverse")(Tensor(X), Tensor(W)),
    "vmap": lambda f: vmap(f, in_axes=(0, None))(Tensor(XS), Tensor(W)),
    "per example": lambda f: vmap(gradient(lambda x, w: f(x, w).sum(), (0, 1)), in_axes=(0, None))(
        Tensor(XS), Tensor(W)
    ),
    "gradient of vmap": lambda f: gradient(lambda x, w: (vmap(f, in_axes=(0, None))(x, w) ** 2).sum(), (0, 1))(
        Tensor(XS), Tensor(W)
    ),
    "checkpoint": lambda f: gradient(lambda x: (checkpoint(f, x, Tensor(W)) ** 2).sum())(Tensor(X)),
}


@pytest.mark.parametrize("use", USES)
def test_as_the_rules_of_the_table(use: str) -> None:
    for mine, want in zip(tree.leaves(USES[use](swish)), tree.leaves(USES[use](plain)), strict=True):
        assert_close(to_host(mine), to_host(want), use, (1e-10, 1e-11))


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_on_the_tape_to_the_second_order(where: str) -> None:
    answers = []
    for f in (swish, plain):
        x, w = (Tensor(array, requires_grad=True, device=where) for array in (X, W))
        (f(x, w) ** 2).sum().backward()
        g = grad((f(x, w) ** 2).sum(), [x, w], create_graph=True)
        gg = grad((g[0] ** 2).sum() + g[1].sum(), [x, w])
        answers.append([x.grad, w.grad, *g, *gg])
    for mine, want in zip(*answers, strict=True):
        assert mine.device.name == where
        assert_close(to_host(mine), to_host(want), "gradient", (1e-10, 1e-11))
    x, w = (Tensor(array, requires_grad=True, device=where) for array in (X, W))
    gradcheck(swish, [x, w])
    gradgradcheck(swish, [x, w])


def test_it_is_a_node_with_its_own_name() -> None:
    x = Tensor(X, requires_grad=True)
    out = swish(x, Tensor(W))
    assert out.node.op.name == "swish"
    assert out.node.inputs[0] is x.node
    assert "swish" not in TABLE
    assert swish.__doc__ == "x sigmoid(k x), scaled."


def test_what_forward_does_is_not_recorded_and_runs_once() -> None:
    """What backward is given is what forward saved, as torch.autograd.Function has it."""
    ran = []

    @custom_vjp
    def noted(x: Any) -> Any:
        ran.append(1)
        assert not (x * 2).requires_grad
        return ops.exp(x), object()

    @noted.backward
    def _(saved: Any, g: Any) -> Any:
        assert type(saved) is object
        return g * 3

    x = Tensor(X, requires_grad=True)
    out = noted(x)
    out.backward(Tensor(np.ones(5)))
    np.testing.assert_array_equal(to_host(x.grad), np.full(5, 3.0))
    assert len(ran) == 1


def test_a_rule_that_differs_from_the_derivative_as_torch() -> None:
    """The straight-through estimator (Bengio et al. 2013): round forward, identity backward, in both modes."""

    @custom_vjp
    def straight(x: Any) -> Any:
        return ops.round(x), None

    @straight.backward
    def _(saved: Any, g: Any) -> Any:
        return g

    class Straight(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return torch.round(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x, t = Tensor(3 * X, requires_grad=True), torch.tensor(3 * X, requires_grad=True)
    (straight(x) ** 2 * x).sum().backward()
    (Straight.apply(t) ** 2 * t).sum().backward()
    assert_close(to_host(x.grad), t.grad.numpy(), "gradient")
    assert_close(to_host(jvp(straight, Tensor(X), Tensor(X))[1]), X, "tangent")


def test_a_forward_rule_of_its_own() -> None:
    used = []

    @custom_vjp
    def scaled(x: Any, y: Any) -> Any:
        return x * y, (x, y)

    @scaled.backward
    def _(saved: Any, g: Any) -> Any:
        return g * saved[1], g * saved[0]

    @scaled.jvp
    def _(saved: Any, dx: Any, dy: Any) -> Any:
        used.append(1)
        return dx * saved[1] + saved[0] * dy

    x, y = Tensor(X), Tensor(X + 1)
    _, tangent = jvp(scaled, (x, y), (x, y))
    assert_close(to_host(tangent), 2 * X * (X + 1), "tangent", (1e-12, 1e-12))
    assert used


def test_arguments_without_a_derivative() -> None:
    @custom_vjp
    def taken(x: Any, index: Any, factor: float) -> Any:
        return ops.take(x, index) * factor, (index, factor)

    @taken.backward
    def _(saved: Any, g: Any) -> Any:
        index, factor = saved
        return ops.untake(g * factor, index, axis=0, size=5), None, None

    x = Tensor(X, requires_grad=True)
    taken(x, Tensor([1, 1, 2]), 2.0).sum().backward()
    np.testing.assert_array_equal(to_host(x.grad), [0, 4, 2, 0, 0])
    assert to_host(gradient(lambda x: taken(x, Tensor([0]), 3.0).sum())(Tensor(X))).tolist() == [3, 0, 0, 0, 0]


def test_a_result_that_is_the_argument_has_memory_of_its_own() -> None:
    @custom_vjp
    def same(x: Any) -> Any:
        return x, None

    @same.backward
    def _(saved: Any, g: Any) -> Any:
        return g

    x = Tensor(X)
    y = same(x)
    y += 1
    np.testing.assert_array_equal(to_host(x), X)


def wrong(backward: Any, forward: Any = None) -> Any:
    @custom_vjp
    def broken(x: Any, y: Any) -> Any:
        return (x * y, None) if forward is None else forward(x, y)

    broken.backward(backward or (lambda saved, g: (g, g)))
    return broken


def test_an_argument_changed_in_between() -> None:
    x = Tensor(X, requires_grad=True)
    h = x * 1
    out = swish(h, Tensor(W))
    h += 1
    with pytest.raises(StaleTape, match="swish saved its tensors, which was changed in place"):
        out.sum().backward()


def test_inside_everything_at_once() -> None:
    @custom_vjp
    def square(x: Any) -> Any:
        return x * x, x

    square.backward(lambda x, g: 2 * x * g)
    with detect_anomaly():
        found = vmap(gradient(lambda x: checkpoint(lambda y: (square(y) * y).sum(), x)))(Tensor(XS))
    assert_close(to_host(found), 3 * XS**2, "gradient", (1e-12, 1e-12))
    with pytest.raises(TypeError, match="square: the result of a custom_vjp is not known without computing it"):
        vmap(square)(Tensor(np.ones((0, 3))))


WRONG: list[tuple[str, Any, Any, type[Exception], str]] = [
    ("too few", lambda s, g: g, None, RuntimeError, "broken: its backward returned 1 cotangents for 2 arguments"),
    ("too many", lambda s, g: (g, g, g), None, RuntimeError, "returned 3 cotangents for 2"),
    ("shape", lambda s, g: (g, g.sum()), None, RuntimeError, r"float64\[\] for argument 'y', which is float64\[5\]"),
    ("dtype", lambda s, g: (g.to("float32"), g), None, RuntimeError, r"float32\[5\] for argument 'x', which is float6"),
    ("an array", lambda s, g: (np.ones(5), g), None, TypeError, "broken: its backward returned ndarray for argument"),
    ("no pair", None, lambda x, y: x * y, TypeError, r"broken: a custom_vjp returns \(out, saved\), got Tensor"),
    ("three", None, lambda x, y: (x, y, x), TypeError, "got a tuple of 3"),
    ("no tensor", None, lambda x, y: (3.0, y), TypeError, "broken: the result must be one tensor, got float"),
    ("own error", None, lambda x, y: x @ Tensor([1.0]), ValueError, "matmul: "),
]  # fmt: skip


@pytest.mark.parametrize(("what", "backward", "forward", "kind", "says"), WRONG, ids=[one[0] for one in WRONG])
@pytest.mark.parametrize("way", ["tape", "create_graph", "vjp"])
def test_what_is_wrong_is_said_of_the_function(
    way: str, what: str, backward: Any, forward: Any, kind: type[Exception], says: str
) -> None:
    f = wrong(backward, forward)
    x, y = (Tensor(X, requires_grad=True) for _ in range(2))
    ways = {
        "tape": lambda: grad(f(x, y).sum(), [x, y]),
        "create_graph": lambda: grad(f(x, y).sum(), [x, y], create_graph=True),
        "vjp": lambda: gradient(lambda x, y: f(x, y).sum(), (0, 1))(x, y),
    }
    with pytest.raises(kind, match=says):
        ways[way]()


def test_what_is_no_custom_function() -> None:
    with pytest.raises(TypeError, match="expected a function, got int"):
        custom_vjp(3)
    with pytest.raises(TypeError, match="no positional argument"):
        custom_vjp(lambda *, k: (k, None))
    with pytest.raises(TypeError, match="has no backward rule yet"):
        custom_vjp(lambda x: (x, None))(Tensor(X))
    with pytest.raises(TypeError, match="expected at least one tensor"):
        swish(1.0, 2.0)
    bad = wrong(lambda s, g: (g, g))
    bad.jvp(lambda saved, dx, dy: dx.sum())
    with pytest.raises(RuntimeError, match=r"broken: its jvp returned float64\[\], but the result is float64\[5\]"):
        jvp(bad, (Tensor(X), Tensor(X)), (Tensor(X), Tensor(X)))
