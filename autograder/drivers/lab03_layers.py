"""Drivers for ``lab03_layers``: plain data in, calls of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


class Parameter:
    """What the notebook's Parameter is, and what an optimizer needs."""

    def __init__(self, value: np.ndarray, **more: Any) -> None:
        self.value = value
        self.gradient = np.zeros_like(value)
        self.velocity = np.zeros_like(value)
        for name, setting in more.items():
            setattr(self, name, setting)


def fc(
    names: Names, weight: np.ndarray, bias: np.ndarray, steps: list[list[np.ndarray]], layers: int
) -> dict[str, Any]:
    """Forward and backward, step after step, through `layers` layers that share one weight and one bias."""
    shared = Parameter(weight.copy()), Parameter(bias.copy())
    made = [names["FullyConnected"](*shared) for _ in range(layers)]
    outputs, by_inputs = [], []
    for x, g in steps:
        _lock(x, g)
        for one in made:
            x = _array("FullyConnected.forward", one.forward(x))
        outputs.append(np.array(x))
        for one in reversed(made):
            g = _array("FullyConnected.backward", one.backward(g))
        by_inputs.append(np.array(g))
    kept = np.array_equal(shared[0].value, weight) and np.array_equal(shared[1].value, bias)
    return {
        "outputs": outputs,
        "input_gradients": by_inputs,
        "weight_gradient": _array("weight.gradient", shared[0].gradient, got="is"),
        "bias_gradient": _array("bias.gradient", shared[1].gradient, got="is"),
        "changed": "" if kept else "value",
    }


def pool(names: Names, x: np.ndarray, g: np.ndarray, window: int, stride: int) -> dict[str, Any]:
    """A maximum over windows, and its backward pass."""
    _lock(x, g)
    layer = names["MaxPool"](window, stride)
    out = _array("MaxPool.forward", layer.forward(x))
    return {"output": np.array(out), "input_gradient": _array("MaxPool.backward", layer.backward(g))}


def order(names: Names, layers: list[list[Any]], repeat: int) -> dict[str, Any]:
    """The learner's order of a configuration, or the refusal.

    A layer is ``[name, bottoms]``. With `repeat` above 1 the configuration is repeated, and the first layer of each
    copy reads the last of the one before.
    """
    given = [{"name": name, "bottom": list(bottoms)} for name, bottoms in layers]
    if repeat > 1:
        given = [
            {"name": f"{name}/{copy}", "bottom": [f"{bottom}/{copy}" for bottom in bottoms]}
            for copy in range(repeat)
            for name, bottoms in layers
        ]
        for copy in range(1, repeat):
            given[copy * len(layers)]["bottom"].append(f"{layers[-1][0]}/{copy - 1}")
        given.reverse()
    before = [dict(one, bottom=list(one["bottom"])) for one in given]
    try:
        answer = names["order"](given)
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        return {"refused": str(error)[:500]}
    if isinstance(answer, (str, bytes, dict)) or not hasattr(answer, "__iter__"):
        raise TypeError(f"order returned {_kind(answer)}; expected a list of names.")
    found = []
    for name in answer:
        if not isinstance(name, str):
            raise TypeError(f"order returned a list with {_kind(name)} in it; expected names only.")
        found.append(name)
    return {"order": found, "changed": "" if given == before else "layers"}


def machine(
    names: Names, x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, threads: int, fault: int
) -> dict[str, Any]:
    """The learner's machine over a linear model with a mean squared error, twice, with the shares slowed differently.

    With `fault` at 0 or above, the share with that row fails.
    """
    runs: list[dict[str, Any]] = []
    for slowest in ("last", "first"):
        calls = _Calls(len(x), min(threads, len(x)), slowest, fault, weight, bias)
        batch = {"x": x.copy(), "y": y.copy(), "row": np.arange(len(x))}
        _lock(*batch.values())
        try:
            answer = names["forward_backward"](calls.step, batch, threads)
        except ArithmeticError as error:
            runs.append({"raised": type(error).__name__})
            continue
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise TypeError(f"forward_backward returned {_kind(answer)}; expected (loss, gradients).")
        loss, gradients = answer
        if not isinstance(gradients, dict):
            raise TypeError(f"the gradients of forward_backward are {_kind(gradients)}; expected a dict, by name.")
        runs.append(
            {
                "loss": float(loss),
                "gradients": {
                    str(name): _array(f"gradients[{name!r}]", gradient, got="is")
                    for name, gradient in gradients.items()
                },
                "shares": sorted(calls.shares),
                "at_once": calls.at_once,
            }
        )
    return {"runs": runs}


