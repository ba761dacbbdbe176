"""Where torch and tensorflow differ from each other: that they still do, whom we follow, that the op's doc says so."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from internals import Tensor, ops
from internals.autodiff import grad
from internals.ops import TABLE

pytestmark = pytest.mark.slow  # tensorflow takes 9 s to import

NAN, INF = float("nan"), float("inf")
REFUSED = "refused"


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def integers(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass(frozen=True, eq=False)
class Difference:
    """One call on which the two disagree.

    Parameters
    ----------
    follows : {"torch", "tensorflow", "neither"}
    torch, tf : callable ``(framework, *inputs)``, or the name of a function
    ours : callable ``(*inputs)``; the row itself unless given
    """

    name: str
    op: str
    follows: str
    inputs: tuple[np.ndarray, ...]
    torch: Callable[..., Any] | str
    tf: Callable[..., Any] | str
    ours: Callable[..., Any] | None = None

    def __str__(self) -> str:
        return f"{self.op}-{self.name}".replace(" ", "-")


ONE_HOT = {"torch": lambda t, i: t.nn.functional.one_hot(i, 2).float(), "tf": lambda f, i: f.one_hot(i, 2)}

DIFFERENCES = [
    Difference("tie", "maximum", "torch", (floats(1, 3), floats(1, 2)), "maximum", "maximum"),
    Difference("tie", "minimum", "torch", (floats(1, 3), floats(1, 2)), "minimum", "minimum"),
    Difference("NaN", "maximum", "torch", (floats(NAN, 3), floats(1, NAN)), "maximum", "maximum"),
    Difference("NaN", "minimum", "torch", (floats(NAN, 3), floats(1, NAN)), "minimum", "minimum"),
    Difference("NaN", "relu", "tensorflow", (floats(NAN),), "relu", "nn.relu"),
    Difference("NaN", "sign", "tensorflow", (floats(NAN),), "sign", "sign"),
    Difference("NaN", "argmax", "torch", (floats(1, NAN, 3),), "argmax", "argmax"),
    Difference("NaN", "argmin", "torch", (floats(3, NAN, 1),), "argmin", "argmin"),
    Difference("0**0", "pow", "torch", (floats(0), floats(0)), "pow", "pow"),
    Difference("negative base", "pow", "torch", (floats(-2), floats(3)), "pow", "pow"),
    Difference("integer to a negative power", "pow", "tensorflow", (integers(2), integers(-1)), "pow", "pow"),
    Difference("integers", "div", "torch", (integers(1, 2), integers(2, 3)), "div", "divide"),
    Difference("int32", "sum", "torch", (integers(1, 2).astype(np.int32),), "sum", "reduce_sum"),
    Difference("integers", "mean", "neither", (integers(1, 2),), "mean", "reduce_mean"),
    Difference("float16 overflow", "mean", "torch", (np.ones(70_000, np.float16),), "mean", "reduce_mean"),
    Difference("nothing", "max", "torch", (floats(),), "amax", "reduce_max"),
    Difference("default slope", "leaky_relu", "torch", (floats(-1, 2),), "nn.functional.leaky_relu", "nn.leaky_relu"),
    Difference("default correction", "var", "torch", (floats(1, 2, 4),), "var", "math.reduce_variance"),
    Difference("default correction", "std", "torch", (floats(1, 2, 4),), "std", "math.reduce_std"),
    Difference("equal entries", "std", "torch", (floats(2, 2),), lambda t, x: t.std(x, correction=0), "math.reduce_std",
               lambda x: ops.std(x, correction=0)),
    Difference("zero", "norm", "torch", (floats(0, 0),), "linalg.vector_norm", "norm"),
    Difference("zero", "cumprod", "torch", (floats(2, 0, 3),), lambda t, x: t.cumprod(x, 0), "math.cumprod",
               lambda x: ops.cumprod(x, axis=0)),
    Difference("int32", "cumsum", "torch", (integers(1, 2).astype(np.int32),), lambda t, x: t.cumsum(x, 0), "cumsum",
               lambda x: ops.cumsum(x, axis=0)),
    Difference("axis of size 2", "squeeze", "tensorflow", (floats(1, 2),), lambda t, x: t.squeeze(x, 0),
               lambda f, x: f.squeeze(x, 0), lambda x: ops.squeeze(x, axis=0)),
    Difference("out of range", "one_hot", "tensorflow", (integers(0, 5),), **ONE_HOT, ours=lambda i: ops.one_hot(i,
        size=2)),
    Difference("1-D", "matmul", "torch", (floats(1, 2), floats(3, 4)), "matmul", "matmul"),
    Difference("NaN", "sort", "torch", (floats(1, NAN, 3),), lambda t, x: t.sort(x).values, "sort",
               lambda x: ops.sort(x).values),
    Difference("bounds that cross", "clamp", "torch", (floats(0.5), floats(1), floats(0)), "clamp", "clip_by_value"),
    Difference("asymmetric", "eigh", "neither", (floats([2, 0.5], [1, 3]),), "linalg.eigvalsh", "linalg.eigvalsh",
               lambda x: ops.eigh(x).values),
    Difference("classes first or last", "cross_entropy", "torch", (np.full((2, 3, 2), 0.5, np.float32), integers([0,
        1], [2, 0])),
               "nn.functional.cross_entropy", "nn.sparse_softmax_cross_entropy_with_logits"),
    Difference("NaN", "max_pool2d", "torch", (floats([[[NAN, 1]]]),), lambda t, x: t.nn.functional.max_pool2d(x, (1,
        2)), lambda f, x: f.nn.max_pool2d(x[0, :, :, :, None], (1, 2), (1, 2), "VALID")[None, ..., 0],
        lambda x: ops.max_pool2d(x, window=(1, 2))),
    Difference("zeros of the padding", "avg_pool2d", "torch", (floats([[[1, 2], [3, 4]]]),),
               lambda t, x: t.nn.functional.avg_pool2d(x, 3, 1, 1),
               lambda f, x: f.nn.avg_pool2d(x[0, :, :, :, None], 3, 1, "SAME")[None, ..., 0],
               lambda x: ops.avg_pool2d(x, window=3, stride=1, padding=1)),
    Difference("where the padding goes", "conv2d", "torch", (floats([[[1, 2], [3, 5]]]), floats([[[1, 2, 3], [4, 5, 6],
        [7, 8, 9]]])), lambda t, x, w: t.nn.functional.conv2d(x, w, stride=2, padding=1),
               lambda f, x, w: f.nn.conv2d(x[0, :, :, :, None], f.transpose(w, [2, 3, 1, 0]), 2, "SAME")[None, ..., 0],
               lambda x, w: ops.conv2d(x, w, stride=2, padding=1)),
]  # fmt: skip

AGAINST_BOTH = [
    Difference("asymmetric", "cholesky", "neither", (floats([2, 0.5], [1, 3]),), "linalg.cholesky", "linalg.cholesky"),
    Difference("every entry -inf", "logsumexp", "neither", (floats(-INF, -INF),), lambda t, x: t.logsumexp(x, 0),
        "reduce_logsumexp"),
    Difference("shapes that broadcast", "mse", "neither", (floats(1, 2), floats([1], [3])), "nn.functional.mse_loss",
               lambda f, x, y: f.reduce_mean(f.math.squared_difference(x, y))),
    Difference("negative index", "take", "neither", (floats(1, 2), integers(-1)),
               lambda t, x, i: t.index_select(x, 0, i), lambda f, x, i: f.gather(x, i)),
    Difference("negative index", "gather", "neither", (floats(1, 2), integers(-1)), lambda t, x, i: t.gather(x, 0, i),
               lambda f, x, i: f.gather(x, i), lambda x, i: ops.gather(x, i, axis=0)),
]  # fmt: skip
"""Where the two agree, and we do otherwise."""


def call(counterpart: Callable[..., Any] | str, framework: Any, *inputs: Any) -> Any:
    if callable(counterpart):
        return counterpart(framework, *inputs)
    function = framework
    for part in counterpart.split("."):
        function = getattr(function, part)
    return function(*inputs)


def cotangent(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.asarray(np.random.default_rng(5).uniform(0.5, 2, shape)).astype(dtype)


def plain(result: np.ndarray, gradients: list[np.ndarray]) -> list[Any]:
    return [result.dtype.name, *[np.round(np.asarray(a, float), 4).tolist() for a in (result, *gradients)]]


def ours(case: Difference) -> Any:
    inputs = [Tensor(a, requires_grad=a.dtype.kind == "f") for a in case.inputs]
    try:
        out = (case.ours or TABLE[case.op])(*inputs)
    except (ValueError, TypeError, IndexError) as error:
        return REFUSED if str(error).startswith(case.op) else repr(error)
    if not out.requires_grad:
        return plain(out.numpy(), [])
    start = Tensor(cotangent(out.shape, out.dtype))
    return plain(out.detach().numpy(), [g.numpy() for g in grad(out, [x for x in inputs if x.requires_grad], start)])


def by_torch(case: Difference) -> Any:
    import torch

    inputs = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in case.inputs]
    try:
        with warnings.catch_warnings(action="ignore"):
            out = call(case.torch, torch, *inputs)
    except (RuntimeError, IndexError):
        return REFUSED
    if not out.requires_grad:
        return plain(out.numpy(), [])
    start = torch.tensor(cotangent(tuple(out.shape), out.detach().numpy().dtype))
    found = torch.autograd.grad(out, [x for x in inputs if x.requires_grad], start)
    return plain(out.detach().numpy(), [g.numpy() for g in found])


def by_tensorflow(tf: Any, case: Difference) -> Any:
    inputs = [tf.constant(a) for a in case.inputs]
    wrt = [x for x in inputs if x.dtype.is_floating]
    try:
        with tf.GradientTape() as tape:
            for x in wrt:
                tape.watch(x)
            out = call(case.tf, tf, *inputs)
    except (tf.errors.InvalidArgumentError, ValueError):
        return REFUSED
    if not out.dtype.is_floating or not wrt:
        return plain(out.numpy(), [])
    start = tf.constant(cotangent(tuple(out.shape), out.numpy().dtype))
    found = tape.gradient(out, wrt, start, unconnected_gradients="zero")
    return plain(out.numpy(), [tf.convert_to_tensor(g).numpy() for g in found])


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)  # of plain lists and numbers, and NaN is to equal NaN


@pytest.mark.parametrize("case", DIFFERENCES, ids=str)
def test_we_follow_whom_the_table_says(case: Difference, tf: Any) -> None:
    answers = {"torch": by_torch(case), "tensorflow": by_tensorflow(tf, case)}
    assert not same(answers["torch"], answers["tensorflow"]), (
        "they agree now; the case and the op's doc are out of date"
    )
    agreeing = [name for name, answer in answers.items() if same(ours(case), answer)]
    assert agreeing == ([] if case.follows == "neither" else [case.follows]), (ours(case), answers)


@pytest.mark.parametrize("case", AGAINST_BOTH, ids=str)
def test_we_follow_neither_where_the_table_says(case: Difference, tf: Any) -> None:
    assert same(by_torch(case), by_tensorflow(tf, case))
    assert not same(ours(case), by_torch(case))


@pytest.mark.parametrize("op", sorted({case.op for case in DIFFERENCES + AGAINST_BOTH}))
def test_the_doc_names_both(op: str) -> None:
    doc = TABLE[op].doc
    names = [case.name for case in DIFFERENCES + AGAINST_BOTH if case.op == op]
    assert re.search(r"PyTorch|torch\.", doc), f"{op}: {names}"
    assert re.search(r"TensorFlow|tf\.", doc), f"{op}: {names}"
