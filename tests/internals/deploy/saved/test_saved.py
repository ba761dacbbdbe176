"""Saved models: every kind of source, loaded without its code, the same to the bit; trained further; frozen."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import Tensor, deploy, front, nn, no_grad, ops, optim
from internals.autodiff import tree
from internals.deploy import Signature, SignatureError, TensorSpec, load, save
from internals.deploy.saved.graphfile import binary_to_json, graph_to_json, json_to_binary, read_graph
from internals.deploy.saved.sources import content_of
from internals.graph import Graph, GraphError, Session, cond, minimize, scan
from internals.trace import function

rng = np.random.default_rng()
HERE = Path(__file__).parent
FORMS = ("json", "binary")


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def batch(*shape: Any, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(("batch", *shape), dtype)


MODELS: dict[str, tuple[Callable[[], nn.Module], TensorSpec]] = {
    "MLP": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), batch(6)),
    "CNN": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Flatten(), nn.Linear(64, 10)), batch(1, 8, 8)),
    "LSTM": (lambda: nn.LSTM(5, 7, num_layers=2), TensorSpec(("time", "batch", 5))),
    "GRU": (lambda: nn.GRU(5, 7, batch_first=True), batch("time", 5)),
    "RNN": (lambda: nn.RNN(5, 7, bidirectional=True), TensorSpec(("time", "batch", 5))),
    "transformer block": (lambda: nn.TransformerBlock(8, 2), batch(5, 8)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4), nn.Dropout(0.5)),
                  batch(3, dtype="int64")),
    "group norm": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.RMSNorm(3)), batch(4, 3, 3)),
    "nothing open": (lambda: nn.Linear(6, 2), TensorSpec((4, 6))),
    "nothing to train": (lambda: nn.AvgPool2d(2), batch(2, 4, 4)),
}  # fmt: skip


def example(spec: TensorSpec, **sizes: int) -> np.ndarray:
    shape = [size if isinstance(size, int) else sizes[str(size)] for size in spec.shape]
    return rng.integers(0, 10, shape) if spec.dtype.kind == "i" else random(*shape)


def eager(model: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    model.eval()
    with no_grad():
        return [one.numpy() for one in tree.leaves(model(*map(Tensor, inputs)))]


SLOW_BUT = ("MLP", "GRU")
"""The models on which a change is tried at once."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in SLOW_BUT else pytest.mark.slow) for n in MODELS])
def test_a_module_is_the_same_to_the_bit_at_any_size(name: str, form: str, tmp_path: Path) -> None:
    make, spec = MODELS[name]
    model = make()
    modes = [part.training for part in model.modules()]
    save(tmp_path / "model", model, {"serve": Signature({"x": spec})}, form=form)
    assert [part.training for part in model.modules()] == modes
    loaded = load(tmp_path / "model")
    assert set(loaded.trainable) == {key for key, _ in model.named_parameters()}
    for sizes in ({"batch": 1, "time": 1}, {"batch": 2, "time": 3}, {"batch": 7, "time": 2}):
        x = example(spec, **sizes)
        found = loaded.signatures["serve"](x=x)
        for came, wanted in zip(found.values(), eager(model, x), strict=True):
            assert np.array_equal(came, wanted)
        for one, made in zip(loaded.signatures["serve"].results.values(), found.values(), strict=True):
            assert tuple(sizes[s] if isinstance(s, str) else s for s in one.shape) == made.shape


def graph_of_two_uses() -> tuple[Any, dict[str, Signature]]:
    graph = Graph()
    with graph:
        x = graph.placeholder((None, 3), name="x")
        target = graph.placeholder((None, 2), name="target")
        weight = graph.variable(random(3, 2), name="weight")
        y = ops.tanh(x @ weight)
        loss = ((y - target) ** 2).mean()
        step = minimize(loss, optimizer=optim.Adam, lr=0.05)
        with graph.after([step]):
            done = loss * 1
    session = Session(graph)
    session.initialise()
    return session, {
        "predict": Signature({"x": x}, {"y": y}),
        "train": Signature({"x": x, "target": target}, {"loss": done}),
    }


