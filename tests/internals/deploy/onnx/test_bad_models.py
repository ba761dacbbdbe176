"""ONNX files that are damaged or hostile: an error that says what, no code run, memory bounded."""

from __future__ import annotations

import importlib
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import nn
from internals.deploy import FormatError, Signature, TensorSpec
from internals.deploy.onnx import from_onnx, reading, to_onnx, wire
from internals.deploy.onnx.conformance import is_ours


def onnx() -> Any:
    return importlib.import_module("onnx")


def good() -> Any:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    return to_onnx(model, {"serve": Signature({"x": TensorSpec(("batch", 1, 6, 6))}, ("y",))})


def one_node(kind: str, *values: tuple[str, np.ndarray], inputs: tuple[str, ...] = (), **attrs: Any) -> Any:
    """A model of one operator on an input x and on arrays."""
    helper, numpy_helper = onnx().helper, onnx().numpy_helper
    names = inputs or ("x", *[name for name, _ in values])
    node = helper.make_node(kind, list(names), ["y"], "it", **attrs)
    ends = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y")]
    arrays = [numpy_helper.from_array(array, name) for name, array in values]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def many(count: int) -> Any:
    """Each array is one that may be computed while a model is read; all together are not."""
    model = one_node("ConstantOfShape", ("s", np.array([2**16])), inputs=("s",))
    for i in range(count):
        node = model.graph.node.add()
        node.CopyFrom(model.graph.node[0])
        node.name = node.output[0] = f"y{i}"
    return model


SQUARE = np.random.default_rng(0).standard_normal((1, 1, 4, 4)).astype(np.float32)


def changed(change: Callable[[Any], Any]) -> Any:
    model = good()
    change(model)
    return model


def with_function(model: Any) -> None:
    model.functions.add(name="Relu", domain="").node.add(op_type="Neg", input=["x"], output=["y"])


def external(location: str) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx().TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", "72")):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value

    return change


