"""Integers for reals: the same scales and zero points as PyTorch's and TensorFlow Lite's, the same integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization as torch_quantisation

from internals.deploy.compress.calibrate import (
    OBSERVERS,
    Entropy,
    MinMax,
    MovingAverage,
    Observer,
    Percentile,
    PerChannel,
)
from internals.deploy.compress.scale import INT4, INT8, NARROW_INT8, UINT8, Grid, Quantisation, affine, symmetric

ARRAYS = {
    "normal": lambda rng: rng.standard_normal((6, 37)),
    "positive": lambda rng: rng.uniform(0.5, 3, (6, 37)),
    "negative": lambda rng: -rng.uniform(0.5, 3, (6, 37)),
    "outlier": lambda rng: np.append(rng.standard_normal(36), 1e3),
    "tiny": lambda rng: rng.standard_normal(9) * 1e-20,
    "huge": lambda rng: rng.standard_normal(9) * 1e20,
    "zeros": lambda rng: np.zeros(7),
    "one": lambda rng: rng.standard_normal(1),
    "0-d": lambda rng: rng.standard_normal(()),
}


def array_of(name: str) -> np.ndarray:
    return np.asarray(ARRAYS[name](np.random.default_rng()), np.float32)


def assert_the_same_integers(x: np.ndarray, found: Quantisation, want: np.ndarray) -> None:
    """Where x lies half-way between two, either: torch's vectors add the zero point before they round."""
    got = found.quantise(x).astype(int)
    off = got != want
    steps = found._along(found.scale, x.ndim)
    half_way = np.abs(np.abs(x / steps - np.trunc(x / steps)) - 0.5) < 1e-4
    assert (half_way | ~off).all()
    assert (np.abs(got - want) <= 1).all()


TORCH = {
    "affine uint8": (lambda: MinMax(UINT8), torch.quint8, torch.per_tensor_affine),
    "affine int8": (lambda: MinMax(INT8), torch.qint8, torch.per_tensor_affine),
    "symmetric int8": (lambda: MinMax(INT8, "symmetric"), torch.qint8, torch.per_tensor_symmetric),
}


