"""Metrics: what is counted over the batches of an epoch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from internals.front.losses import class_numbers
from internals.front.names import choose


class Metric:
    """A number that is gathered batch by batch; subclasses write `reset`, `update` and `result`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        raise NotImplementedError(f"{type(self).__name__} has no reset; write one.")

    def update(self, y_true: np.ndarray, y_pred: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        """Count a batch in."""
        raise NotImplementedError(f"{type(self).__name__} has no update; write one.")

    def result(self) -> float:
        """The number so far; 0 before the first batch."""
        raise NotImplementedError(f"{type(self).__name__} has no result; write one.")

    def __repr__(self) -> str:
        return f"<metric {self.name}>"


class Mean(Metric):
    """The weighted mean of what `values` gives for each example."""

    def __init__(self, name: str = "mean") -> None:
        super().__init__(name)

    def reset(self) -> None:
        self.total = self.weight = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        self.total += float(value) * weight
        self.weight += weight

    def values(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} has no values; write them.")

    def update(self, y_true: np.ndarray, y_pred: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        values = np.asarray(self.values(y_true, y_pred), np.float64)
        weight = np.ones(()) if sample_weight is None else np.asarray(sample_weight, np.float64)
        weight = np.broadcast_to(weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim)), values.shape)
        self.total += float((values * weight).sum())
        self.weight += float(weight.sum())

    def result(self) -> float:
        return self.total / self.weight if self.weight else 0.0


