"""A moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from internals.device import Array, device_of
from internals.tensor import Tensor


class ExponentialMovingAverage:
    """``average = decay * average + (1 - decay) * parameter`` after every step; often better than the last weights.

    Parameters
    ----------
    parameters : iterable of Tensors
    decay : float
        In [0, 1). The average looks back about ``1 / (1 - decay)`` steps.

    Attributes
    ----------
    averages : list of arrays
        One for each parameter; they start as copies.

    References
    ----------
    Polyak and Juditsky (1992), Acceleration of stochastic approximation by averaging.
    """

    def __init__(self, parameters: Iterable[Tensor], decay: float = 0.999) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ExponentialMovingAverage: decay must be in [0, 1), got {decay}.")
        self.parameters, self.decay = list(parameters), decay
        for number, one in enumerate(self.parameters):
            if not isinstance(one, Tensor):
                raise TypeError(
                    f"ExponentialMovingAverage: parameter {number} is a {type(one).__name__}; expected a Tensor."
                )
        self.averages: list[Array] = [parameter.data.copy() for parameter in self.parameters]

    def update(self) -> None:
        """Take the parameters as they are now into the averages."""
        for average, parameter in zip(self.averages, self.parameters, strict=True):
            xp = device_of(average).xp
            xp.add(average, (1 - self.decay) * (parameter.data - average), out=average)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within it, the parameters are their averages: ``with average.applied(): evaluate()``."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for average, parameter in zip(self.averages, self.parameters, strict=True):
            now = parameter.data.copy()
            parameter.data[...] = average
            average[...] = now
            parameter.storage.version += 1
