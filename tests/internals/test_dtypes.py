"""Half precision: every row in float16 and bfloat16, computed in float32 and rounded once, and as in torch."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from op_answers import attrs_of, call, to_host, torch_joined
from op_cases import CASES, Case
from op_examples import Example

from internals import Tensor, graph, nn, ops, optim
from internals.autodiff import grad
from internals.ops import TABLE
from internals.ops.spec import as_dtype, is_floating, is_half

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""From 1 to the next number."""

NO_HALF_FORM = {
    **dict.fromkeys(
        ["solve", "triangular_solve", "inverse", "det", "slogdet", "cholesky", "qr", "eigh", "svd"],
        "LAPACK, which computes them, has no half precision; torch refuses them too.",
    ),
    "ctc": "It adds up probabilities over many steps, in logarithms; torch refuses it too.",
}
"""Rows that refuse half precision, and why."""

MOVED = {"transfer"}
"""Rows whose result is on another device than their inputs; what they compute is nothing."""


def narrowed(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(dtype) if is_floating(array.dtype) else array


def to_torch(array: np.ndarray) -> torch.Tensor:
    """NumPy's arrays of bfloat16 are unknown to torch; through float32 nothing is lost."""
    return torch.tensor(array.astype(np.float32)).bfloat16() if array.dtype.name == "bfloat16" else torch.tensor(array)


def from_torch(t: torch.Tensor) -> np.ndarray:
    return t.detach().float().numpy().astype(BFLOAT16) if t.dtype == torch.bfloat16 else t.detach().numpy()


class Half:
    """One call in half precision: its inputs, and the cotangent of its result."""

    def __init__(self, case: Case, sample: Any, dtype: str) -> None:
        self.example = Example(case, *sample, "float32", "plain")
        self.inputs = [narrowed(array, dtype) for array in self.example.inputs()]
        floating = [i for i, array in enumerate(self.inputs) if is_floating(array.dtype)]
        self.wrt = floating if case.wrt is None else list(case.wrt)
        self.differentiable = TABLE[case.op].differentiable

    def ours(self, dtype: str, where: str = "cpu") -> tuple[np.ndarray, list[np.ndarray]]:
        """The result and the gradients; in "float32" from the same numbers."""
        xs = [Tensor(narrowed(array, dtype), device=where) for array in self.inputs]
        for i in self.wrt if self.differentiable else ():
            xs[i].requires_grad = True
        out = call(self.example, xs, where)
        values = to_host(out)
        if not out.requires_grad:
            return values, []
        g = Tensor(self.cotangent(values), device=out.device)
        return values, [to_host(one) for one in grad(out, [xs[i] for i in self.wrt], g)]

    def cotangent(self, out: np.ndarray) -> np.ndarray:
        """The same numbers for each dtype of the result."""
        return self.example.cotangent(out.astype(np.float32)).astype(BFLOAT16).astype(out.dtype)

    def torchs(self) -> tuple[np.ndarray, list[np.ndarray]]:
        ts = [to_torch(array) for array in self.inputs]
        for i in self.wrt:
            ts[i].requires_grad_(True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            out = torch_joined(self.example.case.call("torch")(torch, *ts, **attrs_of(self.example)))
        values = from_torch(out)
        if not out.requires_grad:
            return values, []
        asked = [ts[i] for i in self.wrt]
        found = torch.autograd.grad(out, asked, to_torch(self.cotangent(values)), allow_unused=True)
        return values, [
            from_torch(torch.zeros_like(t) if one is None else one) for t, one in zip(asked, found, strict=True)
        ]


def largest(arrays: list[np.ndarray]) -> float:
    values = [np.abs(array[np.isfinite(array)]).astype(np.float64).max(initial=0) for array in arrays]
    return max(values, default=0.0)


def assert_near(got: np.ndarray, want: np.ndarray, ulps: float, what: str, scale: float = 0.0) -> None:
    """Equal to within some units in the last place, of each entry or, where terms cancel, of a tenth of the largest.

    `scale` is the largest of what it was computed with, where that says more than the largest entry.
    """
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape
    if not is_half(want.dtype):
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=what)
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = max(scale, largest([b]))
    unit = EPS[want.dtype.name] * np.maximum(np.where(np.isfinite(b), np.abs(b), 0), 0.1 * scale)
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0, np.abs(a - b) / np.maximum(unit, 2.0**-24))
    assert off.max(initial=0) <= ulps, f"{what}: {off.max():.1f} units in the last place off"


