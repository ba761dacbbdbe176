"""Modules: a model as an object that holds its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from internals import ops
from internals.device import Device
from internals.tensor import Leaf, Tensor, no_grad


class Module:
    """A part of a model.

    Attributes that are Tensors requiring a gradient are its parameters; attributes that are Modules, or lists of them,
    are its parts. Subclasses write `forward`.

    Attributes
    ----------
    training : bool
        Set by `train` and `eval`; dropout and batch normalisation ask for it.
    buffers : tuple of str
        The attributes, Tensors too, that belong to its state but are not trained.
    """

    training = True
    buffers: tuple[str, ...] = ()

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

    def _walk(self, prefix: str, buffers: bool = False) -> Iterator[tuple[str, Tensor]]:
        for name, value in self._attributes():
            if isinstance(value, Module):
                yield from value._walk(f"{prefix}{name}.", buffers)
            elif isinstance(value, Tensor) and (type(value.node) is Leaf or (buffers and name in self.buffers)):
                yield prefix + name, value

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """Attributes by name; the Modules in a list, each by its place."""
        for name, value in vars(self).items():
            if isinstance(value, list | tuple):
                yield from ((f"{name}.{i}", part) for i, part in enumerate(value) if isinstance(part, Module))
            else:
                yield name, value

    def parameters(self) -> list[Tensor]:
        """Every parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters():
            parameter.grad = None

    def train(self, mode: bool = True) -> Self:
        """Behave as in training, or with False as in evaluation; the parts too."""
        self.training = mode
        for _, part in self._attributes():
            if isinstance(part, Module):
                part.train(mode)
        return self

    def eval(self) -> Self:
        """Behave as in evaluation."""
        return self.train(False)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by their dotted names, as PyTorch has them; copies on the host.

        PyTorch's are no copies: there, training goes on in what was handed out.
        """
        with no_grad():
            return {name: value.detach().to("cpu").numpy().copy() for name, value in self._walk("", buffers=True)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Write values into parameters and buffers, in place.

        Parameters
        ----------
        state : mapping of name to array
            With every name that `state_dict` gives, and no other.

        Raises
        ------
        ValueError
            A name is missing or unknown, or a value has another shape. Nothing is changed then.
        """
        mine = dict(self._walk("", buffers=True))
        for what, names in (("missing", mine.keys() - state.keys()), ("unknown", state.keys() - mine.keys())):
            if names:
                raise ValueError(f"load_state_dict: {what}: {', '.join(sorted(names))}.")
        values = {name: np.asarray(state[name], dtype=value.dtype) for name, value in mine.items()}
        for name, value in mine.items():
            if values[name].shape != value.shape:
                raise ValueError(f"load_state_dict: {name} has shape {value.shape}, the value {values[name].shape}.")
        with no_grad():
            for name, value in mine.items():
                value[...] = Tensor(values[name], device=value.device)

    def to(self, device: str | Device) -> Self:
        """Move parameters and buffers, in place; gradients are forgotten."""
        with no_grad():
            for _, value in self._walk("", buffers=True):
                value.data = value.to(device).data
        self.zero_grad()
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

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        return ((str(i), part) for i, part in enumerate(self.parts))

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.parts))})"
