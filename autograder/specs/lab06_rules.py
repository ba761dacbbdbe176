"""``lab06_rules``: the rules people get wrong, each asked of torch, TensorFlow and arithmetic on fresh inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograder.literal import literal
from autograder.spec import Lab, Task
from autograder.specs import _lab06_rules_cases as cases
from autograder.specs import _lab06_rules_oracles as oracles
from autograder.specs._lab06_rules_judges import judge_of, max_judge
from autograder.specs._source import source

# --- replays: source that shows a case in the learner's own notebook ---------------------------------


def assigned(**arrays: np.ndarray) -> list[str]:
    """A line for each array."""
    return [f"{name} = {_source(array)}" for name, array in arrays.items()]


def _source(array: np.ndarray) -> str:
    """As `source`, where integers keep their dtype without saying so."""
    return source(array).replace(", dtype=np.int64)", ")") if array.size else source(array)


def replay_embedding(g: np.ndarray, table: np.ndarray, index: np.ndarray) -> str:
    return "\n".join([*assigned(g=g, table=table, index=index), "embedding_rule(g, table, index)"])


def replay_softmax(op: str, g: np.ndarray, x: np.ndarray, target: np.ndarray | None) -> str:
    if op == "log_softmax":
        return "\n".join([*assigned(g=g, x=x), "log_softmax_rule(g, x)"])
    assert target is not None
    return "\n".join([*assigned(g=g, logits=x, target=target), "cross_entropy_rule(g, logits, target)"])


def replay_max(g: np.ndarray, x: np.ndarray, axis: int | None) -> str:
    return "\n".join([*assigned(g=g, x=x), f"max_rule(g, x, {axis})"])


def replay_quantise(g: np.ndarray, x: np.ndarray, scale: np.ndarray, low: int, high: int) -> str:
    return "\n".join([*assigned(g=g, x=x, scale=scale), f"quantise_rule(g, x, scale, {low}, {high})"])


def replay_layer_norm(g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> str:
    lines = assigned(g=g, x=x, weight=weight, bias=bias)
    return "\n".join([*lines, f"layer_norm_rule(g, x, weight, bias, {eps})"])


def replay_conv2d(g: np.ndarray, x: np.ndarray, weight: np.ndarray, stride: list[int], padding: list[int]) -> str:
    call = f"conv2d_rule(g, x, weight, stride={tuple(stride)}, padding={tuple(padding)})"
    return "\n".join([*assigned(g=g, x=x, weight=weight), call])


def show_parts(*parts: str) -> Callable[[Any], str]:
    """An answer of several arrays, each by its name."""

    def show(answer: Sequence[Any]) -> str:
        return "\n".join(f"{name} = {literal(part)}" for name, part in zip(parts, answer, strict=True))

    return show


# --- the tasks ------------------------------------------------------------------------------------

COMMON = {
    "dtype": "A cotangent has the dtype of its input. np.mean of integers, a division of counts, and a float32 array "
    "that meets an array of integers (also inside np.where) give float64 too.",
    "read_only": "The arrays you are given are shared with the rest of the tape.",
    "in_place_dtype": "Make the array in the dtype of its input from the start.",
}

EMBEDDING_HINTS = COMMON | {
    "index": "index may have any shape, also () and (0,): np.add.at takes it as it is.",
    "one_number": "index may have any shape, also () and (2, 3): np.add.at takes it as it is.",
    "reshape": "g has the shape of index, followed by the width of the table.",
    "broadcast": "g has the shape of index, followed by the width of the table.",
}

EMBEDDING = Task(
    name="embedding",
    title="Looking up rows, some of them twice",
    points=10,
    names=("embedding_rule",),
    driver="embedding",
    call=replay_embedding,
    show=literal,
    strategy=cases.embedding_strategy,
    edges=cases.embedding_edges,
    oracles={
        "torch": oracles.embedding_torch,
        "tensorflow": oracles.embedding_tensorflow,
        "numpy": oracles.embedding_steps,
    },
    judge=judge_of("embedding", hints=EMBEDDING_HINTS),
    hints=EMBEDDING_HINTS,
)

SOFTMAX_HINTS = COMMON | {
    "not_finite": "exp overflows above 709 in float64 and above 88 in float32. Subtract the largest entry of each row "
    "first: softmax does not change.",
    "broadcast": "Keep the axis you sum over, keepdims=True; and g of cross_entropy is one number for each row, "
    "g[:, None].",
    "empty": "A batch of size 0 has no largest entry overall; take it along the last axis, with keepdims=True.",
    "index": "log_softmax takes any number of axes: work along axis -1.",
}

SOFTMAX = Task(
    name="softmax",
    title="log_softmax and cross-entropy, from logits of any size",
    points=15,
    names=("log_softmax_rule", "cross_entropy_rule"),
    driver="softmax",
    call=replay_softmax,
    show=literal,
    strategy=cases.softmax_strategy,
    edges=cases.softmax_edges,
    oracles={"torch": oracles.softmax_torch, "tensorflow": oracles.softmax_tensorflow, "numpy": oracles.softmax_steps},
    judge=judge_of("softmax", hints=SOFTMAX_HINTS),
    hints=SOFTMAX_HINTS,
)

MAX_HINTS = COMMON | {
    "broadcast": "The result has lost an axis: np.expand_dims(g, axis) puts it back, and g spreads over x again.",
    "axis": "axis may be negative, or None: then the largest of all entries was taken, and g is 0-d.",
    "signature": "axis may be None: then the largest of all entries was taken, and g is 0-d.",
    "none_used": "axis may be None: then the largest of all entries was taken, and g is 0-d.",
    "empty": "A batch of size 0 has no largest entry; along the axis that was reduced there is always one.",
    "index": "x may be 0-d, and axis None.",
}

MAX = Task(
    name="max",
    title="The largest entry, and what happens at a tie",
    points=15,
    names=("max_rule",),
    driver="maximum",
    call=replay_max,
    show=literal,
    strategy=cases.max_strategy,
    edges=cases.max_edges,
    oracles={"torch": oracles.max_torch, "tensorflow": oracles.max_tensorflow, "numpy": oracles.max_steps},
    judge=max_judge(MAX_HINTS),
    hints=MAX_HINTS,
)

QUANTISE_PARTS = ("dx", "dscale")
QUANTISE_HINTS = COMMON | {
    "scalar": "np.sum of an array gives a NumPy scalar, which is right; float(...) makes a Python number of it.",
}

QUANTISE = Task(
    name="quantise",
    title="A rule that is not the derivative: straight through",
    points=15,
    names=("quantise_rule",),
    driver="quantise",
    call=replay_quantise,
    show=show_parts(*QUANTISE_PARTS),
    strategy=cases.quantise_strategy,
    edges=cases.quantise_edges,
    oracles={
        "torch": oracles.quantise_torch,
        "tensorflow": oracles.quantise_tensorflow,
        "numpy": oracles.quantise_steps,
    },
    judge=judge_of("quantise", QUANTISE_PARTS, QUANTISE_HINTS),
    hints=QUANTISE_HINTS,
)

LAYER_NORM_PARTS = ("dx", "dweight", "dbias")
LAYER_NORM_HINTS = COMMON | {
    "not_finite": "eps keeps the root from being 0 where a row has no variance; with a single feature the mean is x "
    "itself.",
    "broadcast": "Take means over the features with keepdims=True.",
    "axis": "All axes but the last are rows: tuple(range(x.ndim - 1)), which is empty for 1-d x.",
    "reshape": "All axes but the last are rows, and there may be 0 of them: give reshape the sizes rather than -1.",
}

LAYER_NORM = Task(
    name="layer_norm",
    title="Layer normalisation, whose mean and variance depend on x",
    points=20,
    names=("layer_norm_rule",),
    driver="layer_norm",
    call=replay_layer_norm,
    show=show_parts(*LAYER_NORM_PARTS),
    strategy=cases.layer_norm_strategy,
    edges=cases.layer_norm_edges,
    oracles={
        "torch": oracles.layer_norm_torch,
        "tensorflow": oracles.layer_norm_tensorflow,
        "numpy": oracles.layer_norm_steps,
    },
    judge=judge_of("layer_norm", LAYER_NORM_PARTS, LAYER_NORM_HINTS),
    hints=LAYER_NORM_HINTS,
)

CONV2D_PARTS = ("dx", "dweight")
CONV2D_HINTS = COMMON | {
    "broadcast": "Window (i, j) covers rows i * stride ... i * stride + height of the kernel of the padded image; "
    "behind the last window some rows may be left over.",
    "reshape": "The batch may be empty: give reshape the sizes rather than -1.",
    "in_place_shape": "Or the window runs out of the image: window (i, j) begins at row i * stride[0], column "
    "j * stride[1] of the padded image.",
    "off_by_one": "Where the stride does not divide evenly, the last rows and columns of the image are under no "
    "window: their cotangent is 0, but they are there.",
    "shape": "dx has x's shape, also where the last rows and columns are under no window.",
}

CONV2D = Task(
    name="conv2d",
    title="Convolution with stride and padding",
    points=25,
    names=("conv2d_rule",),
    driver="conv2d",
    call=replay_conv2d,
    show=show_parts(*CONV2D_PARTS),
    strategy=cases.conv2d_strategy,
    edges=cases.conv2d_edges,
    oracles={"torch": oracles.conv2d_torch, "tensorflow": oracles.conv2d_tensorflow, "numpy": oracles.conv2d_steps},
    judge=judge_of("conv2d", CONV2D_PARTS, CONV2D_HINTS),
    limit=4.0,
    hints=CONV2D_HINTS,
)

lab = Lab(
    name="lab06_rules",
    title="Rules that hurt: six pullbacks people get wrong",
    tasks=(EMBEDDING, SOFTMAX, MAX, QUANTISE, LAYER_NORM, CONV2D),
)
