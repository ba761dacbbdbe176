"""On what ``lab17_quantise`` is tried. Scales are powers of two, so that ties are ties in every precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograder.spec import Inputs


def _drawn(make: Callable[[np.random.Generator, Callable[[int, int], int]], Inputs]) -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return make(rng, lambda low, high: int(draw(st.integers(low, high))))

    return cases()


def scales(rng: np.random.Generator, shape: Sequence[int] = ()) -> np.ndarray:
    return np.asarray(rng.choice([0.125, 0.25, 0.5], shape), np.float32)


def points(rng: np.random.Generator, shape: Sequence[int] = (), far: int = 100) -> np.ndarray:
    return np.asarray(rng.integers(-far, far + 1, shape), np.int32)


# --- scale and zero point -------------------------------------------------------------------------


def _range(low: Any, high: Any, symmetric: bool) -> Inputs:
    return {"low": np.asarray(low, np.float32), "high": np.asarray(high, np.float32), "symmetric": symmetric}


def scale_edges(rng: np.random.Generator) -> list[Inputs]:
    a, b = (float(one) for one in rng.uniform(0.5, 3, 2))
    many = np.sort(rng.uniform(-4, 4, (2, 5)).astype(np.float32), axis=0)
    found = []
    for symmetric in (False, True):
        found += [
            _range(-a, b, symmetric),
            _range(-b, a / 8, symmetric),
            _range(a, a + b, symmetric),  # 0 is not in it
            _range(-a - b, -a, symmetric),
            _range(0.0, 0.0, symmetric),
            _range(many[0], many[1], symmetric),
            _range([-a, 0.0, a], [b, 0.0, a + b], symmetric),
            _range([-a], [b], symmetric),
        ]
    return found


def scale_strategy() -> Any:
    def make(rng: np.random.Generator, number: Callable[[int, int], int]) -> Inputs:
        n = number(0, 4)
        ends = np.sort(rng.uniform(-4, 4, (2, n) if n else 2).astype(np.float32), axis=0)
        return _range(ends[0], ends[1], bool(number(0, 1)))

    return _drawn(make)


# --- quantise and dequantise ----------------------------------------------------------------------


def integers_case(rng: np.random.Generator, shape: tuple[int, ...], axis: int | None, dtype: str) -> Inputs:
    """Every fourth number is half-way between two steps, and some lie beyond the grid."""
    several = () if axis is None else (shape[axis],)
    scale, zero_point = scales(rng, several), points(rng, several)
    spread = scale if axis is None else scale.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    steps = np.asarray(80 * rng.standard_normal(shape))
    halves = np.floor(steps) + 0.5
    x = np.where(rng.random(shape) < 0.25, halves, steps) * spread
    return {"x": np.asarray(x, dtype), "scale": scale, "zero_point": zero_point, "axis": axis}


def integers_edges(rng: np.random.Generator) -> list[Inputs]:
    uneven = np.float32(rng.uniform(0.05, 0.2))  # no power of two, so that reals have all their digits
    steps = rng.integers(-140, 140, 4) + rng.uniform(-0.3, 0.3, 4)
    return [
        integers_case(rng, *one)
        for one in (
            ((), None, "float32"),
            ((0,), None, "float32"),
            ((1,), 0, "float32"),
            ((40,), None, "float32"),
            ((40,), None, "float64"),
            ((4, 4), 0, "float32"),  # square: the wrong axis fits too
            ((4, 4), 1, "float32"),
            ((4, 4), -1, "float64"),
            ((3, 3, 3), 1, "float32"),
            ((2, 3, 4), -3, "float32"),
            ((0, 3), 1, "float32"),
        )
    ] + [
        {
            "x": np.array([-np.inf, np.inf, 0.0], np.float32),
            "scale": scales(rng),
            "zero_point": points(rng),
            "axis": None,
        },
        {"x": (steps * uneven).astype(np.float32), "scale": uneven, "zero_point": points(rng), "axis": None},
    ]


def integers_strategy() -> Any:
    def make(rng: np.random.Generator, number: Callable[[int, int], int]) -> Inputs:
        ndim = number(0, 3)
        n = number(1, 4)
        shape = tuple(n for _ in range(ndim))
        axis = number(-ndim, ndim - 1) if ndim and number(0, 1) else None
        return integers_case(rng, shape, axis, ("float32", "float64")[number(0, 1)])

    return _drawn(make)


# --- the product ----------------------------------------------------------------------------------


def product_case(rng: np.random.Generator, m: int, k: int, n: int, columns: bool, *, whole: bool = False) -> Inputs:
    """Sums that partly saturate, on a grid where ties occur."""
    several = (n,) if columns else ()
    x, w = (scales(rng), points(rng)), (scales(rng, several), points(rng, several, 5))
    far = 127 if whole else 40
    qx, qw = (rng.integers(-far - 1, far + 1, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    largest = max(k, 1) * 2.0 ** (5 if not whole else 9)
    step = 2.0 ** np.round(np.log2(largest * 0.0625 / 4))
    y = np.float32(step), points(rng, (), 20)
    return {"qx": qx, "qw": qw, "x": x, "w": w, "y": y}


def product_ties(rng: np.random.Generator) -> Inputs:
    """Sums from -8 to 8 in halves of a step of y: every other one is a tie, also once the odd zero point is added."""
    (zx, zw), y = points(rng, (2,)), (np.float32(0.25), points(rng, (), 20) | 1)
    qx = (zx + rng.permutation(np.arange(-8, 9))[:, None]).astype(np.int8)
    qw = np.array([[zw + 1]], np.int8)
    return {"qx": qx, "qw": qw, "x": (np.float32(0.5), zx), "w": (np.float32(0.25), zw), "y": y}


def product_uneven(rng: np.random.Generator) -> Inputs:
    """Scales that are no powers of two, and sums of which none is near a tie: for half a float it is another step."""
    while True:
        sx, zx = np.float32(rng.uniform(0.01, 0.02)), points(rng)
        sw, zw = rng.uniform(0.01, 0.02, 2).astype(np.float32), points(rng, (2,), 5)
        qx, qw = (rng.integers(-60, 61, shape).astype(np.int8) for shape in ((2, 3), (3, 2)))
        sums = (qx.astype(np.int64) - zx) @ (qw.astype(np.int64) - zw)
        real = sums * float(sx) * sw.astype(np.float64)
        sy = np.float32(np.abs(real).max() / 100)
        steps, ratio = real / float(sy), float(sx) * sw.astype(np.float64) / float(sy)
        halved = sums * ratio.astype(np.float16).astype(np.float64)
        if np.abs(steps % 1 - 0.5).min() > 0.01 and (np.rint(halved) != np.rint(steps)).any():
            return {"qx": qx, "qw": qw, "x": (sx, zx), "w": (sw, zw), "y": (sy, points(rng, (), 20))}


def product_edges(rng: np.random.Generator) -> list[Inputs]:
    return [
        product_case(rng, 1, 1, 1, False),
        product_case(rng, 3, 4, 2, False),
        product_case(rng, 4, 4, 4, True),
        product_case(rng, 2, 50, 5, True),
        product_case(rng, 6, 300, 6, True, whole=True),
        product_case(rng, 5, 64, 7, False, whole=True),
        product_case(rng, 0, 3, 2, True),
        product_case(rng, 3, 0, 2, False),
        product_case(rng, 8, 8, 8, True),
        product_ties(rng),
        product_uneven(rng),
    ]


def product_strategy() -> Any:
    def make(rng: np.random.Generator, number: Callable[[int, int], int]) -> Inputs:
        return product_case(rng, number(1, 4), number(1, 6), number(1, 4), bool(number(0, 1)))

    return _drawn(make)


# --- calibration ----------------------------------------------------------------------------------


def calibrate_case(rng: np.random.Generator, sizes: Sequence[Any], percentile: float, shift: float = 0.0) -> Inputs:
    batches = [np.asarray(rng.standard_normal(size) * rng.uniform(0.5, 2) + shift, np.float32) for size in sizes]
    return {"batches": batches, "percentile": percentile}


def calibrate_edges(rng: np.random.Generator) -> list[Inputs]:
    outlier = calibrate_case(rng, [(100, 4), (99, 4)], 99.0)
    outlier["batches"][0][3, 2] = 60.0
    activations = calibrate_case(rng, [(4,), (3,)], 80.0)  # behind ReLU most are 0, and count each
    activations["batches"] = [np.abs(batch) * (np.arange(len(batch)) == 0) for batch in activations["batches"]]
    return [
        calibrate_case(rng, [()], 100.0),
        calibrate_case(rng, [(5,)], 100.0),
        calibrate_case(rng, [(5,)], 60.0),
        calibrate_case(rng, [(40, 3), (2, 3)], 90.0),
        calibrate_case(rng, [(30,), (0,), (7,)], 95.0),
        calibrate_case(rng, [(30, 2), (20, 2)], 99.0, shift=9.0),  # all above 0
        calibrate_case(rng, [(30, 2), (20, 2)], 99.0, shift=-9.0),
        calibrate_case(rng, [(8, 5, 5), (3, 5, 5)], 99.9),
        outlier,
        activations,
    ]


def calibrate_strategy() -> Any:
    def make(rng: np.random.Generator, number: Callable[[int, int], int]) -> Inputs:
        sizes = [(number(1, 6), 2) for _ in range(number(1, 3))]
        return calibrate_case(rng, sizes, float(number(60, 100)), float(number(-2, 2)))

    return _drawn(make)


# --- straight through -----------------------------------------------------------------------------


def straight_case(rng: np.random.Generator, shape: tuple[int, ...]) -> Inputs:
    """No ties, where frameworks differ; many numbers next to the ends of the grid."""
    scale, zero_point = scales(rng), points(rng)
    steps = np.asarray(120 * rng.standard_normal(shape))
    ends = np.asarray(rng.choice([-128, 127], shape) - int(zero_point), float)
    steps = np.where(rng.random(shape) < 0.5, steps, ends)
    x = (np.floor(steps) + rng.choice([-0.75, -0.25, 0.0, 0.25, 0.75], shape)) * float(scale)
    g = np.asarray(rng.standard_normal(shape), np.float32)
    return {"x": np.asarray(x, np.float32), "scale": scale, "zero_point": zero_point, "g": g}


def straight_edges(rng: np.random.Generator) -> list[Inputs]:
    shapes: list[tuple[int, ...]] = [(), (0,), (1,), (60,), (8, 8), (2, 3, 4), (200,), (0, 3)]
    return [straight_case(rng, shape) for shape in shapes]


def straight_strategy() -> Any:
    def make(rng: np.random.Generator, number: Callable[[int, int], int]) -> Inputs:
        return straight_case(rng, tuple(number(1, 4) for _ in range(number(0, 3))))

    return _drawn(make)
