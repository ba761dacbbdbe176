"""The inputs ``lab06_rules`` is tried on. Hypothesis draws shapes, which shrink; values come from a drawn seed.

Degenerate shapes (one class, one feature, one pixel) are given to cases with several rows, so that the smallest failing
case, which is the one that is shown, still tells one mistake from another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

Shape = tuple[int, ...]

DTYPES = ("float64", "float32")
LAYOUTS = ("C", "reversed", "transposed")


def numbers(rng: np.random.Generator, shape: Shape, dtype: str = "float64") -> np.ndarray:
    """Random numbers of either sign with three digits, none near zero."""
    values = rng.uniform(0.3, 2.5, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(np.round(values, 3), dtype=dtype)


def lay(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values, elsewhere in memory: "reversed" has a negative stride, "transposed" has columns first."""
    if layout == "reversed" and array.ndim:
        return np.array(array[::-1])[::-1]
    if layout == "transposed" and array.ndim > 1:
        return np.array(array.T).T
    return array


def drawn(build: Callable[[Callable[..., Any], np.random.Generator, str, str], Inputs]) -> Any:
    """A strategy whose `build` gets `draw`, a seeded generator, a dtype and a memory layout."""
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return build(draw, rng, draw(st.sampled_from(DTYPES)), draw(st.sampled_from(LAYOUTS)))

    return cases()


# --- embedding ------------------------------------------------------------------------------------


def embedding_case(
    rng: np.random.Generator,
    rows: int,
    width: int,
    shape: Shape,
    dtype: str = "float64",
    layout: str = "C",
    index: list[int] | None = None,
    kind: str = "int64",
) -> Inputs:
    picks = rng.integers(0, rows, shape) if index is None else np.reshape(index, shape)
    return {
        "g": lay(numbers(rng, (*shape, width), dtype), layout),
        "table": lay(numbers(rng, (rows, width), dtype), layout),
        "index": lay(np.asarray(picks, dtype=kind), layout),
    }


def embedding_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        embedding_case(rng, 4, 2, (3,), index=[0, 2, 1]),  # none twice; the last row not at all
        embedding_case(rng, 4, 2, (3,), index=[1, 1, 1]),
        embedding_case(rng, 4, 2, (4,), index=[2, 0, 2, 0]),
        embedding_case(rng, 3, 2, (2, 3), index=[0, 1, 0, 1, 0, 0]),
        embedding_case(rng, 3, 2, (2, 2, 2)),
        embedding_case(rng, 3, 2, (), index=[1]),
        embedding_case(rng, 3, 2, (0,)),
        embedding_case(rng, 3, 2, (2, 0)),
        embedding_case(rng, 1, 3, (4,)),
        embedding_case(rng, 3, 1, (5,)),
        embedding_case(rng, 3, 3, (3,), index=[2, 2, 0]),
        embedding_case(rng, 3, 2, (5,), dtype="float32", index=[0, 0, 1, 0, 0]),
        embedding_case(rng, 3, 2, (4,), index=[0, 1, 1, 0], kind="int32"),
        embedding_case(rng, 3, 2, (2, 2), layout="reversed", index=[0, 0, 1, 0]),
        embedding_case(rng, 3, 2, (2, 2), layout="transposed", index=[0, 1, 1, 1]),
    ]


def embedding_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str, layout: str) -> Inputs:
        shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
        return embedding_case(rng, draw(st.integers(2, 4)), draw(st.integers(1, 3)), shape, dtype, layout)

    return drawn(build)


# --- softmax --------------------------------------------------------------------------------------


def softmax_case(
    rng: np.random.Generator,
    op: str,
    shape: Shape,
    dtype: str = "float64",
    layout: str = "C",
    offset: float = 0.0,
    spread: float = 1.0,
) -> Inputs:
    x = np.asarray(numbers(rng, shape) * spread + offset, dtype=dtype)
    if op == "log_softmax":
        return {"op": op, "g": lay(numbers(rng, shape, dtype), layout), "x": lay(x, layout), "target": None}
    target = rng.integers(0, shape[1], shape[:1])
    return {"op": op, "g": lay(numbers(rng, shape[:1], dtype), layout), "x": lay(x, layout), "target": target}


