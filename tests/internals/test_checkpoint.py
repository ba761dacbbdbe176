"""Checkpointing changes nothing but what is kept: gradients to any order, hooks, nests, randomness, memory."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from op_answers import assert_close, to_host

from internals import Tensor, device, grad, nn, no_grad, ops
from internals.autodiff import (
    CheckpointError,
    StaleTape,
    checkpoint,
    checkpoint_sequential,
    custom_vjp,
    gradient,
    hessian,
    jvp,
    tree,
    vmap,
)
from internals.autodiff.checkpoint import _waiting

DEPTH, WIDTH = 8, 6


class Chain:
    """Layers that close over their weights, with dropout."""

    def __init__(
        self, where: str = "cpu", p: float = 0.3, depth: int = DEPTH, width: int = WIDTH, rows: int = 3
    ) -> None:
        rng = np.random.default_rng(0)
        self.weights = [
            Tensor(rng.standard_normal((width, width)) / np.sqrt(width), device=where, requires_grad=True)
            for _ in range(depth)
        ]
        self.dropout = nn.Dropout(p, rng=np.random.default_rng(5))
        self.x = Tensor(rng.standard_normal((rows, width)), device=where, requires_grad=True)
        self.layers = [self.layer(weight) for weight in self.weights]
        self.ran = 0

    def layer(self, weight: Tensor) -> Callable[[Any], Any]:
        def run(h: Any) -> Any:
            self.ran += 1
            return self.dropout(ops.tanh(h @ weight))

        return run

    def all(self, h: Any) -> Any:
        for layer in self.layers:
            h = layer(h)
        return h

    def nested(self, h: Any, layers: list[Any] | None = None) -> Any:
        layers = self.layers if layers is None else layers
        if len(layers) == 1:
            return layers[0](h)
        half = len(layers) // 2
        h = checkpoint(lambda h: self.nested(h, layers[:half]), h)
        return checkpoint(lambda h: self.nested(h, layers[half:]), h)


WAYS: dict[str, Callable[[Chain, Any], Any]] = {
    "one": lambda chain, x: checkpoint(chain.all, x),
    "1 segment": lambda chain, x: checkpoint_sequential(chain.layers, 1, x),
    "3 segments": lambda chain, x: checkpoint_sequential(chain.layers, 3, x),
    "8 segments": lambda chain, x: checkpoint_sequential(chain.layers, 8, x),
    "nested": lambda chain, x: chain.nested(x),
    "in a dict": lambda chain, x: checkpoint(lambda p, *, k: {"h": chain.all(p["x"]) * k}, {"x": x}, k=1.0)["h"],
}


def gradients(chain: Chain, run: Callable[[Any], Any], *, order: int = 1) -> list[np.ndarray]:
    wrt = [chain.x, *chain.weights]
    out = (run(chain.x) ** 2).sum()
    if order == 1:
        return [to_host(out), *map(to_host, grad(out, wrt))]
    first = grad(out, wrt, create_graph=True)
    second = grad(sum(((g * g).sum() for g in first), Tensor(0.0, dtype="float64")), wrt)
    return [to_host(g) for g in (out, *first, *second)]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_the_same(way: str, order: int) -> None:
    """By inputs and closed-over parameters, with the same dropout masks."""
    plain, chain = Chain(), Chain()
    want = gradients(plain, plain.all, order=order)
    for mine, theirs in zip(gradients(chain, lambda x: WAYS[way](chain, x), order=order), want, strict=True):
        # Of second order the same terms are summed in another order.
        assert_close(mine, theirs, way, (0, 0) if order == 1 else (1e-12, 1e-12))


@pytest.mark.parametrize("way", WAYS)
def test_under_every_transformation(way: str) -> None:
    answers = []
    for checkpointed in (False, True):
        chain = Chain(p=0.0)
        f = functools.partial(WAYS[way], chain) if checkpointed else chain.all
        x = Tensor(chain.x.data[:1])
        found = [
            gradient(lambda x, f=f: (f(x) ** 2).sum())(x),
            hessian(lambda x, f=f: (f(x) ** 2).sum())(x),
            jvp(f, x, x),
            vmap(gradient(lambda x, f=f: (f(x[None]) ** 2).sum()))(Tensor(chain.x.data)),
            gradient(lambda x, f=f: (vmap(f)(x[None]) ** 3).sum())(x),
            grad((vmap(lambda x, f=f: f(x[None]))(chain.x) ** 2).sum(), chain.weights[0]),
        ]
        answers.append([to_host(one) for one in tree.leaves(found)])
    for mine, want in zip(*answers, strict=True):
        assert_close(mine, want, way, (1e-10, 1e-12))


def test_rows_with_several_results_and_writes_in_place() -> None:
    def f(x: Any) -> Any:
        h = x * 2
        h += 1
        h *= x
        return (ops.topk(h * h, k=2)[0] ** 2).sum() + ops.svd(h.reshape(2, 2))[1].sum()

    x = Tensor(np.array([3.0, 1.0, 2.0, 5.0]), requires_grad=True)
    answers = []
    for run in (f, lambda x: checkpoint(f, x)):
        first = grad(run(x), x, create_graph=True)
        answers.append([to_host(first), to_host(grad(first.sum(), x))])
    for mine, want in zip(*answers[::-1], strict=True):
        assert_close(mine, want, "gradient", (1e-11, 1e-11))


def test_a_result_may_be_written_to_and_an_error_leaves_nothing_behind() -> None:
    x = Tensor(np.array([0.5, 1.0]), requires_grad=True)
    out = checkpoint(ops.tanh, x)
    out += 1  # tanh keeps its result; the second run makes it again
    assert_close(to_host(grad(out.sum(), x)), 1 - np.tanh([0.5, 1.0]) ** 2, "gradient")

    def fails(x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        checkpoint(fails, x)
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    assert ops.draw_seed(rng) == int(same.integers(2**63))


@pytest.mark.slow
def test_as_torch() -> None:
    rng = np.random.default_rng(1)
    a, b, x = (rng.standard_normal(shape) for shape in ((4, 4), (4, 4), (2, 4)))
    mine = [Tensor(one, requires_grad=True) for one in (a, b, x)]
    theirs = [torch.tensor(one, requires_grad=True) for one in (a, b, x)]
    out = checkpoint(lambda x: ops.tanh(x @ mine[0]) @ mine[1], mine[2]) ** 2
    want = torch.utils.checkpoint.checkpoint(
        lambda x: torch.tanh(x @ theirs[0]) @ theirs[1], theirs[2], use_reentrant=False
    )
    out.sum().backward()
    (want**2).sum().backward()
    for one, other in zip(mine, theirs, strict=True):
        assert_close(to_host(one.grad), other.grad.numpy(), "gradient", (1e-10, 1e-12))


def test_it_runs_once_more_and_hooks_see_what_they_would() -> None:
    chain = Chain()
    seen = []

    def run(h: Any) -> Any:
        h = chain.layers[0](h)
        if h.requires_grad:
            h.register_hook(lambda g: seen.append(to_host(g)))
        return chain.layers[1](h)

    out = checkpoint(run, chain.x)
    assert chain.ran == 2
    out.backward(Tensor(np.ones(out.shape)))
    assert chain.ran == 4
    assert len(seen) == 1


def test_the_tape_is_used_once_unless_retained() -> None:
    chain = Chain()
    out = (checkpoint(chain.all, chain.x) ** 2).sum()
    first = to_host(grad(out, chain.x, retain_graph=True))
    np.testing.assert_array_equal(to_host(grad(out, chain.x, retain_graph=True)), first)
    np.testing.assert_array_equal(to_host(grad(out, chain.x)), first)
    with pytest.raises(StaleTape, match="used already"):
        grad(out, chain.x)


@pytest.mark.slow
def test_nothing_is_kept_alive() -> None:
    gc.collect()
    before = len(_waiting)
    chain = Chain()
    out = chain.nested(chain.x)
    assert len(_waiting) > before
    out.sum().backward()
    assert len(_waiting) == before
    out = chain.nested(chain.x)
    del out
    gc.collect()
    assert len(_waiting) == before


def test_without_recording_it_only_runs() -> None:
    chain = Chain()
    with no_grad():
        out = checkpoint(chain.all, chain.x)
    assert not out.requires_grad
    assert chain.ran == DEPTH


def peak(segments: int | None) -> int:
    sim: Any = device("sim:0")
    chain = Chain("sim:0", p=0.0, depth=36, width=16, rows=128)
    sim.reset()
    start = sim.counters.allocated
    h = chain.all(chain.x) if segments is None else checkpoint_sequential(chain.layers, segments, chain.x)
    h.sum().backward()
    return int(sim.counters.peak - start)


def test_memory_goes_with_the_root_of_the_depth() -> None:
    whole, cut = peak(None), peak(6)
    assert whole > 36 * 128 * 16 * 8
    assert cut < 0.5 * whole


def test_the_tape_does_not_keep_a_custom_row_s_result_by_its_call() -> None:
    """What a row of the user's gave is dropped with what was saved: in a checkpoint, and when its rule has run."""
    sim: Any = device("sim:0")

    @custom_vjp
    def doubled(x: Any) -> Any:
        return x * 2.0, None

    doubled.backward(lambda saved, g: g * 2.0)
    x = Tensor(np.ones((64, 64)), device="sim:0", requires_grad=True)
    before = sim.counters.allocated
    out = checkpoint(lambda x: doubled(doubled(doubled(ops.tanh(x)))), x).sum()
    assert sim.counters.allocated - before < x.data.nbytes
    out.backward(retain_graph=True)
    del out
    assert sim.counters.allocated - before <= x.data.nbytes  # the gradient


