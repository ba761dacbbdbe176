"""Dynamic batching: every example builds its own computation, and what is alike in all of them runs together."""

from internals.fold.batch import Batch, Launch, defer, each, run, stacked
from internals.fold.deferred import Deferred, Note
from internals.fold.operation import Operation, operation
from internals.fold.schedule import SCHEDULES, by_agenda, by_depth, check_schedule, depths

__all__ = [
    "SCHEDULES",
    "Batch",
    "Deferred",
    "Launch",
    "Note",
    "Operation",
    "by_agenda",
    "by_depth",
    "check_schedule",
    "defer",
    "depths",
    "each",
    "operation",
    "run",
    "stacked",
]
