"""In-place change: allowed where torch allows it, refused where it would make a gradient wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from internals import Tensor, no_grad, ops


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape)).astype(np.float32)


class Ours:
    exp, relu, tanh, softmax, no_grad = ops.exp, ops.relu, ops.tanh, ops.softmax, no_grad

    @staticmethod
    def leaf(array: np.ndarray) -> Any:
        return Tensor(array, requires_grad=True)

    const = Tensor


class Torchs:
    exp, relu, tanh, no_grad = torch.exp, torch.relu, torch.tanh, torch.no_grad

    @staticmethod
    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    @staticmethod
    def leaf(array: np.ndarray) -> Any:
        return torch.tensor(array, requires_grad=True)

    const = staticmethod(torch.tensor)


def changed(value: Any, how: Callable[[Any], Any] | None = None) -> Any:
    """`value` after an in-place change."""
    if how:
        how(value)
    else:
        value += 1.0
    return value


def setitem(key: Any, value: Any) -> Callable[[Any], None]:
    def write(x: Any) -> None:
        x[key] = value

    return write


def leaf_in_no_grad(m: Any, x: Any, then: Callable[[Any], Any]) -> Any:
    with m.no_grad():
        x += 1.0
    return then(x)


def after(m: Any, x: Any, *, make: Callable[[Any], Any], change: Any = None, recorded: bool = True) -> Any:
    """Compute a result from x * 2, then change x * 2, and hand the result on."""
    y = x * 2
    out = make(y)
    with contextlib.nullcontext() if recorded else m.no_grad():
        changed(y, change)
    return out


def result_changed(m: Any, x: Any, make: Callable[[Any], Any]) -> Any:
    y = make(x)
    y += 1.0
    return y


def through_detach(m: Any, x: Any) -> Any:
    y = x * 2
    out = y * y
    alias = y.detach()
    alias += 1.0
    return out


def constant_changed(m: Any, x: Any, make: Callable[[Any, Any], Any]) -> Any:
    c = m.const(random(3, 4, seed=5))
    out = make(x, c)
    c += 1.0
    return out


def multiplied_by_itself(m: Any, x: Any) -> Any:
    y = x * 2
    y *= y
    return y


def view_changed(m: Any, x: Any) -> Any:
    y = x * 2
    v = y[0]
    v += 1.0
    return y


def base_of_a_view_changed(m: Any, x: Any) -> Any:
    y = x * 2
    v = y[0]
    y += 1.0
    return v


def base_of_a_view_that_is_gone_changed(m: Any, x: Any) -> Any:
    y = x * 2
    y.reshape(-1)
    y += 1.0
    return y


def item_added_to(m: Any, x: Any) -> Any:
    y = x * 2
    y[0] += 1.0
    return y


def broadcast_view_changed(m: Any, x: Any) -> Any:
    y = (x * 2).sum() * 1
    v = y.broadcast_to((3,))
    v += 1.0
    return v


def integer_plus_float(m: Any, x: Any) -> Any:
    n = m.const(np.array([1, 2]))
    n += 0.5
    return x


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "leaf": lambda m, x: changed(x),
    "leaf, one entry": lambda m, x: changed(x, setitem(0, 1.0)),
    "view of a leaf": lambda m, x: changed(x[0]),
    "leaf under no_grad, before use": lambda m, x: leaf_in_no_grad(m, x, lambda x: x * x),
    "leaf under no_grad, after mul": lambda m, x: leaf_in_no_grad(m, x, (lambda z: lambda x: z)(x * x)),
    "leaf under no_grad, after add": lambda m, x: leaf_in_no_grad(m, x, (lambda z: lambda x: z)(x + x)),
    "result of mul": lambda m, x: result_changed(m, x, lambda x: x * 2),
    "result of exp": lambda m, x: result_changed(m, x, m.exp),
    "result of tanh": lambda m, x: result_changed(m, x, m.tanh),
    "result of relu": lambda m, x: result_changed(m, x, m.relu),
    "result of softmax": lambda m, x: result_changed(m, x, m.softmax),
    "input of mul": lambda m, x: after(m, x, make=lambda y: y * y),
    "input of mul, under no_grad": lambda m, x: after(m, x, make=lambda y: y * y, recorded=False),
    "input of mul by a number": lambda m, x: after(m, x, make=lambda y: y * 3),
    "input of add": lambda m, x: after(m, x, make=lambda y: y + 1),
    "input of matmul": lambda m, x: after(m, x, make=lambda y: y @ y.T),
    "input of exp": lambda m, x: after(m, x, make=m.exp),
    "input of div": lambda m, x: after(m, x, make=lambda y: y / y),
    "input of 1 / y": lambda m, x: after(m, x, make=lambda y: 1 / y),
    "input of sum": lambda m, x: after(m, x, make=lambda y: y.sum()),
    "input of max": lambda m, x: after(m, x, make=lambda y: y.max()),
    "input of square, one entry": lambda m, x: after(m, x, make=lambda y: y * y, change=setitem((0, 0), 5.0)),
    "input of add, one entry": lambda m, x: after(m, x, make=lambda y: y + 1, change=setitem((0, 0), 5.0)),
    "alias by detach": through_detach,
    "constant that mul saved": lambda m, x: constant_changed(m, x, lambda x, c: x * c),
    "constant that add did not save": lambda m, x: constant_changed(m, x, lambda x, c: x + c),
    "several": lambda m, x: changed(changed(x * 2), lambda y: y.__imul__(3.0)) * 1.0,
    "isub, itruediv": lambda m, x: changed(changed(x * 2, lambda y: y.__isub__(3.0)), lambda y: y.__itruediv__(2.0)),
    "by a tensor on the tape": lambda m, x: changed(x * 2, lambda y: y.__imul__(x)),
    "by itself": multiplied_by_itself,
    "value on the tape into a constant": lambda m, x: changed(m.const(random(3, 4)), setitem(0, x[1] * 2)),
    "to a larger shape": lambda m, x: changed(x.sum(), lambda y: y.__iadd__(x)),
    "integer plus float": integer_plus_float,
    "base of a view that is gone": base_of_a_view_that_is_gone_changed,
    "x[0] += 1": item_added_to,
    "view": view_changed,
    "base of a view": base_of_a_view_changed,
    "broadcast view": broadcast_view_changed,
}

VIEWS = {"view", "base of a view", "x[0] += 1"}
"""The tape does not follow a write through a view to the other tensors on the memory; it says so, and what to do."""

WE_REFUSE_TORCH_ALLOWS = VIEWS | {"input of 1 / y"}
"""Of 1 / y torch saves the result, we what div saves, which is y."""


def outcome(m: Any, run: Callable[[Any, Any], Any]) -> Any:
    x = m.leaf(random(3, 4, seed=2))
    try:
        out = run(m, x)
        out.sum().backward()
    except (RuntimeError, ValueError, TypeError):
        return "refused"
    return np.asarray(out.detach().numpy()), np.asarray(x.grad.numpy())


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_change_is_allowed_where_torch_allows_it(name: str) -> None:
    mine, theirs = outcome(Ours, IN_PLACE[name]), outcome(Torchs, IN_PLACE[name])
    if name in WE_REFUSE_TORCH_ALLOWS:
        assert mine == "refused"
        assert theirs != "refused"
    elif theirs == "refused" or mine == "refused":
        assert (mine == "refused") == (theirs == "refused"), f"ours: {mine}, torch's: {theirs}"
    else:
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_what_we_refuse_says_what_to_write_instead(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"in-place add: another tensor shares this memory.*clone\(\)"):
        IN_PLACE[name](Ours, Ours.leaf(random(3, 4)))
