"""The inputs ``lab09_beyond`` is tried on: operands, programs as text, linear maps, chains, as plain data.

Hypothesis draws the structure, which is what shrinks; values come from a drawn seed and are short to print.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs import _lab09_beyond_jets as jets
from autograder.specs import _lab09_beyond_oracles as oracles

Shape = tuple[int, ...]


def numbers(rng: np.random.Generator, shape: Shape, dtype: str = "float64") -> np.ndarray:
    """Random numbers of either sign with three digits, none near zero."""
    values = rng.uniform(0.3, 1.9, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(np.round(values, 3), dtype=dtype)


# --- rules ----------------------------------------------------------------------------------------

UNARY = ("tanh", "softmax")
OPS = ("add", "mul", "div", "matmul", *UNARY)


def rule_case(
    rng: np.random.Generator,
    op: str,
    x: Shape,
    y: Shape | float | None = None,
    moves: str = "xy",
    dtype: str = "float64",
    lifted: bool = False,
) -> Inputs:
    first = numbers(rng, x, dtype)
    second = y if y is None or isinstance(y, float) else numbers(rng, y, dtype)
    return {
        "op": op,
        "dx": numbers(rng, x, dtype) if "x" in moves else None,
        "dy": numbers(rng, np.shape(second), dtype) if "y" in moves and isinstance(second, np.ndarray) else None,
        "x": first,
        "y": second,
        "lifted": lifted,
    }


def rules_edges(rng: np.random.Generator) -> list[Inputs]:
    cases = []
    stretched: list[tuple[Shape, Shape]] = [((), (2, 3)), ((3, 1), (4,)), ((1,), (1,)), ((0,), ()), ((2, 1, 3), (4, 1))]
    for op in ("add", "mul", "div"):
        for x, y in stretched:
            cases += [rule_case(rng, op, x, y, moves) for moves in ("xy", "x", "y")]
            cases.append(rule_case(rng, op, y, x, "x"))
        cases.append(rule_case(rng, op, (2, 3), 1.5, "x"))
        cases.append(rule_case(rng, op, (2, 3), 1.5, "x", dtype="float32", lifted=True))
        cases.append(rule_case(rng, op, (2, 3), (3,), dtype="float32"))
        cases += [rule_case(rng, op, (3,), (2, 3), moves, lifted=True) for moves in ("xy", "x", "y")]
    multiplied: list[tuple[Shape, Shape]] = [
        *[((2, 3), (3, 4)), ((3, 3), (3, 3)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 2, 3), (3, 4))],
        *[((1, 1), (1, 1)), ((0, 2), (2, 3)), ((2, 0), (0, 3))],
    ]
    for x, y in multiplied:
        cases += [rule_case(rng, "matmul", x, y, moves) for moves in ("xy", "x", "y")]
    cases += [rule_case(rng, "matmul", (2, 3), (3, 2), moves, "float32", lifted=True) for moves in ("xy", "y")]
    for op in UNARY:
        shapes: list[Shape] = [(3,), (2, 3), (1,), (2, 1), (0, 2), (2, 2, 3)]
        cases += [rule_case(rng, op, shape) for shape in shapes]
        cases += [rule_case(rng, op, (2, 3), dtype="float32"), rule_case(rng, op, (2, 3), lifted=True)]
    cases.append(rule_case(rng, "tanh", ()))
    large = rule_case(rng, "softmax", (2, 3))
    cases.append(large | {"x": large["x"] * 500.0})
    tiny = rule_case(rng, "div", (2,), (2,))
    cases.append(tiny | {"x": tiny["x"] * 1e-200, "y": tiny["y"] * 1e-200, "dx": tiny["dx"] * 1e-200, "dy": None})
    return cases


def rules_strategy() -> Any:
    from hypothesis import strategies as st

    size = st.integers(1, 4)

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        op = draw(st.sampled_from(OPS))
        full = tuple(draw(st.lists(size, min_size=1 if op in ("softmax", "matmul") else 0, max_size=3)))
        thin = [draw(st.booleans()) for _ in full]
        other: Shape | None = tuple(1 if one else n for n, one in zip(full, thin, strict=True))
        if op == "matmul":
            n = draw(size)
            full, other = full[-2:], (full[-1], n) if draw(st.booleans()) else (full[-1],)
        elif op in UNARY:
            other = None
        elif draw(st.booleans()):
            full, other = other or (), full
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        moves = draw(st.sampled_from(["xy", "x", "y"])) if other is not None else "x"
        dtype = draw(st.sampled_from(["float64", "float32"]))
        return rule_case(rng, op, full, other, moves, dtype, draw(st.booleans()))

    return cases()


# --- programs -------------------------------------------------------------------------------------


def fits(text: str, arguments: str, values: dict[str, Any]) -> bool:
    """Whether a program's values stay where every framework computes them alike."""
    given = [values[name] for name in arguments.split(", ")]
    constants = {name: one for name, one in values.items() if name not in arguments.split(", ")}
    with np.errstate(all="ignore"):
        out = jets.jet(jets.program(text, arguments, constants)(*given)).standard
    return bool(np.all(np.isfinite(out)) and np.all(np.abs(out) < 50))


