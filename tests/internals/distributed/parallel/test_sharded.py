"""Sharded optimizer states and gradients, and the fully sharded module: the steps of one process, less memory."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from internals import Tensor, nn, ops, optim
from internals.autodiff import StaleTape
from internals.distributed.group import Group, run_threads
from internals.distributed.parallel import DistributedDataParallel, FullyShardedDataParallel, ShardedOptimizer
from internals.tensor.hooks import accumulated

SLOW = pytest.mark.slow
FEATURES, CLASSES, STEPS, BATCH = 6, 3, 4, 12
RNG = np.random.default_rng(17)
XS = RNG.standard_normal((STEPS, BATCH, FEATURES)).astype(np.float32)
YS = RNG.integers(0, CLASSES, (STEPS, BATCH))
OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (optim.SGD, {"lr": 0.1}),
    "momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": (optim.Adam, {"lr": 0.02, "amsgrad": True}),
    "adamw": (optim.AdamW, {"lr": 0.02}),
    "rmsprop": (optim.RMSProp, {"lr": 0.01}),
    "adagrad": (optim.AdaGrad, {"lr": 0.05}),
    "lion": (optim.Lion, {"lr": 0.003}),
}


def net(seed: int = 0) -> nn.Sequential:
    """13 * 6 + 13 + ... : sizes that no number of ranks divides."""
    rng = np.random.default_rng(seed)
    return nn.Sequential(
        nn.Linear(FEATURES, 13, rng=rng), nn.ReLU(), nn.Linear(13, 11, rng=rng), nn.LayerNorm(11), nn.ReLU(),
        nn.Linear(11, CLASSES, rng=rng),
    )  # fmt: skip


def backward(model: nn.Module, step: int, share: slice) -> None:
    ops.cross_entropy(model(Tensor(XS[step, share])), Tensor(YS[step, share])).backward()


def share_of(group: Group) -> slice:
    each = BATCH // group.size
    return slice(group.rank * each, (group.rank + 1) * each)


def alone(name: str, clip: float | None = None) -> dict[str, np.ndarray]:
    model = net()
    optimizer = OPTIMIZERS[name][0](model.parameters(), **OPTIMIZERS[name][1])
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, step, slice(None))
        if clip is not None:
            optim.clip_grad_norm(model.parameters(), clip)
        optimizer.step()
    return model.state_dict()


def sharded(group: Group, name: str, stage: int, bucket_bytes: int, clip: float | None = None) -> Any:
    model = net(group.rank)
    kind, settings = OPTIMIZERS[name]
    optimizer = ShardedOptimizer(model, kind, group, stage=stage, bucket_bytes=bucket_bytes, **settings)
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, step, share_of(group))
        if clip is not None:
            optimizer.clip_grad_norm(clip)
        optimizer.step()
    return model.state_dict(), optimizer.memory()


def fully_sharded(group: Group, name: str, units: list[str] | None = None, clip: float | None = None) -> Any:
    model = FullyShardedDataParallel(net(group.rank), group, units=units)
    optimizer = OPTIMIZERS[name][0](model.parameters(), **OPTIMIZERS[name][1])
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, step, share_of(group))
        if clip is not None:
            model.clip_grad_norm(clip)
        optimizer.step()
    bytes_held = model.parameter_bytes, model.peak_parameter_bytes
    return model.state_dict(), bytes_held


def check_same(states: list[dict[str, np.ndarray]], expected: dict[str, np.ndarray]) -> None:
    for name, value in expected.items():
        for state in states:
            np.testing.assert_array_equal(state[name], states[0][name])
        np.testing.assert_allclose(states[0][name], value, atol=5e-6, err_msg=name)


@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("name", [name if name == "adamw" else pytest.param(name, marks=SLOW) for name in OPTIMIZERS])
def test_the_steps_of_the_whole_optimizer(name: str, stage: int) -> None:
    for ranks, bucket_bytes in ((2, 100), (3, 1 << 20)):
        answers = run_threads(ranks, sharded, name, stage, bucket_bytes)
        check_same([state for state, _ in answers], alone(name))


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("clip", [0.1, 100.0])
def test_clipped_by_the_norm_over_all_shards(stage: int, clip: float) -> None:
    for answers in (
        run_threads(3, sharded, "momentum", stage, 200, clip),
        run_threads(3, fully_sharded, "momentum", None, clip),
    ):
        check_same([state for state, _ in answers], alone("momentum", clip))


def resumed(group: Group) -> dict[str, np.ndarray]:
    """Two steps, and two more in a module that was given what the first had come to."""
    models = [FullyShardedDataParallel(net(seed), group) for seed in range(2)]
    for half, model in enumerate(models):
        if half:
            model.load_state_dict(models[0].state_dict())
        optimizer = optim.SGD(model.parameters(), 0.1)
        for step in (2 * half, 2 * half + 1):
            optimizer.zero_grad()
            backward(model, step, share_of(group))
            optimizer.step()
    with pytest.raises(ValueError, match="missing: 0.bias"):
        models[1].load_state_dict({})
    return models[1].state_dict()


def test_a_fully_sharded_module_goes_on_from_a_whole_state() -> None:
    check_same(run_threads(3, resumed), alone("sgd"))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("stage", [1, 2])
def test_bytes_on_each_rank(stage: int, ranks: int) -> None:
    whole = net().num_parameters() * 4
    padding = 4 * 4 * ranks  # at most one part less an entry for each of four buckets
    for _, memory in run_threads(ranks, sharded, "adam", stage, 400):
        gradients = whole / (ranks if stage == 2 else 1)
        assert whole <= memory["parameters"] <= whole + padding
        assert gradients <= memory["gradients"] <= gradients + padding
        assert 3 * whole / ranks <= memory["optimizer state"] <= 3 * (whole + padding) / ranks


def accumulated_twice(group: Group, stage: int) -> dict[str, np.ndarray]:
    model: Any = net() if stage < 3 else FullyShardedDataParallel(net(), group)
    if stage < 3:
        optimizer: Any = ShardedOptimizer(model, optim.SGD, group, stage=stage, lr=0.1)
    else:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        backward(model, step, share_of(group))
    optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_two_passes_before_a_step_are_added_up(stage: int) -> None:
    model = net()
    for step in range(2):
        backward(model, step, slice(None))
    optim.SGD(model.parameters(), 0.1).step()
    check_same(run_threads(3, accumulated_twice, stage), model.state_dict())


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_tape_from_before_a_step_is_stale_after_it(stage: int) -> None:
    def member(group: Group) -> None:
        model: Any = net() if stage < 3 else FullyShardedDataParallel(net(), group)
        if stage < 3:
            optimizer: Any = ShardedOptimizer(model, optim.SGD, group, stage=stage, lr=0.1)
        else:
            optimizer = optim.SGD(model.parameters(), lr=0.1)
        loss = ops.cross_entropy(model(Tensor(XS[0])), Tensor(YS[0]))
        loss.backward(retain_graph=True)
        optimizer.step()
        loss.backward()

    with pytest.raises(StaleTape, match="changed in place"):
        run_threads(1, member)


def test_a_schedule_moves_the_shards_step_size() -> None:
    def member(group: Group) -> list[float]:
        optimizer = ShardedOptimizer(net(), optim.SGD, group, lr=0.4)
        schedule = optim.StepLR(optimizer.optimizer, step_size=1, gamma=0.5)
        schedule.step()
        return [optimizer.optimizer.lr]

    assert run_threads(2, member) == [[0.2], [0.2]]


@pytest.mark.slow
@pytest.mark.parametrize("units", [None, ["2"], ["0", "2", "3", "5"], []], ids=["children", "one", "four", "whole"])
@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_a_fully_sharded_module_makes_the_steps_of_one_process(name: str, units: list[str] | None) -> None:
    for ranks in (1, 2, 3):
        answers = run_threads(ranks, fully_sharded, name, units)
        check_same([state for state, _ in answers], alone(name))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_only_a_unit_is_whole_at_a_time(ranks: int) -> None:
    model = net()
    whole, largest = model.num_parameters() * 4, model[2].num_parameters() * 4
    padding = 4 * 4 * ranks
    for _, (held, peak) in run_threads(ranks, fully_sharded, "adam"):
        assert whole / ranks <= held <= whole / ranks + padding
        assert held + largest <= peak <= held + largest + padding
        assert peak < whole / ranks + whole


def between_steps(group: Group) -> None:
    model = FullyShardedDataParallel(net(), group)
    names = [name for name, _ in model.named_parameters()]
    assert names == ["0.float32", "2.float32", "3.float32", "5.float32"]
    inner = model.module[0].weight
    assert inner.shape == (FEATURES, 13)
    assert np.isnan(inner.detach().numpy()).all()
    assert inner.data.strides == (0, 0)
    backward(model, 0, share_of(group))
    assert np.isnan(inner.detach().numpy()).all()
    assert inner.grad is None
    with model.gathered() as module:
        np.testing.assert_array_equal(module[0].weight.detach().numpy(), net()[0].weight.detach().numpy())
    assert np.isnan(inner.detach().numpy()).all()


def test_between_uses_parameters_are_let_go_of() -> None:
    run_threads(2, between_steps)


def in_evaluation(group: Group) -> np.ndarray:
    from internals import no_grad

    model = FullyShardedDataParallel(net(), group).eval()
    with no_grad():
        return model(Tensor(XS[0])).numpy()


def test_a_forward_alone() -> None:
    expected = net()(Tensor(XS[0])).detach().numpy()
    for got in run_threads(2, in_evaluation):
        np.testing.assert_allclose(got, expected, atol=1e-6)


class Tied(nn.Module):
    """One part used twice, and one whose parameters the loss does not reach."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.twice, self.aside = nn.Linear(FEATURES, FEATURES, rng=rng), nn.Linear(FEATURES, CLASSES, rng=rng)
        self.last = nn.Linear(FEATURES, CLASSES, rng=rng)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(ops.tanh(self.twice(ops.tanh(self.twice(x)))))


