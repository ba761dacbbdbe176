"""The inputs ``lab10_training`` is tried on: parameters, gradients of several steps, and settings.

Hypothesis draws shapes and settings, which is what shrinks; values come from a drawn seed and are short to print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograder.spec import Inputs

Shape = tuple[int, ...]
LAYOUTS = ("rows", "reversed", "columns", "strided")


def numbers(rng: np.random.Generator, shape: Shape, dtype: str = "float64") -> np.ndarray:
    """Random numbers of either sign with three digits, none near zero."""
    values = rng.uniform(0.3, 2.5, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(np.round(values, 3), dtype=dtype)


def sized(rng: np.random.Generator, shape: Shape | None, dtype: str, size: float) -> np.ndarray | None:
    """`numbers`, times `size`; None for no shape."""
    return None if shape is None else np.asarray(numbers(rng, shape, dtype) * size, dtype)


def rates(rng: np.random.Generator, steps: int) -> list[float]:
    return [float(np.round(rate, 3)) for rate in rng.uniform(0.02, 0.2, steps)]


# --- sgd --------------------------------------------------------------------------------------------


def sgd_case(
    rng: np.random.Generator,
    shape: Shape,
    steps: int,
    momentum: float,
    nesterov: bool,
    dtype: str = "float64",
    layout: str = "rows",
) -> Inputs:
    return {
        "parameter": numbers(rng, shape, dtype),
        "gradients": [numbers(rng, shape, dtype) for _ in range(steps)],
        "lrs": rates(rng, steps),
        "momentum": momentum,
        "nesterov": nesterov,
        "layout": layout,
    }


def sgd_edges(rng: np.random.Generator) -> list[Inputs]:
    cases = [
        sgd_case(rng, shape, 4, momentum, nesterov)
        for shape, momentum, nesterov in (
            ((), 0.9, False),
            ((), 0.5, True),
            ((1,), 0.0, False),
            ((1,), 0.0, True),
            ((0,), 0.9, True),
            ((2, 3), 0.9, False),
            ((2, 3), 0.8, True),
            ((2, 0), 0.5, False),
            ((1, 1, 1), 0.9, True),
        )
    ]
    cases += [sgd_case(rng, (2, 3), 3, 0.9, False, layout=layout) for layout in LAYOUTS[1:]]
    cases += [sgd_case(rng, (3,), 3, 0.9, nesterov, dtype="float32") for nesterov in (False, True)]
    cases.append(sgd_case(rng, (2,), 20, 0.95, True))
    return cases


def sgd_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shape = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
        steps = draw(st.integers(1, 5))
        momentum = draw(st.sampled_from([0.0, 0.5, 0.9]))
        nesterov, dtype = draw(st.booleans()), draw(st.sampled_from(["float64", "float32"]))
        layout = draw(st.sampled_from(LAYOUTS))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return sgd_case(rng, shape, steps, momentum, nesterov, dtype, layout)

    return cases()


# --- adam, adamw ------------------------------------------------------------------------------------

Presence = Sequence[Sequence[bool]]


def adam_case(
    rng: np.random.Generator,
    shapes: Sequence[Shape],
    steps: int,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float | None = None,
    missing: Sequence[tuple[int, int]] = (),
    dtype: str = "float64",
    layout: str = "rows",
) -> Inputs:
    """`missing` lists (step, parameter) without a gradient."""
    case: Inputs = {
        "parameters": [numbers(rng, shape, dtype) for shape in shapes],
        "gradients": [
            [None if (step, i) in missing else numbers(rng, shape, dtype) for i, shape in enumerate(shapes)]
            for step in range(steps)
        ],
        "lrs": rates(rng, steps),
        "betas": list(betas),
        "eps": eps,
        "layout": layout,
    }
    return case if weight_decay is None else case | {"weight_decay": weight_decay}


def adam_edges(rng: np.random.Generator) -> list[Inputs]:
    return _edges(rng, None)


def adamw_edges(rng: np.random.Generator) -> list[Inputs]:
    fixed = _edges(rng, 0.1)
    fixed.append(adam_case(rng, [(2, 2), (2,)], 3, weight_decay=0.0))
    fixed.append(adam_case(rng, [(2, 2), (2,), (1, 2, 1), ()], 4, weight_decay=0.5))
    return fixed


def _edges(rng: np.random.Generator, decay: float | None) -> list[Inputs]:
    def case(shapes: Sequence[Shape], steps: int, **more: Any) -> Inputs:
        return adam_case(rng, shapes, steps, weight_decay=decay, **more)

    return [
        case([()], 1),
        case([(2, 1)], 1),
        case([()], 3, eps=0.1),
        case([(1,), (1,)], 3),
        case([(0,)], 2),
        case([(2, 3), (3,)], 4),
        case([(2, 3), (2, 0), ()], 3, eps=0.05),
        case([(2, 2)], 3, betas=(0.5, 0.75)),
        case([(2,)], 3, betas=(0.0, 0.0), eps=1e-3),
        case([(2,), (2,)], 4, missing=[(1, 0), (2, 0)]),
        case([(2, 2), (2, 2)], 4, missing=[(0, 1)]),
        case([(3, 1)], 3, missing=[(0, 0), (1, 0), (2, 0)]),
        case([(2, 3)], 3, layout="reversed"),
        case([(2, 3), (3,)], 3, layout="columns"),
        case([(2, 3), (3,)], 3, layout="strided"),
        case([(2, 2), (2,)], 3, dtype="float32"),
        case([(2, 2)], 20, betas=(0.9, 0.99)),
    ]


def adam_strategy(*, decayed: bool = False) -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shapes = draw(st.lists(st.lists(st.integers(1, 3), max_size=3).map(tuple), min_size=1, max_size=3))
        steps = draw(st.integers(1, 5))
        missing = [(step, i) for step in range(steps) for i in range(len(shapes)) if draw(st.integers(0, 5)) == 5]
        settings = {
            "betas": draw(st.sampled_from([(0.9, 0.999), (0.5, 0.9), (0.0, 0.5)])),
            "eps": draw(st.sampled_from([1e-8, 1e-3, 0.1])),
            "weight_decay": draw(st.sampled_from([0.01, 0.3, 1.0])) if decayed else None,
            "dtype": draw(st.sampled_from(["float64", "float32"])),
            "layout": draw(st.sampled_from(LAYOUTS)),
        }
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return adam_case(rng, shapes, steps, missing=missing, **settings)

    return cases()


def adamw_strategy() -> Any:
    return adam_strategy(decayed=True)


# --- limits -----------------------------------------------------------------------------------------


def clip_case(
    rng: np.random.Generator,
    shapes: Sequence[Shape | None],
    bound: float,
    *,
    size: float = 1.0,
    dtype: str = "float64",
    layout: str = "rows",
) -> Inputs:
    """`bound` is a share of the norm of the gradients, where they have one."""
    gradients = [sized(rng, shape, dtype, size) for shape in shapes]
    norm = float(np.sqrt(sum(float(np.sum(np.square(g, dtype=np.float64))) for g in gradients if g is not None)))
    max_norm = float(np.round(bound * (norm or 1.0), 3))
    return {"what": "clip", "given": {"gradients": gradients, "max_norm": max_norm, "layout": layout}}


def schedule_case(steps: Sequence[int], peak: float, warmup: int, total: int, floor: float = 0.0) -> Inputs:
    given = {"steps": list(steps), "peak": peak, "warmup": warmup, "total": total, "floor": floor}
    return {"what": "schedule", "given": given}


def limits_edges(rng: np.random.Generator) -> list[Inputs]:
    clips = [
        clip_case(rng, [(2,)], 0.5),
        clip_case(rng, [()], 0.5),
        clip_case(rng, [(2,)], 2.0),
        clip_case(rng, [(2, 3), None, (3,)], 0.25),
        clip_case(rng, [(2, 2), (4,)], 0.9, dtype="float32"),
        clip_case(rng, [(0,), (1,)], 0.5),
        clip_case(rng, [(2,), (2,)], 1.5),
        clip_case(rng, [(2, 3)], 0.5, layout="reversed"),
        clip_case(rng, [(2, 3)], 0.5, layout="strided"),
        clip_case(rng, [(3,), (2,)], 0.5, size=100.0),
        clip_case(rng, [], 1.0),
        clip_case(rng, [None], 1.0),
        clip_case(rng, [(2,)], 0.5, size=0.0),
    ]
    peak = float(np.round(rng.uniform(0.1, 1.0), 3))
    schedules = [
        schedule_case([0], peak, 4, 20),
        schedule_case(range(12), peak, 3, 10),
        schedule_case([0, 1, 2], peak, 0, 2),
        schedule_case([0, 1, 2, 3], peak, 1, 2),
        schedule_case(range(9), peak, 2, 6, floor=float(np.round(peak / 8, 4))),
        schedule_case([7, 8, 9, 100], peak, 3, 8),
        schedule_case([49, 50, 51, 525, 1000], peak, 50, 1000, floor=0.01),
    ]
    return clips + schedules


def limits_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        if draw(st.booleans()):
            warmup, rest = draw(st.integers(0, 5)), draw(st.integers(1, 8))
            steps = draw(st.lists(st.integers(0, warmup + rest + 2), min_size=1, max_size=4))
            peak = float(np.round(rng.uniform(0.1, 1.0), 3))
            return schedule_case(steps, peak, warmup, warmup + rest, draw(st.sampled_from([0.0, 0.05])))
        shapes = draw(st.lists(st.none() | st.lists(st.integers(1, 3), max_size=2).map(tuple), max_size=3))
        bound = draw(st.sampled_from([0.3, 0.8, 1.25, 4.0]))
        layout = draw(st.sampled_from(LAYOUTS))
        return clip_case(rng, shapes, bound, dtype=draw(st.sampled_from(["float64", "float32"])), layout=layout)

    return cases()


# --- batches ----------------------------------------------------------------------------------------


def batches_case(n: int, batch_size: int, seed: int, steps: int, save_at: int) -> Inputs:
    return {"n": n, "batch_size": batch_size, "seed": seed, "steps": steps, "save_at": save_at}


def batches_edges(rng: np.random.Generator) -> list[Inputs]:
    seed = int(rng.integers(1, 1000))
    return [
        batches_case(1, 1, seed, 3, 1),
        batches_case(12, 4, seed, 9, 4),
        batches_case(10, 4, seed + 1, 10, 5),
        batches_case(10, 4, seed + 1, 8, 3),
        batches_case(10, 3, seed + 2, 10, 0),
        batches_case(9, 9, seed + 3, 5, 2),
        batches_case(7, 20, seed + 4, 5, 1),
        batches_case(40, 1, seed + 5, 90, 41),
        batches_case(101, 8, 0, 40, 17),
    ]


def batches_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        n, batch_size = draw(st.integers(1, 30)), draw(st.integers(1, 12))
        steps = draw(st.integers(1, 20))
        return batches_case(n, batch_size, draw(st.integers(0, 99)), steps, draw(st.integers(0, steps - 1)))

    return cases()


# --- scaler -----------------------------------------------------------------------------------------

INFINITE, NAN = float("inf"), float("nan")


def scaler_case(
    rng: np.random.Generator,
    scale: float,
    interval: int,
    bad: Sequence[float | None],
    shapes: Sequence[Shape | None] = ((2,),),
    dtype: str = "float32",
    where: int = 0,
) -> Inputs:
    """One step for each of `bad`: the number that spoils an entry of gradient `where`, or None."""
    steps = []
    for spoil in bad:
        gradients = [sized(rng, shape, dtype, 8.0) for shape in shapes]
        if spoil is not None:
            gradient = gradients[where]
            assert gradient is not None
            gradient.reshape(-1)[-1] = spoil
        steps.append(gradients)
    return {"scale": scale, "interval": interval, "gradients": steps}


def scaler_edges(rng: np.random.Generator) -> list[Inputs]:
    large = scaler_case(rng, 4.0, 3, [None])
    large["gradients"] = [[np.array([3e38, 2e38], np.float32), np.array([3e38], np.float32)]]
    return [
        scaler_case(rng, 1024.0, 3, [None]),
        scaler_case(rng, 1024.0, 3, [INFINITE]),
        scaler_case(rng, 1024.0, 3, [NAN]),
        scaler_case(rng, 1024.0, 3, [-INFINITE]),
        scaler_case(rng, 8.0, 1, [None, None, INFINITE, None]),
        scaler_case(rng, 8.0, 3, [None] * 8),
        scaler_case(rng, 8.0, 3, [None, None, NAN, None, None, None, None]),
        scaler_case(rng, 8.0, 2, [INFINITE, NAN, INFINITE, None, None]),
        scaler_case(rng, 2.0, 2, [None, INFINITE], [(2,), (2, 2)], where=1),
        scaler_case(rng, 2.0, 2, [None, NAN, None], [None, (1,), ()], where=2),
        scaler_case(rng, 2.0, 2, [INFINITE, NAN], [(1,), (1,)], where=1),
        scaler_case(rng, 2.0, 2, [INFINITE, NAN], [(1,), (1,)]),
        scaler_case(rng, 2.0, 2, [None, None], [(0,), (1, 2)], dtype="float64"),
        scaler_case(rng, 0.5, 4, [INFINITE, INFINITE, None], [()], dtype="float64"),
        large,
    ]


def scaler_strategy() -> Any:
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Callable[..., Any]) -> Inputs:
        shapes = [(draw(st.integers(1, 3)),), *draw(st.lists(st.none() | st.just((2, 2)), max_size=2))]
        bad = draw(st.lists(st.sampled_from([None, None, INFINITE, NAN]), min_size=1, max_size=6))
        scale, interval = draw(st.sampled_from([4.0, 1024.0, 65536.0])), draw(st.integers(1, 3))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        return scaler_case(rng, scale, interval, bad, shapes, draw(st.sampled_from(["float32", "float64"])))

    return cases()
