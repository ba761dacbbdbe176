"""Programs of ``lab07_tracing`` as plain data, run by us: ``[inputs, [[op, operands], ...], result]``.

An operand that is an int is a slot, one that is a float a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

KERNELS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "matmul": np.matmul,
    "neg": np.negative,
    "exp": np.exp,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sum": np.sum,
    "greater": np.greater,
    "where": np.where,
}

ARITY = {"neg": 1, "exp": 1, "tanh": 1, "relu": 1, "sum": 1, "where": 3}


def fault(program: Any, inputs: int) -> str:
    """What is wrong with the form of a program that came out of a sandbox; empty if nothing is."""
    try:
        n, steps, result = program
        if type(n) is not int or n != inputs:
            return f"The program says that it has {n} inputs; it has {inputs}."
        for i, (op, operands) in enumerate(steps):
            if op not in KERNELS:
                return f"Step {i} is {op!r}, which is no operation."
            if len(operands) != ARITY.get(op, 2):
                return f"Step {i}, {op}, has {len(operands)} operands; it takes {ARITY.get(op, 2)}."
            for one in operands:
                if type(one) is int and not 0 <= one < n + i:
                    return (
                        f"Step {i}, {op}, reads slot {one}, which is not filled then: there are {n} inputs, and step "
                        f"{i} fills slot {n + i}."
                    )
                if type(one) not in (int, float):
                    return f"Step {i} has an operand {one!r}; expected a slot (an int) or a constant (a float)."
        if type(result) is not int or not 0 <= result < n + len(steps):
            return f"The result is said to be in slot {result!r}; there are slots 0 to {n + len(steps) - 1}."
    except (TypeError, ValueError):
        return "This is no Program(inputs, steps, result)."
    return ""


def run(program: Any, arrays: list[Any], kernels: Mapping[str, Any] = KERNELS) -> Any:
    """The result of a program that has the right form."""
    _, steps, result = program
    slots = list(arrays)
    for op, operands in steps:
        slots.append(kernels[op](*[slots[one] if isinstance(one, int) else one for one in operands]))
    return slots[result]


def needed(program: Any) -> list[int]:
    """The numbers of the steps that the result needs, by reading backwards."""
    n, steps, result = program
    wanted = {result}
    for i in reversed(range(len(steps))):
        if n + i in wanted:
            wanted |= {one for one in steps[i][1] if isinstance(one, int)}
    return [i for i in range(len(steps)) if n + i in wanted]


def in_torch(torch: Any) -> dict[str, Any]:
    def where(test: Any, one: Any, two: Any) -> Any:
        return torch.where(test, torch.as_tensor(one), torch.as_tensor(two))

    return {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "matmul": torch.matmul,
        "neg": torch.neg,
        "exp": torch.exp,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "sum": torch.sum,
        "greater": lambda a, b: a > b,
        "where": where,
    }


def in_tensorflow(tf: Any) -> dict[str, Any]:
    return {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "matmul": tf.matmul,
        "neg": tf.negative,
        "exp": tf.exp,
        "tanh": tf.tanh,
        "relu": tf.nn.relu,
        "sum": tf.reduce_sum,
        "greater": lambda a, b: a > b,
        "where": tf.where,
    }
