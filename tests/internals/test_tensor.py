"""The Tensor keeps NumPy's and PyTorch's conventions."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import internals
from internals import Tensor, enable_grad, no_grad, ops
from internals.tensor import is_recording

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def random(*shape: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(sum(shape) + 11).standard_normal(shape)).astype(np.float32)


def both(values: np.ndarray) -> tuple[Tensor, torch.Tensor]:
    return Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)


# Making one


def test_what_numbers_become() -> None:
    assert Tensor(1.5).dtype == np.float32
    assert Tensor([1, 2]).dtype == np.int64
    assert Tensor([True]).dtype == np.bool_
    assert Tensor(np.arange(2.0)).dtype == np.float64
    assert Tensor(np.float64(2)).dtype == np.float64
    assert Tensor([1, 2], dtype="float16").dtype == np.float16
    assert Tensor([Tensor(1.0), Tensor(2.0)]).shape == (2,)


def test_who_calls_the_package_is_told_what_makes_a_tensor() -> None:
    with pytest.raises(TypeError, match=r"internals\.tensor is a package.*internals\.Tensor\(data"):
        internals.tensor([1, 2], requires_grad=True)  # type: ignore[operator]


def test_it_copies_what_it_is_made_from() -> None:
    values = random(3)
    x = Tensor(values)
    values[0] = 100
    assert x.numpy()[0] != 100
    y = Tensor(x)
    x += 1
    assert not np.array_equal(x.numpy(), y.numpy())


@pytest.mark.parametrize(
    ("data", "message"), [([[1, 2], [3]], "regular shape"), (["a"], "dtype <U1 is not supported"), (1j, "complex128")]
)
def test_what_it_cannot_be_made_from(data: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"Tensor: .*{message}"):
        Tensor(data)


# Dtypes


@pytest.mark.parametrize(("left", "right"), list(itertools.product(DTYPES, DTYPES)))
def test_promotion_of_pairs(left: str, right: str) -> None:
    """Every pair of dtypes meets in the dtype torch gives."""
    x, y = np.ones(2, left), np.ones(2, right)
    for name in ("add", "mul", "div", "maximum"):
        want = getattr(torch, name)(torch.tensor(x), torch.tensor(y))
        assert getattr(ops, name)(Tensor(x), Tensor(y)).dtype == want.numpy().dtype, name


@pytest.mark.parametrize(("dtype", "number"), list(itertools.product(DTYPES, [True, 2, 2.5])))
def test_promotion_with_python_numbers(dtype: str, number: float) -> None:
    x = np.ones(2, dtype)
    for function in (operator.add, operator.mul, operator.truediv):
        want = function(torch.tensor(x), number).numpy().dtype
        assert function(Tensor(x), number).dtype == want
        if function is not operator.truediv or number:
            assert function(number, Tensor(x)).dtype == function(number, torch.tensor(x)).numpy().dtype


def test_gradients_have_the_dtype_of_what_they_are_of() -> None:
    x, y = Tensor(np.ones(2, np.float16), requires_grad=True), Tensor(np.ones(2), requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype == np.float16
    assert y.grad.dtype == np.float64


# Broadcasting and operators


@pytest.mark.parametrize(
    "operation", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.eq]
)
@pytest.mark.parametrize(
    ("left", "right"), [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((1, 0), (3, 1)), ((4, 1, 2), (3, 1))]
)
def test_broadcasting(operation: Callable[[Any, Any], Any], left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = abs(random(*left)) + 0.5, abs(random(*right)) + 0.5
    want = operation(x, y)
    for a, b in ((Tensor(x), Tensor(y)), (Tensor(x), y), (x, Tensor(y))):
        got = operation(a, b)
        assert isinstance(got, Tensor)
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize(
    "method",
    [
        "exp",
        "log",
        "sqrt",
        "tanh",
        "sigmoid",
        "relu",
        "sum",
        "mean",
        "max",
        "min",
        "prod",
        "argmax",
        "argmin",
        "any",
        "all",
        "flatten",
        "clone",
        "squeeze",
    ],
)
def test_methods_are_torchs(method: str) -> None:
    values = abs(random(2, 1, 3)) + 0.5
    want = getattr(torch.tensor(values), method)()
    np.testing.assert_allclose(getattr(Tensor(values), method)().numpy(), want.numpy(), rtol=1e-5)


def test_unary_operators() -> None:
    x = random(3)
    np.testing.assert_array_equal((-Tensor(x)).numpy(), -x)
    np.testing.assert_array_equal(abs(Tensor(x)).numpy(), abs(x))
    np.testing.assert_array_equal((~(Tensor(x) > 0)).numpy(), ~(x > 0))
    np.testing.assert_array_equal(((Tensor(x) > 0) & (Tensor(x) < 1)).numpy(), (x > 0) & (x < 1))
    np.testing.assert_array_equal(((Tensor(x) > 1) | (Tensor(x) < 0)).numpy(), (x > 1) | (x < 0))


# Out of the framework


def test_item() -> None:
    assert Tensor([[2.5]]).item() == 2.5
    assert isinstance(Tensor(3).item(), int)
    assert isinstance(Tensor(True).item(), bool)
    assert isinstance(Tensor(1.0, requires_grad=True).item(), float)
    for shape in ((2,), (0,)):
        with pytest.raises(ValueError, match=rf"item: .*\({shape[0]},\) has {shape[0]} entries"):
            Tensor(np.zeros(shape)).item()


def test_as_python_numbers() -> None:
    assert float(Tensor([2.5])) == 2.5
    assert int(Tensor(2.7)) == 2
    assert [10, 20, 30][Tensor(1)] == 20
    with pytest.raises(TypeError, match=r"index: .*float32"):
        [1][Tensor(0.0)]


def test_truth() -> None:
    assert Tensor(1.0)
    assert not Tensor([[0]])
    for shape in ((2,), (0,)):
        with pytest.raises(ValueError, match=r"truth: .*any\(\) or all\(\)"):
            bool(Tensor(np.zeros(shape)))


def test_len_and_iteration() -> None:
    x = Tensor(random(3, 2))
    assert len(x) == 3
    np.testing.assert_array_equal(np.stack([row.numpy() for row in x]), x.numpy())
    with pytest.raises(TypeError, match="len: a 0-d tensor"):
        len(Tensor(1.0))
    with pytest.raises(TypeError, match="iteration: a 0-d tensor"):
        iter(Tensor(1.0))


def test_iteration_is_differentiable() -> None:
    x = Tensor(random(3), requires_grad=True)
    a, b, c = x
    (a * 2 + b * 3 + c * 5).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 3, 5])


def test_numpy_shares_memory() -> None:
    x = Tensor(random(3))
    x.numpy()[0] = 42
    assert x[0].item() == 42
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.float64, copy=False)


def test_numpy_of_what_requires_a_gradient_is_refused() -> None:
    x = Tensor(random(3), requires_grad=True)
    for read in (lambda: x.numpy(), lambda: np.asarray(x), lambda: (x * 2).numpy()):
        with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
            read()
    assert np.shares_memory(x.detach().numpy(), x.data)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor([1.0, 2.5]), "Tensor([1. , 2.5])"),
        (Tensor([[1, 2], [3, 4]]), "Tensor([[1, 2],\n        [3, 4]])"),
        (Tensor(np.zeros(1)), "Tensor([0.], dtype=float64)"),
        (Tensor(1.0, requires_grad=True), "Tensor(1., requires_grad=True)"),
        (Tensor(1.0, requires_grad=True) * 2, "Tensor(2., op=mul)"),
        (Tensor(np.zeros((0, 2), np.float32)), "Tensor([], dtype=float32, shape=(0, 2))"),
        (Tensor([True], device="sim"), "Tensor([ True], device='sim:0')"),
    ],
    ids=["float32", "two rows", "float64", "leaf", "op", "empty", "sim"],
)
def test_repr(tensor: Tensor, text: str) -> None:
    assert repr(tensor) == text


def test_repr_of_a_large_one_is_short() -> None:
    assert len(repr(Tensor(np.zeros((1000, 1000))))) < 1000


def test_hash_is_by_identity() -> None:
    x, y = Tensor(1.0), Tensor(1.0)
    assert len({x, y, x}) == 2


# Gradients on and off


def test_requires_grad() -> None:
    x = Tensor(random(2))
    assert not x.requires_grad
    assert x.is_leaf
    y = x * 2
    assert not y.requires_grad
    x.requires_grad = True
    z = x * 2
    assert z.requires_grad
    assert not z.is_leaf
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match=r"made by mul; use detach\(\)"):
        z.requires_grad = False
    x.requires_grad = False
    assert not x.requires_grad


def test_detach() -> None:
    x = Tensor(random(2), requires_grad=True)
    y = (x * 2).detach()
    assert not y.requires_grad
    (x * y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


def test_no_grad_and_enable_grad() -> None:
    x = Tensor(random(2), requires_grad=True)
    with no_grad():
        assert not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
            with no_grad():
                assert not is_recording()
            assert is_recording()
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_no_grad_is_left_by_an_exception() -> None:
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert is_recording()


def test_no_grad_as_a_decorator_that_recurses() -> None:
    seen = []

    @no_grad()
    def down(n: int) -> None:
        seen.append(is_recording())
        if n:
            with enable_grad():
                down(n - 1)
                seen.append(is_recording())
        seen.append(is_recording())

    down(2)
    assert seen == [False, False, False, False, True, False, True, False]
    assert is_recording()


def test_no_grad_as_a_decorator_that_recurses_at_once() -> None:
    """Each call remembers for itself what was set before it."""

    @no_grad()
    def down(n: int) -> None:
        if n:
            down(n - 1)
        assert not is_recording()

    down(3)
    assert is_recording()


def test_one_no_grad_entered_twice() -> None:
    quiet = no_grad()
    with quiet, quiet:
        assert not is_recording()
    assert is_recording()


def test_no_grad_refuses_what_it_could_not_cover() -> None:
    def steps() -> Any:
        yield 1

    async def later() -> None: ...

    for function in (steps, later):
        with pytest.raises(TypeError, match=r"no_grad: the body of .* Write `with no_grad\(\):` inside"):
            no_grad()(function)


def test_no_grad_is_per_thread() -> None:
    inside, checked = threading.Event(), threading.Event()
    found: list[bool] = []

    def other() -> None:
        inside.wait(10)
        found.append(is_recording())
        found.append((Tensor(1.0, requires_grad=True) * 2).requires_grad)
        checked.set()

    thread = threading.Thread(target=other)
    thread.start()
    with no_grad():
        inside.set()
        assert checked.wait(10)
    thread.join()
    assert found == [True, True]


def test_a_constant_result_is_not_recorded() -> None:
    x = Tensor(random(2), requires_grad=True)
    assert not (x > 0).requires_grad
    assert not ops.argmax(x).requires_grad
    assert not ops.where(x > 0, 1.0, 2.0).requires_grad
    assert not ops.gather(Tensor(random(2)), Tensor([0]), axis=0).requires_grad


def test_retain_grad() -> None:
    x = Tensor(random(2), requires_grad=True)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), 4 * y.detach().numpy())
    with pytest.raises(RuntimeError, match="retain_grad"):
        Tensor(1.0).retain_grad()


def test_grad_can_only_be_set_to_what_fits() -> None:
    x = Tensor(random(2), requires_grad=True)
    x.grad = Tensor(random(2))
    x.grad = None
    with pytest.raises(ValueError, match=r"grad: .*float64\[2\].*float32\[2\]"):
        x.grad = Tensor(np.zeros(2))
    with pytest.raises(ValueError, match=r"float32\[3\]"):
        x.grad = Tensor(random(3))
    with pytest.raises(RuntimeError, match="leaf"):
        Tensor(1.0).grad = Tensor(1.0)


@pytest.mark.parametrize(
    "scalar", [np.float64(2), np.float32(2), np.int64(2), np.bool_(True)], ids=lambda s: s.dtype.name
)
@pytest.mark.parametrize("op", [operator.mul, operator.add, operator.truediv])
def test_numpy_scalars_count_as_numbers(scalar: Any, op: Any) -> None:
    values = [1.5, -2.0]
    for ours, theirs in (
        (op(Tensor(values), scalar), op(torch.tensor(values), scalar.item())),
        (op(scalar, Tensor(values)), op(scalar.item(), torch.tensor(values))),
    ):
        assert ours.dtype == np.float32
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_leaves_are_copied_with_what_they_hold(duplicate: Any, where: str) -> None:
    x = Tensor([1.0, 2.0], device=where, requires_grad=True)
    _view = x.detach()
    (x * x).sum().backward()
    y = duplicate(x)
    assert (y.requires_grad, y.is_leaf, y.device, y.tolist()) == (True, True, x.device, [1.0, 2.0])
    assert y.grad.tolist() == [2.0, 4.0]
    with no_grad():
        y += 1
        y.grad += 1
    assert (x.tolist(), x.grad.tolist()) == ([1.0, 2.0], [2.0, 4.0])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_history_is_not_copied(duplicate: Any) -> None:
    x = Tensor(1.0, requires_grad=True)
    for _ in range(5000):
        x = x + 1
    with pytest.raises(RuntimeError, match="made by add"):
        duplicate(x)


def test_the_other_byte_order_is_put_right() -> None:
    x = Tensor(np.array([1.0, 2.0], ">f8"), requires_grad=True)
    (x * np.array([3.0, 4.0], ">f8")).sum().backward()
    assert x.dtype.isnative
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 4.0])
