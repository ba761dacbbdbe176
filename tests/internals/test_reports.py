"""What users of other frameworks reported as wrong, slow or surprising: a test of ours each, named after the report."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, no_grad, ops
from internals.autodiff import StaleTape

INF, NAN = float("inf"), float("nan")


def leaf(values: Any, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def both(values: Any, dtype: Any = np.float32) -> tuple[Tensor, torch.Tensor]:
    """The same leaf, ours and torch's."""
    return leaf(values, dtype), torch.tensor(np.array(values, dtype), requires_grad=True)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 7).standard_normal(shape).astype(np.float32)


# The graph


def test_reused_nonleaf() -> None:
    """x = 3, y = 3x: the derivative of 2y + 5y is 21, not 6 or 15."""
    x = leaf(3.0)
    y = 3 * x
    (2 * y + 5 * y).backward()
    assert x.grad.item() == 21


@pytest.mark.slow
def test_50_000_chained_adds() -> None:
    """Neither the reverse pass nor freeing the tape recurses, and no interpreter limit is raised for it."""
    limit = sys.getrecursionlimit()
    x = leaf(1.0)
    y = x
    for _ in range(50_000):
        y = y + 1.0
    y.backward(retain_graph=True)
    assert x.grad.item() == 1
    del y  # the whole retained tape goes here
    gc.collect()
    assert sys.getrecursionlimit() == limit


@pytest.mark.slow
def test_50_000_chained_adds_never_differentiated() -> None:
    """A tape that no backward pass went over is freed without recursion as well."""
    y = leaf(1.0)
    for _ in range(50_000):
        y = y + y
        y = y * 0.5
    del y
    gc.collect()


def test_60_doublings() -> None:
    """y = y + y visits each node once, not 2**60 paths."""
    calls = 0
    plain_rules = ops.TABLE["add"].vjp

    def counted(rule: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            return rule(*args)

        return run

    x = leaf(1.0, np.float64)
    y = x
    for _ in range(60):
        y = y + y
    ops.TABLE["add"].vjp = tuple(map(counted, plain_rules))
    try:
        y.backward()
    finally:
        ops.TABLE["add"].vjp = plain_rules
    assert calls == 120
    assert x.grad.item() == 2.0**60


def test_backward_twice() -> None:
    x = leaf(random(3))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(StaleTape, match=r"used already.*retain_graph=True"):
        y.backward()


def test_backward_twice_with_retain_graph_adds_up() -> None:
    x, t = both(random(3))
    (y, u) = (x * x).sum(), (t * t).sum()
    for again in (True, False):
        y.backward(retain_graph=again)
        u.backward(retain_graph=again)
    np.testing.assert_array_equal(x.grad.numpy(), t.grad.numpy())


# Broadcasting and shapes


@pytest.mark.parametrize(("left", "right"), [((3, 1), (4,)), ((), (2, 3))], ids=["(3,1)+(4,)", "()+(2,3)"])
def test_gradients_of_broadcast_add(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    (x, t), (y, u) = both(random(*left)), both(random(*right))
    cotangent = random(*np.broadcast_shapes(left, right))
    (x + y).backward(Tensor(cotangent))
    (t + u).backward(torch.tensor(cotangent))
    for mine, theirs in ((x, t), (y, u)):
        assert mine.grad.shape == mine.shape
        np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 2, 3), (3,))],
    ids=["v@v", "M@v", "v@M", "B@v"],
)
def test_matmul_1d(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    (x, t), (y, u) = both(random(*left)), both(random(*right))
    out, want = x @ y, t @ u
    assert out.shape == tuple(want.shape)
    cotangent = random(*out.shape)
    out.backward(Tensor(np.asarray(cotangent)))
    want.backward(torch.tensor(cotangent))
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), u.grad.numpy(), rtol=1e-5)


def test_permute_1_minus1_0() -> None:
    """Negative axes in permute, whose inverse a naive rule gets wrong."""
    x, t = both(random(2, 3, 4))
    y, u = x.permute(1, -1, 0), t.permute(1, -1, 0)
    assert y.shape == tuple(u.shape) == (3, 4, 2)
    cotangent = random(3, 4, 2)
    y.backward(Tensor(cotangent))
    u.backward(torch.tensor(cotangent))
    np.testing.assert_array_equal(x.grad.numpy(), t.grad.numpy())


# Numbers


def test_ties_in_max() -> None:
    """max of [1, 3, 3] is torch.amax's: the two share."""
    x, t = both([1, 3, 3])
    x.max().backward(Tensor(np.float32(0.7)))
    t.amax().backward(torch.tensor(0.7))
    np.testing.assert_allclose(x.grad.numpy(), [0, 0.35, 0.35], rtol=1e-6)
    np.testing.assert_array_equal(x.grad.numpy(), t.grad.numpy())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and of infinities
