"""What each ONNX operator is in rows of ours; ``READERS[operator]`` is its rule."""

from internals.deploy.onnx.readers import arranging, control, elementwise, layers, quantised, recurrent, reductions
from internals.deploy.onnx.readers.table import READERS

__all__ = ["READERS", "arranging", "control", "elementwise", "layers", "quantised", "recurrent", "reductions"]
