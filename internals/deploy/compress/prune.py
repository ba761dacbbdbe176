"""Leaving weights out: the smallest ones, one by one or in whole rows, a few more at each step of training.

Han et al. 2015, "Learning both Weights and Connections"; Li et al. 2017, "Pruning Filters for Efficient ConvNets";
Zhu and Gupta 2017, "To prune, or not to prune" (the schedule).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from internals.nn import Module
from internals.tensor import Tensor, no_grad


def magnitude_mask(weight: np.ndarray, sparsity: float) -> np.ndarray:
    """True for what is kept: all but the ``round(sparsity * size)`` entries of least magnitude.

    Parameters
    ----------
    weight : array, any shape
    sparsity : float
        The part to leave out, in [0, 1].

    Notes
    -----
    Of equal magnitudes, those that come first are left out first, so that the number is exact.
    """
    drop = round(_part(sparsity) * weight.size)
    mask = np.ones(weight.size, bool)
    mask[np.argsort(np.abs(weight), axis=None, kind="stable")[:drop]] = False
    return mask.reshape(weight.shape)


def channel_mask(weight: np.ndarray, sparsity: float, axis: int = 0) -> np.ndarray:
    """True for whole slices that are kept: those of the greatest L1 norm along `axis`.

    Parameters
    ----------
    weight : array of at least one axis
    axis : int
        The axis of output channels: 0 for a convolution, 1 for a `Linear`. At least one slice is kept.

    Returns
    -------
    (weight.shape[axis],) bool
    """
    if not -weight.ndim <= axis < weight.ndim:
        raise ValueError(f"channel_mask: an array of shape {weight.shape} has no axis {axis}.")
    rest = tuple(k for k in range(weight.ndim) if k != axis % weight.ndim)
    norms = np.abs(weight).sum(rest, dtype=np.float64)
    drop = min(round(_part(sparsity) * norms.size), norms.size - 1)
    mask = np.ones(norms.size, bool)
    mask[np.argsort(norms, kind="stable")[: max(drop, 0)]] = False
    return mask


def _part(sparsity: float) -> float:
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity is a part between 0 and 1, not {sparsity}.")
    return sparsity


def cubic_schedule(start: int, end: int, final: float, initial: float = 0.0) -> Callable[[int], float]:
    """How sparse to be at a step: fast at first, when there is much to spare, and slowly at last.

    ``final + (initial - final) * (1 - (step - start) / (end - start)) ** 3`` between `start` and `end` (Zhu and Gupta
    2017, eq. 1), `initial` before and `final` after.
    """
    if not 0 <= start < end:
        raise ValueError(f"cubic_schedule: steps must satisfy 0 <= start < end, got {start} and {end}.")
    _part(initial), _part(final)

    def sparsity(step: int) -> float:
        done = min(max((step - start) / (end - start), 0.0), 1.0)
        return final + (initial - final) * (1 - done) ** 3

    return sparsity


class Pruner:
    """Keeps chosen weights of a module at zero while it trains.

    Parameters
    ----------
    module : Module
    names : iterable of str, optional
        Its parameters to prune, by dotted name; by default every one of two axes or more.
    channels : dict of str to int, optional
        Of those, the ones to prune by whole slices, each with its axis.

    Examples
    --------
    ::

        pruner = Pruner(model)
        for step, batch in enumerate(batches):
            ...
            optimizer.step()
            pruner.step(schedule(step))     # after each step: momentum would bring weights back
    """

    def __init__(
        self,
        module: Module,
        names: list[str] | None = None,
        channels: Mapping[str, int] | None = None,
    ) -> None:
        parameters = dict(module.named_parameters())
        chosen = list(names) if names is not None else [n for n, one in parameters.items() if one.ndim >= 2]
        unknown = [name for name in [*chosen, *(channels or {})] if name not in parameters]
        if unknown:
            raise ValueError(f"Pruner: no parameter {unknown[0]!r}; there are {', '.join(parameters)}.")
        self.channels = dict(channels or {})
        self._parameters: dict[str, Tensor] = {
            name: parameters[name] for name in {**dict.fromkeys(chosen), **self.channels}
        }
        self.masks = {name: np.ones(one.shape, bool) for name, one in self._parameters.items()}

    def step(self, sparsity: float) -> None:
        """Choose anew what to leave out, by the weights as they are now, and set it to zero."""
        for name, parameter in self._parameters.items():
            self.masks[name] = self._mask(name, parameter.detach().to("cpu").numpy(), sparsity)
        self.apply()

    def apply(self) -> None:
        """Set to zero what was left out, without choosing anew: for training on after the last pruning."""
        with no_grad():
            for name, parameter in self._parameters.items():
                kept = self.masks[name].astype(parameter.dtype)
                parameter *= Tensor(kept, device=parameter.device)

    def _mask(self, name: str, weight: np.ndarray, sparsity: float) -> np.ndarray:
        axis = self.channels.get(name)
        if axis is None:
            return magnitude_mask(weight, sparsity)
        shape = [1] * weight.ndim
        shape[axis] = -1
        return np.broadcast_to(channel_mask(weight, sparsity, axis).reshape(shape), weight.shape)

    @property
    def sparsity(self) -> float:
        """The part of the chosen parameters' entries that is left out now."""
        total = sum(mask.size for mask in self.masks.values())
        return 1 - sum(int(mask.sum()) for mask in self.masks.values()) / total if total else 0.0


def sparse_nbytes(array: np.ndarray) -> int:
    """Bytes of an array as coordinates of its rows (CSR): a value and an int32 column each, an int32 per row."""
    rows = array.reshape(array.shape[0], -1) if array.ndim else array.reshape(1, 1)
    kept = int(np.count_nonzero(rows))
    return kept * (array.dtype.itemsize + 4) + 4 * (rows.shape[0] + 1)
