"""Every optimizer, step for step: the same start, the same random gradients, 50 steps, the same numbers.

PyTorch is the reference for all but Lion, which it lacks. Keras agrees where epsilon is too small to matter: it adds
epsilon inside the root (RMSprop, Adagrad) or before the correction (Adam), and its weight decay is decoupled
everywhere, so coupled decay is compared with PyTorch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from internals import Tensor, device, optim

SHAPES = ((3, 4), (5,), (), (2, 0), (1, 3, 1), (17, 11))

TINY = 1e-30


class Row(NamedTuple):
    id: str
    mine: type[optim.Optimizer]
    settings: dict[str, Any]
    torch: Callable[[Any], Any] | None = None
    keras: tuple[str, dict[str, Any]] | None = None


def same(mine: type[optim.Optimizer], theirs: str | None, keras: str | None = None, **settings: Any) -> Row:
    """A row whose settings are called the same in PyTorch."""
    name = f"{mine.__name__} {' '.join(f'{k}={v}' for k, v in settings.items() if k != 'lr')}".strip()
    made = (lambda ps: getattr(torch.optim, theirs)(ps, **settings)) if theirs else None
    return Row(name, mine, settings, made)


S, A, W, R, G, L = optim.SGD, optim.Adam, optim.AdamW, optim.RMSProp, optim.AdaGrad, optim.Lion

TABLE = [
    same(S, "SGD", lr=0.1),
    same(S, "SGD", lr=0.1, momentum=0.9, dampening=0.3),
    same(S, "SGD", lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    same(S, "SGD", lr=0.1, momentum=0.5, weight_decay=0.02, maximize=True),
    same(G, "Adagrad", lr=0.1),
    same(G, "Adagrad", lr=0.1, lr_decay=0.05, initial_accumulator_value=0.3, eps=1e-3),
    same(G, "Adagrad", lr=0.1, weight_decay=0.1, maximize=True),
    same(R, "RMSprop", lr=0.01),
    same(R, "RMSprop", lr=0.01, alpha=0.9, momentum=0.8, eps=1e-3),
    same(R, "RMSprop", lr=0.01, centered=True),
    same(R, "RMSprop", lr=0.01, centered=True, momentum=0.9, weight_decay=0.05, maximize=True),
    same(A, "Adam", lr=0.01),
    same(A, "Adam", lr=0.01, betas=(0.5, 0.9), eps=1e-2),
    same(A, "Adam", lr=0.01, betas=(0.0, 0.0)),
    same(A, "Adam", lr=0.01, weight_decay=0.1, amsgrad=True),
    same(A, "Adam", lr=0.01, maximize=True),
    same(W, "AdamW", lr=0.01),
    same(W, "AdamW", lr=0.01, weight_decay=0.3, amsgrad=True, maximize=True),
    Row("keras SGD", S, {"lr": 0.1}, None, ("SGD", {"learning_rate": 0.1})),
    Row("keras momentum", S, {"lr": 0.1, "momentum": 0.9}, None, ("SGD", {"learning_rate": 0.1, "momentum": 0.9})),
    Row(
        "keras Nesterov",
        S,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        None,
        ("SGD", {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    ),
    Row(
        "keras Adagrad",
        G,
        {"lr": 0.1, "initial_accumulator_value": 0.1, "eps": TINY},
        None,
        ("Adagrad", {"learning_rate": 0.1, "epsilon": TINY}),
    ),
    Row(
        "keras RMSprop",
        R,
        {"lr": 0.01, "alpha": 0.9, "eps": TINY, "momentum": 0.7},
        None,
        ("RMSprop", {"learning_rate": 0.01, "epsilon": TINY, "momentum": 0.7}),
    ),
    Row("keras Adam", A, {"lr": 0.01, "eps": TINY}, None, ("Adam", {"learning_rate": 0.01, "epsilon": TINY})),
    Row(
        "keras AMSGrad",
        A,
        {"lr": 0.01, "eps": TINY, "amsgrad": True},
        None,
        ("Adam", {"learning_rate": 0.01, "epsilon": TINY, "amsgrad": True}),
    ),
    Row(
        "keras AdamW",
        W,
        {"lr": 0.01, "eps": TINY, "weight_decay": 0.2},
        None,
        ("AdamW", {"learning_rate": 0.01, "epsilon": TINY, "weight_decay": 0.2}),
    ),
    Row("keras Lion", L, {"lr": 0.01}, None, ("Lion", {"learning_rate": 0.01})),
    Row(
        "keras Lion decay",
        L,
        {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1},
        None,
        ("Lion", {"learning_rate": 0.01, "beta_1": 0.8, "beta_2": 0.95, "weight_decay": 0.1}),
    ),
]


def starts(dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [np.asarray(rng.standard_normal(shape), dtype=dtype) for shape in SHAPES]


def gradients(step: int, dtype: str) -> list[np.ndarray]:
    """Random, of sizes that differ a thousandfold between the parameters, and none at all now and then."""
    rng = np.random.default_rng([11, step])
    return [np.asarray(rng.standard_normal(shape) * 10.0 ** (i - 3), dtype=dtype) for i, shape in enumerate(SHAPES)]


def run_torch(row: Row, dtype: str) -> list[list[np.ndarray]]:
    assert row.torch is not None
    parameters = [torch.tensor(array, requires_grad=True) for array in starts(dtype)]
    optimizer, trace = row.torch(parameters), []
    for step in range(50):
        for number, (parameter, gradient) in enumerate(zip(parameters, gradients(step, dtype), strict=True)):
            parameter.grad = torch.tensor(gradient) if (step + number) % 7 else None
        optimizer.step()
        trace.append([parameter.detach().numpy().copy() for parameter in parameters])
    return trace


def run_keras(row: Row, dtype: str) -> list[list[np.ndarray]]:
    """Without parameters of size 0, and with a gradient in every step: one count of steps serves all in Keras."""
    keras = pytest.importorskip("keras")
    assert row.keras is not None
    name, settings = row.keras
    before = keras.config.floatx()
    keras.config.set_floatx(dtype)  # what the optimizer's own numbers are made of
    try:
        variables = [keras.Variable(array, dtype=dtype) for array in starts(dtype)]
        optimizer, trace = getattr(keras.optimizers, name)(**settings), []
        for step in range(50):
            optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients(step, dtype)], variables)
            trace.append([np.asarray(variable.numpy()) for variable in variables])
    finally:
        keras.config.set_floatx(before)
    return trace


def run_mine(row: Row, dtype: str, everywhere: bool, where: str = "cpu", steps: int = 50) -> list[list[np.ndarray]]:
    parameters = [Tensor(array, device=where, requires_grad=True) for array in starts(dtype)]
    optimizer, trace = row.mine(parameters, **row.settings), []
    for step in range(steps):
        for number, (parameter, gradient) in enumerate(zip(parameters, gradients(step, dtype), strict=True)):
            parameter.grad = Tensor(gradient, device=where) if everywhere or (step + number) % 7 else None
        optimizer.step()
        trace.append([np.array(parameter.detach().to("cpu").numpy()) for parameter in parameters])
    return trace


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.id, marks=[] if row.torch else pytest.mark.slow) for row in TABLE]
)
def test_the_same_numbers_over_50_steps(row: Row, dtype: str) -> None:
    """Gradients of five orders of magnitude, some missing, an empty and a 0-d parameter."""
    theirs = run_torch(row, dtype) if row.torch else run_keras(row, dtype)
    mine = run_mine(row, dtype, everywhere=row.torch is None)
    # Keras computes some factors (1 - β₂ᵗ) in float32, and a sign (Lion) turns rounding into whole steps at 0.
    relative = 2e-5 if dtype == "float32" else 1e-12 if row.torch or row.id in EXACT else 1e-6
    for step, (got, want) in enumerate(zip(mine, theirs, strict=True)):
        for a, b in zip(got, want, strict=True):
            assert a.dtype == dtype
            # Of the largest entry too: where a sum nearly cancels, what is left is rounding.
            largest = float(np.abs(b).max(initial=1.0))
            np.testing.assert_allclose(a, b, rtol=relative, atol=relative * largest, err_msg=f"step {step}")


EXACT = {"keras SGD"}

ONE_EACH = [next(row for row in reversed(TABLE) if row.mine is kind) for kind in (S, G, R, A, W, L)]


@pytest.mark.parametrize("row", ONE_EACH, ids=lambda row: row.mine.__name__)
@pytest.mark.parametrize("where", ["sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_the_same_on_other_devices(row: Row, where: str) -> None:
    """And nothing is copied to the host for it."""
    want, got = run_mine(row, "float32", False, steps=8), run_mine(row, "float32", False, where, steps=8)
    for a, b in zip(got[-1], want[-1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    x = Tensor([1.0, 2.0], device=where, requires_grad=True)
    optimizer = row.mine([x], **row.settings)
    x.grad = Tensor([0.5, 0.25], device=where)
    if where == "sim:0":
        before = device(where).counters.to_host
        optimizer.step()
        assert device(where).counters.to_host == before


@pytest.mark.parametrize("row", ONE_EACH, ids=lambda row: row.mine.__name__)
def test_in_pieces_as_whole(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_mine(row, "float64", False, steps=5)
    monkeypatch.setattr("internals.optim.optimizer.PIECE", 7)
    for a, b in zip(run_mine(row, "float64", False, steps=5)[-1], whole[-1], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("row", ONE_EACH, ids=lambda row: row.mine.__name__)
def test_half_parameters_stay_half(row: Row, dtype: str) -> None:
    """The numbers are those of float64 as far as half precision goes; PyTorch, too, keeps its slots in half."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    settings = row.settings | ({"eps": 1e-3} if "eps" in row.settings else {})
    ends = []
    for one in (kind, np.dtype(np.float64)):
        x = Tensor(np.array([1.0, -2.0, 0.5]).astype(one), requires_grad=True)
        optimizer = row.mine([x], **settings)
        for step in range(5):
            x.grad = Tensor(np.random.default_rng(step).standard_normal(3).astype(one))
            optimizer.step()
        assert x.dtype == one
        assert all(slot.dtype == one for name, slot in optimizer.state.get(x, {}).items() if name != "step")
        ends.append(np.asarray(x.detach().numpy(), dtype=np.float64))
    np.testing.assert_allclose(ends[0], ends[1], atol=0.1)
