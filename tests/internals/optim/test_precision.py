"""Mixed precision: who computes in which dtype, what it costs when off, and the scale, step for step as torch's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, autodiff, grad, ops, optim
from internals.autodiff import AnomalyError, detect_anomaly
from internals.ops import TABLE
from internals.ops.table import _STYLES
from internals.optim import LossScaler, MasterWeights, autocast
from internals.optim.autocast import FULL, FULL_ROOMS, HALF
from internals.tensor import run_eagerly

HALVES = ["float16", "bfloat16"]

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def test_the_lists_name_rows() -> None:
    assert not (HALF | FULL) - TABLE.keys()
    assert not FULL_ROOMS - {op.room for op in TABLE.values()}
    assert not HALF & FULL
    assert not [name for name in HALF if TABLE[name].room in FULL_ROOMS]


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "@": (lambda x: x @ x.T, "half"),
    "array @": (lambda x: X @ x.T, "half"),
    "matmul": (lambda x: ops.matmul(x, x.T), "half"),
    "einsum": (lambda x: ops.einsum([x, x], equation="ij,kj->ik"), "half"),
    "conv1d": (lambda x: ops.conv1d(x.reshape(1, 4, 6), x.reshape(2, 4, 3)), "half"),
    "linear": (lambda x: ops.linear(x, x[:, :6].T, x[0, :4]), "half"),
    "attention": (lambda x: ops.scaled_dot_product(*(x.reshape(1, 4, 6),) * 3, np.ones((1, 4, 4), bool)), "half"),
    "sum": (lambda x: (x @ x.T).sum(), "float32"),
    "mean": (lambda x: (x @ x.T).mean(axis=0), "float32"),
    "softmax": (lambda x: (x @ x.T).softmax(), "float32"),
    "normalise": (lambda x: ops.layer_norm(x @ x.T, x[0, :4], x[1, :4]), "float32"),
    "l1": (lambda x: ops.l1(x @ x.T, x @ x.T * 2), "float32"),
    "inverse": (lambda x: ops.inverse(x @ x.T + Tensor(np.eye(4, dtype=np.float32))), "float32"),
    "exp": (lambda x: (x @ x.T).exp(), "float32"),
    "**": (lambda x: (x @ x.T) ** 2, "float32"),
    "cross_entropy": (lambda x: ops.cross_entropy(x @ x.T, np.array([0, 1, 2, 3])), "float32"),
    "relu": (lambda x: (x @ x.T).relu(), "half"),
    "+ float32": (lambda x: x @ x.T + x[0, :4], "float32"),
    "* number": (lambda x: (x @ x.T) * 0.5, "half"),
    "float64": (lambda x: x.to("float64") @ x.to("float64").T, "float64"),
    "float64 sum": (lambda x: x.to("float64").sum(), "float64"),
    "integers": (lambda x: Tensor([[1, 2]]) @ Tensor([[1], [2]]), "int64"),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", CALLS)
def test_the_dtype_each_row_computes_in(name: str, half: str) -> None:
    """And the numbers are those of float32 as far as half precision goes, the gradients float32's."""
    pytest.importorskip("ml_dtypes")
    call, expected = CALLS[name]
    x, y = (Tensor(X, requires_grad=True) for _ in range(2))
    with autocast(half):
        got = call(x)
    want = call(y)
    assert got.dtype.name == (half if expected == "half" else expected)
    tolerance = 0.15 if half == "bfloat16" else 0.02
    wide = got.detach().to("float64").numpy()
    np.testing.assert_allclose(wide, want.detach().to("float64").numpy(), rtol=tolerance, atol=tolerance)
    if want.requires_grad:
        cotangent = np.random.default_rng(1).uniform(0.5, 1, want.shape)
        for value in (got, want):
            value.backward(Tensor(cotangent, dtype=value.dtype))
        assert x.grad.dtype == np.float32
        largest = float(np.abs(y.grad.numpy()).max())
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), atol=tolerance * largest, rtol=tolerance)