def used_twice(group: Group) -> dict[str, np.ndarray]:
    model = FullyShardedDataParallel(Tied(), group)
    optimizer = optim.SGD(model.parameters(), 0.2)
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, step, share_of(group))
        optimizer.step()
    return model.state_dict()


def test_a_unit_used_twice_and_one_not_used() -> None:
    model = Tied()
    optimizer = optim.SGD(model.parameters(), 0.2)
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, step, slice(None))
        optimizer.step()
    check_same(run_threads(2, used_twice), model.state_dict())


@pytest.mark.slow
def test_all_ways_end_at_the_same_bits() -> None:
    """What is added is added in one order where there are two ranks, so the ways can't differ."""

    def whole(group: Group) -> dict[str, np.ndarray]:
        model = DistributedDataParallel(net(), group, bucket_bytes=300)
        optimizer = optim.Adam(model.parameters(), lr=0.02, amsgrad=True)
        for step in range(STEPS):
            optimizer.zero_grad()
            backward(model, step, share_of(group))
            optimizer.step()
        return model.module.state_dict()

    states = [
        run_threads(2, whole)[0],
        run_threads(2, sharded, "adam", 1, 300)[0][0],
        run_threads(2, sharded, "adam", 2, 300)[0][0],
        run_threads(2, fully_sharded, "adam")[0][0],
    ]
    for state in states[1:]:
        for name, value in states[0].items():
            np.testing.assert_array_equal(state[name], value)


