"""ONNX: models as other frameworks' programs read them, and theirs as graphs of ours."""

from internals.deploy.onnx.export import export_onnx, to_onnx
from internals.deploy.onnx.reading import from_onnx

__all__ = ["export_onnx", "from_onnx", "to_onnx"]