# What can't be computed again


def test_another_function_the_second_time() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    calls = []

    def longer(x: Any) -> Any:
        calls.append(1)
        return ops.exp(x) if len(calls) == 1 else ops.exp(ops.exp(x))

    def other(x: Any) -> Any:
        calls.append(1)
        return ops.exp(x) if len(calls) == 1 else ops.tanh(x)

    def wider(x: Any) -> Any:
        calls.append(1)
        return ops.exp(x) if len(calls) == 1 else ops.exp(x[:2])

    for function, says in (
        (longer, "recorded 1 operations the first time and 2 the second"),
        (other, "recorded exp of shape .* and tanh"),
        (wider, "recorded 1 operations"),
    ):
        calls.clear()
        out = checkpoint(function, x)
        with pytest.raises(CheckpointError, match=says):
            out.sum().backward()


def test_more_random_numbers_the_second_time() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    drop = nn.Dropout(0.5)
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return ops.exp(drop(x) if len(calls) == 1 else drop(drop(x)))

    out = checkpoint(f, x)
    with pytest.raises(RuntimeError, match="second run draws more random numbers"):
        out.sum().backward()


def test_an_input_changed_in_between() -> None:
    x, w = Tensor(np.ones(3), requires_grad=True), Tensor(np.ones(3))
    out = checkpoint(lambda x, w: ops.exp(x * w), x, w)
    w += 1
    with pytest.raises(CheckpointError, match="was changed in place since"):
        out.sum().backward()


def test_what_can_not_be_cut() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    for functions, segments in (([], 1), ([ops.exp], 0), ([ops.exp], 2), ([ops.exp], 1.0)):
        with pytest.raises(ValueError, match="can be cut into 1 to"):
            checkpoint_sequential(functions, segments, x)
    with pytest.raises(TypeError, match="expected a function and its inputs, got Tensor"):
        checkpoint(x, x)
