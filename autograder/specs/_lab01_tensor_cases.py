"""The inputs ``lab01_tensor`` is tried on: shapes, and views described by storage, shape, strides and offset.

Storages hold random numbers with three digits, all different, so that reading the wrong place shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.spec import Inputs

LARGE = 1_000_000


def numbers(rng: np.random.Generator, size: int, dtype: str = "float64") -> np.ndarray:
    """Different numbers of either sign with three digits, none near zero."""
    values = rng.permutation(np.linspace(0.3, 4.0, max(size, 1)))[:size] * rng.choice([-1.0, 1.0], size)
    return np.asarray(np.round(values, 3), dtype=dtype)


def described(storage: np.ndarray, shape: Any, strides: Any, offset: int = 0) -> dict[str, Any]:
    return {"storage": storage, "shape": list(shape), "strides": list(strides), "offset": offset}


def row_major(shape: Any) -> list[int]:
    return [math.prod(max(size, 1) for size in shape[axis + 1 :]) for axis in range(len(shape))]


def plain(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64", spare: int = 0) -> dict[str, Any]:
    """A row-major view that starts `spare` entries into its storage."""
    return described(numbers(rng, math.prod(shape) + 2 * spare, dtype), shape, row_major(shape), spare)


def turned(of: dict[str, Any], axes: list[int]) -> dict[str, Any]:
    return of | {"shape": [of["shape"][a] for a in axes], "strides": [of["strides"][a] for a in axes]}


def thinned(of: dict[str, Any], axis: int, start: int, step: int, size: int) -> dict[str, Any]:
    """Every `step`-th entry along an axis, from `start`, `size` of them."""
    shape, strides = list(of["shape"]), list(of["strides"])
    offset = of["offset"] + start * strides[axis]
    shape[axis], strides[axis] = size, strides[axis] * step
    return of | {"shape": shape, "strides": strides, "offset": offset}


def stretched(of: dict[str, Any], axis: int, size: int) -> dict[str, Any]:
    """A new axis of stride 0."""
    shape, strides = list(of["shape"]), list(of["strides"])
    return of | {"shape": [*shape[:axis], size, *shape[axis:]], "strides": [*strides[:axis], 0, *strides[axis:]]}


# --- layout ---------------------------------------------------------------------------------------


def layout_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(shape: list[int], strides: list[int], offset: int) -> Inputs:
        return {
            "shape": shape,
            "index": [int(rng.integers(0, max(size, 1))) for size in shape],
            "strides": strides,
            "offset": offset,
        }

    return [
        case([], [], int(rng.integers(1, 9))),
        case([5], [1], 0),
        case([2, 3], [3, 1], 0),
        case([3, 2], [1, 3], 4),
        case([4, 1, 3], [-3, 7, -1], 30),
        case([2, 3], [-7, -2], 40) | {"index": [1, 2]},
        case([2, 3, 4, 5], [60, 20, 5, 1], 7),
        case([3, 4], [0, 0], 2),
        case([1, 1], [1, 1], 3),
        case([0], [1], 0),
        case([2, 0, 3], [3, 3, 1], 0),
        case([3, 0], [1, 1], 1),
    ]


def layout_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shape = draw(st.lists(st.integers(1, 5), max_size=4))
        return {
            "shape": shape,
            "index": [draw(st.integers(0, size - 1)) for size in shape],
            "strides": [draw(st.integers(-9, 9)) for _ in shape],
            "offset": draw(st.integers(0, 50)),
        }

    return cases()


# --- broadcast ------------------------------------------------------------------------------------


def broadcast_edges(rng: np.random.Generator) -> list[Inputs]:
    n, m = (int(size) for size in rng.choice(range(2, 9), 2, replace=False))
    lists = [
        [[]],
        [[], []],
        [[n]],
        [[], [n, m]],
        [[n, m], [m]],
        [[n, m], [n]],
        [[n], [n, 1]],
        [[n, 1], [1, m]],
        [[n, 1, m], [m, 1]],
        [[1], [1, 1]],
        [[n, m], [m, n]],
        [[0], [1]],
        [[0], []],
        [[0], [n]],
        [[n, 0], [1, 1]],
        [[1, 0], [n, 0]],
        [[n, 1, 1], [m, 1], [n]],
        [[n, m], [m], [n]],
        [[1, m], [n, 1], [1, 1], []],
    ]
    return [{"shapes": shapes} for shapes in lists]


def broadcast_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        full = draw(st.lists(st.integers(1, 5), max_size=4))
        shapes = []
        for _ in range(draw(st.integers(1, 3))):
            shape = [1 if draw(st.booleans()) else size for size in full][draw(st.integers(0, len(full))) :]
            shapes.append(shape)
        if draw(st.booleans()) and shapes[0]:
            place = draw(st.integers(0, len(shapes[0]) - 1))
            shapes[0] = [*shapes[0][:place], draw(st.integers(0, 5)), *shapes[0][place + 1 :]]
        return {"shapes": shapes}

    return cases()


# --- views ----------------------------------------------------------------------------------------


def view_edges(rng: np.random.Generator) -> list[Inputs]:
    grid = plain(rng, (3, 4), spare=2)
    cube = plain(rng, (2, 3, 4))
    row = plain(rng, (6,))
    backwards = thinned(row, 0, 5, -1, 6)
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        (grid, ["transpose", [1, 0]]),
        (cube, ["transpose", [2, 0, 1]]),
        (cube, ["transpose", [1, 2, 0]]),
        (turned(cube, [2, 0, 1]), ["transpose", [2, 0, 1]]),
        (plain(rng, ()), ["transpose", []]),
        (plain(rng, (0, 2)), ["transpose", [1, 0]]),
        (plain(rng, (3, 1), spare=1), ["broadcast_to", [3, 4]]),
        (plain(rng, (4,)), ["broadcast_to", [3, 4]]),
        (plain(rng, ()), ["broadcast_to", [2, 3]]),
        (plain(rng, (2, 1, 3)), ["broadcast_to", [5, 2, 4, 3]]),
        (turned(grid, [1, 0]), ["broadcast_to", [2, 4, 3]]),
        (plain(rng, (1,)), ["broadcast_to", [0]]),
        (plain(rng, (1, 1)), ["broadcast_to", [1, 1]]),
        (grid, ["broadcast_to", [3, 4]]),
        (grid, ["broadcast_to", [4, 3]]),
        (grid, ["broadcast_to", [4]]),
        (plain(rng, (3,)), ["broadcast_to", [1]]),
        (plain(rng, (3,)), ["broadcast_to", [3, 1]]),
        (row, ["take_slice", 0, 1, 5, 1]),
        (row, ["take_slice", 0, 0, 6, 4]),
        (row, ["take_slice", 0, None, None, 2]),
        (row, ["take_slice", 0, None, None, -1]),
        (row, ["take_slice", 0, None, None, -2]),
        (row, ["take_slice", 0, 4, 0, -3]),
        (row, ["take_slice", 0, -2, None, 1]),
        (row, ["take_slice", 0, -100, 100, 1]),
        (row, ["take_slice", 0, 100, -100, -1]),
        (row, ["take_slice", 0, 4, 2, 1]),
        (row, ["take_slice", 0, 2, 2, -1]),
        (backwards, ["take_slice", 0, 1, None, 2]),
        (backwards, ["take_slice", 0, None, None, -1]),
        (grid, ["take_slice", 1, 1, 4, 2]),
        (grid, ["take_slice", 0, None, None, -1]),
        (turned(cube, [1, 2, 0]), ["take_slice", 1, 3, None, -2]),
        (plain(rng, (0, 2)), ["take_slice", 0, None, None, -1]),
    ]
    return [{"of": of, "do": do} for of, do in cases]


def any_view(draw: Callable[..., Any], st: Any, rng: np.random.Generator, *, signs: bool = True) -> dict[str, Any]:
    """A view of up to three axes, perhaps turned, thinned, reversed or stretched."""
    of = plain(rng, tuple(draw(st.lists(st.integers(1, 4), max_size=3))), spare=draw(st.integers(0, 2)))
    for _ in range(draw(st.integers(0, 2))):
        ndim = len(of["shape"])
        kind = draw(st.sampled_from(["turn", "thin", "reverse", "stretch"]))
        if kind == "turn":
            of = turned(of, draw(st.permutations(range(ndim))))
        elif kind == "stretch" and ndim < 4:
            of = stretched(of, draw(st.integers(0, ndim)), draw(st.integers(1, 3)))
        elif ndim:
            axis = draw(st.integers(0, ndim - 1))
            size = of["shape"][axis]
            if kind == "reverse" and signs:
                of = thinned(of, axis, size - 1, -1, size)
            elif kind == "thin":
                start = draw(st.integers(0, size - 1))
                of = thinned(of, axis, start, 2, (size - start + 1) // 2)
    return of


def view_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        of = any_view(draw, st, rng)
        ndim = len(of["shape"])
        kind = draw(st.sampled_from(["transpose", "broadcast_to", "take_slice"] if ndim else ["broadcast_to"]))
        if kind == "transpose":
            return {"of": of, "do": [kind, list(draw(st.permutations(range(ndim))))]}
        if kind == "broadcast_to":
            stretch = [draw(st.integers(1, 4)) if size == 1 else size for size in of["shape"]]
            return {"of": of, "do": [kind, [*draw(st.lists(st.integers(1, 3), max_size=2)), *stretch]]}
        end = st.one_of(st.none(), st.integers(-5, 5))
        step = draw(st.sampled_from([1, 2, 3, -1, -2, -3]))
        return {"of": of, "do": [kind, draw(st.integers(0, ndim - 1)), draw(end), draw(end), step]}

    return cases()


# --- reshape --------------------------------------------------------------------------------------


def reshape_edges(rng: np.random.Generator) -> list[Inputs]:
    grid = plain(rng, (4, 6), spare=3)
    cube = plain(rng, (2, 3, 4))
    column = plain(rng, (3, 1))
    cases: list[tuple[dict[str, Any], list[int]]] = [
        (grid, [24]),
        (grid, [2, 12]),
        (grid, [2, 2, 3, 2]),
        (grid, [1, 4, 1, 6, 1]),
        (turned(grid, [1, 0]), [24]),
        (turned(grid, [1, 0]), [2, 3, 4]),
        (turned(grid, [1, 0]), [6, 2, 2]),
        (turned(grid, [1, 0]), [3, 8]),
        (turned(grid, [1, 0]), [6, 1, 4]),
        (thinned(grid, 1, 0, 2, 3), [12]),
        (thinned(grid, 1, 0, 3, 2), [4, 1, 2]),
        (thinned(grid, 0, 1, 2, 2), [2, 3, 2]),
        (thinned(grid, 0, 0, 1, 2), [12]),
        (thinned(plain(rng, (8,)), 0, 0, 2, 4), [2, 2]),
        (turned(cube, [0, 2, 1]), [2, 12]),
        (turned(cube, [1, 2, 0]), [12, 2]),
        (turned(cube, [2, 0, 1]), [4, 6]),
        (turned(cube, [1, 0, 2]), [6, 4]),
        (turned(cube, [1, 0, 2]), [3, 2, 2, 2]),
        (stretched(plain(rng, (4,)), 0, 3), [12]),
        (stretched(plain(rng, (4,)), 0, 3), [3, 2, 2]),
        (stretched(plain(rng, ()), 0, 6), [2, 3]),
        (stretched(plain(rng, (3,)), 1, 4), [12]),
        (turned(column, [1, 0]), [3]),
        (described(numbers(rng, 9), [1, 3], [7, 1], 2), [3]),
        (described(numbers(rng, 9), [3, 1], [1, 5], 2), [3]),
        (described(numbers(rng, 12), [2, 1, 3], [3, 50, 1], 1), [6]),
        (plain(rng, ()), [1, 1]),
        (plain(rng, (1, 1)), []),
        (plain(rng, (0, 3)), [3, 0]),
        (turned(plain(rng, (2, 0)), [1, 0]), [0]),
    ]
    return [{"of": of, "shape": shape} for of, shape in cases]


def reshape_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        of = any_view(draw, st, rng, signs=False)
        factors = [p for size in of["shape"] for p in _primes(size)]
        if draw(st.booleans()):
            factors = list(draw(st.permutations(factors)))
        shape: list[int] = []
        while factors:
            count = draw(st.integers(0, len(factors)))
            shape.append(math.prod(factors[:count]))
            factors = factors[count:]
        return {"of": of, "shape": shape[:6] if math.prod(shape[:6]) == math.prod(of["shape"]) else [*of["shape"]]}

    return cases()


def _primes(size: int) -> list[int]:
    found = []
    for p in (2, 3, 5):
        while size % p == 0:
            found.append(p)
            size //= p
    return found


# --- elementwise ----------------------------------------------------------------------------------


def elementwise_edges(rng: np.random.Generator) -> list[Inputs]:
    def case(f: str, a: dict[str, Any], b: dict[str, Any], every: int = 1) -> Inputs:
        return {"f": f, "a": a, "b": b, "every": every}

    grid, other = plain(rng, (3, 4), spare=2), plain(rng, (3, 4), spare=1)
    row, column = plain(rng, (4,)), plain(rng, (3, 1), spare=1)
    side = math.isqrt(LARGE)
    return [
        case("subtract", plain(rng, ()), plain(rng, ())),
        case("subtract", grid, other),
        case("subtract", grid, row),
        case("divide", column, row),
        case("subtract", row, column),
        case("maximum", turned(grid, [1, 0]), plain(rng, (4, 3))),
        case("subtract", thinned(grid, 1, 3, -1, 4), thinned(row, 0, 3, -1, 4)),
        case("add", stretched(row, 0, 3), turned(plain(rng, (4, 3)), [1, 0])),
        case("subtract", thinned(grid, 1, 1, 2, 2), plain(rng, ())),
        case("subtract", plain(rng, (2, 1, 3)), plain(rng, (4, 1))),
        case("add", plain(rng, (0, 3)), plain(rng, (3,))),
        case("add", plain(rng, (1,)), plain(rng, (0,))),
        case("add", plain(rng, (1, 1)), plain(rng, (1,))),
        case("subtract", grid, plain(rng, (3,))),
        case("subtract", plain(rng, (3, 4), "float32"), plain(rng, (4,), "float32")),
        case("subtract", plain(rng, (side, 1)), plain(rng, (side,)), every=9973),
    ]


def elementwise_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        a = any_view(draw, st, rng)
        other = [1 if draw(st.booleans()) else size for size in a["shape"]][draw(st.integers(0, len(a["shape"]))) :]
        b = plain(rng, tuple(other), spare=draw(st.integers(0, 2)))
        if draw(st.booleans()) and len(other) > 1:
            b = turned(plain(rng, tuple(other[::-1])), list(range(len(other)))[::-1])
        pair = [a, b] if draw(st.booleans()) else [b, a]
        return {
            "f": draw(st.sampled_from(["add", "subtract", "maximum", "divide"])),
            "a": pair[0],
            "b": pair[1],
            "every": 1,
        }

    return cases()
