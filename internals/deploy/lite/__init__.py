"""Models for small machines: one flat file, an interpreter that plans its memory, integers for reals."""

from internals.deploy.lite.convert import to_lite, write_lite
from internals.deploy.lite.runtime import Interpreter, LiteError
from internals.deploy.lite.writer import Builder

__all__ = ["Builder", "Interpreter", "LiteError", "to_lite", "write_lite"]