@pytest.mark.parametrize("scheme", TORCH)
@pytest.mark.parametrize("name", ARRAYS)
def test_per_tensor_as_torch(scheme: str, name: str) -> None:
    make, dtype, qscheme = TORCH[scheme]
    x = array_of(name)
    ours = make()
    ours.observe(x)
    theirs = torch_quantisation.MinMaxObserver(dtype=dtype, qscheme=qscheme)
    theirs(torch.from_numpy(x))
    scale, zero_point = theirs.calculate_qparams()
    found = ours.quantisation()
    np.testing.assert_array_equal(found.scale, scale.numpy().reshape(()))
    np.testing.assert_array_equal(found.zero_point, zero_point.numpy().reshape(()))
    q = torch.quantize_per_tensor(torch.from_numpy(x), float(scale), int(zero_point), dtype)
    assert_the_same_integers(x, found, q.int_repr().numpy())
    np.testing.assert_array_equal(found.dequantise(q.int_repr().numpy()), q.dequantize().numpy())
    np.testing.assert_array_equal(found.rounded(x), found.dequantise(found.quantise(x)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("qscheme", [torch.per_channel_symmetric, torch.per_channel_affine])
def test_per_channel_as_torch(axis: int, qscheme: Any) -> None:
    x = np.random.default_rng().standard_normal((5, 4, 3)).astype(np.float32)
    x *= np.random.default_rng().uniform(0.1, 10, x.shape[axis]).reshape([-1 if k == axis % 3 else 1 for k in range(3)])
    ours = PerChannel(axis, scheme="symmetric" if qscheme is torch.per_channel_symmetric else "affine")
    ours.observe(x)
    theirs = torch_quantisation.PerChannelMinMaxObserver(ch_axis=axis % 3, dtype=torch.qint8, qscheme=qscheme)
    theirs(torch.from_numpy(x))
    scale, zero_point = theirs.calculate_qparams()
    found = ours.quantisation()
    np.testing.assert_array_equal(found.scale, scale.numpy())
    np.testing.assert_array_equal(found.zero_point, zero_point.numpy())
    q = torch.quantize_per_channel(torch.from_numpy(x), scale, zero_point, axis % 3, torch.qint8)
    assert_the_same_integers(x, found, q.int_repr().numpy())


def test_moving_average_as_torch() -> None:
    ours, theirs = MovingAverage(UINT8), torch_quantisation.MovingAverageMinMaxObserver(dtype=torch.quint8)
    for _ in range(20):
        x = np.random.default_rng().standard_normal((4, 5)).astype(np.float32)
        ours.observe(x)
        theirs(torch.from_numpy(x))
    scale, zero_point = theirs.calculate_qparams()
    np.testing.assert_allclose(ours.quantisation().scale, scale.numpy()[0], rtol=1e-6)
    assert ours.quantisation().zero_point == zero_point.item()


@pytest.mark.parametrize("grid", [INT8, UINT8, NARROW_INT8, INT4, Grid(0, 1), Grid(-(2**15), 2**15 - 1)])
@pytest.mark.parametrize("scheme", [affine, symmetric])
@pytest.mark.parametrize("name", ["normal", "positive", "negative", "0-d"])
def test_error_is_half_a_step_within_the_range_and_zero_is_exact(grid: Grid, scheme: Any, name: str) -> None:
    x = array_of(name)
    found = scheme(x.min(), x.max(), grid)
    low = found.dequantise(np.asarray(grid.low, np.int32))
    high = found.dequantise(np.asarray(grid.high, np.int32))
    inside = np.clip(x, low, high)
    assert (
        np.abs(found.rounded(inside) - inside).max() <= found.scale * 0.5001 + 2e-7 * np.abs(x).max()
    )  # float32's own rounding counts with 16 bits
    assert found.rounded(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    if scheme is affine:
        assert low <= x.min() + found.scale
        assert high >= x.max() - found.scale


def test_percentile_leaves_out_what_is_said() -> None:
    x = np.random.default_rng().standard_normal(200_000).astype(np.float32)
    observer = Percentile(99.0)
    for part in np.split(x, 20):
        observer.observe(part)
    low, high = observer.range()
    assert (x < low).mean() == pytest.approx(0.005, abs=5e-4)
    assert (x > high).mean() == pytest.approx(0.005, abs=5e-4)


def test_entropy_cuts_off_outliers_and_keeps_what_is_even() -> None:
    rng = np.random.default_rng()
    peaked, even = Entropy(), Entropy()
    peaked.observe(np.append(rng.standard_normal(100_000), [100.0]).astype(np.float32))
    even.observe(rng.uniform(-1, 1, 100_000).astype(np.float32))
    assert 2 < peaked.range()[1] < 50
    assert even.range()[1] == pytest.approx(1, abs=0.05)


ONE_NUMBER = {"constant": [5.0] * 9, "below 0": [-5.0] * 9, "two": [0.0, 3.0] * 5, "tiny": [1e-44, 3e-45], "0": [-0.0]}


@pytest.mark.parametrize("x", ONE_NUMBER.values(), ids=ONE_NUMBER.keys())
@pytest.mark.parametrize("name", OBSERVERS)
def test_no_number_that_is_often_seen_is_cut_off(name: str, x: list[float]) -> None:
    """All of a layer's inputs may be one number, or close to 0; both ends of a range of 8 bits are then exact."""
    seen, observer = np.array(x, np.float32), OBSERVERS[name]()
    observer.observe(seen)
    np.testing.assert_allclose(observer.quantisation().rounded(seen), seen, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["percentile", "entropy"])
def test_an_absurd_range_is_told(name: str) -> None:
    observer = OBSERVERS[name]()
    observer.observe(np.array([3e38, -3e38], np.float32))
    with pytest.raises(ValueError, match="positive and finite, got inf"):
        observer.quantisation()


@pytest.mark.parametrize("sign", [1, -1])
def test_entropy_uses_the_whole_grid_for_numbers_of_one_sign(sign: int) -> None:
    observer, other = Entropy(), Entropy(scheme="symmetric")
    x = (sign * np.random.default_rng().uniform(0.1, 1, 10_000)).astype(np.float32)
    for one in (observer, other):
        one.observe(x)
    assert (
        np.abs(observer.quantisation().rounded(x) - x).max() < 0.6 * np.abs(other.quantisation().rounded(x) - x).max()
    )


@pytest.mark.parametrize("name", ["percentile", "entropy"])
def test_a_histogram_does_not_depend_on_how_its_data_came(name: str) -> None:
    x = np.random.default_rng().standard_normal(4096).astype(np.float32)
    x[0] = np.abs(x).max() * 1.5  # the first batch sets the bins, so that both have the same
    whole, parts = OBSERVERS[name](), OBSERVERS[name]()
    whole.observe(x)
    for part in np.split(x, 8):
        parts.observe(part)
    assert whole.range() == parts.range()


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "NaN": (lambda: affine(-1, 1).quantise(np.array([np.nan], np.float32)), ValueError, "NaN"),
    "integers": (lambda: affine(-1, 1).quantise(np.arange(3)), TypeError, "int64"),
    "floats back": (lambda: affine(-1, 1).dequantise(np.zeros(3)), TypeError, "float64"),
    "no zero in the grid": (lambda: Grid(1, 9), ValueError, "hold 0"),
    "scale 0": (lambda: Quantisation(np.float32(0), np.int32(0)), ValueError, "positive"),
    "zero point outside": (lambda: Quantisation(np.float32(1), np.int32(300)), ValueError, "outside"),
    "shapes": (lambda: Quantisation(np.ones(2, np.float32), np.zeros(3, np.int32), axis=0), ValueError, "must both be"),
    "high below low": (lambda: affine(1.0, -1.0), ValueError, "low <= high"),
    "infinite": (lambda: symmetric(-np.inf, 1.0), ValueError, "finite"),
    "slices": (lambda: symmetric([-1.0], [1.0], axis=1).quantise(np.ones((2, 2), "f")), ValueError, "1 slices"),
    "nothing seen": (lambda: MinMax().quantisation(), ValueError, "nothing was observed"),
    "NaN seen": (lambda: MinMax().observe(np.array([np.nan])), ValueError, "NaN"),
    "scheme": (lambda: MinMax(INT8, "odd"), ValueError, "'odd'"),
    "percentile": (lambda: Percentile(10), ValueError, "10"),
    "bins": (lambda: Entropy(bins=3), ValueError, "3"),
    "axis": (lambda: PerChannel(2).observe(np.ones((2, 2), "f")), ValueError, "no axis 2"),
    "momentum": (lambda: MovingAverage(momentum=0), ValueError, "momentum"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    do, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        do()


@pytest.mark.parametrize("kind", [MinMax, MovingAverage, Percentile, Entropy])
def test_an_empty_batch_changes_nothing(kind: type[Observer]) -> None:
    observer = kind()
    x = np.random.default_rng().standard_normal(100).astype(np.float32)
    observer.observe(x)
    before = observer.range()
    observer.observe(x[:0])
    assert observer.range() == before
