"""Models: modules and losses."""

from internals.nn.conv import AvgPool2d, Conv2d, Flatten, MaxPool2d
from internals.nn.module import Linear, Module, ReLU, Sequential
from internals.nn.normalise import BatchNorm2d, Dropout, LayerNorm
from internals.ops import binary_cross_entropy, cross_entropy, mse, relu

__all__ = [
    "AvgPool2d",
    "BatchNorm2d",
    "Conv2d",
    "Dropout",
    "Flatten",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "Module",
    "ReLU",
    "Sequential",
    "binary_cross_entropy",
    "cross_entropy",
    "mse",
    "relu",
]
