"""What sending costs, measured; and what follows from it for collectives, servers and whole training steps."""

from internals.distributed.costs.measure import SEGMENT, measure
from internals.distributed.costs.model import Costs, PerByte, Way
from internals.distributed.costs.predict import (
    ALL_REDUCE,
    all_gather,
    all_reduce,
    broadcast,
    data_parallel_step,
    pull,
    push,
    reduce_scatter,
    send,
)
from internals.distributed.costs.strategies import STRATEGIES, Cluster, Estimate, Model, estimate

__all__ = [
    "ALL_REDUCE",
    "SEGMENT",
    "STRATEGIES",
    "Cluster",
    "Costs",
    "Estimate",
    "Model",
    "PerByte",
    "Way",
    "all_gather",
    "all_reduce",
    "broadcast",
    "data_parallel_step",
    "estimate",
    "measure",
    "pull",
    "push",
    "reduce_scatter",
    "send",
]
