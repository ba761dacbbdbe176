"""The mistakes people make in the rules of ``lab06_rules``: words, and the numbers each of them gives.

Those of the two layers have a file of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autograder.spec import Inputs
from autograder.specs._lab06_rules_layers import Mistake, conv2d_mistakes, layer_norm_mistakes

# --- embedding ------------------------------------------------------------------------------------


def embedding_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    table, index = inputs["table"], inputs["index"].reshape(-1)
    g = inputs["g"].reshape(index.size, table.shape[1])
    zeros = np.zeros(table.shape)

    def last() -> np.ndarray:
        d = zeros.copy()
        for row, cotangent in zip(index, g, strict=True):
            d[row] = cotangent
        return d

    def first() -> np.ndarray:
        d = zeros.copy()
        for row, cotangent in zip(index[::-1], g[::-1], strict=True):
            d[row] = cotangent
        return d

    def added(of: np.ndarray) -> np.ndarray:
        d = zeros.copy()
        np.add.at(d, index, of)
        return d

    counts = np.bincount(index, minlength=len(table))[:, None]
    yield (
        0,
        "A row that was picked several times gets only the last of its cotangents. Both d[index] = g and "
        "d[index] += g write each row once, however often it stands in index: NumPy reads d[index], adds, and writes "
        "back. np.add.at(d, index, g) adds them one after another.",
        last,
    )
    yield 0, "A row that was picked several times gets only the first of its cotangents; they have to be added.", first
    yield (
        0,
        "The cotangents of a row that was picked several times are averaged; they have to be added.",
        lambda: added(g) / np.maximum(counts, 1),
    )
    yield (
        0,
        "The cotangent is ignored: this counts how often each row was picked.",
        lambda: added(np.ones_like(g)),
    )
    yield (
        0,
        "The sums are added to the table's own values. Start from zeros: the cotangent says how the loss changes, not "
        "what the table holds.",
        lambda: table + added(g),
    )
    yield (
        0,
        "This is the cotangent of the rows that were picked. The table has a cotangent of its own shape: rows that "
        "were not picked get 0.",
        lambda: inputs["g"],
    )
    yield (
        0,
        "The cotangent ends at the largest row that was picked; it must have all the rows of the table.",
        lambda: added(g)[: index.max() + 1],
    )
    yield 0, "Rows are picked from g where cotangents should be added to rows.", lambda: g[index]


# --- softmax --------------------------------------------------------------------------------------


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    yield from (_log_softmax_mistakes if inputs["op"] == "log_softmax" else _cross_entropy_mistakes)(inputs)


def _log_softmax_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    g, x = inputs["g"].astype(np.float64), inputs["x"].astype(np.float64)
    if not x.size:
        return
    p, total = _softmax(x), g.sum(axis=-1, keepdims=True)
    yield (
        0,
        "The sum of g is missing: g - softmax(x) is right only where the cotangents of a row sum to 1. The log of the "
        "sum of exp went into every entry of the row, so its cotangent is the sum of g over the row.",
        lambda: g - p,
    )
    yield 0, "This is the rule of softmax; log_softmax has another.", lambda: p * (g - (g * p).sum(-1, keepdims=True))
    yield (
        0,
        "Only the diagonal of the Jacobian is here: each result depends on every entry of its row, not only on its "
        "own.",
        lambda: g * (1 - p),
    )
    yield 0, "g is averaged over the row where it should be summed.", lambda: g - p * total / x.shape[-1]
    yield 0, "The sign is wrong.", lambda: p * total - g
    yield 0, "The second term has the wrong sign.", lambda: g + p * total
    yield 0, "Only the second term is here: g itself is missing.", lambda: -p * total
    yield 0, "g is returned as it is: the log of the sum of exp depends on x as well.", lambda: g
    yield 0, "The cotangent is ignored: this is the answer for a g of ones.", lambda: 1 - p * x.shape[-1]
    yield 0, "g is summed over everything; each row has a sum of its own.", lambda: g - p * g.sum()
    if x.ndim > 1:
        yield (
            0,
            "The sum is taken along the first axis; it goes along the last one.",
            lambda: g - p * g.sum(axis=0, keepdims=True),
        )
        yield (
            0,
            "The softmax is taken along the first axis; it goes along the last one.",
            lambda: g - _softmax(x, 0) * g.sum(axis=0, keepdims=True),
        )
    yield (
        0,
        "The logarithm of softmax stands in the second term where softmax should.",
        lambda: g - np.log(p) * total,
    )


def _cross_entropy_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    g, x, target = inputs["g"].astype(np.float64), inputs["x"].astype(np.float64), inputs["target"]
    if not x.size:
        return
    p, hot = _softmax(x), np.eye(x.shape[1])[target]
    along = g[:, None]

    def all_targets() -> np.ndarray:
        d = p.copy()
        d[:, target] -= 1
        return d * along

    yield (
        0,
        "The cotangent is ignored: each row of softmax - one_hot has to be multiplied by its own g.",
        lambda: p - hot,
    )
    yield 0, "The sign is wrong: the loss is minus the log-probability of the target.", lambda: along * (hot - p)
    yield (
        0,
        "It is divided by the batch size. That belongs to the mean over the batch, which is not taken here.",
        lambda: along * (p - hot) / len(x),
    )
    yield (
        0,
        "The 1 is subtracted in every row for every target. Each row has one target: p[np.arange(n), target].",
        all_targets,
    )
    yield 0, "The one at the target is not subtracted.", lambda: along * p
    yield 0, "The cotangent is multiplied in before the 1 is subtracted.", lambda: along * p - hot
    yield (
        0,
        "g is multiplied in along the classes; it has one entry for each row: g[:, None].",
        lambda: (p - hot) * g[None, :],
    )
    yield 0, "g is summed over the batch; each row has its own.", lambda: (p - hot) * g.sum()
    yield 0, "The softmax is taken over the batch; it goes over the classes.", lambda: along * (_softmax(x, 0) - hot)
    yield 0, "The logarithm of softmax stands where softmax should.", lambda: along * (np.log(p) - hot)
    yield (
        0,
        "Only the target's own entry is here: the other classes share in the sum of exp.",
        lambda: along * (p - 1) * hot,
    )


# --- max ------------------------------------------------------------------------------------------


def _spread(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """g, and which entries are the largest, both in the shape of x."""
    x, axis = inputs["x"], inputs["axis"]
    along = tuple(range(x.ndim)) if axis is None else axis
    g = np.broadcast_to(np.expand_dims(inputs["g"], along), x.shape)
    return g, x == np.max(x, axis=along, keepdims=True, initial=-np.inf)


def max_shared(inputs: Inputs) -> np.ndarray:
    """The convention of torch.amax and tf.reduce_max: entries that tie share the cotangent evenly."""
    x, axis = inputs["x"], inputs["axis"]
    g, tied = _spread(inputs)
    along = tuple(range(x.ndim)) if axis is None else axis
    return np.asarray(g * (tied / np.maximum(tied.sum(axis=along, keepdims=True), 1)), dtype=x.dtype)


def max_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    x, axis = inputs["x"], inputs["axis"]
    g, tied = _spread(inputs)
    along = tuple(range(x.ndim)) if axis is None else axis
    counts = np.maximum(tied.sum(axis=along, keepdims=True), 1)

    def last() -> np.ndarray:
        if axis is None:
            return _one_hot(x.size - 1 - np.argmax(x.reshape(-1)[::-1]), x) * inputs["g"]
        place = x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis=axis)
        hot = np.zeros(x.shape)
        np.put_along_axis(hot, np.expand_dims(place, axis), 1.0, axis)
        return hot * g

    def stretched() -> np.ndarray:
        return np.broadcast_to(inputs["g"], x.shape) * tied

    yield (
        0,
        "Each of the entries that tie gets the whole cotangent, so more comes out than came in: moving them all "
        "together would seem to move the result several times. Give it to the first of them, or share it evenly.",
        lambda: g * tied,
    )
    yield (
        0,
        "The last of the entries that tie gets the cotangent. That is a possible convention, but no framework's: "
        "take the first (torch.max), or share evenly (torch.amax, tf.reduce_max).",
        last,
    )
    if np.size(inputs["g"]) > 1:
        yield (
            0,
            "The cotangent is shared among all entries that are largest anywhere; each maximum has its own ties, so "
            "count them along the axis.",
            lambda: g * tied / max(int(tied.sum()), 1),
        )
    yield 0, "The cotangent is ignored.", lambda: tied.astype(float)
    yield 0, "The cotangent is ignored.", lambda: tied / counts
    if axis is not None and x.ndim > 1:
        words = (
            "g meets x along the wrong axis: the result has lost one, so put it back where it was with "
            "np.expand_dims(g, axis) before it is spread."
        )
        yield 0, words, stretched
        yield 0, words, lambda: stretched() / counts
    yield (
        0,
        "The smallest entries get the cotangent; the largest had a part in the result.",
        lambda: g * (x == np.min(x, axis=along, keepdims=True, initial=np.inf)),
    )
    yield 0, "The cotangent goes to every entry; only the largest ones had a part in the result.", lambda: g
    if np.size(inputs["g"]) > 1:
        yield (
            0,
            "Only the largest entry of the whole array gets a cotangent; each place of the result has its own largest "
            "entry.",
            lambda: g * (x == x.max()),
        )


def _one_hot(place: Any, x: np.ndarray) -> np.ndarray:
    hot = np.zeros(x.size)
    hot[place] = 1
    return hot.reshape(x.shape)


# --- quantise -------------------------------------------------------------------------------------


def quantise_mistakes(inputs: Inputs) -> Iterator[Mistake]:
    g, x = inputs["g"].astype(np.float64), inputs["x"].astype(np.float64)
    scale, low, high = float(inputs["scale"]), inputs["low"], inputs["high"]
    v = x / scale
    inside = (v >= low) & (v <= high)
    kept, error = np.clip(np.round(v), low, high), np.round(v) - v
    slope = np.where(inside, error, kept)

    yield 0, "A number exactly at low or high counts as inside the range.", lambda: g * ((v > low) & (v < high))
    yield 0, "The cotangent passes everywhere; where the number was clipped, its result does not move: 0.", lambda: g
    yield (
        0,
        "Nothing flows back: that is the true derivative of rounding, and a network can't learn from it. "
        "Straight-through means that rounding counts as the identity.",
        lambda: 0 * g,
    )
    yield (
        0,
        "low and high are compared with x; they are limits for x / scale.",
        lambda: g * ((x >= low) & (x <= high)),
    )
    yield 0, "The mask is upside down: the cotangent passes inside the range, not outside.", lambda: g * ~inside
    yield 0, "Numbers below low are clipped as well; only those above high are stopped here.", lambda: g * (v <= high)
    yield 0, "Numbers above high are clipped as well; only those below low are stopped here.", lambda: g * (v >= low)
    yield (
        0,
        "dx has a scale too many: dividing by it on the way in and multiplying on the way out cancel.",
        lambda: g * inside * scale,
    )
    yield (
        0,
        "dx has a scale too many: the division on the way in and the product on the way out cancel.",
        lambda: g * inside / scale,
    )
    yield 0, "The cotangent is ignored.", lambda: inside.astype(float)

    yield (
        1,
        "A number exactly at low or high counts as inside the range.",
        lambda: np.sum(g * np.where((v > low) & (v < high), error, kept)),
    )
    yield (
        1,
        "Inside the range the - x / scale is missing: scale also stands in the quotient that is rounded.",
        lambda: np.sum(g * kept),
    )
    yield (
        1,
        "Numbers that were clipped are left out: there the result is low * scale or high * scale, which moves with "
        "scale.",
        lambda: np.sum(g * error * inside),
    )
    yield (
        1,
        "Only the clipped numbers are counted; inside the range scale matters too.",
        lambda: np.sum(g * kept * ~inside),
    )
    yield (
        1,
        "Where the number is clipped the derivative is the limit alone, low or high: x / scale no longer counts.",
        lambda: np.sum(g * (kept - v)),
    )
    yield (
        1,
        "The rounding error is not clipped: outside the range the derivative is low or high.",
        lambda: np.sum(g * error),
    )
    yield 1, "scale is one number that went into every entry: sum over all of them.", lambda: g * slope
    yield 1, "It is averaged where it should be summed.", lambda: np.mean(g * slope)
    yield 1, "The sign is wrong.", lambda: -np.sum(g * slope)
    yield 1, "The cotangent is ignored.", lambda: np.sum(slope)
    yield (
        1,
        "Only the outer factor scale is differentiated: this is the sum of g times x / scale.",
        lambda: np.sum(g * np.clip(v, low, high)),
    )
    yield (
        1,
        "The inside part has the wrong sign: it is round(v) - v.",
        lambda: np.sum(g * np.where(inside, -error, kept)),
    )
    yield 1, "It is multiplied by scale once too often.", lambda: np.sum(g * slope) * scale


MISTAKES: dict[str, Callable[[Inputs], Iterator[Mistake]]] = {
    "embedding": embedding_mistakes,
    "softmax": softmax_mistakes,
    "max": max_mistakes,
    "quantise": quantise_mistakes,
    "layer_norm": layer_norm_mistakes,
    "conv2d": conv2d_mistakes,
}
