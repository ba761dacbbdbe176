"""From eager to graph: Python functions, traced."""

from internals.trace.function import Trace, Traced, function
from internals.trace.recording import TraceError, gradient, show
from internals.trace.swap import swap

__all__ = ["Trace", "TraceError", "Traced", "function", "gradient", "show", "swap"]
