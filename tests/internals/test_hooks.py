"""Hooks on tensors: the same table of cases run on ours and on torch, and what only ours says."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from op_answers import to_host

import internals
from internals import Tensor, no_grad, ops
from internals.tensor.hooks import hooks

START = np.array([0.5, -1.5, 2.0])


class Ours:
    @staticmethod
    def leaf(array: np.ndarray) -> Any:
        return Tensor(array, requires_grad=True)

    grad = staticmethod(internals.grad)
    exp = ops.exp


class Theirs:
    @staticmethod
    def leaf(array: np.ndarray) -> Any:
        return torch.tensor(array, requires_grad=True)

    grad = staticmethod(torch.autograd.grad)
    exp = torch.exp


def host(value: Any) -> np.ndarray:
    return to_host(value) if isinstance(value, Tensor) else value.detach().numpy()


def replaced_on_a_leaf(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    x.register_hook(lambda g: g * 3)
    (x * x).sum().backward()
    (x * x).sum().backward()
    return [x.grad]


def replaced_on_the_way(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * x
    h.register_hook(lambda g: g * h)
    F.exp(h).sum().backward()
    return [x.grad]


def seen_once_when_complete(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * 2
    h.register_hook(lambda g: log("h", g))
    x.register_hook(lambda g: log("x", g))
    (h * h + F.exp(h) + x).sum().backward()
    return [x.grad]


def several_in_order(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * 2
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: log("second", g))
    h.register_hook(lambda g: g * 2)
    h.register_hook(lambda g: log("fourth", g))
    h.sum().backward()
    return [x.grad]


def removed(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    first = x.register_hook(lambda g: g * 100)
    x.register_hook(lambda g: g * 2)
    first.remove()
    first.remove()
    x.sum().backward()
    return [x.grad]


def before_what_is_retained(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 5)
    (h * h).sum().backward()
    return [x.grad, h.grad]


def without_retaining(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * 2
    h.register_hook(lambda g: log("h", g))
    h.sum().backward()
    return [x.grad]


def by_grad_of_a_leaf(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    x.register_hook(lambda g: g * 3)
    return list(F.grad((x * x).sum(), [x]))


def by_grad_of_what_is_between(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * 2
    h.register_hook(lambda g: g * 3)
    x.register_hook(lambda g: log("x, which nobody asks for", g))
    return list(F.grad((h * h).sum(), [h]))


def off_the_path(F: Any, log: Any) -> list[Any]:
    x, y = F.leaf(START), F.leaf(START)
    h, k = x * 2, y * 3
    k.register_hook(lambda g: log("k", g))
    return list(F.grad((h * k).sum(), [x]))


def of_the_result_itself(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    y = (x * x).sum()
    y.register_hook(lambda g: g * 7)
    y.backward()
    return [x.grad]


def differentiated_through(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * x
    h.register_hook(lambda g: g * x)
    (g,) = F.grad(F.exp(h).sum(), [x], create_graph=True)
    (gg,) = F.grad((g * g).sum(), [x])
    return [g, gg]


def twice_with_retain_graph(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * x
    h.register_hook(lambda g: log("h", g))
    y = h.sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad]


def before_a_write_in_place(F: Any, log: Any) -> list[Any]:
    x = F.leaf(START)
    h = x * 2
    h.register_hook(lambda g: log("before the write", g))
    h *= 10
    h.register_hook(lambda g: log("after", g))
    (h * 3).sum().backward()
    return [x.grad]


CASES: list[Callable[[Any, Any], list[Any]]] = [
    replaced_on_a_leaf,
    replaced_on_the_way,
    seen_once_when_complete,
    several_in_order,
    removed,
    before_what_is_retained,
    without_retaining,
    by_grad_of_a_leaf,
    by_grad_of_what_is_between,
    off_the_path,
    of_the_result_itself,
    differentiated_through,
    twice_with_retain_graph,
    before_a_write_in_place,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_hooks_as_torch(case: Callable[[Any, Any], list[Any]]) -> None:
    seen: dict[str, list[Any]] = {"ours": [], "theirs": []}
    answers = [
        case(F, lambda what, g, log=log: log.append((what, host(g).copy())))
        for F, log in ((Ours, seen["ours"]), (Theirs, seen["theirs"]))
    ]
    assert [what for what, _ in seen["ours"]] == [what for what, _ in seen["theirs"]]
    for mine, theirs in zip(
        [g for _, g in seen["ours"]] + answers[0], [g for _, g in seen["theirs"]] + answers[1], strict=True
    ):
        mine, theirs = (one if isinstance(one, np.ndarray) else host(one) for one in (mine, theirs))
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_a_gradient_that_a_hook_kept_is_not_added_to() -> None:
    kept = []
    x = Tensor(START, requires_grad=True)
    x.register_hook(kept.append)
    for _ in range(3):
        (x * 2).sum().backward()
    assert [to_host(g).tolist() for g in kept] == [[2, 2, 2]] * 3
    np.testing.assert_array_equal(to_host(x.grad), [6, 6, 6])


def test_hooks_on_one_of_several_results_and_on_sim() -> None:
    x = Tensor(np.array([3.0, 1.0, 2.0]), device="sim:0", requires_grad=True)
    top = ops.topk(x, k=2)[0]
    seen = []
    with top.register_hook(lambda g: seen.append(to_host(g)) or g * 2):
        (top * top).sum().backward(retain_graph=True)
    (top * top).sum().backward()
    np.testing.assert_array_equal(seen, [[6, 4]])
    np.testing.assert_array_equal(to_host(x.grad), [18, 0, 12])


@pytest.mark.slow
def test_a_hook_dies_with_its_tensor() -> None:
    gc.collect()
    before = len(hooks)
    x = Tensor(START, requires_grad=True)
    h = x * 2
    hook = h.register_hook(lambda g: None)
    assert len(hooks) == before + 1
    del h
    gc.collect()
    assert len(hooks) == before
    hook.remove()


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (lambda g: 3.0, TypeError, "a hook returned float; expected a tensor"),
        (lambda g: to_host(g), TypeError, "a hook returned ndarray"),
        (lambda g: g.sum(), RuntimeError, r"returned float64\[\] on cpu for a gradient of float64\[3\]"),
        (lambda g: g.to("float32"), RuntimeError, r"returned float32\[3\]"),
        (lambda g: g.to("sim:0"), RuntimeError, "on sim:0 for a gradient"),
    ],
)
@pytest.mark.parametrize("where", ["leaf", "between"])
def test_what_a_hook_may_not_return(where: str, answer: Any, kind: type[Exception], says: str) -> None:
    x = Tensor(START, requires_grad=True)
    h = x * 2
    (x if where == "leaf" else h).register_hook(answer)
    with pytest.raises(kind, match=says):
        (h * h).sum().backward()


def test_what_can_have_no_hook() -> None:
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        Tensor(START).register_hook(print)
    x = Tensor(START, requires_grad=True)
    with pytest.raises(TypeError, match="expected a function of the gradient, got int"):
        x.register_hook(3)
    with no_grad(), pytest.raises(RuntimeError, match="does not require a gradient"):
        (x * 2).register_hook(print)
