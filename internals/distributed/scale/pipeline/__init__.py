"""A model cut into stages, each on a rank of its own; a batch goes through in micro-batches."""

from internals.distributed.scale.pipeline.picture import draw_pipeline
from internals.distributed.scale.pipeline.schedule import (
    SCHEDULES,
    Action,
    Schedule,
    Span,
    bubble,
    check,
    gpipe,
    most_kept,
    one_f_one_b,
    simulate,
)
from internals.distributed.scale.pipeline.split import split
from internals.distributed.scale.pipeline.stage import Pipeline, saved_bytes

__all__ = [
    "SCHEDULES",
    "Action",
    "Pipeline",
    "Schedule",
    "Span",
    "bubble",
    "check",
    "draw_pipeline",
    "gpipe",
    "most_kept",
    "one_f_one_b",
    "saved_bytes",
    "simulate",
    "split",
]