def test_products_are_as_torchs_autocast() -> None:
    with autocast("float16"):
        mine = Tensor(X) @ Tensor(X).T
    with torch.autocast("cpu", dtype=torch.float16):
        theirs = torch.tensor(X) @ torch.tensor(X).T
    assert mine.dtype.name == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2e-3, atol=2e-3)


def is_off() -> bool:
    return _STYLES[Tensor][0] is run_eagerly and Tensor.__matmul__.__qualname__.startswith("Tensor.")


def test_nothing_is_left_when_it_is_off() -> None:
    """Rows and operators of Tensors take their short way again: after nesting, an error, and as a decorator."""
    assert is_off()
    with autocast("float16"):
        assert not is_off()
        with autocast("float16", enabled=False):
            assert (Tensor(X) @ X.T).dtype == np.float32
        assert (Tensor(X) @ X.T).dtype == np.float16
    assert is_off()
    with pytest.raises(ValueError, match="inner sizes 6 and 4 differ"), autocast("float16"):
        Tensor(X) @ X
    assert is_off()

    @autocast("float16")
    def product() -> Any:
        return Tensor(X) @ X.T

    assert product().dtype == np.float16
    assert (Tensor(X) @ X.T).dtype == np.float32
    assert is_off()


def test_a_decorator_can_be_used_again_inside_itself() -> None:
    @autocast("float16")
    def nested(depth: int) -> Any:
        return nested(depth - 1) if depth else Tensor(X) @ X.T

    assert nested(2).dtype == np.float16
    assert is_off()


def test_each_thread_has_its_own_setting() -> None:
    inside, done = threading.Event(), threading.Event()
    found: list[Any] = []

    def other() -> None:
        with autocast("float16"):
            inside.set()
            found.append((Tensor(X) @ X.T).dtype)
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    assert (Tensor(X) @ X.T).dtype == np.float32
    done.set()
    thread.join()
    assert found == [np.float16]
    assert is_off()


@pytest.mark.parametrize("inside", [True, False])
def test_higher_order(inside: bool) -> None:
    """The reverse pass keeps to the dtypes of the forward pass, recorded or not, in an autocast or after it."""

    def second(half: bool) -> np.ndarray:
        x = Tensor(X, requires_grad=True)
        with autocast("float16", enabled=half):
            y = x @ x.T
            z = (y.relu() * y[0] * 0.01).sum()
            if inside:
                first = grad(z, x, create_graph=True)
        if not inside:
            first = grad(z, x, create_graph=True)
        assert first.dtype == np.float32
        return grad((first * first).sum(), x).numpy()

    want = second(half=False)
    np.testing.assert_allclose(second(half=True), want, rtol=0.02, atol=0.02 * float(np.abs(want).max()))


@pytest.mark.parametrize("name", ["gradient", "hvp", "vjp", "vmap", "jvp"])
def test_transformations_inside(name: str) -> None:
    def f(x: Any) -> Any:
        return ((x @ x.T).relu() * 0.01).exp().sum()

    def run() -> np.ndarray:
        x, v = Tensor(X), Tensor(X[::-1].copy())
        result: Any = {
            "gradient": lambda: autodiff.gradient(f)(x),
            "hvp": lambda: autodiff.hvp(f, x, v),
            "vjp": lambda: autodiff.vjp(f, x)[1](Tensor(0.5)),
            "vmap": lambda: autodiff.vmap(f)(ops.stack([x, v])),
            "jvp": lambda: autodiff.jvp(f, (x,), (v,))[1],
        }[name]()
        return (result[0] if isinstance(result, tuple) else result).numpy()

    want = run()
    with autocast("float16"):
        got = run()
    assert got.dtype == np.float32
    assert not np.array_equal(got, want)
    np.testing.assert_allclose(got, want, rtol=0.02, atol=0.02 * float(np.abs(want).max()))


