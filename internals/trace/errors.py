"""What tracing says when a function can't be a graph."""

from __future__ import annotations

from internals.graph import GraphError


class TraceError(GraphError):
    """A function can't be run as a graph; says which line and what to write instead."""
