"""The reverse pass: what it computes, keeps, frees and refuses."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, ops
from internals.autodiff import StaleTape, grad
from internals.ops import TABLE


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(np.float32)


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(random(*shape, seed=seed), requires_grad=True)


# Against torch, on whole programs


def program(m: Any, leaves: list[Any], rng: np.random.Generator, size: int = 25) -> Any:
    """A random graph: each step takes one or two of the values there are, so that most are used several times."""
    values = list(leaves)
    for _ in range(size):
        x, y = (values[i] for i in rng.integers(0, len(values), 2))
        step = rng.integers(0, 8)
        values.append(
            [
                lambda x, y: x + y,
                lambda x, y: x * y,
                lambda x, y: x - y * 0.5,
                lambda x, y: m.tanh(x),
                lambda x, y: m.sigmoid(x) * y,
                lambda x, y: m.maximum(x, y),
                lambda x, y: m.tanh(x @ y / 2),
                lambda x, y: x.sum(0, keepdims=True) / 3 + y,
            ][step](x, y)
        )
    return values[-1] * values[-2] + values[-3]


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_as_torch(seed: int) -> None:
    arrays = [random(3, 3, seed=seed + i).astype(np.float64) for i in range(3)]
    mine, theirs = ([make(a, requires_grad=True) for a in arrays] for make in (Tensor, torch.tensor))
    out = program(ops, mine, np.random.default_rng(seed))
    want = program(torch, theirs, np.random.default_rng(seed))
    cotangent = random(3, 3, seed=99 + seed).astype(np.float64)
    out.backward(Tensor(cotangent))
    want.backward(torch.tensor(cotangent))
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-9)
    for x, t in zip(mine, theirs, strict=True):
        assert (x.grad is None) == (t.grad is None)
        if x.grad is not None:
            np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-8, atol=1e-11)


# What is kept and what is freed


def test_the_tape_is_freed_as_it_is_used() -> None:
    """When a rule runs, the values of the nodes after it are gone already."""
    alive: list[int] = []
    kept: list[weakref.ref[Tensor]] = []
    plain = TABLE["exp"].vjp

    def watched(*args: Any) -> Any:
        alive.append(sum(one() is not None for one in kept))
        return plain[0](*args)

    x = leaf(4)
    y = x * 0.1
    for _ in range(5):
        y = ops.exp(y * y)
        kept.append(weakref.ref(y))
    TABLE["exp"].vjp = (watched,)
    try:
        y.backward(Tensor(random(4)))
    finally:
        TABLE["exp"].vjp = plain
    assert alive == [5, 4, 3, 2, 1]


def test_retain_graph_keeps_it() -> None:
    x = leaf(3)
    y = (x * x * x).sum()
    y.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first)
    with pytest.raises(StaleTape, match="used already"):
        y.backward()


def test_a_part_used_twice_is_refused() -> None:
    x = leaf(3)
    shared = x * x
    shared.sum().backward()
    with pytest.raises(StaleTape, match=r"mul had saved was freed"):
        (shared * 2).sum().backward()


def test_create_graph_implies_retain_graph() -> None:
    x = leaf()
    y = x**3
    (first,) = grad(y, [x], create_graph=True)
    (second,) = grad(first, [x], create_graph=True)
    (third,) = grad(second, [x])
    v = float(x.item())
    np.testing.assert_allclose([first.item(), second.item(), third.item()], [3 * v**2, 6 * v, 6], rtol=1e-5)
    y.backward()


def test_a_gradient_penalty_trains_as_in_torch() -> None:
    """The gradient of a function of a gradient, through a small network."""
    arrays = [random(4, 3, seed=1), random(3, 2, seed=2), random(5, 4, seed=3)]
    results = []
    for m, make, gradient in ((ops, Tensor, grad), (torch, torch.tensor, torch.autograd.grad)):
        w, v, x = (make(a, requires_grad=True) for a in arrays)
        out = m.tanh(m.tanh(x @ w) @ v).sum()
        (by_x,) = gradient(out, [x], create_graph=True)
        (out + (by_x * by_x).sum()).backward()
        results.append([w.grad.numpy(), v.grad.numpy(), x.grad.numpy()])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_nothing_is_recorded_by_an_ordinary_pass() -> None:
    x = leaf(3)
    (x * x).sum().backward()
    assert not x.grad.requires_grad
    x.grad = None
    (x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad


# grad


def test_grad_leaves_grad_alone() -> None:
    x = leaf(3)
    found = grad((x * x).sum(), x)
    assert x.grad is None
    np.testing.assert_allclose(found.numpy(), 2 * x.detach().numpy())


def test_grad_by_a_tensor_in_the_middle() -> None:
    x = leaf(3)
    y = x * 2
    z = (y * y).sum()
    by_y, by_x = grad(z, [y, x])
    np.testing.assert_allclose(by_y.numpy(), 2 * y.detach().numpy())
    np.testing.assert_allclose(by_x.numpy(), 4 * y.detach().numpy())


def test_grad_of_several_outputs() -> None:
    x = leaf(3)
    y, z = x * 2, x * x
    found = grad([y, z], x, [Tensor(random(3, seed=1)), Tensor(random(3, seed=2))])
    want = 2 * random(3, seed=1) + 2 * x.detach().numpy() * random(3, seed=2)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(grad([x.sum(), x.sum()], x).numpy(), [2, 2, 2])


def test_grad_with_unused_inputs() -> None:
    x, y = leaf(3), leaf(2)
    with pytest.raises(RuntimeError, match=r"grad: .*not depend on input 1.*allow_unused"):
        grad((x * x).sum(), [x, y])
    found = grad((x * x).sum(), [x, y], allow_unused=True)
    assert found[1] is None
    assert found[0].shape == (3,)


def test_grad_goes_only_where_it_is_asked() -> None:
    """Rules of nodes that do not lead to an asked input are not run."""
    calls = []
    plain = TABLE["tanh"].vjp
    x, y = leaf(3), leaf(3)
    z = (x * 2 + ops.tanh(y)).sum()
    TABLE["tanh"].vjp = (lambda *args: calls.append(1) or plain[0](*args),)
    try:
        grad(z, x, retain_graph=True)
        assert not calls
        grad(z, y)
        assert calls
    finally:
        TABLE["tanh"].vjp = plain


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: (x * 2).backward(), RuntimeError, r"backward: .*\(3,\) has 3 entries"),
        (lambda x: x.detach().sum().backward(), RuntimeError, "backward: .*does not require a gradient"),
        (lambda x: (x * 2).backward(Tensor(random(2))), ValueError, r"backward: .*float32\[2\].*float32\[3\]"),
        (lambda x: (x * 2).backward(Tensor(np.zeros(3))), ValueError, r"float64\[3\].*float32\[3\]"),
        (lambda x: (x * 2).backward(Tensor(random(3), device="sim")), ValueError, r"sim:0.*cpu"),
        (lambda x: grad((x * 2).sum(), Tensor(random(3))), RuntimeError, "grad: input 0 does not require"),
        (lambda x: grad([x.sum(), x.sum()], x, [None] * 3), ValueError, "2 outputs need as many gradients, got 3"),
    ],
    ids=["not one entry", "not recorded", "shape", "dtype", "device", "input not recorded", "count"],
)
def test_refusals(call: Callable[[Tensor], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(leaf(3))


# Aliasing

PROGRAMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "sum of views": lambda x, y: x.T + y.reshape(3, 3),
    "transpose": lambda x, y: x.T * 1 + y,
    "clone": lambda x, y: x.clone() + y.clone(),
    "concat": lambda x, y: ops.concat([x, y])[:3] + x,
    "stack": lambda x, y: ops.stack([x, y]).sum(0),
    "where": lambda x, y: ops.where(Tensor(np.eye(3) > 0), x, y),
    "broadcast": lambda x, y: ops.broadcast_to(x[:1], shape=(3, 3)) + y,
    "sub": lambda x, y: x - y,
    "flip": lambda x, y: ops.flip(x) + y,
    "squeeze": lambda x, y: x.unsqueeze(0).squeeze(0) + y,
    "index": lambda x, y: x[:] + y[::-1],
    "twice": lambda x, y: x + x + y + y,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("way", ["backward", "grad"])
def test_gradients_own_their_memory(program: Callable[[Tensor, Tensor], Tensor], way: str) -> None:
    """No gradient shares memory with another, a value, or the user's cotangent, and that is never written to."""
    x, y = leaf(3, 3, seed=1), leaf(3, 3, seed=2)
    start = Tensor(random(3, 3, seed=3))
    out = program(x, y)
    if way == "grad":
        gradients = list(grad(out, [x, y], start, retain_graph=True))
    else:
        out.backward(start, retain_graph=True)
        out.backward(start)  # adds to what is there
        gradients = [x.grad, y.grad]
    np.testing.assert_array_equal(start.numpy(), random(3, 3, seed=3))
    others = [start, x, y, out]
    for i, gradient in enumerate(gradients):
        for other in [*others, *gradients[:i]]:
            assert not np.shares_memory(gradient.data, other.data)
        assert gradient.data.flags.writeable
    before = gradients[1].numpy().copy()
    gradients[0] += 1.0
    np.testing.assert_array_equal(gradients[1].numpy(), before)


