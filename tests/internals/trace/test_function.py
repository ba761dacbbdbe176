"""A traced function is the function: the same values and gradients, traced again when what it depends on changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from internals import Tensor, grad, nn, no_grad, ops
from internals.trace import TraceError, function


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


def model() -> nn.Module:
    rng = np.random.default_rng(0)
    return nn.Sequential(nn.Linear(6, 8, rng=rng), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3, rng=rng))


def test_values_and_gradients_are_those_of_eager_code_to_the_bit() -> None:
    net = model()

    def loss_of(x: Any, labels: Any) -> Any:
        return ops.cross_entropy(net(x) * 2.0, labels)

    traced = function(loss_of)
    for size in (4, 7):
        x, labels = Tensor(random(size, 6), requires_grad=True), Tensor(np.arange(size) % 3)
        found = []
        for run in (loss_of, traced):
            net.zero_grad()
            x.grad = None
            loss = run(x, labels)
            loss.backward()
            found.append([loss.item(), x.grad.numpy(), *[p.grad.numpy() for p in net.parameters()]])
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_second_derivatives_go_through() -> None:
    def cubed(x: Any) -> Any:
        return (x * x * x).sum()

    x = Tensor(random(5), requires_grad=True)
    first = grad(function(cubed)(x), x, create_graph=True)
    np.testing.assert_allclose(grad(first.sum(), x).numpy(), 6 * x.detach().numpy(), rtol=1e-5)


def test_a_call_like_one_before_traces_nothing() -> None:
    calls = []

    @function
    def doubled(x: Any, factor: float = 2.0) -> Any:
        calls.append(factor)
        return x * factor

    with pytest.raises(TraceError, match="tracing it changed 'calls'"):
        doubled(Tensor([1.0]))
    traced = function(lambda x, factor=2.0: x * factor)
    for _ in range(3):
        traced(Tensor([1.0]))
    assert len(traced.traces) == 1
    assert traced(Tensor([1.0]), 3.0).item() == 3.0
    assert traced(Tensor([1.0, 2.0]), 3.0).tolist() == [3.0, 6.0]
    assert [trace.reason for trace in traced.traces] == [
        "it was called for the first time",
        "the structure of its arguments, its object or the recording of gradients changed",
        "argument 0 was float32[1] on cpu and is float32[2] on cpu",
    ]


def test_parameters_are_read_at_every_call() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    traced = function(lambda x: x * w)
    traced(Tensor([1.0, 1.0]))
    with no_grad():
        w += 10.0
    assert traced(Tensor([1.0, 1.0])).tolist() == [11.0, 12.0]
    assert len(traced.traces) == 1


def test_a_model_that_is_put_into_evaluation_is_traced_again() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    traced = function(lambda x: net(x))
    traced(Tensor(random(2, 4)))
    net.eval()
    traced(Tensor(random(2, 4)))
    assert traced.traces[1].reason == "net is not what it was"


def test_nested_arguments_and_results_keep_their_structure() -> None:
    @function
    def both(pair: Any, scale: int) -> Any:
        return {"sum": pair[0] + pair[1], "scale": scale}, [pair[0] * scale]

    one, two = both((Tensor([1.0]), Tensor([2.0])), 3)
    assert (one["sum"].item(), one["scale"], two[0].item()) == (3.0, 3, 3.0)


def test_a_method_is_traced_for_each_object() -> None:
    class Scaled(nn.Module):
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @function
        def forward(self, x: Any) -> Any:
            return x * self.factor

    assert [Scaled(factor)(Tensor([1.0])).item() for factor in (2.0, 3.0)] == [2.0, 3.0]


def test_what_changes_at_every_call_is_found_out() -> None:
    traced = function(lambda x, step: x * step, most=3)
    for step in range(3):
        traced(Tensor([1.0]), step)
    with pytest.raises(TraceError, match="traced 3 times.*pass it as a Tensor"):
        traced(Tensor([1.0]), 3)


def test_an_if_on_a_value_is_refused_with_its_line() -> None:
    def clipped(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(ValueError, match=r"no value while the graph is built \(made at test_function.py:\d+\)"):
        function(clipped)(Tensor([1.0]))