def test_a_graph_with_its_training_step_goes_on_training(tmp_path: Path) -> None:
    session, signatures = graph_of_two_uses()
    save(tmp_path / "model", session, signatures)
    loaded = load(tmp_path / "model")
    x, target = random(16, 3), np.tanh(random(16, 2))
    before = loaded.signatures["predict"](x=x)["y"]
    losses = [float(loaded.signatures["train"](x=x, target=target)["loss"]) for _ in range(60)]
    assert losses[-1] < losses[0]
    assert not np.array_equal(loaded.signatures["predict"](x=x)["y"], before)
    save(tmp_path / "later", loaded)  # with the values and the memory of the optimizer that it has now
    later = load(tmp_path / "later")
    assert np.array_equal(later.signatures["predict"](x=x)["y"], loaded.signatures["predict"](x=x)["y"])
    one, two = (model.signatures["train"](x=x, target=target)["loss"] for model in (later, loaded))
    assert np.array_equal(one, two)


def test_a_keras_style_model_has_a_signature_of_its_own(tmp_path: Path) -> None:
    model = front.Sequential([front.Input((6,), "int64", name="tokens"), front.Embedding(20, 4), front.LSTM(5),
                              front.Dense(2, name="scores")])  # fmt: skip
    save(tmp_path / "model", model)
    signature = load(tmp_path / "model").signature()
    tokens = rng.integers(0, 20, (3, 6))
    assert np.array_equal(signature(tokens=tokens)["scores"], eager(model, tokens)[0])
    assert str(signature) == "(tokens: int64[batch, 6]) -> (scores: float32[batch, 2])"


def test_functions_share_what_they_read(tmp_path: Path) -> None:
    scale = Tensor(random(4), requires_grad=True)

    @function
    def scaled(x: Any) -> Any:
        if x.sum() > 0:
            x = x * 2
        return x * scale

    def both(x: Any, y: Any) -> Any:
        return {"sum": x + y * scale, "product": x * y}

    pair = {"x": batch(4), "y": batch(4)}
    save(tmp_path / "model", None, {"scaled": Signature({"x": TensorSpec((3, 4))}, function=scaled),
                                    "both": Signature(pair, function=both)})  # fmt: skip
    loaded = load(tmp_path / "model")
    assert len(loaded.variables) == 1
    for sign in (1, -1):
        x = sign * np.abs(random(3, 4))
        assert np.array_equal(loaded.signatures["scaled"](x=x)["output"], scaled(Tensor(x)).detach().numpy())
    x, y = random(2, 4), random(2, 4)
    found = loaded.signatures["both"](x=x, y=y)
    assert list(found) == ["sum", "product"]
    assert np.array_equal(found["product"], x * y)
    with pytest.raises(SignatureError, match="batch is 2 in x, axis 0 and 3 in y, axis 0"):
        loaded.signatures["both"](x=x, y=random(3, 4))


@pytest.mark.slow
def test_it_needs_none_of_the_code_that_made_it(tmp_path: Path) -> None:
    """In a process of its own, which imports no module of the test's, from a directory with nothing else in it."""
    make, spec = MODELS["CNN"]
    model = make()
    save(tmp_path / "model", model, {"serve": Signature({"x": spec})}, form="binary")
    x = example(spec, batch=5)
    np.save(tmp_path / "x.npy", x)
    program = (
        "import numpy, sys; from internals.deploy import load\n"
        "x = numpy.load('x.npy'); numpy.save('y.npy', load('model').signatures['serve'](x=x)['output'])\n"
        "assert 'internals.nn.conv' in sys.modules and 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": str(HERE.parents[3]), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), eager(model, x)[0])


def test_a_frozen_model_is_the_same_and_has_nothing_to_train(tmp_path: Path) -> None:
    make, spec = MODELS["CNN"]
    model = make()
    x = example(spec, batch=3)
    save(tmp_path / "model", model, {"serve": Signature({"x": spec})}, freeze=True)
    frozen = load(tmp_path / "model")
    assert not frozen.variables
    assert frozen.trainable == ()
    assert frozen.module().parameters() == []
    assert np.array_equal(frozen.signatures["serve"](x=x)["output"], eager(model, x)[0])
    save(tmp_path / "free", model, {"serve": Signature({"x": spec})})
    later = load(tmp_path / "free").freeze()
    assert np.array_equal(later.signatures["serve"](x=x)["output"], eager(model, x)[0])


