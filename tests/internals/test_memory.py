"""Memory: the tape keeps what its rules read, frees it as it goes, and leaves nothing behind."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

from internals import Tensor, ops
from internals.autodiff import grad
from internals.device import device


def leaf(values: Any, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(values, dtype), requires_grad=True)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 7).standard_normal(shape).astype(np.float32)


def chain(x: Tensor, weights: list[Tensor]) -> Tensor:
    for weight in weights:
        x = x @ weight
    return x


@pytest.mark.slow
def test_memory_after_backward_of_100_chained_1k_matmuls() -> None:
    """400 MB of saved results go as the pass uses them, and nothing but the gradients is left."""
    megabyte, matrix = 2**20, 1000 * 1000 * 4 / 2**20
    weight = Tensor(np.random.default_rng(3).standard_normal((1000, 1000)).astype(np.float32) / 32, requires_grad=True)
    tracemalloc.start()
    try:
        out = chain(weight, [weight] * 100)
        recorded = tracemalloc.get_traced_memory()[0] / megabyte
        tracemalloc.reset_peak()
        out.backward(Tensor(np.random.default_rng(4).standard_normal((1000, 1000)).astype(np.float32)))
        left, peak = (value / megabyte for value in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert recorded > 99 * matrix  # the tape did hold them
    assert peak < recorded + 6 * matrix, "the pass held more than the tape and a few cotangents"
    assert left < 3 * matrix, "something is left beside the result and the gradient"


@pytest.mark.slow
def test_memory_of_a_chain_is_freed_as_it_is_used() -> None:
    """Counted exactly by the simulated accelerator: live bytes fall from node to node of the reverse pass."""
    sim, n, length = device("sim:3"), 16, 100
    matrix = n * n * 4
    weights = [Tensor(random(n, n) / 4, device=sim, requires_grad=True) for _ in range(length)]
    gc.collect()
    before = sim.counters.allocated
    out = chain(Tensor(random(n, n), device=sim), weights)
    assert sim.counters.allocated - before == (length + 1) * matrix
    live: list[int] = []
    plain_rules = ops.TABLE["matmul"].vjp

    def watched(*args: Any) -> Any:
        live.append(sim.counters.allocated - before)
        return plain_rules[1](*args)

    ops.TABLE["matmul"].vjp = (plain_rules[0], watched)
    start = Tensor(random(n, n), device=sim)
    try:
        out.backward(start)
    finally:
        ops.TABLE["matmul"].vjp = plain_rules
    del out, start
    gc.collect()
    # Each step frees one saved result and leaves one gradient of the same size: the total stays where it was.
    assert len(live) == length
    assert max(live) <= min(live) + 3 * matrix
    assert sim.counters.allocated - before == length * matrix  # the gradients
    for weight in weights:
        weight.grad = None
    assert sim.counters.allocated == before


@pytest.mark.slow
def test_a_dropped_result_frees_its_tape_without_the_garbage_collector() -> None:
    """No circles: reference counts alone free what was recorded."""
    sim = device("sim:3")
    gc.collect()
    gc.disable()
    try:
        before = sim.counters.allocated
        x = Tensor(random(8, 8), device=sim, requires_grad=True)
        y = ops.softmax(ops.exp(x @ x)).sum()
        y.backward(retain_graph=True)
        del y
        assert sim.counters.allocated - before == 2 * 8 * 8 * 4  # x and its gradient
        del x
        assert sim.counters.allocated == before
    finally:
        gc.enable()


def test_grad_of_one_input_of_many_computes_no_others() -> None:
    """What nobody asked for is not computed."""
    x, y = leaf(random(3, 3)), leaf(random(3, 3))
    out = (x @ y).sum()
    found = grad(out, x)
    assert x.grad is None
    assert y.grad is None
    np.testing.assert_allclose(found.numpy(), np.ones((3, 3)) @ y.detach().numpy().T, rtol=1e-5)
