"""Layers that are a table of numbers: a matrix to multiply by, rows to look up."""

from __future__ import annotations

import numpy as np

from internals import ops
from internals.nn.module import Module, parameter, positive, tensors
from internals.tensor import Tensor, no_grad


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
        positive("Linear", in_features=in_features, out_features=out_features)
        rng = rng or np.random.default_rng()
        bound = in_features**-0.5
        self.weight = parameter(rng.uniform(-bound, bound, (in_features, out_features)))
        self.bias = parameter(rng.uniform(-bound, bound, out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        tensors("Linear", x=x)
        if x.ndim == 0 or x.shape[-1] != self.weight.shape[0]:
            raise ValueError(
                f"Linear: an input of shape {x.shape} does not end in in_features = {self.weight.shape[0]}."
            )
        return ops.linear(x, self.weight, 0.0 if self.bias is None else self.bias)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}, bias={self.bias is not None}"


class Embedding(Module):
    """A row of numbers for each index.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        How many indices there are, 0 and up, and how long a row is. The input is integers of any shape, the result has
        one axis more.
    padding_idx : int, optional
        The row of this index starts at zero and receives no gradient.
    rng : numpy.random.Generator, optional
        Rows start normal with deviation 1, as in PyTorch; Keras's are uniform within 0.05.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        padding_idx: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is not one of {num_embeddings} indices.")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        values = (rng or np.random.default_rng()).standard_normal((num_embeddings, embedding_dim))
        if self.padding_idx is not None:
            values[self.padding_idx] = 0
        self.weight = parameter(values)

    def forward(self, ids: Tensor) -> Tensor:
        tensors("Embedding", ids=ids)
        count = self.weight.shape[0]
        if ids.dtype.kind not in "iu":
            raise TypeError(f"Embedding: ids must be integers, got {ids.dtype}.")
        if isinstance(ids, Tensor) and isinstance(ids.data, np.ndarray) and ids.size:
            lowest, highest = ids.data.min(), ids.data.max()
            if not 0 <= lowest <= highest < count:
                raise IndexError(f"Embedding: ids go from {lowest} to {highest}, but there are rows 0 to {count - 1}.")
        rows = ops.take(self.weight, ids, axis=0)
        if self.padding_idx is None:
            return rows
        with no_grad():
            padding = ops.expand_dims(ids == self.padding_idx, axis=-1)
            constant = self.weight[self.padding_idx]
        return ops.where(padding, constant, rows)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}{padding}"
