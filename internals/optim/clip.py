"""Gradient clipping: a bound on the length of the step that one batch can cause."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from internals.device import Array, device_of
from internals.tensor import Tensor


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor], max_norm: float, *, p: float = 2.0, error_if_nonfinite: bool = False
) -> float:
    """Scale all gradients, in place, so that as one vector they are no longer than `max_norm`.

    The factor is ``max_norm / (norm + 1e-6)`` where that is below 1, PyTorch's; TensorFlow's and Keras's
    `global_clipnorm` adds nothing.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensors
        Those without a gradient are left out.
    max_norm : float
    p : float
        Which norm; ``math.inf`` takes the largest entry.
    error_if_nonfinite : bool
        Refuse gradients with NaN or infinity in them. Otherwise, as in PyTorch, a norm of infinity makes finite
        entries 0 and infinite ones NaN, and a norm of NaN makes all NaN.

    Returns
    -------
    float
        The norm before clipping.

    Raises
    ------
    RuntimeError
        A gradient is not finite, and `error_if_nonfinite` was asked for. Nothing was scaled then.

    References
    ----------
    Pascanu, Mikolov, Bengio (2013), On the difficulty of training recurrent neural networks.
    """
    _check_bound("clip_grad_norm", "max_norm", max_norm)
    if not p > 0:
        raise ValueError(f"clip_grad_norm: p must be positive, got {p}.")
    gradients = _gradients("clip_grad_norm", parameters)
    norms = {number: _norm(gradient.data, p) for number, gradient in gradients.items()}
    total = float(np.linalg.norm(list(norms.values()), p)) if norms else 0.0
    if error_if_nonfinite and not math.isfinite(total):
        worst = [number for number, norm in norms.items() if not math.isfinite(norm)]
        named = f"in that of parameter {worst[0]}" if worst else "only together"
        raise RuntimeError(
            f"clip_grad_norm: the norm of the gradients is {total}: {named}. Lower lr, look for a 0 under a root or a "
            "logarithm in the loss, or scale it down."
        )
    factor = max_norm / (total + 1e-6)
    if not factor >= 1:
        for gradient in gradients.values():
            _scale(gradient, factor)
    return total


def clip_grad_value(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Bring every entry of the gradients into [-clip_value, clip_value], in place; NaN stays."""
    _check_bound("clip_grad_value", "clip_value", clip_value)
    for gradient in _gradients("clip_grad_value", parameters).values():
        device_of(gradient.data).xp.clip(gradient.data, -clip_value, clip_value, out=gradient.data)
        gradient.storage.version += 1


def _gradients(who: str, parameters: Tensor | Iterable[Tensor]) -> dict[int, Tensor]:
    """The gradients there are, by the number of their parameter."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for number, one in enumerate(given):
        if not isinstance(one, Tensor):
            raise TypeError(f"{who}: parameter {number} is a {type(one).__name__}; expected a Tensor.")
    return {number: one.grad for number, one in enumerate(given) if one.grad is not None}


def _check_bound(who: str, name: str, value: float) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"{who}: {name} must be a number, got {type(value).__name__}.")
    if not value >= 0:
        raise ValueError(f"{who}: {name} must not be negative, got {value}.")


def _norm(array: Array, p: float) -> float:
    if array.size == 0:
        return 0.0
    place = device_of(array)
    xp, flat = place.xp, array.reshape(-1)
    if p == 2 and array.dtype == np.float32:
        square = float(place.to_host(xp.vdot(flat, flat)))
        if _TINY < square < math.inf:
            return math.sqrt(square)
    flat = flat.astype(np.float64)  # half numbers' squares leave their range soon, float32's seldom
    if math.isinf(p):
        return float(place.to_host(xp.max(xp.abs(flat))))
    if p == 2:
        return math.sqrt(float(place.to_host(xp.vdot(flat, flat))))
    return float(place.to_host(xp.sum(xp.abs(flat) ** p))) ** (1 / p)


_TINY = 1e-30
"""Below it a sum of float32 squares may have lost some to underflow."""


def _scale(gradient: Tensor, factor: float) -> None:
    data = gradient.data
    with np.errstate(invalid="ignore"):  # infinity times 0, where the norm is infinite
        device_of(data).xp.multiply(data, factor, out=data)
    gradient.storage.version += 1
