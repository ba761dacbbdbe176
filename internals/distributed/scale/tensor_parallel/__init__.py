"""One layer on several ranks: its matrices cut in columns or in rows (Shoeybi et al. 2019)."""

from internals.distributed.scale.tensor_parallel.blocks import (
    ParallelAttention,
    ParallelMLP,
    ParallelTransformerBlock,
)
from internals.distributed.scale.tensor_parallel.conjugate import copied, gathered, scattered, summed
from internals.distributed.scale.tensor_parallel.linear import ColumnParallelLinear, RowParallelLinear
from internals.distributed.scale.tensor_parallel.parallel import Cut, Parallel
from internals.distributed.scale.tensor_parallel.vocabulary import (
    VocabularyParallelEmbedding,
    vocabulary_parallel_cross_entropy,
)

__all__ = [
    "ColumnParallelLinear",
    "Cut",
    "Parallel",
    "ParallelAttention",
    "ParallelMLP",
    "ParallelTransformerBlock",
    "RowParallelLinear",
    "VocabularyParallelEmbedding",
    "copied",
    "gathered",
    "scattered",
    "summed",
    "vocabulary_parallel_cross_entropy",
]
