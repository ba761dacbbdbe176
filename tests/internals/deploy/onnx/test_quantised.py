"""Convolutions of integers as ONNX: every pair of dtypes, one zero point and one for each channel, groups, padding."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pytest
from in_onnxruntime import run_onnx

from internals import ops
from internals.deploy import FormatError, Signature
from internals.deploy.onnx import from_onnx, to_onnx
from internals.graph import Graph, Session

rng = np.random.default_rng()


def integers(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max + 1, shape)).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("points", ["one", "one for each channel", "zeros for each channel", "fed"])
@pytest.mark.parametrize(("x_dtype", "w_dtype"), list(itertools.product(("int8", "uint8"), repeat=2)))
def test_a_convolution_of_integers(points: str, x_dtype: str, w_dtype: str) -> None:
    for padding, groups, stride in ((0, 1, 1), (1, 2, 2), ((2, 1), 1, (1, 2))):
        x, w = integers(x_dtype, 2, 4, 6, 7), integers(w_dtype, 6, 4 // groups, 3, 3)
        x_zero, w_zero = integers(x_dtype), integers(w_dtype, *([] if points == "one" else [6]))
        w_zero = np.zeros_like(w_zero) if points.startswith("zeros") else w_zero
        graph = Graph()
        with graph:
            given = {"x": graph.placeholder((None, 4, 6, 7), x_dtype, name="x")}
            if points == "fed":
                given["p"] = graph.placeholder((6,), w_dtype, name="p")
            point = given.get("p")
            y = ops.conv2d_integer(
                given["x"], graph.constant(w), graph.constant(x_zero),
                graph.constant(w_zero) if point is None else point, padding=padding, groups=groups, stride=stride,
            )  # fmt: skip
        feeds = {"x": x, "p": w_zero}
        with Session(graph) as session:
            wanted = session.run(y, {node: feeds[name] for name, node in given.items()})
        proto = to_onnx(graph, {"f": Signature(given, {"y": y})})
        importlib.import_module("onnx").checker.check_model(proto, full_check=True)
        fed = {name: feeds[name] for name in given}
        assert np.array_equal(run_onnx(proto, fed)[0], wanted)
        assert np.array_equal(from_onnx(proto).signature()(**fed)["y"], wanted)
        kinds = [node.op_type for node in proto.graph.node]
        assert kinds.count("ConvInteger") == (2 if points in ("one for each channel", "fed") else 1)


def as_others_write_it(zeros: list[np.ndarray | None], **attrs: Any) -> Any:
    onnx = importlib.import_module("onnx")
    helper, arrays = onnx.helper, onnx.numpy_helper
    names = ["" if one is None else f"z{i}" for i, one in enumerate(zeros)]
    node = helper.make_node("ConvInteger", ["x", "w", *names], ["y"], "it", **attrs)
    ends = [helper.make_tensor_value_info(*one) for one in (("x", 2, [1, 2, 5, 6]), ("y", 6, None))]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    kept = [integers("uint8", 4, 2, 3, 2), *[one for one in zeros if one is not None]]
    graph.initializer.extend(map(arrays.from_array, kept, ["w", *[name for name in names if name]]))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("attrs", [{}, {"pads": [1, 0, 0, 2]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}])
@pytest.mark.parametrize("zeros", [[None, None], [integers("uint8"), None], [integers("uint8"), integers("uint8", 4)]])
def test_what_others_write_is_what_it_says(attrs: dict[str, Any], zeros: list[np.ndarray | None]) -> None:
    """By hand: the convolution in int64, with the zero point around the image."""
    proto = as_others_write_it(zeros, **attrs)
    x = integers("uint8", 1, 2, 5, 6)
    w = importlib.import_module("onnx").numpy_helper.to_array(proto.graph.initializer[0]).astype(np.int64)
    moved = x.astype(np.int64) - int(0 if zeros[0] is None else zeros[0])
    w = w - (0 if zeros[1] is None else zeros[1].astype(np.int64).reshape(-1, 1, 1, 1))
    step = attrs.get("strides", [1, 1])[0]
    top, left, bottom, right = attrs.get("pads", [0, 0, 0, 0]) if "auto_pad" not in attrs else (1, 0, 1, 0)
    padded = np.pad(moved, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), axis=(2, 3))[:, :, ::step, ::step]
    wanted = np.einsum("ncijkl,ockl->noij", windows, w)
    assert np.array_equal(from_onnx(proto).signature()(x=x)["y"], wanted)


def test_zero_points_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FormatError, match=r"it \(ConvInteger\): .*zero points have shapes"):
        from_onnx(as_others_write_it([integers("uint8"), integers("uint8", 3)]))
