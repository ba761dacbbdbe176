"""What every row of the op table is tried on, and what it is called in torch and tensorflow: one line per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from conv_cases import CONV_CASES
from layer_cases import LAYER_CASES
from op_case import Case
from op_cases_activations import ACTIVATIONS
from op_cases_arranging import ARRANGING
from op_cases_functions import FUNCTIONS
from op_cases_linalg import LINALG
from op_cases_losses import LOSSES
from op_cases_order import ORDER
from op_cases_quantise import QUANTISE
from op_cases_reductions import REDUCTIONS
from op_cases_sequences import SEQUENCES
from op_samples import (
    ALONG,
    KEYS,
    LOSS,
    ONE,
    ONE_AXIS,
    REDUCED,
    REDUCED_EMPTY,
    TWO,
    anything,
    away_from_zero,
    below,
    booleans,
    few,
    on,
    positive,
    shapes,
    whole,
    with_nan,
    with_zeros,
)

# What torch and tensorflow say; each takes the framework, the inputs, the attributes


def flat(shape: tuple[int, ...], key: Any) -> np.ndarray:
    """Where in the flattened array the entries are that `key` picks."""
    return np.array(np.arange(int(np.prod(shape))).reshape(shape)[key])


def axes_of(x: Any, axis: Any) -> tuple[int, ...]:
    return tuple(range(len(x.shape))) if axis is None else tuple(np.atleast_1d(axis).tolist())


def torch_reduce(name: str) -> Callable[..., Any]:
    return lambda t, x, axis, keepdims: getattr(t, name)(x, dim=axes_of(x, axis), keepdim=keepdims)


def torch_prod(t: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return t.prod(x) if axis is None else t.prod(x, axis, keepdim=keepdims)


def torch_products_of_others(t: Any, x: Any, axis: int) -> Any:
    rows = x.movedim(axis, 0)
    kept = [t.cat([rows[:i], rows[i + 1 :]]).prod(0) for i in range(rows.shape[0])]
    return t.stack(kept).movedim(0, axis) if kept else x * 1


def tf_products_of_others(f: Any, x: Any, axis: int) -> Any:
    rows = f.unstack(x, axis=axis)
    others = [rows[:i] + rows[i + 1 :] for i in range(len(rows))]
    return (
        f.stack([f.reduce_prod(f.stack(o), 0) if o else r * 0 + 1 for o, r in zip(others, rows, strict=True)], axis)
        if rows
        else x * 1
    )


def torch_unindex(t: Any, g: Any, key: Any, shape: tuple[int, ...]) -> Any:
    places = flat(shape, key)
    return (
        t.zeros(int(np.prod(shape)), dtype=g.dtype)
        .index_add(0, t.tensor(places.ravel()), g.expand(places.shape).reshape(-1))
        .reshape(shape)
    )


def tf_unindex(f: Any, g: Any, key: Any, shape: tuple[int, ...]) -> Any:
    places = flat(shape, key)
    values = f.reshape(f.broadcast_to(g, places.shape), [-1])
    return f.reshape(f.scatter_nd(places.reshape(-1, 1), values, [int(np.prod(shape))]), shape)


def torch_index_put(t: Any, x: Any, value: Any, key: Any) -> Any:
    places = flat(tuple(x.shape), key)
    return x.reshape(-1).index_put((t.tensor(places.ravel()),), value.expand(places.shape).reshape(-1)).reshape(x.shape)


def tf_index_put(f: Any, x: Any, value: Any, key: Any) -> Any:
    places = flat(tuple(x.shape), key)
    values = f.reshape(f.broadcast_to(value, places.shape), [-1])
    return f.reshape(f.tensor_scatter_nd_update(f.reshape(x, [-1]), places.reshape(-1, 1), values), x.shape)


def torch_scatter_add(t: Any, g: Any, index: Any, axis: int, size: int) -> Any:
    shape = list(g.shape)
    shape[axis] = size
    return t.zeros(shape, dtype=g.dtype).scatter_add(axis, index, g)


def tf_scatter_add(f: Any, g: Any, index: Any, axis: int, size: int) -> Any:
    shape, places = list(g.shape), np.indices(tuple(g.shape))
    shape[axis], places[axis] = size, index.numpy()
    return f.scatter_nd(np.moveaxis(places, 0, -1), g, shape)


def tf_matmul(f: Any, x: Any, y: Any) -> Any:
    if len(x.shape) > 1 and len(y.shape) > 1:
        return f.matmul(x, y)
    return f.tensordot(x, y, [[-1], [max(len(y.shape) - 2, 0)]])


def tf_cross_entropy(f: Any, logits: Any, target: Any, reduction: str, **defaults: Any) -> Any:
    if len(logits.shape) > 1:
        logits = f.experimental.numpy.moveaxis(logits, 1, -1)
    return tf_reduced(f, f.nn.sparse_softmax_cross_entropy_with_logits(target, logits), reduction)


def tf_reduced(f: Any, losses: Any, reduction: str) -> Any:
    return losses if reduction == "none" else getattr(f, f"reduce_{reduction}")(losses)


def permutation(x: Any, axes: Any) -> list[int]:
    ndim = len(x.shape)
    return [axis % ndim for axis in axes] if axes is not None else list(range(ndim))[::-1]


# The table


FUNCTIONAL = "nn.functional."
INT, HALF = ("int64",), ("float16",)

CASES = [
    Case("add", "add", "add", TWO, also=INT),
    Case("sub", "sub", "subtract", TWO, also=INT),
    Case("mul", "mul", "multiply", TWO, also=INT),
    Case("div", "div", "divide", TWO, away_from_zero, also=INT),
    Case("pow", "pow", "pow", TWO, (positive, anything)),
    Case("pow", "pow", "pow", TWO, (away_from_zero, whole), wrt=(0,)),
    Case("pow", "pow", "pow", TWO, (few, positive), wrt=(1,)),
    Case("neg", "neg", "negative", ONE, also=INT),
    Case("abs", "abs", "abs", ONE, also=INT),
    Case("sign", "sign", "sign", ONE, also=INT),
    Case("square", "square", "square", ONE, also=INT),
    Case("reciprocal", "reciprocal", "math.reciprocal", ONE, away_from_zero, also=INT),
    Case("floor", "floor", "floor", ONE, also=INT),
    Case("ceil", "ceil", "math.ceil", ONE, also=INT),
    Case("round", "round", "round", ONE, also=INT),
    Case("exp", "exp", "exp", ONE, also=INT),
    Case("expm1", "expm1", "math.expm1", ONE),
    Case("log", "log", "math.log", ONE, positive, also=INT),
    Case("log1p", "log1p", "math.log1p", ONE, positive),
    Case("sqrt", "sqrt", "sqrt", ONE, positive, also=INT),
    Case("rsqrt", "rsqrt", "math.rsqrt", ONE, positive),
    Case("sin", "sin", "sin", ONE, also=INT),
    Case("cos", "cos", "cos", ONE),
    Case("tanh", "tanh", "tanh", ONE, also=INT),
    Case("sigmoid", "sigmoid", "sigmoid", ONE, also=INT),
    Case("softplus", FUNCTIONAL + "softplus", "nn.softplus", ONE),
    Case("relu", "relu", "nn.relu", ONE, also=INT),
    Case("maximum", "maximum", "maximum", TWO, also=INT, ties=True),
    Case("minimum", "minimum", "minimum", TWO, also=INT, ties=True),
    Case("clip", lambda t, x, low, high: t.clamp(x, low, high),
         lambda f, x, low, high: f.clip_by_value(x, x.dtype.min if low is None else low,
         x.dtype.max if high is None else high),
         [on((), low=-1), on((0,), high=1), on((1,), low=-1, high=1.5), on((2, 3, 4), low=-0.5, high=1)], also=INT),
    Case("where", "where", "where",
         shapes(((), (), ()), ((3, 1), (4,), ()), ((0,), (1,), (0,)), ((1,), (1,), (1,)), ((2, 3, 4), (3, 4), (2, 3,
         1)), ((2, 3, 4),) * 3),
         (booleans, anything, anything)),
    Case("equal", "eq", "equal", TWO, few, also=INT),
    Case("not_equal", "ne", "not_equal", TWO, few, also=INT),
    Case("less", "lt", "less", TWO, few, also=INT),
    Case("less_equal", "le", "less_equal", TWO, few, also=INT),
    Case("greater", "gt", "greater", TWO, few, also=INT),
    Case("greater_equal", "ge", "greater_equal", TWO, few, also=INT),
    Case("logical_and", "logical_and", "logical_and", TWO, booleans),
    Case("logical_or", "logical_or", "logical_or", TWO, booleans),
    Case("logical_not", "logical_not", "logical_not", ONE, booleans),
    Case("isnan", "isnan", "math.is_nan", ONE, with_nan),
    Case("cast", lambda t, x, dtype: x.to(getattr(t, dtype)), lambda f, x, dtype: f.cast(x, dtype),
         [on((), dtype="float64"), on((0,), dtype="float32"), on((1,), dtype="int64"), on((2, 3), dtype="float16"),
          on((2, 3, 4), dtype="float64")], also=INT),
    Case("zeros_like", "zeros_like", "zeros_like", ONE, also=INT),
    Case("ones_like", "ones_like", "ones_like", ONE, also=INT),
    Case("clone", "clone", "identity", ONE, also=INT),
    Case("getitem", lambda t, x, key: x.reshape(-1)[t.tensor(flat(tuple(x.shape), key))],
         lambda f, x, key: f.gather(f.reshape(x, [-1]), flat(tuple(x.shape), key)), KEYS, also=INT),
    Case("unindex", torch_unindex, tf_unindex,
         [on((), key=1, shape=(3,)), on((3,), key=slice(None, None, -1), shape=(3,)), on((0, 1), key=(slice(None),
         None, -1), shape=(0, 3)),
          on((1,), key=np.array([0, 2, 2]), shape=(4,)), on((4, 3), key=np.array([0, 2, 2, -1]), shape=(4, 3)),
          on((2, 2, 2), key=(slice(None), slice(None), np.array([3, 3])), shape=(2, 2, 4))]),
    Case("index_put", torch_index_put, tf_index_put,
         [on((3,), (), key=1), on((3,), (3,), key=slice(None, None, -1)), on((0, 3), (1,), key=(slice(None), -1)),
          on((4, 3), (2, 1), key=np.array([0, -1])), on((2, 3), (3,), key=np.array([[True, False, True], [False, True,
          False]])),
          on((2, 3, 4), (2, 2), key=(slice(None), np.array([2, 0]), np.array([1, 1])))], also=INT),
    Case("gather", lambda t, x, index, axis: t.gather(x, axis, index),
         lambda f, x, index, axis: f.experimental.numpy.take_along_axis(x, index, axis),
         [on((3,), (5,), axis=0), on((3,), (0,), axis=0), on((1, 3), (1, 1), axis=-1), on((2, 3, 4), (2, 2, 4),
         axis=1)],
         (anything, below(3)), also=INT),
    Case("scatter_add", torch_scatter_add, tf_scatter_add,
         [on((5,), (5,), axis=0, size=3), on((0,), (0,), axis=0, size=3), on((1, 1), (1, 1), axis=-1, size=4),
          on((2, 3, 4), (2, 3, 4), axis=1, size=3)], (anything, below(3)), also=INT),
    Case("one_hot", lambda t, i, size, dtype: t.nn.functional.one_hot(i, size).to(getattr(t, np.dtype(dtype).name)),
         lambda f, i, size, dtype: f.one_hot(i, size, dtype=np.dtype(dtype).name),
         [on((), size=3), on((0,), size=3), on((1,), size=4, dtype="float64"), on((2, 3, 4), size=5, dtype="int64")],
         below(3)),
    Case("reshape", "reshape", "reshape",
         [on((), shape=(1, 1)), on((0, 3), shape=(3, 0, 2)), on((1,), shape=()), on((2, 3), shape=[3, -1]), on((2, 3,
         4), shape=(-1,))],
         also=INT),
    Case("transpose", lambda t, x, axes: x.permute(permutation(x, axes)), lambda f, x, axes: f.transpose(x,
        permutation(x, axes)),
         [on(()), on((0, 3)), on((1,), axes=(0,)), on((2, 3), axes=[1, 0]), on((2, 3, 4), axes=(1, -1, 0))], also=INT),
    Case("broadcast_to", lambda t, x, shape: x.expand(shape), "broadcast_to",
         [on((), shape=(2, 3)), on((1,), shape=(0,)), on((0, 1), shape=(2, 0, 3)), on((1,), shape=(1,)), on((2, 1, 4),
         shape=(2, 3, 4))],
         also=INT),
    Case("expand_dims", lambda t, x, axis: x.unsqueeze(axis), "expand_dims",
         [on((), axis=0), on((0,), axis=-1), on((1,), axis=1), on((2, 3, 4), axis=-2)], also=INT),
    Case("squeeze", lambda t, x, axis: t.squeeze(x, axes_of(x, axis)), "squeeze",
         [on(()), on((1,), axis=0), on((1, 0, 1), axis=[0, -1]), on((1, 1)), on((2, 1, 4), axis=1)], also=INT),
    Case("flip", lambda t, x, axis: t.flip(x, axes_of(x, axis)), lambda f, x, axis: f.reverse(x,
        [a % len(x.shape) for a in axes_of(x, axis)]),
         [on(()), on((0,), axis=0), on((1,)), on((3,), axis=[-1]), on((2, 3, 4)), on((2, 3, 4), axis=(0, -1))],
         also=INT),
    Case("concat", lambda t, *x, axis: t.cat(x, axis), lambda f, *x, axis: f.concat(x, axis),
         [on((1,)), on((0,), (2,)), on((1, 3), (2, 3), axis=0), on((2, 1, 4), (2, 2, 4), (2, 0, 4), axis=-2)],
         also=INT),
    Case("stack", lambda t, *x, axis: t.stack(x, axis), lambda f, *x, axis: f.stack(x, axis),
         [on((), ()), on((0,), (0,), axis=-1), on((1,)), on((2, 3), (2, 3), (2, 3), axis=1)], also=INT),
    Case("matmul", "matmul", tf_matmul,
         shapes(((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((2, 4, 3), (3,)), ((3,), (2, 3, 4)),
         ((2, 5, 3), (3, 4)),
                ((5, 3), (2, 3, 4)), ((2, 1, 4, 3), (5, 3, 2)), ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 0, 3), (3,
                    4)), ((2, 4, 0), (0, 3)),
                ((1, 1), (1, 1)), ((1,), (1,)), ((0,), (0,)), ((3, 4), (4, 5))), also=HALF),
    Case("softmax", lambda t, x, axis: t.softmax(x, axis), lambda f, x, axis: f.nn.softmax(x, axis), ALONG, also=HALF),
    Case("log_softmax", lambda t, x, axis: t.log_softmax(x, axis), lambda f, x, axis: f.nn.log_softmax(x, axis),
        ALONG, also=HALF),
    Case("cross_entropy", FUNCTIONAL + "cross_entropy", tf_cross_entropy,
         [on((3,), ()), on((1, 3), (1,)), on((0, 3), (0,), reduction="sum"), on((4, 3), (4,), reduction="none"),
          on((2, 3, 4), (2, 4), reduction="sum"), on((2, 3, 4), (2, 4))], (anything, below(3)), also=HALF),
    Case("mse", FUNCTIONAL + "mse_loss", lambda f, x, y, reduction: tf_reduced(f, f.math.squared_difference(x, y),
        reduction), LOSS, also=HALF),
    Case("binary_cross_entropy", FUNCTIONAL + "binary_cross_entropy_with_logits",
         lambda f, x, y, reduction: tf_reduced(f, f.nn.sigmoid_cross_entropy_with_logits(y, x), reduction), LOSS,
         (anything, positive), also=HALF),
    Case("sum", "sum", "reduce_sum", REDUCED + REDUCED_EMPTY, also=HALF + INT),
    Case("mean", "mean", "reduce_mean", REDUCED + REDUCED_EMPTY, also=HALF),
    Case("max", torch_reduce("amax"), "reduce_max", REDUCED, also=HALF + INT, ties=True),
    Case("min", torch_reduce("amin"), "reduce_min", REDUCED, also=HALF + INT, ties=True),
    Case("products_of_others", torch_products_of_others, tf_products_of_others,
         [on((1,), axis=0), on((0, 3), axis=1), on((2, 0), axis=1), on((3,), axis=-1), on((2, 3, 4), axis=1)],
         with_zeros),
    Case("prod", torch_prod, "reduce_prod", [*ONE_AXIS, on((0,)), on((2, 0), axis=1)], with_zeros, also=INT),
    Case("logsumexp", torch_reduce("logsumexp"), "reduce_logsumexp", REDUCED, also=HALF),
    Case("argmax", lambda t, x, axis, keepdims: t.argmax(x, axis, keepdims), lambda f, x, axis, keepdims: tf_arg(f,
        "argmax", x, axis, keepdims),
         ONE_AXIS, also=INT),
    Case("argmin", lambda t, x, axis, keepdims: t.argmin(x, axis, keepdims), lambda f, x, axis, keepdims: tf_arg(f,
        "argmin", x, axis, keepdims),
         ONE_AXIS, also=INT),
    Case("any", torch_reduce("any"), "reduce_any", REDUCED + REDUCED_EMPTY, booleans),
    Case("all", torch_reduce("all"), "reduce_all", REDUCED + REDUCED_EMPTY, booleans),
    Case("transfer", lambda t, x, device, source: x * 1, lambda f, x, device, source: f.identity(x),
         [on(shape, device="sim:1") for shape in ((), (0,), (1,), (2, 3, 4))]),
    *CONV_CASES,
    *LAYER_CASES,
    *FUNCTIONS,
    *SEQUENCES,
    *ACTIVATIONS,
    *REDUCTIONS,
    *ARRANGING,
    *LINALG,
    *LOSSES,
    *ORDER,
    *QUANTISE,
]  # fmt: skip


def tf_arg(f: Any, name: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    picked = getattr(f, name)(f.reshape(x, [-1]) if axis is None else x, 0 if axis is None else axis)
    return f.expand_dims(picked, axis) if keepdims else picked
