"""A network trained side by side with torch's; what the tape and the optimizer have to do with one another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from internals import Tensor, nn, ops
from internals.optim import SGD


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


@pytest.mark.slow
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sgd_as_torch_over_50_steps(momentum: float, dtype: str) -> None:
    """A two-layer network on fresh batches; float64 so that a wrong formula can't hide in rounding."""
    arrays = [random(5, 8).astype(dtype), random(8).astype(dtype), random(8, 3).astype(dtype)]
    mine, theirs = ([make(a / 3, requires_grad=True) for a in arrays] for make in (Tensor, torch.tensor))
    optimizers = SGD(mine, lr=0.05, momentum=momentum), torch.optim.SGD(theirs, lr=0.05, momentum=momentum)
    relative = 1e-10 if dtype == "float64" else 2e-4
    for step in range(50):
        x, y = random(16, 5, seed=step).astype(dtype), np.random.default_rng(step).integers(0, 3, 16)
        w, b, v = mine
        loss = nn.cross_entropy(ops.tanh(Tensor(x) @ w + b) @ v, Tensor(y))
        t, c, u = theirs
        want = torch.nn.functional.cross_entropy(torch.tanh(torch.tensor(x) @ t + c) @ u, torch.tensor(y))
        for optimizer, value in zip(optimizers, (loss, want), strict=True):
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        for a, b_ in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(
                a.detach().numpy(), b_.detach().numpy(), rtol=relative, atol=relative, err_msg=f"step {step}"
            )


def test_a_step_between_forward_and_backward_is_noticed() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    loss = (x * x).sum()
    SGD([x], lr=0.1).step()
    with pytest.raises(RuntimeError, match="mul saved its .* changed in place"):
        loss.backward()


def test_momentum_does_not_keep_the_users_gradient() -> None:
    """The first velocity is a copy: the gradient may be changed or added to after the step."""
    x = Tensor([1.0], requires_grad=True)
    optimizer = SGD([x], lr=1.0, momentum=0.5)
    x.grad = Tensor([2.0])
    optimizer.step()
    x.grad *= 0.0
    optimizer.step()
    assert x.item() == pytest.approx(1 - 2 - 1)
