"""``lab17_quantise``: 8-bit integers for reals: scale, rounding, exact products, calibration, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.spec import Lab, Task
from autograder.specs import _lab17_quantise_cases as cases
from autograder.specs import _lab17_quantise_judges as judges
from autograder.specs import _lab17_quantise_oracles as oracles
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def replay_scale(low: np.ndarray, high: np.ndarray, symmetric: bool) -> str:
    return f"scale_and_zero_point({source(low)}, {source(high)}, {symmetric})"


def replay_integers(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int | None) -> str:
    text = source(x).replace("-inf", "-np.inf").replace("inf", "np.inf").replace("np.np.", "np.")
    return "\n".join(
        [
            f"scale, zero_point = {source(scale)}, {source(zero_point)}",
            f"q = quantise({text}, scale, zero_point, {axis})",
            f"q, dequantise(q, scale, zero_point, {axis})",
        ]
    )


def replay_product(qx: np.ndarray, qw: np.ndarray, x: Any, w: Any, y: Any) -> str:
    pairs = [f"{name} = {source(np.asarray(pair[0]))}, {source(np.asarray(pair[1]))}" for name, pair in
             (("x", x), ("w", w), ("y", y))]  # fmt: skip
    return "\n".join([*pairs, f"int8_matmul({source(qx)}, {source(qw)}, x, w, y)"])


def replay_calibrate(batches: list[np.ndarray], percentile: float) -> str:
    return f"calibrate([{', '.join(source(batch) for batch in batches)}], {percentile})"


def replay_straight(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, g: np.ndarray) -> str:
    return "\n".join(
        [
            f"x, scale, zero_point = {source(x)}, {source(scale)}, {source(zero_point)}",
            f"fake_quantise(x, scale, zero_point), fake_quantise_backward({source(g)}, x, scale, zero_point)",
        ]
    )


# --- the tasks ------------------------------------------------------------------------------------

SCALE_POINT = Task(
    name="scale_point",
    title="Scale and zero point of a range",
    points=20,
    names=("scale_and_zero_point",),
    driver="scale_point",
    call=replay_scale,
    strategy=cases.scale_strategy,
    edges=cases.scale_edges,
    oracles={"torch": oracles.scale_torch, "tensorflow": oracles.scale_tensorflow, "numpy": oracles.scale_numpy},
    judge=judges.scale_point,
    hints={
        "shape": "A range per slice gives a scale and a zero point per slice: both have the shape of low and high.",
        "dtype": "The scale is float32; the zero point is an integer, after rounding and clipping.",
        "none": "scale_and_zero_point has to return the pair.",
    },
)

INTEGERS = Task(
    name="integers",
    title="Reals to integers and back",
    points=20,
    names=("quantise", "dequantise"),
    driver="integers",
    call=replay_integers,
    strategy=cases.integers_strategy,
    edges=cases.integers_edges,
    oracles={
        "torch": oracles.integers_torch,
        "tensorflow": oracles.integers_tensorflow,
        "numpy": oracles.integers_numpy,
    },
    judge=judges.integers,
    hints={
        "shape": "Reshape scale and zero point so that their one axis lies along `axis` of the array.",
        "dtype": "Clip first, as floats, and turn into int8 last: int8 wraps around where it is too small.",
        "none": "Both functions have to return their array.",
    },
)

PRODUCT = Task(
    name="product",
    title="A product of integers",
    points=25,
    names=("int8_matmul",),
    driver="product",
    call=replay_product,
    strategy=cases.product_strategy,
    edges=cases.product_edges,
    oracles={"torch": oracles.product_torch, "tensorflow": oracles.product_tensorflow, "numpy": oracles.product_numpy},
    judge=judges.product,
    hints={
        "dtype": "The product is summed in int32, and written as int8 at the end.",
        "shape": "The sums that correct for the zero points are a column of rows of qx and a row of columns of qw.",
        "none": "int8_matmul has to return the integers.",
    },
)

CALIBRATE = Task(
    name="calibrate",
    title="A range from batches",
    points=15,
    names=("calibrate",),
    driver="calibrate",
    call=replay_calibrate,
    strategy=cases.calibrate_strategy,
    edges=cases.calibrate_edges,
    oracles={"torch": oracles.calibrate_torch, "numpy": oracles.calibrate_numpy},
    judge=judges.calibrate,
    hints={
        "shape": "One range for all batches together: two numbers.",
        "none": "calibrate has to return the two ends.",
    },
)

STRAIGHT_THROUGH = Task(
    name="straight_through",
    title="A gradient through rounding",
    points=20,
    names=("fake_quantise", "fake_quantise_backward"),
    driver="straight_through",
    call=replay_straight,
    strategy=cases.straight_strategy,
    edges=cases.straight_edges,
    oracles={
        "torch": oracles.straight_torch,
        "tensorflow": oracles.straight_tensorflow,
        "numpy": oracles.straight_numpy,
    },
    judge=judges.straight_through,
    hints={
        "shape": "The gradient has the shape of x.",
        "dtype": "What comes out is float32 again: integers are only passed through on the way.",
        "none": "Both functions have to return their array.",
    },
)

lab = Lab(
    name="lab17_quantise",
    title="Eight bits: calibrate, quantise, train through it",
    tasks=(SCALE_POINT, INTEGERS, PRODUCT, CALIBRATE, STRAIGHT_THROUGH),
)
