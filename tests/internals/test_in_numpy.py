"""NumPy's functions on values of ours: signs are rows, the rest is NumPy's own answer, and no gradient is lost."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import DeviceError, Tensor, no_grad, ops
from internals.autodiff import vmap
from internals.graph import Graph, GraphError, Session
from internals.ops import TABLE
from internals.trace import function


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape, dtype=np.float32)


UFUNCS = {row.on_numpy: row for row in TABLE.values() if isinstance(row.on_numpy, np.ufunc)}
SIGNS = {
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "eq", "ne", "lt", "le", "gt", "ge",
}  # fmt: skip

ANSWERS: dict[str, Callable[[Any], Any]] = {
    "sum": np.sum,
    "sum of an axis, in float64": lambda x: np.sum(x, axis=1, dtype=np.float64, keepdims=True),
    "mean": lambda x: np.mean(x, axis=(0, 1)),
    "max": lambda x: np.max(x, axis=0, initial=0.0),
    "min": np.min,
    "prod": np.prod,
    "std, of a population": np.std,
    "var, of a sample": lambda x: np.var(x, axis=0, ddof=1),
    "argmax": lambda x: np.argmax(x, axis=1),
    "any": lambda x: np.any(x, axis=0),
    "reshape": lambda x: np.reshape(x, (4, 3)),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "squeeze": lambda x: np.squeeze(x),
    "clip": lambda x: np.clip(x, -0.5, 0.5),
    "round": lambda x: np.round(x, 1),
    "cumsum": np.cumsum,
    "sort": lambda x: np.sort(x, axis=0),
    "concatenate": lambda x: np.concatenate([x, random(0, 4), x]),
    "block": lambda x: np.block([[x, x], [x, x]]),
    "where": lambda x: np.where(x > 0, x, 0),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "median": lambda x: np.median(x, axis=0),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "into an array": lambda x: np.sum(x, axis=0, out=np.empty(4, np.float32)),
    "copied to an array": lambda x: (lambda out: (np.copyto(out, x), out)[1])(np.empty((3, 4), np.float32)),
    "zeros like it": np.zeros_like,
    "full like it": lambda x: np.full_like(x, x[0]),
    "no row": lambda x: np.fmod(x, 0.3),
    "reduced": lambda x: np.add.reduce(x, axis=1),
    "outer": lambda x: np.multiply.outer(x, random(2) * 0),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_numpy_gives_what_it_gives_for_the_array(name: str) -> None:
    """Its own defaults hold, not ours: its var divides by n."""
    x = random(3, 4)
    got, want = ANSWERS[name](Tensor(x)), ANSWERS[name](x)
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


ASK_THE_ENTRIES = [name for name in ANSWERS if name != "zeros like it"]


@pytest.mark.parametrize("name", ASK_THE_ENTRIES)
def test_it_is_refused_where_a_gradient_would_be_lost(name: str) -> None:
    """As PyTorch does, and under no_grad too."""
    x = Tensor(random(3, 4), requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^np\.\w+.*: a tensor here requires a gradient.*Use .*internals\.ops"):
        ANSWERS[name](x)
    with no_grad(), pytest.raises(RuntimeError, match="requires a gradient"):
        ANSWERS[name](x)


def test_what_to_use_instead_is_named_where_there_is_such_a_thing() -> None:
    x = Tensor(random(2), requires_grad=True)
    for ask, said in (
        (np.sum, r"Use internals\.ops\.sum, or detach"),
        (lambda x: np.concatenate([x, x]), r"Use internals\.ops\.concat, or"),
        (np.median, r"Use the functions of internals\.ops, or"),
    ):
        with pytest.raises(RuntimeError, match=said):
            ask(x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
def test_a_function_that_has_a_row_is_the_row(ufunc: np.ufunc) -> None:
    """With its history, on whatever side of an array the tensor stands."""
    row, a, b = UFUNCS[ufunc], random(3, 3), random(3, 3)
    a, b = (a > 0, b > 0) if ufunc.__name__.startswith("logical") else (a, b)
    floating = a.dtype != bool
    for mine in [0] if row.arity == 1 else [0, 1]:
        x = Tensor((a, b)[mine], requires_grad=floating)
        inputs = [x] if row.arity == 1 else [x, b] if mine == 0 else [a, x]
        got, want = ufunc(*inputs), row(*inputs)
        assert type(got) is Tensor
        assert got.requires_grad == (row.differentiable and floating)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("sign", sorted(SIGNS))
def test_a_sign_after_an_array_means_what_it_means_after_a_tensor(sign: str) -> None:
    act, a, b = getattr(operator, sign), np.abs(random(3, 3)) + 0.1, random(3, 3)
    x = Tensor(b)
    want = act(Tensor(a), x)
    for got in (act(a, x), act(a, Tensor(b, requires_grad=True)).detach()):
        assert type(got) is Tensor
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    if sign != "matmul":  # a number of NumPy's yields to a tensor
        assert act(np.float64(2), x).dtype == act(2.0, x).dtype


def test_truths_and_parts_after_an_array() -> None:
    a, b = random(5) > 0, random(5) > 0
    for sign in (operator.and_, operator.or_, operator.xor):
        np.testing.assert_array_equal(sign(a, Tensor(b)).numpy(), sign(a, b))
    np.testing.assert_array_equal(np.invert(Tensor(b)).numpy(), ~b)
    whole, rest = divmod(np.float32([7, -7]), Tensor([2.0, 2.0]))
    assert (whole.tolist(), rest.tolist()) == ([3.0, -4.0], [1.0, 1.0])
    x = Tensor(random(2))
    assert np.positive(x) is x


def test_an_array_may_be_added_to_and_a_tensor_may_not_be_written_to() -> None:
    """NumPy would write into the memory of a tensor behind the back of the tape."""
    a, b = random(3), random(3)
    want = a + b
    a += Tensor(b)
    assert type(a) is np.ndarray
    np.testing.assert_array_equal(a, want)
    x = Tensor(b)
    for write in (
        lambda: np.add(a, a, out=x),
        lambda: np.sum(random(3, 3), axis=0, out=x),
        lambda: np.copyto(x, a),
        lambda: np.put(x, [0], 1.0),
        lambda: np.putmask(x, a > 0, 1.0),
        lambda: np.fill_diagonal(x, 1.0),
        lambda: np.add.at(a, [0], Tensor(random(1), requires_grad=True)),
        lambda: np.add.at(x, [0], 1.0),
        lambda: np.nan_to_num(x, copy=False),
        lambda: np.reshape(x, (3, 1)).__setitem__(0, 1.0),
    ):
        with pytest.raises((TypeError, RuntimeError, ValueError), match="write into|requires a gradient|read-only"):
            write()
    np.testing.assert_array_equal(x.numpy(), b)


def test_what_a_value_is_can_be_asked_of_every_value() -> None:
    with Graph() as graph:
        node = graph.placeholder((None, 3))
    assert np.shape(node) == (None, 3)
    for x in (node, Tensor(random(2, 3), requires_grad=True)):
        assert np.ndim(x) == 2
        assert np.size(x, 1) == np.size(x, axis=-1) == 3
    assert (np.size(x), np.shape(x), np.result_type(x, np.float64)) == (6, (2, 3), np.float64)
    assert np.ones_like(x).tolist() == [[1.0] * 3] * 2
    assert np.iscomplexobj(x) is False


def test_values_without_entries_say_so() -> None:
    """A traced function that goes through NumPy would be traced wrong."""
    with Graph() as graph:
        node = graph.placeholder((2,))
        doubled, said = np.exp(node) + np.float32([1, 2]) * node, []
        for ask in (np.sum, np.fmod, lambda x, _=0: np.concatenate([x, x])):
            with pytest.raises(GraphError, match="a node has no value to make an array of"):
                said.append(ask(node, 0))
    x = random(2)
    np.testing.assert_allclose(Session(graph).run(doubled, {node: x}), np.exp(x) + np.float32([1, 2]) * x, rtol=1e-6)
    with pytest.raises(TypeError, match="inside vjp, jvp or vmap can't become a NumPy array"):
        vmap(lambda row: np.median(row))(Tensor(random(2, 2)))
    traced = function(lambda x: np.tanh(x) * np.float64(3))
    np.testing.assert_allclose(traced(Tensor(x)).numpy(), np.tanh(x) * np.float32(3), rtol=1e-6)
    with pytest.raises(DeviceError, match=r"this tensor is on sim:0.*to\('cpu'\)"):
        np.sum(Tensor(x, device="sim:0"))
    assert type(np.exp(Tensor(x, device="sim:0"))) is Tensor


def test_the_gradient_is_the_rows() -> None:
    x = Tensor(random(4), requires_grad=True)
    (np.float32([1, 2, 3, 4]) * np.tanh(x) - np.float64(0.5)).sum().backward()
    got, x.grad = x.grad, None
    (ops.tanh(x) * Tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    np.testing.assert_allclose(got.numpy(), x.grad.numpy(), rtol=1e-6)
