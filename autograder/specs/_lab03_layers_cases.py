"""The inputs ``lab03_layers`` is tried on. Hypothesis draws sizes, which shrink; values come from a drawn seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

CHAIN = 20_000
"""How many layers the longest configuration has."""


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Random numbers of either sign with three digits, none near zero."""
    values = rng.uniform(0.3, 2.5, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(np.round(values, 3), dtype=dtype)


def drawn(build: Callable[[Callable[..., Any], np.random.Generator, str], Inputs]) -> Any:
    """A strategy whose `build` gets `draw`, a seeded generator and a dtype."""
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return build(draw, rng, draw(st.sampled_from(["float64", "float32"])))

    return cases()


# --- fc -------------------------------------------------------------------------------------------


def fc_case(
    rng: np.random.Generator, rows: list[int], inside: int, outside: int, layers: int = 1, dtype: str = "float64"
) -> Inputs:
    """One step for each number of rows; layers above 1 need inside equal to outside."""
    steps = [[numbers(rng, (n, inside), dtype), numbers(rng, (n, outside), dtype)] for n in rows]
    return {
        "weight": numbers(rng, (inside, outside), dtype),
        "bias": numbers(rng, (outside,), dtype),
        "steps": steps,
        "layers": layers,
    }


def fc_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        fc_case(rng, [2], 3, 2),
        fc_case(rng, [2], 2, 3),
        fc_case(rng, [3], 2, 2),
        fc_case(rng, [1], 2, 3),
        fc_case(rng, [2], 1, 1),
        fc_case(rng, [2, 2], 2, 3),  # a second step adds
        fc_case(rng, [2, 1, 3], 3, 2),
        fc_case(rng, [2], 2, 2, layers=2),  # two layers add to one parameter
        fc_case(rng, [2, 3], 2, 2, layers=2),
        fc_case(rng, [2], 2, 2, layers=3),
        fc_case(rng, [0], 2, 3),
        fc_case(rng, [2, 0], 2, 3),
        fc_case(rng, [2], 3, 2, dtype="float32"),
        fc_case(rng, [2, 2], 2, 2, layers=2, dtype="float32"),
    ]


def fc_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str) -> Inputs:
        rows = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        inside, layers = draw(st.integers(1, 4)), draw(st.integers(1, 2))
        return fc_case(rng, rows, inside, inside if layers > 1 else draw(st.integers(1, 4)), layers, dtype)

    return drawn(build)


# --- pool -----------------------------------------------------------------------------------------


def pool_case(
    rng: np.random.Generator,
    shape: tuple[int, int, int, int],
    window: int,
    stride: int,
    dtype: str = "float64",
    ties: bool = False,
) -> Inputs:
    x = np.asarray(rng.integers(0, 3, shape), dtype) if ties else numbers(rng, shape, dtype)
    counts = [(size - window) // stride + 1 for size in shape[2:]]
    return {"x": x, "g": numbers(rng, (*shape[:2], *counts), dtype), "window": window, "stride": stride}


def pool_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        pool_case(rng, (1, 1, 2, 2), 2, 2),
        pool_case(rng, (1, 1, 4, 2), 2, 2),
        pool_case(rng, (2, 1, 2, 4), 2, 2),
        pool_case(rng, (1, 2, 4, 4), 2, 2),
        pool_case(rng, (1, 1, 3, 3), 2, 1),  # windows overlap
        pool_case(rng, (1, 1, 3, 5), 3, 2),
        pool_case(rng, (2, 2, 5, 3), 3, 1),
        pool_case(rng, (1, 1, 5, 4), 2, 3),  # between windows lies what none of them sees
        pool_case(rng, (1, 1, 3, 5), 2, 2),  # a row and a column are left over
        pool_case(rng, (2, 2, 3, 2), 1, 1),
        pool_case(rng, (0, 2, 2, 2), 2, 2),
        pool_case(rng, (2, 1, 4, 4), 2, 2, ties=True),
        pool_case(rng, (2, 1, 4, 4), 2, 1, ties=True),
        pool_case(rng, (1, 2, 3, 4), 3, 1, ties=True),
        pool_case(rng, (1, 2, 4, 3), 2, 1, dtype="float32"),
    ]


