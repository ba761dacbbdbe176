"""The durable queue of gradings: it lies in the gradebook, and workers on any machine that reaches it take from it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "LEARNER": "states",
    "REGRADE": "states",
    "Job": "states",
    "JobView": "states",
    "enqueue": "adding",
    "regrade": "adding",
    "Regrading": "adding",
    "RateLimit": "limits",
    "watch": "views",
    "job_of": "views",
    "counts": "views",
    "retry": "decisions",
    "park": "decisions",
    "Worker": "worker",
}

__all__ = [*_HOME]  # noqa: PLE0604  the names are the keys


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
