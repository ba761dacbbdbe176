"""Activation functions as modules."""

from __future__ import annotations

from internals import ops
from internals.nn.module import Module
from internals.tensor import Tensor


class Identity(Module):
    """x itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(x)


class LeakyReLU(Module):
    """x where it is positive, ``slope * x`` elsewhere (Maas et al. 2013). The slope is PyTorch's; Keras has 0.3."""

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return ops.leaky_relu(x, slope=self.slope)

    def extra_repr(self) -> str:
        return f"{self.slope}"


class ELU(Module):
    """x where it is positive, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al. 2016)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return ops.elu(x, alpha=self.alpha)

    def extra_repr(self) -> str:
        return f"{self.alpha}"


class GELU(Module):
    """x times the share of the normal distribution below x; with ``approximate="tanh"`` GPT-2's form of it."""

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate must be 'none' or 'tanh', got {approximate!r}.")
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return ops.gelu(x) if self.approximate == "none" else ops.gelu_tanh(x)

    def extra_repr(self) -> str:
        return "" if self.approximate == "none" else f"approximate={self.approximate!r}"


class SiLU(Module):
    """``x * sigmoid(x)``, also called swish."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.silu(x)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.tanh(x)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x)


class Softplus(Module):
    """``log(1 + exp(x))``."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.softplus(x)


class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along an axis."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return ops.softmax(x, axis=self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class LogSoftmax(Softmax):
    """``log(softmax(x))`` along an axis."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.log_softmax(x, axis=self.axis)