@pytest.mark.parametrize("name", ["sum", "max", "mean"])
def test_float16_of_70_000_ones(name: str) -> None:
    """The sum is past float16's largest number, the maximum and the mean are 1: what torch says, not 2048."""
    x, t = both(np.ones(70_000), np.float16)
    out, want = getattr(x, name)(), getattr(t, "amax" if name == "max" else name)()
    assert out.dtype == np.float16
    assert out.item() == want.item() == (INF if name == "sum" else 1)
    out.backward()
    want.backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), atol=1e-7)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy"])
def test_float16_softmax_of_70_000(name: str) -> None:
    """The sum of exponentials is past float16's largest number, what is made of it is not."""
    x, t = both(np.linspace(-1, 1, 70_000), np.float16)
    if name == "cross_entropy":
        out, want = ops.cross_entropy(x, Tensor(3)), torch.nn.functional.cross_entropy(t, torch.tensor(3))
    else:
        out, want = getattr(ops, name)(x, axis=0), getattr(torch, name)(t, 0)
    assert out.dtype == np.float16
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=2e-3, atol=1e-7)
    cotangent = np.asarray(random(*out.shape)).astype(np.float16)
    out.backward(Tensor(cotangent))
    want.backward(torch.tensor(cotangent))
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=4e-3, atol=5e-5)  # g - p * sum(g) cancels


def test_float16_sum_that_fits() -> None:
    """30,000 ones of float16 add up to 30,000; adding one by one in float16 stops at 2048."""
    assert ops.sum(Tensor(np.ones(30_000, np.float16))).item() == 30_000


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x + 1.5,
        lambda x: 2 * x,
        lambda x: x / 3,
        lambda x: 1.0 - x,
        lambda x: x**2,
        lambda x: 2.0**x,
        lambda x: x * True,
        lambda x: ops.maximum(x, 0.5),
        lambda x: ops.where(x > 0, x, 0.0),
        lambda x: x.clip(-1, 1),
    ],
    ids=["x+1.5", "2*x", "x/3", "1.0-x", "x**2", "2.0**x", "x*True", "maximum", "where", "clip"],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_python_scalars_keep_float32(operation: Callable[[Tensor], Tensor], dtype: Any) -> None:
    """A Python number never widens a floating tensor, its gradient included."""
    x = leaf([0.3, -0.7], dtype)
    y = operation(x)
    assert y.dtype == dtype
    y.sum().backward()
    assert x.grad.dtype == dtype


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and of infinities
@pytest.mark.parametrize(("base", "exponent"), [(0, 0), (0, 2), (-2, 3)], ids=["0**0", "0**2", "(-2)**3"])
@pytest.mark.parametrize("scalar", [False, True], ids=["tensor", "number"])
def test_pow(base: float, exponent: float, scalar: bool) -> None:
    x, t = both(base)
    y, u = (exponent, exponent) if scalar else both(exponent)
    out, want = x**y, t**u
    assert out.item() == want.item()
    out.backward(Tensor(np.float32(1.3)))
    want.backward(torch.tensor(1.3))
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-6)
    if not scalar:
        np.testing.assert_allclose(y.grad.numpy(), u.grad.numpy(), rtol=1e-6, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize(("base", "exponent"), [(0, 2), (-2, 3)], ids=["0**2", "(-2)**3"])
def test_pow_as_tensorflow(base: float, exponent: float, tf: Any) -> None:
    """0**0 is among the cases of `test_where_frameworks_differ`."""
    x, t = leaf(base), tf.constant(np.float32(base))
    with tf.GradientTape() as tape:
        tape.watch(t)
        want = t ** tf.constant(np.float32(exponent))
    out = x**exponent
    out.backward()
    assert out.item() == want.numpy()
    assert x.grad.item() == tape.gradient(want, t).numpy()


@pytest.mark.filterwarnings("ignore:invalid value")
def test_where_sqrt_at_minus_1() -> None:
    """where(x > 0, sqrt(x), 0) has NaN at -1, as torch and tensorflow have; sqrt's doc says so, and what to do."""
    x, t = both([-1.0, 4.0])
    ops.where(x > 0, ops.sqrt(x), 0.0).sum().backward()
    torch.where(t > 0, torch.sqrt(t), 0.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), t.grad.numpy())
    assert np.isnan(x.grad.numpy()[0])
    assert "where(x > 0, sqrt(x), 0)" in ops.TABLE["sqrt"].doc


def test_where_sqrt_at_minus_1_with_two_wheres() -> None:
    x = leaf([-1.0, 4.0])
    ops.where(x > 0, ops.sqrt(ops.where(x > 0, x, 1.0)), 0.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0.25])


