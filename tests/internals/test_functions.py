"""What the table of cases does not reach: exactness over a whole range, extremes, and rows put together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, grad, ops


def test_erf_is_exact_to_the_last_digits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20_001), 10.0 ** np.arange(-300, 0, 7), [math.inf, -math.inf]])
    want = np.array([math.erf(value) for value in x])
    np.testing.assert_allclose(ops.erf(x), want, rtol=1e-15)
    np.testing.assert_allclose(ops.erf(x.astype(np.float32)), want, rtol=1e-6, atol=1e-37)


EXTREMES = [
    ("gelu", 300.0), ("gelu", -300.0), ("gelu_tanh", 300.0), ("gelu_tanh", -300.0), ("silu", 300.0),
    ("silu", -300.0), ("softsign", 1000.0), ("elu", 300.0), ("elu", -300.0),
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("name", "value"), EXTREMES)
def test_activations_far_out(name: str, value: float, dtype: str) -> None:
    """No overflow on the way, and no NaN in the gradient: as in float64, rounded."""
    near, exact = [Tensor(np.array([value], kind), requires_grad=True) for kind in (dtype, "float64")]
    for got, want in zip(
        (ops.TABLE[name](near), grad(ops.TABLE[name](near).sum(), near)),
        (ops.TABLE[name](exact), grad(ops.TABLE[name](exact).sum(), exact)),
        strict=True,
    ):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=5e-3, atol=1e-6)


@pytest.mark.parametrize("zeros", [[0], [3], [0, 2], [1, 2, 3], [0, 1, 2, 3]])
def test_cumprod_with_zeros(zeros: list[int]) -> None:
    values = np.array([1.5, -2.0, 0.5, 3.0])
    values[zeros] = 0
    x, t = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    start = np.array([1.0, 2.0, -0.5, 0.25])
    (want,) = torch.autograd.grad(torch.cumprod(t, 0), t, torch.tensor(start))
    np.testing.assert_allclose(grad(x.cumprod(0), x, Tensor(start)).numpy(), want.numpy())


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("var", ()), ("var", (0,)), ("std", ()), ("std", (1,)), ("norm", ()), ("cumsum", (1,)), ("cumprod", (0,))],
)
def test_methods_as_torch_spells_them(method: str, arguments: Any) -> None:
    values = np.random.default_rng(4).standard_normal((3, 4))
    want = getattr(torch.tensor(values), method)(*arguments)
    np.testing.assert_allclose(getattr(Tensor(values), method)(*arguments).numpy(), want.numpy())


def test_einsum_is_attention() -> None:
    """Two einsums and a softmax, differentiated twice."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 4))]

    def attend(einsum: Any, softmax: Any, q: Any, k: Any, v: Any) -> Any:
        return einsum([softmax(einsum([q, k], "bqd,bkd->bqk")), v], "bqk,bkd->bqd")

    ours = [Tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = attend(ops.einsum, ops.softmax, *ours)
    want = attend(lambda x, e: torch.einsum(e, *x), lambda s: torch.softmax(s, -1), *theirs)
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy())
    first = grad((out * out).sum(), ours, create_graph=True)
    theirs_first = torch.autograd.grad((want * want).sum(), theirs, create_graph=True)
    second = grad((first[0] * first[1][:, :3]).sum(), ours)
    theirs_second = torch.autograd.grad((theirs_first[0] * theirs_first[1][:, :3]).sum(), theirs)
    for mine, other in zip((*first, *second), (*theirs_first, *theirs_second), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_an_einsum_of_one_operand_shares_no_memory_with_it() -> None:
    x = Tensor(np.zeros((2, 3)))
    turned = ops.einsum([x], "ij->ji")
    x[0, 0] = 1.0
    assert turned.tolist() == [[0, 0], [0, 0], [0, 0]]


def test_running_sums_are_held_in_a_wider_dtype() -> None:
    """A float16 total stops growing at 2,048 when 1 is added to it; an int8 one turns over at 128."""
    assert ops.cumsum(Tensor(np.ones(3000, np.float16)), axis=0)[-1].item() == 3000
    assert ops.cumsum(Tensor(np.ones(300, np.int8)), axis=0)[-1].item() == 300
    assert ops.cumsum(Tensor(np.ones(300, bool)), axis=0).dtype == np.int64


@pytest.mark.parametrize(("name", "value"), [("std", 2.0), ("norm", 0.0)])
def test_the_gradient_is_0_where_all_entries_are_equal(name: str, value: float) -> None:
    x = Tensor(np.full(3, value), requires_grad=True)
    assert grad(ops.TABLE[name](x), x).tolist() == [0, 0, 0]


# Functions that are made of rows, beside both frameworks


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


F = torch.nn.functional
MASK = np.array([[True], [False], [True]])
PIECES = {
    "split": (lambda x: ops.split(x, 2), lambda x: x.split(2)),
    "split, uneven": (lambda x: ops.split(x, [1, 0, 4], axis=1), lambda x: x.split([1, 0, 4], dim=1)),
    "chunk": (lambda x: ops.chunk(x, 2, axis=-1), lambda x: x.chunk(2, -1)),
    "chunk, few": (lambda x: ops.chunk(x, 4, axis=1), lambda x: x.chunk(4, 1)),
    "chunk, more than there are": (lambda x: ops.chunk(x, 5), lambda x: x.chunk(5)),
    "unbind": (lambda x: ops.unbind(x, axis=1), lambda x: x.unbind(1)),
}
MADE: dict[str, tuple[Any, Any, list[tuple[int, ...]]]] = {
    "masked_fill": (lambda x, v: ops.masked_fill(x, Tensor(MASK), v), lambda x, v: x.masked_fill(torch.tensor(MASK), v),
                    [(3, 2), ()]),
    "index_add": (lambda x, v: ops.index_add(x, Tensor(np.array([2, 0, 2])), v, axis=1),
                  lambda x, v: x.index_add(1, torch.tensor([2, 0, 2]), v), [(2, 4), (2, 3)]),
    "smooth_l1": (lambda x, y: ops.smooth_l1(x, y, beta=0.5), lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
                  [(3, 4), (3, 4)]),
    "soft_cross_entropy": (ops.soft_cross_entropy, F.cross_entropy, [(4, 3, 2), (4, 3, 2)]),
    "soft_cross_entropy, of each": (lambda x, y: ops.soft_cross_entropy(x, y, reduction="none"),
                                    lambda x, y: F.cross_entropy(x, y, reduction="none"), [(4, 3), (4, 3)]),
    "soft_cross_entropy, of one": (ops.soft_cross_entropy, F.cross_entropy, [(3,), (3,)]),
    "weighted_binary_cross_entropy": (lambda x, y: ops.weighted_binary_cross_entropy(x, y, Tensor(draw(3))),
                                      lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(
                                          draw(3))), [(4, 3), (4, 3)]),
    "weighted_binary_cross_entropy, by the weight": (  # which torch refuses
        lambda x, y, w: ops.weighted_binary_cross_entropy(x, y, w, reduction="sum"),
        lambda x, y, w: ((1 - y) * x + (1 + (w - 1) * y) * F.softplus(-x)).sum(), [(4, 3), (4, 3), (3,)]),
    "lstsq": (ops.lstsq, lambda a, b: torch.linalg.lstsq(a, b).solution, [(2, 5, 3), (2, 5, 2)]),
    "pad_same, conv": (lambda x, w: ops.conv2d(ops.pad_same(x, (3, 2), dilation=(2, 1)), w, dilation=(2, 1)),
                       lambda x, w: F.conv2d(x, w, padding="same", dilation=(2, 1)), [(2, 3, 5, 6), (4, 3, 3, 2)]),
    "depthwise": (lambda x, w: ops.conv2d(x, w, groups=4, padding=1), lambda x, w: F.conv2d(x, w, groups=4, padding=1),
                  [(2, 4, 5, 6), (8, 1, 3, 3)]),
}  # fmt: skip


