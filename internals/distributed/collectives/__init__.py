"""Collectives: what all ranks of a group do together. All-reduce in several ways, and the others.

All ranks make the same calls on a group in the same order; a rank that differs is named, at that call or at the next.
Threads of a rank that share a group must agree on the order among themselves, or have a sub-group each: two calls that
look the same and are taken for each other can't be told apart.
"""

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
