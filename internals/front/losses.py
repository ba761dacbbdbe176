"""Losses: a number for each example, and their weighted mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from internals import ops
from internals.front.names import choose
from internals.ops.spec import is_floating
from internals.tensor import Tensor

EPSILON = 1e-7
"""Probabilities are kept this far from 0 and 1 before their logarithm is taken, as in Keras."""


class Loss:
    """A loss.

    Parameters
    ----------
    function : callable, ``function(y_true, y_pred, **options)``
        A Tensor with a number for each example, or for each place of each example: y_pred's shape without the last
        axis.
    name : str
    options
        Arguments of the function that hold for every batch.
    """

    def __init__(self, function: Callable[..., Tensor], name: str = "", **options: Any) -> None:
        self.function, self.options = function, options
        self.name = name or getattr(function, "__name__", "loss")

    def __call__(self, y_true: Any, y_pred: Tensor, sample_weight: Any = None) -> Tensor:
        """The mean over all numbers; with weights, their weighted sum divided by how many there are, as in Keras."""
        values = self.function(y_true, y_pred, **self.options)
        if sample_weight is not None:
            weight = np.asarray(sample_weight, values.dtype)
            if weight.shape != values.shape[: weight.ndim]:
                raise ValueError(
                    f"{self.name}: sample_weight has shape {weight.shape}, the losses {values.shape}; expected one "
                    "for each example."
                )
            weight = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
            values = values * Tensor(weight, device=values.device)
        return ops.mean(values)

    def __repr__(self) -> str:
        return self.name


def _alike(name: str, y_true: Any, y_pred: Tensor) -> Tensor:
    """y_true with y_pred's dtype, device and rank: a last axis of size 1 may be missing, or be too many."""
    target = y_true.data if isinstance(y_true, Tensor) else np.asarray(y_true)
    if target.ndim == y_pred.ndim - 1 and y_pred.shape[-1] == 1:
        target = target[..., None]
    if target.shape != y_pred.shape:
        hint = ""
        if target.ndim == y_pred.ndim - 1 and target.shape == y_pred.shape[:-1] and target.dtype.kind in "iu":
            hint = " For class numbers use a sparse loss, such as 'sparse_categorical_crossentropy'."
        raise ValueError(f"{name}: targets of shape {target.shape}, predictions of shape {y_pred.shape}.{hint}")
    return Tensor(target, dtype=y_pred.dtype, device=y_pred.device)


def mean_squared_error(y_true: Any, y_pred: Tensor) -> Tensor:
    return ops.mean(ops.square(y_pred - _alike("mean_squared_error", y_true, y_pred)), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Tensor) -> Tensor:
    return ops.mean(ops.abs(y_pred - _alike("mean_absolute_error", y_true, y_pred)), axis=-1)


def huber(y_true: Any, y_pred: Tensor, delta: float = 1.0) -> Tensor:
    off = ops.abs(y_pred - _alike("huber", y_true, y_pred))
    return ops.mean(ops.where(off <= delta, 0.5 * off * off, delta * off - 0.5 * delta**2), axis=-1)


def binary_crossentropy(y_true: Any, y_pred: Tensor, from_logits: bool = False) -> Tensor:
    target = _alike("binary_crossentropy", y_true, y_pred)
    if from_logits:
        return ops.mean(ops.binary_cross_entropy(y_pred, target, reduction="none"), axis=-1)
    p = ops.clip(y_pred, low=EPSILON, high=1 - EPSILON)
    return -ops.mean(target * ops.log(p) + (1 - target) * ops.log(1 - p), axis=-1)


def categorical_crossentropy(y_true: Any, y_pred: Tensor, from_logits: bool = False) -> Tensor:
    target = _alike("categorical_crossentropy", y_true, y_pred)
    return -ops.sum(target * _log_probabilities(y_pred, from_logits), axis=-1)


