"""The inputs ``lab07_tracing`` is tried on: functions as text, programs as data, sequences of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs


def numbers(rng: np.random.Generator, *shape: int, dtype: str = "float64") -> np.ndarray:
    """Random numbers of either sign with two digits, none near zero."""
    values = rng.uniform(0.3, 1.8, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(np.round(values, 2), dtype=dtype)


def drawn(build: Callable[[np.random.Generator], Inputs]) -> Any:
    """A strategy whose cases come from a drawn seed."""
    from hypothesis import strategies as st

    return st.integers(0, 2**32 - 1).map(lambda seed: build(np.random.default_rng(seed)))


# --- record -----------------------------------------------------------------------------------------

FUNCTIONS = [
    ("def f(x):\n    return x", 1),
    ("def f(x, y):\n    return y", 2),
    ("def f(x):\n    return x * 2.0", 1),
    ("def f(x):\n    return 2.0 - x", 1),
    ("def f(x):\n    return 1.0 / x", 1),
    ("def f(x):\n    return x - x * x", 1),
    ("def f(x, y):\n    return (x + y) * (x - y)", 2),
    ("def f(x, y):\n    unused = x * y\n    return x.tanh()", 2),
    ("def f(x, y):\n    z = x.tanh()\n    unused = z * y\n    return z", 2),
    ("def f(x, y):\n    unused = x * y\n    return x", 2),
    ("def f(x):\n    y = x.tanh()\n    return y * y + y", 1),
    ("def f(x, y):\n    for i in range(3):\n        x = x * float(i) + y\n    return x", 2),
    ("def f(x, y, z):\n    return (-x).exp() / (y.relu() + 1.0) - z.sum()", 3),
    ("def f(x, y):\n    def g(z):\n        return (z * 3.0).tanh()\n    return g(x) + g(y)", 2),
    (
        "def f(x):\n    n = 0\n    y = x\n    while n < 4:\n        y = y + x\n        n += 1\n    return y",
        1,
    ),
    ("def f(x, y):\n    return y if len([x]) == 2 else x / y", 2),
]


def record_case(rng: np.random.Generator, text: str, n: int) -> Inputs:
    return {"text": text, "n": n, "arrays": [numbers(rng, 3) for _ in range(n)]}


def record_edges(rng: np.random.Generator) -> list[Inputs]:
    return [record_case(rng, text, n) for text, n in FUNCTIONS]


def record_strategy() -> Any:
    def build(rng: np.random.Generator) -> Inputs:
        n = int(rng.integers(1, 4))
        names = ["x", "y", "z"][:n]
        lines = []
        for i in range(int(rng.integers(1, 6))):
            lines.append(f"    v{i} = {_expression(rng, names)}")
            names.append(f"v{i}")
        text = "\n".join([f"def f({', '.join(names[:n])}):", *lines, f"    return {names[-1]}"])
        return record_case(rng, text, n)

    return drawn(build)


def _expression(rng: np.random.Generator, names: list[str]) -> str:
    one, two = (names[int(rng.integers(len(names)))] for _ in range(2))
    constant = float(np.round(rng.uniform(0.5, 2), 1))
    forms = [
        f"{one} + {two}", f"{one} - {two}", f"{one} * {two}", f"{constant} - {one}", f"{one} * {constant}",
        f"{constant} / ({one} * {one} + 1.0)", f"-{one}", f"{one}.tanh()", f"{one}.relu()", f"({one} + {two}).tanh()",
        f"{one} / {constant}", f"{constant} + {one}", f"{one} - {constant}",
    ]  # fmt: skip
    return forms[int(rng.integers(len(forms)))]


# --- programs ----------------------------------------------------------------------------------------


def random_program(rng: np.random.Generator, n: int, length: int, dead: float = 0.0) -> list[Any]:
    """A program whose values stay of one shape; with `dead`, steps that lead nowhere."""
    steps: list[Any] = []
    live = list(range(n))
    for i in range(length):
        op = str(rng.choice(["add", "sub", "mul", "div", "tanh", "neg", "relu"]))
        operands: list[Any] = [int(rng.choice(live))]
        if op in ("add", "sub", "mul"):
            other: Any = int(rng.choice(live)) if rng.random() < 0.7 else float(np.round(rng.uniform(0.5, 2), 1))
            operands = [other, *operands] if rng.random() < 0.5 else [*operands, other]
        elif op == "div":
            operands = [*operands, float(np.round(rng.uniform(1, 2), 1))]
        steps.append([op, operands])
        if rng.random() >= dead:
            live.append(n + i)
    return [n, steps, live[-1]]


def replay_case(rng: np.random.Generator, program: list[Any], shape: tuple[int, ...] = (3,), **more: Any) -> Inputs:
    count = more.get("count", program[0])
    return {
        "program": program,
        "arrays": [numbers(rng, *shape, dtype=more.get("dtype", "float64")) for _ in range(count)],
    }


def replay_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        replay_case(rng, [1, [], 0]),
        replay_case(rng, [2, [], 1]),
        replay_case(rng, [1, [["mul", [0, 2.0]]], 1]),
        replay_case(rng, [1, [["sub", [2.0, 0]]], 1]),
        replay_case(rng, [2, [["sub", [0, 1]], ["mul", [2, 2]], ["add", [3, 0]]], 4]),
        replay_case(rng, [2, [["sub", [1, 0]], ["tanh", [2]], ["exp", [0]]], 3]),
        replay_case(rng, [1, [["tanh", [0]], ["sum", [1]]], 2], (2, 3)),
        replay_case(rng, [2, [["matmul", [0, 1]], ["relu", [2]]], 3], (2, 2)),
        replay_case(rng, [1, [["mul", [0, 0.5]], ["add", [1, 1.0]]], 2], (), dtype="float32"),
        replay_case(rng, [1, [["mul", [0, 0.1]], ["add", [1, 3.0]]], 2], (4,), dtype="float32"),
        replay_case(rng, [1, [["neg", [0]]], 1], (0,)),
        replay_case(rng, [2, [["add", [0, 1]]], 2], count=1),
        replay_case(rng, [2, [["add", [0, 1]]], 2], count=3),
        replay_case(rng, [1, [["neg", [0]]], 1], count=2),
        replay_case(rng, [1, [["greater", [0, 0.0]], ["where", [1, 0, 0.5]]], 2], (5,)),
    ]


def replay_strategy() -> Any:
    def build(rng: np.random.Generator) -> Inputs:
        n = int(rng.integers(1, 4))
        program = random_program(rng, n, int(rng.integers(1, 7)))
        return replay_case(rng, program, (int(rng.integers(1, 4)),), dtype=str(rng.choice(["float32", "float64"])))

    return drawn(build)


# --- signature ----------------------------------------------------------------------------------------


def call(*args: Any, **state: Any) -> dict[str, Any]:
    return {"args": list(args), "state": state}


def signature_edges(rng: np.random.Generator) -> list[Inputs]:
    def x(*shape: int, dtype: str = "float64") -> np.ndarray:
        return numbers(rng, *shape, dtype=dtype)

    same = x(3)
    sequences = [
        [call(x(3)), call(x(3)), call(x(4)), call(x(3))],
        [call(same), call(same), call(same * 2)],
        [call(x(3)), call(x(3, dtype="float32")), call(x(3, dtype="float32")), call(x(3))],
        [call(x(3)), call(x(1, 3)), call(x(3, 1)), call(x(1, 3))],
        [call(x()), call(x(1)), call(x())],
        [call(x(3), 2), call(x(3), 3), call(x(3), 2)],
        [call(x(3), 1), call(x(3), 1.0), call(x(3), True), call(x(3), 1)],
        [call(x(3), 0), call(x(3), False), call(x(3), 0.0), call(x(3), None)],
        [call(x(3), "relu"), call(x(3), "tanh"), call(x(3), "relu")],
        [call(x(3), [1, 2]), call(x(3), [1, 3]), call(x(3), [1, 2]), call(x(3), [1, 2, 3])],
        [call(x(3), 0.0), call(x(3), -0.0), call(x(3), 0.0)],
        [call(x(3), float("nan")), call(x(3), float("nan"))],
        [call(x(3), x(2)), call(x(2), x(3)), call(x(3), x(2))],
        [call(x(3)), call(x(3), x(3)), call(x(3))],
        [call(x(3), training=True), call(x(3), training=False), call(x(3), training=True)],
        [call(x(3), rate=1), call(x(3), rate=1.0), call(x(3), rate=2)],
        [call(x(3), a=1, b=2), call(x(3), b=2, a=1), call(x(3), a=2, b=1)],
        [call(x(3), a=1), call(x(3), b=1), call(x(3), a=1)],
        [call(x(3), sizes=[4, 5]), call(x(3), sizes=[4, 6]), call(x(3), sizes=[4, 5])],
        [call(x(3), weight=x(2)), call(x(3), weight=x(2)), call(x(3), weight=x(4))],
        [call(x(3), 1), call(x(3), k=1), call(1, x(3))],
        [call(2, 3), call(3, 2), call(2, 3)],
        [call(x(2), [1, True]), call(x(2), [1, 1]), call(x(2), [1.0, 1])],
        [call(x(0)), call(x(0)), call(x(0, 2))],
    ]
    return [{"calls": calls} for calls in sequences]


def signature_strategy() -> Any:
    def build(rng: np.random.Generator) -> Inputs:
        values: list[Any] = [0, 1, 1.0, True, False, 0.0, "a", None, [1, 2], [1, 2.0]]

        def one() -> dict[str, Any]:
            shape = [(2,), (3,), (2, 1)][int(rng.integers(3))]
            array = numbers(rng, *shape, dtype=str(rng.choice(["float32", "float64"])))
            return call(array, values[int(rng.integers(len(values)))], mode=values[int(rng.integers(3))])

        return {"calls": [one() for _ in range(int(rng.integers(2, 7)))]}

    return drawn(build)


# --- prune --------------------------------------------------------------------------------------------


def prune_edges(rng: np.random.Generator) -> list[Inputs]:
    programs = [
        [1, [["neg", [0]], ["tanh", [0]]], 2],
        [1, [["tanh", [0]], ["neg", [0]]], 1],
        [2, [["add", [0, 1]]], 1],
        [2, [["neg", [1]]], 0],
        [1, [["tanh", [0]], ["exp", [1]]], 0],
        [1, [], 0],
        [2, [["mul", [0, 2.0]], ["add", [0, 1]], ["tanh", [3]], ["neg", [2]], ["sub", [1.0, 4]]], 6],
        [1, [["neg", [0]], ["tanh", [1]], ["exp", [2]], ["mul", [0, 0]]], 4],
        [1, [["mul", [0, 1.0]], ["mul", [1, 1.0]], ["add", [2, 1]]], 3],
        [1, [["neg", [0]], ["mul", [0, 2.0]], ["add", [0, 1.0]], ["sub", [2, 3]]], 4],
        [3, [["add", [0, 2]], ["neg", [1]], ["mul", [3, 3]]], 5],
        [1, [["neg", [0]], ["tanh", [0]], ["add", [2, 2]], ["mul", [3, 1]], ["exp", [3]]], 4],
    ]
    return [replay_case(rng, program) for program in programs]


def prune_strategy() -> Any:
    def build(rng: np.random.Generator) -> Inputs:
        n = int(rng.integers(1, 4))
        return replay_case(rng, random_program(rng, n, int(rng.integers(1, 9)), dead=0.4))

    return drawn(build)


# --- merge --------------------------------------------------------------------------------------------


def merge_case(rng: np.random.Generator, n: int, then: list[Any], otherwise: list[Any], sign: float = 1.0) -> Inputs:
    test = [n, [["sum", [0]], ["greater", [n, 0.0]]], n + 1]
    arrays = [numbers(rng, 3) for _ in range(n)]
    arrays[0] = np.abs(arrays[0]) * sign
    return {"programs": [test, [n, *then], [n, *otherwise]], "arrays": arrays}


def merge_edges(rng: np.random.Generator) -> list[Inputs]:
    found = []
    for sign in (1.0, -1.0):
        found += [
            merge_case(rng, 1, [[["mul", [0, 2.0]]], 1], [[["neg", [0]]], 1], sign),
            merge_case(rng, 1, [[], 0], [[["tanh", [0]], ["exp", [1]]], 2], sign),
            merge_case(rng, 1, [[["tanh", [0]], ["exp", [1]]], 2], [[], 0], sign),
            merge_case(rng, 2, [[], 0], [[], 1], sign),
            merge_case(rng, 2, [[["sub", [0, 1]], ["mul", [2, 2]]], 3], [[["sub", [1, 0]], ["tanh", [2]]], 3], sign),
            merge_case(rng, 2, [[["mul", [0, 3.0]], ["add", [2, 1]], ["neg", [0]]], 3], [[["neg", [1]]], 2], sign),
            merge_case(rng, 3, [[["add", [0, 2]]], 3], [[["sub", [2.0, 1]], ["div", [3, 4.0]]], 4], sign),
        ]
    return found


def merge_strategy() -> Any:
    def build(rng: np.random.Generator) -> Inputs:
        n = int(rng.integers(1, 4))
        then, otherwise = (random_program(rng, n, int(rng.integers(0, 5)))[1:] for _ in range(2))
        return merge_case(rng, n, then, otherwise, sign=float(rng.choice([-1, 1])))

    return drawn(build)
