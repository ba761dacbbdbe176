"""A runtime for the five ONNX operators of ``lab16_formats``, strict about what the standard says of them.

A learner's file is not given to a library written in C++: it comes from the sandbox. Every deviation is an OnnxError
whose text is feedback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class OnnxError(ValueError):
    """What is wrong with a graph, in words for its author."""


def run(graph: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """The value called ``y`` of a graph whose input is called ``x``.

    Raises
    ------
    OnnxError
    """
    values: dict[str, np.ndarray] = {"x": x, **graph["initializers"]}
    if "x" in graph["initializers"]:
        raise OnnxError("an initializer is called x, which is the graph's input.")
    for name, array in graph["initializers"].items():
        if array.dtype not in (np.float32, np.int64):
            raise OnnxError(f"the initializer {name} is {array.dtype}; weights are float32, and shapes int64.")
    for node in graph["nodes"]:
        kind = node["op_type"]
        if kind not in _RUN:
            raise OnnxError(f"there is no ONNX operator {kind!r}; here there are {', '.join(_RUN)}.")
        for name in node["inputs"]:
            if name not in values:
                raise OnnxError(f"{kind} reads {name!r}, which neither a node before it nor an initializer gives.")
        if len(node["outputs"]) != 1:
            raise OnnxError(f"{kind} has one output, got {node['outputs']}.")
        (output,) = node["outputs"]
        if output in values:
            raise OnnxError(f"{output!r} is made twice; every value has a name of its own.")
        arity, attrs, function = _RUN[kind]
        if len(node["inputs"]) not in arity:
            raise OnnxError(f"{kind} has {' or '.join(map(str, arity))} inputs, got {len(node['inputs'])}.")
        unknown = node["attrs"].keys() - attrs
        if unknown:
            raise OnnxError(
                f"{kind} has no attribute {', '.join(sorted(unknown))}; it has {', '.join(attrs) or 'none'}."
            )
        try:
            values[output] = function(node["attrs"], *[values[name] for name in node["inputs"]])
        except OnnxError:
            raise
        except (ValueError, TypeError, IndexError) as error:
            raise OnnxError(f"{kind} can't run on {[values[n].shape for n in node['inputs']]}: {error}.") from None
    if "y" not in values:
        raise OnnxError("no node makes y, the graph's output.")
    return values["y"]


def _integers(kind: str, attrs: Mapping[str, Any], name: str, count: int, default: list[int] | None) -> list[int]:
    value = attrs.get(name, default)
    plain = isinstance(value, list) and all(type(one) is int for one in value)
    if not plain or len(value) != count:
        raise OnnxError(f"{kind}: the attribute {name} is a list of {count} integers, got {value!r}.")
    return list(value)


def _float(x: np.ndarray, kind: str) -> None:
    if x.dtype != np.float32:
        raise OnnxError(f"{kind} computes with float32 here, got {x.dtype}.")


def _gemm(attrs: Mapping[str, Any], a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
    _float(a, "Gemm")
    if a.ndim != 2 or b.ndim != 2:
        raise OnnxError(f"Gemm multiplies matrices, got shapes {a.shape} and {b.shape}.")
    a = a.T if attrs.get("transA", 0) else a
    b = b.T if attrs.get("transB", 0) else b
    product = np.float32(attrs.get("alpha", 1.0)) * (a @ b)
    return product if c is None else product + np.float32(attrs.get("beta", 1.0)) * c


def _relu(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _windows(kind: str, attrs: Mapping[str, Any], x: np.ndarray, kernel: list[int], fill: float) -> np.ndarray:
    """(batch, channels, height, width, *kernel)."""
    if x.ndim != 4:
        raise OnnxError(f"{kind} takes (batch, channels, height, width), got shape {x.shape}.")
    strides = _integers(kind, attrs, "strides", 2, [1, 1])
    pads = _integers(kind, attrs, "pads", 4, [0, 0, 0, 0])
    if min(strides) < 1 or min(pads) < 0 or min(kernel) < 1 or max(*pads, *kernel) > 64:
        raise OnnxError(f"{kind}: strides {strides}, pads {pads} and kernel {kernel} must be small positive numbers.")
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(x, tuple(kernel), axis=(2, 3))
    return found[:, :, :: strides[0], :: strides[1]]


def _conv(attrs: Mapping[str, Any], x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    _float(x, "Conv")
    if w.ndim != 4 or x.ndim != 4 or w.shape[1] != x.shape[1]:
        raise OnnxError(f"Conv: the weight of shape {w.shape} does not fit an input of shape {x.shape}.")
    kernel = _integers("Conv", attrs, "kernel_shape", 2, list(w.shape[2:]))
    if kernel != list(w.shape[2:]):
        raise OnnxError(f"Conv: kernel_shape is {kernel}, and the weight has {list(w.shape[2:])}.")
    if attrs.get("group", 1) != 1 or attrs.get("dilations", [1, 1]) != [1, 1]:
        raise OnnxError("Conv: here there is one group, and no dilation.")
    found = np.einsum("nchwij,ocij->nohw", _windows("Conv", attrs, x, kernel, 0), w)
    return found if bias is None else found + bias[:, None, None]


def _max_pool(attrs: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    kernel = _integers("MaxPool", attrs, "kernel_shape", 2, None)
    return _windows("MaxPool", attrs, x, kernel, float("-inf")).max(axis=(-1, -2))


def _reshape(attrs: Mapping[str, Any], x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    if shape.dtype != np.int64 or shape.ndim != 1:
        raise OnnxError(f"Reshape: the shape is a vector of int64, got {shape.dtype} of {shape.ndim} axes.")
    sizes = [x.shape[i] if size == 0 and i < x.ndim else int(size) for i, size in enumerate(shape)]
    return x.reshape(sizes)


_RUN: dict[str, tuple[tuple[int, ...], tuple[str, ...], Callable[..., np.ndarray]]] = {
    "Gemm": ((2, 3), ("alpha", "beta", "transA", "transB"), _gemm),
    "Relu": ((1,), (), _relu),
    "Conv": ((2, 3), ("kernel_shape", "strides", "pads", "dilations", "group"), _conv),
    "MaxPool": ((1,), ("kernel_shape", "strides", "pads"), _max_pool),
    "Reshape": ((2,), ("allowzero",), _reshape),
}
