"""Serving: a process that answers requests with saved models, in batches, while versions come and go."""

from internals.deploy.serve.batcher import Batcher, Request
from internals.deploy.serve.errors import (
    BadRequest,
    ModelFailed,
    NotFound,
    QueueFull,
    ServeError,
    TooLate,
    Unavailable,
)
from internals.deploy.serve.joining import Joiner

__all__ = [
    "BadRequest",
    "Batcher",
    "Joiner",
    "ModelFailed",
    "NotFound",
    "QueueFull",
    "Request",
    "ServeError",
    "TooLate",
    "Unavailable",
]
