"""Channels that are gone: the same as setting what they give to zero, in less memory; and what that does to digits."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from digits_nets import accuracy, cnn, digits, fit, logits, mlp

from internals import Tensor, nn, ops, optim
from internals.deploy.compress import Pruner, cubic_schedule, distillation_loss, low_rank, nbytes, share, shrink


def silenced(model: nn.Sequential, masks: dict[int, np.ndarray]) -> nn.Sequential:
    """The channels at zero after their normalisation too, as if they were gone."""

    class Silent(nn.Module):
        def __init__(self, mask: np.ndarray) -> None:
            self.mask = mask.astype(np.float32)

        def forward(self, x: Tensor) -> Tensor:
            return x * Tensor(self.mask.reshape(-1, *[1] * (x.ndim - 2)))

    parts: list[Any] = []
    waiting = None
    for place, part in enumerate(model.parts):
        parts.append(part)
        waiting = masks.get(place, waiting)
        if waiting is not None and isinstance(part, nn.ReLU):
            parts.append(Silent(waiting))
            waiting = None
    return nn.Sequential(*parts)


@pytest.mark.parametrize("make", [mlp, cnn])
def test_as_if_the_channels_gave_zero(make: Any) -> None:
    rng = np.random.default_rng(2)
    model = make(3)
    for _ in range(2):
        model(Tensor(rng.standard_normal((6, 1, 8, 8)).astype(np.float32)))
    model.eval()
    layers = [i for i, part in enumerate(model.parts) if isinstance(part, nn.Linear | nn.Conv2d)][:-1]
    masks = {}
    for place in layers:
        layer = model[place]
        mask = rng.random(layer.weight.shape[1 if isinstance(layer, nn.Linear) else 0]) < 0.6
        mask[0] = True
        masks[place] = mask
    x = rng.standard_normal((4, 1, 8, 8)).astype(np.float32)
    before = copy.deepcopy(model)
    small = shrink(model, masks)
    np.testing.assert_allclose(logits(small, x), logits(silenced(model, masks), x), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(logits(model, x), logits(before, x))
    assert nbytes(small) < nbytes(model)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no chain": (lambda: shrink(nn.Linear(2, 2), 0.5), TypeError, "only a Sequential"),
    "sparsity": (lambda: shrink(mlp(), 1.5), ValueError, "between 0 and 1"),
    "last layer": (lambda: shrink(mlp(), {4: np.full(10, True)}), ValueError, r"those are \[1\]"),
    "mask": (lambda: shrink(mlp(), {1: np.full(7, True)}), ValueError, r"expected bool \(48,\)"),
    "nothing": (lambda: shrink(mlp(), {1: np.full(48, False)}), ValueError, "one channel at least"),
    "groups": (lambda: shrink(nn.Sequential(nn.Conv2d(4, 4, 1, groups=2), nn.Conv2d(4, 2, 1)), 0.5), TypeError,
               "2 groups"),
    "unknown": (lambda: shrink(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)), 0.5), TypeError,
                "a LayerNorm, has weights"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.slow
def test_half_of_the_channels_learn_the_digits_again() -> None:
    model = fit(cnn(), epochs=6)
    small = fit(shrink(model, 0.5), epochs=4, lr=3e-3)
    assert nbytes(small) < 0.5 * nbytes(model)
    assert accuracy(small) >= accuracy(model) - 0.03


@pytest.mark.slow
def test_four_in_five_weights_go_by_a_schedule() -> None:
    x, y, _, _ = digits()
    model = fit(mlp(), epochs=6)
    floats = accuracy(model)
    pruner, schedule = Pruner(model), cubic_schedule(0, 100, 0.8)
    optimizer, step = optim.Adam(model.parameters(), lr=3e-3), 0
    model.train()
    for _ in range(14):
        for start in range(0, len(x), 100):
            loss = ops.cross_entropy(model(Tensor(x[start : start + 100])), Tensor(y[start : start + 100]))
            model.zero_grad()
            loss.backward()
            optimizer.step()
            pruner.step(schedule(step))
            step += 1
    assert abs(pruner.sparsity - 0.8) < 1e-3
    assert accuracy(model.eval()) >= floats - 0.03


@pytest.mark.slow
def test_a_small_model_learns_from_a_large_one() -> None:
    """And shares or factors its weights: each keeps most of what the large one knows."""
    x, y, _, _ = digits()
    teacher = fit(cnn(), epochs=8)
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 16, rng=np.random.default_rng(1)), nn.ReLU(),
                            nn.Linear(16, 10, rng=np.random.default_rng(2)))  # fmt: skip
    known, optimizer = Tensor(logits(teacher, x)), optim.Adam(student.parameters(), lr=0.01)
    for _ in range(15):
        for start in range(0, len(x), 100):
            part = slice(start, start + 100)
            loss = distillation_loss(student(Tensor(x[part])), known[part], Tensor(y[part]))
            student.zero_grad()
            loss.backward()
            optimizer.step()
    assert accuracy(student) >= 0.93
    model = fit(mlp(), epochs=6)
    factored = nn.Sequential(model[0], low_rank(model[1], 24), *model.parts[2:]).eval()
    assert accuracy(factored) >= accuracy(model) - 0.03
    shared = share(model[1].weight.detach().numpy(), 16).dequantise()
    model[1].weight = Tensor(shared)
    assert accuracy(model) >= accuracy(factored) - 0.03
