"""Modules: a model as an object that holds its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from internals import ops
from internals.device import Device
from internals.tensor import Leaf, Tensor, no_grad


class Module:
    """A part of a model.

    Attributes that are Tensors requiring a gradient are its parameters; attributes that are Modules, or lists of them,
    are its parts. Subclasses write `forward`.
    """

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward; write one.")

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Every parameter once, with its dotted name, in the order of assignment."""
        seen: set[int] = set()
        for name, parameter in self._walk(prefix):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def _walk(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and type(value.node) is Leaf:
                yield prefix + name, value
            elif isinstance(value, Module):
                yield from value._walk(f"{prefix}{name}.")
            elif isinstance(value, list | tuple):
                for i, part in enumerate(value):
                    if isinstance(part, Module):
                        yield from part._walk(f"{prefix}{name}.{i}.")

    def parameters(self) -> list[Tensor]:
        """Every parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, device: str | Device) -> Module:
        """Move the parameters, in place; gradients are forgotten."""
        with no_grad():
            for parameter in self.parameters():
                parameter.data = parameter.to(device).data
                parameter.grad = None
        return self


class Linear(Module):
    """``x @ weight + bias``.

    Parameters
    ----------
    in_features, out_features : int
        x is (..., in_features), the result (..., out_features). The weight is stored (in_features, out_features);
        PyTorch stores its transpose.
    bias : bool
    rng : numpy.random.Generator, optional
        Both start uniform within 1/sqrt(in_features), PyTorch's choice (LeCun et al. 1998, §4.6).
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = True, rng: np.random.Generator | None = None
    ) -> None:
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"Linear: {name} must be a positive integer, got {size!r}.")
        rng = rng or np.random.default_rng()
        bound = in_features**-0.5
        self.weight = Tensor(
            rng.uniform(-bound, bound, (in_features, out_features)), dtype=np.float32, requires_grad=True
        )
        self.bias = (
            Tensor(rng.uniform(-bound, bound, out_features), dtype=np.float32, requires_grad=True) if bias else None
        )

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 0 or x.shape[-1] != self.weight.shape[0]:
            raise ValueError(
                f"Linear: an input of shape {x.shape} does not end in in_features = {self.weight.shape[0]}."
            )
        product = x @ self.weight
        return product if self.bias is None else product + self.bias

    def __repr__(self) -> str:
        return f"Linear({self.weight.shape[0]}, {self.weight.shape[1]}, bias={self.bias is not None})"


class ReLU(Module):
    """``max(x, 0)``."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(x)

    def __repr__(self) -> str:
        return "ReLU()"


class Sequential(Module):
    """Modules applied one after the other."""

    def __init__(self, *parts: Module) -> None:
        self.parts = list(parts)

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.parts))})"