def both_ways(mine: Any, theirs: Any, arrays: list[np.ndarray]) -> None:
    """Values, and gradients under one random cotangent for each result."""
    ours, others = (
        [Tensor(a, requires_grad=True) for a in arrays],
        [torch.tensor(a, requires_grad=True) for a in arrays],
    )
    got, want = mine(*ours), theirs(*others)
    got, want = [one if isinstance(one, tuple) else (one,) for one in (got, want)]
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-12)
    starts = [draw(*one.shape, seed=i) for i, one in enumerate(got, 1)]
    found = grad(list(got), ours, [Tensor(start) for start in starts])
    expected = torch.autograd.grad(want, others, [torch.tensor(start) for start in starts])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PIECES)
def test_pieces_as_torch(name: str) -> None:
    both_ways(*PIECES[name], [draw(3, 5)])


@pytest.mark.parametrize("name", MADE)
def test_made_of_rows_as_torch(name: str) -> None:
    mine, theirs, shapes = MADE[name]
    both_ways(mine, theirs, [draw(*shape, seed=i) for i, shape in enumerate(shapes)])


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 2, (3, 2)])
@pytest.mark.parametrize("window", [2, 3, (4, 1)])
def test_pad_same_is_tensorflows(window: Any, stride: Any, tf: Any) -> None:
    """A convolution, a mean that leaves the padding out, and a maximum."""
    x, (height, width) = draw(2, 3, 7, 6), np.broadcast_to(window, 2)
    last = np.moveaxis(x, 1, -1)
    weight = draw(4, 3, height, width)
    conv = tf.nn.conv2d(last, np.transpose(weight, (2, 3, 1, 0)), stride, "SAME")
    padded = ops.pad_same(x, window, stride=stride)
    np.testing.assert_allclose(ops.conv2d(padded, weight, stride=stride), np.moveaxis(conv, -1, 1))
    window, stride = tuple(map(int, (height, width))), tuple(map(int, np.broadcast_to(stride, 2)))
    mean = tf.nn.avg_pool2d(last, window, stride, "SAME")
    counts = ops.avg_pool2d(ops.pad_same(np.ones_like(x), window, stride=stride), window=window, stride=stride)
    got = ops.avg_pool2d(padded, window=window, stride=stride) / counts
    np.testing.assert_allclose(got, np.moveaxis(mean, -1, 1))
    largest = tf.nn.max_pool2d(last, window, stride, "SAME")
    padded = ops.pad_same(x, window, stride=stride, value=-math.inf)
    got = ops.max_pool2d(padded, window=window, stride=stride)
    np.testing.assert_allclose(got, np.moveaxis(largest, -1, 1), rtol=1e-6)  # which tensorflow finds in float32


