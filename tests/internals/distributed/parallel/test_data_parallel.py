"""DistributedDataParallel: step for step as torch's, and as one process on the joined batch."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import data_parallel_cases
import numpy as np
import pytest
from data_parallel_cases import CLASSES, FEATURES, HIDDEN, RANKS, SETTINGS, STEPS, batch, branch, weights

from internals import Tensor, nn, ops, optim
from internals.distributed.errors import DistributedError, MismatchError
from internals.distributed.group import Group, run_threads
from internals.distributed.parallel import DistributedDataParallel, in_buckets
from internals.tensor.hooks import accumulated


class Net(nn.Module):
    def __init__(self, setting: str, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.first = nn.Linear(FEATURES, HIDDEN, rng=rng)
        self.left = nn.Linear(HIDDEN, HIDDEN, rng=rng)
        self.right = nn.Linear(HIDDEN, HIDDEN, rng=rng)
        if setting == "unused":
            self.never = nn.Linear(2, 2, rng=rng)
        if setting == "normalised":
            self.norm = nn.BatchNorm1d(HIDDEN)
        self.last = nn.Linear(HIDDEN, CLASSES, rng=rng)

    def forward(self, x: Tensor, way: str = "both") -> Tensor:
        x = ops.relu(self.first(x))
        left = self.left(x) if way != "right" else 0.0
        x = (left + self.right(x)) if way != "left" else left
        if hasattr(self, "norm"):
            x = self.norm(x)
        return self.last(ops.tanh(x))


def started(setting: str, rank: int) -> Net:
    """Rank 0's weights are those of the table; other ranks start elsewhere, and are brought in line."""
    net = Net(setting, seed=rank)
    if rank == 0:
        known = {name: value.T if value.ndim == 2 else value for name, value in weights().items()}
        net.load_state_dict({name: value for name, value in known.items() if name in net.state_dict()}, strict=False)
    return net


def trained(group: Group, setting: str) -> list[dict[str, np.ndarray]]:
    net = started(setting, group.rank)
    model = DistributedDataParallel(net, group, bucket_bytes=200, find_unused_parameters=setting == "unused")
    optimizer: Any = optim.SGD(model.parameters(), 0.05, momentum=0.9)
    if setting == "adam":
        optimizer = optim.Adam(model.parameters(), 0.05)
    states = []
    for step in range(STEPS):
        optimizer.zero_grad()
        way = branch(setting, step, group.rank)
        for part in range(2 if setting in ("accumulated", "twice") else 1):
            quiet = setting == "accumulated" and part == 0
            with model.no_sync() if quiet else contextlib.nullcontext():
                loss = loss_of(model, batch(step, group.rank, part), way)
                if setting == "twice":
                    loss = loss + loss_of(model, batch(step, group.rank, 7), way)
                loss.backward()
        optimizer.step()
        states.append(net.state_dict())
    return states


