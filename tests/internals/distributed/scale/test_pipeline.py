"""A pipeline gives the gradients of the whole model, whatever its schedule, and refuses what does not fit."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import Tensor, nn, ops, optim
from internals.distributed.errors import DistributedError, MismatchError
from internals.distributed.group import Group, run_threads
from internals.distributed.scale.pipeline import Pipeline, most_kept, one_f_one_b, split
from internals.distributed.scale.pipeline.schedule import SCHEDULES

BATCH, WIDTH, CLASSES = 12, 6, 4


def model() -> nn.Sequential:
    rng = np.random.default_rng(3)
    parts: list[nn.Module] = []
    for _ in range(4):
        parts += [nn.Linear(WIDTH, WIDTH, rng=rng), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(WIDTH, CLASSES, rng=rng))


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((BATCH, WIDTH)).astype(np.float32), rng.integers(CLASSES, size=BATCH)


def gradients(module: nn.Module) -> list[np.ndarray]:
    return [one.grad.numpy().copy() for one in module.parameters()]


def single(steps: int) -> tuple[list[float], list[np.ndarray], list[np.ndarray]]:
    whole = model()
    optimizer = optim.SGD(whole.parameters(), lr=0.1)
    losses, first = [], []
    for step in range(steps):
        x, y = data(step)
        optimizer.zero_grad()
        loss = ops.cross_entropy(whole(Tensor(x)), Tensor(y))
        loss.backward()
        first = first or gradients(whole)
        optimizer.step()
        losses.append(loss.item())
    return losses, first, [one.detach().numpy().copy() for one in whole.parameters()]


def piped(group: Group, schedule: str, micros: int, steps: int, recompute: bool = False) -> dict[str, Any]:
    pipeline = Pipeline(
        split(model(), group.size), group, loss=ops.cross_entropy, schedule=schedule, recompute=recompute
    )
    optimizer = optim.SGD(pipeline.stage.parameters(), lr=0.1)
    losses, first = [], []
    for step in range(steps):
        x, y = data(step)
        optimizer.zero_grad()
        last = group.rank == group.size - 1
        losses.append(pipeline.step(None if group.rank else x, y if last else None, micro_batches=micros))
        first = first or gradients(pipeline.stage)
        optimizer.step()
    return {
        "losses": losses,
        "gradients": first,
        "parameters": [one.detach().numpy().copy() for one in pipeline.stage.parameters()],
        "bytes": pipeline.most_bytes,
        "spans": pipeline.spans,
        "timeline": pipeline.timeline(),
    }


@pytest.mark.parametrize("recompute", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("micros", [pytest.param(1, marks=pytest.mark.slow), 3, 4])
@pytest.mark.parametrize(
    "stages", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_equal_to_the_whole_model(schedule: str, stages: int, micros: int, recompute: bool) -> None:
    losses, first, parameters = single(3)
    found = run_threads(stages, piped, schedule, micros, 3, recompute)
    np.testing.assert_allclose(found[-1]["losses"], losses, rtol=1e-5)
    for stage in found[:-1]:
        assert stage["losses"] == [None] * 3
    for what, expected in (("gradients", first), ("parameters", parameters)):
        got = [array for stage in found for array in stage[what]]
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_spans_are_those_of_the_schedule(schedule: str) -> None:
    found = run_threads(3, piped, schedule, 4, 1)
    rows = SCHEDULES[schedule](3, 4)
    for stage, row in zip(found, rows, strict=True):
        assert [span.action for span in stage["spans"]] == row
        assert len(stage["timeline"]) == 3 * 8
        assert stage["timeline"][0].start == 0.0
        assert stage["timeline"] == found[0]["timeline"]


def test_memory_is_as_the_schedule_says() -> None:
    """Equal stages: bytes kept are those of one micro-batch times how many are kept."""

    def kept(group: Group, schedule: str, micros: int, recompute: bool = False) -> int:
        rng = np.random.default_rng(0)
        stages = [nn.Sequential(nn.Linear(32, 32, rng=rng), nn.Tanh()) for _ in range(group.size)]
        pipeline = Pipeline(stages, group, loss=ops.mse, schedule=schedule, recompute=recompute)
        x = rng.standard_normal((micros * 8, 32)).astype(np.float32)
        pipeline.step(x, x, micro_batches=micros)
        return pipeline.most_bytes

    one = 2 * 8 * 32 * 4  # what goes into the linear layer, and what comes out of tanh
    gpipe = run_threads(4, kept, "gpipe", 6)
    assert gpipe[:3] == [6 * one] * 3
    assert run_threads(4, kept, "1f1b", 6)[:3] == [count * one for count in most_kept(one_f_one_b(4, 6))[:3]]
    assert run_threads(4, kept, "gpipe", 6, True)[:3] == [6 * one // 2] * 3


def fails(group: Group, case: str) -> None:
    x, y = data()
    stages, micros, schedule = split(model(), 2), 3, "1f1b"
    if case == "stages":
        stages = split(model(), 3)
    if case == "schedule":
        schedule = "2f2b"
    if case == "other schedules":
        schedule = ["gpipe", "1f1b"][group.rank]
    if case == "micro-batches":
        micros = 5
    if case == "other counts":
        micros = [3, 4][group.rank]
    if case == "shapes":
        stages = [nn.Linear(WIDTH, 5), nn.Linear(WIDTH, CLASSES)]
    if case == "inputs":
        stages = [nn.Linear(WIDTH + 1, WIDTH), nn.Linear(WIDTH, CLASSES)]
    if case == "classes":
        y = y + CLASSES
    if case == "empty":
        x, y = x[:0], y[:0]
    if case == "0-d":
        x = np.float32(1.0)
    given = None if case == "nothing" else x
    Pipeline(stages, group, loss=ops.cross_entropy, schedule=schedule).step(given, y, micro_batches=micros)


BAD = {
    "stages": (ValueError, "3 stages for 2 ranks; expected one stage for each rank"),
    "schedule": (ValueError, "there is no schedule '2f2b'; expected gpipe or 1f1b"),
    "other schedules": (MismatchError, "by gpipe, stage 1 expects 0 of 3 by 1f1b"),
    "micro-batches": (ValueError, r"(inputs|targets) of shape \(12,.*\) do not divide into 5 micro-batches"),
    "other counts": (MismatchError, "stage 0 sends micro-batch 0 of 3 by 1f1b, stage 1 expects 0 of 4"),
    "shapes": (MismatchError, r"stage 1 can't take what stage 0 sent, float32 \(4, 5\) .micro-batch 0.: Linear"),
    "inputs": (MismatchError, r"stage 0 can't take the inputs, float32 \(4, 6\)"),
    "classes": (MismatchError, "stage 1 can't take what stage 0 sent"),
    "empty": (ValueError, "do not divide into 3 micro-batches"),
    "0-d": (ValueError, "do not divide into 3 micro-batches"),
    "nothing": (ValueError, "the first rank needs the inputs; they are None"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_named(case: str) -> None:
    kind, told = BAD[case]
    with pytest.raises((kind, DistributedError), match=told):
        run_threads(2, fails, case)


@pytest.mark.parametrize(("stages", "costs", "expected"), [
    (3, [1, 1, 1, 1, 1, 1], [2, 2, 2]),
    (2, [9, 1, 1, 1, 1, 1], [1, 5]),
    (2, [1, 1, 1, 1, 1, 9], [5, 1]),
    (3, [1, 5, 1, 5, 1, 5], [2, 2, 2]),
    (6, [3, 1, 4, 1, 5, 9], [1] * 6),
    (1, [1, 2, 3, 4, 5, 6], [6]),
])  # fmt: skip
def test_cuts_even_out_the_cost(stages: int, costs: list[float], expected: list[int]) -> None:
    whole = nn.Sequential(*(nn.Linear(2, 2) for _ in range(6)))
    parts = split(whole, stages, costs=costs)
    assert [len(part) for part in parts] == expected
    assert [one for part in parts for one in part] == list(whole)


@pytest.mark.parametrize(("stages", "costs", "told"), [
    (0, None, "expected 1 to 9"),
    (10, None, "9 parts can't be cut into 10 stages"),
    (2, [1.0], "one for each of 9 parts"),
    (2, [-1.0] * 9, "none below 0"),
])  # fmt: skip
def test_cuts_that_can_not_be(stages: int, costs: list[float] | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        split(model(), stages, costs=costs)


def as_torchs(group: Group, schedule: str, theirs: Any) -> dict[str, Any]:
    stages = []
    for number in range(theirs.STAGES):
        linear = nn.Linear(theirs.WIDTH, theirs.WIDTH)
        linear.load_state_dict(dict(zip(("weight", "bias"), theirs.weights(number), strict=True)))
        stages.append(nn.Sequential(linear, nn.Tanh()))
    pipeline = Pipeline(stages, group, loss=ops.mse, schedule=schedule)
    pipeline.step(*theirs.data(), micro_batches=theirs.MICROS)
    grads = {name.split(".")[-1]: one.grad.numpy() for name, one in pipeline.stage.named_parameters()}
    return {**grads, "order": [f"{span.action.kind}{span.action.micro_batch}" for span in pipeline.spans]}


@pytest.mark.slow
def test_beside_torch_over_gloo(tmp_path: Path) -> None:
    """torch.distributed.pipelining does the same actions in the same order, and comes to the same gradients."""
    script = Path(__file__).with_name("torch_pipeline.py")
    launch = [sys.executable, "-m", "internals.distributed.launch", "-n", "3", str(script), str(tmp_path)]
    subprocess.run(launch, check=True, timeout=240)
    spec = importlib.util.spec_from_file_location("torch_pipeline", script)
    assert spec is not None
    assert spec.loader is not None
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    for schedule in SCHEDULES:
        for rank, mine in enumerate(run_threads(theirs.STAGES, as_torchs, schedule, theirs)):
            found = np.load(tmp_path / f"{schedule}-{rank}.npz")
            assert mine["order"] == found["order"].tolist()
            for name in ("weight", "bias"):
                np.testing.assert_allclose(mine[name], found[name], rtol=1e-4, atol=1e-6)