# Order


def test_order_of_equal_entries_and_nan_as_torch() -> None:
    values = np.array([2.0, math.nan, 1.0, 2.0, -math.inf, 1.0, math.nan, math.inf])
    for descending in (False, True):
        want, order = torch.sort(torch.tensor(values), descending=descending, stable=True)
        got = ops.sort(Tensor(values), descending=descending)
        np.testing.assert_array_equal(got.values.numpy(), want.numpy())
        np.testing.assert_array_equal(got.indices.numpy(), order.numpy())
        np.testing.assert_array_equal(ops.argsort(Tensor(values), descending=descending).numpy(), order.numpy())
    for k in range(len(values) + 1):
        want = torch.topk(torch.tensor(values), k).values.numpy()
        np.testing.assert_array_equal(ops.topk(Tensor(values), k).values.numpy(), want)


def test_a_sum_of_the_largest_is_differentiated_at_their_places() -> None:
    x = Tensor([3.0, 1.0, 4.0, 1.0, 5.0], requires_grad=True)
    assert grad(ops.topk(x, 2).values.sum(), x).tolist() == [0, 0, 1, 0, 1]
    assert grad((ops.sort(x).values * Tensor([1.0, 2, 3, 4, 5])).sum(), x).tolist() == [3, 1, 4, 2, 5]


# Where a decomposition has no derivative, or more than one answer


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_repeated_values_harm_nothing_but_the_vectors_derivative() -> None:
    x = Tensor(np.eye(3), requires_grad=True)
    np.testing.assert_array_equal(grad((ops.eigh(x).values ** 2).sum(), x).numpy(), 2 * np.eye(3))
    np.testing.assert_array_equal(grad((ops.svd(x).s ** 2).sum(), x).numpy(), 2 * np.eye(3))
    weights = Tensor(draw(3, 3))
    assert not np.isfinite(grad((ops.eigh(x).vectors * weights).sum(), x).numpy()).all()
    assert not np.isfinite(grad((ops.svd(x).u * weights).sum(), x).numpy()).all()