def test_wrappers_are_let_go_of() -> None:
    def member(group: Group) -> None:
        model = FullyShardedDataParallel(net(), group)
        other = net()
        optimizer = ShardedOptimizer(other, optim.SGD, group, lr=0.1)
        backward(model, 0, slice(None))
        backward(other, 0, slice(None))
        optimizer.step()

    gc.collect()
    before = list(accumulated)  # held, so that no key of another's takes the place of one that went
    run_threads(1, member)
    gc.collect()
    assert [one for one in accumulated if not any(one is other for other in before)] == []


def shared_weight() -> nn.Module:
    model = net()
    model[2].weight = model[0].weight
    return model


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no optimizer": (lambda g: ShardedOptimizer(net(), "adam", g), TypeError, "expected the class of an optimizer"),
    "an instance": (
        lambda g: ShardedOptimizer(net(), optim.SGD(net().parameters(), 0.1), g), TypeError, "the class of"),
    "stage 3": (
        lambda g: ShardedOptimizer(net(), optim.SGD, g, stage=3, lr=1.0), ValueError, "is stage 3"),
    "unknown setting": (lambda g: ShardedOptimizer(net(), optim.SGD, g, lr=1.0, beta=2), TypeError, "beta"),
    "another device": (
        lambda g: ShardedOptimizer(net().to("sim:0"), optim.SGD, g, lr=1.0), ValueError, "0.weight is on sim:0"),
    "fully on another device": (
        lambda g: FullyShardedDataParallel(net().to("sim:0"), g), ValueError, "0.weight is on sim:0"),
    "unknown unit": (lambda g: FullyShardedDataParallel(net(), g, units=["9"]), ValueError, "no part '9'; it has 0"),
    "a unit in a unit": (
        lambda g: FullyShardedDataParallel(nn.Sequential(net()), g, units=["0", "0.2"]), ValueError, "belongs to"),
    "tied weights": (lambda g: FullyShardedDataParallel(shared_weight(), g), ValueError, "in the unit '0' and in '2'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    what, kind, says = WRONG[name]
    with pytest.raises(kind, match=says):
        run_threads(2, what)


def test_a_module_that_was_cast_after_wrapping_is_refused() -> None:
    def member(group: Group) -> None:
        model = net()
        optimizer = ShardedOptimizer(model, optim.SGD, group, lr=0.1)
        model.to("float64")
        optimizer.step()

    with pytest.raises(RuntimeError, match="replaced, cast or moved: 0.weight"):
        run_threads(2, member)