def softmax_edges(rng: np.random.Generator) -> list[Inputs]:
    shapes: list[Shape] = [(3,), (2, 3), (3, 3), (2, 2, 3), (5, 1), (0, 3), (1,), (2, 0, 3)]
    cases = [softmax_case(rng, "log_softmax", shape) for shape in shapes]
    cases += [softmax_case(rng, "cross_entropy", shape) for shape in [(2, 3), (3, 3), (1, 4), (5, 1), (0, 3), (4, 2)]]
    for op in ("log_softmax", "cross_entropy"):
        cases += [
            softmax_case(rng, op, (2, 3), dtype="float32"),
            softmax_case(rng, op, (2, 3), layout="reversed"),
            softmax_case(rng, op, (2, 3), layout="transposed"),
            softmax_case(rng, op, (2, 3), offset=1000.0),
            softmax_case(rng, op, (2, 3), offset=-1000.0),
            softmax_case(rng, op, (2, 3), spread=500.0),
            softmax_case(rng, op, (2, 3), dtype="float32", offset=100.0),
            apart(softmax_case(rng, op, (2, 3))),
        ]
    return cases


def apart(case: Inputs) -> Inputs:
    """One row so far below the other that exp of the difference is 0."""
    return {**case, "x": case["x"] - np.array([[0.0], [1000.0]])}


def softmax_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str, layout: str) -> Inputs:
        op = draw(st.sampled_from(["log_softmax", "cross_entropy"]))
        rows, classes = draw(st.integers(1, 3)), draw(st.integers(2, 4))
        more = draw(st.integers(0, 2)) if op == "log_softmax" else 0
        shape = (rows, classes) if more == 0 else (2, rows, classes) if more == 1 else (classes,)
        # exp overflows at both; in float32 a sum of 800 and a logarithm would lose too many digits to be right.
        large = 100.0 if dtype == "float32" else 800.0
        return softmax_case(rng, op, shape, dtype, layout, offset=draw(st.sampled_from([0.0, large])))

    return drawn(build)


# --- max ------------------------------------------------------------------------------------------


def max_case(
    rng: np.random.Generator,
    shape: Shape,
    axis: int | None,
    dtype: str = "float64",
    layout: str = "C",
    levels: int = 3,
    equal: bool = False,
) -> Inputs:
    """Entries from few levels tie often; with many levels they never do."""
    values = np.full(shape, 1.25) if equal else rng.permuted(np.resize(rng.uniform(-3, 3, levels), int(np.prod(shape))))
    x = np.asarray(np.round(np.reshape(values, shape), 3), dtype=dtype)
    g = numbers(rng, np.shape(np.max(x, axis=axis)) if x.size else _without(shape, axis), dtype)
    return {"g": lay(g, layout), "x": lay(x, layout), "axis": axis}


def _without(shape: Shape, axis: int | None) -> Shape:
    return () if axis is None else tuple(size for place, size in enumerate(shape) if place != axis % len(shape))


def max_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        max_case(rng, (2, 3), 1, levels=100),
        max_case(rng, (3, 2), 0, levels=100),
        max_case(rng, (3, 3), 0, levels=100),
        max_case(rng, (3, 3), 1, levels=100),
        max_case(rng, (2, 4), 1, levels=2),
        max_case(rng, (4, 2), 0, levels=2),
        max_case(rng, (3, 3), -1, levels=2),
        max_case(rng, (3, 3), -2, levels=2),
        max_case(rng, (2, 3, 2), 1, levels=2),
        max_case(rng, (2, 3), None, levels=100),
        max_case(rng, (2, 3), None, levels=2),
        max_case(rng, (4,), 0, levels=2),
        max_case(rng, (3,), None, levels=3),
        max_case(rng, (), None),
        max_case(rng, (2, 4), 1, equal=True),
        max_case(rng, (5, 1), 1),
        max_case(rng, (1, 5), 0),
        max_case(rng, (0, 3), 1),
        max_case(rng, (2, 3), 1, dtype="float32", levels=2),
        max_case(rng, (3, 3), 1, layout="reversed", levels=2),
        max_case(rng, (3, 3), 0, layout="transposed", levels=2),
    ]


