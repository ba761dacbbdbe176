"""The cases of internals/ops/loss.py, classification.py and ctc.py that are not in op_cases.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_case import Case
from op_samples import LOSS, Values, anything, below, on, positive

FUNCTIONAL = "nn.functional."
HALF = ("float16",)


def tf_reduced(f: Any, losses: Any, reduction: str) -> Any:
    if reduction == "batchmean":
        return f.reduce_sum(losses) / losses.shape[0]
    return losses if reduction == "none" else getattr(f, f"reduce_{reduction}")(losses)


def tf_cross_entropy(
    f: Any, x: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float
) -> Any:
    """Written out with tensorflow's log_softmax and one_hot."""
    x = f.experimental.numpy.moveaxis(x, 1, -1) if len(x.shape) > 1 else x
    return tf_nll_last(f, f.nn.log_softmax(x), target, weight, reduction, ignore_index, label_smoothing)


def tf_nll(f: Any, x: Any, target: Any, reduction: str, ignore_index: int) -> Any:
    x = f.experimental.numpy.moveaxis(x, 1, -1) if len(x.shape) > 1 else x
    return tf_nll_last(f, x, target, None, reduction, ignore_index, 0.0)


def tf_nll_last(
    f: Any, log_p: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float
) -> Any:
    counts = f.cast(target != ignore_index, log_p.dtype)
    hot = f.one_hot(target, log_p.shape[-1], dtype=log_p.dtype) * counts[..., None]
    soft = (1 - label_smoothing) * hot + label_smoothing / log_p.shape[-1] * counts[..., None]
    soft, hot = (soft, hot) if weight is None else (soft * weight, hot * weight)
    losses = -f.reduce_sum(soft * log_p, -1)
    return f.reduce_sum(losses) / f.reduce_sum(hot) if reduction == "mean" else tf_reduced(f, losses, reduction)


def torch_weighted(t: Any, x: Any, target: Any, weight: Any, **attrs: Any) -> Any:
    return t.nn.functional.cross_entropy(x, target, weight.detach(), **attrs)


def some_ignored(n: int, ignored: int) -> Values:
    """Labels of n classes, the first that counts and some that do not."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        labels = np.where(rng.random(shape) < 0.4, ignored, rng.integers(0, n, shape))
        if labels.size:
            labels[(0,) * labels.ndim] = 1 if ignored != 1 else 0
        return labels

    return draw


SETTINGS = [
    on((3,), ()),
    on((1, 1), (1,), reduction="sum"),
    on((0, 3), (0,), reduction="sum", label_smoothing=0.1),
    on((4, 3), (4,), reduction="none", label_smoothing=0.3),
    on((4, 3), (4,), label_smoothing=0.1),
    on((2, 3, 4), (2, 4), reduction="sum"),
    on((2, 3, 4), (2, 4)),
]
IGNORED = [on((3,), ()), on((4, 3), (4,), reduction="none"), on((4, 3), (4,)), on((2, 3, 4), (2, 4))]


def weighted(samples: list[Any]) -> list[Any]:
    return [((x, target, (x[1 if len(x) > 1 else 0],)), attrs) for (x, target), attrs in samples]


def plain(samples: list[Any], **more: Any) -> list[Any]:
    """Without label smoothing, which a weight or nll does not go with here."""
    return [(s, {k: v for k, v in attrs.items() if k != "label_smoothing"} | more) for s, attrs in samples]


def torch_ctc(t: Any, x: Any, targets: Any, frames: Any, labels: Any, **attrs: Any) -> Any:
    return t.nn.functional.ctc_loss(x.log_softmax(-1), targets, frames, labels, **attrs)


def tf_ctc(
    f: Any, x: Any, targets: Any, frames: Any, labels: Any, blank: int, reduction: str, zero_infinity: bool
) -> Any:
    losses = f.nn.ctc_loss(targets, x, labels, frames, logits_time_major=True, blank_index=blank)
    if reduction == "mean":
        losses = losses / f.cast(f.maximum(labels, 1), x.dtype)
    return tf_reduced(f, losses, reduction)


def lengths(*values: int) -> Values:
    return lambda rng, shape: np.array(values[: shape[0]], np.int64)


def written(first: int, classes: int) -> Values:
    """Labels with a pair of equal ones in the first example."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        labels = rng.integers(first, classes, shape)
        if labels.size and shape[1] > 1:
            labels[0, :2] = first
        return labels

    return draw


