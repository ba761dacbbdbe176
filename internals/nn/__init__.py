"""Models: modules and losses."""

from internals.nn.module import Linear, Module, ReLU, Sequential
from internals.ops import binary_cross_entropy, cross_entropy, mse, relu

__all__ = ["Linear", "Module", "ReLU", "Sequential", "binary_cross_entropy", "cross_entropy", "mse", "relu"]