def pool_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str) -> Inputs:
        window, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        size = [window + draw(st.integers(0, 3)) for _ in range(2)]
        shape = (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *size)
        return pool_case(rng, shape, window, stride, dtype, draw(st.booleans()))

    return drawn(build)


# --- order ----------------------------------------------------------------------------------------


def config(*layers: list[Any], repeat: int = 1) -> Inputs:
    return {"layers": [list(layer) for layer in layers], "repeat": repeat}


def order_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        config(["x", []]),
        config(["x", []], ["fc", ["x"]], ["loss", ["fc"]]),
        config(["loss", ["fc"]], ["fc", ["x"]], ["x", []]),
        config(["fc", ["x"]], ["loss", ["fc", "label"]], ["label", []], ["x", []]),
        config(["sum", ["x", "x"]], ["x", []]),
        config(["sum", ["b", "a"]], ["b", ["a"]], ["a", ["x"]], ["x", []]),
        config(["top", ["l", "r"]], ["l", ["m"]], ["r", ["m"]], ["m", ["x"]], ["x", []]),
        config(["b", []], ["a", []]),
        config(["x", []], ["fc", ["y"]]),
        config(["x", []], ["fc", ["x"]], ["loss", ["fc", "label"]]),
        config(["fc", ["x"]], ["fc", ["x"]], ["x", []]),
        config(["x", []], ["fc", ["x"]], ["x", []]),
        config(["fc", ["fc"]]),
        config(["x", []], ["a", ["x", "b"]], ["b", ["a"]]),
        config(["x", []], ["a", ["c"]], ["b", ["a"]], ["c", ["b", "x"]], ["loss", ["x"]]),
        config(["x", []], ["loss", ["b"]], ["a", ["b"]], ["b", ["a"]], ["after", ["loss"]]),
        config(["a", []], repeat=CHAIN),
        config(["a", []], ["b", ["a"]], ["c", ["a", "b"]], ["d", ["a", "b", "c", "c"]], repeat=CHAIN // 4),
    ]


def order_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, _: str) -> Inputs:
        names = list("abcdefg")[: draw(st.integers(1, 7))]
        layers: list[list[Any]] = []
        for i, name in enumerate(names):
            below = draw(st.lists(st.sampled_from(names[:i]), max_size=3)) if i else []
            layers.append([name, below])
        wrong = draw(st.sampled_from(["", "", "missing", "twice", "circle"]))
        if wrong == "missing":
            draw(st.sampled_from(layers))[1].append("absent")
        elif wrong == "twice":
            layers.append([draw(st.sampled_from(names)), []])
        elif wrong == "circle":
            low = draw(st.integers(0, len(names) - 1))
            high = draw(st.integers(low, len(names) - 1))
            layers[low][1].append(names[high])
            for at in range(low + 1, high + 1):
                layers[at][1].append(names[at - 1])
        return {"layers": [layers[i] for i in rng.permutation(len(layers))], "repeat": 1}

    return drawn(build)


# --- machine --------------------------------------------------------------------------------------


def machine_case(
    rng: np.random.Generator, rows: int, threads: int, dtype: str = "float32", fault: int = -1, width: int = 2
) -> Inputs:
    # Sizes that differ much make float32 sums depend on their order.
    scale = 10.0 ** rng.integers(-2, 3, (rows, 1))
    return {
        "x": np.asarray(numbers(rng, (rows, width)) * scale, dtype),
        "y": numbers(rng, (rows, 1), dtype),
        "weight": numbers(rng, (width, 1), dtype),
        "bias": numbers(rng, (1,), dtype),
        "threads": threads,
        "fault": fault,
    }