def expression(draw: Callable[..., Any], leaves: list[str], depth: int, nested: int = 0) -> str:
    """A program of the leaves; with `nested`, derivatives of such programs in it."""
    from hypothesis import strategies as st

    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return str(draw(st.sampled_from(leaves)))
    kinds = ["+", "-", "*", "/", "sin", "tanh", "exp", "log", "cos"] + ["jvp"] * (9 if nested else 0)
    kind = draw(st.sampled_from(kinds))
    one = expression(draw, leaves, depth - 1, nested)
    if kind == "jvp":
        name = "tuvw"[4 - nested - 1]
        inner = expression(draw, [*leaves, name, name], depth - 1, nested - 1)
        part = draw(st.sampled_from([1, 1, 0]))
        return f"jvp(lambda {name}: {inner}, ({one},), ({one if draw(st.booleans()) else leaves[0]},))[{part}]"
    if kind in "+-*":
        return f"({one} {kind} {expression(draw, leaves, depth - 1, nested)})"
    if kind == "/":
        return f"({one} / (2.0 + sin({expression(draw, leaves, depth - 1, nested)})))"
    if kind == "exp":
        return f"exp(-({one} * {one}))" if len(one) < 12 else f"exp(sin({one}))"
    return f"log(3.0 + cos({one}))" if kind == "log" else f"{kind}({one})"


# --- jvp ------------------------------------------------------------------------------------------


def jvp_case(
    rng: np.random.Generator,
    program: str,
    shapes: dict[str, Shape],
    moves: str = "x",
    fixed: str = "",
    dtype: str = "float64",
) -> Inputs:
    """`moves` are the program's arguments, of which `fixed` get no tangent; other names are constants."""
    return {
        "program": program,
        "values": {name: numbers(rng, shape, dtype) for name, shape in shapes.items()},
        "moves": {name: None if name in fixed else numbers(rng, shapes[name], dtype) for name in moves},
    }


def jvp_edges(rng: np.random.Generator) -> list[Inputs]:
    point: dict[str, Shape] = {"x": ()}
    flat: dict[str, Shape] = {"x": (3,), "y": (3,)}
    inner = "jvp(lambda t: x + t, (x,), (x,))[1]"
    return [
        jvp_case(rng, "x * x", point),
        jvp_case(rng, "x", {"x": (2,)}),
        jvp_case(rng, "c", {"x": (2,), "c": (3,)}),
        jvp_case(rng, "x * y", flat, "xy"),
        jvp_case(rng, "x * y", flat, "xy", fixed="x"),
        jvp_case(rng, "x * y", flat, "xy", fixed="xy"),
        jvp_case(rng, "sin(x) / (2.0 + cos(y))", flat, "xy"),
        jvp_case(rng, "tanh(x) * y", flat, "xy", fixed="x"),  # a rule of one input, which does not move
        jvp_case(rng, "y - exp(x)", flat, "xy", fixed="x"),
        jvp_case(rng, "1.0 - x * 2.0", {"x": (2,)}, dtype="float32"),
        jvp_case(rng, "tanh(a @ x) - c", {"x": (3,), "a": (2, 3), "c": (2,)}),
        jvp_case(rng, "total(x, axis=0, keepdims=True) * x", {"x": (2, 3)}),
        jvp_case(rng, "total(softmax(x) * log(3.0 + x), axis=-1)", {"x": (2, 3)}),
        jvp_case(rng, "total(x * x)", {"x": (0,)}),
        jvp_case(rng, "spread(x, (2, 3)) * y", {"x": (1, 3), "y": (2, 3)}, "xy"),
        # Nested: what belongs to the outer derivative is a constant to the inner one.
        jvp_case(rng, f"x * {inner}", point),
        jvp_case(rng, inner, point),
        jvp_case(rng, "jvp(lambda t: x, (x,), (x,))[1]", point),
        jvp_case(rng, "x * jvp(lambda t: x * t, (x,), (c,))[1]", {"x": (2,), "c": (2,)}),
        jvp_case(rng, "jvp(lambda t: t * t * t, (x,), (x,))[1]", {"x": (2,)}),
        jvp_case(rng, "jvp(lambda t: sin(t) * x, (x,), (c,))[0]", {"x": (2,), "c": (2,)}),
        jvp_case(rng, "jvp(lambda t: jvp(lambda u: sin(u) * t * x, (t,), (x,))[1], (x,), (c,))[1]", {"x": (), "c": ()}),
        jvp_case(rng, "jvp(lambda t: softmax(t) * x, (tanh(x),), (c,))[1]", {"x": (3,), "c": (3,)}),
        jvp_case(rng, "jvp(lambda t: c * t, (c,), (c,))[1] + x", {"x": (2,), "c": (2,)}),
        jvp_case(rng, "x * jvp(lambda t: c, (x,), (x,))[1]", {"x": (2,), "c": (2,)}),
    ]


