"""``lab09_beyond``: forward mode and what it makes possible, each piece asked of torch, TensorFlow and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.literal import literal
from autograder.spec import Lab, Task
from autograder.specs import _lab09_beyond_cases as cases
from autograder.specs import _lab09_beyond_judges as judges
from autograder.specs import _lab09_beyond_oracles as oracles
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def _given(value: Any) -> str:
    return source(value) if isinstance(value, np.ndarray) else repr(value)


def replay_rules(op: str, dx: Any, dy: Any, x: Any, y: Any, lifted: bool) -> str:
    given = {"dx": dx, "x": x} if y is None else {"dx": dx, "dy": dy, "x": x, "y": y}
    lines = [f"{name} = {_given(value)}" for name, value in given.items()]
    passed = [f"Lifted({name}, 0)" if lifted and isinstance(one, np.ndarray) else name for name, one in given.items()]
    return "\n".join([*lines, f"{op}_jvp({', '.join(passed)})" + (".value" if lifted else "")])


def replay_jvp(program: str, values: dict[str, Any], moves: dict[str, Any]) -> str:
    lines = [f"{name} = {_given(value)}" for name, value in values.items()]
    comma = "," if len(moves) == 1 else ""
    moved = ", ".join(_given(one) for one in moves.values())
    lines.append(f"f = lambda {', '.join(moves)}: {program}")
    return "\n".join([*lines, f"jvp(f, ({', '.join(moves)}{comma}), ({moved}{comma}))"])


def replay_jacobian(first: np.ndarray, second: np.ndarray, x: np.ndarray, outer: list[int]) -> str:
    return "\n".join(
        [
            f"first, second = {source(first)}, {source(second)}",
            f"x = {source(x)}",
            "slope = 1 - np.tanh(first @ x.ravel()) ** 2",
            f"push = lambda t: (second @ (slope * (first @ t.ravel()))).reshape({tuple(outer)})",
            "pull = lambda g: (first.T @ (slope * (second.T @ g.ravel()))).reshape(x.shape)",
            f"jacobian(push, pull, x.shape, {tuple(outer)})",
        ]
    )


def replay_hvp(program: str, values: dict[str, Any], v: np.ndarray) -> str:
    lines = [f"{name} = {_given(value)}" for name, value in values.items()]
    return "\n".join([*lines, f"v = {source(v)}", f"hvp(lambda x: {program}, x, v)"])


def replay_solve(matrix: np.ndarray, b: np.ndarray, tolerance: float, limit: int) -> str:
    return "\n".join(
        [
            f"matrix = {source(matrix)}",
            f"b = {source(b)}",
            f"conjugate_gradient(lambda v: matrix @ v, b, {tolerance}, {limit})",
        ]
    )


def replay_reverse(weights: np.ndarray, x: np.ndarray, g: np.ndarray, slots: int) -> str:
    return "\n".join(
        [
            f"weights = {source(weights)}",
            f"x, g = {source(x)}, {source(g)}",
            "forward = lambda i, state: state + weights[i] * np.sin(state)",
            "backward = lambda i, state, g: g * (1 + weights[i] * np.cos(state))",
            f"reverse_chain(forward, backward, x, g, {len(weights)}, {slots})",
        ]
    )


# --- answers in the words of the lab -------------------------------------------------------------------


def show_jvp(answer: Any) -> str:
    value, tangent = answer
    return f"value = {literal(value)}\ntangent = {literal(tangent)}"


def show_jacobian(answer: Any) -> str:
    return f"{literal(answer['jacobian'])}\nproducts: {answer['calls']}"


def show_hvp(answer: Any) -> str:
    return f"{literal(answer['product'])}\nruns of f: {answer['calls']}"


def show_solve(answer: Any) -> str:
    return f"{literal(answer['p'])}\nproducts: {answer['calls']}"


def show_reverse(answer: Any) -> str:
    return f"{literal(answer['gradient'])}\nruns of forward: {answer['runs']}\nstates held: {answer['kept']}"


# --- the tasks ----------------------------------------------------------------------------------------

CALLED = ("exp", "log", "sin", "cos", "tanh", "softmax", "total", "spread")
"""What a program calls."""

TANGENTS = Task(
    name="tangents",
    title="Six forward rules",
    points=20,
    names=("add_jvp", "mul_jvp", "div_jvp", "matmul_jvp", "tanh_jvp", "softmax_jvp", "Lifted"),
    driver="rules",
    call=replay_rules,
    show=literal,
    strategy=cases.rules_strategy,
    edges=cases.rules_edges,
    oracles={"torch": oracles.rules_torch, "tensorflow": oracles.rules_tensorflow, "numpy": oracles.rules_complex},
    examples=40,
    hints={
        "none_used": "A tangent of None stands for zero: leave out its term.",
        "broadcast": "The tangent of a result has the shape of the result.",
    },
)

JVP = Task(
    name="jvp",
    title="Dual numbers, and jvp inside jvp",
    points=20,
    names=("Dual", "jvp", *CALLED),
    driver="jvp",
    call=replay_jvp,
    show=show_jvp,
    strategy=cases.jvp_strategy,
    edges=cases.jvp_edges,
    oracles={"torch": oracles.jvp_torch, "tensorflow": oracles.jvp_tensorflow, "numpy": oracles.jvp_jets},
    judge=judges.jvp,
    hints={
        "attribute": "What comes out of f may be of another level, or no Dual at all: its derivative is then zero.",
        "none_used": "A tangent of None stands for zero.",
    },
)

JACOBIAN = Task(
    name="jacobian",
    title="A Jacobian, by rows or by columns",
    points=10,
    names=("jacobian",),
    driver="jacobian",
    call=replay_jacobian,
    show=show_jacobian,
    strategy=cases.jacobian_strategy,
    edges=cases.jacobian_edges,
    oracles={
        "torch": oracles.jacobian_torch,
        "tensorflow": oracles.jacobian_tensorflow,
        "numpy": oracles.jacobian_complex,
    },
    judge=judges.jacobian,
    hints={"none_used": "push and pull return an array; its shape is that of the output, or of the input."},
)

HVP = Task(
    name="hvp",
    title="The Hessian times a vector",
    points=15,
    names=("hvp", "jvp", *CALLED),
    driver="hvp",
    call=replay_hvp,
    show=show_hvp,
    strategy=cases.hvp_strategy,
    edges=cases.hvp_edges,
    oracles={"torch": oracles.hvp_torch, "tensorflow": oracles.hvp_tensorflow, "numpy": oracles.hvp_jets},
    judge=judges.hvp,
    hints={
        "attribute": "What runs inside your jvp sees Dual numbers: use the notebook's functions, not those of NumPy."
    },
)

SOLVE = Task(
    name="solve",
    title="Solving with products alone: conjugate gradients",
    points=15,
    names=("conjugate_gradient",),
    driver="solve",
    call=replay_solve,
    show=show_solve,
    strategy=cases.solve_strategy,
    edges=cases.solve_edges,
    oracles={"torch": oracles.solve_torch, "tensorflow": oracles.solve_tensorflow, "numpy": oracles.solve_numpy},
    judge=judges.solve,
    hints={"read_only": "b belongs to the caller: make new arrays instead of writing into it."},
)

REVERSE = Task(
    name="reverse",
    title="Going back along a chain with little memory",
    points=20,
    names=("reverse_chain",),
    driver="reverse",
    call=replay_reverse,
    show=show_reverse,
    strategy=cases.reverse_strategy,
    edges=cases.reverse_edges,
    oracles={
        "torch": oracles.reverse_torch,
        "tensorflow": oracles.reverse_tensorflow,
        "numpy": oracles.reverse_product,
    },
    judge=judges.reverse,
    limit=4.0,
    hints={"time": "A table of costs by steps and slots is filled once; without it the same question is asked again."},
)

lab = Lab(
    name="lab09_beyond",
    title="Beyond reverse mode: tangents, second derivatives, memory",
    tasks=(TANGENTS, JVP, JACOBIAN, HVP, SOLVE, REVERSE),
)
