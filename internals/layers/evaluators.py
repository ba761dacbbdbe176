"""Evaluators: what is counted over many batches, apart from the costs that are minimised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from internals.device import device_of
from internals.layers.argument import Argument


class Evaluator:
    """Counts over batches: ``start``, ``add`` for each batch, ``result``.

    Parameters
    ----------
    output, label : str
        The layers whose arguments are compared.
    """

    def __init__(self, output: str, label: str) -> None:
        self.output, self.label = output, label
        self.start()

    def start(self) -> None:
        """Forget what was counted."""
        raise NotImplementedError

    def add(self, arguments: Mapping[str, Argument]) -> None:
        """Count a batch, given what `Net.forward` returned."""
        for name in (self.output, self.label):
            if name not in arguments:
                raise ValueError(
                    f"{type(self).__name__}: there is no layer {name!r}; there are {', '.join(arguments)}."
                )
        found, label = (_host(arguments[name].entries) for name in (self.output, self.label))
        if label.dtype.kind not in "iu" or label.ndim != 1 or len(found) != len(label):
            raise ValueError(
                f"{type(self).__name__}: outputs of shape {found.shape} and labels of {label.dtype} {label.shape}; "
                "expected one integer label for each row of outputs."
            )
        self.count(found, label)

    def count(self, found: np.ndarray, label: np.ndarray) -> None:
        raise NotImplementedError

    def result(self) -> Any:
        raise NotImplementedError


def _host(array: Any) -> np.ndarray:
    return np.asarray(device_of(array).to_host(array))


class ClassificationError(Evaluator):
    """The share of rows whose largest output is not at the label; NaN before any row."""

    def start(self) -> None:
        self.wrong = self.rows = 0

    def count(self, found: np.ndarray, label: np.ndarray) -> None:
        self.wrong += int((found.argmax(axis=1) != label).sum())
        self.rows += len(label)

    def result(self) -> float:
        return self.wrong / self.rows if self.rows else float("nan")


class PrecisionRecall(Evaluator):
    """Precision, recall and F1 of one class, or of all classes averaged, each counting the same ("macro").

    Parameters
    ----------
    positive : int, optional
        The class; without it, the average.

    A ratio of nothing counts as 0, as in scikit-learn.
    """

    def __init__(self, output: str, label: str, *, positive: int | None = None) -> None:
        self.positive = positive
        super().__init__(output, label)

    def start(self) -> None:
        self.table: np.ndarray | None = None

    def count(self, found: np.ndarray, label: np.ndarray) -> None:
        classes = found.shape[1]
        if self.table is None:
            self.table = np.zeros((classes, classes), np.int64)
        np.add.at(self.table, (label, found.argmax(axis=1)), 1)

    def result(self) -> dict[str, float]:
        if self.table is None:
            return dict.fromkeys(("precision", "recall", "F1"), float("nan"))
        right = np.diag(self.table).astype(np.float64)
        said, there = self.table.sum(axis=0), self.table.sum(axis=1)
        precision, recall = right / np.maximum(said, 1), right / np.maximum(there, 1)
        both = precision + recall
        f1 = 2 * precision * recall / np.where(both > 0, both, 1)
        chosen = [self.positive] if self.positive is not None else np.flatnonzero(said + there)
        values = {"precision": precision, "recall": recall, "F1": f1}
        return {name: float(np.mean(value[chosen])) for name, value in values.items()}


class AUC(Evaluator):
    """The probability that a positive example has a higher output than a negative one; ties count half.

    The output has one column, or two of which the second is that of class 1; labels are 0 and 1. All outputs are kept,
    and the area is exact; PaddlePaddle counts them in bins.
    """

    def start(self) -> None:
        self.outputs: list[np.ndarray] = []
        self.labels: list[np.ndarray] = []

    def count(self, found: np.ndarray, label: np.ndarray) -> None:
        if found.ndim == 2 and found.shape[1] > 2:
            raise ValueError(f"AUC: outputs of shape {found.shape}; expected one column, or two.")
        if label.size and label.max() > 1:
            raise ValueError(f"AUC: labels go up to {label.max()}; expected 0 and 1.")
        self.outputs.append(found[:, -1] if found.ndim == 2 else found)
        self.labels.append(label)

    def result(self) -> float:
        if not self.outputs:
            return float("nan")
        found, label = np.concatenate(self.outputs), np.concatenate(self.labels)
        positives = int(label.sum())
        negatives = len(label) - positives
        if not positives or not negatives:
            return float("nan")
        _, place, counts = np.unique(found, return_inverse=True, return_counts=True)
        ranks = np.cumsum(counts) - (counts - 1) / 2  # of equal outputs, the mean of their ranks
        total = ranks[place][label == 1].sum()
        return float((total - positives * (positives + 1) / 2) / (positives * negatives))
