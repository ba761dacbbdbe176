"""Collectives: what all ranks of a group do together. All-reduce in several ways, and the others."""

from internals.distributed.collectives.agreement import Communicator, communicator
from internals.distributed.collectives.calls import (
    all_gather,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)
from internals.distributed.collectives.operands import bounds
from internals.distributed.collectives.reductions import ALGORITHMS, chosen
from internals.distributed.collectives.work import Work

__all__ = [
    "ALGORITHMS",
    "Communicator",
    "Work",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "bounds",
    "broadcast",
    "chosen",
    "communicator",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
