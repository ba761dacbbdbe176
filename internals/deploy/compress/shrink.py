"""Channels that are left out, and with them everything that reads them: a smaller dense model, not a sparse one.

Li et al. 2017, "Pruning Filters for Efficient ConvNets", §3.1.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from internals.deploy.compress.layers import WEIGHT_AXIS, array_of
from internals.deploy.compress.prune import channel_mask
from internals.nn import BatchNorm1d, BatchNorm2d, Conv2d, Linear, Module, Sequential
from internals.nn.module import parameter
from internals.tensor import Tensor

NORMS = (BatchNorm1d, BatchNorm2d)


def shrink(model: Sequential, sparsity: float | Mapping[int, np.ndarray]) -> Sequential:
    """A copy of a chain of layers without its weakest channels.

    Parameters
    ----------
    model : Sequential
        Of `Linear`, `Conv2d` (of one group), batch normalisations, and layers without weights that keep channels apart,
        such as activations, pools and Flatten. The last layer with a weight keeps all its outputs.
    sparsity : float, or mapping of int to (channels,) bool
        The part of the channels of least L1 norm to leave out; or for parts by place, which channels stay.

    Raises
    ------
    TypeError, ValueError
        A part that it does not know how to cut, a mask that does not fit, or one that keeps nothing.
    """
    if type(model) is not Sequential:
        raise TypeError(f"shrink: only a Sequential says what reads what, got {type(model).__name__}.")
    parts = [copy.copy(part) for part in model.parts]
    places = [i for i, part in enumerate(parts) if type(part) in (Linear, Conv2d)]
    masks = dict(sparsity) if isinstance(sparsity, Mapping) else _weakest(parts, places[:-1], sparsity)
    wrong = [place for place in masks if place not in places[:-1]]
    if wrong:
        raise ValueError(f"shrink: part {wrong[0]} is no layer whose channels can go; those are {places[:-1]}.")
    kept: np.ndarray | None = None
    for place, part in enumerate(parts):
        if place in places:
            kept = _cut(part, place, kept, masks.get(place))
        elif isinstance(part, NORMS):
            if kept is not None:
                _cut_norm(part, kept)
        elif any(True for _ in part.named_parameters()) or any(True for _ in part.named_buffers()):
            raise TypeError(f"shrink: part {place}, a {type(part).__name__}, has weights that it can't cut.")
    return Sequential(*parts)


def _weakest(parts: list[Module], places: list[int], sparsity: float) -> dict[int, np.ndarray]:
    def weight(place: int) -> np.ndarray:
        layer: Any = parts[place]
        return array_of(layer.weight)

    return {place: channel_mask(weight(place), sparsity, WEIGHT_AXIS[type(parts[place])]) for place in places}


def _cut(layer: Any, place: int, kept: np.ndarray | None, mask: np.ndarray | None) -> np.ndarray | None:
    """Cut a layer's inputs to what is left, and its outputs to its mask; returns which outputs are left."""
    out_axis = WEIGHT_AXIS[type(layer)]
    weight = array_of(layer.weight)
    if isinstance(layer, Conv2d) and layer.settings["groups"] != 1:
        raise TypeError(f"shrink: part {place} is a convolution of {layer.settings['groups']} groups; only one is cut.")
    if kept is not None:
        inputs = weight.shape[1 - out_axis]
        if inputs % kept.size:
            raise ValueError(f"shrink: part {place} reads {inputs} features, not a multiple of {kept.size} channels.")
        weight = np.compress(np.repeat(kept, inputs // kept.size), weight, axis=1 - out_axis)
    if mask is not None:
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (weight.shape[out_axis],) or not mask.any():
            raise ValueError(
                f"shrink: the mask of part {place} is {mask.dtype} {mask.shape}; expected bool "
                f"{(weight.shape[out_axis],)}, and one channel at least that stays."
            )
        weight = np.compress(mask, weight, axis=out_axis)
        if layer.bias is not None:
            layer.bias = parameter(array_of(layer.bias)[mask])
    layer.weight = parameter(weight)
    return mask


def _cut_norm(norm: Any, kept: np.ndarray) -> None:
    if norm.weight.shape != kept.shape:
        raise ValueError(f"shrink: a normalisation of {norm.weight.shape[0]} channels reads {kept.size}.")
    for name in ("weight", "bias"):
        setattr(norm, name, parameter(array_of(getattr(norm, name))[kept]))
    for name in ("running_mean", "running_var"):
        setattr(norm, name, Tensor(array_of(getattr(norm, name))[kept]))
