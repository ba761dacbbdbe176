"""Random programs of branches, loops and calls: traced, they are what they are in Python, or are refused."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import Tensor
from internals.trace import TraceError, function

HELPERS = (
    """def helper(u, v):
    if u > v:
        return u * 0.5
    return v - u
""",
    """def helper(u, v):
    k = 0
    while u > 1 and k < 3:
        u = u * 0.5
        k += 1
    return u + v * 0.25
""",
)


class Author:
    """Writes a program, of which every choice follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = 0

    def program(self) -> str:
        lines = ["a, b, c = x[0] * 1.0, x[1] * 1.0, x.sum()", *self.block(3)]
        if self.rng.random() < 0.3:
            lines += [f"if {self.condition()}:", "    return a * b + c"]
        lines.append("return a + b * 0.5 + c * 0.25")
        body = "".join(f"    {line}\n" for line in lines)
        return f"from internals import ops\n\n\n{self.rng.choice(HELPERS)}\n\ndef program(x, n):\n{body}"

    def block(self, depth: int) -> list[str]:
        return [line for _ in range(self.rng.randint(1, 3)) for line in self.statement(depth)]

    def statement(self, depth: int) -> list[str]:
        kind, target = self.rng.random(), self.rng.choice("abc")
        if depth == 0 or kind < 0.45:
            return [f"{target} = {self.value()}"]
        if kind < 0.55:
            return [f"{target} {self.rng.choice('+-*')}= {self.value(1)}"]
        if kind < 0.75:
            rest = ["else:", *indented(self.block(depth - 1))] if self.rng.random() < 0.5 else []
            return [f"if {self.condition()}:", *indented(self.block(depth - 1)), *rest]
        self.loops += 1
        name = f"i{self.loops}"
        if kind < 0.87:
            head = [f"{name} = 0", f"while {name} < {self.rng.randint(1, 4)} and {self.condition()}:"]
            return [*head, f"    {name} += 1", *indented(self.rounds(depth - 1))]
        bounds = self.rng.choice([str(self.rng.randint(0, 4)), "n", "1, n", "n, 0, -1"])
        return [f"for {name} in range({bounds}):", *indented(self.rounds(depth - 1))]

    def rounds(self, depth: int) -> list[str]:
        lines = self.block(depth)
        if self.rng.random() < 0.35:
            lines += [f"if {self.condition()}:", f"    {self.rng.choice(['break', 'continue'])}", *self.block(0)]
        return lines

    def value(self, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self.rng.choice(["a", "b", "c", "x[0]", "x[1]", "0.5", "-1.25", "1"])
        one, two = self.value(depth - 1), self.value(depth - 1)
        forms = [f"({one} + {two})", f"({one} * {two})", f"({one} - {two})", f"ops.tanh({one} + a)", f"(-{one})"]
        forms += [
            f"helper({one} + a, {two})",
            f"(lambda t: t * 0.5)({one})",
            f"({one} if {self.condition()} else {two})",
        ]
        return self.rng.choice(forms)

    def condition(self) -> str:
        right = self.value(1 if self.rng.random() < 0.5 else 0)
        asked = f"{self.value(0)} {self.rng.choice(['<', '>', '<=', '>='])} {right}"
        more = [f"not {asked}", f"({asked} or c > 1)", f"(a > 0 and {asked})", "-1.0 < b < 2.0"]
        return self.rng.choice([asked, asked, *more])


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def run(program: Callable[..., Any], values: np.ndarray, n: Any) -> tuple[float, np.ndarray]:
    x = Tensor(values.copy(), requires_grad=True)
    y = program(x, n)
    if not isinstance(y, Tensor):
        return float(y), np.zeros(3)
    if y.requires_grad:
        y.backward()
    return y.item(), np.zeros(3) if x.grad is None else x.grad.numpy()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", [*range(5), *[pytest.param(n, marks=pytest.mark.slow) for n in range(5, 60)]])
def test_a_random_program(seed: int, tmp_path: Path) -> None:
    path = tmp_path / f"program_{seed}.py"
    path.write_text(Author(seed).program())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    traced, count_is_a_value = function(module.program), seed % 2
    for repeat in range(4):
        rng = np.random.default_rng([seed, repeat])
        values, n = (rng.standard_normal(3) * rng.choice([0.5, 1, 2])).astype(np.float32), int(rng.integers(5))
        try:
            want = run(module.program, values, n)
        except RuntimeError:  # it changes in place what its own backward pass reads, or a view of x
            return
        if not (np.isfinite(want[0]) and abs(want[0]) < 1e4):
            continue
        try:
            found = run(traced, values, Tensor(n) if count_is_a_value else n)
        except TraceError as error:
            told = str(error)
        else:
            told = ""
        if told:
            assert f"{path.name}:" in told  # the line, and after it what to write instead
            return
        np.testing.assert_allclose(found[0], want[0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found[1], want[1], rtol=2e-3, atol=1e-3)