def jvp_strategy() -> Any:
    from hypothesis import assume
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shape = draw(st.sampled_from([(), (2,), (1, 2)]))
        arguments = draw(st.sampled_from(["x", "xy"]))
        leaves = [*arguments, "c"]
        program = expression(draw, leaves, draw(st.integers(1, 3)), draw(st.integers(0, 2)))
        shapes = dict.fromkeys(leaves, shape)
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        fixed = draw(st.sampled_from(["", "", "y"])) if arguments == "xy" else ""
        made = jvp_case(rng, program, shapes, arguments, fixed)
        # An argument that the program leaves out may be no tensor of it to a framework.
        assume(len(program) < 160 and fits(program, ", ".join(arguments), made["values"]))
        return made

    return cases()


# --- jacobian -------------------------------------------------------------------------------------


def jacobian_case(rng: np.random.Generator, inner: Shape, outer: Shape, hidden: int = 3) -> Inputs:
    return {
        "first": numbers(rng, (hidden, int(np.prod(inner)))),
        "second": numbers(rng, (int(np.prod(outer)), hidden)),
        "x": np.asarray(numbers(rng, inner) / 4),
        "outer": list(outer),
    }


def jacobian_edges(rng: np.random.Generator) -> list[Inputs]:
    shapes: list[tuple[Shape, Shape]] = [
        *[((2,), (2,)), ((1,), (3,)), ((3,), (1,)), ((), ()), ((), (2, 2)), ((2, 2), ()), ((5,), (2,)), ((2,), (5,))],
        *[((2, 3), (2,)), ((2,), (2, 3)), ((2, 2), (3, 2)), ((0,), (2,)), ((2,), (0,)), ((1, 3, 2), (2, 2))],
        *[((40,), (2,)), ((2,), (40,))],
    ]
    return [jacobian_case(rng, inner, outer) for inner, outer in shapes]


def jacobian_strategy() -> Any:
    from hypothesis import strategies as st

    shape = st.lists(st.integers(1, 3), max_size=2).map(tuple)
    return st.builds(
        lambda seed, inner, outer: jacobian_case(np.random.default_rng(seed), inner, outer),
        st.integers(0, 2**32 - 1),
        shape,
        shape,
    )


# --- hvp ------------------------------------------------------------------------------------------


def hvp_case(
    rng: np.random.Generator, program: str, shapes: dict[str, Shape], scale: float = 1.0, dtype: str = "float64"
) -> Inputs:
    values = {name: numbers(rng, shape, dtype) for name, shape in shapes.items()}
    return {"program": program, "values": values, "v": np.asarray(numbers(rng, shapes["x"], dtype) * scale, dtype)}


def hvp_edges(rng: np.random.Generator) -> list[Inputs]:
    flat: dict[str, Shape] = {"x": (3,)}
    data: dict[str, Shape] = {"x": (3,), "a": (5, 3), "c": (5,)}
    return [
        hvp_case(rng, "total(x * x)", flat),
        hvp_case(rng, "x * x * x", {"x": ()}),
        hvp_case(rng, "total(x)", flat),
        hvp_case(rng, "total(c * x)", {"x": (3,), "c": (3,)}),
        hvp_case(rng, "total(x * x * x) * total(x)", {"x": (2, 2)}),
        hvp_case(rng, "total(log(1.0 + exp(a @ x)) - c * (a @ x))", data),
        hvp_case(rng, "total(log(1.0 + exp(a @ x)) - c * (a @ x))", data | {"x": (1,), "a": (5, 1)}),
        hvp_case(rng, "total(tanh(a @ x) * sin(c))", data, dtype="float32"),
        hvp_case(rng, "total(sin(1000.0 * x) * x)", flat),
        hvp_case(rng, "total(tanh(x) * tanh(x)) / (2.0 + total(x * x))", flat, scale=1e7),
        hvp_case(rng, "total(tanh(x) * tanh(x)) / (2.0 + total(x * x))", flat, scale=1e-7),
        hvp_case(rng, "total(softmax(x) * softmax(x))", {"x": (2, 3)}),
        hvp_case(rng, "total(jvp(lambda t: sin(t) * x, (x,), (c,))[1])", {"x": (2,), "c": (2,)}),
        hvp_case(rng, "total(tanh(a @ x) * c)", {"x": (12,), "a": (5, 12), "c": (5,)}),
        hvp_case(rng, "total(x * x)", {"x": (0,)}),
    ]