# --- the scale --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_scale_as_torchs() -> None:
    """60 steps, some with infinite or NaN gradients, some clipped after unscaling; saved and loaded half way."""
    settings: dict[str, Any] = {
        "init_scale": 2.0**10,
        "growth_factor": 3.0,
        "backoff_factor": 0.25,
        "growth_interval": 4,
    }
    x, t = Tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)
    optimizers: Any = optim.SGD([x], lr=0.1, momentum=0.9), torch.optim.SGD([t], lr=0.1, momentum=0.9)
    mine, theirs = LossScaler(**settings), torch.amp.GradScaler("cpu", **settings)
    rng, skipped = np.random.default_rng(2), 0
    for step in range(60):
        factor = rng.standard_normal(2).astype(np.float32)
        if step % 7 == 5:
            factor[step % 2] = np.inf if step % 3 else np.nan
        for optimizer in optimizers:
            optimizer.zero_grad()
        mine.scale((x * x * Tensor(factor)).sum()).backward()
        theirs.scale((t * t * torch.tensor(factor)).sum()).backward()
        if step % 5 == 0:
            mine.unscale(optimizers[0])
            theirs.unscale_(optimizers[1])
            optim.clip_grad_norm(x, 0.5)
            torch.nn.utils.clip_grad_norm_(t, 0.5)
        skipped += not mine.step(optimizers[0])
        theirs.step(optimizers[1])
        mine.update()
        theirs.update()
        assert mine.value == theirs.get_scale(), f"step {step}"
        np.testing.assert_allclose(x.detach().numpy(), t.detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=f"step {step}")
        if step == 30:
            assert mine.state_dict() == theirs.state_dict()
            resumed = LossScaler()
            resumed.load_state_dict(theirs.state_dict())
            mine = resumed
    assert skipped == 8