def test_what_writes_a_variable_can_not_be_frozen() -> None:
    session, signatures = graph_of_two_uses()
    with pytest.raises(GraphError, match="writes a variable"):
        deploy.SavedModel(content_of(session, signatures)).freeze()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name != "nothing to train"])
def test_gradients_of_a_loaded_model_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    make, spec = MODELS[name]
    model = make()
    model.eval()
    save(tmp_path / "model", model, {"serve": Signature({"x": spec})})
    module = load(tmp_path / "model").module()
    x = Tensor(example(spec, batch=3, time=2))
    given = {key: p.shape for key, p in module.named_parameters()}
    assert given == {key: p.shape for key, p in model.named_parameters()}
    cotangent = None
    for one in (model, module):
        found = one(x)
        first = next(iter(found.values())) if isinstance(found, dict) else tree.leaves(found)[0]
        cotangent = random(*first.shape) if cotangent is None else cotangent
        (first * Tensor(cotangent)).sum().backward()
    wanted = {key: p.grad for key, p in model.named_parameters()}
    for key, p in module.named_parameters():
        if wanted[key] is not None:
            np.testing.assert_allclose(p.grad.numpy(), wanted[key].numpy(), rtol=1e-5, atol=1e-5)


def test_a_loaded_model_is_trained_and_saved_again(tmp_path: Path) -> None:
    make, spec = MODELS["MLP"]
    save(tmp_path / "model", make(), {"serve": Signature({"x": spec})})
    loaded = load(tmp_path / "model")
    module = loaded.module()
    x, target = random(32, 6), random(32, 3)
    optimizer, losses = optim.Adam(module.parameters(), lr=0.02), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = ops.mse(module(Tensor(x)), Tensor(target))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    before = loaded.signatures["serve"](x=x)["output"]
    loaded.take(module)
    after = loaded.signatures["serve"](x=x)["output"]
    assert not np.array_equal(before, after)
    assert np.array_equal(after, eager(module, x)[0])
    save(tmp_path / "model", loaded, overwrite=True)
    assert np.array_equal(load(tmp_path / "model").signatures["serve"](x=x)["output"], after)


