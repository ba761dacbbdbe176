"""Integer products, four bits, shared values, low rank, pruning: exact where they can be, bounded where not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune as torch_prune

from internals import Tensor, nn, ops, optim
from internals.deploy.compress import integer
from internals.deploy.compress.distil import distillation_loss
from internals.deploy.compress.factor import low_rank, share
from internals.deploy.compress.pack import pack4
from internals.deploy.compress.prune import Pruner, channel_mask, cubic_schedule, magnitude_mask, sparse_nbytes
from internals.deploy.compress.scale import INT8, UINT8, Quantisation, affine, symmetric


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("k", [0, 1, 3, 1023, 1025, 5000])
@pytest.mark.parametrize(("first", "second"), [*itertools.product(["int8", "uint8"], repeat=2)])
def test_integer_matmul_is_exact(k: int, first: str, second: str) -> None:
    rng = np.random.default_rng()
    a, b = (
        rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
        for dtype, shape in ((first, (3, k)), (second, (k, 4)))
    )
    a[:1] = np.iinfo(first).max  # the largest sums there can be
    b[:, :1] = np.iinfo(second).max
    found = integer.matmul(a, b)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


def test_a_sum_that_may_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError, match="140000"):
        integer.matmul(np.zeros((1, 140_000), np.int8), np.zeros((140_000, 1), np.int8))


def quantisations(x: np.ndarray, w: np.ndarray, per_channel: bool, zero: bool) -> tuple[Quantisation, Quantisation]:
    of_w = (symmetric if not zero else affine)(
        *((w.min(0), w.max(0), INT8, 1) if per_channel else (w.min(), w.max(), INT8))
    )
    return affine(x.min(), x.max(), UINT8), of_w


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (1, 7), (0, 7)])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("zero", [False, True], ids=["symmetric", "affine"])
def test_linear_is_the_product_of_what_the_integers_stand_for(
    shape: tuple[int, ...], per_channel: bool, zero: bool
) -> None:
    x, w, bias = drawn(*shape), drawn(7, 4) + 1, drawn(4)
    of_x, of_w = quantisations(np.append(x, 1.0), w, per_channel, zero)
    qx, qw = of_x.quantise(x), of_w.quantise(w)
    steps = integer.bias_steps(bias, of_x, of_w)
    expected = of_x.dequantise(qx).astype(np.float64) @ of_w.dequantise(qw) + steps * (of_x.scale * of_w.scale)
    np.testing.assert_allclose(integer.linear(qx, qw, of_x, of_w, steps), expected, rtol=1e-4, atol=1e-5)
    relu = integer.linear(qx, qw, of_x, of_w, steps, relu=True)
    np.testing.assert_allclose(relu, np.maximum(expected, 0), rtol=1e-4, atol=1e-5)
    out = affine(-20.0, 20.0)
    written = integer.linear(qx, qw, of_x, of_w, steps, out)
    assert written.dtype == np.int8
    np.testing.assert_allclose(out.dequantise(written), np.clip(expected, -20, 20), atol=float(out.scale) * 0.51)


@pytest.mark.parametrize(("stride", "padding"), [((1, 1), (0, 0)), ((2, 1), (1, 2)), ((1, 2), (1, 1))])
@pytest.mark.parametrize("per_channel", [False, True])
def test_conv_is_the_convolution_of_what_the_integers_stand_for(
    stride: tuple[int, int], padding: tuple[int, int], per_channel: bool
) -> None:
    x, w, bias = drawn(2, 3, 6, 7), drawn(4, 3, 3, 2), drawn(4)
    of_x = affine(x.min(), x.max(), UINT8)
    ends = (w.min((1, 2, 3)), w.max((1, 2, 3))) if per_channel else (w.min(), w.max())
    of_w = symmetric(*ends, INT8, 0 if per_channel else None)
    qx, qw = of_x.quantise(x), of_w.quantise(w)
    steps = integer.bias_steps(bias, of_x, of_w)
    reals = [torch.from_numpy(np.array(one)).double() for one in (of_x.dequantise(qx), of_w.dequantise(qw))]
    of_bias = torch.from_numpy(steps * (of_x.scale * of_w.scale)).double()
    expected = torch.nn.functional.conv2d(*reals, of_bias, stride, padding).numpy()
    found = integer.conv2d(qx, qw, of_x, of_w, steps, stride=stride, padding=padding)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(32, 5), (33, 5), (1, 1), (64, 3), (7, 0)])
@pytest.mark.parametrize("group", [1, 8, 32, 100])
def test_four_bits_are_within_half_a_step(shape: tuple[int, int], group: int) -> None:
    w = drawn(*shape)
    packed = pack4(w, group)
    assert packed.unpack().shape == shape
    assert (packed.unpack() < 16).all()
    step = packed.scale[np.arange(shape[0]) // group]
    assert (np.abs(packed.dequantise() - w) <= step * 0.501 + 1e-7).all()
    assert packed.data.nbytes == -(-shape[0] // 2) * shape[1]


@pytest.mark.parametrize("values", [1, 2, 16, 256, 1000])
def test_shared_values_are_the_nearest_of_the_table(values: int) -> None:
    w = drawn(20, 30)
    shared = share(w, values)
    assert len(shared.table) == values
    nearest = np.abs(w[..., None] - shared.table).min(-1)
    np.testing.assert_allclose(np.abs(shared.dequantise() - w), nearest, atol=1e-6)
    if values == 1:
        assert shared.table[0] == pytest.approx(w.mean(), abs=1e-6)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_low_rank_is_the_best_of_its_rank(rank: int) -> None:
    layer = nn.Linear(9, 6)
    found = low_rank(layer, rank)
    w = layer.weight.detach().numpy()
    left = np.linalg.svd(w, compute_uv=False)[rank:]
    error = np.linalg.norm(found.first.detach().numpy() @ found.second.detach().numpy() - w)
    assert error == pytest.approx(float(np.sqrt((left**2).sum())), abs=1e-5)
    x = Tensor(drawn(4, 9))
    if rank == 6:
        np.testing.assert_allclose(found(x).detach().numpy(), layer(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.5, 1.0])
def test_the_smallest_go_and_just_so_many(sparsity: float) -> None:
    w = drawn(6, 7)
    mask = magnitude_mask(w, sparsity)
    assert (~mask).sum() == round(sparsity * w.size)
    if 0 < sparsity < 1:
        assert np.abs(w[~mask]).max() <= np.abs(w[mask]).min()
    theirs = torch.nn.Linear(7, 6)
    theirs.weight.data = torch.from_numpy(w.copy())
    torch_prune.l1_unstructured(theirs, "weight", sparsity)
    np.testing.assert_array_equal(mask, theirs.weight_mask.numpy() == 1)


@pytest.mark.parametrize("axis", [0, 1])
def test_whole_channels_as_torch(axis: int) -> None:
    w = drawn(6, 4, 3, 3)
    theirs = torch.nn.Conv2d(4, 6, 3)
    theirs.weight.data = torch.from_numpy(w.copy())
    torch_prune.ln_structured(theirs, "weight", 0.5, n=1, dim=axis)
    rest = tuple(k for k in range(4) if k != axis)
    np.testing.assert_array_equal(channel_mask(w, 0.5, axis), theirs.weight_mask.numpy().max(rest) == 1)


def test_pruned_weights_stay_at_zero_through_momentum() -> None:
    model = nn.Linear(8, 3)
    pruner = Pruner(model)
    schedule = cubic_schedule(0, 10, 0.75)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = Tensor(drawn(16, 8)), Tensor(np.random.default_rng().integers(0, 3, 16))
    wanted = []
    for step in range(15):
        optimizer.zero_grad()
        ops.cross_entropy(model(x), y).backward()
        optimizer.step()
        pruner.step(schedule(step)) if step <= 10 else pruner.apply()
        wanted.append(pruner.sparsity)
    assert wanted == sorted(wanted)
    assert wanted[0] == 0
    assert wanted[-1] == 0.75
    assert (model.weight.detach().numpy() == 0).sum() == 18
    assert sparse_nbytes(model.weight.detach().numpy()) == 6 * 8 + 4 * 9


def test_distillation_as_torch() -> None:
    student, teacher, labels = drawn(5, 4), drawn(5, 4), np.random.default_rng().integers(0, 4, 5)
    ours = Tensor(student, requires_grad=True)
    loss = distillation_loss(ours, Tensor(teacher), Tensor(labels), temperature=3.0, weight=0.7)
    loss.backward()
    theirs = torch.from_numpy(student).requires_grad_()
    soft = torch.nn.functional.kl_div(
        (theirs / 3).log_softmax(-1), (torch.from_numpy(teacher) / 3).softmax(-1), reduction="batchmean"
    )
    expected = 0.7 * 9 * soft + 0.3 * torch.nn.functional.cross_entropy(theirs, torch.from_numpy(labels))
    expected.backward()
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-5)
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "floats": (lambda: integer.matmul(drawn(2, 2), drawn(2, 2)), TypeError, "float32"),
    "inner": (lambda: integer.matmul(np.zeros((2, 3), "b"), np.zeros((2, 3), "b")), ValueError, "expected"),
    "window": (
        lambda: integer.conv2d(np.zeros((1, 1, 2, 2), "b"), np.zeros((1, 1, 3, 3), "b"), affine(-1, 1), affine(-1, 1)),
        ValueError,
        "does not fit",
    ),
    "pack vector": (lambda: pack4(drawn(4)), TypeError, "matrix"),
    "pack NaN": (lambda: pack4(np.full((2, 2), np.nan)), ValueError, "NaN"),
    "pack group": (lambda: pack4(drawn(2, 2), 0), ValueError, "group"),
    "share nothing": (lambda: share(drawn(0), 2), TypeError, "entry"),
    "share 0": (lambda: share(drawn(3), 0), ValueError, "0"),
    "rank 0": (lambda: low_rank(nn.Linear(3, 2), 0), ValueError, "1 to 2"),
    "sparsity": (lambda: magnitude_mask(drawn(3), 1.5), ValueError, "1.5"),
    "axis": (lambda: channel_mask(drawn(3), 0.5, 1), ValueError, "no axis 1"),
    "unknown": (lambda: Pruner(nn.Linear(2, 2), ["wieght"]), ValueError, "wieght"),
    "schedule": (lambda: cubic_schedule(5, 5, 0.5), ValueError, "start < end"),
    "shapes": (lambda: distillation_loss(Tensor(drawn(2, 3)), Tensor(drawn(2, 4))), ValueError, "batch, classes"),
    "no labels": (lambda: distillation_loss(Tensor(drawn(2, 3)), Tensor(drawn(2, 3))), ValueError, "labels"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    do, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        do()
