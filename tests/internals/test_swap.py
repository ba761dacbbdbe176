"""Other rules and another reverse pass put in place of ours, and the check that tells right ones from wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from internals import Tensor, ops
from internals.autodiff import GradcheckError, gradcheck, hvp, jvp, swap
from internals.ops import TABLE, unbroadcast


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(np.float32)


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(random(*shape, seed=seed), requires_grad=True)


def network(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return (ops.tanh(x @ w + b) * w.sum(0)).sum()


def gradients() -> list[np.ndarray]:
    leaves = [leaf(4, 3, seed=1), leaf(3, 2, seed=2), leaf(2, seed=3)]
    network(*leaves).backward()
    return [x.grad.numpy() for x in leaves]


def my_backward(root: Any, cotangent: Any) -> dict[Any, Any]:
    """A reverse pass as a learner writes it: depth first, then backwards."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((one, False) for one in node.inputs)
    found, pending = {}, {root: cotangent}
    for node in reversed(order):
        if node not in pending:
            continue
        if not node.inputs:
            found[node] = pending.pop(node)
            continue
        for one, piece in zip(node.inputs, node.rule(pending.pop(node)), strict=True):
            pending[one] = pending[one] + piece if one in pending else piece
    return found


def test_a_swapped_backward_gives_the_same() -> None:
    want = gradients()
    calls = []
    with swap(backward=lambda root, g: calls.append(root.name) or my_backward(root, g)):
        got = gradients()
    assert calls == ["sum"]
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda root, g: None, TypeError, "returned NoneType; expected a dict"),
        (lambda root, g: {root: g}, TypeError, "a cotangent for .*, which is no leaf"),
        (lambda root, g: {"x": g}, TypeError, "a cotangent for 'x', which is no leaf"),
        (lambda root, g: {root.inputs[0]: g}, ValueError, r"of float32\[2, 3\] for a leaf of float32\[3\]"),
        (lambda root, g: {root.inputs[0]: g[0].astype("float64")}, ValueError, r"float64\[3\] for a leaf of float32"),
        (lambda root, g: {root.inputs[0]: "g"}, ValueError, "a cotangent of str for a leaf of float32"),
    ],
    ids=["nothing", "the root", "a name", "shape", "dtype", "text"],
)  # fmt: skip
def test_what_a_swapped_backward_returns_is_checked(answer: Any, error: type[Exception], message: str) -> None:
    x = leaf(3, seed=4)
    y = x + leaf(2, 3, seed=5).detach()
    with swap(backward=answer), pytest.raises(error, match=message):
        y.backward(y.detach())
    assert x.grad is None


def test_a_swapped_backward_cannot_be_recorded() -> None:
    x = leaf(2)
    with swap(backward=my_backward), pytest.raises(RuntimeError, match="swap: .*create_graph"):
        (x * x).sum().backward(create_graph=True)


def test_swapped_rules_give_the_same() -> None:
    want = gradients()
    calls = []

    def mul_rule(g: Any, x: Any, y: Any) -> tuple[Any, Any]:
        calls.append(1)
        return unbroadcast(g * y, x.shape), unbroadcast(g * x, y.shape)

    def add_rule(g: Any, x: Any, y: Any) -> tuple[Any, Any]:
        return g, g  # the engine sums over what was broadcast

    with ops.swap(mul=mul_rule, add=add_rule, matmul=lambda g, x, y: (g @ y.T, x.T @ g)):
        got = gradients()
    assert calls
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.fixture
def untouched() -> Iterator[None]:
    """The table is as it was after a swap, whatever happened inside."""
    before = {name: (op.vjp, op.joint, op.saves, op.keeps([1] * op.arity)) for name, op in TABLE.items()}
    yield
    assert {name: (op.vjp, op.joint, op.saves, op.keeps([1] * op.arity)) for name, op in TABLE.items()} == before


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda g, x, y: (g * y,), "the rule of mul gave 1 cotangents for 2 inputs"),
        (lambda g, x, y: (g * y, (g * x).T),
            r"the rule of mul gave a cotangent of float32\[2, 3\] for its input 'y', which is float32\[3, 2\]"),
        (lambda g, x, y: ((g * y).astype("float64"), g * x),
            r"float64\[3, 2\] for its input 'x', which is float32\[3, 2\]"),
        (lambda g, x, y: ("g", g * x), "the rule of mul gave str for its input 'x'; expected an array"),
        (lambda g, x, y: None, "the rule of mul gave NoneType; expected a tuple of 2"),
        (lambda g, x, y: g[:2], "the rule of mul gave ndarray; expected a tuple of 2"),
        (lambda g, x, y: (piece for piece in (g, g)), "the rule of mul gave generator; expected a tuple of 2"),
        (lambda g, x, y: (1.0, g * x), "the rule of mul gave float for its input 'x'; expected an array"),
    ],
    ids=["too few", "transposed", "dtype", "text", "nothing", "one array", "generator", "number"],
)  # fmt: skip
def test_a_wrong_rule_is_told_apart_by_name(rule: Any, message: str) -> None:
    x, y = leaf(3, 2, seed=1), leaf(3, 2, seed=2)
    with ops.swap(mul=rule), pytest.raises(RuntimeError, match=message):
        (x * y).sum().backward()