def loss_of(model: nn.Module, given: tuple[np.ndarray, np.ndarray], way: str = "both") -> Tensor:
    x, y = given
    return ops.cross_entropy(model(Tensor(x), way), Tensor(y))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What torch's ranks came to, all settings in one job."""
    directory = tmp_path_factory.mktemp("ddp")
    script = Path(data_parallel_cases.__file__).with_name("torch_data_parallel.py")  # not imported: torch takes seconds
    environment = os.environ | {"PYTHONPATH": str(script.parent), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(directory)], env=environment, stderr=subprocess.PIPE
        )
        for rank in range(RANKS)
    ]
    try:
        told = [process.communicate(timeout=300)[1] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert [process.returncode for process in ranks] == [0] * RANKS, b"\n".join(told).decode()[-2000:]
    return [pickle.loads((directory / f"{rank}.pickle").read_bytes()) for rank in range(RANKS)]


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_step_for_step_as_torch(theirs: list[dict[str, Any]], setting: str) -> None:
    for rank, states in enumerate(run_threads(RANKS, trained, setting)):
        for step, (mine, other) in enumerate(zip(states, theirs[rank][setting], strict=True)):
            assert mine.keys() == other.keys()
            for name, value in other.items():
                expected = value.T if value.ndim == 2 else value
                np.testing.assert_allclose(mine[name], expected, atol=2e-6, err_msg=f"{name}, step {step}, rank {rank}")


@pytest.mark.parametrize("bucket_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_as_one_process_on_the_joined_batch(ranks: int, bucket_bytes: int) -> None:
    rng = np.random.default_rng(8)
    xs, ys = rng.standard_normal((4, 8, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, (4, 8))

    def steps(model: nn.Module, share: slice) -> dict[str, np.ndarray]:
        optimizer = optim.Adam(model.parameters(), 0.03)
        for x, y in zip(xs, ys, strict=True):
            optimizer.zero_grad()
            loss_of(model, (x[share], y[share])).backward()
            optimizer.step()
        return model.state_dict()

    def member(group: Group) -> dict[str, np.ndarray]:
        model = DistributedDataParallel(started("plain", group.rank), group, bucket_bytes=bucket_bytes)
        each = 8 // group.size
        return steps(model, slice(group.rank * each, (group.rank + 1) * each))

    alone = steps(started("plain", 0), slice(None))
    states = run_threads(ranks, member)
    for name, value in alone.items():
        for state in states:
            np.testing.assert_array_equal(state[f"module.{name}"], states[0][f"module.{name}"])
        np.testing.assert_allclose(states[0][f"module.{name}"], value, atol=2e-6)


def test_buckets_go_backwards_and_hold_one_dtype() -> None:
    kinds = [(4, "float32"), (2, "float64"), (3, "float32"), (0, "float32"), (9, "float32")]
    named = [
        (f"p{number}", Tensor(np.zeros(size), dtype=dtype, requires_grad=True))
        for number, (size, dtype) in enumerate(kinds)
    ]
    assert [bucket.names for bucket in in_buckets(named, 20)] == [["p4"], ["p3", "p2", "p0"], ["p1"]]
    assert [bucket.size for bucket in in_buckets(named, 20, parts=4)] == [12, 8, 4]
    assert [bucket.names for bucket in in_buckets(named, 1 << 20)] == [["p4", "p3", "p2", "p0"], ["p1"]]


def overlap(group: Group) -> tuple[list[int], list[Any]]:
    model = DistributedDataParallel(started("plain", 0), group, bucket_bytes=100)
    launched = []
    for name, parameter in model.named_parameters():
        if name.endswith("weight"):
            parameter.register_post_accumulate_grad_hook(lambda _: launched.append(len(model._reducer._works)))
    loss_of(model, batch(0, group.rank)).backward()
    return launched, model.timeline()


def test_buckets_are_sent_while_the_backward_pass_goes_on() -> None:
    for launched, events in run_threads(2, overlap):
        assert launched[0] < launched[1] < launched[-1]
        assert launched == sorted(launched)
        names = [event.what for event in events]
        assert names[0] == "forward"
        assert {"bucket 0", "last.weight", "first.weight"} <= set(names)
        assert all(event.start <= event.end for event in events)
        assert {event.lane for event in events} == {"host", "copy"}
        sent = next(event for event in events if event.what == "bucket 0")
        assert sent.start >= next(event for event in events if event.what == "last.weight").end


def unsent(group: Group) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    model = DistributedDataParallel(started("plain", 0), group)
    leaf = model.module.last.bias
    with model.no_sync():
        loss_of(model, batch(0, group.rank)).backward()
    local = leaf.grad.numpy().copy()
    loss_of(model, batch(1, group.rank)).backward()
    both = leaf.grad.numpy().copy()
    model.zero_grad()
    loss_of(model, batch(1, group.rank)).backward()
    return local, both, leaf.grad.numpy().copy()


def test_no_sync_adds_up_locally_and_the_next_pass_sends_the_sums() -> None:
    (local, both, second), (other, same, _) = run_threads(2, unsent)
    assert not np.allclose(local, other)
    np.testing.assert_array_equal(both, same)
    np.testing.assert_allclose(both, (local + other) / 2 + second, atol=1e-6)


def test_a_wrapped_module_is_let_go_of() -> None:
    def member(group: Group) -> int:
        before = len(accumulated)
        model = DistributedDataParallel(started("plain", 0), group)
        loss_of(model, batch(0, 0)).backward()
        assert len(accumulated) == before + len(model.parameters())
        del model
        return len(accumulated) - before

    gc.collect()
    before = len(accumulated)
    run_threads(1, member)
    gc.collect()
    assert len(accumulated) == before


# What goes wrong


class Branches(nn.Module):
    def __init__(self, parts: int = 2, width: int = 2) -> None:
        self.parts = [nn.Linear(2, width) for _ in range(parts)]

    def forward(self, x: Tensor, which: int) -> Tensor:
        return self.parts[which](x)


X = np.array([[0.5, -1.0]], np.float32)


def told(size: int, what: Any) -> list[BaseException | None]:
    """What each rank raised; none leaves before all are done."""
    everyone = threading.Barrier(size)

    def member(group: Group) -> BaseException | None:
        try:
            what(group)
        except (DistributedError, RuntimeError, ValueError, TypeError) as error:
            return error
        finally:
            everyone.wait(60)
        return None

    return run_threads(size, member)


@pytest.mark.slow
def test_a_parameter_without_a_gradient_is_named_on_every_rank() -> None:
    def member(group: Group) -> None:
        model = DistributedDataParallel(Branches(), group)
        if group.rank == 0:
            model(Tensor(X), 0).sum().backward()
        else:
            (model(Tensor(X), 0).sum() + model(Tensor(X), 1).sum()).backward()

    here, there = told(2, member)
    assert type(here) is RuntimeError
    assert type(there) is DistributedError
    for error in (here, there):
        assert "no gradient came for parts.1.weight, parts.1.bias" in str(error).replace(
            "parts.1.bias, parts.1.weight", "parts.1.weight, parts.1.bias"
        )
    assert "rank 0" in str(there)
    assert "find_unused_parameters=True" in str(here)


def test_what_no_rank_used_keeps_no_gradient_and_what_one_rank_used_is_averaged() -> None:
    def member(group: Group) -> list[Any]:
        model = DistributedDataParallel(Branches(3), group, find_unused_parameters=True)
        model({0: Tensor(X)}[0], group.rank).sum().backward()
        return [None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()]

    first, second = run_threads(2, member)
    for got, same in zip(first[:4], second[:4], strict=True):
        np.testing.assert_array_equal(got, same)
    np.testing.assert_array_equal(first[0], np.repeat(X.T, 2, axis=1) / 2)
    assert first[4:] == second[4:] == [None, None]


def test_what_was_used_only_under_no_sync_is_sent_with_the_next_pass() -> None:
    def member(group: Group) -> list[np.ndarray]:
        model = DistributedDataParallel(Branches(), group, find_unused_parameters=True)
        with model.no_sync():
            model(Tensor(X * (group.rank + 1)), 0).sum().backward()
        model(Tensor(X), 1).sum().backward()
        return [one.grad.numpy().copy() for one in model.parameters()]

    for got in run_threads(2, member):
        np.testing.assert_allclose(got[0], np.repeat(X.T, 2, axis=1) * 1.5)
        np.testing.assert_allclose(got[2], np.repeat(X.T, 2, axis=1))


class Counting(nn.Module):
    """Adds a number of the rank's own to a buffer in each forward."""

    buffers = ("count",)

    def __init__(self, rank: int) -> None:
        self.weight, self.count, self.rank = Tensor([1.0], requires_grad=True), Tensor([float(rank)]), rank

    def forward(self) -> Tensor:
        self.count[...] = self.count + 10.0**self.rank
        return self.weight * self.count


@pytest.mark.parametrize(("settings", "mode", "expected"), [
    ({}, True, [[1, 2, 3], [10, 11, 12]]),
    ({"broadcast_buffers": False}, True, [[1, 2, 3], [10, 20, 30]]),
    ({}, False, [[1, 2, 3], [10, 20, 30]]),
], ids=["sent", "kept", "evaluated"])  # fmt: skip
def test_buffers_are_rank_0s_before_each_forward_in_training(settings: Any, mode: bool, expected: Any) -> None:
    def member(group: Group) -> list[float]:
        model = DistributedDataParallel(Counting(group.rank), group, **settings).train(mode)
        return [float(model().detach().item()) for _ in range(3)]

    assert run_threads(2, member) == expected


def changed(change: Any) -> Any:
    def member(group: Group) -> None:
        model = DistributedDataParallel(Branches(), group, find_unused_parameters=True)
        change(model.module)
        model(Tensor(X), 0)

    return member


def add(module: Any) -> None:
    module.more = nn.Linear(1, 1)


def freeze(module: Any) -> None:
    module.parts[0].requires_grad_(False)


def cast(module: Any) -> None:
    module.to("float64")


def broke_off(group: Group) -> None:
    model = DistributedDataParallel(Net("plain"), group, bucket_bytes=1)
    model.module.first.weight.register_hook(lambda g: 1 / 0)
    with contextlib.suppress(ZeroDivisionError):
        loss_of(model, batch(0, 0)).backward()
    model(Tensor(batch(0, 0)[0]))


def recorded(group: Group) -> None:
    model = DistributedDataParallel(Branches(1), group)
    (model(Tensor(X), 0) ** 2).sum().backward(create_graph=True)


def other_modules(group: Group) -> None:
    DistributedDataParallel(Branches(2, width=2 + (group.rank == 1)), group)


def more_parameters(group: Group) -> None:
    DistributedDataParallel(Branches(2 + group.rank), group)


def two_devices(group: Group) -> None:
    module = Branches()
    module.parts[1].to("sim:0")
    DistributedDataParallel(module, group)


def frozen_module(group: Group) -> None:
    DistributedDataParallel(Branches().requires_grad_(False), group)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "parameters added": (changed(add), RuntimeError, "not those that were wrapped.*new: more.bias, more.weight"),
    "parameters frozen": (changed(freeze), RuntimeError, "no longer trained: parts.0.bias, parts.0.weight"),
    "parameters cast": (changed(cast), RuntimeError, "replaced, cast or moved: parts.0.weight"),
    "a pass that broke off": (broke_off, RuntimeError, "broke off when some of its gradients had been sent"),
    "a recorded pass": (recorded, RuntimeError, r"create_graph=True\) can't be sent"),
    "other shapes": (other_modules, MismatchError, r"parts.0.weight: float32 \(2, 2\) on rank 0.*\(2, 3\) on rank 1"),
    "more parameters": (more_parameters, MismatchError, "none on rank 0, and parts.2.weight.*on rank 1"),
    "two devices": (two_devices, ValueError, "on several devices.*parts.1.weight on sim:0"),
    "nothing to train": (frozen_module, ValueError, "no parameter that requires a gradient"),
    "no module": (lambda g: DistributedDataParallel(print, g), TypeError, "expected a Module, got builtin"),
    "no group": (lambda g: DistributedDataParallel(Branches(), 2), TypeError, "expected a Group, got int"),
    "no size": (
        lambda g: DistributedDataParallel(Branches(), g, bucket_bytes=0), ValueError, "bucket_bytes must be"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_on_every_rank(name: str) -> None:
    what, kind, says = WRONG[name]
    for error in told(2, what):
        with pytest.raises(kind, match=says):
            raise error or AssertionError("nothing was raised")


def test_on_another_device() -> None:
    def member(group: Group) -> np.ndarray:
        model = DistributedDataParallel(started("plain", 0).to("sim:0"), group, bucket_bytes=64)
        x, y = batch(0, group.rank)
        ops.cross_entropy(model(Tensor(x, device="sim:0")), Tensor(y, device="sim:0")).backward()
        assert model.module.last.bias.grad.device.name == "sim:0"
        return model.module.last.bias.grad.to("cpu").numpy()

    def on_the_host(group: Group) -> np.ndarray:
        model = DistributedDataParallel(started("plain", 0), group)
        loss_of(model, batch(0, group.rank)).backward()
        return model.module.last.bias.grad.numpy()

    for got, expected in zip(run_threads(2, member), run_threads(2, on_the_host), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)
