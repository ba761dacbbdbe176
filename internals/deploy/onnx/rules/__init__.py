"""How each row of the op table is written in ONNX; ``RULES[name]`` is its rule."""

from internals.deploy.onnx.rules import arranging, elementwise, layers, losses, recurrent, reductions
from internals.deploy.onnx.rules.table import RULES, WITHOUT

__all__ = ["RULES", "WITHOUT", "arranging", "elementwise", "layers", "losses", "recurrent", "reductions"]