def hvp_strategy() -> Any:
    from hypothesis import assume
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shape = draw(st.sampled_from([(2,), (3,), (2, 2)]))
        program = expression(draw, ["x", "x", "c"], draw(st.integers(1, 3)))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        made = hvp_case(rng, f"total({program})", {"x": shape, "c": shape})
        assume("x" in program.replace("exp", "") and fits(made["program"], "x", made["values"]))
        return made

    return cases()


# --- solve ----------------------------------------------------------------------------------------


def solve_case(
    rng: np.random.Generator, eigenvalues: list[float], tolerance: float, limit: int, zero: bool = False
) -> Inputs:
    """A symmetric matrix with these eigenvalues; no step ends so near the tolerance that rounding could decide."""
    n = len(eigenvalues)
    while True:
        turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
        matrix = (turn * eigenvalues) @ turn.T
        b = np.zeros(n) if zero else numbers(rng, (n,))
        made = {"matrix": (matrix + matrix.T) / 2, "b": b, "tolerance": tolerance, "limit": limit}
        left = np.array(oracles.residuals(**made)) / max(float(np.linalg.norm(b)), 1e-300)
        if zero or not np.any((left > tolerance / 5) & (left < tolerance * 5)):
            return made


def solve_edges(rng: np.random.Generator) -> list[Inputs]:
    small = solve_case(rng, [1.0, 2.0, 5.0, 9.0], 1e-3, 20)
    return [
        {**small, "b": 1e-6 * small["b"]},  # shorter than the tolerance, which counts in lengths of b
        solve_case(rng, [2.0], 1e-9, 5),
        solve_case(rng, [3.0, 3.0, 3.0], 1e-9, 5),
        solve_case(rng, [1.0, 4.0], 1e-9, 10),
        solve_case(rng, [1.0, 2.0, 5.0, 9.0], 1e-9, 20),
        solve_case(rng, [1.0, 2.0, 5.0, 9.0], 1e-9, 2),
        solve_case(rng, [1.0, 2.0, 5.0, 9.0], 1e-9, 1),
        solve_case(rng, [1.0, 2.0, 5.0, 9.0], 1e-9, 0),
        solve_case(rng, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], 1e-3, 20),
        solve_case(rng, [1.0, 1.1, 1.2, 30.0, 31.0], 3e-2, 20),
        solve_case(rng, [1.0, 2.0], 1e-9, 5, zero=True),
        solve_case(rng, [-1.0, -2.0], 1e-9, 5),
        solve_case(rng, [-1.0, 2.0, 5.0, 9.0], 1e-9, 20),
        solve_case(rng, [-0.5, 20.0, 21.0, 22.0, 23.0], 1e-9, 20),
        solve_case(rng, [1e-4, 3e-4], 1e-9, 10),
        solve_case(rng, list(np.repeat([1.0, 3.0, 7.0], 12)), 1e-8, 50),
    ]


def solve_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        n = draw(st.integers(1, 5))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        eigenvalues = [float(one) for one in np.round(rng.uniform(0.5, 6.0, n), 2)]
        if draw(st.booleans()) and draw(st.booleans()):
            eigenvalues[0] = -eigenvalues[0]
        tolerance = draw(st.sampled_from([1e-9, 1e-9, 0.05]))
        return solve_case(rng, eigenvalues, tolerance, draw(st.integers(0, n + 3)))

    return cases()


# --- reverse --------------------------------------------------------------------------------------


def reverse_case(rng: np.random.Generator, steps: int, slots: int, width: int = 2) -> Inputs:
    return {
        "weights": np.round(rng.uniform(-0.9, 0.9, (steps, width)) / max(1.0, steps / 8) ** 0.5, 3),
        "x": numbers(rng, (width,)),
        "g": numbers(rng, (width,)),
        "slots": slots,
    }


def reverse_edges(rng: np.random.Generator) -> list[Inputs]:
    sizes = [
        *[(1, 0), (2, 0), (1, 3), (2, 1), (3, 1), (5, 0), (4, 1), (4, 3), (5, 10), (6, 2), (10, 1), (10, 3), (11, 2)],
        *[(20, 4), (40, 5), (100, 3), (120, 10), (60, 59), (60, 100), (30, 0)],
    ]
    return [reverse_case(rng, steps, slots) for steps, slots in sizes]


def reverse_strategy() -> Any:
    from hypothesis import strategies as st

    return st.builds(
        lambda seed, steps, slots: reverse_case(np.random.default_rng(seed), steps, slots, 1),
        st.integers(0, 2**32 - 1),
        st.integers(1, 24),
        st.integers(0, 6),
    )