HOSTILE: dict[str, tuple[Callable[[], Any], str]] = {
    "an unknown operator": (lambda: one_node("Teleport"), "it is a Teleport"),
    "an operator of another domain": (
        lambda: changed(lambda m: setattr(m.graph.node[0], "domain", "com.evil")), "com.evil.Conv"),
    "a function of its own": (lambda: changed(with_function), "Relu, a function of the file's own.*inline"),
    "a name that writes on the terminal": (
        lambda: changed(lambda m: [setattr(one, "name", "\x1b[31m") for one in m.graph.node]
                        and setattr(m.graph.node[0], "op_type", "Teleport")), r"'\\x1b\[31m' is a Teleport"),
    "a loop without a body": (lambda: changed(lambda m: setattr(m.graph.node[0], "op_type", "Loop")), "body"),
    "a newer operator set": (lambda: changed(lambda m: setattr(m.opset_import[0], "version", 99)), "operator set 99"),
    "no operator set": (lambda: changed(lambda m: m.ClearField("opset_import")), "operator set 0"),
    "a cycle": (lambda: one_node("Add", inputs=("y", "x")), "reads 'y', which nothing before it makes"),
    "an input that is missing": (lambda: one_node("Add", inputs=("x", "nobody")), "reads 'nobody'"),
    "a value made twice": (lambda: changed(lambda m: m.graph.node.append(m.graph.node[0])), "is there already"),
    "an output that nothing makes": (lambda: changed(lambda m: setattr(m.graph.output[0], "name", "z")), "output 'z'"),
    "a weight that is cut off": (
        lambda: changed(lambda m: setattr(m.graph.initializer[0], "raw_data", b"abcd")), "holds 1 entries"),
    "a weight of an absurd shape": (
        lambda: changed(lambda m: m.graph.initializer[0].dims.extend([10**9, 10**9])), "holds 18 entries"),
    "a weight of a negative size": (lambda: changed(lambda m: m.graph.initializer[0].dims.extend([-1])), "shape"),
    "a weight of text": (lambda: changed(lambda m: setattr(m.graph.initializer[0], "data_type", 8)), "type 8"),
    "data outside": (lambda: changed(external("../../etc/passwd")), "file of its own"),
    "an array of an absurd shape": (
        lambda: one_node("ConstantOfShape", ("s", np.array([10**6, 10**6])), inputs=("s",)), "while the model is read"),
    "an absurd tile": (lambda: one_node("Tile", ("a", np.ones((3, 3), np.int64)), ("n", np.array([10**6, 10**6])),
                                        inputs=("a", "n")), "while the model is read"),
    "an endless range": (lambda: one_node("Range", *[(n, np.array(v)) for n, v in (("a", 0), ("b", 10**15), ("c", 1))],
                                          inputs=("a", "b", "c")), "while the model is read"),
    "an absurd shape at run time": (lambda: one_node("Expand", ("s", np.array([10**6, 10**6, 2, 3]))), "Expand.*bytes"),
    "an absurd padding": (lambda: one_node("Pad", ("p", np.array([10**9, 0, 0, 16]))), "Pad.*bytes"),
    "an absurd repetition": (lambda: one_node("Tile", ("n", np.array([10**9, 16]))), "Tile.*bytes"),
    "an image with an absurd border": (
        lambda: one_node("Conv", ("a", SQUARE), ("w", SQUARE[..., :2, :2]), inputs=("a", "w"), pads=[10**9] * 4,
                         strides=[10**9] * 2), "Conv.*bytes"),
    "a window of absurd size": (
        lambda: one_node("MaxPool", ("a", SQUARE), inputs=("a",), kernel_shape=[10**9] * 2, pads=[10**9 - 1] * 4),
        "MaxPool.*places in its window"),
    "a million parts": (lambda: one_node("Split", num_outputs=10**6), "Split.*1,000,000 parts"),
    "a million neighbours": (lambda: one_node("LRN", ("a", SQUARE), inputs=("a",), size=10**6), "LRN.*neighbours"),
    "a reshape that does not fit": (lambda: one_node("Reshape", ("s", np.array([7, 7]))), r"it \(Reshape\)"),
    "a division by zero": (lambda: one_node("Range", *[(n, np.array(v)) for n, v in (("a", 0), ("b", 5), ("c", 0))],
                                            inputs=("a", "b", "c")), r"it \(Range\)"),
    "an attribute that is missing": (lambda: one_node("Concat"), r"it \(Concat\)"),
    "too few inputs": (lambda: one_node("MatMul"), r"it \(MatMul\)"),
    "an empty model": (lambda: b"", "no ONNX model"),
    "text": (lambda: b"hello, world", "no ONNX model"),
    "a shape known only at run time": (lambda: one_node("Reshape", inputs=("x", "x")), "known only when the model"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model(name: str) -> None:
    make, message = HOSTILE[name]
    model = make()
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=f"(?s)from_onnx: .*({message})"):
            from_onnx(model)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
def test_a_file_that_is_none(kind: str, tmp_path: Path) -> None:
    """None is waited for, or read without end."""
    path = {"a pipe": tmp_path / "pipe.onnx", "a device": Path("/dev/zero"), "a folder": tmp_path}[kind]
    if kind == "a pipe":
        os.mkfifo(path)
    with pytest.raises(FormatError, match=f"{path} is no plain file"):
        from_onnx(path)


@pytest.mark.parametrize("field", [1, 5, 11], ids=["nodes", "weights", "inputs"])
def test_more_fields_than_is_sane(field: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bytes of a file are an empty node, which takes a hundred in memory; so fields are counted first."""
    monkeypatch.setattr(wire, "MOST", 10_000)
    message = onnx().ModelProto
    graph = bytes([field << 3 | 2, 0]) * 10_001
    hostile = b"\x3a\xa2\x9c\x01" + graph
    assert len(getattr(message.FromString(hostile).graph, {1: "node", 5: "initializer", 11: "input"}[field])) == 10_001
    with pytest.raises(FormatError, match="more than 10,000 fields"):
        from_onnx(hostile)


def test_a_large_file_of_few_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in an array is none, whatever its bytes; a file that is cut off or of other bytes is no endless one."""
    data = good().SerializeToString()
    monkeypatch.setattr(wire, "MOST", 500)
    wire.check_fields(data, onnx().ModelProto.DESCRIPTOR)
    rng = np.random.default_rng(0)
    for _ in range(300):
        changed_data = bytearray(data[: rng.integers(500, len(data))])
        changed_data[rng.integers(len(changed_data))] = rng.integers(256)
        wire.check_fields(bytes(changed_data), onnx().ModelProto.DESCRIPTOR)


@pytest.mark.parametrize(
    ("limit", "told"), [("LARGEST_COMPUTED", "arrays of more than"), ("LARGEST_GRAPH", "nodes here")]
)
def test_many_that_are_too_much_together(monkeypatch: pytest.MonkeyPatch, limit: str, told: str) -> None:
    model = many(5) if limit == "LARGEST_COMPUTED" else one_node("LRN", ("a", SQUARE), inputs=("a",), size=400)
    assert from_onnx(model)
    monkeypatch.setattr(reading, limit, 2**20 if limit == "LARGEST_COMPUTED" else 500)
    with pytest.raises(FormatError, match=told):
        from_onnx(model)


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/passwd", "folder/x.bin", "link.bin", "short.bin", "gone.bin"]
)
def test_data_in_other_files_must_lie_beside_the_model(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(72))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "short.bin").write_bytes(bytes(71))
    (folder / "model.onnx").write_bytes(changed(external(location)).SerializeToString())
    with pytest.raises(FormatError, match=location.rpartition("/")[2]):
        from_onnx(folder / "model.onnx")