@pytest.mark.parametrize("where", ["sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_on_other_devices(where: str) -> None:
    x = Tensor(np.ones(2, np.float16), device=where, requires_grad=True)
    masters, scaler = MasterWeights([x]), LossScaler(4.0, growth_interval=1)
    average = optim.ExponentialMovingAverage(masters.parameters, decay=0.5)
    optimizer = optim.SGD(masters.parameters, lr=0.5)
    for bad in (1.0, float("inf")):
        x.grad = Tensor(np.array([4.0, 4 * bad], np.float16), device=where)
        masters.take_gradients()
        assert scaler.step(optimizer) == np.isfinite(bad)
        scaler.update()
        masters.write_back()
        average.update()
    assert scaler.value == 4.0
    assert x.device.name == where
    np.testing.assert_array_equal(x.detach().to("cpu").numpy(), np.full(2, 0.5, np.float16))
    with average.applied():
        np.testing.assert_array_equal(masters.parameters[0].detach().to("cpu").numpy(), [0.625, 0.625])


def test_autocast_on_sim() -> None:
    x = Tensor(X, device="sim:0", requires_grad=True)
    with autocast("float16"):
        product = x @ x.T
        loss = (product.softmax() * product).sum()
    loss.backward()
    assert (product.dtype, loss.dtype, x.grad.dtype) == (np.float16, np.float32, np.float32)
    assert x.grad.device.name == "sim:0"


def test_the_scale_stays_in_range() -> None:
    scaler, x = LossScaler(2.0**127, growth_interval=1), Tensor(1.0, requires_grad=True)
    for _ in range(2):
        x.grad = Tensor(1.0)
        scaler.step(optim.SGD([x], lr=0.1))
        scaler.update()
    assert scaler.value == 2.0**127


def test_small_gradients_vanish_without_a_scale() -> None:
    """The gradient of the product is about 1e-8; float16's smallest number is 6e-8."""

    def gradient(scaler: LossScaler) -> np.ndarray:
        w = Tensor(np.full((6, 1), 0.5, np.float32), requires_grad=True)
        with autocast("float16"):
            loss = (Tensor(X) @ w).sum() * 1e-8
        scaler.scale(loss).backward()
        scaler.unscale(optim.SGD([w], lr=1.0))
        return w.grad.numpy()

    assert not gradient(LossScaler(enabled=False)).any()
    np.testing.assert_allclose(gradient(LossScaler()), X.sum(axis=0)[:, None] * 1e-8, rtol=0.01, atol=1e-11)


def train(half: str | None, scaler: LossScaler) -> float:
    """The last loss of a small network whose loss is so small that float16 gradients vanish."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 8)).astype(np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True))
    w, v = (Tensor(rng.standard_normal(s) * 0.4, dtype="float32", requires_grad=True) for s in ((8, 32), (32, 1)))
    optimizer = optim.Adam([w, v], lr=0.02, eps=1e-16)
    for _ in range(120):
        with autocast(half or "float16", enabled=half is not None):
            error = ops.tanh(Tensor(x) @ w) @ v - Tensor(y)
            loss = (error * error).mean() * 1e-6
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return loss.item() * 1e6


@pytest.mark.slow
def test_training_with_a_scale_is_as_good_as_in_float32() -> None:
    full = train(None, LossScaler(enabled=False))
    assert full < 0.05
    assert train("float16", LossScaler(2.0**20)) < 2 * full
    assert train("float16", LossScaler(enabled=False)) > 4 * full


@pytest.mark.slow
def test_bfloat16_wants_no_scale() -> None:
    pytest.importorskip("ml_dtypes")
    assert train("bfloat16", LossScaler(enabled=False)) < 0.1


@pytest.mark.slow
def test_master_weights_keep_what_half_would_lose() -> None:
    """500 steps of 1e-4 on a weight of 1: in float16 1 - 1e-4 is 1."""

    def end(masters: bool) -> float:
        w = Tensor(np.ones(1, np.float16), requires_grad=True)
        other = Tensor(np.ones(1, np.float32), requires_grad=True)
        kept = MasterWeights([w, other])
        assert kept.parameters[1] is other
        optimizer = optim.SGD(kept.parameters if masters else [w], lr=1e-4)
        for _ in range(500):
            optimizer.zero_grad()
            w.sum().backward()
            if masters:
                kept.take_gradients()
            optimizer.step()
            if masters:
                kept.write_back()
        assert w.dtype == np.float16
        return float(w.item())

    assert end(masters=False) == 1.0
    assert end(masters=True) == pytest.approx(0.95, abs=1e-3)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "dtype": (lambda: autocast("float32"), "autocast: dtype must be 'float16' or 'bfloat16', got 'float32'"),
    "no dtype": (lambda: autocast(3), "autocast: dtype must be"),
    "scale": (lambda: LossScaler(0.0), "init_scale must be positive and finite, got 0.0"),
    "growth": (lambda: LossScaler(growth_factor=1.0), "growth_factor must be above 1"),
    "interval": (lambda: LossScaler(growth_interval=0), "growth_interval must be a positive integer, got 0"),
    "a number": (lambda: LossScaler().scale(1.0), "scale wants a Tensor, or several, got float"),
    "early": (lambda: LossScaler().update(), "update before any step"),
    "twice": (lambda: twice("unscale", "unscale"), "unscaled already"),
    "two steps": (lambda: twice("step", "step"), "has stepped since the last update"),
    "late": (lambda: twice("step", "unscale"), "unscale after step"),
    "half": (lambda: twice("unscale", "step", "float16"), "a gradient is float16.*MasterWeights"),
    "state": (lambda: LossScaler().load_state_dict({}), "got nothing; expected scale"),
    "one": (lambda: MasterWeights(Tensor(1.0, requires_grad=True)), "given as a list"),  # type: ignore[arg-type]
}


def twice(first: str, second: str, dtype: str = "float32") -> None:
    x = Tensor(1.0, dtype=dtype, requires_grad=True)
    x.grad = Tensor(1.0, dtype=dtype)
    scaler, optimizer = LossScaler(), optim.SGD([x], lr=0.1)
    for name in (first, second):
        getattr(scaler, name)(optimizer)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        call()


def test_anomaly_mode_around_it_goes_on_when_it_ends() -> None:
    x = Tensor([[1.0]], requires_grad=True)
    with detect_anomaly(forward=True):
        with autocast():
            y = x @ x
        with pytest.raises(AnomalyError, match="log gave NaN"):
            (y * -1.0).log()
    assert y.dtype == np.float16