def probabilities(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.1, 1, shape)


KL = [*LOSS, on((3, 4), (3, 4), reduction="batchmean"), on((2, 3), (2, 3), reduction="sum")]


def aligned(time: int, batch: int, classes: int, length: int, **attrs: Any) -> Any:
    return on((time, batch, classes), (batch, length), (batch,), (batch,), **attrs)


LOSSES = [
    Case("ctc", torch_ctc, tf_ctc, [aligned(1, 1, 2, 1)], (anything, written(1, 2), lengths(1), lengths(1)), wrt=(0,)),
    Case("ctc", torch_ctc, tf_ctc, [aligned(4, 2, 3, 2, reduction="none"), aligned(4, 2, 4, 2)],
         (anything, written(1, 3), lengths(4, 3), lengths(2, 1)), wrt=(0,)),
    Case("ctc", torch_ctc, tf_ctc, [aligned(3, 2, 3, 1, blank=2, reduction="sum", zero_infinity=True)],
         (anything, written(0, 2), lengths(3, 2), lengths(1, 1)), wrt=(0,)),
    Case("cross_entropy", FUNCTIONAL + "cross_entropy", lambda f, x, y, **a: tf_cross_entropy(f, x, y, None, **a),
         SETTINGS, (anything, below(1))),
    Case("cross_entropy", FUNCTIONAL + "cross_entropy", lambda f, x, y, **a: tf_cross_entropy(f, x, y, None, **a),
         IGNORED, (anything, some_ignored(3, -100)), also=HALF),
    Case("cross_entropy", FUNCTIONAL + "cross_entropy", lambda f, x, y, **a: tf_cross_entropy(f, x, y, None, **a),
         [(s, attrs | {"ignore_index": 1}) for s, attrs in IGNORED], (anything, some_ignored(3, 1))),
    Case("weighted_cross_entropy", torch_weighted, tf_cross_entropy, weighted(SETTINGS),
         (anything, below(1), positive), wrt=(0,)),
    Case("weighted_cross_entropy", torch_weighted, tf_cross_entropy,
         weighted([(s, attrs | {"ignore_index": 2, "label_smoothing": 0.2}) for s, attrs in IGNORED]),
         (anything, some_ignored(3, 2), positive), wrt=(0,), also=HALF),
    Case("nll", FUNCTIONAL + "nll_loss", tf_nll, plain(SETTINGS), (anything, below(1)), also=HALF),
    Case("nll", FUNCTIONAL + "nll_loss", tf_nll, plain(IGNORED, ignore_index=-1), (anything, some_ignored(3, -1))),
    Case("l1", FUNCTIONAL + "l1_loss", lambda f, x, y, reduction: tf_reduced(f, f.abs(x - y), reduction), LOSS,
         also=HALF),
    Case("huber", lambda t, x, y, delta, reduction: t.nn.functional.huber_loss(x, y, reduction, delta),
         lambda f, x, y, delta, reduction: tf_reduced(f, f.where(f.abs(x - y) <= delta, 0.5 * f.square(x - y),
         delta * (f.abs(x - y) - 0.5 * delta)), reduction), [*LOSS, on((4, 5), (4, 5), delta=0.5, reduction="sum"),
         on((4, 5), (4, 5), delta=2)], also=HALF),
    Case("kl_div", lambda t, q, p, log_target, reduction: t.nn.functional.kl_div(q, p, reduction=reduction,
         log_target=log_target), lambda f, q, p, log_target, reduction: tf_reduced(f, p * (f.math.log(p) - q),
         reduction), KL, (anything, probabilities), also=HALF),
    Case("kl_div", lambda t, q, p, log_target, reduction: t.nn.functional.kl_div(q, p, reduction=reduction,
         log_target=log_target), lambda f, q, p, log_target, reduction: tf_reduced(f, f.exp(p) * (p - q), reduction),
         [(s, attrs | {"log_target": True}) for s, attrs in KL]),
]  # fmt: skip
