"""How each kind of row runs on a whole batch, whose examples lie along a first axis that the row is to leave alone.

``rule(op, values, batched, attrs, spec, batch)`` is given the inputs, which of them have that axis, and the Spec of one
example's result. It returns the batch of results, or None where it has no way but one example at a time. The rules are
written with operations, so they run on Tensors, and on the values of other transformations.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from internals.autodiff.lifted import apply
from internals.ops.shape import broadcast_to, expand_dims, moveaxis, reshape, stack, transpose
from internals.ops.spec import normalise_axes, normalise_axis
from internals.ops.table import TABLE, Op, is_array

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}


def batches(*names: str) -> Callable[[Rule], Rule]:
    """Say which rows a rule is for."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def batching_rule(op: Op) -> Rule | None:
    """The rule for a row of the table; None for one that runs example by example."""
    if TABLE.get(op.name) is not op:
        return None
    return RULES.get(op.name) or (_elementwise if op.expr else None)


def each(op: Op, values: Sequence[Any], batched: Sequence[bool], attrs: dict[str, Any], spec: Any, batch: Any) -> Any:
    """The row, one example after the other."""
    if not batch.size:
        like = next(value for value, own in zip(values, batched, strict=True) if own)
        specs = spec if op.results else (spec,)
        empty = [
            TABLE["cast"](reshape(TABLE["zeros_like"](like), shape=(0, *one.shape)), dtype=one.dtype) for one in specs
        ]
        return empty if op.results else empty[0]
    rows = [
        apply(op, [value[i] if own else value for value, own in zip(values, batched, strict=True)], attrs)
        for i in range(batch.size)
    ]
    return [stack(list(column)) for column in zip(*rows, strict=True)] if op.results else stack(rows)


def front(value: Any, size: int) -> Any:
    """A value that all examples share, with the axis of the examples in front; a view."""
    return broadcast_to(value, shape=(size, *value.shape))


def _all_batched(values: Sequence[Any], batched: Sequence[bool], size: int) -> list[Any]:
    return [value if own else front(value, size) for value, own in zip(values, batched, strict=True)]


def _ndim(value: Any, own: bool) -> int:
    return len(value.shape) - own if hasattr(value, "shape") else 0


def _aligned(value: Any, ndim: int) -> Any:
    """A batch whose examples have `ndim` axes, the new ones of size 1 in front."""
    missing = ndim + 1 - len(value.shape)
    return reshape(value, shape=(value.shape[0], *(1,) * missing, *value.shape[1:])) if missing > 0 else value


# Entry by entry


