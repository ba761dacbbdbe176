"""A vocabulary over ranks: the table of embeddings cut by words, and a cross-entropy that never sees all logits.

With 50,000 words the logits of one batch are larger than everything else in the model. Each rank computes those of its
own words; what is sent is three numbers for each position instead of 50,000 (Shoeybi et al. 2019, section 3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from internals import ops
from internals.autodiff import custom_vjp
from internals.distributed.collectives import all_reduce
from internals.distributed.group import Group
from internals.distributed.scale.tensor_parallel.conjugate import summed
from internals.distributed.scale.tensor_parallel.parallel import Cut, Parallel, generator
from internals.nn import Embedding
from internals.nn.module import parameter, tensors
from internals.tensor import Tensor


class VocabularyParallelEmbedding(Parallel):
    """nn.Embedding where each rank has the rows of some words.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Of the whole; the ranks divide `num_embeddings`.
    group : Group
    rng : numpy.random.Generator, optional
        In the same state on every rank.
    """

    cuts = {"weight": Cut(0)}

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, group: Group, rng: np.random.Generator | None = None
    ) -> None:
        Cut(0).check("VocabularyParallelEmbedding: num_embeddings", num_embeddings, group)
        whole = Embedding(num_embeddings, embedding_dim, rng=generator(group, rng))
        self.group = group
        self.weight = parameter(Cut(0).part(whole.weight.detach().numpy(), group))

    def forward(self, ids: Tensor) -> Tensor:
        """ids, integers of any shape, the same on every rank; the rows, on every rank."""
        tensors("VocabularyParallelEmbedding", ids=ids)
        count = self.weight.shape[0]
        numbers = ids.detach().numpy()
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"VocabularyParallelEmbedding: ids must be integers, got {ids.dtype}.")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < count * self.group.size:
            raise IndexError(
                f"VocabularyParallelEmbedding: ids go from {numbers.min()} to {numbers.max()}, but there are rows 0 to "
                f"{count * self.group.size - 1}."
            )
        local = numbers - self.group.rank * count
        mine = (local >= 0) & (local < count)
        rows = ops.take(self.weight, Tensor(np.where(mine, local, 0)), axis=0)
        return summed(ops.where(Tensor(mine[..., None]), rows, 0.0), group=self.group)


@custom_vjp
def _losses(logits: Any, *, target: np.ndarray, group: Group) -> tuple[Any, Any]:
    own = logits.detach().numpy()
    count = own.shape[1]
    rows = np.arange(len(own))
    highest = all_reduce(own.max(1), "max", group=group)
    powers = np.exp(own - highest[:, None])
    local = target - group.rank * count
    mine = (local >= 0) & (local < count)
    chosen = np.where(mine, own[rows, np.where(mine, local, 0)], 0)
    total, chosen = all_reduce(np.stack([powers.sum(1), chosen]), group=group)
    slope = powers / total[:, None]
    slope[rows[mine], local[mine]] -= 1
    return Tensor(np.log(total) + highest - chosen), slope


@_losses.backward
def _losses_back(slope: np.ndarray, cotangent: Any, *, target: np.ndarray, group: Group) -> Any:
    return cotangent.reshape(-1, 1) * Tensor(slope)


def vocabulary_parallel_cross_entropy(
    logits: Tensor, target: Tensor, *, group: Group, reduction: str = "mean"
) -> Tensor:
    """Cross-entropy of logits whose classes are spread over the ranks.

    Parameters
    ----------
    logits : Tensor, (n, classes / ranks)
        This rank's columns.
    target : Tensor of integers, (n,)
        Of all classes; the same on every rank.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    Tensor
        The same on every rank; the derivative by `logits` is that by this rank's columns, and needs no message.
    """
    tensors("vocabulary_parallel_cross_entropy", logits=logits, target=target)
    if logits.ndim != 2 or target.shape != (logits.shape[0],) or target.dtype.kind not in "iu":
        raise ValueError(
            f"vocabulary_parallel_cross_entropy: logits {logits.shape} and target {target.dtype} {target.shape}; "
            "expected (n, classes) and n integers."
        )
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"vocabulary_parallel_cross_entropy: reduction {reduction!r} is not mean, sum or none.")
    classes, numbers = logits.shape[1] * group.size, target.detach().numpy()
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < classes:
        raise IndexError(
            f"vocabulary_parallel_cross_entropy: targets go from {numbers.min()} to {numbers.max()}, but there are "
            f"{classes} classes."
        )
    losses = _losses(logits, target=numbers, group=group)
    return losses if reduction == "none" else getattr(losses, reduction)()
