"""Compare gradients with finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from internals.autodiff.tape import grad
from internals.device import device_of
from internals.tensor import Tensor


class GradcheckError(AssertionError):
    """A gradient and the finite differences disagree; the message has the worst entry."""


def gradcheck(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    *,
    step: float = 1e-6,
    relative: float = 1e-5,
    absolute: float = 1e-7,
    rng: np.random.Generator | None = None,
) -> None:
    """Check the gradient of a function by central differences under one random cotangent.

    Parameters
    ----------
    function : callable
        Takes the inputs as Tensors and returns a Tensor of any shape.
    inputs : sequence of Tensors
        Those that require a gradient are checked; they must be float64.
    step : float
        Half the distance between the two points of a difference.
    relative, absolute : float
        ``|gradient - difference| <= absolute + relative * |difference|`` must hold for every entry.
    rng : numpy.random.Generator, optional
        Where the cotangent comes from; a fresh one otherwise.

    Raises
    ------
    GradcheckError
        Names the input, the worst entry, and both values.
    TypeError
        An input to be checked is not float64; differences in float32 say little.
    """
    rng = rng or np.random.default_rng()
    checked = [i for i, x in enumerate(inputs) if x.requires_grad]
    for i in checked:
        if inputs[i].dtype != np.float64:
            raise TypeError(f"gradcheck: input {i} is {inputs[i].dtype}; finite differences need float64.")
    out = function(*inputs)
    cotangent = rng.standard_normal(out.shape)
    gradients = grad(out, [inputs[i] for i in checked], Tensor(cotangent, device=out.device), allow_unused=True)
    host = [device_of(x.data).to_host(x.data) for x in inputs]
    for i, gradient in zip(checked, gradients, strict=True):
        difference = np.empty(host[i].shape)
        for index in np.ndindex(host[i].shape):
            ends = []
            for signed in (step, -step):
                moved = host[i].copy()
                moved[index] += signed
                # Recorded like the first: the function may itself take gradients.
                there = Tensor(moved, device=inputs[i].device, requires_grad=True)
                ends.append(
                    function(*[there if j == i else x for j, x in enumerate(inputs)]).to("cpu").detach().numpy()
                )
            difference[index] = np.sum((ends[0] - ends[1]) / (2 * step) * cotangent)
        got = np.zeros(host[i].shape) if gradient is None else gradient.to("cpu").detach().numpy()
        error = np.abs(got - difference) - (absolute + relative * np.abs(difference))
        if error.size and not np.max(error) <= 0:
            worst = np.unravel_index(np.nanargmax(np.where(np.isnan(error), np.inf, error)), error.shape)
            raise GradcheckError(
                f"gradcheck: input {i}, entry {tuple(map(int, worst))}: the gradient is {got[worst]:.10g}, central "
                f"differences give {difference[worst]:.10g} (step {step:g})."
            )
