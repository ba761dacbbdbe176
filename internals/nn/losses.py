"""Losses as modules."""

from __future__ import annotations

from typing import Any

from internals import ops
from internals.nn.module import Module
from internals.ops.loss import REDUCTIONS
from internals.tensor import Tensor


class _Loss(Module):
    """A loss of predictions and targets.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        if reduction not in REDUCTIONS:
            raise ValueError(f"{type(self).__name__}: reduction {reduction!r} is not one of {', '.join(REDUCTIONS)}.")
        self.settings: dict[str, Any] = {"reduction": reduction}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


class CrossEntropyLoss(_Loss):
    """-log softmax(logits)[target]; see `ops.cross_entropy`.

    Parameters
    ----------
    weight : Tensor, (classes,), optional
        How much each class counts.
    ignore_index : int
        Targets of this value do not count.
    label_smoothing : float
        How much of each target is spread over all classes (Szegedy et al. 2016).
    reduction : {"mean", "sum", "none"}
    """

    buffers = ("weight",)

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.weight = weight
        self.settings |= {"ignore_index": ignore_index, "label_smoothing": label_smoothing}

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        if self.weight is None:
            return ops.cross_entropy(logits, target, **self.settings)
        return ops.weighted_cross_entropy(logits, target, self.weight, **self.settings)


class NLLLoss(_Loss):
    """-log_p[target], of log-probabilities; see `ops.nll`."""

    def __init__(self, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.settings |= {"ignore_index": ignore_index}

    def forward(self, log_p: Tensor, target: Tensor) -> Tensor:
        return ops.nll(log_p, target, **self.settings)


class BCEWithLogitsLoss(_Loss):
    """Cross-entropy of yes and no, from logits; see `ops.binary_cross_entropy`."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return ops.binary_cross_entropy(logits, target, **self.settings)


class MSELoss(_Loss):
    """Squared difference; see `ops.mse`."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.mse(x, y, **self.settings)


class L1Loss(_Loss):
    """Absolute difference; see `ops.l1`."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.l1(x, y, **self.settings)


class HuberLoss(_Loss):
    """Squared near zero, absolute beyond `delta` (Huber 1964); see `ops.huber`."""

    def __init__(self, *, delta: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.settings |= {"delta": delta}

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.huber(x, y, **self.settings)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of a distribution p from one whose logarithm is given; see `ops.kl_div`."""

    def __init__(self, *, log_target: bool = False, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.settings |= {"log_target": log_target}

    def forward(self, log_q: Tensor, p: Tensor) -> Tensor:
        return ops.kl_div(log_q, p, **self.settings)
