"""Models as ONNX: ours in onnxruntime at any batch size, torch's here, and both ways without a loss."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_onnxruntime import run_onnx

from internals import Tensor, front, nn, no_grad
from internals.autodiff import tree
from internals.deploy import FormatError, Signature, TensorSpec, load, save
from internals.deploy.onnx import export_onnx, from_onnx, to_onnx

rng = np.random.default_rng()
BATCHES = (1, 2, 7)


def spec(*shape: Any, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(("batch", *shape), dtype)


OURS: dict[str, tuple[Callable[[], Any], TensorSpec | None]] = {
    "MLP": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), nn.Softmax()), spec(6)),
    "CNN": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(4, 6, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                  nn.Linear(6, 10)), spec(1, 12, 12)),
    "LSTM": (lambda: nn.LSTM(5, 7, num_layers=2, bidirectional=True, batch_first=True), spec(4, 5)),
    "GRU": (lambda: nn.GRU(5, 7, batch_first=True), spec(4, 5)),
    "RNN": (lambda: nn.RNN(5, 7, batch_first=True), spec(4, 5)),
    "transformer block": (lambda: nn.TransformerBlock(8, 2), spec(5, 8)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(10, 4), nn.LearnedPositions(6, 4), nn.LayerNorm(4)),
                  spec(3, dtype="int64")),
    "group norm": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2)), spec(4, 6, 6)),
    "Keras-style": (lambda: front.Sequential([front.Input((8, 8, 1)), front.Conv2D(4, 3, activation="relu"),
                                              front.Flatten(), front.Dense(10)]), None),
    "Keras-style LSTM": (lambda: front.Sequential([front.Input((6,), "int64"), front.Embedding(20, 4), front.LSTM(5),
                                                   front.Dense(2)]), None),
}  # fmt: skip


def random_input(one: TensorSpec, batch: int) -> np.ndarray:
    shape = [size if isinstance(size, int) else batch for size in one.shape]
    if one.dtype.kind == "i":
        return rng.integers(0, 10, shape)
    return rng.standard_normal(shape).astype(one.dtype)


def eager(model: Any, x: np.ndarray) -> list[np.ndarray]:
    model.eval()
    with no_grad():
        return [one.numpy() for one in tree.leaves(model(Tensor(x)))]


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 28])
@pytest.mark.parametrize("name", OURS)
def test_our_models_in_onnxruntime(name: str, opset: int) -> None:
    make, given = OURS[name]
    model = make()
    signatures = None if given is None else {"serve": Signature({"x": given})}
    proto = to_onnx(model, signatures, opset=opset)
    importlib.import_module("onnx").checker.check_model(proto, full_check=True)
    (entry,) = proto.graph.input
    assert entry.type.tensor_type.shape.dim[0].dim_param == "batch"
    one = given or TensorSpec(("batch", *model.inputs[0].shape[1:]), model.inputs[0].dtype)
    for batch in BATCHES:
        x = random_input(one, batch)
        for came, wanted in zip(run_onnx(proto, {entry.name: x}), eager(model, x), strict=True):
            np.testing.assert_allclose(came, wanted, rtol=1e-5, atol=1e-5)


def canonical(proto: Any) -> list[Any]:
    """The operators in order, with arrays in place of initialisers' names and numbers in place of others."""
    helper = importlib.import_module("onnx.numpy_helper")
    values: dict[str, Any] = {"": ""}
    for tensor in proto.graph.initializer:
        array = helper.to_array(tensor)
        values[tensor.name] = (array.dtype.str, array.shape, array.tobytes())
    values |= {one.name: f"input {i}" for i, one in enumerate(proto.graph.input)}
    steps = []
    for number, node in enumerate(proto.graph.node):
        attrs = sorted((one.name, one.SerializeToString(deterministic=True)) for one in node.attribute)
        steps.append((node.op_type, attrs, [values[one] for one in node.input]))
        values |= {one: (number, i) for i, one in enumerate(node.output)}
    return [*steps, [values[one.name] for one in proto.graph.output]]


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_export_import_export_loses_nothing(name: str) -> None:
    make, given = OURS[name]
    model = make()
    first = to_onnx(model, None if given is None else {"serve": Signature({"x": given})})
    read = from_onnx(first)
    second = to_onnx(read)
    third = to_onnx(from_onnx(second))
    assert canonical(second) == canonical(third)
    ends = [[str(one) for one in (*proto.graph.input, *proto.graph.output)] for proto in (first, second, third)]
    assert ends[0] == ends[1] == ends[2]
    one = read.signature().inputs
    (key,) = one
    x = random_input(one[key], 5)
    outputs = [run_onnx(proto, {first.graph.input[0].name: x}) for proto in (first, second, third)]
    for others in outputs[1:]:
        for a, b in zip(outputs[0], others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


# What torch exports


def torch_models() -> dict[str, tuple[Callable[[Any], Any], tuple[int, ...], bool]]:
    torch = importlib.import_module("torch")
    layers = torch.nn

    class Residual(layers.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = layers.Sequential(
                layers.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
                layers.BatchNorm2d(8),
                layers.ReLU(),
                layers.MaxPool2d(3, 2, 1),
            )
            self.body = layers.Sequential(
                layers.Conv2d(8, 8, 3, padding=1, bias=False),
                layers.BatchNorm2d(8),
                layers.ReLU(),
                layers.Conv2d(8, 8, 3, padding=1),
                layers.BatchNorm2d(8),
            )
            self.last = layers.Sequential(layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(8, 10))

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            return self.last(torch.relu(x + self.body(x)))

    class Recurrent(layers.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer, self.head = layer, layers.LazyLinear(3)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x)[0][:, -1])

    class Encoder(layers.Module):
        def __init__(self) -> None:
            super().__init__()
            one = layers.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
            self.embed, self.head = layers.Embedding(20, 16), layers.Linear(16, 3)
            self.encoder = layers.TransformerEncoder(one, 2, enable_nested_tensor=False)

        def forward(self, x: Any) -> Any:
            return self.head(self.encoder(self.embed(x)).mean(1))

    return {
        "MLP": (lambda _: layers.Sequential(layers.Linear(6, 8), layers.ReLU(), layers.Linear(8, 3)), (6,), False),
        "residual CNN": (lambda _: Residual(), (3, 32, 32), False),
        "LSTM": (lambda _: Recurrent(layers.LSTM(5, 7, 2, batch_first=True, bidirectional=True)), (6, 5), False),
        "GRU": (lambda _: Recurrent(layers.GRU(5, 7, batch_first=True)), (6, 5), False),
        "transformer encoder": (lambda _: Encoder(), (7,), True),
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["MLP", "residual CNN", "LSTM", "GRU", "transformer encoder"])
def test_models_that_torch_exports(name: str, tmp_path: Path) -> None:
    """Read at any batch size, differentiated, saved in our own format, and exported again."""
    torch = importlib.import_module("torch")
    make, shape, tokens = torch_models()[name]
    model = make(torch).eval()

    steps = name in ("LSTM", "GRU")  # of an encoder torch writes the number that it saw

    def batch_of(n: int) -> Any:
        sizes = (n, n + 3, *shape[1:]) if steps else (n, *shape)
        return torch.randint(0, 20, sizes) if tokens else torch.randn(*sizes)

    x = batch_of(4)
    with torch.no_grad():
        model(x)
        for one in model.parameters():  # torch writes equal arrays once, and layers that are copies begin equal
            one += 0.05 * torch.randn_like(one)
    file = io.BytesIO()
    torch.onnx.export(model, (x,), file, dynamo=False, opset_version=17, input_names=["x"],
                      dynamic_axes={"x": {0: "batch", 1: "time"} if steps else {0: "batch"}})  # fmt: skip
    read = from_onnx(file.getvalue())
    save(tmp_path / "model", read)
    loaded = load(tmp_path / "model")
    again = to_onnx(loaded)
    for n in BATCHES:
        x = batch_of(n)
        with torch.no_grad():
            wanted = model(x).numpy()
        for one in (read, loaded):
            (came,) = one.signature()(x=x.numpy()).values()
            np.testing.assert_allclose(came, wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(run_onnx(again, {"x": x.numpy()})[0], wanted, rtol=1e-4, atol=1e-5)
    module = loaded.module()
    (module(Tensor(x.numpy())) ** 2).sum().backward()
    (model(x) ** 2).sum().backward()
    by_name = {key: p.grad for key, p in module.named_parameters()}
    shared = [(by_name[key], p.grad.numpy()) for key, p in model.named_parameters() if key in by_name]
    assert shared
    for came, want in shared:
        np.testing.assert_allclose(came.numpy(), want, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(want).max()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_file_that_is_right_for_one_size_only() -> None:
    """It says that the time is open, and one reshape within it has the number that torch saw."""
    torch = importlib.import_module("torch")
    model = torch_models()["transformer encoder"][0](torch).eval()
    x, file = torch.randint(0, 20, (2, 7)), io.BytesIO()
    torch.onnx.export(model, (x,), file, dynamo=False, opset_version=17, input_names=["x"],
                      dynamic_axes={"x": {0: "batch", 1: "time"}})  # fmt: skip
    with pytest.raises(FormatError, match=r"Reshape.*right for one size only, give it: sizes=\{'time': \.\.\.\}"):
        from_onnx(file.getvalue())
    read = from_onnx(file.getvalue(), sizes={"time": 7})
    assert read.signature().inputs["x"].shape == ("batch", 7)
    x = torch.randint(0, 20, (5, 7))
    with torch.no_grad():
        wanted = model(x).numpy()
    np.testing.assert_allclose(*read.signature()(x=x.numpy()).values(), wanted, rtol=1e-4, atol=1e-5)
    for wrong, told in (({"sizes": {"width": 3}}, "no open size called 'width'; there are batch, time"),
                        ({"fixed": {"y": 3}}, "no input called 'y'; there are x")):  # fmt: skip
        with pytest.raises(ValueError, match=told):
            from_onnx(file.getvalue(), **wrong)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_model_of_16_bits_there_and_back(dtype: str) -> None:
    """What is written is read, its weights to the bit and to be trained."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3)).to(dtype)
    read = from_onnx(to_onnx(model, {"serve": Signature({"x": spec(4, dtype=dtype)}, ("y",))}))
    assert set(read.trainable) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert read.variables[name].tobytes() == parameter.detach().numpy().tobytes()
    x = rng.standard_normal((5, 4)).astype(read.signature().inputs["x"].dtype)
    found, wanted = read.signature()(x=x)["y"], eager(model, x)[0]
    assert found.dtype == wanted.dtype == read.signature().inputs["x"].dtype
    np.testing.assert_allclose(found.astype(float), wanted.astype(float), atol=0.05)
    assert canonical(to_onnx(read)) == canonical(to_onnx(from_onnx(to_onnx(read))))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    signatures = {"serve": Signature({"x": spec(3)}, outputs=("y",))}
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    export_onnx(path, model, signatures)
    assert [one.name for one in tmp_path.iterdir()] == ["model.onnx"]
    x = random_input(spec(3), 4)
    assert np.array_equal(from_onnx(path).signature()(x=x)["y"], eager(model, x)[0])
