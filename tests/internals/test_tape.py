"""The reverse pass: what it computes, keeps, frees and refuses."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, no_grad, ops
from internals.autodiff import GradcheckError, StaleTape, grad, gradcheck, swap
from internals.ops import TABLE, unbroadcast


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


# In-place change, against torch


class Ours:
    exp, relu, tanh, softmax, no_grad = ops.exp, ops.relu, ops.tanh, ops.softmax, no_grad

    @staticmethod
    def leaf(array: np.ndarray) -> Any:
        return Tensor(array, requires_grad=True)

    const = Tensor


class Torchs:
    exp, relu, tanh, no_grad = torch.exp, torch.relu, torch.tanh, torch.no_grad

    @staticmethod
    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    @staticmethod
    def leaf(array: np.ndarray) -> Any:
        return torch.tensor(array, requires_grad=True)

    const = staticmethod(torch.tensor)


def changed(value: Any, how: Callable[[Any], Any] | None = None) -> Any:
    """`value` after an in-place change."""
    if how:
        how(value)
    else:
        value += 1.0
    return value


def setitem(key: Any, value: Any) -> Callable[[Any], None]:
    def write(x: Any) -> None:
        x[key] = value

    return write


def leaf_in_no_grad(m: Any, x: Any, then: Callable[[Any], Any]) -> Any:
    with m.no_grad():
        x += 1.0
    return then(x)


def after(m: Any, x: Any, *, make: Callable[[Any], Any], change: Any = None, recorded: bool = True) -> Any:
    """Compute a result from x * 2, then change x * 2, and hand the result on."""
    y = x * 2
    out = make(y)
    with contextlib.nullcontext() if recorded else m.no_grad():
        changed(y, change)
    return out


def result_changed(m: Any, x: Any, make: Callable[[Any], Any]) -> Any:
    y = make(x)
    y += 1.0
    return y


def through_detach(m: Any, x: Any) -> Any:
    y = x * 2
    out = y * y
    alias = y.detach()
    alias += 1.0
    return out


def constant_changed(m: Any, x: Any, make: Callable[[Any, Any], Any]) -> Any:
    c = m.const(random(3, 4, seed=5))
    out = make(x, c)
    c += 1.0
    return out


def multiplied_by_itself(m: Any, x: Any) -> Any:
    y = x * 2
    y *= y
    return y


def view_changed(m: Any, x: Any) -> Any:
    y = x * 2
    v = y[0]
    v += 1.0
    return y


def base_of_a_view_changed(m: Any, x: Any) -> Any:
    y = x * 2
    v = y[0]
    y += 1.0
    return v


def base_of_a_view_that_is_gone_changed(m: Any, x: Any) -> Any:
    y = x * 2
    y.reshape(-1)
    y += 1.0
    return y


def item_added_to(m: Any, x: Any) -> Any:
    y = x * 2
    y[0] += 1.0
    return y


def broadcast_view_changed(m: Any, x: Any) -> Any:
    y = (x * 2).sum() * 1
    v = y.broadcast_to((3,))
    v += 1.0
    return v


def integer_plus_float(m: Any, x: Any) -> Any:
    n = m.const(np.array([1, 2]))
    n += 0.5
    return x


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "leaf": lambda m, x: changed(x),
    "leaf, one entry": lambda m, x: changed(x, setitem(0, 1.0)),
    "view of a leaf": lambda m, x: changed(x[0]),
    "leaf under no_grad, before use": lambda m, x: leaf_in_no_grad(m, x, lambda x: x * x),
    "leaf under no_grad, after mul": lambda m, x: leaf_in_no_grad(m, x, (lambda z: lambda x: z)(x * x)),
    "leaf under no_grad, after add": lambda m, x: leaf_in_no_grad(m, x, (lambda z: lambda x: z)(x + x)),
    "result of mul": lambda m, x: result_changed(m, x, lambda x: x * 2),
    "result of exp": lambda m, x: result_changed(m, x, m.exp),
    "result of tanh": lambda m, x: result_changed(m, x, m.tanh),
    "result of relu": lambda m, x: result_changed(m, x, m.relu),
    "result of softmax": lambda m, x: result_changed(m, x, m.softmax),
    "input of mul": lambda m, x: after(m, x, make=lambda y: y * y),
    "input of mul, under no_grad": lambda m, x: after(m, x, make=lambda y: y * y, recorded=False),
    "input of mul by a number": lambda m, x: after(m, x, make=lambda y: y * 3),
    "input of add": lambda m, x: after(m, x, make=lambda y: y + 1),
    "input of matmul": lambda m, x: after(m, x, make=lambda y: y @ y.T),
    "input of exp": lambda m, x: after(m, x, make=m.exp),
    "input of div": lambda m, x: after(m, x, make=lambda y: y / y),
    "input of 1 / y": lambda m, x: after(m, x, make=lambda y: 1 / y),
    "input of sum": lambda m, x: after(m, x, make=lambda y: y.sum()),
    "input of max": lambda m, x: after(m, x, make=lambda y: y.max()),
    "input of square, one entry": lambda m, x: after(m, x, make=lambda y: y * y, change=setitem((0, 0), 5.0)),
    "input of add, one entry": lambda m, x: after(m, x, make=lambda y: y + 1, change=setitem((0, 0), 5.0)),
    "alias by detach": through_detach,
    "constant that mul saved": lambda m, x: constant_changed(m, x, lambda x, c: x * c),
    "constant that add did not save": lambda m, x: constant_changed(m, x, lambda x, c: x + c),
    "several": lambda m, x: changed(changed(x * 2), lambda y: y.__imul__(3.0)) * 1.0,
    "isub, itruediv": lambda m, x: changed(changed(x * 2, lambda y: y.__isub__(3.0)), lambda y: y.__itruediv__(2.0)),
    "by a tensor on the tape": lambda m, x: changed(x * 2, lambda y: y.__imul__(x)),
    "by itself": multiplied_by_itself,
    "value on the tape into a constant": lambda m, x: changed(m.const(random(3, 4)), setitem(0, x[1] * 2)),
    "to a larger shape": lambda m, x: changed(x.sum(), lambda y: y.__iadd__(x)),
    "integer plus float": integer_plus_float,
    "base of a view that is gone": base_of_a_view_that_is_gone_changed,
    "x[0] += 1": item_added_to,
    "view": view_changed,
    "base of a view": base_of_a_view_changed,
    "broadcast view": broadcast_view_changed,
}

VIEWS = {"view", "base of a view", "x[0] += 1"}
"""The tape does not follow a write through a view to the other tensors on the memory; it says so, and how to write it."""

WE_REFUSE_TORCH_ALLOWS = VIEWS | {"input of 1 / y"}
"""Of 1 / y torch saves the result, we what div saves, which is y."""


def outcome(m: Any, run: Callable[[Any, Any], Any]) -> Any:
    x = m.leaf(random(3, 4, seed=2))
    try:
        out = run(m, x)
        out.sum().backward()
    except (RuntimeError, ValueError, TypeError):
        return "refused"
    return np.asarray(out.detach().numpy()), np.asarray(x.grad.numpy())


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_change_is_allowed_where_torch_allows_it(name: str) -> None:
    mine, theirs = outcome(Ours, IN_PLACE[name]), outcome(Torchs, IN_PLACE[name])
    if name in WE_REFUSE_TORCH_ALLOWS:
        assert mine == "refused"
        assert theirs != "refused"
    elif theirs == "refused" or mine == "refused":
        assert (mine == "refused") == (theirs == "refused"), f"ours: {mine}, torch's: {theirs}"
    else:
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_what_we_refuse_says_what_to_write_instead(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"in-place add: another tensor shares this memory.*clone\(\)"):
        IN_PLACE[name](Ours, Ours.leaf(random(3, 4)))


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
    """No gradient shares memory with another, with a value, or with the user's cotangent, and that is never written to."""
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