def test_the_signs_are_the_same_whatever_lapack_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw(4, 3)
    eigh, svd, qr = np.linalg.eigh, np.linalg.svd, np.linalg.qr
    turned = np.array([-1.0, 1, -1])

    def values() -> list[np.ndarray]:
        return [*ops.eigh(x.T @ x), *ops.svd(x), *ops.qr(x)]

    before = values()
    monkeypatch.setattr(np.linalg, "eigh", lambda a: (eigh(a)[0], eigh(a)[1] * turned))
    monkeypatch.setattr(
        np.linalg,
        "svd",
        lambda a, full_matrices: (
            svd(a, full_matrices)[0] * turned,
            svd(a, full_matrices)[1],
            svd(a, full_matrices)[2] * turned[:, None],
        ),
    )
    monkeypatch.setattr(np.linalg, "qr", lambda a, mode: (qr(a, mode)[0] * turned, qr(a, mode)[1] * turned[:, None]))
    for one, other in zip(before, values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_log_likelihood_of_a_gaussian_process() -> None:
    """Cholesky, a triangular solve and a logarithmic determinant at work, to second order."""
    points, y = draw(6, 1), draw(6, seed=1)

    def likelihood(log_scale: Any, lib: Any, exp: Any, eye: Any, points: Any, y: Any, solve: Any) -> Any:
        gaps = (points - points.T) ** 2
        lower = lib.cholesky(exp(-gaps / exp(log_scale)) + 0.1 * eye)
        half = solve(lower, y[:, None])
        return (half * half).sum() / 2 + exp(log_scale) * lib.slogdet(lower)[1]

    mine = Tensor(np.array(0.3), requires_grad=True)
    theirs = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    got = likelihood(mine, ops, ops.exp, Tensor(np.eye(6)), Tensor(points), Tensor(y), ops.triangular_solve)
    want = likelihood(theirs, torch.linalg, torch.exp, torch.eye(6, dtype=torch.float64), torch.tensor(points),
                      torch.tensor(y), lambda a, b: torch.linalg.solve_triangular(a, b, upper=False))  # fmt: skip
    assert got.item() == pytest.approx(want.item(), rel=1e-12)
    slope, their_slope = grad(got, mine, create_graph=True), torch.autograd.grad(want, theirs, create_graph=True)[0]
    assert slope.item() == pytest.approx(their_slope.item(), rel=1e-10)
    assert grad(slope, mine).item() == pytest.approx(torch.autograd.grad(their_slope, theirs)[0].item(), rel=1e-9)


# Losses at their edges


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ["cross_entropy", "nll"])
@pytest.mark.parametrize("target", [[-100, -100], []])
def test_the_mean_over_no_target_is_nan_and_its_gradient_zero(loss: str, target: list[int]) -> None:
    values, labels = draw(len(target), 3), np.array(target, np.int64)
    x, t = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    theirs = {"cross_entropy": F.cross_entropy, "nll": F.nll_loss}[loss](t, torch.tensor(labels))
    mine = ops.TABLE[loss](x, Tensor(labels))
    assert math.isnan(mine.item())
    assert math.isnan(theirs.item())
    np.testing.assert_array_equal(grad(mine, x).numpy(), np.zeros_like(values))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_targets_that_do_not_fit_as_torch(zero_infinity: bool) -> None:
    """Too few times, no times, no labels, two equal labels without room for a blank; together with one that fits."""
    values, targets = draw(5, 6, 4), np.array([[1, 2, 3], [1, 2, 3], [1, 2, 3], [2, 2, 1], [3, 1, 2], [1, 1, 1]])
    frames, labels = np.array([2, 0, 5, 3, 4, 0]), np.array([3, 1, 0, 3, 3, 0])
    for reduction in ("none", "sum", "mean"):
        x, t = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
        given = {"reduction": reduction, "zero_infinity": zero_infinity}
        mine = ops.ctc(x, Tensor(targets), Tensor(frames), Tensor(labels), **given)
        rest = [torch.tensor(one) for one in (targets, frames, labels)]
        theirs = F.ctc_loss(t.log_softmax(-1), *rest, **given)
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy())
        start = draw(*mine.shape, seed=2) if mine.ndim else np.array(1.5)
        (want,) = torch.autograd.grad(theirs, t, torch.tensor(start))
        np.testing.assert_allclose(grad(mine, x, Tensor(start)).numpy(), want.numpy(), rtol=1e-7, atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_kl_div_of_probabilities_that_are_zero() -> None:
    q, p = np.log(np.array([0.2, 0.3, 0.5])), np.array([0.0, 1.0, 0.0])
    x, t = Tensor(q, requires_grad=True), torch.tensor(q, requires_grad=True)
    mine, theirs = ops.kl_div(x, Tensor(p), reduction="sum"), F.kl_div(t, torch.tensor(p), reduction="sum")
    assert mine.item() == pytest.approx(theirs.item())
    np.testing.assert_allclose(grad(mine, x).numpy(), torch.autograd.grad(theirs, t)[0].numpy())


def test_l1_of_equal_entries_as_torch() -> None:
    both_ways(ops.l1, F.l1_loss, [np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.5, 3.0])])


def test_bounds_that_cross_as_torch() -> None:
    arrays = [np.array([-1.0, 0.5, 2.0]), np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.5, 0.0])]
    both_ways(ops.clamp, torch.clamp, arrays)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_choosing_zero_by_bits_is_choosing_zero(dtype: str) -> None:
    """Also of infinities, NaN and -0, in any layout, and whichever side the zero is on."""
    rng = np.random.default_rng(9)
    x = rng.choice([1.5, -0.0, math.inf, -math.inf, math.nan, 1e-7], (40, 60)).astype(dtype)
    condition = rng.random((40, 60)) < 0.5
    for values, mask in (
        (x, condition),
        (x.T, condition.T),
        (x[::-1, ::2], condition[:, ::-2]),
        (x[:3], condition[:3]),
    ):
        for got, want in (
            (ops.where(mask, values, 0), np.where(mask, values, np.zeros((), dtype))),
            (ops.where(mask, 0, values), np.where(mask, np.zeros((), dtype), values)),
        ):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
