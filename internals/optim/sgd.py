"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable

from internals.tensor import Tensor, no_grad


class SGD:
    """``velocity = momentum * velocity + gradient; parameter -= lr * velocity``.

    Parameters
    ----------
    parameters : iterable of Tensors that require a gradient
    lr : float
        Step size, positive.
    momentum : float
        0 is plain gradient descent. The first velocity is the first gradient, as in PyTorch.

    Raises
    ------
    TypeError
        A tensor in place of a list of them, or an lr or momentum that is no number.
    ValueError
        No parameters, one that requires no gradient, is no leaf or is there twice, or an lr or momentum that is not
        sensible.
    """

    def __init__(self, parameters: Iterable[Tensor], *, lr: float, momentum: float = 0.0) -> None:
        if isinstance(parameters, Tensor):
            raise TypeError("SGD: parameters are given as a list; one tensor alone is [tensor].")
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError("SGD: there are no parameters to train; pass model.parameters().")
        fixed = [i for i, parameter in enumerate(self.parameters) if not parameter.requires_grad]
        if fixed:
            raise ValueError(f"SGD: parameter {fixed[0]} does not require a gradient; make it with requires_grad=True.")
        made = [i for i, parameter in enumerate(self.parameters) if not parameter.is_leaf]
        if made:
            raise ValueError(
                f"SGD: parameter {made[0]} was computed from others, so no gradient is kept for it; pass the leaves, "
                "or detach() it and set requires_grad."
            )
        if len({id(parameter) for parameter in self.parameters}) < len(self.parameters):
            raise ValueError("SGD: a parameter is there twice, and would be moved twice in a step.")
        if not all(isinstance(number, int | float) for number in (lr, momentum)):
            raise TypeError(
                f"SGD: lr and momentum must be numbers, got {type(lr).__name__} and {type(momentum).__name__}."
            )
        if not lr > 0 or not 0 <= momentum < 1:
            raise ValueError(f"SGD: lr must be positive and momentum in [0, 1), got lr={lr}, momentum={momentum}.")
        self.lr, self.momentum = lr, momentum
        self._velocity: list[Tensor | None] = [None] * len(self.parameters)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Move every parameter that has a gradient, in place."""
        with no_grad():
            for i, parameter in enumerate(self.parameters):
                gradient = parameter.grad
                if gradient is None:
                    continue
                if self.momentum:
                    velocity = self._velocity[i]
                    gradient = gradient.clone() if velocity is None else velocity * self.momentum + gradient
                    self._velocity[i] = gradient
                parameter -= gradient * self.lr
