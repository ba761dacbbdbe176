"""Drivers for ``lab07_tracing``: plain data in, a call of what the learner wrote, plain data out. No answers here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Names = Mapping[str, Any]


def record(names: Names, text: str, n: int, arrays: list[np.ndarray]) -> list[Any]:
    """The program of a function that is given as text, recorded twice; another function is recorded in between."""
    bound = dict(names)
    exec(text, bound)
    first = _plain("record", names["record"](bound["f"], n))
    names["record"](lambda x: (x * x).tanh() + 1.0, 1)
    return [first, _plain("record", names["record"](bound["f"], n))]


def replay(names: Names, program: list[Any], arrays: list[np.ndarray]) -> list[Any]:
    """The result, and the operations that ran; or that the arrays were refused."""
    for array in arrays:
        array.flags.writeable = False
    ran: list[str] = []

    def counted(op: str, kernel: Any) -> Any:
        def run(*operands: Any) -> Any:
            ran.append(op)
            return kernel(*operands)

        return run

    kernels = {op: counted(op, kernel) for op, kernel in names["KERNELS"].items()}
    try:
        answer = names["replay"](_program(names, program), list(arrays), kernels)
    except ValueError:
        return ["ValueError", []]
    if not isinstance(answer, (np.ndarray, np.generic)):
        raise TypeError(f"replay returned {type(answer).__name__}; expected one array.")
    return [np.asarray(answer), ran]


def signature(names: Names, calls: list[dict[str, Any]]) -> list[bool]:
    """Which calls are traced, where a trace is kept under the signature of its call."""
    kept: set[Any] = set()
    traced = []
    for call in calls:
        key = names["signature"](tuple(call["args"]), dict(call["state"]))
        traced.append(key not in kept)
        kept.add(key)
    return traced


def prune(names: Names, program: list[Any], arrays: list[np.ndarray]) -> Any:
    """The program without its dead steps."""
    given = _program(names, program)
    answer = _plain("prune", names["prune"](given))
    if _plain("prune", given) != _plain("prune", _program(names, program)):
        raise ValueError("prune changed the program it was given.")
    return answer


def merge(names: Names, programs: list[Any], arrays: list[np.ndarray]) -> Any:
    """One program that runs a test and both branches, and chooses."""
    return _plain("merge", names["merge"](*[_program(names, program) for program in programs]))


def _program(names: Names, program: list[Any]) -> Any:
    inputs, steps, result = program
    made = [names["Step"](op, tuple(operands)) for op, operands in steps]
    return names["Program"](inputs, made, result)


def _plain(name: str, program: Any) -> list[Any]:
    """A program as lists, numbers and text."""
    try:
        inputs, steps, result = program
        return [int(inputs), [[str(op), [_operand(one) for one in operands]] for op, operands in steps], int(result)]
    except (TypeError, ValueError) as error:
        kind = "None" if program is None else f"a {type(program).__name__}"
        raise TypeError(f"{name} returned {kind} that is no Program(inputs, steps, result): {error}") from None


def _operand(value: Any) -> int | float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"an operand is a slot (an int) or a constant (a float), not a {type(value).__name__}.")
    return int(value) if isinstance(value, (int, np.integer)) else float(value)
