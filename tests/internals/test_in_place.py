"""In-place change: allowed where torch allows it, refused where it would make a gradient wrong."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
from in_place_cases import METHODS, WRITES, Program, random
from in_place_view_cases import VIEWS

from internals import Tensor, no_grad, ops
from internals.device import DeviceError, device, device_of
from internals.tensor.inplace import write_in_place

IN_PLACE = WRITES | VIEWS | METHODS


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


REFUSED: dict[str, tuple[type[Exception], str, Any]] = {
    "a leaf": (RuntimeError, "in-place add: this tensor is a leaf .*no_grad", lambda x: x.add_(1.0)),
    "a view of a leaf": (RuntimeError, "in-place mul: .*or a view of one", lambda x: x[0].mul_(2.0)),
    "a broadcast view": (
        RuntimeError,
        "is a broadcast view.*clone",
        lambda x: (x * 2)[:1].broadcast_to((3, 4)).add_(1.0),
    ),
    "larger": (ValueError, r"has shape \(3, 4\) and does not fit .*\(4,\)", lambda x: (x * 2)[0].add_(x)),
    "wider": (TypeError, "float32 and can't be held by .*int64", lambda x: Tensor([1, 2]).exp_()),
    "no derivative": (RuntimeError, "zeros_like has no derivative", lambda x: write_in_place(x * 2, ops.zeros_like)),
    "other device": (DeviceError, "cpu and sim:0", lambda x: (x * 2).add_(Tensor([1.0], device="sim:0"))),
    "fill_ by several": (ValueError, r"fill_: expected .* shape \(4,\); see copy_", lambda x: (x * 2).fill_(x[0])),
    "too many": (TypeError, "exp: takes at most 0 attributes", lambda x: (x * 2).exp_(1.0)),
    "too few": (TypeError, "add: takes 2 inputs", lambda x: (x * 2).add_()),
    "no number": (TypeError, "in-place add: str can't take part", lambda x: (x * 2).add_("1")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why_and_changes_nothing(name: str) -> None:
    kind, message, write = REFUSED[name]
    x = Tensor(random(3, 4), requires_grad=True)
    before, version = x.detach().numpy().copy(), x.version
    with pytest.raises(kind, match=message):
        write(x)
    np.testing.assert_array_equal(x.detach().numpy(), before)
    assert x.version == version


def test_a_view_made_under_no_grad_is_refused_by_name() -> None:
    y = Tensor(random(3, 4), requires_grad=True) * 2
    with no_grad():
        v = y[0]
    with pytest.raises(RuntimeError, match="can't follow a change through this view: it was made under no_grad"):
        v += 1.0


@pytest.mark.slow
def test_a_recorded_write_leaves_nothing_behind() -> None:
    """No circles: what was written through views is freed by reference counts alone."""
    sim = device("sim:3")
    gc.collect()
    gc.disable()
    try:
        before = sim.counters.allocated
        x = Tensor(random(8, 8), device=sim, requires_grad=True)
        y = x * 2.0
        v = y[1:]
        v.mul_(3.0)
        y[0] = v[0] * 0.5
        w = y.T[2]
        w += v[:, 1].sum()
        y.sum().backward()
        del y, v, w
        assert sim.counters.allocated - before == 2 * 8 * 8 * 4  # x and its gradient
        del x
        assert sim.counters.allocated == before
    finally:
        gc.enable()
