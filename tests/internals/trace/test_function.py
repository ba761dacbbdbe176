"""A traced function is the function: the same values and gradients, traced again when what it depends on changed."""

from __future__ import annotations

import copy
import gc
import math
import re
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from internals import DeviceError, Tensor, grad, nn, no_grad, ops
from internals.autodiff import detect_anomaly, jvp, vmap
from internals.ops.table import execution_of
from internals.tensor import eager
from internals.trace import TraceError, function
from internals.trace.recording import is_tracing


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

    with pytest.raises(TraceError, match="tracing it changed what it reads: calls had 0 entries and has 1"):
        doubled(Tensor([1.0]))
    traced = function(lambda x, factor=2.0: x * factor)
    for _ in range(3):
        traced(Tensor([1.0]))
    assert len(traced.traces) == 1
    assert traced(Tensor([1.0]), 3.0).item() == 3.0
    assert traced(Tensor([1.0, 2.0]), 3.0).tolist() == [3.0, 6.0]
    assert [trace.reason for trace in traced.traces] == [
        "it was called for the first time",
        "its arguments were ((*,), {}) and are ((*, *), {})",
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
    assert traced.traces[1].reason == "net.training was True and is False"
    net.train()
    traced(Tensor(random(2, 4)))
    assert len(traced.traces) == 2


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


@pytest.mark.slow
def test_a_method_is_traced_for_each_object_and_goes_with_it() -> None:
    class Doubled(nn.Module):
        @function
        def forward(self, x: Any) -> Any:
            return x * 2

    net = Doubled()
    net(Tensor([1.0]))
    again = copy.deepcopy(net)
    assert again(Tensor([2.0])).item() == 4.0
    assert again.forward is not net.forward
    held, _ = weakref.ref(net), again.forward
    del net
    gc.collect()
    assert held() is None


def test_a_traced_method_in_a_traced_function_is_part_of_it() -> None:
    class Halved(nn.Module):
        def __init__(self) -> None:
            self.factor = 0.5

        @function
        def forward(self, x: Any) -> Any:
            return x * self.factor

    net = Halved()
    outer = function(lambda x: net(x) + 1)
    assert outer(Tensor([4.0])).item() == 3.0
    assert net.forward.traces == []
    net(Tensor([4.0]))  # from now on the object keeps a trace of its own, which is no change
    assert outer(Tensor([4.0])).item() == 3.0
    assert len(outer.traces) == 1
    net.factor = 0.25
    assert outer(Tensor([4.0])).item() == 2.0
    assert outer.traces[-1].reason == "net.factor was 0.5 and is 0.25"


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a number": (lambda kept: kept.update(factor=3.0), "kept.factor was 2.0 and is 3.0"),
    "a number of another type": (lambda kept: kept.update(factor=2), "kept.factor was 2.0 and is 2"),
    "the sign of zero": (lambda kept: kept.update(zero=-0.0), "kept.zero was 0.0 and is -0.0"),
    "a list that grew": (lambda kept: kept["sizes"].append(1), r"kept.sizes had 2 entries and has 3"),
    "an entry of a list": (lambda kept: kept["sizes"].__setitem__(1, 9), r"kept.sizes\[1\] was 5 and is 9"),
    "another Tensor": (lambda kept: kept.update(w=Tensor([1.0])), "kept.w is another Tensor"),
    "a Tensor of another dtype": (
        lambda kept: setattr(kept["w"], "data", np.ones(1)),
        r"kept.w was float32\[1\] and is float64\[1\] on cpu",
    ),
    "an object's attribute": (lambda kept: setattr(kept["object"], "a", "y"), "kept.object.a was 'x' and is 'y'"),
    "a new entry": (lambda kept: kept.update(new=1), "kept.new is new"),
    "an entry that is gone": (lambda kept: kept.pop("zero"), "kept.zero is gone"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_function_reads_is_guarded(change: str) -> None:
    class Thing:
        a = "x"

        def __init__(self) -> None:
            self.a = "x"

    kept: dict[str, Any] = {"factor": 2.0, "zero": 0.0, "sizes": [4, 5], "w": Tensor([1.0]), "object": Thing()}
    traced = function(lambda x: x * kept["factor"] + kept["w"] + float(len(kept["sizes"])))
    traced(Tensor([1.0]))
    traced(Tensor([1.0]))
    assert len(traced.traces) == 1
    do, reason = CHANGES[change]
    do(kept)
    traced(Tensor([1.0]))
    assert re.fullmatch(reason, traced.traces[1].reason)


def test_a_nan_among_the_arguments_is_one_value() -> None:
    traced = function(lambda x, bound: x * bound)
    for _ in range(3):
        traced(Tensor([1.0]), float("nan"))
    assert len(traced.traces) == 1
    assert math.copysign(1, traced(Tensor([1.0]), 0.0).item()) == 1
    assert math.copysign(1, traced(Tensor([1.0]), -0.0).item()) == -1


# Sizes


def test_a_size_that_changes_is_left_open() -> None:
    net = model()
    traced = function(lambda x: net(x).mean())
    for size in (4, 7, 9, 12, 4):
        x = Tensor(random(size, 6), requires_grad=True)
        found = []
        for run in (traced, traced.python):
            net.zero_grad()
            x.grad = None
            loss = run(x)
            loss.backward()
            found.append([loss.item(), x.grad.numpy(), *[p.grad.numpy() for p in net.parameters()]])
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
    assert [trace.signature for trace in traced.traces] == ["float32[4, 6] on cpu", "float32[?, 6] on cpu"]
    traced(Tensor(random(1, 6)))
    assert traced.traces[2].signature == "float32[1, 6] on cpu"  # 0 and 1 are never taken for any size


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * x.shape[0],
        lambda x: x.reshape(x.shape[0], -1),
        lambda x: sum(row for row in x),
        lambda x: x * float(x.size),
        lambda x: x + 1 if x.shape[0] == 5 else x,
        lambda x: x * len(x),
    ],
)
def test_a_program_that_reads_the_size_keeps_it(program: Callable[..., Any]) -> None:
    """What would be frozen in silence is found by comparing the programs."""
    traced = function(program)
    for size in (4, 5, 6):
        x = Tensor(random(size, 2))
        np.testing.assert_array_equal(traced(x).numpy(), program(x).numpy())
    assert [trace.is_open for trace in traced.traces] == [False] * 3


