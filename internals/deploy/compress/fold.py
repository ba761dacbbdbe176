"""A normalisation whose statistics stand is a scale and a shift: they go into the layer before it.

``(conv(x, w) + b) * s + t = conv(x, s w) + (s b + t)`` (Jacob et al. 2018, §3.2; Krishnamoorthi 2018, §3.2.2).
"""

from __future__ import annotations

import copy

import numpy as np

from internals.nn import BatchNorm1d, BatchNorm2d, Conv2d, Linear, Module, Sequential
from internals.nn.module import parameter
from internals.tensor import Tensor

FOLDS: dict[type, tuple[type, ...]] = {Linear: (BatchNorm1d,), Conv2d: (BatchNorm2d,)}
"""Which normalisations go into which layers."""


def fold_norm(layer: Linear | Conv2d, norm: BatchNorm1d | BatchNorm2d) -> Linear | Conv2d:
    """One layer that computes what both did; neither is changed.

    Raises
    ------
    ValueError
        The normalisation is in training mode, where its statistics are those of each batch; or sizes differ.
    """
    if norm.training:
        raise ValueError(
            f"fold_norm: the {type(norm).__name__} is in training mode, where it has no fixed scale and shift. "
            "Call model.eval() first."
        )
    axis = 1 if isinstance(layer, Linear) else 0
    weight = _float64(layer.weight)
    if weight.shape[axis] != norm.weight.shape[0]:
        raise ValueError(f"fold_norm: {weight.shape[axis]} outputs meet a normalisation of {norm.weight.shape[0]}.")
    scale = _float64(norm.weight) / np.sqrt(_float64(norm.running_var) + norm.eps)
    shift = _float64(norm.bias) - _float64(norm.running_mean) * scale
    folded = copy.copy(layer)
    folded.weight = parameter(weight * scale.reshape([-1 if i == axis else 1 for i in range(weight.ndim)]))
    folded.bias = parameter(shift if layer.bias is None else _float64(layer.bias) * scale + shift)
    return folded


def _float64(value: Tensor) -> np.ndarray:
    return value.detach().to("cpu").numpy().astype(np.float64)


def fold_norms(model: Module) -> Module:
    """A copy of a model in which each normalisation that follows a layer in a `Sequential` is folded into it.

    Raises
    ------
    ValueError
        One of them is in training mode.
    """
    model = copy.deepcopy(model)
    for part in model.modules():
        if isinstance(part, Sequential):
            kept: list[Module] = []
            for one in part.parts:
                last = kept[-1] if kept else None
                if last is not None and type(one) in FOLDS.get(type(last), ()):
                    kept[-1] = fold_norm(last, one)  # type: ignore[arg-type]
                else:
                    kept.append(one)
            part.parts = kept
    return model