ROWS = [
    pytest.param(case, dtype, id=f"{case.op}{sum(c.op == case.op for c in CASES[:i]) or ''}-{dtype}")
    for i, case in enumerate(CASES)
    if case.op not in NO_HALF_FORM | dict.fromkeys(MOVED)
    for dtype in EPS
]


@pytest.mark.parametrize(("case", "dtype"), ROWS)
def test_a_result_is_that_of_float32_rounded_once(case: Case, dtype: str) -> None:
    """So a sum keeps what an accumulator in half precision would lose. A gradient that is summed over broadcast axes is
    rounded twice, as in torch."""
    for sample in case.samples[-1:]:
        half = Half(case, sample, dtype)
        (out, gradients), (wide, wide_gradients) = half.ours(dtype), half.ours("float32")
        assert out.dtype == (dtype if is_floating(wide.dtype) and case.op not in {"cast", "one_hot"} else wide.dtype)
        with np.errstate(over="ignore"):
            assert_near(out, wide.astype(out.dtype), 0, "result")
            for i, (mine, theirs) in enumerate(zip(gradients, wide_gradients, strict=True)):
                assert mine.dtype == dtype
                if "out" not in TABLE[case.op].saves:  # a rule that reads the result reads it rounded
                    assert_near(mine, theirs.astype(dtype), 3, f"gradient {i}")


