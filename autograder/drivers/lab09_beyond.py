"""Drivers for ``lab09_beyond``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]

BINARY = ("add", "mul", "div", "matmul")


def rules(names: Names, op: str, dx: Any, dy: Any, x: Any, y: Any, lifted: bool) -> Any:
    """The tangent that the learner's forward rule gives, on arrays or on values that only operations run on."""
    given = [dx, dy, x, y] if op in BINARY else [dx, x]
    for one in given:
        if isinstance(one, np.ndarray):
            one.flags.writeable = False
    if lifted:
        given = [names["Lifted"](one, 0) if isinstance(one, np.ndarray) else one for one in given]
    name = f"{op}_jvp"
    answer = names[name](*given)
    if lifted and isinstance(answer, names["Lifted"]):
        answer = answer.value
    if not isinstance(answer, (np.ndarray, np.generic)):
        raise TypeError(f"{name} returned {_kind(answer)}; expected one tangent, an array.")
    return answer


def jvp(names: Names, program: str, values: dict[str, Any], moves: dict[str, Any]) -> list[Any]:
    """Value and tangent of a program, by the learner's jvp; None for an argument that does not move."""
    found = dict(names) | {name: value for name, value in values.items() if name not in moves}
    function = eval(f"lambda {', '.join(moves)}: {program}", found)  # a program from the spec
    answer = names["jvp"](function, tuple(values[name] for name in moves), tuple(moves.values()))
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise TypeError(f"jvp returned {_kind(answer)}; expected a pair (value, tangent).")
    return [_array("the value", answer[0]), _array("the tangent", answer[1])]


def jacobian(names: Names, first: np.ndarray, second: np.ndarray, x: np.ndarray, outer: list[int]) -> dict[str, Any]:
    """The Jacobian of ``second @ tanh(first @ x)`` that the learner builds, and how many products it took."""
    slope = 1 - np.tanh(first @ x.ravel()) ** 2
    shape, calls = tuple(outer), [0]

    def product(one: Any, wanted: tuple[int, ...], word: str) -> np.ndarray:
        calls[0] += 1
        if np.shape(one) != wanted:
            raise ValueError(f"{word} was given an array of shape {np.shape(one)}; it takes {wanted}.")
        return np.asarray(one, dtype=np.float64).ravel()

    def push(t: Any) -> np.ndarray:
        return (second @ (slope * (first @ product(t, x.shape, "push")))).reshape(shape)

    def pull(g: Any) -> np.ndarray:
        return (first.T @ (slope * (second.T @ product(g, shape, "pull")))).reshape(x.shape)

    answer = names["jacobian"](push, pull, x.shape, shape)
    return {"jacobian": _array("jacobian's result", answer), "calls": calls[0]}


def hvp(names: Names, program: str, values: dict[str, Any], v: np.ndarray) -> dict[str, Any]:
    """A Hessian-vector product of a program in x, and how often the program ran."""
    program_of = eval(f"lambda x: {program}", dict(names) | {name: one for name, one in values.items() if name != "x"})
    calls = [0]

    def function(x: Any) -> Any:
        calls[0] += 1
        return program_of(x)

    answer = names["hvp"](function, values["x"], v)
    return {"product": _array("hvp's result", answer), "calls": calls[0]}


def solve(names: Names, matrix: np.ndarray, b: np.ndarray, tolerance: float, limit: int) -> dict[str, Any]:
    """What the learner's conjugate gradients find, and how many products they took."""
    calls = [0]
    for array in (matrix, b):
        array.flags.writeable = False

    def product(v: Any) -> np.ndarray:
        calls[0] += 1
        if calls[0] > 1000:
            raise RuntimeError(f"product was called 1000 times; the limit was {limit}.")
        return matrix @ v

    answer = names["conjugate_gradient"](product, b, tolerance, limit)
    return {"p": _array("conjugate_gradient's result", answer), "calls": calls[0]}


class State:
    """A state of the chain, which is counted for as long as it is held."""

    __slots__ = ("__weakref__", "index", "value")
    alive: weakref.WeakSet[State] = weakref.WeakSet()

    def __new__(cls, *_: Any) -> State:
        made = super().__new__(cls)
        cls.alive.add(made)
        return made

    def __init__(self, index: int, value: np.ndarray) -> None:
        self.index, self.value = index, value

    def __repr__(self) -> str:
        return f"<state {self.index}>"


def reverse(names: Names, weights: np.ndarray, x: np.ndarray, g: np.ndarray, slots: int) -> dict[str, Any]:
    """The cotangent of the first state, how often a step ran, and the last one, and the most states held beside the
    first and the one in use."""
    State.alive = weakref.WeakSet()
    start, runs, last, most = State(0, x), [0], [0], [0]

    def used(word: str, i: Any, state: Any) -> np.ndarray:
        if not isinstance(state, State):
            raise TypeError(f"{word} was given {_kind(state)} as its state; it takes what forward gave, or x.")
        if state.index != i:
            raise ValueError(f"{word}({i}, ...) was given state {state.index}; it takes state {i}.")
        if not 0 <= i < len(weights):
            raise ValueError(f"{word}({i}, ...): the steps are numbered 0 to {len(weights) - 1}.")
        if _held(start, state) > slots:
            gc.collect()
        most[0] = max(most[0], _held(start, state))
        return state.value

    def forward(i: int, state: Any) -> State:
        value = used("forward", i, state)
        runs[0] += 1
        last[0] += i == len(weights) - 1
        if runs[0] > 200_000:
            raise RuntimeError("forward was called 200,000 times; the chain is far shorter.")
        return State(i + 1, value + weights[i] * np.sin(value))

    def backward(i: int, state: Any, g: Any) -> np.ndarray:
        value = used("backward", i, state)
        return np.asarray(g) * (1 + weights[i] * np.cos(value))

    answer = names["reverse_chain"](forward, backward, start, g, len(weights), slots)
    return {"gradient": _array("reverse_chain's result", answer), "runs": runs[0], "last": last[0], "kept": most[0]}


def _held(*apart: State) -> int:
    return sum(1 for state in State.alive if state not in apart)


def _array(what: str, answer: Any) -> Any:
    if isinstance(answer, float):
        return np.float64(answer)
    if not isinstance(answer, (np.ndarray, np.generic)):
        raise TypeError(f"{what} is {_kind(answer)}; expected an array.")
    return answer


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    size = f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return f"{article} {type(value).__name__}{size}"