def _elementwise(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    ndim = len(spec.shape)
    return apply(op, [_aligned(v, ndim) if own else v for v, own in zip(values, batched, strict=True)], attrs)


@batches("clip", "cast", "transfer", "one_hot", "tril", "triu", "diagonal", "diag_embed")
@batches("inverse", "det", "slogdet", "cholesky", "qr", "eigh", "svd")
def _as_it_is(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    """Rows that look at single entries, or at the last axes only."""
    return apply(op, values, attrs)


@batches("dropout")
def _dropout(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    (x,) = values
    if batch.randomness == "different":
        return op(x, **attrs)
    mask = op(TABLE["ones_like"](x[0]), **attrs)
    return TABLE["where"](mask != 0, x, 0) * mask


# Along axes


@batches(
    "sum", "mean", "max", "min", "prod", "logsumexp", "argmax", "argmin", "any", "all", "var", "std", "norm"
)  # fmt: skip
def _reduction(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    (x,) = values
    ndim, axis = len(x.shape) - 1, attrs["axis"]
    if axis is None:
        flat = reshape(x, shape=(batch.size, math.prod(x.shape[1:])))
        return reshape(op(flat, **{**attrs, "axis": 1, "keepdims": False}), shape=(batch.size, *spec.shape))
    shifted: Any = tuple(one + 1 for one in normalise_axes(op.name, axis, ndim))
    return op(x, **{**attrs, "axis": shifted if isinstance(axis, tuple | list) else shifted[0]})


@batches(
    "softmax",
    "log_softmax",
    "cumsum",
    "cumprod",
    "products_of_others",
    "normalise",
    "rms_normalise",
    "repeat",
    "flip",
    "roll",
    "sort",
    "argsort",
    "topk",
)
def _along(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    """Rows of one input that work along one or several axes and keep their number."""
    (x,) = values
    ndim, axis = len(x.shape) - 1, attrs["axis"]
    if axis is None and op.name == "roll":
        flat = reshape(x, shape=(batch.size, math.prod(x.shape[1:])))
        return reshape(op(flat, shift=attrs["shift"], axis=1), shape=tuple(x.shape))
    shifted: Any = tuple(one + 1 for one in normalise_axes(op.name, axis, ndim))
    several = axis is None or isinstance(axis, tuple | list)
    return op(x, **{**attrs, "axis": shifted if several else shifted[0]})


@batches("concat", "stack")
def _joined(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    whole = _all_batched(values, batched, batch.size)
    return op(whole, axis=normalise_axis(op.name, attrs["axis"], len(spec.shape)) + 1)


# Shapes


@batches("reshape", "expand_dims", "squeeze")
def _reshaped(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    return reshape(values[0], shape=(batch.size, *spec.shape))


@batches("broadcast_to")
def _stretched(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    return broadcast_to(_aligned(values[0], len(spec.shape)), shape=(batch.size, *spec.shape))


@batches("transpose")
def _transposed(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    ndim = len(spec.shape)
    axes = range(ndim)[::-1] if attrs["axes"] is None else normalise_axes(op.name, tuple(attrs["axes"]), ndim)
    return transpose(values[0], axes=(0, *[axis + 1 for axis in axes]))


@batches("pad")
def _padded(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    (x,), width = values, attrs["width"]
    pairs = [(width, width)] * (len(x.shape) - 1) if isinstance(width, int | np.integer) else list(width)
    return op(x, width=[(0, 0), *pairs], value=attrs["value"])


@batches("tile")
def _tiled(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    ndim, reps = len(spec.shape), attrs["reps"]
    counts = tuple(reps) if isinstance(reps, tuple | list) else (reps,)
    return op(_aligned(values[0], ndim), reps=(1,) * (ndim + 1 - len(counts)) + counts)


# Picking


def _below(key: Any) -> tuple[Any, ...] | None:
    """An index for what lies behind the first axis; None where NumPy would put an array's axes before it."""
    parts = key if isinstance(key, tuple) else (key,)
    at = [i for i, part in enumerate(parts) if is_array(part) or isinstance(part, list | bool)]
    if at:
        at = [i for i, part in enumerate(parts) if i in at or isinstance(part, int | np.integer)]
    return (slice(None), *parts) if not at or at[-1] - at[0] + 1 == len(at) else None


@batches("getitem")
def _getitem(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    key = _below(attrs["key"])
    return None if key is None else op(values[0], key=key)


@batches("unindex")
def _unindex(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    key, shape = _below(attrs["key"]), tuple(attrs["shape"])
    if key is None:
        return None
    picked = np.broadcast_to(np.zeros((), bool), (1, *shape))
    ndim = TABLE["getitem"].infer_from((picked,), {"key": key}).ndim - 1
    return op(_aligned(values[0], ndim), key=key, shape=(batch.size, *shape))


@batches("index_put")
def _index_put(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    key = _below(attrs["key"])
    if key is None:
        return None
    x, value = values
    x = x if batched[0] else front(x, batch.size)
    ndim = TABLE["getitem"].infer_from((x,), {"key": key}).ndim - 1
    return op(x, _aligned(value, ndim) if batched[1] else value, key=key)


@batches("gather", "scatter_add", "scatter")
def _gather(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    whole = _all_batched(values, batched, batch.size)
    return op(*whole, **{**attrs, "axis": normalise_axis(op.name, attrs["axis"], len(whole[0].shape) - 1) + 1})


@batches("take")
def _take(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    x, index = values
    axis = normalise_axis("take", attrs["axis"], _ndim(x, batched[0]))
    if all(batched):
        return None
    return op(x, index, axis=axis + 1) if batched[0] else moveaxis(op(x, index, axis=axis), axis, 0)


@batches("untake")
def _untake(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    g, index = values
    if batched[1]:
        return None
    axis = normalise_axis("untake", attrs["axis"], len(g.shape) - 1 - _ndim(index, False) + 1)
    return op(g, index, **{**attrs, "axis": axis + 1})


# Products


@batches("matmul")
def _matmul(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    x, y = values
    left, right = _ndim(x, batched[0]), _ndim(y, batched[1])
    if not batched[1] and right <= 2:
        return x @ y
    if left == 1:
        x = expand_dims(x, axis=-2)
    if right == 1:
        y = expand_dims(y, axis=-1)
    ndim = max(left, right, 2)
    product = (_aligned(x, ndim) if batched[0] else x) @ (_aligned(y, ndim) if batched[1] else y)
    return reshape(product, shape=(batch.size, *spec.shape))


@batches("linear")
def _linear(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    x, weight, bias = values
    if not batched[1] and not batched[2]:
        return op(x, weight, bias)
    product = _matmul(TABLE["matmul"], [x, weight], batched[:2], {}, spec, batch) if any(batched[:2]) else x @ weight
    return product + (_aligned(bias, len(spec.shape)) if batched[2] else bias)


@batches("solve", "triangular_solve")
def _solved(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    a, b = _all_batched(values, batched, batch.size)
    vector, ndim = len(b.shape) == 2, len(spec.shape)
    if vector:
        b, ndim = expand_dims(b, axis=-1), ndim + 1
    found = op(_aligned(a, ndim), _aligned(b, ndim), **attrs)
    return found[..., 0] if vector else found


@batches("scaled_dot_product")
def _attended(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    *qkv, mask = values
    number = not batched[3] and not getattr(mask, "shape", ())
    whole = _all_batched(qkv, batched[:3], batch.size)
    if not number:
        mask = mask if batched[3] else front(mask, batch.size)
        if len(mask.shape) == 1:  # a number for each example
            scores = (*whole[0].shape[:-1], whole[1].shape[-2])
            mask = broadcast_to(_aligned(mask, len(scores) - 1), shape=scores)
    return op(*whole, mask, **attrs)


@batches("outer")
def _outer(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    x, y = values
    return expand_dims(x, axis=-1) * expand_dims(y, axis=-2)


@batches("einsum")
def _einsum(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    equation = attrs["equation"].replace(" ", "")
    given, arrow, result = equation.partition("->")
    if not arrow:
        result = "".join(sorted(letter for letter in set(given) - {","} if given.count(letter) == 1))
    free = next((letter for letter in string.ascii_letters if letter not in given), "")
    if not free:
        return None
    operands = [free * own + part for part, own in zip(given.split(","), batched, strict=True)]
    return op(values, equation=f"{','.join(operands)}->{free}{result}")


# Layers: examples are folded into the axis of the batch that a layer has anyway


def _folded(x: Any) -> Any:
    return reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


@batches(
    "max_pool2d",
    "max_pool2d_index",
    "pick2d",
    "unpool2d",
    "avg_pool2d",
    "avg_unpool2d",
    "adaptive_avg_pool2d",
    "adaptive_avg_unpool2d",
)
def _pooled(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    whole = [_folded(value) for value in _all_batched(values, batched, batch.size)]
    return reshape(op(*whole, **attrs), shape=(batch.size, *spec.shape))


def _into_channels(x: Any) -> Any:
    """(examples, batch, channels, ...) as (batch, examples x channels, ...)."""
    return reshape(moveaxis(x, 0, 1), shape=(x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:]))


@batches("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")
def _convolved(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    x, weight = values
    if not batched[1]:
        return reshape(op(_folded(x), weight, **attrs), shape=(batch.size, *spec.shape))
    # Each example has its own weight: a convolution with a group for each.
    x = x if batched[0] else front(x, batch.size)
    out = op(_into_channels(x), _folded(weight), **{**attrs, "groups": attrs["groups"] * batch.size})
    n, channels = spec.shape[:2]
    return moveaxis(reshape(out, shape=(n, batch.size, channels, *spec.shape[2:])), 1, 0)


@batches("conv1d_weight", "conv2d_weight")
def _weight_of(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    x, g = _all_batched(values, batched, batch.size)
    groups = attrs["groups"] * batch.size
    return reshape(
        op(_into_channels(x), _into_channels(g), **{**attrs, "groups": groups}), shape=(batch.size, *spec.shape)
    )


# Losses: not reduced, then reduced for each example


@batches("mse", "binary_cross_entropy", "l1", "huber", "kl_div")
def _loss(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    losses = op(*_all_batched(values, batched, batch.size), **{**attrs, "reduction": "none"})
    if attrs["reduction"] == "none":
        return losses
    flat = reshape(losses, shape=(batch.size, math.prod(losses.shape[1:])))
    if attrs["reduction"] == "batchmean":
        return TABLE["sum"](flat, axis=1) / losses.shape[1] if losses.shape[1:] and losses.shape[1] else None
    return TABLE[attrs["reduction"]](flat, axis=1)


@batches("cross_entropy", "nll")
def _classified(op: Op, values: Any, batched: Any, attrs: Any, spec: Any, batch: Any) -> Any:
    scores, target = _all_batched(values, batched, batch.size)
    alone = len(scores.shape) == 2  # one example is one row of scores
    if not alone:
        scores, target = _folded(scores), _folded(target)
    losses = op(scores, target, **{**attrs, "reduction": "none"})
    if attrs["reduction"] == "none":
        return reshape(losses, shape=(batch.size, *spec.shape))
    n = losses.shape[0] // batch.size
    losses = reshape(losses, shape=(batch.size, n * math.prod(losses.shape[1:])))
    total = TABLE["sum"](losses, axis=1)
    if attrs["reduction"] == "sum":
        return total
    counted = reshape(target, shape=(batch.size, losses.shape[1])) != attrs["ignore_index"]
    count = TABLE["cast"](TABLE["sum"](counted, axis=1), dtype=total.dtype)
    # The mean over no target is NaN, with derivative 0.
    return total / TABLE["maximum"](count, 1) + TABLE["where"](count == 0, float("nan"), TABLE["zeros_like"](count))
