"""Every schedule, step for step as torch's; chained, saved and resumed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as theirs

from internals import Tensor, optim

ROWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "lambda": (
        lambda o: optim.LambdaLR(o, lambda t: 1 / (1 + t)),
        lambda o: theirs.LambdaLR(o, lambda t: 1 / (1 + t)),
    ),
    "lambdas": (
        lambda o: optim.LambdaLR(o, [lambda t: 0.9**t, lambda t: 1 + t / 10]),
        lambda o: theirs.LambdaLR(o, [lambda t: 0.9**t, lambda t: 1 + t / 10]),
    ),
    "step": (lambda o: optim.StepLR(o, 4, gamma=0.3), lambda o: theirs.StepLR(o, 4, gamma=0.3)),
    "multi-step": (
        lambda o: optim.MultiStepLR(o, [7, 3, 3, 20], gamma=0.5),
        lambda o: theirs.MultiStepLR(o, [7, 3, 3, 20], gamma=0.5),
    ),
    "exponential": (lambda o: optim.ExponentialLR(o, 0.9), lambda o: theirs.ExponentialLR(o, 0.9)),
    "linear": (
        lambda o: optim.LinearLR(o, 8, start_factor=0.1),
        lambda o: theirs.LinearLR(o, start_factor=0.1, total_iters=8),
    ),
    "linear down": (
        lambda o: optim.LinearLR(o, 5, start_factor=1.0, end_factor=0.0),
        lambda o: theirs.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=5),
    ),
    "cosine": (
        lambda o: optim.CosineAnnealingLR(o, 30, eta_min=0.01),
        lambda o: theirs.CosineAnnealingLR(o, 30, eta_min=0.01),
    ),
    "cosine, up and down again": (
        lambda o: optim.CosineAnnealingLR(o, 6),
        lambda o: theirs.CosineAnnealingLR(o, 6),
    ),
    "one cycle": (
        lambda o: optim.OneCycleLR(o, 0.5, 31),
        lambda o: theirs.OneCycleLR(o, 0.5, total_steps=31),
    ),
    "one cycle, linear, three phases": (
        lambda o: optim.OneCycleLR(o, 0.5, 31, anneal_strategy="linear", three_phase=True, pct_start=0.4),
        lambda o: theirs.OneCycleLR(o, 0.5, total_steps=31, anneal_strategy="linear", three_phase=True, pct_start=0.4),
    ),
    "one cycle, no momentum": (
        lambda o: optim.OneCycleLR(o, 0.5, 40, cycle_momentum=False, div_factor=4, final_div_factor=10),
        lambda o: theirs.OneCycleLR(o, 0.5, total_steps=40, cycle_momentum=False, div_factor=4, final_div_factor=10),
    ),
    "warm-up, then cosine": (
        lambda o: optim.SequentialLR(
            o, [optim.LinearLR(o, 5, start_factor=0.2), optim.CosineAnnealingLR(o, 25)], milestones=[5]
        ),
        lambda o: theirs.SequentialLR(
            o, [theirs.LinearLR(o, 0.2, total_iters=5), theirs.CosineAnnealingLR(o, 25)], milestones=[5]
        ),
    ),
    "three in sequence": (
        lambda o: optim.SequentialLR(
            o,
            [optim.LambdaLR(o, lambda t: t + 1), optim.StepLR(o, 2), optim.ExponentialLR(o, 0.7)],
            milestones=[3, 10],
        ),
        lambda o: theirs.SequentialLR(
            o,
            [theirs.LambdaLR(o, lambda t: t + 1), theirs.StepLR(o, 2), theirs.ExponentialLR(o, 0.7)],
            milestones=[3, 10],
        ),
    ),
    "chained": (
        lambda o: optim.ChainedScheduler(
            [optim.LinearLR(o, 4, start_factor=0.5), optim.ExponentialLR(o, 0.9), optim.StepLR(o, 7)]
        ),
        lambda o: theirs.ChainedScheduler(
            [theirs.LinearLR(o, 0.5, total_iters=4), theirs.ExponentialLR(o, 0.9), theirs.StepLR(o, 7)]
        ),
    ),
    "chained with a floor": (
        lambda o: optim.ChainedScheduler([optim.CosineAnnealingLR(o, 60, eta_min=1e-4), optim.ExponentialLR(o, 0.8)]),
        lambda o: theirs.ChainedScheduler(
            [theirs.CosineAnnealingLR(o, 60, eta_min=1e-4), theirs.ExponentialLR(o, 0.8)]
        ),
    ),
}


def mine_and_torchs() -> tuple[optim.Optimizer, torch.optim.Optimizer]:
    """With two groups of different step sizes."""
    x, y = (Tensor(1.0, requires_grad=True) for _ in range(2))
    t, u = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
    return (
        optim.Adam([{"params": [x]}, {"params": [y], "lr": 0.02}], lr=0.1),
        torch.optim.Adam([{"params": [t]}, {"params": [u], "lr": 0.02}], lr=0.1),
    )


def now(optimizer: Any) -> list[Any]:
    return [(group["lr"], *group["betas"]) for group in optimizer.param_groups]


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_step_for_step_as_torch(name: str) -> None:
    """And a schedule that was saved half way goes on the same."""
    optimizers = mine_and_torchs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that schedulers step without their optimizers
        schedules = [make(optimizer) for make, optimizer in zip(ROWS[name], optimizers, strict=True)]
        for step in range(31):
            got, want = map(now, optimizers)
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-15, err_msg=f"step {step}")
            if step == 12:
                resumed, _ = mine_and_torchs()
                schedule = ROWS[name][0](resumed)
                resumed.load_state_dict(optimizers[0].state_dict())
                schedule.load_state_dict(schedules[0].state_dict())
                optimizers, schedules = (resumed, optimizers[1]), [schedule, schedules[1]]
            if step < 30:
                for schedule in schedules:
                    schedule.step()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (make, _) in ROWS.items()
        if name.split(",")[0] not in ("chained", "chained with a floor", "three in sequence", "warm-up")
    ],
)
def test_the_closed_form_is_the_same(name: str) -> None:
    optimizer, _ = mine_and_torchs()
    schedule = ROWS[name][0](optimizer)
    for step in range(31):
        want = [schedule.at(group["initial_lr"], step, i) for i, group in enumerate(optimizer.param_groups)]
        np.testing.assert_allclose(schedule.last_lr, want, rtol=1e-9, atol=1e-15, err_msg=f"step {step}")
        if step < 30:
            schedule.step()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mode": "max", "patience": 2, "factor": 0.5},
        {"patience": 0, "threshold": 0.1, "threshold_mode": "abs", "cooldown": 3, "min_lr": 1e-3},
        {"mode": "max", "patience": 1, "threshold": 0.2, "cooldown": 1},
    ],
)
def test_a_plateau_as_torch(settings: dict[str, Any]) -> None:
    optimizers = mine_and_torchs()
    schedules: list[Any] = [optim.ReduceLROnPlateau(optimizers[0], **settings)]
    schedules.append(theirs.ReduceLROnPlateau(optimizers[1], **settings))
    rng, seen = np.random.default_rng(0), set()
    for step in range(80):
        value = math.nan if step % 13 == 12 else float(rng.standard_normal() + 5 * math.exp(-step / 9))
        for schedule in schedules:
            schedule.step(value)
        got, want = map(now, optimizers)
        np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f"step {step}")
        seen.add(got[0][0])
        if step == 40:
            fresh = optim.ReduceLROnPlateau(optimizers[0], **settings)
            fresh.load_state_dict(schedules[0].state_dict())
            schedules[0] = fresh
    assert len(seen) > 1


def test_a_step_size_changed_by_hand_stays_changed() -> None:
    optimizer, _ = mine_and_torchs()
    schedule = optim.ExponentialLR(optimizer, 0.5)
    schedule.step()
    optimizer.lr = 8.0
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == [4.0, 4.0]


REFUSED: dict[str, tuple[Callable[[optim.Optimizer], Any], str]] = {
    "no optimizer": (lambda o: optim.StepLR(0.1, 3), "StepLR: expected an optimizer first, got float"),  # type: ignore[arg-type]
    "no step": (lambda o: optim.StepLR(o, 0), "StepLR: step_size must be a positive integer, got 0"),
    "a share": (lambda o: optim.CosineAnnealingLR(o, 2.5), "total_steps must be a positive integer, got 2.5"),  # type: ignore[arg-type]
    "factor": (lambda o: optim.LinearLR(o, 3, start_factor=0.0), "start_factor must be in"),
    "lambdas": (lambda o: optim.LambdaLR(o, [abs]), "1 functions for 2 groups"),
    "no lambda": (lambda o: optim.LambdaLR(o, 3), "0 functions for 2 groups"),  # type: ignore[arg-type]
    "no function": (lambda o: optim.LambdaLR(o, [1, 2]), "a factor must be a function"),  # type: ignore[list-item]
    "gamma": (lambda o: optim.ExponentialLR(o, "x"), "gamma must be a number, finite and not negative, got 'x'"),  # type: ignore[arg-type]
    "gamma NaN": (lambda o: optim.StepLR(o, 1, math.nan), "gamma must be a number, .* got nan"),
    "text": (lambda o: optim.MultiStepLR(o, "ab"), "milestones must be whole numbers, got 'ab'"),  # type: ignore[arg-type]
    "max_lr": (lambda o: optim.OneCycleLR(o, 0.0, 5), "max_lr, div_factor and final_div_factor must be positive"),
    "strategy": (lambda o: optim.OneCycleLR(o, 1.0, 5, anneal_strategy="exp"), "must be 'cos' or 'linear', got 'exp'"),
    "past the cycle": (
        lambda o: [schedule := optim.OneCycleLR(o, 1.0, 2), schedule.step(), schedule.step()],
        "step 2 is past the cycle; total_steps is 2",
    ),
    "milestones": (lambda o: optim.SequentialLR(o, [optim.StepLR(o, 1)], [3]), "1 schedules need 0 rising milestones"),
    "two optimizers": (
        lambda o: optim.ChainedScheduler([optim.StepLR(o, 1), optim.StepLR(mine_and_torchs()[0], 1)]),
        "must be on the same optimizer",
    ),
    "none": (lambda o: optim.ChainedScheduler([]), "expected a list of schedules"),
    "no value": (lambda o: optim.ReduceLROnPlateau(o).step(), "wants the value that is watched"),
    "mode": (lambda o: optim.ReduceLROnPlateau(o, "least"), "mode must be 'min' or 'max'"),
    "another state": (
        lambda o: optim.StepLR(o, 1).load_state_dict(optim.ReduceLROnPlateau(o).state_dict()),
        "Was it saved by another schedule",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message):
        make(mine_and_torchs()[0])
