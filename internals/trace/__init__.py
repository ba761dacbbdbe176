"""From eager to graph: Python functions, traced."""

from internals.trace.convert import do_not_convert
from internals.trace.errors import TraceError
from internals.trace.function import Trace, Traced, function
from internals.trace.recording import gradient, show
from internals.trace.swap import swap

__all__ = ["Trace", "TraceError", "Traced", "do_not_convert", "function", "gradient", "show", "swap"]
