"""From eager to graph: Python functions, traced."""

from internals.trace.function import Trace, Traced, TraceError, function

__all__ = ["Trace", "TraceError", "Traced", "function"]