TORCH_ROUNDS_BETWEEN = {
    "normalise": 16,
    "scaled_dot_product": 16,
    "rnn": 8,
    "lstm": 8,
    "gru": 8,
    "weighted_cross_entropy": 6,
}
"""Rows that torch computes in several kernels, each of which rounds; by how many units it then differs."""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["cpu", "sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("case", "dtype"), ROWS)
def test_as_torch(case: Case, dtype: str, where: str) -> None:
    """Dtypes are torch's, and values and gradients within a few units in the last place."""
    ulps = TORCH_ROUNDS_BETWEEN.get(case.op, 4)
    for sample in case.samples:
        half = Half(case, sample, dtype)
        (out, gradients), (want, wanted) = half.ours(dtype, where), half.torchs()
        assert_near(out, want, ulps, f"result of {half.example}")
        for i, (mine, theirs) in enumerate(zip(gradients, wanted, strict=True)):
            assert_near(mine, theirs, ulps, f"gradient {i} of {half.example}", largest(wanted))


@pytest.mark.parametrize(("op", "shape"), [("sum", (4000,)), ("mean", (4000,)), ("softmax", (4000,)), ("var", (4000,))])
@pytest.mark.parametrize("dtype", EPS)
def test_long_sums_keep_their_digits(op: str, shape: tuple[int, ...], dtype: str) -> None:
    """4000 times 1.5: an accumulator of half precision stops at 2048 or 256, where adding 1.5 changes nothing."""
    x = np.where(np.arange(shape[0]) % 2, 1.25, 1.75).astype(dtype)
    got = to_host(getattr(ops, op)(Tensor(x))).astype(np.float64)
    want = to_host(getattr(ops, op)(Tensor(x.astype(np.float64))))
    np.testing.assert_allclose(got, want, rtol=EPS[dtype])


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("op", NO_HALF_FORM)
def test_a_row_without_half_precision_says_so(op: str, dtype: str) -> None:
    case = next(case for case in CASES if case.op == op)
    for sample in case.samples:
        with pytest.raises(TypeError, match=rf"^{op}: .*{dtype}.*\.to\('float32'\)"):
            Half(case, sample, dtype).ours(dtype)


# How dtypes meet

NAMES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("left", ["float16", "bfloat16"])
@pytest.mark.parametrize("right", NAMES)
@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_promotion_as_torch(left: str, right: str, where: str) -> None:
    x, y = Tensor([1, 0, 2], dtype=left, device=where), Tensor([1, 1, 0], dtype=right, device=where)
    want = torch.promote_types(getattr(torch, left), getattr(torch, right))
    for out in (x + y, y * x, ops.maximum(x, y), ops.where(x > y, x, y), ops.concat([x, y])):
        assert str(out.dtype) == str(want).removeprefix("torch.")
    assert (x == y).dtype == np.bool_


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("number", [True, 3, 0.1, np.float64(0.1), 1e30])
def test_python_numbers_keep_the_dtype(dtype: str, number: float) -> None:
    x, t = Tensor([1.5, -2.25], dtype=dtype), torch.tensor([1.5, -2.25]).to(getattr(torch, dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # 1e30 is infinite in float16, for torch too
        for operation in (lambda x: x * number, lambda x: number + x, lambda x: x / number, lambda x: number / x):
            got, want = to_host(operation(x)), from_torch(operation(t))
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, want)


def test_bfloat16_is_asked_for_by_name() -> None:
    x = Tensor([1.0, 2.5], dtype="bfloat16")
    for y in (Tensor([1.0, 2.5]).to("bfloat16"), ops.cast(Tensor([1.0, 2.5]), dtype=BFLOAT16), Tensor(x.numpy())):
        assert y.dtype == BFLOAT16
        np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert x.tolist() == [1.0, 2.5]
    assert x[1].item() == 2.5
    assert "bfloat16" in repr(x)
    assert x.to("float32").dtype == np.float32
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype == BFLOAT16
    np.testing.assert_array_equal(again.numpy(), x.numpy())


WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
from internals import Tensor
try:
    Tensor([1.0]).to("bfloat16")
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_ml_dtypes_the_error_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "to: bfloat16 needs ml_dtypes, which is not installed. Install it with: pip install ml_dtypes\n"
    )


@pytest.mark.slow
def test_importing_the_framework_does_not_import_ml_dtypes() -> None:
    code = "import sys, internals; print('ml_dtypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_in_place_in_half_precision(dtype: str, where: str) -> None:
    """Through a view, with a Python number, and with a wider tensor, which is rounded on the way in."""
    start = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    x = Tensor(start, dtype=dtype, device=where, requires_grad=True)
    t = torch.tensor(start).to(getattr(torch, dtype)).requires_grad_(True)
    wide = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    outs = []
    for leaf, tensor in ((x, lambda a: Tensor(a, device=where)), (t, torch.tensor)):
        y = leaf * 2
        y[0].mul_(1.1)
        y += tensor(wide)
        y[:, 1] = 0.3
        outs.append(y)
    outs[0].backward(Tensor(wide, dtype=dtype, device=where))
    outs[1].backward(torch.tensor(wide).to(t.dtype))
    np.testing.assert_array_equal(to_host(outs[0]), from_torch(outs[1]))
    np.testing.assert_array_equal(to_host(x.grad), from_torch(t.grad))


@pytest.mark.parametrize("dtype", EPS)
def test_a_network_trains_in_half_precision(dtype: str) -> None:
    rng = np.random.default_rng(2)
    model = nn.Sequential(nn.Linear(4, 16, rng=rng), nn.ReLU(), nn.Linear(16, 3, rng=rng))
    for parameter in model.parameters():
        parameter.data = parameter.data.astype(dtype)
        parameter.requires_grad = False
        parameter.requires_grad = True
    x = rng.standard_normal((60, 4))
    labels = Tensor(np.argmax(x[:, :3], axis=1))
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(60):
        loss = ops.cross_entropy(model(Tensor(x, dtype=dtype)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert loss.dtype == dtype
    assert all(parameter.dtype == dtype == parameter.grad.dtype for parameter in model.parameters())
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("dtype", EPS)
def test_a_graph_computes_as_eager_does(dtype: str) -> None:
    """The same bits, from a placeholder and from a constant that is folded."""
    values = np.random.default_rng(3).standard_normal((40, 5)).astype(as_dtype("test", dtype))

    def program(x: Any) -> Any:
        return ops.softmax(ops.tanh(x) * 0.3 + x.mean(axis=0))

    drawn = graph.Graph()
    with drawn:
        x = drawn.placeholder((40, 5), values.dtype)
        outs = [program(x), *graph.gradients(program(x).sum(), [x]), program(drawn.constant(values))]
    fed, gradient, folded = graph.Session(drawn).run(outs, {x: values})
    leaf = Tensor(values, requires_grad=True)
    out = program(leaf)
    np.testing.assert_array_equal(fed, to_host(out))
    np.testing.assert_array_equal(folded, to_host(out))
    assert fed.dtype == folded.dtype == gradient.dtype == dtype
    eager = to_host(grad(out.sum(), leaf))
    np.testing.assert_allclose(gradient.astype(float), eager.astype(float), atol=4 * EPS[dtype])


# What dtype comes out, and which go in


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["bool", "int8"])
@pytest.mark.parametrize("case", [case for case in CASES if case.op not in MOVED], ids=lambda case: case.op)
def test_a_kernel_gives_what_was_inferred_or_refuses(case: Case, dtype: str) -> None:
    """Graphs are made of inferred dtypes; NumPy's round gives float16 for booleans, and its cumprod widens integers."""
    op = TABLE[case.op]
    for sample in case.samples[:3]:
        given, attrs = Half(case, sample, "float32").inputs, sample[1]
        inputs = [Tensor(array.astype(dtype) if is_floating(array.dtype) else array) for array in given]
        try:
            out = op(inputs, **attrs) if op.variadic else op(*inputs, **attrs)
        except (TypeError, ValueError) as error:
            assert str(error).startswith(f"{op.name}: "), error  # noqa: PT017
            continue
        specs = op.infer_from(inputs, attrs)
        for one, spec in zip(out if op.results else [out], specs if op.results else [specs], strict=True):
            assert (one.shape, one.dtype) == (spec.shape, spec.dtype)


TAKE_NUMBERS = {
    "sub": lambda x: x - x,
    "neg": lambda x: -x,
    "pow": lambda x: x**x,
    "sign": ops.sign,
    "square": ops.square,
    "round": ops.round,
    "relu": ops.relu,
    "remainder": lambda x: ops.remainder(x, x),
    "floor_divide": lambda x: x // x,
    "max_pool2d": lambda x: ops.max_pool2d(x.reshape(1, 1, 2, 2), 2),
}


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
@pytest.mark.parametrize("name", TAKE_NUMBERS)
def test_booleans_are_no_numbers(name: str, where: str) -> None:
    """As in torch, but for square, which is int64 there."""
    with pytest.raises(TypeError, match=rf"^{name}: .*booleans.*\.to\("):
        TAKE_NUMBERS[name](Tensor([True, False, True, True], device=where))


BESIDE_NUMBERS = {
    "stack": lambda x: ops.stack([x[0], 2, 0.5]),
    "einsum": lambda x: ops.einsum([x, 2.0], "i,->i"),
    "tensordot": lambda x: ops.tensordot(x, 3.0, axes=0),
    "where": lambda x: ops.where(x > 0, x, 2.5),
    "lerp": lambda x: ops.lerp(x, 2, 0.5),
    "clamp": lambda x: ops.clamp(x, 0, 0.5),
}


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", BESIDE_NUMBERS)
def test_a_python_number_yields_to_an_array_in_every_row(name: str, dtype: str, where: str) -> None:
    """NumPy's stack and einsum make float64 of a number first; its gradient goes to the tensor alone."""
    x = Tensor([-1.0, 2.0, 0.25], dtype=dtype, device=where, requires_grad=True)
    y = BESIDE_NUMBERS[name](x)
    assert y.dtype == x.dtype
    y.sum().backward()
    wide = Tensor([-1.0, 2.0, 0.25], dtype="float64", requires_grad=True)
    want = BESIDE_NUMBERS[name](wide)
    want.sum().backward()
    np.testing.assert_allclose(to_host(y).astype(float), to_host(want), rtol=1e-2)
    np.testing.assert_allclose(to_host(x.grad).astype(float), to_host(wide.grad), rtol=1e-2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # arccosh of 0.5
def test_numbers_alone_give_numbers() -> None:
    """And two branches that are numbers the default dtype."""
    for name, op in TABLE.items():
        if op.expr and op.plain and name != "where":
            result = op(*[0.5] * op.arity)
            assert type(result) in (float, bool), name
            np.testing.assert_allclose(result, to_host(op(*[Tensor(0.5, dtype="float64")] * op.arity)))
    assert ops.where(Tensor([True]), 2, 3.0).dtype == np.float32
    assert ops.where(Tensor([False], device="sim:0"), 2, 3).dtype == np.int64
