"""Modules beside their twins in torch: the same weights give the same outputs, gradients, and 50 steps of training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, nn, ops
from internals.optim import SGD

T = torch.nn
TURNED = (T.Linear, T.MultiheadAttention)
"""Whose weights torch stores the other way round."""


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def ids(*shape: int) -> np.ndarray:
    return np.random.default_rng([7, *shape]).integers(0, 5, shape)


def alone(module: Any, *inputs: Any) -> Any:
    return module(*inputs)


@dataclass(frozen=True)
class Twin:
    """A module, its counterpart, what they are given, and how they are called."""

    name: str
    make: Callable[[], nn.Module]
    make_theirs: Callable[[], Any]
    inputs: tuple[np.ndarray, ...]
    call: Callable[..., Any] = alone
    call_theirs: Callable[..., Any] = alone
    steps: int = field(default=50)


def packed(module: Any, x: Any, *state: Any) -> Any:
    lengths = torch.tensor([5, 2, 3])
    pack = T.utils.rnn.pack_padded_sequence(x, lengths, batch_first=module.batch_first, enforce_sorted=False)
    out, last = module(pack, *state)
    return T.utils.rnn.pad_packed_sequence(out, batch_first=module.batch_first, total_length=5)[0], last


def with_lengths(module: Any, x: Any, *state: Any) -> Any:
    return module(x, *state, lengths=[5, 2, 3])


def pair(module: Any, x: Any, *state: Any) -> Any:
    return module(x, state)


def seen(framework: Any) -> Any:
    mask = np.random.default_rng(3).random((4, 4)) < 0.6
    mask[:, 0] = True
    return Tensor(mask) if framework is nn else ~torch.tensor(mask)


def there(framework: Any) -> Any:
    mask = np.array([[True] * 4, [True, True, True, False], [True, True, False, False]])
    return Tensor(mask) if framework is nn else ~torch.tensor(mask)


def their_attention(**settings: Any) -> Callable[..., Any]:
    return lambda module, *x: module(*(x * 3)[:3] if len(x) == 1 else x, need_weights=False, **settings)[0]


def attended(**settings: Any) -> Callable[..., Any]:
    return lambda module, *x: module(*x, **settings)


def recurrent(name: str, states: int, **settings: Any) -> list[Twin]:
    mine, theirs = getattr(nn, name), getattr(T, name)
    kinds: list[dict[str, Any]] = [
        {},
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
        {"bias": False},
    ]
    x, first = random(3, 5, 4), [random(4, 3, 2, seed=i) for i in range(states)]
    twins = [
        Twin(
            f"{name}-{i}",
            lambda k=kind: mine(4, 2, **k, **settings),
            lambda k=kind: theirs(4, 2, **k, **settings),
            (x,),
        )
        for i, kind in enumerate(kinds)
    ]
    two = kinds[1]
    call = alone if states == 1 else pair
    twins += [
        Twin(f"{name}-state", lambda: mine(4, 2, **two), lambda: theirs(4, 2, **two), (x, *first), call, call),
        Twin(f"{name}-lengths", lambda: mine(4, 2, **two), lambda: theirs(4, 2, **two), (x,), with_lengths, packed),
    ]
    cell, their_cell = getattr(nn, f"{name}Cell"), getattr(T, f"{name}Cell")
    twins.append(Twin(f"{name}Cell", lambda: cell(4, 2), lambda: their_cell(4, 2), (random(3, 4),)))
    states_of_cell = tuple(random(3, 2, seed=i) for i in range(states))
    twins.append(
        Twin(f"{name}Cell-state", lambda: cell(4, 2, bias=False), lambda: their_cell(4, 2, bias=False),
             (random(3, 4), *states_of_cell), call, call)
    )  # fmt: skip
    return twins


def block(**settings: Any) -> Twin:
    """A transformer block."""
    theirs = {"dropout": 0.0, "batch_first": True, **settings}
    if settings.get("activation") == "silu":
        theirs["activation"] = T.functional.silu
    return Twin(f"TransformerBlock-{settings}", lambda: nn.TransformerBlock(6, 2, 8, **settings),
                lambda: T.TransformerEncoderLayer(6, 2, 8, **theirs), (random(3, 4, 6),))  # fmt: skip


X = (random(3, 4),)
ROWS = (random(3, 4, 6),)
IMAGE = (random(3, 4, 5, 6),)
TWINS = [
    Twin("Linear", lambda: nn.Linear(4, 3), lambda: T.Linear(4, 3), X),
    Twin("Linear-3d", lambda: nn.Linear(6, 3, bias=False), lambda: T.Linear(6, 3, bias=False), ROWS),
    Twin("Embedding", lambda: nn.Embedding(5, 3), lambda: T.Embedding(5, 3), (ids(4, 6),)),
    Twin("Embedding-padding", lambda: nn.Embedding(5, 3, padding_idx=2), lambda: T.Embedding(5, 3, 2), (ids(4, 6),)),
    *recurrent("RNN", 1),
    *[one for one in recurrent("RNN", 1, nonlinearity="relu") if one.name == "RNN-0"],
    *recurrent("LSTM", 2),
    *recurrent("GRU", 1),
    Twin("MultiheadAttention", lambda: nn.MultiheadAttention(6, 2),
         lambda: T.MultiheadAttention(6, 2, batch_first=True), ROWS, attended(), their_attention()),
    Twin("MultiheadAttention-masks", lambda: nn.MultiheadAttention(6, 3),
         lambda: T.MultiheadAttention(6, 3, batch_first=True), ROWS,
         attended(mask=seen(nn), key_padding_mask=there(nn)),
         their_attention(attn_mask=seen(torch), key_padding_mask=there(torch))),
    Twin("MultiheadAttention-causal", lambda: nn.MultiheadAttention(6, 2, bias=False),
         lambda: T.MultiheadAttention(6, 2, bias=False, batch_first=True), ROWS, attended(causal=True),
         their_attention(attn_mask=torch.ones(4, 4, dtype=torch.bool).triu(1))),
    Twin("MultiheadAttention-additive", lambda: nn.MultiheadAttention(6, 2),
         lambda: T.MultiheadAttention(6, 2, batch_first=True), ROWS, attended(mask=Tensor(random(4, 4))),
         their_attention(attn_mask=torch.tensor(random(4, 4)))),
    Twin("MultiheadAttention-cross", lambda: nn.MultiheadAttention(6, 2),
         lambda: T.MultiheadAttention(6, 2, batch_first=True),
         (random(3, 4, 6), random(3, 5, 6), random(3, 5, 6, seed=1)), attended(), their_attention()),
    Twin("MultiheadAttention-weights", lambda: nn.MultiheadAttention(6, 2),
         lambda: T.MultiheadAttention(6, 2, batch_first=True), ROWS, attended(need_weights=True),
         lambda module, x: module(x, x, x)),
    block(), block(norm_first=True, activation="gelu"), block(activation="silu", bias=False),
    Twin("BatchNorm1d", lambda: nn.BatchNorm1d(4), lambda: T.BatchNorm1d(4), X),
    Twin("BatchNorm1d-3d", lambda: nn.BatchNorm1d(4), lambda: T.BatchNorm1d(4), ROWS),
    Twin("BatchNorm2d", lambda: nn.BatchNorm2d(4), lambda: T.BatchNorm2d(4), IMAGE),
    Twin("GroupNorm", lambda: nn.GroupNorm(2, 4), lambda: T.GroupNorm(2, 4), IMAGE),
    Twin("RMSNorm", lambda: nn.RMSNorm(6, eps=0.1), lambda: T.RMSNorm(6, eps=0.1), ROWS),
    Twin("LayerNorm", lambda: nn.LayerNorm((4, 6)), lambda: T.LayerNorm((4, 6)), ROWS),
    Twin("Conv1d", lambda: nn.Conv1d(4, 2, 3, padding=1, dilation=2), lambda: T.Conv1d(4, 2, 3, padding=1, dilation=2),
         ROWS),
    Twin("Conv1d-depthwise", lambda: nn.Conv1d(4, 8, 3, groups=4), lambda: T.Conv1d(4, 8, 3, groups=4), ROWS),
    Twin("Conv2d-depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4), lambda: T.Conv2d(4, 4, 3, groups=4), IMAGE),
    Twin("ConvTranspose1d", lambda: nn.ConvTranspose1d(4, 2, 3, stride=2), lambda: T.ConvTranspose1d(4, 2, 3, 2), ROWS),
    Twin("ConvTranspose2d", lambda: nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2),
         lambda: T.ConvTranspose2d(4, 2, 3, 2, 1, 1, 2), IMAGE),
    Twin("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d((2, 3)), lambda: T.AdaptiveAvgPool2d((2, 3)), IMAGE),
    *[Twin(name, getattr(nn, name), getattr(T, name), X)
      for name in ("ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Softplus", "LeakyReLU", "ELU", "Identity")],
    Twin("GELU-tanh", lambda: nn.GELU("tanh"), lambda: T.GELU("tanh"), X),
    Twin("Softmax", lambda: nn.Softmax(0), lambda: T.Softmax(0), X),
    Twin("LogSoftmax", lambda: nn.LogSoftmax(), lambda: T.LogSoftmax(-1), X),
    *[Twin(name, getattr(nn, name), getattr(T, name), (random(3, 4), random(3, 4, seed=1)))
      for name in ("MSELoss", "L1Loss", "HuberLoss")],
    Twin("BCEWithLogitsLoss", nn.BCEWithLogitsLoss, T.BCEWithLogitsLoss, (random(3, 4), 0.5 + 0 * random(3, 4))),
    Twin("KLDivLoss", lambda: nn.KLDivLoss(reduction="sum"), lambda: T.KLDivLoss(reduction="sum"),
         (random(3, 4), np.abs(random(3, 4)))),
    Twin("CrossEntropyLoss", lambda: nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=2),
         lambda: T.CrossEntropyLoss(label_smoothing=0.1, ignore_index=2), (random(4, 5), ids(4))),
    Twin("NLLLoss", nn.NLLLoss, T.NLLLoss, (random(4, 5), ids(4))),
]  # fmt: skip


def pairs() -> Any:
    return pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)


def twins(twin: Twin) -> tuple[nn.Module, Any]:
    """Both in float64, with the same random parameters."""
    mine, theirs = twin.make().to("float64"), twin.make_theirs().double()
    turned, state = turned_names(theirs), {}
    for i, (name, value) in enumerate(theirs.state_dict().items()):
        array = (
            0.3 * random(*value.shape, seed=i) + (value.ndim == 1) * 0.3 if value.is_floating_point() else value.numpy()
        )
        state[name] = torch.tensor(array)
    theirs.load_state_dict(state)
    mine.load_state_dict({name: value.T if name in turned else value for name, value in state.items()})
    return mine, theirs


def turned_names(theirs: Any) -> set[str]:
    return {
        f"{name}.{which}".lstrip(".")
        for name, part in theirs.named_modules()
        if isinstance(part, TURNED)
        for which in ("weight", "in_proj_weight")
    }


def joined(framework: Any, out: Any) -> Any:
    """Nested results as one row of numbers."""
    if isinstance(out, tuple):
        parts = [joined(framework, part) for part in out]
        return ops.concat(parts, axis=0) if framework is nn else torch.cat(parts)
    return out.reshape(-1)


def given(twin: Twin) -> tuple[list[Tensor], list[Any]]:
    mine = [Tensor(array, requires_grad=array.dtype.kind == "f") for array in twin.inputs]
    return mine, [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in twin.inputs]


@pairs()
def test_outputs_gradients_and_names_as_torch(twin: Twin) -> None:
    mine, theirs = twins(twin)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    inputs, their_inputs = given(twin)
    out = joined(nn, twin.call(mine, *inputs))
    want = joined(torch, twin.call_theirs(theirs, *their_inputs))
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-10)
    cotangent = random(*out.shape, seed=1)
    out.backward(Tensor(cotangent))
    want.backward(torch.tensor(cotangent))
    turned = turned_names(theirs)
    for (name, a), (their_name, b) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == their_name
        want_gradient = b.grad.numpy().T if name in turned else b.grad.numpy()
        np.testing.assert_allclose(a.grad.numpy(), want_gradient, rtol=1e-8, atol=1e-9, err_msg=name)
    for x, y in zip(inputs, their_inputs, strict=True):
        if y.grad is not None:
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("twin", [one for one in TWINS if one.make().parameters()], ids=lambda twin: twin.name)
def test_fifty_steps_as_torch(twin: Twin) -> None:
    """From the same start, on the same data, the same loss at every step and the same parameters at the end."""
    mine, theirs = twins(twin)
    optimizers = SGD(mine.parameters(), lr=0.02, momentum=0.9), torch.optim.SGD(theirs.parameters(), 0.02, momentum=0.9)
    inputs, their_inputs = ([Tensor(a) for a in twin.inputs], [torch.tensor(a) for a in twin.inputs])
    for step in range(twin.steps):
        out, want = joined(nn, twin.call(mine, *inputs)), joined(torch, twin.call_theirs(theirs, *their_inputs))
        target = random(*out.shape, seed=9)
        losses = nn.mse(out, Tensor(target)), T.functional.mse_loss(want, torch.tensor(target))
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-7), f"step {step}"
        for optimizer, loss in zip(optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    turned, got = turned_names(theirs), mine.state_dict()
    for name, value in theirs.state_dict().items():
        array = got[name].T if name in turned else got[name]
        np.testing.assert_allclose(array, value.numpy(), rtol=1e-6, atol=1e-7, err_msg=name)


def test_every_module_has_a_twin_or_is_tested_elsewhere() -> None:
    elsewhere = {
        "Module",
        "ModuleDict",
        "ModuleList",
        "Sequential",
        "Dropout",
        "SinusoidalPositions",
        "LearnedPositions",
    }
    layers = {"MaxPool2d", "AvgPool2d", "Flatten", "Conv2d", "TransformerBlock"}
    modules = {name for name in nn.__all__ if name[0].isupper()}
    assert modules - {twin.name.partition("-")[0] for twin in TWINS} - elsewhere - layers == set()


def test_dropout_between_layers_and_in_attention() -> None:
    """In training only, and as often as said."""
    x = Tensor(random(5, 3, 4).astype(np.float32))
    lstm = nn.LSTM(4, 2, num_layers=2, dropout=0.5, rng=np.random.default_rng(0))
    assert (lstm(x)[0].detach().numpy() != lstm(x)[0].detach().numpy()).any()
    lstm.eval()
    np.testing.assert_array_equal(lstm(x)[0].detach().numpy(), lstm(x)[0].detach().numpy())
    attention = nn.MultiheadAttention(4, 2, dropout=0.4, rng=np.random.default_rng(0))
    _, p = attention(x, need_weights=True)
    np.testing.assert_allclose(p.detach().numpy().sum(-1), 1, rtol=1e-5)
    assert (attention(x).detach().numpy() != attention(x).detach().numpy()).any()
    once = attention.eval()(x).detach().numpy()
    np.testing.assert_allclose(attention(x, need_weights=True)[0].detach().numpy(), once, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3, 2), (0,), (2, 0, 3), (0, 0), (3,)])
def test_flatten_keeps_the_size_of_an_example_where_there_is_none(shape: tuple[int, ...]) -> None:
    theirs = torch.nn.Flatten()(torch.zeros(shape)) if len(shape) > 1 else torch.zeros(shape).reshape(shape[0], 1)
    assert nn.Flatten()(Tensor(np.zeros(shape, np.float32))).shape == tuple(theirs.shape)


def test_positions() -> None:
    x = Tensor(np.zeros((2, 3, 4), np.float32))
    got = nn.SinusoidalPositions(10, 4)(x).numpy()
    for position in range(3):
        want = [np.sin(position), np.cos(position), np.sin(position / 100), np.cos(position / 100)]
        np.testing.assert_allclose(got[1, position], want, rtol=1e-6, atol=1e-7)
    learned = nn.LearnedPositions(5, 4)
    learned(x).sum().backward()
    np.testing.assert_array_equal(learned.weight.grad.numpy(), np.repeat([[2.0], [2], [2], [0], [0]], 4, axis=1))
    assert list(nn.SinusoidalPositions(10, 4).to("sim:0").state_dict()) == ["weight"]


@pytest.mark.parametrize("make", [
    lambda: nn.Sequential(nn.Embedding(5, 4), nn.TransformerBlock(4, 2, norm_first=True, activation="gelu")),
    lambda: nn.Sequential(nn.Embedding(5, 4), nn.SinusoidalPositions(9, 4), nn.RMSNorm(4)),
])  # fmt: skip
def test_on_a_simulated_accelerator(make: Callable[[], nn.Module]) -> None:
    model = make()
    x = ids(3, 6)
    want = model(Tensor(x)).detach().numpy()
    got = model.to("sim:0")(Tensor(x, device="sim:0"))
    got.sum().backward()
    np.testing.assert_allclose(got.to("cpu").detach().numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_on_a_simulated_accelerator(kind: Any) -> None:
    model, x = kind(4, 2, num_layers=2, bidirectional=True), random(5, 3, 4).astype(np.float32)
    want = model(Tensor(x), lengths=[5, 2, 1])[0].detach().numpy()
    got = model.to("sim:0")(Tensor(x, device="sim:0"), lengths=[5, 2, 1])[0]
    got.sum().backward()
    np.testing.assert_allclose(got.to("cpu").detach().numpy(), want, rtol=1e-5, atol=1e-6)


def test_what_is_behind_the_end_changes_nothing() -> None:
    model, x = nn.LSTM(4, 2, bidirectional=True, batch_first=True), random(3, 5, 4).astype(np.float32)
    before = model(Tensor(x), lengths=[5, 2, 3])
    x[1, 2:], x[2, 3:] = 100, -100
    after = model(Tensor(x), lengths=[5, 2, 3])
    for a, b in zip((before[0], *before[1]), (after[0], *after[1]), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