def test_sizes_declared_open_are_never_traced_again() -> None:
    traced = function(lambda x: (x * 2).sum(), open_sizes=True)
    for size in (3, 5, 8):
        assert traced(Tensor(np.ones((size, 2)))).item() == 4 * size
    assert traced.explain().splitlines()[1].startswith("1. (float64[?, 2] on cpu)")
    with pytest.raises(TraceError, match="A size that is left open is None"):
        function(lambda x: x * x.shape[0], open_sizes=True)(Tensor([1.0, 2.0]))
    unlike = function(lambda x: x + 1 if x.shape[0] == 5 else x, open_sizes=True)
    assert unlike(Tensor(np.ones(5))).tolist() == [1.0] * 5  # a size that is declared open is None, and equals nothing


# What else there is


def test_transformations_run_the_function_itself() -> None:
    traced = function(lambda x: (x * x).sum())
    x = Tensor(random(4, 3))
    value, tangent = jvp(traced, (x,), (x,))
    np.testing.assert_allclose(tangent.item(), 2 * value.item(), rtol=1e-6)
    np.testing.assert_allclose(vmap(traced)(x).numpy(), (x.numpy() ** 2).sum(1), rtol=1e-6)
    assert traced.traces == []


def test_anomaly_mode_and_autocast_see_every_operation() -> None:
    traced = function(lambda x: ops.log(x) * 2)
    with detect_anomaly(forward=True), pytest.raises(RuntimeError, match="log gave NaN"):
        traced(Tensor([-1.0], requires_grad=True))


def test_an_output_that_is_an_input_is_that_tensor() -> None:
    w = Tensor([1.0], requires_grad=True)
    same, captured = function(lambda x: (x, w))(given := Tensor([2.0], requires_grad=True))
    assert same is given
    assert captured is w


def test_devices_are_told_apart() -> None:
    traced = function(lambda x: x * 2)
    assert traced(Tensor([1.0])).device.name == "cpu"
    found = traced(Tensor([1.0], device="sim:0"))
    assert (found.device.name, found.tolist()) == ("sim:0", [2.0])
    assert traced.traces[1].reason == "argument 0 was float32[1] on cpu and is float32[1] on sim:0"
    with pytest.raises(DeviceError, match="cpu and sim:0|sim:0 and cpu"):
        function(lambda x, y: x + y)(Tensor([1.0]), Tensor([1.0], device="sim:0"))


@pytest.mark.parametrize("value", [0.0, float("nan"), -3.0, 1e30])
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 1)])
def test_odd_shapes_and_values(value: float, shape: tuple[int, ...]) -> None:
    def program(x: Any) -> Any:
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y, y.sum()

    x = Tensor(np.full(shape, value, np.float32))
    for one, other in zip(function(program)(x), program(x), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_threads_share_a_traced_function() -> None:
    traced = function(lambda x, n: x * n)
    wrong: list[Any] = []

    def work(n: int) -> None:
        for _ in range(30):
            if traced(Tensor([1.0]), n % 4).item() != n % 4 or (Tensor([2.0]) * 2).item() != 4:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(traced.traces) == 4


def test_nothing_is_left_behind_where_tracing_fails() -> None:
    before = Tensor.item, eager.binary, execution_of(Tensor)
    with pytest.raises(ZeroDivisionError):
        function(lambda x: x * (1 / 0))(Tensor([1.0]))
    assert (Tensor.item, eager.binary, execution_of(Tensor)) == before
    assert not is_tracing()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x: sorted([x.sum(), x.sum()]), r"a node has no value .*made at test_function.py:\d+"),
        (lambda x: x.numpy(), r"test_function.py:\d+: 'Node' object has no attribute 'numpy'"),
        (lambda x: x * GLOBAL.item(), r"test_function.py:\d+: item would read a Tensor's value once"),
        (lambda x: x * GLOBAL.tolist()[0], r"tolist would read a Tensor's value once"),
        (lambda x: x.sum().backward(), r"'Node' object has no attribute 'backward'.*trace.gradient"),
        (lambda x: {1, 2}, r"it returns a set; a traced function returns Tensors"),
        (lambda x: x @ x, r"matmul"),
    ],
)
def test_what_a_graph_cannot_do_is_refused_with_its_line(program: Callable[..., Any], message: str) -> None:
    with pytest.raises((TraceError, ValueError), match=message):
        function(program)(Tensor(np.ones((2, 3))))


GLOBAL = Tensor([2.0])


def test_settings_are_checked() -> None:
    with pytest.raises(TypeError, match="function: expected a function, got int"):
        function(3)
    with pytest.raises(ValueError, match="most must be a positive integer, got 0"):
        function(most=0)
