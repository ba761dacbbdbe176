"""Models of 8-bit integers: what they compute, how they train, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digits_nets import accuracy, cnn, digits, fit, logits, mlp

from internals import Tensor, front, nn, no_grad, ops
from internals.deploy import Signature, TensorSpec, save
from internals.deploy.compress import (
    INT8,
    UINT8,
    Grid,
    Linear4,
    QuantisedConv2d,
    QuantisedLinear,
    Recipe,
    calibrate,
    convert,
    nbytes,
    prepare,
    prepare_training,
    quantise_model,
    quantise_tables,
)
from internals.deploy.compress.pack import pack4

RECIPES = {
    "tf.lite's": Recipe(),
    "torch's": Recipe(weight_grid=INT8, grid=UINT8),
    "per tensor": Recipe(per_channel=False),
    "affine weights": Recipe(weight_grid=INT8, weight_scheme="affine"),
    "affine per tensor": Recipe(per_channel=False, weight_grid=UINT8, weight_scheme="affine"),
    "symmetric": Recipe(scheme="symmetric", grid=Grid(-127, 127)),
    "percentile": Recipe(observer="percentile", settings={"percentile": 99.99}),
    "moving average": Recipe(observer="average", settings={"momentum": 0.5}),
    "dynamic": Recipe(dynamic=True),
}


def batches(*shape: int) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]


def small(seed: int = 5) -> tuple[nn.Sequential, list[np.ndarray]]:
    """A network whose running statistics are not those it began with."""
    rng = np.random.default_rng(seed)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, rng=rng), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(100, 5, rng=rng)
    )
    given = batches(6, 2, 5, 5)
    for one in given:
        model(Tensor(one))
    return model.eval(), given


@pytest.mark.parametrize("name", RECIPES)
def test_integers_give_nearly_what_floats_gave(name: str) -> None:
    model, given = small()
    before = logits(model, given[0])
    quantised = quantise_model(model, given, RECIPES[name])
    assert [type(part).__name__ for part in quantised.parts] == [
        "QuantisedConv2d", "ReLU", "Flatten", "QuantisedLinear",
    ]  # fmt: skip
    off = np.abs(logits(quantised, given[0]) - before).max() / np.abs(before).max()
    assert 0 < off < 0.04
    np.testing.assert_array_equal(logits(model, given[0]), before)  # the model itself is as it was
    assert nbytes(quantised) < 0.4 * nbytes(model)


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "dynamic"])
def test_a_layer_is_the_product_of_what_its_integers_stand_for(name: str) -> None:
    """Computed in float64 from the grid's reals: only the sum's last rounding differs."""
    model, given = small()
    for layer in quantise_model(model, given, RECIPES[name]).parts:
        if isinstance(layer, QuantisedLinear | QuantisedConv2d):
            shape = (3, layer.weight.shape[0]) if isinstance(layer, QuantisedLinear) else (3, 2, 5, 5)
            x = batches(*shape)[0]
            q, scale, zero = (one.numpy().astype(np.float64) for one in layer.activation(Tensor(x)))
            reals = (q - zero) * scale
            weight = layer.quantisation.dequantise(layer.weight.numpy()).astype(np.float64)
            if isinstance(layer, QuantisedLinear):
                want = reals @ weight + layer.bias.numpy()
            else:
                want = ops.conv2d(reals, weight, **layer.settings) + layer.bias.numpy().reshape(-1, 1, 1)
            np.testing.assert_allclose(logits(layer, x), want, rtol=1e-5, atol=1e-5)


def test_a_dynamic_layer_looks_at_each_batch() -> None:
    layer = quantise_model(nn.Sequential(nn.Linear(8, 4, rng=np.random.default_rng(0))), recipe=Recipe(dynamic=True))
    x = batches(5, 8)[0]
    for factor in (1e-3, 1.0, 1e3):
        got, want = logits(layer, factor * x), factor * logits(layer, x)
        np.testing.assert_allclose(got - layer[0].bias.numpy(), want - factor * layer[0].bias.numpy(), rtol=2e-3,
                                   atol=2e-3 * factor)  # fmt: skip


@pytest.mark.parametrize("x", [np.zeros((2, 8)), np.full((2, 8), 3.5), np.full((2, 8), -3.5)], ids=str)
def test_a_batch_of_one_number(x: np.ndarray) -> None:
    model = nn.Sequential(nn.Linear(8, 4, rng=np.random.default_rng(0)))
    x = x.astype(np.float32)
    for quantised in (quantise_model(model, [x]), quantise_model(model, recipe=Recipe(dynamic=True))):
        np.testing.assert_allclose(logits(quantised, x), logits(model, x), atol=0.05)


@pytest.mark.parametrize("shape", [(8,), (1, 8), (0, 8), (2, 3, 8)])
def test_leading_axes(shape: tuple[int, ...]) -> None:
    model = nn.Sequential(nn.Linear(8, 4, rng=np.random.default_rng(0)))
    quantised = quantise_model(model, batches(50, 8))
    x = batches(*shape)[0]
    got, want = logits(quantised, x), logits(model, x)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=0.05)


def test_training_with_the_rounding_is_what_the_integers_compute() -> None:
    model, given = small()
    trained = prepare_training(model, Recipe(weight_grid=INT8), momentum=0.1)
    for one in given:
        out = trained(Tensor(one))
        trained.zero_grad()
        (out * out).mean().backward()
        with no_grad():
            for parameter in trained.parameters():
                assert parameter.grad is not None
                parameter -= 0.01 * parameter.grad
    trained.eval()
    for one in given:
        np.testing.assert_allclose(logits(convert(trained), one), logits(trained, one), rtol=1e-4, atol=1e-5)


def test_evaluation_moves_no_range() -> None:
    model, given = small()
    trained = prepare_training(model)
    trained(Tensor(given[0]))
    before = trained.parts[0].observer.range()
    trained.eval()(Tensor(10 * given[1]))
    assert trained.parts[0].observer.range() == before


def test_four_bits_in_a_model() -> None:
    layer = nn.Linear(37, 5, rng=np.random.default_rng(0))
    packed = Linear4(layer, group=8)
    weight = layer.weight.detach().numpy()
    np.testing.assert_allclose(packed.weights().numpy(), pack4(weight, 8).dequantise(), rtol=1e-6)
    x = batches(3, 37)[0]
    np.testing.assert_allclose(
        logits(packed, x), x @ pack4(weight, 8).dequantise() + layer.bias.detach().numpy(), rtol=1e-4, atol=1e-5
    )
    assert nbytes(packed) < nbytes(layer) / 2


def test_tables_of_rows() -> None:
    model = nn.Sequential(nn.Embedding(20, 16, rng=np.random.default_rng(0)))
    ids = np.random.default_rng(1).integers(0, 20, (3, 4))
    got, want = logits(quantise_tables(model), ids), logits(model, ids)
    assert np.abs(got - want).max() <= np.abs(model[0].weight.detach().numpy()).max() / 127 / 2 * 1.001


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no layer": (lambda: prepare(nn.Sequential(nn.ReLU())), ValueError, "no Linear or Conv2d in it, only ReLU"),
    "no module": (lambda: prepare(np.tanh), TypeError, "expected a Module, got ufunc"),
    "Keras-style": (lambda: prepare(front.Sequential([front.Input((3,)), front.Dense(2)])), TypeError, "lite.to_lite"),
    "no batch": (lambda: calibrate(prepare(small()[0]), []), ValueError, "no batch"),
    "not calibrated": (lambda: convert(prepare(small()[0])), ValueError, "nothing was observed yet"),
    "not prepared": (lambda: convert(small()[0]), ValueError, "no Observed or Trained"),
    "NaN": (lambda: calibrate(prepare(small()[0]), [np.full((1, 2, 5, 5), np.nan, np.float32)]), ValueError, "NaN"),
    "NaN later": (lambda: logits(quantise_model(*small()), np.full((1, 2, 5, 5), np.nan, np.float32)), ValueError,
                  "NaN"),
    "NaN in a weight": (lambda: quantise_model(nn.Sequential(broken()), batches(2, 3)), ValueError, "NaN"),
    "observer": (lambda: Recipe(observer="best"), ValueError, "minmax, average, percentile, entropy"),
    "setting": (lambda: Recipe(observer="percentile", settings={"percentile": 5}), ValueError, r"in \(50, 100\]"),
    "grid": (lambda: Recipe(grid=Grid(-1000, 1000)), ValueError, "within int8 or uint8"),
    "scheme": (lambda: Recipe(scheme="log"), ValueError, "'affine' or 'symmetric'"),
    "dynamic training": (lambda: prepare_training(small()[0], Recipe(dynamic=True)), ValueError, "static"),
    "width": (lambda: logits(quantise_model(nn.Sequential(nn.Linear(3, 2)), batches(2, 3)), batches(2, 4)[0]),
              ValueError, "does not end in in_features = 3"),
}  # fmt: skip


def broken() -> nn.Linear:
    layer = nn.Linear(3, 2)
    with no_grad():
        layer.weight *= np.nan
    return layer


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()


RUN = """
import sys, numpy as np
from internals.deploy import load
x = np.load(sys.argv[2])
(out,) = load(sys.argv[1]).signature()(x=x).values()
np.save(sys.argv[3], out)
assert "internals.deploy.compress.layers" not in sys.modules
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tf.lite's", "dynamic", "affine per tensor"])
def test_saved_and_run_in_another_process(name: str, tmp_path: Path) -> None:
    model, given = small()
    quantised = quantise_model(model, given, RECIPES[name])
    save(tmp_path / "m", quantised, {"serve": Signature({"x": TensorSpec(("batch", 2, 5, 5))})})
    np.save(tmp_path / "x.npy", given[1])
    paths = [str(tmp_path / part) for part in ("m", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", RUN, *paths], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(paths[2]), logits(quantised, given[1]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [mlp, cnn])
def test_real_digits_keep_their_accuracy(make: Any) -> None:
    """Within 0.5 % of float32, calibrated or trained."""
    model = fit(make())
    x, _, _, _ = digits()
    floats = accuracy(model)
    assert floats > 0.95
    for name in ("tf.lite's", "torch's", "per tensor", "dynamic", "percentile"):
        assert accuracy(quantise_model(model, [x[:200], x[200:400]], RECIPES[name])) >= floats - 0.005, name
    trained = fit(prepare_training(model), epochs=2, lr=1e-3)
    assert accuracy(convert(trained)) >= floats - 0.005
    _, _, test, _ = digits()
    np.testing.assert_allclose(logits(convert(trained), test), logits(trained, test), rtol=1e-3, atol=1e-3)
