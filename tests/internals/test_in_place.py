"""In-place change: allowed where torch allows it, refused where it would make a gradient wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from in_place_cases import IN_PLACE, Program, random

from internals import Tensor, no_grad, ops
from internals.device import device_of


class Ours:
    exp, relu, tanh, sin, sigmoid = ops.exp, ops.relu, ops.tanh, ops.sin, ops.sigmoid
    softmax, no_grad = ops.softmax, no_grad

    def __init__(self, where: str = "cpu") -> None:
        self.where = where

    def const(self, array: np.ndarray) -> Tensor:
        return Tensor(array, device=self.where)

    index = const

    def leaf(self, array: np.ndarray) -> Tensor:
        return Tensor(array, device=self.where, requires_grad=True)


class Torchs:
    exp, relu, tanh, sin, sigmoid = torch.exp, torch.relu, torch.tanh, torch.sin, torch.sigmoid
    no_grad = torch.no_grad
    const = index = staticmethod(torch.tensor)

    @staticmethod
    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    @staticmethod
    def leaf(array: np.ndarray) -> Any:
        return torch.tensor(array, requires_grad=True)


def host(x: Any) -> np.ndarray:
    if isinstance(x, Tensor):
        return np.array(device_of(x.data).to_host(x.data))
    return x.detach().numpy().copy()


def outcome(m: Any, program: Program) -> Any:
    """Values of what comes out, whether each has a gradient, and the leaf's; or that it was refused."""
    x = m.leaf(random(3, 4, seed=2))
    try:
        outs = program(m, x)
        outs = outs if isinstance(outs, tuple) else (outs,)
        loss = None
        for i, out in enumerate(outs):
            if out.requires_grad:
                term = (out * m.const(random(*out.shape, seed=20 + i))).sum()
                loss = term if loss is None else loss + term
        if loss is not None:
            loss.backward()
    except (RuntimeError, ValueError, TypeError) as error:
        return f"refused: {error}"
    return [host(out) for out in outs], [out.requires_grad for out in outs], None if x.grad is None else host(x.grad)


WE_REFUSE_TORCH_ALLOWS = {
    "input of 1 / y": "Torch saves the result of 1 / y, we what div saves, which is y.",
    "view of a broadcast view": "A view of a broadcast view is not writable, as in NumPy, also where it is safe.",
    "broadcast view that stretches nothing": "As in NumPy.",
}
WE_ALLOW_TORCH_REFUSES = {
    "overlapping shift": "The result is as if the source had been copied first, as in NumPy.",
}


@pytest.mark.parametrize("where", ["cpu", "sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_change_is_allowed_where_torch_allows_it(name: str, where: str) -> None:
    mine, theirs = outcome(Ours(where), IN_PLACE[name]), outcome(Torchs, IN_PLACE[name])
    if name in WE_REFUSE_TORCH_ALLOWS:
        assert isinstance(mine, str)
        assert not isinstance(theirs, str)
    elif name in WE_ALLOW_TORCH_REFUSES:
        assert not isinstance(mine, str), mine
        assert isinstance(theirs, str)
    elif isinstance(mine, str) or isinstance(theirs, str):
        assert isinstance(mine, str) == isinstance(theirs, str), f"ours: {mine}, torch's: {theirs}"
    else:
        for a, b in zip(mine[0], theirs[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert mine[1] == theirs[1]
        assert (mine[2] is None) == (theirs[2] is None)
        if mine[2] is not None:
            np.testing.assert_allclose(mine[2], theirs[2], rtol=1e-4, atol=1e-5)
