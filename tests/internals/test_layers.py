"""Layers beside their twins in torch: values, gradients, and where 20 steps of training lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, nn, ops
from internals.autodiff import grad
from internals.optim import SGD


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


RNG = np.random.default_rng(0)
T = torch.nn

TWINS: list[tuple[Callable[[], nn.Module], Callable[[], Any], tuple[int, ...]]] = [
    (lambda: nn.Conv2d(2, 3, (3, 2), stride=2, padding=1), lambda: T.Conv2d(2, 3, (3, 2), 2, 1), (4, 2, 6, 7)),
    (lambda: nn.Conv2d(4, 4, 3, groups=4, dilation=2, bias=False),
     lambda: T.Conv2d(4, 4, 3, groups=4, dilation=2, bias=False), (2, 4, 6, 7)),
    (lambda: nn.MaxPool2d(2), lambda: T.MaxPool2d(2), (3, 2, 5, 6)),
    (lambda: nn.AvgPool2d(3, stride=1, padding=1), lambda: T.AvgPool2d(3, 1, 1), (3, 2, 5, 6)),
    (lambda: nn.Flatten(), lambda: T.Flatten(), (3, 2, 5)),
    (lambda: nn.BatchNorm2d(3), lambda: T.BatchNorm2d(3), (4, 3, 2, 5)),
    (lambda: nn.LayerNorm((4, 3)), lambda: T.LayerNorm((4, 3)), (2, 5, 4, 3)),
]  # fmt: skip


def twins(make: Callable[[], nn.Module], make_theirs: Callable[[], Any]) -> tuple[nn.Module, Any]:
    """Both with the same random parameters."""
    mine, theirs = make(), make_theirs()
    share(mine, theirs)
    return mine, theirs


def share(mine: nn.Module, theirs: Any) -> None:
    state = {}
    for i, (name, value) in enumerate(theirs.state_dict().items()):
        state[name] = 1 + 0.3 * random(*value.shape, seed=i) if value.is_floating_point() else value.numpy()
    theirs.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    turned = linear_weights(theirs)
    mine.load_state_dict({name: value.T if name in turned else value for name, value in state.items()})


def linear_weights(theirs: Any) -> set[str]:
    """What torch stores the other way round."""
    return {f"{name}.weight".lstrip(".") for name, part in theirs.named_modules() if isinstance(part, T.Linear)}


def assert_same_state(mine: nn.Module, theirs: Any, tolerance: float) -> None:
    turned, got, want = linear_weights(theirs), mine.state_dict(), theirs.state_dict()
    assert list(got) == list(want)
    for name, value in want.items():
        array = got[name].T if name in turned else got[name]
        assert array.dtype == value.numpy().dtype
        np.testing.assert_allclose(array, value.numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("make", "make_theirs", "shape"), TWINS, ids=[repr(make()) for make, _, _ in TWINS])
def test_as_torchs_layer(make: Any, make_theirs: Any, shape: tuple[int, ...], training: bool) -> None:
    mine, theirs = twins(make, make_theirs)
    mine.train(training)
    theirs.train(training)
    array = random(*shape)
    x, t = Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    out, want = mine(x), theirs(t)
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)
    cotangent = random(*out.shape, seed=1)
    out.backward(Tensor(cotangent))
    want.backward(torch.tensor(cotangent))
    pairs = [(x, t), *zip(mine.parameters(), theirs.parameters(), strict=True)]
    for a, b in pairs:
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-4)
    assert_same_state(mine, theirs, 1e-5)


def lenet(rng: np.random.Generator | None = None) -> nn.Sequential:
    """For 8 x 8 digits."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, rng=rng), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, rng=rng), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 10, rng=rng),
    )  # fmt: skip


def torchs_lenet() -> Any:
    return T.Sequential(
        T.Conv2d(1, 8, 3, padding=1), T.BatchNorm2d(8), T.ReLU(), T.MaxPool2d(2),
        T.Conv2d(8, 16, 3, padding=1), T.ReLU(), T.AvgPool2d(2),
        T.Flatten(), T.LayerNorm(64), T.Linear(64, 10),
    )  # fmt: skip