def test_a_retained_gradient_owns_its_memory() -> None:
    x, y = leaf(3, seed=1), leaf(3, seed=2)
    z = x + y
    z.retain_grad()
    start = Tensor(random(3))
    (z + 0.0).backward(start)
    held = [x.grad, y.grad, z.grad, start]
    assert not any(np.shares_memory(a.data, b.data) for i, a in enumerate(held) for b in held[:i])


def test_backward_of_a_leaf_itself() -> None:
    x, start = leaf(3), Tensor(random(3, seed=4))
    x.backward(start)
    assert not np.shares_memory(x.grad.data, start.data)
    x.backward(start)
    np.testing.assert_array_equal(x.grad.numpy(), 2 * random(3, seed=4))
    np.testing.assert_array_equal(start.numpy(), random(3, seed=4))


def test_a_cotangent_used_twice_is_not_changed_by_accumulation() -> None:
    """add hands one array to both inputs; adding to one of them must not change the other."""
    x, y = leaf(3, seed=1), leaf(3, seed=2)
    z = x + y
    (z + x * 3.0).backward(Tensor(random(3)))
    np.testing.assert_allclose(x.grad.numpy(), 4 * random(3), rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), random(3), rtol=1e-6)


@pytest.mark.slow
def test_no_garbage_is_left_for_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(3)
        y = ops.exp(ops.softmax(x) * x).sum()
        there = weakref.ref(y.node)
        y.backward()
        del y
        assert there() is None
    finally:
        gc.enable()


def test_recorded_gradients_share_no_memory() -> None:
    """add hands one cotangent to both inputs; with create_graph, too, each leaf gets an array of its own."""
    x, y, start = leaf(3, seed=1), leaf(3, seed=2), Tensor(random(3))
    (x + y).backward(start, create_graph=True)
    (x + y).backward(start)
    for one in (x, y):
        np.testing.assert_array_equal(one.grad.detach().numpy(), 2 * random(3))
    np.testing.assert_array_equal(start.numpy(), random(3))
    z = leaf(3)
    z.sum().backward(create_graph=True)  # the cotangent is a broadcast view
    z.sum().backward()
    np.testing.assert_array_equal(z.grad.detach().numpy(), np.full(3, 2.0))


def test_a_plain_pass_after_a_recorded_one_leaves_an_array() -> None:
    x = Tensor(np.float32(2.0), requires_grad=True)
    (x * x).backward(create_graph=True)
    (x * x).backward()
    assert x.grad.numpy() == 8.0
