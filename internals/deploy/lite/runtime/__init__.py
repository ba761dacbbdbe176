"""The interpreter: NumPy and the standard library, nothing else of this project. Copy this folder to where it runs."""

# Pages run it with Python 3.8 and NumPy 1.17, the NumPy for WebAssembly that a package registry has. So it goes without
# what came later: zip(strict=), itertools.pairwise, unions of types in isinstance, numpy.broadcast_shapes.
from .interpreter import KINDS, Interpreter
from .layout import LiteError, Model, read

__all__ = ["KINDS", "Interpreter", "LiteError", "Model", "read"]