def machine_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        machine_case(rng, 3, 1),
        machine_case(rng, 4, 2),
        machine_case(rng, 3, 2),  # shares of two rows and one
        machine_case(rng, 5, 3),
        machine_case(rng, 7, 3),
        machine_case(rng, 2, 5),  # more threads than rows
        machine_case(rng, 1, 3),
        machine_case(rng, 1, 1),
        machine_case(rng, 8, 4),
        machine_case(rng, 23, 4, width=30),
        machine_case(rng, 19, 3, width=30),
        machine_case(rng, 11, 5, width=30),
        machine_case(rng, 3, 2, dtype="float64"),
        machine_case(rng, 6, 3, fault=0),
        machine_case(rng, 6, 3, fault=5),
        machine_case(rng, 2, 1, fault=1),
    ]


def machine_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str) -> Inputs:
        return machine_case(rng, draw(st.integers(1, 9)), draw(st.integers(1, 5)), dtype)

    return drawn(build)


# --- update ---------------------------------------------------------------------------------------


def update_case(
    rng: np.random.Generator,
    shapes: list[tuple[int, ...]],
    rates: list[float],
    *,
    momentum: float = 0.9,
    decay: float = 0.0,
    multipliers: list[list[float]] | None = None,
    dtype: str = "float64",
) -> Inputs:
    values = [numbers(rng, shape, dtype) for shape in shapes]
    return {
        "values": values,
        "multipliers": multipliers or [[1.0, 1.0] for _ in shapes],
        "steps": [{"lr": lr, "gradients": [numbers(rng, shape, dtype) for shape in shapes]} for lr in rates],
        "momentum": momentum,
        "decay": decay,
    }


def update_edges(rng: np.random.Generator) -> list[Inputs]:
    own = [[2.0, 0.5], [0.5, 3.0]]
    return [
        update_case(rng, [(2,)], [0.1], momentum=0.0),
        update_case(rng, [(2,)], [0.1]),
        update_case(rng, [(2,)], [0.1, 0.1]),
        update_case(rng, [(2,)], [0.5, 0.1]),  # the step size changes: what is on its way keeps the old one
        update_case(rng, [(2,)], [0.1, 0.1, 0.1], momentum=0.5),
        update_case(rng, [(2,)], [0.1], decay=0.1),
        update_case(rng, [(2,)], [0.1, 0.2], decay=0.1),
        update_case(rng, [(2,), (1, 2)], [0.1], multipliers=own),
        update_case(rng, [(2,), (1, 2)], [0.1], multipliers=own, decay=0.2, momentum=0.0),
        update_case(rng, [(2,), (1, 2)], [0.4, 0.1], multipliers=own, decay=0.2),
        update_case(rng, [(2,), (2,)], [0.1, 0.1], multipliers=[[0.0, 1.0], [1.0, 0.0]], decay=0.3),
        update_case(rng, [()], [0.1, 0.2]),
        update_case(rng, [(0,), (2, 1)], [0.1]),
        update_case(rng, [(2,)], [0.4, 0.1], decay=0.2, dtype="float32"),
        update_case(rng, [], [0.1]),
    ]


def update_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str) -> Inputs:
        shapes = draw(st.lists(st.sampled_from([(1,), (2,), (2, 2)]), min_size=1, max_size=2))
        rates = draw(st.lists(st.sampled_from([0.5, 0.1, 0.05]), min_size=1, max_size=3))
        several = st.sampled_from([0.0, 0.5, 1.0, 2.0])
        return update_case(
            rng,
            [tuple(shape) for shape in shapes],
            rates,
            momentum=draw(st.sampled_from([0.0, 0.5, 0.9])),
            decay=draw(st.sampled_from([0.0, 0.1])),
            multipliers=[[draw(several), draw(several)] for _ in shapes],
            dtype=dtype,
        )

    return drawn(build)
