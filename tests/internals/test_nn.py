"""Modules: parameters, layers, and a network that learns to read digits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from internals import Tensor, nn, no_grad, ops
from internals.optim import SGD


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def mlp(*sizes: int, seed: int = 0) -> nn.Sequential:
    rng = np.random.default_rng(seed)
    parts: list[nn.Module] = []
    for n, m in itertools.pairwise(sizes):
        parts += [nn.Linear(n, m, rng=rng), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Tied(nn.Module):
    """One parameter under two names, a list of parts, and what is no parameter."""

    def __init__(self) -> None:
        self.first = nn.Linear(2, 2)
        self.again = self.first
        self.parts = [nn.Linear(2, 1, bias=False), nn.ReLU()]
        self.scale = Tensor(1.0, requires_grad=True)
        self.constant = Tensor(1.0)
        self.name = "tied"

    def forward(self, x: Tensor) -> Tensor:
        return self.parts[0](self.first(x)) * self.scale


def test_parameters_once_with_dotted_names() -> None:
    names = [name for name, _ in Tied().named_parameters()]
    assert names == ["first.weight", "first.bias", "parts.0.weight", "scale"]
    assert len(Tied().parameters()) == 4


def test_a_module_without_forward() -> None:
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)


def test_linear() -> None:
    layer = nn.Linear(3, 2, rng=np.random.default_rng(1))
    assert layer.weight.shape == (3, 2)
    assert layer.weight.dtype == layer.bias.dtype == np.float32
    x = Tensor(random(4, 5, 3))
    want = x.numpy() @ layer.weight.detach().numpy() + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), want, rtol=1e-5)
    assert repr(layer) == "Linear(3, 2, bias=True)"
    assert nn.Linear(3, 2, bias=False).bias is None


def test_linear_starts_as_torchs_does() -> None:
    """Uniform within 1/sqrt(in_features), weight and bias."""
    layer = nn.Linear(100, 200, rng=np.random.default_rng(0))
    for parameter in (layer.weight, layer.bias):
        values = parameter.detach().numpy()
        assert 0.095 < np.abs(values).max() <= 0.1
        assert abs(values.std() - 0.1 / 3**0.5) < 0.005


def test_the_same_generator_gives_the_same_network() -> None:
    for a, b in zip(mlp(4, 3, 2).parameters(), mlp(4, 3, 2).parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("sizes", [(0, 2), (2, -1), (2.0, 2), ("2", 2)])
def test_linear_sizes(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"Linear: (in|out)_features must be a positive integer, got"):
        nn.Linear(*sizes)


@pytest.mark.parametrize("shape", [(), (4,), (2, 4)])
def test_linear_of_a_wrong_input(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Linear: .*in_features = 3"):
        nn.Linear(3, 2)(Tensor(random(*shape)))


def test_zero_grad() -> None:
    model = mlp(3, 2)
    model(Tensor(random(4, 3))).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_to_moves_parameters_in_place() -> None:
    model = mlp(3, 4, 2)
    before = model.parameters()
    x = random(5, 3)
    want = model(Tensor(x)).detach().numpy()
    model.to("sim:0")
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    got = model(Tensor(x, device="sim:0"))
    got.sum().backward()
    assert all(p.device.name == p.grad.device.name == "sim:0" for p in before)
    np.testing.assert_allclose(got.to("cpu").detach().numpy(), want, rtol=1e-5)


def test_repr_shows_the_parts() -> None:
    assert repr(mlp(3, 4, 2)) == "Sequential(Linear(3, 4, bias=True), ReLU(), Linear(4, 2, bias=True))"


def train(
    model: nn.Module, x: np.ndarray, y: np.ndarray, *, epochs: int, lr: float, batch: int, where: str = "cpu"
) -> None:
    optimizer = SGD(model.parameters(), lr=lr, momentum=0.9)
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for i in range(0, len(x), batch):
            rows = order[i : i + batch]
            loss = nn.cross_entropy(model(Tensor(x[rows], device=where)), Tensor(y[rows], device=where))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def accuracy(model: nn.Module, x: np.ndarray, y: np.ndarray, where: str = "cpu") -> float:
    with no_grad():
        guess = ops.argmax(model(Tensor(x, device=where)), axis=1).to("cpu").numpy()
    return float(np.mean(guess == y))


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, ...]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    return tuple(train_test_split(x.astype(np.float32) / 16, y, test_size=0.25, random_state=0, stratify=y))


@pytest.mark.slow
def test_an_mlp_learns_digits(digits: tuple[np.ndarray, ...]) -> None:
    """At least 96 % of digits it has not seen; the time is printed, not tested."""
    import time

    x, x_test, y, y_test = digits
    model = mlp(64, 64, 10)
    began = time.perf_counter()
    train(model, x, y, epochs=30, lr=0.1, batch=32)
    seconds = time.perf_counter() - began
    reached = accuracy(model, x_test, y_test)
    print(f"digits: {reached:.1%} of {len(y_test)} right after {seconds:.1f} s of training")
    assert reached >= 0.96


def test_a_simulated_accelerator_learns_the_same(digits: tuple[np.ndarray, ...]) -> None:
    x, x_test, y, y_test = digits
    on_cpu, on_sim = mlp(64, 16, 10), mlp(64, 16, 10)
    on_sim.to("sim:0")
    train(on_cpu, x[:200], y[:200], epochs=2, lr=0.1, batch=50)
    train(on_sim, x[:200], y[:200], epochs=2, lr=0.1, batch=50, where="sim:0")
    for a, b in zip(on_cpu.parameters(), on_sim.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.to("cpu").detach().numpy(), rtol=1e-5, atol=1e-6)
    assert accuracy(on_cpu, x_test, y_test) == accuracy(on_sim, x_test, y_test, "sim:0")