# Other rules, another pass


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
        (lambda g, x, y: (g * y, (g * x).T), r"the rule of mul gave a cotangent of float32\[2, 3\] for its input 'y', which is float32\[3, 2\]"),
        (lambda g, x, y: ((g * y).astype("float64"), g * x), r"float64\[3, 2\] for its input 'x', which is float32\[3, 2\]"),
    ],
    ids=["too few", "transposed", "dtype"],
)  # fmt: skip
def test_a_wrong_rule_is_told_apart_by_name(rule: Any, message: str) -> None:
    x, y = leaf(3, 2, seed=1), leaf(3, 2, seed=2)
    with ops.swap(mul=rule), pytest.raises(RuntimeError, match=message):
        (x * y).sum().backward()


def test_swapping_an_unknown_op() -> None:
    with pytest.raises(ValueError, match="no op called multiply"), ops.swap(multiply=lambda g, x, y: (g, g)):
        pass


# gradcheck


def test_gradcheck_passes_what_is_right() -> None:
    x, y = (Tensor(random(2, 3, seed=i).astype(np.float64), requires_grad=True) for i in (1, 2))
    gradcheck(lambda x, y: ops.tanh(x * y) @ y.T, [x, y])


def test_gradcheck_finds_what_is_wrong() -> None:
    x, y = (Tensor(random(2, 3, seed=i).astype(np.float64), requires_grad=True) for i in (1, 2))
    with (
        ops.swap(mul=lambda g, x, y: (g * y, g * y)),
        pytest.raises(GradcheckError, match=r"gradcheck: input 1, entry \(\d, \d\): the gradient is .* differences give"),
    ):
        gradcheck(lambda x, y: x * y, [x, y])


def test_gradcheck_finds_an_input_that_was_forgotten() -> None:
    x = Tensor(random(2).astype(np.float64), requires_grad=True)
    with pytest.raises(GradcheckError, match="input 0"):
        gradcheck(lambda x: x + x.detach() * 2 + 0 * x, [x])


def test_gradcheck_wants_float64() -> None:
    with pytest.raises(TypeError, match="gradcheck: input 0 is float32"):
        gradcheck(lambda x: x * x, [leaf(2)])


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
