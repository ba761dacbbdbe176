"""Two sizes left open at once: what a program does with them, saved once and equal to the bit at every size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_onnxruntime import run_onnx

from internals import Tensor, nn, no_grad, ops
from internals.autodiff import vmap
from internals.deploy import Signature, SignatureError, TensorSpec, load, save
from internals.deploy.onnx import from_onnx, to_onnx

rng = np.random.default_rng()
ROWS = TensorSpec(("batch", "time", 8))
WORDS = TensorSpec(("batch", "time"), "int64")
SIZES = ((1, 1), (2, 7), (4, 3), (1, 6), (6, 1), (5, 5))
TABLE = Tensor(rng.standard_normal((9, 8)).astype(np.float32), requires_grad=True)


def attends(x: Any) -> Any:
    return ops.matmul(x, ops.transpose(x, axes=(0, 2, 1)))


def triangle(upper: bool, k: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        n = x.shape[1]
        return attends(x) + Tensor((np.triu if upper else np.tril)(np.full((1, n, n), -9.0, np.float32), k))

    return function


def words_to_rows(*layers: Any) -> Any:
    return nn.Sequential(nn.Embedding(10, 8), *layers)


FUNCTIONS: dict[str, tuple[Callable[[], Any], TensorSpec]] = {
    "heads apart": (lambda: lambda x: ops.sum(ops.reshape(x, shape=(*x.shape[:2], 2, 4)), axis=2), ROWS),
    "all steps one by one": (lambda: lambda x: ops.reshape(x, shape=(x.shape[0] * x.shape[1], 8)) * 2, ROWS),
    "broadcast back": (lambda: lambda x: x / ops.broadcast_to(ops.norm(x, axis=2, keepdims=True), shape=x.shape), ROWS),
    "one more axis": (
        lambda: lambda x: ops.broadcast_to(ops.expand_dims(x, axis=1), shape=(x.shape[0], 3, *x.shape[1:])), ROWS),
    "by its own size": (
        lambda: lambda x: ops.broadcast_to(ops.expand_dims(x, axis=2), shape=(*x.shape, x.shape[1])), WORDS),
    "truths": (lambda: lambda x: ops.broadcast_to((x > 0)[:, :, :1], shape=(2, *x.shape[:2], 5)), ROWS),
    "the first of a table": (lambda: lambda x: x + TABLE[: x.shape[1]], ROWS),
    "a part of the first": (lambda: lambda x: x[:, :, :1] + TABLE[None, : x.shape[1], 2:3], ROWS),
    "counting": (lambda: lambda x: x + Tensor(np.arange(5, 5 + 2 * x.shape[1], 2))[:, None], ROWS),
    "counting floats": (lambda: lambda x: x * Tensor(np.arange(x.shape[1], dtype=np.float32)[:, None]), ROWS),
    "a mask": (lambda: lambda x: ops.where(Tensor(np.tri(x.shape[1], dtype=bool)), attends(x), -9.0), ROWS),
    "below the diagonal": (lambda: triangle(False, -1), ROWS),
    "with the diagonal": (lambda: triangle(False, 0), ROWS),
    "above the diagonal": (lambda: triangle(True, 1), ROWS),
    "a unit matrix": (lambda: lambda x: attends(x) + Tensor(np.eye(x.shape[1], dtype=np.float32)), ROWS),
    "its truths": (lambda: lambda x: ops.where(Tensor(~np.eye(x.shape[1], dtype=bool)), attends(x), 5.0), ROWS),
    "signs": (lambda: lambda x: attends(x) + Tensor(np.sign(
        np.subtract.outer(*[np.arange(x.shape[1])] * 2) + 1.0).astype(np.float32)), ROWS),
    "attention's weights": (lambda: weights_of(nn.MultiheadAttention(8, 2)), ROWS),
    "a transformer block": (lambda: nn.TransformerBlock(8, 2), ROWS),
    "a bidirectional LSTM": (lambda: nn.LSTM(8, 3, num_layers=2, bidirectional=True, batch_first=True), ROWS),
    "learned positions": (lambda: words_to_rows(nn.LearnedPositions(9, 8), nn.TransformerBlock(8, 2)), WORDS),
    "sines": (lambda: words_to_rows(nn.SinusoidalPositions(9, 8), nn.LayerNorm(8)), WORDS),
    "causal attention": (lambda: causal(nn.MultiheadAttention(8, 2)), ROWS),
}  # fmt: skip


def causal(attention: Any) -> Callable[[Any], Any]:
    return lambda x: attention(x, x, x, causal=True)


def weights_of(attention: Any) -> Callable[[Any], Any]:
    return lambda x: attention(x, x, x, need_weights=True)[1]


def random_input(spec: TensorSpec, *sizes: int) -> np.ndarray:
    shape = (*sizes, *spec.shape[2:])
    return rng.integers(0, 10, shape) if spec.dtype.kind == "i" else rng.standard_normal(shape).astype(spec.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_open_sizes(name: str, tmp_path: Path) -> None:
    make, spec = FUNCTIONS[name]
    function = make()
    save(tmp_path / "model", function, {"serve": Signature({"x": spec})})
    loaded = load(tmp_path / "model")
    again = from_onnx(to_onnx(loaded))
    for sizes in SIZES:
        x = random_input(spec, *sizes)
        with no_grad():
            wanted = function(Tensor(x))
        wanted = (wanted[0] if isinstance(wanted, tuple) else wanted).numpy()
        came = next(iter(loaded.signature()(x=x).values()))
        assert came.dtype == wanted.dtype
        np.testing.assert_array_equal(came, wanted)
        for other in (run_onnx(to_onnx(loaded), {"x": x})[0], next(iter(again.signature()(x=x).values()))):
            np.testing.assert_allclose(other, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: ops.reshape(x, shape=(x.shape[1], x.shape[0], 8)), "sizes along several axes"),
    (lambda x: x[:, x.shape[1] // 2 :], "getitem with another key"),
    (lambda x: x + Tensor(np.arange(x.shape[1])[:, None] ** 2), "an array of other values"),
    (lambda x: x + Tensor(np.minimum(np.arange(x.shape[1]), 5))[:, None], "an array of other values"),
    (lambda x: ops.broadcast_to(TABLE[: min(x.shape[1], 6)], shape=(min(x.shape[1], 6), 8)), "with other settings|key"),
    (lambda x: attends(x) + Tensor(np.tril(np.triu(np.ones((x.shape[1],) * 2), -5))), "an array of other values"),
    (lambda x: x * 2 if x.shape[1] > 50 else x, "another number of operations"),
    (lambda x: ops.reshape(x, shape=(8,) * x.shape[1]) if x.shape[1] == 0 else ops.reshape(
        x, shape=(*x.shape[:2], *(1,) * x.shape[1], 8)), "sizes along several axes"),
], ids=["turned", "the second half", "squares", "counting to 5",
        "six at most", "a wide band", "longer ones doubled", "more axes"])  # fmt: skip
def test_what_no_one_graph_does(function: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match=message):
        save(tmp_path / "model", function, {"serve": Signature({"x": ROWS})})


def test_a_size_that_a_function_takes_to_seven_only(tmp_path: Path) -> None:
    def short(x: Any) -> Any:
        if x.shape[1] > 7:
            raise RuntimeError("too long")
        return x + TABLE[: x.shape[1]]

    save(tmp_path / "model", short, {"serve": Signature({"x": ROWS})})
    x = random_input(ROWS, 200, 6)
    assert np.array_equal(load(tmp_path / "model").signature()(x=x)["output"], x + TABLE.detach().numpy()[:6])


def test_a_size_that_stays() -> None:
    """-2 in the shape of a reshape is the size that there is at this place."""
    x = Tensor(rng.standard_normal((2, 3, 4)).astype(np.float32), requires_grad=True)
    y = x.reshape(-2, -1)
    weight = rng.standard_normal((2, 12)).astype(np.float32)
    (y * Tensor(weight)).sum().backward()
    assert np.array_equal(y.detach().numpy(), x.detach().numpy().reshape(2, 12))
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), weight.reshape(2, 3, 4))
    rows = vmap(lambda one: ops.reshape(one, shape=(-2, 2, -1)))(x)
    assert rows.shape == (2, 3, 2, 2)
    with pytest.raises(ValueError, match="can't be arranged as"):
        x.reshape(-2, -2, 5)
    with pytest.raises(ValueError, match="not valid"):
        x.reshape(24, 1, 1, -2)