class _Calls:
    """A step to hand to the learner's machine, which notes which rows it was given, and whether others ran too."""

    def __init__(
        self, rows: int, expected: int, slowest: str, fault: int, weight: np.ndarray, bias: np.ndarray
    ) -> None:
        self.rows, self.slowest, self.fault, self.weight, self.bias = rows, slowest, fault, weight, bias
        self.meeting = threading.Barrier(expected)
        self.at_once = True
        self.shares: list[list[int]] = []
        self.lock = threading.Lock()

    def step(self, batch: Any) -> tuple[float, dict[str, np.ndarray]]:
        """The loss of a share, and the gradients of that loss."""
        if not isinstance(batch, dict) or set(batch) != {"x", "y", "row"}:
            raise TypeError(f"step was given {_kind(batch)}; it takes a dict with the same entries as the batch.")
        x, y, row = (np.asarray(batch[name]) for name in ("x", "y", "row"))
        if not len(x) == len(y) == len(row):
            raise ValueError(f"step was given {len(x)} rows of x, {len(y)} of y and {len(row)} of row.")
        with self.lock:
            self.shares.append(row.tolist())
        try:
            self.meeting.wait(timeout=0.25)
        except threading.BrokenBarrierError:
            self.at_once = False
        if len(row) and self.at_once:
            place = float(row[0]) / self.rows
            time.sleep(0.01 * (place if self.slowest == "last" else 1 - place))
        if self.fault in row:
            raise FloatingPointError("step: this share has a row that can't be computed")
        with np.errstate(all="ignore"):
            n = len(x)
            error = x @ self.weight + self.bias - y
            loss = float(np.sum(error * error)) / n if n else float("nan")
            by_error = error * (x.dtype.type(2) / x.dtype.type(n if n else np.nan))
        gradients = {"weight": x.T @ by_error, "bias": by_error.sum(axis=0)}
        _lock(*gradients.values())
        return loss, gradients


def update(
    names: Names,
    values: list[np.ndarray],
    multipliers: list[list[float]],
    steps: list[dict[str, Any]],
    momentum: float,
    decay: float,
) -> dict[str, Any]:
    """Values and velocities after some steps, and what a thread sees that holds the arrays of the beginning."""
    parameters = [
        Parameter(value.copy(), lr_mult=lr_mult, decay_mult=decay_mult)
        for value, (lr_mult, decay_mult) in zip(values, multipliers, strict=True)
    ]
    held = [parameter.value for parameter in parameters]
    for step in steps:
        for parameter, gradient in zip(parameters, step["gradients"], strict=True):
            parameter.gradient = np.array(gradient)
        names["update"](parameters, step["lr"], momentum, decay)
        if len(parameters) != len(held):
            break  # the next step would have gradients without a parameter
    return {
        "values": [_array("value", parameter.value, got="is") for parameter in parameters],
        "velocities": [_array("velocity", parameter.velocity, got="is") for parameter in parameters],
        "gradients": [_array("gradient", parameter.gradient, got="is") for parameter in parameters],
        "held": held,
    }


def _lock(*arrays: np.ndarray) -> None:
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False


def _array(name: str, answer: Any, got: str = "returned") -> Any:
    if not isinstance(answer, (np.ndarray, np.generic)):
        raise TypeError(f"{name} {got} {_kind(answer)}; expected an array.")
    return np.asarray(answer)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}{size}"