def test_a_rule_that_is_no_function() -> None:
    with pytest.raises(TypeError, match="the rule of mul must be a function, got int"), ops.swap(mul=3):  # type: ignore[arg-type]
        pass


def test_swapping_an_unknown_op() -> None:
    with pytest.raises(ValueError, match="no op called multiply"), ops.swap(multiply=lambda g, x, y: (g, g)):
        pass


def test_swapped_forward_rules_give_the_same() -> None:
    """Forward, and forward over reverse; each tangent may be None."""
    x, y, t = (Tensor(random(3, 3, seed=i).astype(np.float64)) for i in (1, 2, 3))
    function = lambda x: (ops.tanh(x @ y) * x * 2.0).sum()  # noqa: E731
    want = jvp(function, (x,), (t,))[1].numpy(), hvp(function, x, t).numpy()
    seen = []

    def mul_rule(dx: Any, dy: Any, x: Any, y: Any) -> Any:
        seen.append((dx is None, dy is None))
        pieces = [term for term in (None if dx is None else dx * y, None if dy is None else x * dy) if term is not None]
        return pieces[0] if len(pieces) == 1 else pieces[0] + pieces[1]

    def tanh_rule(dx: Any, x: Any) -> Any:
        return Tensor(dx.numpy() / np.cosh(x.numpy()) ** 2)

    before = {name: op.jvp for name, op in TABLE.items()}
    with ops.swap_jvp(mul=mul_rule, tanh=tanh_rule):
        got = jvp(function, (x,), (t,))[1].numpy(), hvp(function, x, t).numpy()
    assert {name: op.jvp for name, op in TABLE.items()} == before
    assert {(False, False), (False, True)} <= set(seen)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda dx, x: dx.sum(), r"swap_jvp: the rule of tanh gave float64\[\], but the result is float64\[3, 2\]"),
        (lambda dx, x: dx.to("float32"), r"gave float32\[3, 2\]"),
        (lambda dx, x: None, "gave NoneType"),
    ],
    ids=["shape", "dtype", "nothing"],
)
def test_a_wrong_forward_rule_is_told(rule: Any, message: str) -> None:
    x = Tensor(random(3, 2, seed=1).astype(np.float64))
    with ops.swap_jvp(tanh=rule), pytest.raises(RuntimeError, match=message):
        jvp(ops.tanh, x, x)


@pytest.mark.parametrize("name", ["multiply", "topk"])
def test_a_forward_rule_is_for_a_row_of_one_result(name: str) -> None:
    with pytest.raises(ValueError, match=f"no op called {name}, of one result"), ops.swap_jvp(**{name: len}):
        pass


# gradcheck


def test_gradcheck_passes_what_is_right() -> None:
    x, y = (Tensor(random(2, 3, seed=i).astype(np.float64), requires_grad=True) for i in (1, 2))
    gradcheck(lambda x, y: ops.tanh(x * y) @ y.T, [x, y])


def test_gradcheck_finds_what_is_wrong() -> None:
    x, y = (Tensor(random(2, 3, seed=i).astype(np.float64), requires_grad=True) for i in (1, 2))
    with (
        ops.swap(mul=lambda g, x, y: (g * y, g * y)),
        pytest.raises(
            GradcheckError, match=r"gradcheck: input 1, entry \(\d, \d\): the gradient is .* differences give"
        ),
    ):
        gradcheck(lambda x, y: x * y, [x, y])


def test_gradcheck_finds_an_input_that_was_forgotten() -> None:
    x = Tensor(random(2).astype(np.float64), requires_grad=True)
    with pytest.raises(GradcheckError, match="input 0"):
        gradcheck(lambda x: x + x.detach() * 2 + 0 * x, [x])


def test_gradcheck_wants_float64() -> None:
    with pytest.raises(TypeError, match="gradcheck: input 0 is float32"):
        gradcheck(lambda x: x * x, [leaf(2)])
