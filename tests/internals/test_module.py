"""The Module itself: what it is made of, hooks, sharing, freezing, containers, and where parameters start."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import DeviceError, Tensor, nn
from internals.autodiff import grad
from internals.optim import SGD

T = torch.nn


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


class Tied(nn.Module):
    """A language model's shape: the output layer shares the embedding's memory."""

    def __init__(self) -> None:
        self.embed = nn.Embedding(5, 3)
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.out = nn.Module()
        self.out.weight = self.embed.weight
        self.register_buffer("scale", Tensor(2.0))

    def forward(self, ids: Tensor) -> Tensor:
        return self.inner(self.embed(ids)) @ self.out.weight.T * self.scale


def torchs_tied() -> Any:
    class Net(T.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = T.Embedding(5, 3)
            self.inner = T.Sequential(T.Linear(3, 3), T.Tanh())
            self.out = T.Linear(3, 5, bias=False)
            self.out.weight = self.embed.weight
            self.register_buffer("scale", torch.tensor(2.0))

        def forward(self, ids: Any) -> Any:
            return self.out(self.inner(self.embed(ids))) * self.scale

    return Net()


def test_tied_weights_as_torch() -> None:
    """Once among the parameters, twice in the state, and moved once per step."""
    mine, theirs = Tied().to("float64"), torchs_tied().double()  # float32 can grow apart within five such steps
    assert [name for name, _ in mine.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert set(mine.state_dict()) == set(theirs.state_dict())
    assert [name for name, _ in mine.named_modules()] == [name for name, _ in theirs.named_modules()]
    assert [name for name, _ in mine.named_buffers()] == ["scale"]
    assert mine.num_parameters() == sum(p.numel() for p in theirs.parameters()) == 27
    mine.load_state_dict(
        {name: value.T if name == "inner.0.weight" else value for name, value in theirs.state_dict().items()}
    )
    mine.out.weight.data[...] = theirs.embed.weight.detach().numpy()
    ids = np.array([0, 2, 2, 4])
    sgd, their_sgd = SGD(mine.parameters(), lr=0.1), torch.optim.SGD(theirs.parameters(), 0.1)
    for _ in range(5):
        loss, their_loss = (mine(Tensor(ids)) ** 2).mean(), (theirs(torch.tensor(ids)) ** 2).mean()
        assert loss.item() == pytest.approx(their_loss.item(), rel=1e-9)
        sgd.zero_grad(), their_sgd.zero_grad()
        loss.backward(), their_loss.backward()
        sgd.step(), their_sgd.step()
    assert mine.out.weight is mine.embed.weight


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_is_apart_and_stays_tied(duplicate: Callable[[Any], Any]) -> None:
    model = Tied()
    other = duplicate(model)
    assert other.out.weight is other.embed.weight is not model.embed.weight
    other.embed.weight.data[...] = 0
    assert model.state_dict()["embed.weight"].any()
    assert [name for name, _ in other.named_parameters()] == [name for name, _ in model.named_parameters()]


def test_frozen_parameters_stay_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    names = list(model.state_dict())
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True]
    assert (model.num_parameters(), model.num_parameters(trainable=True)) == (11, 3)
    model(Tensor(random(4, 3))).sum().backward()
    model.zero_grad()
    model.to("sim:0")
    assert list(model.state_dict()) == names == list(model.requires_grad_().to("cpu").state_dict())
    assert all(p.requires_grad for p in model.parameters())


def test_to_a_dtype_leaves_integers_alone() -> None:
    model = nn.BatchNorm2d(2).to("float64")
    dtypes = {name: str(value.dtype) for name, value in model.state_dict().items()}
    assert set(dtypes.values()) == {"float64", "int64"}
    model(Tensor(random(3, 2, 2, 2).astype(float))).sum().backward()
    assert model.weight.grad.dtype == np.float64


def test_apply_reaches_all_the_innermost_first() -> None:
    model, seen = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU())), []
    assert model.apply(lambda part: seen.append(type(part).__name__)) is model
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]
    assert [name for name, _ in model.named_children()] == ["0", "1"]
    assert len(model.modules()) == 4


def test_a_state_in_part() -> None:
    model = nn.Linear(2, 2)
    model.load_state_dict({"bias": np.ones(2), "more": 1}, strict=False)
    np.testing.assert_array_equal(model.state_dict()["bias"], [1, 1])


def test_shown_on_one_line_or_nested() -> None:
    assert repr(nn.Sequential(nn.Linear(3, 4), nn.GELU())) == "Sequential(Linear(3, 4, bias=True), GELU())"
    block = repr(nn.TransformerBlock(64, 4, norm_first=True, activation="gelu"))
    assert block.splitlines()[:3] == [
        "TransformerBlock(64, 4, gelu, norm_first=True",
        "  (self_attn): MultiheadAttention(64, 4)",
        "  (linear1): Linear(64, 256, bias=True)",
    ]
    outer = repr(nn.ModuleList([nn.TransformerBlock(64, 4)]))
    assert outer.splitlines()[1:3] == [
        "  (0): TransformerBlock(64, 4, relu",
        "    (self_attn): MultiheadAttention(64, 4)",
    ]
    assert repr(nn.LSTM(3, 4, num_layers=2, bidirectional=True)) == "LSTM(3, 4, num_layers=2, bidirectional=True)"


# Hooks


def hooked(framework: Any, module: Any, x: Any, change: bool) -> list[Any]:
    """What hooks of every kind see, and what comes of what they change."""
    seen: list[Any] = []

    def note(*values: Any) -> None:
        seen.extend(np.array(value.detach().numpy()) for value in values if value is not None)

    def before(part: Any, inputs: Any) -> Any:
        note(*inputs)
        return (inputs[0] * 2,) if change else None

    def after(part: Any, inputs: Any, output: Any) -> Any:
        note(*inputs, output)
        return output * 3 if change else None

    def backward(part: Any, by_inputs: Any, by_outputs: Any) -> Any:
        assert part is module
        note(*by_inputs, *by_outputs)
        return (by_inputs[0] * 5,) if change else None

    handles = [
        module.register_forward_pre_hook(before),
        module.register_forward_hook(after),
        module.register_full_backward_hook(backward),
    ]
    (module(x) ** 2).sum().backward()
    seen.extend(np.array(p.grad.numpy()) for p in (x, module.bias))
    for handle in handles:
        handle.remove()
        handle.remove()
    module(x)
    return seen


@pytest.mark.parametrize("change", [False, True])
def test_hooks_as_torch(change: bool) -> None:
    mine, theirs, array = nn.Linear(3, 2), T.Linear(3, 2), random(4, 3)
    mine.load_state_dict({"weight": theirs.weight.detach().T, "bias": theirs.bias.detach()})
    got = hooked(nn, mine, Tensor(array, requires_grad=True), change)
    want = hooked(torch, theirs, torch.tensor(array, requires_grad=True), change)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_backward_hook_without_a_gradient_of_the_input() -> None:
    layer, seen = nn.Linear(3, 2), []
    with layer.register_full_backward_hook(lambda part, by_inputs, by_outputs: seen.append((by_inputs, by_outputs))):
        layer(Tensor(random(4, 3))).sum().backward()
    layer(Tensor(random(4, 3))).sum().backward()
    ((by_inputs, by_outputs),) = seen
    assert by_inputs == ()
    np.testing.assert_array_equal(by_outputs[0].numpy(), np.ones((4, 2)))


def test_a_backward_hook_of_several_outputs_and_of_a_recorded_pass() -> None:
    lstm, x, seen = nn.LSTM(3, 2), Tensor(random(4, 2, 3), requires_grad=True), []
    lstm.register_full_backward_hook(lambda part, by_inputs, by_outputs: seen.append(by_inputs[0]))
    (first,) = grad([lstm(x)[0].sum()], [x], create_graph=True)
    (second,) = grad([(first * first).sum()], [x])
    assert seen[0].requires_grad
    assert second.shape == x.shape
    plain = copy.deepcopy(lstm)
    plain._hooks = None
    (want,) = grad([plain(x)[0].sum()], [x])
    np.testing.assert_allclose(first.detach().numpy(), want.numpy(), rtol=1e-6)


def test_a_hook_that_gives_the_wrong_number() -> None:
    layer = nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda part, by_inputs, by_outputs: (by_inputs[0], by_inputs[0]))
    with pytest.raises(RuntimeError, match="Linear: a backward hook gave 2 cotangents for 1 inputs"):
        layer(Tensor(random(4, 3), requires_grad=True)).sum().backward()


# Containers


def test_containers() -> None:
    a, b = nn.Linear(2, 2), nn.ReLU()
    layers = nn.ModuleList([a]).append(b)
    assert (len(layers), layers[0], list(layers)) == (2, a, [a, b])
    assert isinstance(layers[:1], nn.ModuleList)
    named = nn.ModuleDict({"a": a, "b": b})
    assert ("a" in named, len(named), list(named), named["b"]) == (True, 2, ["a", "b"], b)
    assert [name for name, _ in named.named_parameters()] == ["a.weight", "a.bias"]
    assert list(layers.state_dict()) == ["0.weight", "0.bias"]
    assert len(nn.Sequential(a, b)[1:]) == 1
    with pytest.raises(NotImplementedError, match="ModuleList has no forward"):
        layers(1)


# Where parameters start


def filled(name: str, shape: tuple[int, ...], **settings: Any) -> np.ndarray:
    tensor = Tensor(np.full(shape, np.nan, np.float32), requires_grad=True)
    rng = {} if name in ("zeros_", "ones_", "constant_") else {"rng": np.random.default_rng(0)}
    assert getattr(nn.init, name)(tensor, **settings, **rng) is tensor
    return tensor.detach().numpy()


@pytest.mark.parametrize("shape", [(300, 200), (40, 30, 5, 6)])
@pytest.mark.parametrize(("name", "settings"), [
    ("xavier_uniform_", {"gain": 2.0}), ("xavier_normal_", {}), ("kaiming_uniform_", {"slope": 0.3}),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}), ("trunc_normal_", {"std": 1.5}),
    ("normal_", {"mean": 3.0, "std": 0.5}), ("uniform_", {"low": -1.0, "high": 3.0}),
])  # fmt: skip
def test_distributions_as_torchs(name: str, settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    """The same mean, deviation and extremes, to what 36,000 draws can tell."""
    got = filled(name, shape, **settings)
    theirs = torch.empty(shape[::-1] if len(shape) == 2 else shape)
    torch.manual_seed(0)
    renamed = {"slope": "a", "low": "a", "high": "b"}
    getattr(T.init, name)(theirs, **{renamed.get(key, key): value for key, value in settings.items()})
    want = theirs.numpy()
    assert abs(got.mean() - want.mean()) < 0.03 * want.std()
    assert got.std() == pytest.approx(want.std(), rel=0.02)
    if "uniform" in name or "trunc" in name:
        assert (got.min(), got.max()) == (pytest.approx(want.min(), rel=0.01), pytest.approx(want.max(), rel=0.01))


def test_fans_as_torchs() -> None:
    assert nn.init.fans(Tensor(random(6, 3, 5, 2))) == T.init._calculate_fan_in_and_fan_out(torch.empty(6, 3, 5, 2))
    assert nn.init.fans(nn.Linear(3, 7).weight) == T.init._calculate_fan_in_and_fan_out(T.Linear(3, 7).weight)


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (4, 2, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    q = filled("orthogonal_", shape, gain=2.0).reshape(shape[0], -1)
    gram = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


def test_constants_and_gains() -> None:
    assert (filled("zeros_", (2,)) == 0).all()
    assert (filled("ones_", (2,)) == 1).all()
    assert (filled("constant_", (), value=0.5) == 0.5).all()
    for name in ("linear", "tanh", "relu", "selu", "sigmoid"):
        assert nn.init.gain(name) == T.init.calculate_gain(name)
    assert nn.init.gain("leaky_relu", 0.2) == pytest.approx(T.init.calculate_gain("leaky_relu", 0.2))
    assert math.isclose(nn.init.gain("leaky_relu"), T.init.calculate_gain("leaky_relu"))


def test_filled_where_it_is() -> None:
    layer = nn.Linear(2, 3).to("sim:0")
    nn.init.ones_(layer.weight)
    assert layer.weight.device.name == "sim:0"
    assert layer.weight.requires_grad


# Bad input


def of(*shape: int, dtype: Any = np.float32, where: str = "cpu") -> Tensor:
    return Tensor(np.ones(shape, dtype), device=where)


def ids(*values: int) -> Tensor:
    return Tensor(np.array(values))


ATTENTION = nn.MultiheadAttention(4, 2)
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    *[(lambda make=make: make()(None), TypeError, "must be a Tensor, got NoneType") for make in (
        lambda: nn.Linear(3, 2), lambda: nn.Embedding(3, 2), lambda: nn.LSTM(3, 2), lambda: nn.GRUCell(3, 2),
        lambda: nn.MultiheadAttention(4, 2), lambda: nn.LayerNorm(3), lambda: nn.RMSNorm(3), lambda: nn.GroupNorm(1, 2),
        lambda: nn.BatchNorm1d(3), lambda: nn.LearnedPositions(3, 4), nn.Flatten)],
    *[(lambda make=make: make()(None), TypeError, "NoneType") for make in (
        nn.ReLU, nn.GELU, nn.Softmax, lambda: nn.Conv1d(1, 1, 1), lambda: nn.MaxPool2d(2))],
    (lambda: ATTENTION(of(2, 3, 4), mask=[[True]]), TypeError, "mask must be a Tensor, got list"),
    (lambda: nn.Linear(3, 2).register_forward_hook(None), TypeError, "expected a function, got NoneType"),
    (lambda: nn.Embedding(0, 3), ValueError, "num_embeddings must be a positive integer, got 0"),
    (lambda: nn.Embedding(3, True), ValueError, "embedding_dim .*True"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, "padding_idx 3 is not one of 3"),
    (lambda: nn.Embedding(3, 2)(of(2)), TypeError, "ids must be integers, got float32"),
    (lambda: nn.Embedding(3, 2)(ids(0, 3)), IndexError, "from 0 to 3, .* rows 0 to 2"),
    (lambda: nn.Embedding(3, 2)(ids(-1, 2)), IndexError, "from -1 to 2"),
    (lambda: nn.Embedding(3, 2)(Tensor(np.array([1]), device="sim:0")), DeviceError, "cpu and sim:0"),
    (lambda: nn.Linear(3, 2)(of(4, 3, where="sim:0")), DeviceError, "sim:0"),
    (lambda: nn.Linear(3, 2)(of(4, 2)), ValueError, r"\(4, 2\) .*in_features = 3"),
    *[(lambda kind=kind: kind(0, 2), ValueError, "input_size must be a positive integer, got 0")
      for kind in (nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell)],
    *[(lambda kind=kind: kind(3, 2)(of(5, 4, 2)), ValueError, r"\(5, 4, 2\); expected \(time, batch, 3\)")
      for kind in (nn.RNN, nn.LSTM, nn.GRU)],
    *[(lambda kind=kind: kind(3, 2)(of(0, 4, 3)), ValueError, "no steps")
      for kind in (nn.RNN, nn.LSTM, nn.GRU)],
    *[(lambda kind=kind: kind(3, 2)(of(5, 4, 3), of(1, 3, 2)), ValueError, r"\(1, 3, 2\); expected .*\(1, 4, 2\)")
      for kind in (nn.RNN, nn.GRU)],
    (lambda: nn.LSTM(3, 2)(of(5, 4, 3), of(1, 4, 2)), TypeError, "a pair of Tensors"),
    (lambda: nn.LSTM(3, 2)(of(5, 4, 3), (of(1, 4, 2), of(2, 4, 2))), ValueError, r"\(2, 4, 2\)"),
    (lambda: nn.LSTM(3, 2)(ids(1, 2, 3).reshape(1, 1, 3)), TypeError, "floating, got int64; embed"),
    (lambda: nn.LSTM(3, 2)(of(5, 4, 3), lengths=[1, 2]), ValueError, "4 integers, .*got \\[1, 2\\]"),
    (lambda: nn.LSTM(3, 2)(of(5, 2, 3), lengths=[0, 6]), ValueError, "from 0 to 6; a sequence has 1 to 5"),
    (lambda: nn.LSTM(3, 2, dropout=2), ValueError, r"Dropout: .*\[0, 1\], got 2"),
    (lambda: nn.RNN(3, 2, nonlinearity="sin"), ValueError, "'tanh' or 'relu', got 'sin'"),
    (lambda: nn.LSTMCell(3, 2)(of(4, 2)), ValueError, r"\(4, 2\); expected \(batch, 3\)"),
    (lambda: nn.LSTMCell(3, 2)(of(4, 3), of(4, 2)), ValueError, r"expected 2 state\(s\)"),
    (lambda: nn.MultiheadAttention(5, 2), ValueError, "embed_dim 5 does not divide into 2 heads"),
    (lambda: ATTENTION(of(2, 3)), ValueError, r"the query has shape \(2, 3\); expected \(batch, time, 4\)"),
    (lambda: ATTENTION(of(2, 3, 4), of(1, 3, 4)), ValueError, "differ in batch"),
    (lambda: ATTENTION(of(2, 3, 4), of(2, 3, 4), of(2, 2, 4)), ValueError, r"3 keys, .* 2 values"),
    (lambda: ATTENTION(of(2, 3, 4), mask=of(2, 2, dtype=bool)), ValueError, r"mask has shape \(2, 2\); .*\(3, 3\)"),
    (lambda: ATTENTION(of(2, 3, 4), mask=of(5, 3, 3)), ValueError, r"\(5, 1, 3, 3\)"),
    (lambda: ATTENTION(of(2, 3, 4), mask=of(3, 3, dtype=np.int64)), TypeError, "must be boolean.*got int64"),
    (lambda: ATTENTION(of(2, 3, 4), key_padding_mask=of(2, 3)), ValueError, "float32 .*expected booleans"),
    (lambda: ATTENTION(of(2, 3, 4), key_padding_mask=of(3, 3, dtype=bool)), ValueError, r"\(3, 3\); .*\(2, 3\)"),
    (lambda: nn.TransformerBlock(4, 3), ValueError, "4 does not divide into 3 heads"),
    (lambda: nn.TransformerBlock(4, 2, activation="sin"), ValueError, "'sin' is not one of relu, gelu"),
    (lambda: nn.TransformerBlock(4, 2, 0), ValueError, "d_ff must be a positive integer, got 0"),
    (lambda: nn.SinusoidalPositions(3, 4)(of(2, 5, 4)), ValueError, r"\(2, 5, 4\); .* up to 3 steps"),
    (lambda: nn.LearnedPositions(3, 4)(of(2, 3, 5)), ValueError, r"\(2, 3, 5\); expected \(..., time, 4\)"),
    (lambda: nn.GroupNorm(3, 4), ValueError, "4 channels don't divide into 3 groups"),
    (lambda: nn.GroupNorm(2, 4)(of(2, 3, 4)), ValueError, r"\(2, 3, 4\); expected \(batch, 4"),
    (lambda: nn.RMSNorm(4)(of(2, 3)), ValueError, r"\(2, 3\) does not end in \(4,\)"),
    (lambda: nn.BatchNorm1d(3)(of(2, 3, 4, 5)), ValueError, r"BatchNorm1d: .*\(2, 3, 4, 5\)"),
    (lambda: nn.BatchNorm1d(3)(of(1, 3)), ValueError, r"1 value.*eval\(\)"),
    (lambda: nn.Conv1d(2, 3, 3)(of(2, 2, 5, 5)), ValueError, "conv1d: .*expected 3 axes"),
    (lambda: nn.Conv1d(2, 3, (3, 3)), ValueError, r"Conv1d: window .*\(3, 3\)"),
    (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=2)(of(1, 2, 4, 4)), ValueError, "output_padding"),
    (lambda: nn.ConvTranspose1d(2, 3, 3, groups=2), ValueError, "2 -> 3 channels .* 2 groups"),
    (lambda: nn.AdaptiveAvgPool2d(0), ValueError, "AdaptiveAvgPool2d: size must be 1 or more"),
    (lambda: nn.GELU("erf"), ValueError, "'none' or 'tanh', got 'erf'"),
    (lambda: nn.MSELoss(reduction="total"), ValueError, "MSELoss: reduction 'total' is not one of"),
    (lambda: nn.Sequential(nn.ReLU(), len), TypeError, "part 1 is a builtin_function_or_method; expected a Module"),
    (lambda: nn.ModuleDict({"a.b": nn.ReLU()}), ValueError, "without dots, got 'a.b'"),
    (lambda: nn.ModuleDict({"a": 1}), TypeError, "a is a int; expected a Module"),
    (lambda: nn.ModuleDict({"a": nn.ReLU()})["b"], KeyError, "no 'b'; there are a"),
    (lambda: nn.Module().register_buffer("x", np.ones(2)), TypeError, "must be a Tensor, got ndarray"),
    (lambda: nn.Module().register_buffer("x", Tensor(1.0, requires_grad=True)), ValueError, "is a parameter"),
    (lambda: nn.init.xavier_uniform_(of(3)), ValueError, r"\(3,\) has no fans"),
    (lambda: nn.init.orthogonal_(of(3)), ValueError, r"\(3,\) is no matrix"),
    (lambda: nn.init.kaiming_normal_(of(3, 2), mode="in"), ValueError, "'fan_in' or 'fan_out', got 'in'"),
    (lambda: nn.init.gain("sin"), ValueError, "no gain is known for 'sin'"),
    (lambda: nn.init.uniform_(of(2), 1.0, 0.0), ValueError, r"low 1\.0 must not be above high 0\.0"),
    (lambda: nn.init.normal_(of(2), std=-1.0), ValueError, r"std must not be negative, got -1\.0"),
    (lambda: nn.init.trunc_normal_(of(2), mean=50.0), ValueError, "reach near the mean"),
    (lambda: nn.init.zeros_(ids(1)), TypeError, "expected a floating Tensor to fill, got int64"),
    (lambda: nn.init.zeros_(np.ones(2)), TypeError, "expected a floating Tensor to fill, got ndarray"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_bad_settings_and_input(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("make", [
    lambda: (nn.Embedding(3, 2), Tensor(np.zeros((0, 4), np.int64))),
    lambda: (nn.LSTM(3, 2, num_layers=2, bidirectional=True), of(5, 0, 3)),
    lambda: (nn.GRU(3, 2), of(5, 0, 3)),
    lambda: (nn.RNN(3, 2), of(5, 0, 3)),
    lambda: (nn.MultiheadAttention(4, 2), of(0, 3, 4)),
    lambda: (nn.MultiheadAttention(4, 2), of(2, 0, 4)),
    lambda: (nn.TransformerBlock(4, 2, norm_first=True), of(0, 3, 4)),
    lambda: (nn.Linear(3, 2), of(0, 3)),
    lambda: (nn.GroupNorm(2, 4), of(0, 4, 3)),
    lambda: (nn.Conv1d(2, 3, 3), of(0, 2, 5)),
    lambda: (nn.LearnedPositions(5, 4), of(0, 3, 4)),
])  # fmt: skip
def test_an_empty_batch_gives_an_empty_result_and_gradients_of_zero(make: Callable[[], Any]) -> None:
    module, x = make()
    out = module(x)
    out = out[0] if isinstance(out, tuple) else out
    assert out.size == 0
    out.sum().backward()
    assert all(not p.grad.numpy().any() for p in module.parameters() if p.grad is not None)
