"""How each row of the op table is written in ONNX; ``RULES[name]`` is its rule."""

from internals.deploy.onnx.rules import (
    arranging,
    control,
    elementwise,
    layers,
    losses,
    quantised,
    recurrent,
    reductions,
)
from internals.deploy.onnx.rules.table import IN_GRAPHS, RULES, WITHOUT

__all__ = [
    "IN_GRAPHS",
    "RULES",
    "WITHOUT",
    "arranging",
    "control",
    "elementwise",
    "layers",
    "losses",
    "quantised",
    "recurrent",
    "reductions",
]
