"""gradcheck and gradgradcheck find what is wrong and pass what is right; the rest is in test_swap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from internals import Tensor, grad, ops
from internals.autodiff import GradcheckError, custom_vjp, gradcheck, gradgradcheck
from internals.ops import TABLE


def leaf(*shape: int, seed: int = 0, where: str = "cpu") -> Tensor:
    return Tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape), device=where, requires_grad=True)


def rule(by: Any) -> Any:
    """exp with a rule of its own."""

    @custom_vjp
    def odd(x: Any) -> Any:
        return ops.exp(x), x

    odd.backward(lambda x, g: g * by(x))
    return odd


def one_wrong(x: Any) -> Any:
    return ops.exp(x) + ops.index_put(ops.zeros_like(x), 1e-3, key=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["cpu", "sim:0"])
@pytest.mark.parametrize("full", [False, True])
def test_passes_what_is_right(full: bool, where: str) -> None:
    x, y = leaf(2, 3, where=where), leaf(3, seed=1, where=where)
    for check in (gradcheck, gradgradcheck):
        check(lambda x, y: ops.tanh(x * y) @ y, [x, y], full=full)
        check(lambda x, y: (x.sum(), ops.topk(x * x, k=2)[0], ops.argmax(x)), [x, y], full=full)
        check(lambda x: ops.logsumexp(x), [leaf(where=where)], full=full)
        check(lambda x: x * 2, [leaf(0, 3, where=where)], full=full)


@pytest.mark.parametrize("full", [False, True])
def test_names_the_worst_entry(full: bool) -> None:
    x = leaf(2, 3)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(rule(one_wrong), [x], full=full, rng=np.random.default_rng(1))
    error = caught.value
    assert (error.input, error.index) == (0, (1, 2))
    assert 0.1 < abs(error.got - error.expected) * 1e3 < 10
    assert str(error).startswith("gradcheck: input 0, entry (1, 2): the gradient is ")
    assert "relative error" in str(error)


def test_finds_a_nan_and_an_infinity() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(GradcheckError, match="entry"):
            gradcheck(rule(lambda x, value=value: ops.exp(x) * value), [leaf(2)], forward=False)


def test_finds_a_forward_rule_that_disagrees() -> None:
    op = TABLE["tanh"]
    kept = op.jvp
    op.jvp = (lambda t, out, x: t * 2,)
    try:
        with pytest.raises(GradcheckError, match="forward and reverse mode disagree: <g, J t> is"):
            gradcheck(ops.tanh, [leaf(3)])
        gradcheck(ops.tanh, [leaf(3)], forward=False)
    finally:
        op.jvp = kept


def test_finds_a_rule_whose_own_derivative_is_wrong() -> None:
    frozen = rule(lambda x: Tensor(np.exp(x.detach().numpy())) if isinstance(x, Tensor) else ops.exp(x))
    x = leaf(3)
    gradcheck(frozen, [x], forward=False)
    with pytest.raises(GradcheckError, match="gradcheck: input 0, entry"):
        gradgradcheck(frozen, [x], forward=False)


def test_checks_a_function_that_takes_gradients() -> None:
    gradcheck(lambda x: grad((x**3).sum(), x, create_graph=True), [leaf(2)], forward=False)


def test_uses_few_runs_where_it_can() -> None:
    runs = []

    def f(x: Any) -> Any:
        runs.append(1)
        return ops.tanh(x)

    gradcheck(f, [leaf(30, 30)], directions=1)
    assert len(runs) <= 5
    runs.clear()
    gradcheck(f, [leaf(5, 5)], full=True)
    assert len(runs) >= 50


WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    (ops.exp, [Tensor([1.0], requires_grad=True)], TypeError, "input 0 is float32; finite differences need float64"),
    (ops.exp, [Tensor(np.ones(2))], ValueError, "no input requires a gradient"),
    (ops.exp, [1.0], TypeError, "input 0 is float; expected a Tensor"),
    (lambda x: x.detach() * 2, [leaf(2)], ValueError, "no result depends on an input"),
    (lambda x: ops.argmax(x), [leaf(2)], ValueError, "no result depends on an input"),
]


@pytest.mark.parametrize(("function", "inputs", "kind", "says"), WRONG)
def test_what_can_not_be_checked(function: Any, inputs: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        gradcheck(function, inputs)