def test_version_1_still_loads() -> None:
    """The directory was written by the program's first version, and is kept as it was."""
    loaded = load(HERE / "version_1")
    assert loaded.version == 1
    answers = {
        key: np.asarray(value, np.float32)
        for key, value in json.loads((HERE / "version_1_answers.json").read_text()).items()
    }
    found = loaded.signatures["serve"](x=answers["x"])
    np.testing.assert_allclose(found["logits"], answers["logits"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["hidden"], answers["hidden"], rtol=1e-6, atol=1e-6)
    assert loaded.assets["labels.txt"].read_text().split() == ["cat", "dog", "bird"]


def test_version_1_saved_again_is_of_this_version(tmp_path: Path) -> None:
    save(tmp_path / "model", load(HERE / "version_1"))
    loaded = load(tmp_path / "model")
    assert loaded.version == 2
    assert loaded.assets["labels.txt"].read_text().split() == ["cat", "dog", "bird"]


def control_flow() -> Graph:
    graph = Graph()
    with graph:
        x = graph.placeholder((3, 4), name="x")
        weight = graph.variable(random(4, 4), name="weight")
        chosen = cond(x.sum() > 0, lambda: x @ weight, lambda: x - np.float32("inf"))
        carry, _ = scan(lambda carry, row: ([ops.tanh(carry[0] + row[0])], [carry[0]]), [chosen[0]], [chosen])
        ops.getitem(x, key=(slice(None, None, -1), np.array([2, 0, 0])))
        ops.clip(carry[0], low=float("-inf"), high=2**70)
    return graph


@pytest.mark.parametrize("make", [control_flow, lambda: graph_of_two_uses()[0].graph], ids=["control flow", "training"])
def test_the_binary_form_loses_nothing(make: Callable[[], Graph]) -> None:
    text = graph_to_json(make())
    binary = json_to_binary(text)
    assert binary_to_json(binary) == text
    assert len(binary) < 0.7 * len(text)
    again = read_graph("graph.bin", binary, {})
    assert graph_to_json(again) == text
    assert graph_to_json(read_graph("graph.json", text, {})) == text


# What is refused when saving, and when calling


class Drops(nn.Module):
    def __init__(self) -> None:
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.drop(x)


def decides_by_size(x: Any) -> Any:
    return x * 2 if x.shape[0] > 4 else x


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda at: save(at, 3), TypeError, "give signatures"),
    (lambda at: save(at, 3, {"serve": Signature({"x": batch(3)})}), TypeError, "a int can't be saved"),
    (lambda at: save(at, nn.Linear(3, 2)), TypeError, "give signatures"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": {"x": batch(3)}}), TypeError, "names to Signatures"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": Signature({"x": (3,)})}), TypeError, "names to TensorSpecs"),
    (lambda at: save(at, nn.Linear(3, 2), {5: Signature({"x": batch(3)})}), TypeError, "names to Signatures, got 5"),
    (lambda at: save(at, nn.Linear(3, 2), {"a/b": Signature({"x": batch(3)})}), ValueError, "'a/b' is no name of"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": Signature({"a b": batch(3)})}), ValueError, "'a b' is no name of"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": Signature({"x": batch(4)})}), ValueError, "in_features = 3"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": Signature({"x": batch(3)}, ("a", "b"))}), TypeError, "1 results"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": Signature({"x": batch(3)})}, form="xml"), ValueError, "form must"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": Signature({"x": batch(3)})}, assets={"../a": b""}), ValueError,
     "no file name"),
    (lambda at: save(at, nn.Linear(3, 2), {"serve": Signature({"x": batch(3)})}, assets={"a": 3}), TypeError,
     "the asset a is a path or bytes, got int"),
    (lambda at: save(at, decides_by_size, {"serve": Signature({"x": batch(3)})}), SignatureError,
     r"(?s)for another batch.*test_saved.py"),
    (lambda at: save(at, Drops().forward, {"serve": Signature({"x": batch(3)})}), GraphError, "eval"),
    (lambda at: save(at, lambda x, y: x * y, {"serve": Signature(dict.fromkeys("xy", TensorSpec((None,))))}),
     SignatureError, r"x\[0\] alone is another size.*one name"),
    (lambda at: save(at, lambda x: None, {"serve": Signature({"x": batch(3)})}), TypeError, "gives no Tensor"),
    (lambda at: TensorSpec(3), TypeError, "One axis of that size is"),
    (lambda at: TensorSpec((2.5,)), TypeError, "whole numbers, names or None"),
    (lambda at: TensorSpec((-1,)), ValueError, "0 to"),
    (lambda at: TensorSpec((2**70,)), ValueError, "0 to"),
    (lambda at: TensorSpec((3,), "flout32"), TypeError, "not a dtype"),
])  # fmt: skip
def test_what_can_not_be_saved(call: Callable[[Path], Any], error: type, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        call(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("linear") / "model"
    save(path, nn.Linear(3, 2), {"serve": Signature({"x": batch(3)}, ("y",))})
    return load(path).signatures["serve"]


@pytest.mark.parametrize(("given", "message"), [
    ({}, "missing input x"), ({"x": random(2, 3), "z": 1}, "unknown input z"), ({"x": random(2, 4)}, "axis 1 is 3"),
    ({"x": random(3)}, "of 2 axes"), ({"x": random(2, 3).astype(np.float64)}, "is float64"),
    ({"x": "three"}, "holds texts"), ({"x": [[1, 2], [3]]}, "is no array"), ({"x": None}, "holds nulls or objects"),
    ({"x": [[1j, 2, 3]]}, "holds complex"),
    ({"x": Tensor(random(2, 5))}, "axis 1 is 3"),
])  # fmt: skip
def test_calls_that_do_not_fit(linear: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        linear(**given)


@pytest.mark.parametrize("x", [
    [[1, 2, 3]], [[1.5, float("nan"), 2]], np.zeros((0, 3), np.float32), Tensor(random(2, 3)),
], ids=["whole", "NaN", "empty", "Tensor"])  # fmt: skip
def test_calls_that_fit(linear: Any, x: Any) -> None:
    found = linear(x=x)["y"]
    assert found.dtype == np.float32
    assert found.shape == (len(x), 2)
