"""Hooks on a leaf's gradient: called in the middle of the pass, once the gradient is complete. As torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, autodiff, ops
from internals.autodiff.hooks import after_backward
from internals.tensor.hooks import accumulated

RNG = np.random.default_rng(11)
WEIGHTS = [RNG.standard_normal((3, 3)) for _ in range(3)]
X = RNG.standard_normal((2, 3))


def ours(array: np.ndarray) -> Any:
    return Tensor(array, requires_grad=True)


def theirs(array: np.ndarray) -> Any:
    return torch.tensor(array, requires_grad=True)


def chain(x: Any, w: list[Any]) -> Any:
    return ((x @ w[0]) @ w[1]) @ w[2]


def shared(x: Any, w: list[Any]) -> Any:
    """The last leaf is read first too, so it is complete last."""
    return chain(x @ w[2], w)


def unused(x: Any, w: list[Any]) -> Any:
    return (x @ w[2]) @ w[0]


def watched_pass(make: Any, model: Any, passes: int = 1) -> tuple[list[Any], list[np.ndarray]]:
    """(which leaf, its gradient, which leaves have gradients by then), in the order of calls."""
    leaves = [make(w) for w in WEIGHTS]
    x = make(X)
    seen: list[Any] = []

    def hook(number: int) -> Any:
        def called(leaf: Any) -> None:
            have = [other.grad is not None for other in leaves]
            seen.append((number, np.array(leaf.grad.tolist()), have))

        return called

    for number, leaf in enumerate(leaves):
        leaf.register_post_accumulate_grad_hook(hook(number))
    for _ in range(passes):
        (model(x, leaves) ** 2).sum().backward()
    return seen, [np.array(leaf.grad.tolist()) for leaf in leaves if leaf.grad is not None]


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("model", [chain, shared, unused])
def test_when_a_leaf_is_complete_is_as_in_torch(model: Any, passes: int) -> None:
    seen, gradients = watched_pass(ours, model, passes)
    expected, ends = watched_pass(theirs, model, passes)
    assert [(number, have) for number, _, have in seen] == [(number, have) for number, _, have in expected]
    for (_, gradient, _), (_, same, _) in zip(seen, expected, strict=True):
        np.testing.assert_allclose(gradient, same, rtol=1e-9)
    for gradient, same in zip(gradients, ends, strict=True):
        np.testing.assert_allclose(gradient, same, rtol=1e-9)


def test_hooks_change_no_gradient() -> None:
    bare = [ours(w) for w in WEIGHTS]
    (shared(ours(X), bare) ** 2).sum().backward()
    _, gradients = watched_pass(ours, shared)
    for leaf, gradient in zip(bare, gradients, strict=True):
        np.testing.assert_array_equal(leaf.grad.numpy(), gradient)


def test_a_hook_on_the_cotangent_comes_first_and_what_it_returns_is_added() -> None:
    leaf, told = ours(WEIGHTS[0]), []
    leaf.register_hook(lambda g: told.append("cotangent") or g * 2)
    leaf.register_post_accumulate_grad_hook(lambda one: told.append("gradient"))
    (ours(X) @ leaf).sum().backward()
    twin = ours(WEIGHTS[0])
    (ours(X) @ twin).sum().backward()
    assert told == ["cotangent", "gradient"]
    np.testing.assert_allclose(leaf.grad.numpy(), 2 * twin.grad.numpy(), rtol=1e-12)


def test_it_is_not_called_by_grad_nor_when_removed() -> None:
    leaf, told = ours(WEIGHTS[0]), []
    before = len(accumulated)
    hook = leaf.register_post_accumulate_grad_hook(told.append)
    autodiff.grad((ours(X) @ leaf).sum(), leaf)
    assert told == []
    assert len(accumulated) == before + 1
    hook.remove()
    hook.remove()
    (ours(X) @ leaf).sum().backward()
    assert told == []
    assert len(accumulated) == before


def test_a_recorded_pass_calls_it_too() -> None:
    leaf, told = ours(X), []
    leaf.register_post_accumulate_grad_hook(lambda one: told.append(one.grad.requires_grad))
    (leaf**3).sum().backward(create_graph=True)
    assert told == [True]


def test_after_the_pass() -> None:
    first, second, told = ours(WEIGHTS[0]), ours(WEIGHTS[1]), []

    def ending() -> None:
        told.append([one.grad is not None for one in (first, second)])

    second.register_post_accumulate_grad_hook(lambda one: after_backward(ending))
    (ops.tanh(ours(X) @ first) @ second).sum().backward()
    assert told == [[True, True]]
    with pytest.raises(RuntimeError, match="no backward pass is going on"):
        after_backward(ending)


def test_a_pass_that_fails_has_no_ending() -> None:
    leaf, told = ours(WEIGHTS[0]), []
    leaf.register_post_accumulate_grad_hook(lambda one: after_backward(lambda: told.append(1)) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (ours(X) @ leaf).sum().backward()
    other = ours(WEIGHTS[1])
    (ours(X) @ other).sum().backward()
    assert told == []


@pytest.mark.parametrize(
    ("tensor", "hook", "kind", "says"),
    [
        (Tensor(X), print, RuntimeError, "only a leaf that requires a gradient"),
        (ours(X) * 2, print, RuntimeError, "only a leaf"),
        (ours(X), 3, TypeError, "expected a function of the tensor, got int"),
    ],
    ids=["no gradient", "computed", "no function"],
)
def test_what_can_have_no_such_hook(tensor: Any, hook: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        tensor.register_post_accumulate_grad_hook(hook)