def test_data_beside_the_model_is_read(tmp_path: Path) -> None:
    model = good()
    data = model.graph.initializer[0].raw_data
    wanted = from_onnx(model)
    (tmp_path / "weights.bin").write_bytes(data)
    external("weights.bin")(model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng().standard_normal((2, 1, 6, 6)).astype(np.float32)
    found = from_onnx(tmp_path / "model.onnx").signature()(x=x)["y"]
    assert np.array_equal(found, wanted.signature()(x=x)["y"])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("count", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_fuzzed_models(count: int) -> None:
    rng = np.random.default_rng(2)
    data = good().SerializeToString()
    x = np.zeros((2, 1, 6, 6), np.float32)
    read = 0
    tracemalloc.start()
    for _ in range(count):
        found = bytearray(data)
        at = int(rng.integers(len(found)))
        kind = int(rng.integers(4))
        if kind == 0:
            del found[at:]
        elif kind == 1:
            found[at : at + 4] = rng.bytes(int(rng.integers(0, 8)))
        else:
            for place in rng.integers(len(found), size=kind):
                found[place] ^= 1 << int(rng.integers(8))
        try:
            model = from_onnx(bytes(found))
            read += 1
            model.signature()(**dict.fromkeys(model.signature().inputs, x))
        except ValueError:  # FormatError, or what a changed model says of its inputs
            pass
    assert tracemalloc.get_traced_memory()[1] < 128 * 2**20
    tracemalloc.stop()
    assert read < count


EXTREMES = (0, -1, 1, 3, 65537, 10**6, 2**31 - 1, 10**9, 2**40, -(2**62), 2**63 - 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_numbers_that_are_absurd() -> None:
    """onnx's own tests of operators with extremes for attributes, sizes and axes: refused, or read in little memory."""
    loader = importlib.import_module("onnx.backend.test.loader")
    rng = np.random.default_rng(4)
    cases = [case.model for case in loader.load_model_tests(kind="node") if is_ours(case)]
    ints = onnx().AttributeProto.INT, onnx().AttributeProto.INTS
    whole = onnx().TensorProto.INT32, onnx().TensorProto.INT64
    read = 0
    tracemalloc.start()
    for number in rng.permutation(len(cases))[:250]:
        model = onnx().ModelProto()
        model.CopyFrom(cases[number])
        for attribute in [one for node in model.graph.node for one in node.attribute if one.type in ints]:
            if attribute.type == ints[0] and rng.random() < 0.6:
                attribute.i = int(rng.choice(EXTREMES))
            elif attribute.ints:
                attribute.ints[int(rng.integers(len(attribute.ints)))] = int(rng.choice(EXTREMES))
        fixed = {}
        for one in model.graph.input:
            sizes = one.type.tensor_type.shape.dim
            shape = [size.dim_value for size in sizes]
            if one.type.tensor_type.elem_type in whole and np.prod(shape) < 100:
                fixed[one.name] = rng.choice(EXTREMES, shape)
            elif sizes and rng.random() < 0.2:
                sizes[int(rng.integers(len(sizes)))].dim_value = abs(int(rng.choice(EXTREMES)))
        try:
            from_onnx(model.SerializeToString(), fixed=fixed)
            read += 1
        except FormatError:
            pass
    assert tracemalloc.get_traced_memory()[1] < 512 * 2**20
    tracemalloc.stop()
    assert 0 < read < 250
