"""Running an ONNX model in onnxruntime, on one thread and quietly."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np


def run_onnx(model: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a ModelProto."""
    runtime = importlib.import_module("onnxruntime")
    runtime.set_default_logger_severity(4)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, feeds)
    return found