def max_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str, layout: str) -> Inputs:
        shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
        axis = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
        return max_case(rng, shape, axis, dtype, layout, levels=draw(st.sampled_from([100, 2])))

    return drawn(build)


# --- quantise -------------------------------------------------------------------------------------


def quantise_case(
    rng: np.random.Generator,
    shape: Shape,
    low: int,
    high: int,
    dtype: str = "float64",
    layout: str = "C",
    scale: float | None = None,
    where: str = "both",
) -> Inputs:
    """`where`: "inside" the range, "outside" it, "both", or on its "ends", which count as inside.

    x / scale keeps away from halves, where rounding differs between dtypes.
    """
    size = int(np.prod(shape))
    inner = rng.integers(low, high, size) + rng.choice([0.15, 0.3, 0.7, 0.85], size)
    outer = np.where(rng.random(size) < 0.5, low - rng.uniform(0.6, 2, size), high + rng.uniform(0.6, 2, size))
    ends = rng.choice([low, high], size)
    chosen = {"inside": inner, "outside": outer, "ends": ends, "both": np.where(rng.random(size) < 0.6, inner, outer)}
    step = np.asarray(round(float(rng.uniform(0.2, 1.8)), 2) if scale is None else scale, dtype=dtype)
    x = np.reshape(chosen[where] * float(step), shape)
    x = np.asarray(x if where == "ends" else np.round(x, 4), dtype=dtype)
    return {
        "g": lay(numbers(rng, shape, dtype), layout),
        "x": lay(x, layout),
        "scale": step,
        "low": low,
        "high": high,
    }


def quantise_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        quantise_case(rng, (4,), -4, 3, where="inside"),
        quantise_case(rng, (4,), -4, 3, where="outside"),
        quantise_case(rng, (4,), -4, 3, scale=0.5, where="ends"),
        quantise_case(rng, (6,), -2, 1),
        quantise_case(rng, (6,), 0, 7),
        quantise_case(rng, (3, 4), -8, 7),
        quantise_case(rng, (2, 1, 3), -4, 3),
        quantise_case(rng, (), -4, 3),
        quantise_case(rng, (1,), -4, 3, where="inside"),
        quantise_case(rng, (0, 2), -4, 3),
        quantise_case(rng, (5,), -4, 3, dtype="float32"),
        quantise_case(rng, (3, 4), -4, 3, dtype="float32", where="outside"),
        quantise_case(rng, (2, 3), -4, 3, layout="reversed"),
        quantise_case(rng, (2, 3), -4, 3, layout="transposed"),
    ]


def quantise_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str, layout: str) -> Inputs:
        shape = tuple(draw(st.lists(st.integers(2, 4), min_size=1, max_size=2)))
        low, high = draw(st.sampled_from([(-4, 3), (-2, 1), (0, 3)]))
        return quantise_case(rng, shape, low, high, dtype, layout)

    return drawn(build)


# --- layer_norm -----------------------------------------------------------------------------------


def layer_norm_case(
    rng: np.random.Generator,
    shape: Shape,
    eps: float = 1e-5,
    dtype: str = "float64",
    layout: str = "C",
    offset: float = 0.0,
) -> Inputs:
    return {
        "g": lay(numbers(rng, shape, dtype), layout),
        "x": lay(np.asarray(numbers(rng, shape) + offset, dtype=dtype), layout),
        "weight": numbers(rng, shape[-1:], dtype),
        "bias": numbers(rng, shape[-1:], dtype),
        "eps": eps,
    }


def layer_norm_edges(rng: np.random.Generator) -> list[Inputs]:
    flat = layer_norm_case(rng, (3, 4), eps=0.1)
    return [
        layer_norm_case(rng, (2, 3)),
        layer_norm_case(rng, (3, 3), eps=0.5),
        layer_norm_case(rng, (3, 4), eps=0.5),
        layer_norm_case(rng, (4,), eps=0.1),
        layer_norm_case(rng, (2, 3, 4), eps=0.1),
        layer_norm_case(rng, (2, 1, 2, 3), eps=0.1),
        layer_norm_case(rng, (1, 6)),
        layer_norm_case(rng, (6, 1), eps=0.1),
        layer_norm_case(rng, (0, 3)),
        flat | {"x": np.repeat(flat["x"][:, :1], 4, axis=1)},  # no variance: only eps keeps it from 0 / 0
        layer_norm_case(rng, (3, 4), eps=0.1, offset=50.0),
        layer_norm_case(rng, (3, 4), eps=0.1, dtype="float32"),
        layer_norm_case(rng, (3, 4), eps=0.1, layout="reversed"),
        layer_norm_case(rng, (3, 4), eps=0.1, layout="transposed"),
    ]


