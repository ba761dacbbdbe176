"""What all optimizers share: groups, state that resumes, memory, versions, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, device, optim
from internals.optim import SGD, AdaGrad, Adam, AdamW, Lion, RMSProp

KINDS: list[Callable[[Any], optim.Optimizer]] = [
    lambda p: SGD(p, lr=0.1, momentum=0.9),
    lambda p: AdaGrad(p, lr=0.1),
    lambda p: RMSProp(p, lr=0.1, momentum=0.5, centered=True),
    lambda p: Adam(p, lr=0.1, amsgrad=True),
    lambda p: AdamW(p, lr=0.1),
    lambda p: Lion(p, lr=0.1),
]
NAMES = ["SGD", "AdaGrad", "RMSProp", "Adam", "AdamW", "Lion"]
each = pytest.mark.parametrize("make", KINDS, ids=NAMES)


def pair(where: str = "cpu") -> list[Tensor]:
    return [Tensor(array, device=where, requires_grad=True) for array in ([1.0, 2.0, 3.0], [[4.0], [5.0]])]


def drive(optimizer: optim.Optimizer, steps: range) -> list[np.ndarray]:
    for step in steps:
        for number, parameter in enumerate(optimizer.parameters):
            gradient = np.random.default_rng([step, number]).standard_normal(parameter.shape).astype(np.float32)
            parameter.grad = Tensor(gradient, device=parameter.device)
        optimizer.step()
    return [np.array(parameter.detach().to("cpu").numpy()) for parameter in optimizer.parameters]


@each
@pytest.mark.parametrize("where", ["cpu", "sim:0"])
def test_a_saved_state_resumes_exactly(make: Callable[[Any], optim.Optimizer], where: str) -> None:
    """On another device too; and saving is a copy, which further steps do not change."""
    straight = drive(make(pair()), range(7))
    first = make(pair())
    middle = drive(first, range(4))
    saved = first.state_dict()
    drive(first, range(4, 9))
    second = make([Tensor(array, device=where, requires_grad=True) for array in middle])
    second.lr = 7.0  # the saved settings come back
    second.load_state_dict(saved)
    for a, b in zip(drive(second, range(4, 7)), straight, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_saved_state_is_plain() -> None:
    optimizer = Adam(pair(), lr=0.1)
    drive(optimizer, range(2))
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["params"] == [0, 1]
    assert saved["state"][1]["step"] == 2
    assert all(type(slot) is np.ndarray for name, slot in saved["state"][0].items() if name != "step")
    json.dumps(saved, default=np.ndarray.tolist)


@pytest.mark.slow
def test_groups_have_their_own_settings() -> None:
    """As torch's: a setting a group does not give is the optimizer's; a later group joins."""
    mine, theirs = pair(), [torch.tensor(p.detach().numpy().copy(), requires_grad=True) for p in pair()]
    optimizers: list[Any] = []
    for kind, (x, y) in ((AdamW, mine), (torch.optim.AdamW, theirs)):
        optimizer: Any = kind([{"params": [x], "lr": 0.5}], lr=0.01, weight_decay=0.1)
        optimizer.add_param_group({"params": y, "weight_decay": 0.0, "betas": (0.5, 0.5)})
        optimizers.append(optimizer)
    for step in range(5):
        for x, y in zip(mine, theirs, strict=True):
            gradient = np.random.default_rng(step).standard_normal(x.shape).astype(np.float32)
            x.grad, y.grad = Tensor(gradient), torch.tensor(gradient)
        for optimizer in optimizers:
            optimizer.step()
    for x, y in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-5)
    assert [group["lr"] for group in optimizers[0].param_groups] == [0.5, 0.01]


@each
def test_a_step_is_in_place_and_leaves_the_gradient(make: Callable[[Any], optim.Optimizer]) -> None:
    parameters = pair()
    memory, versions = [p.data for p in parameters], [p.version for p in parameters]
    optimizer = make(parameters)
    gradient = np.array([0.5, -1.0, 2.0], np.float32)
    parameters[0].grad = Tensor(gradient)
    optimizer.step()
    optimizer.step()
    assert [p.data for p in parameters] == memory
    np.testing.assert_array_equal(parameters[0].grad.numpy(), gradient)
    assert [p.version - v for p, v in zip(parameters, versions, strict=True)] == [2, 0]
    assert parameters[0].is_leaf
    np.testing.assert_array_equal(parameters[1].detach().numpy(), [[4.0], [5.0]])
    assert parameters[1] not in optimizer.state


@each
def test_states_are_not_shared(make: Callable[[Any], optim.Optimizer]) -> None:
    """Two parameters of one shape, one gradient array for both: moved as if each were alone."""
    x, y = (Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    both, alone = make([x, y]), make([z := Tensor([1.0, 2.0], requires_grad=True)])
    for step in range(3):
        shared = Tensor(np.random.default_rng(step).standard_normal(2).astype(np.float32))
        x.grad = y.grad = z.grad = shared
        both.step()
        alone.step()
    np.testing.assert_array_equal(x.detach().numpy(), z.detach().numpy())
    np.testing.assert_array_equal(y.detach().numpy(), z.detach().numpy())


@each
def test_noncontiguous_parameters_and_gradients(
    make: Callable[[Any], optim.Optimizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("internals.optim.optimizer.PIECE", 4)
    array, gradient = (np.random.default_rng(i).standard_normal((5, 3)) for i in range(2))
    ends = []
    for order in ("C", "F"):
        for g_order in ("C", "F"):
            x = Tensor(0.0, dtype="float64", requires_grad=True)
            x.data, x.node.shape = np.array(array, order=order), array.shape  # type: ignore[union-attr, arg-type]
            x.grad = Tensor(gradient)
            x.grad.data = np.array(gradient, order=g_order)  # type: ignore[arg-type, call-overload]
            optimizer = make([x])
            optimizer.step()
            optimizer.step()
            ends.append(x.detach().numpy())
    for end in ends[1:]:
        np.testing.assert_array_equal(end, ends[0])


def test_a_model_moved_to_a_device_takes_its_state_along() -> None:
    parameters = pair()
    optimizer = Adam(parameters, lr=0.1)
    drive(optimizer, range(2))
    for parameter in parameters:
        parameter.data = device("sim:0").from_host(parameter.data)
    want = drive(Adam(pair(), lr=0.1), range(4))
    for a, b in zip(drive(optimizer, range(2, 4)), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.slow
def test_nan_goes_through_as_in_torch() -> None:
    x, t = Tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)
    x.grad, t.grad = Tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0])
    SGD([x], lr=0.5).step()
    torch.optim.SGD([t], lr=0.5).step()
    np.testing.assert_array_equal(x.detach().numpy(), t.detach().numpy())


def test_an_average_as_torchs() -> None:
    net = torch.nn.Linear(3, 2)
    ema_fn = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    theirs = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=ema_fn)
    theirs.update_parameters(net)  # the first is a copy
    mine = [Tensor(p.detach().numpy(), requires_grad=True) for p in net.parameters()]
    average = optim.ExponentialMovingAverage(mine, decay=0.9)
    for step in range(10):
        for x, p in zip(mine, net.parameters(), strict=True):
            new = np.random.default_rng(step).standard_normal(x.shape).astype(np.float32)
            x.data[...] = new
            p.data.copy_(torch.tensor(new))
        average.update()
        theirs.update_parameters(net)
    now = [x.detach().numpy().copy() for x in mine]
    with average.applied():
        for x, p in zip(mine, theirs.module.parameters(), strict=True):
            np.testing.assert_allclose(x.detach().numpy(), p.detach().numpy(), rtol=1e-5, atol=1e-6)
    for x, before in zip(mine, now, strict=True):
        np.testing.assert_array_equal(x.detach().numpy(), before)


def test_a_number_of_numpys_is_a_number() -> None:
    """A float64 of NumPy's would widen float32; here it is Python's."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = SGD([x], lr=np.float32(0.5), momentum=np.float64(0.5))  # type: ignore[arg-type]
    optim.LambdaLR(optimizer, lambda t: np.float64(0.5))
    assert [type(optimizer.param_groups[0][name]) for name in ("lr", "momentum")] == [float, float]