@pytest.mark.slow
def test_twenty_steps_as_torch() -> None:
    """From the same start, on the same batches, the same parameters and running statistics.

    In float64: rounding in float32 soon sends an entry to the other side of a ReLU.
    """
    mine, theirs = lenet(), torchs_lenet().double()
    for part in (mine, *mine.parts):
        for name, value in list(vars(part).items()):
            if isinstance(value, Tensor) and value.dtype == np.float32:
                setattr(part, name, Tensor(value.data.astype(float), requires_grad=value.requires_grad))
    theirs.load_state_dict(
        {name: torch.tensor(value.T if name == "9.weight" else value) for name, value in mine.state_dict().items()}
    )
    optimizers = SGD(mine.parameters(), lr=0.05, momentum=0.9), torch.optim.SGD(theirs.parameters(), 0.05, momentum=0.9)
    for step in range(20):
        x, y = random(16, 1, 8, 8, seed=step).astype(float), np.random.default_rng(step).integers(0, 10, 16)
        losses = (
            nn.cross_entropy(mine(Tensor(x)), Tensor(y)),
            T.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y)),
        )
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-9)
        for optimizer, loss in zip(optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert_same_state(mine, theirs, 1e-9)


@pytest.mark.slow
def test_a_lenet_reads_digits() -> None:
    """At least 98 % of scikit-learn's digits that it has not seen."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    images = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    x, x_test, y, y_test = train_test_split(images, y, test_size=0.25, random_state=0, stratify=y)
    rng = np.random.default_rng(0)
    model = lenet(rng)
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(20):
        order = rng.permutation(len(x))
        for start in range(0, len(x), 32):
            rows = order[start : start + 32]
            loss = nn.cross_entropy(model(Tensor(x[rows])), Tensor(y[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    right = ops.argmax(model.eval()(Tensor(x_test)), axis=1).numpy() == y_test
    print(f"digits: {right.mean():.1%} of {len(y_test)} right")
    assert right.mean() >= 0.98


@pytest.mark.parametrize("values", [[1, 1, 1, 0], [0, 2, 2, 2], [float("nan"), 3, 1, 1], [1, 3, float("nan"), 3]])
def test_max_pool_of_ties_and_nan_as_torch(values: list[float]) -> None:
    array = np.array(values, np.float32).reshape(1, 1, 2, 2)
    x, t = Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    out, want = ops.max_pool2d(x, window=2), T.functional.max_pool2d(t, 2)
    np.testing.assert_array_equal(out.detach().numpy(), want.detach().numpy())
    want.sum().backward()
    np.testing.assert_array_equal(grad(out.sum(), x).numpy(), t.grad.numpy())


@pytest.mark.parametrize("groups", [1, 2])
def test_a_product_in_pieces_is_the_whole(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = random(3, 4, 5, 6), random(2, 4 // groups, 3, 3)
    g = random(3, 2, 3, 4)

    def both() -> list[np.ndarray]:
        return [ops.conv2d(x, weight, groups=groups), ops.conv2d_weight(x, g, size=(3, 3), groups=groups)]

    whole = both()
    monkeypatch.setattr("internals.ops.conv.LONGEST_PRODUCT", 7)  # of 36 columns, so the last piece is shorter
    for got, want in zip(both(), whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_float16_is_added_up_in_float32() -> None:
    """What lies between would overflow, or stand still at 2048, in float16; forward and backward."""
    ones = np.ones((1, 1, 1, 3000), np.float16)
    x = Tensor(30 * ones, requires_grad=True)
    assert ops.avg_pool2d(x, window=(1, 3000)).item() == 30
    assert ops.conv_transpose2d(Tensor(ones), Tensor(ones)).numpy().max() == 3000
    values = 300 * random(1, 64)
    want = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    x = Tensor(values.astype(np.float16), requires_grad=True)
    for out, theirs in (
        (ops.layer_norm(x), T.functional.layer_norm(want, (64,))),
        (ops.rms_norm(x), T.functional.rms_norm(want, (64,))),
    ):
        np.testing.assert_allclose(out.detach().numpy(), theirs.detach().numpy(), rtol=5e-3, atol=5e-3)
        g = 100 * random(1, 64, seed=1)
        (gradient,) = torch.autograd.grad(theirs, want, torch.tensor(g, dtype=torch.float64))
        found = grad(out, x, Tensor(g.astype(np.float16)))
        np.testing.assert_allclose(found.numpy(), gradient.numpy(), rtol=2e-2, atol=2e-2)


def test_the_batch_stays_innermost_from_layer_to_layer() -> None:
    """A convolution's result needs no copying for the next one."""
    x = ops.conv2d(Tensor(random(4, 2, 8, 8)), Tensor(random(3, 2, 3, 3)))
    for out in (x, ops.relu(x), ops.max_pool2d(x, window=2), ops.avg_pool2d(x, window=2), x + Tensor(random(3, 1, 1))):
        assert np.moveaxis(out.numpy(), 0, -1).flags.c_contiguous


@pytest.mark.parametrize("affine", [True, False])
def test_functions_as_torchs(affine: bool) -> None:
    x, weight, bias = random(4, 6, 3), random(6, seed=1), random(6, seed=2)
    row_weight, row_bias = random(3, seed=1), random(3, seed=2)
    F = T.functional

    def given(*arrays: np.ndarray) -> tuple[list[Any], list[Any]]:
        chosen = arrays if affine else ()
        return [Tensor(a) for a in chosen], [torch.tensor(a) for a in chosen]

    ours, theirs = given(weight, bias)
    ours_row, theirs_row = given(row_weight, row_bias)
    t = torch.tensor(x)
    for got, want in (
        (ops.batch_norm(Tensor(x), *ours), F.batch_norm(t, None, None, *theirs, training=True)),
        (ops.group_norm(Tensor(x), 3, *ours), F.group_norm(t, 3, *theirs)),
        (ops.layer_norm(Tensor(x), *ours_row), F.layer_norm(t, (3,), *theirs_row)),
        (ops.rms_norm(Tensor(x), *ours_row[:1], eps=0.1), F.rms_norm(t, (3,), *theirs_row[:1], eps=0.1)),
    ):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_dropout() -> None:
    layer = nn.Dropout(0.3, rng=np.random.default_rng(5))
    x = Tensor(np.ones((100, 100), np.float32), requires_grad=True)
    first, second = layer(x), layer(x)
    kept = first.detach().numpy() != 0
    assert abs(kept.mean() - 0.7) < 0.02
    np.testing.assert_allclose(first.detach().numpy()[kept], 1 / 0.7, rtol=1e-6)
    assert (first.detach().numpy() != second.detach().numpy()).any()
    np.testing.assert_array_equal(grad(first.sum(), x).numpy(), first.detach().numpy())  # the same mask again
    again = nn.Dropout(0.3, rng=np.random.default_rng(5))(x)
    np.testing.assert_array_equal(again.detach().numpy(), first.detach().numpy())
    assert layer.eval()(x) is x


def test_train_and_eval_reach_every_part() -> None:
    inner = nn.Dropout()
    model = nn.Sequential(nn.Sequential(inner), nn.ReLU())
    assert model.eval() is model
    assert not inner.training
    assert model.train().training
    assert inner.training


def test_a_state_is_a_copy_and_comes_back() -> None:
    model = lenet()
    parameters = model.parameters()
    state = model.state_dict()
    model(Tensor(random(4, 1, 8, 8)))  # moves the running statistics
    assert model.state_dict()["1.num_batches_tracked"] == 1
    assert (model.state_dict()["1.running_mean"] != state["1.running_mean"]).any()
    model.to("sim:0").load_state_dict(state)
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, state[name])
    model(Tensor(random(4, 1, 8, 8), device="sim:0"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("0.bias"), r"missing: 0\.bias"),
        (lambda state: state.update(more=1), "unknown: more"),
        (lambda state: state.update(more=state.pop("0.bias")), r"missing: 0\.bias; unknown: more"),
        (lambda state: state.update({"0.bias": np.ones(3)}), r"0\.bias has shape \(8,\), the value \(3,\)"),
    ],
)
def test_a_state_that_does_not_fit(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    model = lenet()
    before = model.state_dict()
    state = {name: value + 1 for name, value in before.items()}
    change(state)
    with pytest.raises(ValueError, match=f"load_state_dict: {message}"):
        model.load_state_dict(state)
    np.testing.assert_array_equal(model.state_dict()["0.weight"], before["0.weight"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(0, 1, 3), "Conv2d: in_channels must be a positive integer, got 0"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d: 3 -> 4 channels .* 2 groups"),
        (lambda: nn.Conv2d(1, 1, 0), "Conv2d: window must be 1 or more"),
        (lambda: nn.Conv2d(2, 1, 3)(Tensor(random(1, 3, 8, 8))), "conv2d: .* 3 channels.* for 2"),
        (lambda: nn.BatchNorm2d(0), "BatchNorm2d: channels .*0"),
        (lambda: nn.BatchNorm2d(3)(Tensor(random(1, 2, 4, 4))), r"BatchNorm2d: .*\(1, 2, 4, 4\).*3"),
        (lambda: nn.BatchNorm2d(2)(Tensor(random(1, 2, 1, 1))), r"BatchNorm2d: .* 1 value.*eval\(\)"),
        (lambda: nn.LayerNorm(0), "LayerNorm: .*0"),
        (lambda: nn.LayerNorm(4)(Tensor(random(2, 3))), r"LayerNorm: .*\(2, 3\) does not end in \(4,\)"),
        (lambda: nn.Dropout(2), r"Dropout: .*\[0, 1\], got 2"),
        (lambda: nn.Flatten()(Tensor(1.0)), "Flatten: a 0-d"),
    ],
)
def test_bad_settings_and_input(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