def layer_norm_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str, layout: str) -> Inputs:
        shape = (*draw(st.lists(st.integers(2, 3), max_size=2)), draw(st.integers(3, 4)))
        return layer_norm_case(rng, shape, draw(st.sampled_from([0.5, 0.1, 0.01])), dtype, layout)

    return drawn(build)


# --- conv2d ---------------------------------------------------------------------------------------


def conv2d_case(
    rng: np.random.Generator,
    x: Shape,
    weight: Shape,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dtype: str = "float64",
    layout: str = "C",
) -> Inputs:
    counts = [(x[2 + k] + 2 * padding[k] - weight[2 + k]) // stride[k] + 1 for k in range(2)]
    return {
        "g": lay(numbers(rng, (x[0], weight[0], *counts), dtype), layout),
        "x": lay(numbers(rng, x, dtype), layout),
        "weight": lay(numbers(rng, weight, dtype), layout),
        "stride": list(stride),
        "padding": list(padding),
    }


def conv2d_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(*args: Any, **kwargs: Any) -> Inputs:
        return conv2d_case(rng, *args, **kwargs)

    return [
        case((1, 1, 3, 3), (1, 1, 2, 2)),
        case((1, 1, 3, 4), (1, 1, 2, 3)),
        case((2, 3, 4, 4), (2, 3, 3, 3)),
        case((2, 2, 3, 3), (2, 2, 2, 2)),
        case((1, 2, 4, 4), (3, 2, 3, 3), padding=(1, 1)),
        case((1, 1, 3, 3), (1, 1, 3, 3), padding=(2, 2)),
        case((1, 1, 4, 3), (1, 1, 3, 2), padding=(1, 0)),
        case((1, 1, 3, 4), (1, 1, 2, 3), padding=(0, 2)),
        case((1, 2, 5, 5), (2, 2, 3, 3), stride=(2, 2)),
        case((1, 1, 6, 6), (1, 1, 3, 3), stride=(2, 2)),  # the last row and column are never met
        case((1, 1, 5, 7), (1, 1, 2, 2), stride=(2, 3)),
        case((1, 1, 7, 5), (1, 1, 1, 2), stride=(3, 4)),  # stride beyond the kernel: pixels between are skipped
        case((2, 1, 5, 4), (2, 1, 3, 2), stride=(2, 1), padding=(1, 1)),
        case((1, 1, 4, 6), (1, 1, 3, 3), stride=(3, 2), padding=(1, 2)),
        case((2, 2, 3, 2), (3, 2, 3, 2)),  # kernel = image
        case((2, 3, 2, 3), (2, 3, 1, 1)),
        case((4, 1, 1, 1), (2, 1, 1, 1)),
        case((0, 2, 3, 3), (2, 2, 2, 2)),
        case((1, 2, 4, 4), (2, 2, 3, 3), padding=(1, 1), dtype="float32"),
        case((2, 2, 4, 3), (2, 2, 2, 2), layout="reversed"),
        case((2, 2, 4, 3), (2, 2, 2, 2), layout="transposed", stride=(2, 1)),
    ]


def conv2d_strategy() -> Any:
    from hypothesis import strategies as st

    def build(draw: Any, rng: np.random.Generator, dtype: str, layout: str) -> Inputs:
        batch, inputs, outputs = (draw(st.integers(1, 2)) for _ in range(3))
        kernel = [draw(st.integers(1, 3)) for _ in range(2)]
        padding = tuple(draw(st.integers(0, 2)) for _ in range(2))
        stride = tuple(draw(st.integers(1, 3)) for _ in range(2))
        size = [draw(st.integers(max(1, k - 2 * p), k + 3)) for k, p in zip(kernel, padding, strict=True)]
        return conv2d_case(rng, (batch, inputs, *size), (outputs, inputs, *kernel), stride, padding, dtype, layout)

    return drawn(build)