LOGITS = {
    "1e4": [1e4, -1e4, 0.0],
    "-1e4": [-1e4, -1e4 - 1, -1e4 + 2],
    "mask": [1.0, -INF, 2.0],
    "mask and 1e4": [-INF, 1e4, 1e4],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and of infinities
@pytest.mark.parametrize("logits", LOGITS.values(), ids=LOGITS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cross_entropy", "binary_cross_entropy"])
def test_extreme_logits(name: str, dtype: Any, logits: list[float]) -> None:
    """Values and gradients are finite where torch's are, and then the same."""
    x, t = both(logits, dtype)
    if name == "cross_entropy":
        out, want = ops.cross_entropy(x, Tensor(2)), torch.nn.functional.cross_entropy(t, torch.tensor(2))
    elif name == "binary_cross_entropy":
        target = np.array([1.0, 0.0, 0.25], dtype)
        out = ops.binary_cross_entropy(x, Tensor(target), reduction="none")
        want = torch.nn.functional.binary_cross_entropy_with_logits(t, torch.tensor(target), reduction="none")
    else:
        out = getattr(ops, name)(x, axis=0)
        want = getattr(torch, name)(t, 0)
    cotangent = np.asarray(random(*out.shape)).astype(dtype)
    out.backward(Tensor(cotangent))
    want.backward(torch.tensor(cotangent))
    for mine, theirs in ((out.detach(), want.detach()), (x.grad, t.grad)):
        defined = ~np.isnan(theirs.numpy())
        assert defined.any()
        np.testing.assert_allclose(mine.numpy()[defined], theirs.numpy()[defined], rtol=1e-5, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of overflow and of infinities
def test_a_fully_masked_row_does_no_harm_to_logsumexp() -> None:
    x = leaf([[-INF, -INF], [1.0, 2.0]])
    out = ops.logsumexp(x, axis=1)
    out.backward(Tensor(random(2)))
    assert out.detach().numpy()[0] == -INF
    assert np.isfinite(x.grad.numpy()).all()


def test_sigmoid_far_from_0() -> None:
    """1 / (1 + exp(-x)) keeps its digits where it is small, and does not overflow where it isn't."""
    x, t = both([-1000, -80, -20, -5, 0, 5, 20, 1000])
    np.testing.assert_allclose(ops.sigmoid(x).detach().numpy(), torch.sigmoid(t).detach().numpy(), rtol=1e-6)


# What is not a gradient, and what is not a tensor


def test_integer_requires_grad() -> None:
    with pytest.raises(TypeError, match=r"requires_grad: a tensor of dtype int64 .*float32"):
        Tensor([1, 2], requires_grad=True)
    x = Tensor([True])
    with pytest.raises(TypeError, match="bool"):
        x.requires_grad = True


def test_cast_to_integers_cuts_the_tape() -> None:
    assert not leaf([1.5]).to("int64").requires_grad


def test_tensor_assigned_into_an_ndarray() -> None:
    """A tensor that needs a gradient is refused, not silently cut off; a number of one goes in, as with torch."""
    array = np.zeros((2, 3), np.float32)
    array[0] = Tensor([1.0, 2.0, 3.0])
    array[1, 1] = Tensor(5.0)
    np.testing.assert_array_equal(array, [[1, 2, 3], [0, 5, 0]])
    with pytest.raises(RuntimeError, match=r"requires a gradient.*detach\(\)"):
        array[1] = leaf([1, 2, 3])
    np.testing.assert_array_equal(array[1], [0, 5, 0])
    array[1, 0] = leaf(1.0)
    assert array[1, 0] == 1


def test_array_on_the_left_of_a_tensor() -> None:
    """array * tensor is a tensor that is still on the tape, not an array of objects."""
    x = leaf([1.0, 2.0])
    y = np.array([3.0, 4.0], np.float32) * x
    assert isinstance(y, Tensor)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 4])


# In-place change


@pytest.mark.parametrize(
    ("name", "saves"),
    [("mul", lambda x: x * x), ("exp", lambda x: ops.exp(x)), ("matmul", lambda x: x @ x), ("div", lambda x: 1.0 / x)],
    ids=["mul", "exp", "matmul", "div"],
)
def test_inplace_mutation_is_refused_by_name(name: str, saves: Callable[[Tensor], Tensor]) -> None:
    x = leaf(random(3))
    y = x * 1.0
    z = saves(y)
    changed = z if name == "exp" else y
    with no_grad():
        changed += 1.0
    with pytest.raises(StaleTape, match=rf"backward: {name} saved its .* changed in place 1 time"):
        z.sum().backward()


def test_inplace_mutation_of_what_no_rule_reads_is_allowed() -> None:
    x = leaf(random(3))
    y = x * 2.0
    z = y + 1.0
    with no_grad():
        y += 1.0
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2])


def test_inplace_mutation_of_a_leaf_is_refused() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"in-place mul: .*leaf.*no_grad"):
        x *= 2.0
    np.testing.assert_array_equal(x.detach().numpy(), [1, 2])
