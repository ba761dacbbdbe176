"""The interpreter: NumPy and the standard library, nothing else of this project. Copy this folder to where it runs."""

from .interpreter import KINDS, Interpreter
from .layout import LiteError, Model, read

__all__ = ["KINDS", "Interpreter", "LiteError", "Model", "read"]