def sparse_categorical_crossentropy(y_true: Any, y_pred: Tensor, from_logits: bool = False) -> Tensor:
    classes = y_pred.shape[-1]
    target = class_numbers("sparse_categorical_crossentropy", y_true, y_pred.shape)
    logits = y_pred if from_logits else ops.log(ops.clip(y_pred, low=EPSILON, high=1 - EPSILON))
    values = ops.cross_entropy(
        ops.reshape(logits, shape=(-1, classes)),
        Tensor(target.reshape(-1), device=y_pred.device),
        reduction="none",
    )
    return ops.reshape(values, shape=y_pred.shape[:-1])


def kl_divergence(y_true: Any, y_pred: Tensor) -> Tensor:
    target = ops.clip(_alike("kl_divergence", y_true, y_pred), low=EPSILON, high=1.0)
    return ops.sum(target * (ops.log(target) - ops.log(ops.clip(y_pred, low=EPSILON, high=1.0))), axis=-1)


def _log_probabilities(y_pred: Tensor, from_logits: bool) -> Tensor:
    if from_logits:
        return ops.log_softmax(y_pred, axis=-1)
    p = y_pred / ops.sum(y_pred, axis=-1, keepdims=True)
    return ops.log(ops.clip(p, low=EPSILON, high=1 - EPSILON))


def class_numbers(name: str, y_true: Any, predicted: tuple[int, ...]) -> np.ndarray:
    """Targets as int64 of the predictions' shape without the classes.

    Raises
    ------
    ValueError
        Targets of another shape, that are no whole numbers, or that no class has.
    """
    target = np.asarray(y_true.data if isinstance(y_true, Tensor) else y_true)
    if target.ndim == len(predicted) and target.shape[-1] == 1:
        target = target[..., 0]
    if target.shape != predicted[:-1]:
        hint = " For one-hot targets use the loss without 'sparse_'." if target.shape == predicted else ""
        raise ValueError(f"{name}: targets of shape {target.shape}; expected {predicted[:-1]}, a class for each.{hint}")
    whole = target.astype(np.int64)
    if is_floating(target.dtype) and not np.array_equal(whole, target):
        raise ValueError(f"{name}: targets must be class numbers, got {target[whole != target].flat[0]}.")
    if whole.size and (whole.min() < 0 or whole.max() >= predicted[-1]):
        raise ValueError(
            f"{name}: labels go from {whole.min()} to {whole.max()}, but the model has {predicted[-1]} outputs, for "
            f"classes 0 to {predicted[-1] - 1}."
        )
    return whole


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "mse": mean_squared_error,
    "mean_squared_error": mean_squared_error,
    "mae": mean_absolute_error,
    "mean_absolute_error": mean_absolute_error,
    "huber": huber,
    "binary_crossentropy": binary_crossentropy,
    "categorical_crossentropy": categorical_crossentropy,
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy,
    "kl_divergence": kl_divergence,
}


def loss(wanted: Any) -> Loss:
    """The loss of a name, a `Loss`, or a function of (y_true, y_pred)."""
    return wanted if isinstance(wanted, Loss) else Loss(choose("loss", wanted, _FUNCTIONS))


def SparseCategoricalCrossentropy(from_logits: bool = False) -> Loss:  # the name that Keras's users look for
    """-log of the probability that the model gives to the class."""
    return Loss(sparse_categorical_crossentropy, from_logits=from_logits)


def CategoricalCrossentropy(from_logits: bool = False) -> Loss:
    """-log of the probability that the model gives to the class, for targets that are probabilities themselves."""
    return Loss(categorical_crossentropy, from_logits=from_logits)


def BinaryCrossentropy(from_logits: bool = False) -> Loss:
    """-log of the probability of the label, 0 or 1."""
    return Loss(binary_crossentropy, from_logits=from_logits)


def MeanSquaredError() -> Loss:
    """The square of the difference, in the mean."""
    return Loss(mean_squared_error)


def MeanAbsoluteError() -> Loss:
    """The size of the difference, in the mean."""
    return Loss(mean_absolute_error)


def Huber(delta: float = 1.0) -> Loss:
    """Squared up to `delta`, and straight from there (Huber 1964)."""
    return Loss(huber, delta=delta)