class Accuracy(Mean):
    """The share of examples whose prediction is their class.

    What that means follows from the shapes, as for Keras's "accuracy": one output is a probability, compared with
    `threshold`; of several the largest is compared with a class number, or with the largest of one-hot targets.
    """

    def __init__(self, name: str = "accuracy", kind: str | None = None, threshold: float = 0.5) -> None:
        super().__init__(name)
        self.kind, self.threshold = kind, threshold

    def values(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        kind = self.kind or (
            "binary" if y_pred.shape[-1] == 1 else "one-hot" if y_true.shape == y_pred.shape else "sparse"
        )
        if kind == "binary":
            target = y_true.reshape(y_pred.shape) if y_true.size == y_pred.size else y_true
            _same(self.name, target, y_pred)
            return ((y_pred > self.threshold) == (target > 0.5)).mean(-1)
        if kind == "one-hot":
            _same(self.name, y_true, y_pred)
            return y_pred.argmax(-1) == y_true.argmax(-1)
        return y_pred.argmax(-1) == class_numbers(self.name, y_true, y_pred.shape)


class TopK(Mean):
    """The share of examples whose class is among the `k` most likely."""

    def __init__(self, k: int = 5, name: str = "top_k_accuracy") -> None:
        super().__init__(name)
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"TopK: k must be a positive integer, got {k!r}.")
        self.k = k

    def values(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        if y_true.shape == y_pred.shape and y_pred.shape[-1] > 1:
            y_true = y_true.argmax(-1)
        target = class_numbers(self.name, y_true, y_pred.shape)
        own = np.take_along_axis(y_pred, target[..., None], -1)
        return (y_pred > own).sum(-1) < self.k


class MeanSquared(Mean):
    """The mean of the squared differences."""

    def __init__(self, name: str = "mse") -> None:
        super().__init__(name)

    def values(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        return np.square(_off(self.name, y_true, y_pred)).mean(-1)


class MeanAbsolute(Mean):
    """The mean of the sizes of the differences."""

    def __init__(self, name: str = "mae") -> None:
        super().__init__(name)

    def values(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        return np.abs(_off(self.name, y_true, y_pred)).mean(-1)


class AUC(Metric):
    """The area under the receiver operating characteristic, by trapezoids between thresholds.

    The probability that a positive example has a larger prediction than a negative one, up to the thresholds' width.

    Parameters
    ----------
    thresholds : int
        How many there are, evenly from 0 to 1, as in Keras.
    """

    def __init__(self, name: str = "auc", thresholds: int = 200) -> None:
        if not isinstance(thresholds, int) or thresholds < 2:
            raise ValueError(f"AUC: there must be two thresholds or more, got {thresholds!r}.")
        inner = np.arange(1, thresholds - 1) / (thresholds - 1)
        self.thresholds = np.concatenate([[-1e-7], inner, [1 + 1e-7]])
        super().__init__(name)

    def reset(self) -> None:
        self.above = np.zeros((2, len(self.thresholds)))
        self.count = np.zeros(2)

    def update(self, y_true: np.ndarray, y_pred: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        predicted = y_pred.reshape(-1).astype(np.float64)
        positive = y_true.reshape(-1) > 0.5
        if positive.shape != predicted.shape:
            raise ValueError(f"{self.name}: targets of shape {y_true.shape}, predictions of shape {y_pred.shape}.")
        if predicted.size and not (predicted.min() >= 0 and predicted.max() <= 1):
            raise ValueError(f"{self.name}: predictions must be probabilities, but go from {predicted.min():g} to "
                             f"{predicted.max():g}. Put a sigmoid last.")  # fmt: skip
        weight = np.ones(predicted.shape) if sample_weight is None else np.asarray(sample_weight, float).reshape(-1)
        for row, chosen in enumerate((~positive, positive)):
            # How many thresholds lie below each prediction, and from that how many predictions above each threshold.
            below = np.searchsorted(self.thresholds, predicted[chosen].astype(np.float32), side="left")
            counts = np.bincount(below, weights=weight[chosen], minlength=len(self.thresholds) + 1)
            self.above[row] += counts[::-1].cumsum()[::-1][1:]
            self.count[row] += weight[chosen].sum()

    def result(self) -> float:
        if not self.count.all():
            return 0.0
        false, true = self.above / self.count[:, None]
        return float(((false[:-1] - false[1:]) * (true[:-1] + true[1:]) / 2).sum())


class FunctionMetric(Mean):
    """The mean of ``function(y_true, y_pred)``, NumPy arrays in, a number for each example or for the batch out."""

    def __init__(self, function: Any) -> None:
        super().__init__(getattr(function, "__name__", "metric"))
        self.function = function

    def values(self, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
        values = np.asarray(self.function(y_true, y_pred))
        return values if values.ndim else np.full(len(y_pred), values)


_NAMES: dict[str, Any] = {
    "accuracy": Accuracy,
    "acc": lambda: Accuracy("acc"),
    "binary_accuracy": lambda: Accuracy("binary_accuracy", "binary"),
    "categorical_accuracy": lambda: Accuracy("categorical_accuracy", "one-hot"),
    "sparse_categorical_accuracy": lambda: Accuracy("sparse_categorical_accuracy", "sparse"),
    "top_k_categorical_accuracy": lambda: TopK(name="top_k_categorical_accuracy"),
    "sparse_top_k_categorical_accuracy": lambda: TopK(name="sparse_top_k_categorical_accuracy"),
    "mse": MeanSquared,
    "mean_squared_error": lambda: MeanSquared("mean_squared_error"),
    "mae": MeanAbsolute,
    "mean_absolute_error": lambda: MeanAbsolute("mean_absolute_error"),
    "auc": AUC,
}


def metric(wanted: Any) -> Metric:
    """The metric of a name, a copy of a `Metric`, or the mean of a function."""
    if isinstance(wanted, Metric):
        fresh = copy.deepcopy(wanted)
        fresh.reset()
        return fresh
    return (
        choose("metric", wanted, _NAMES)() if isinstance(wanted, str) else FunctionMetric(choose("metric", wanted, {}))
    )


def _off(name: str, y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
    if y_true.ndim == y_pred.ndim - 1 and y_pred.shape[-1] == 1:
        y_true = y_true[..., None]
    _same(name, y_true, y_pred)
    return y_pred - y_true


def _same(name: str, y_true: np.ndarray, y_pred: np.ndarray) -> None:
    if y_true.shape != y_pred.shape:
        raise ValueError(f"{name}: targets of shape {y_true.shape}, predictions of shape {y_pred.shape}.")