def test_a_parameter_that_no_longer_wants_a_gradient_is_left_alone() -> None:
    x = Tensor([1.0], requires_grad=True)
    optimizer = SGD([x], lr=0.5)
    x.grad = Tensor([1.0])
    x.requires_grad = False
    optimizer.step()
    optimizer.zero_grad()
    assert x.item() == 1.0


# --- refusals ---------------------------------------------------------------------------------------


def with_gradient(change: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> None:
        optimizer = SGD([x], lr=0.1)
        x.grad = Tensor(1.0)
        change(x)
        optimizer.step()

    return run


def replace(name: str, value: Any) -> Callable[[Tensor], Any]:
    return lambda x: setattr(x.grad, name, value)


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "nothing": (lambda x: SGD([], lr=0.1), "no parameters"),
    "fixed": (lambda x: SGD([x, Tensor(1.0)], lr=0.1), "parameter 1 does not require a gradient"),
    "no tensor": (lambda x: SGD([x, np.ones(2)], lr=0.1), "parameter 1 is a ndarray; expected a Tensor"),
    "computed": (lambda x: SGD([x, x * 2], lr=0.1), "parameter 1 was computed"),
    "one tensor": (lambda x: SGD(x, lr=0.1), "given as a list"),
    "a number": (lambda x: SGD(3, lr=0.1), "must be a list of Tensors, got int; pass model.parameters"),  # type: ignore[arg-type]
    "state without a slot": (
        lambda x: Adam([x]).load_state_dict({**Adam([x]).state_dict(), "state": {0: {"step": 1, "m": np.ones(())}}}),
        "parameter 0 has m, step, but no v",
    ),
    "one group": (lambda x: SGD({"params": [x]}, lr=0.1), "one group alone is"),
    "twice": (lambda x: SGD([x, x], lr=0.1), "parameter 1 is there twice"),
    "in two groups": (lambda x: SGD([{"params": [x]}, {"params": [x]}], lr=0.1), "parameter 1 is there twice"),
    "mixed": (lambda x: SGD([{"params": [x]}, Tensor(1.0, requires_grad=True)], lr=0.1), "give all parameters in"),
    "unknown": (lambda x: SGD([{"params": [x], "beta": 1}], lr=0.1), "unknown setting beta; there are lr, momentum"),
    "lr 0": (lambda x: SGD([x], lr=0), "lr must be positive.*lr=0"),
    "lr NaN": (lambda x: SGD([x], lr=float("nan")), "lr=nan"),
    "lr infinite": (lambda x: SGD([x], lr=float("inf")), "lr=inf"),
    "lr text": (lambda x: SGD([x], lr="0.1"), "lr must be a number, got str"),  # type: ignore[arg-type]
    "lr set": (lambda x: setattr(SGD([x], lr=0.1), "lr", -1.0), "lr=-1.0"),
    "momentum 1": (lambda x: SGD([x], lr=0.1, momentum=1.0), r"momentum must be in \[0, 1\), got momentum=1.0"),
    "momentum negative": (lambda x: SGD([x], lr=0.1, momentum=-0.1), "momentum=-0.1"),
    "nesterov": (lambda x: SGD([x], lr=0.1, nesterov=True), "nesterov wants a momentum"),
    "nesterov number": (lambda x: SGD([x], lr=0.1, momentum=0.9, nesterov=1), "must be True or False"),  # type: ignore[arg-type]
    "decay": (lambda x: Adam([x], weight_decay=-1.0), "weight_decay must be not negative, got weight_decay=-1.0"),
    "beta": (lambda x: Adam([x], betas=(0.9, 1.0)), r"betas must be in \[0, 1\)"),
    "one beta": (lambda x: Adam([x], betas=0.9), "betas must be 2 numbers, got 0.9"),  # type: ignore[arg-type]
    "eps": (lambda x: RMSProp([x], eps=-1e-8), "eps must be not negative"),
    "gradient's shape": (
        with_gradient(replace("data", np.ones(3, np.float32))),
        r"float32\[\], its gradient float32\[3\]",
    ),
    "gradient's dtype": (with_gradient(replace("data", np.array(1.0))), r"float32\[\], its gradient float64\[\]"),
    "gradient of integers": (with_gradient(replace("data", np.array(1))), r"its gradient int64\[\]"),
    "gradient's device": (
        with_gradient(lambda x: setattr(x.grad, "data", device("sim:0").from_host(x.grad.data))),
        "parameter 0 is on cpu, its gradient on sim:0",
    ),
    "state of nothing": (lambda x: SGD([x], lr=0.1).load_state_dict({}), "wants what state_dict gave"),
    "state of others": (
        lambda x: SGD([x], lr=0.1).load_state_dict(Adam([x]).state_dict()),
        "Was it saved by another optimizer",
    ),
    "state of fewer": (
        lambda x: Adam([x]).load_state_dict(Adam(pair()).state_dict()),
        r"groups of \[2\] parameters, but this one has \[1\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    x = Tensor(1.0, requires_grad=True)
    with pytest.raises((ValueError, TypeError), match=f"(SGD|Adam|RMSProp): .*{message}"):
        make(x)
    assert x.item() == 1.0


def test_a_state_of_other_shapes_changes_nothing() -> None:
    theirs = Adam([Tensor([1.0, 2.0], requires_grad=True)])
    drive(theirs, range(1))
    mine = Adam([x := Tensor([1.0, 2.0, 3.0], requires_grad=True)])
    drive(mine, range(3))
    before = mine.state[x]["m"].copy()
    with pytest.raises(ValueError, match=r"m of parameter 0 has shape \(2,\), the parameter \(3,\)"):
        mine.load_state_dict(theirs.state_dict())
    assert mine.state[x]["step"] == 3
    np.testing.assert_array_equal(mine.state[x]["m"], before)
