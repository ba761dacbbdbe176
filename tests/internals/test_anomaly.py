"""Anomaly mode names the line of the forward pass to which a NaN goes back."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from internals import Tensor, ops
from internals.autodiff import AnomalyError, detect_anomaly, gradient
from internals.ops.table import execution_of
from internals.tensor import eager


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def leaf(*values: float, where: str = "cpu") -> Tensor:
    return Tensor(list(values), requires_grad=True, device=where)


def root(x: Any) -> Any:
    h = x * 1.0
    y = ops.sqrt(h)  # here
    return (y * 0).sum()


def power(x: Any) -> Any:
    y = x**0.5  # here
    return (y * 0).sum()


def quotient(x: Any) -> Any:
    z = x * 0.0
    return (z * (x / z)).sum()  # here


def several(x: Any) -> Any:
    first, second = ops.split(ops.log(x) * 0, 1)  # here
    return first.sum() + second.sum()


@pytest.mark.parametrize("where", ["cpu", "sim:0"])
@pytest.mark.parametrize(("model", "op"), [(root, "sqrt"), (power, "pow"), (several, "log")])
def test_the_backward_pass_names_the_forward_line(model: Callable[[Any], Any], op: str, where: str) -> None:
    lines, first = inspect.getsourcelines(model)
    at = next(i for i, line in enumerate(lines) if "# here" in line)
    with pytest.raises(AnomalyError) as caught, detect_anomaly():
        model(leaf(0.0, 1.0, where=where)).backward()
    assert (caught.value.op, caught.value.filename, caught.value.line) == (op, __file__, first + at)
    message = str(caught.value)
    assert message.startswith(f"detect_anomaly: the gradient of {op} by its x is NaN, called in {__file__}")
    assert lines[at].strip() in message
    assert "test_the_backward_pass_names_the_forward_line" in message  # the calls that led there
    assert "eager.py" not in message


def test_the_forward_pass_if_asked() -> None:
    lines, first = inspect.getsourcelines(quotient)
    at = next(i for i, line in enumerate(lines) if "# here" in line)
    with pytest.raises(AnomalyError, match="div gave NaN") as caught, detect_anomaly(forward=True):
        quotient(Tensor([0.0, 1.0]))
    assert caught.value.line == first + at
    with pytest.raises(AnomalyError, match="log gave infinite"), detect_anomaly(forward=True, infinities=True):
        ops.log(Tensor([0.0]))
    with detect_anomaly(forward=True):
        ops.log(Tensor([0.0]))
        Tensor([np.nan]) + 1  # the input had it already
        ops.argmax(Tensor([1, 2]))


def test_infinities_in_the_backward_pass_if_asked() -> None:
    with detect_anomaly():
        ops.sqrt(leaf(0.0)).sum().backward()
    with pytest.raises(AnomalyError, match="gradient of sqrt by its x is infinite"), detect_anomaly(infinities=True):
        ops.sqrt(leaf(0.0)).sum().backward()


def test_recorded_outside() -> None:
    y = root(leaf(0.0))
    with pytest.raises(AnomalyError, match="recorded outside of detect_anomaly") as caught, detect_anomaly():
        y.backward()
    assert caught.value.line is None


def test_a_cotangent_that_is_nan_is_no_fault_of_the_rule() -> None:
    x = leaf(1.0)
    with detect_anomaly():
        (x * 2).backward(Tensor([np.nan]))
    assert np.isnan(x.grad.item())


def test_recorded_backward_passes_too() -> None:
    with pytest.raises(AnomalyError, match="gradient of sqrt"), detect_anomaly():
        root(leaf(0.0)).backward(create_graph=True)


def test_a_gradient_taken_by_vjp() -> None:
    with pytest.raises(AnomalyError, match="gave NaN"), detect_anomaly(forward=True):
        gradient(root)(Tensor([0.0]))


def test_nothing_is_left_behind() -> None:
    before = execution_of(Tensor), eager.binary
    with pytest.raises(AnomalyError), detect_anomaly(), detect_anomaly(forward=True):
        quotient(Tensor([0.0]))
    assert (execution_of(Tensor), eager.binary) == before
    with detect_anomaly():
        with detect_anomaly(forward=True):
            pass
        with pytest.raises(AnomalyError):
            root(leaf(0.0)).backward()
    x = leaf(0.0)
    root(x).backward()
    assert np.isnan(x.grad.item())
