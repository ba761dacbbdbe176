"""A loaded signature as a part of another model: trained with it, traced with it, saved with it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from internals import Tensor, nn, no_grad, ops, optim
from internals.deploy import Signature, TensorSpec, compress, load, save
from internals.deploy.onnx import to_onnx
from internals.graph import Graph, while_loop
from internals.trace import function

rng = np.random.default_rng()
IMAGES = Signature({"x": TensorSpec(("batch", 1, 6, 6))}, ("y",))
LABELS = Tensor(rng.integers(0, 2, 8))


class Twice(nn.Module):
    """Something with a loop and with two results."""

    def __init__(self) -> None:
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Any) -> dict[str, Any]:
        _, x = while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, ops.tanh(self.linear(x))), [ops.sum(x * 0), x])
        return {"rows": x, "total": ops.sum(x, axis=1)}


def images() -> np.ndarray:
    return rng.standard_normal((8, 1, 6, 6)).astype(np.float32)


def base(folder: Path) -> Any:
    made = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5))
    save(folder / "base", made, {"serve": IMAGES})
    return load(folder / "base").module()


def trained(model: Any, x: np.ndarray, called: Any) -> float:
    optimiser = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = ops.cross_entropy(called(Tensor(x)), LABELS)
        model.zero_grad()
        loss.backward()
        optimiser.step()
    return float(loss.item())


@pytest.mark.slow
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_a_loaded_model_with_a_new_head(traced: bool, tmp_path: Path) -> None:
    """What transfer learning does: trained together, saved together under one more signature, equal to the bit."""
    body = base(tmp_path)
    before = body.values()
    model, x = nn.Sequential(body, nn.ReLU(), nn.Linear(5, 2)), images()
    trained(model, x, function(model) if traced else model)
    assert all((body.values()[name] != before[name]).any() for name in ("0.weight", "4.bias"))
    save(tmp_path / "both", model, {"serve": IMAGES, "features": Signature(IMAGES.inputs, ("f",), body)})
    loaded = load(tmp_path / "both")
    assert {"0.0.weight", "2.bias"} <= set(loaded.trainable)
    assert "0.1.running_mean" in loaded.variables.keys() - set(loaded.trainable)
    for n in (1, 3, 8):
        with no_grad():
            assert np.array_equal(loaded.signatures["serve"](x=x[:n])["y"], model(Tensor(x[:n])).numpy())
            assert np.array_equal(loaded.signatures["features"](x=x[:n])["f"], body(Tensor(x[:n])).numpy())


@pytest.mark.slow
def test_what_was_trained_is_saved_as_it_came(tmp_path: Path) -> None:
    body, x = base(tmp_path), images()
    trained(body, x, lambda given: body(given)[:, :2])
    save(tmp_path / "again", body)
    with no_grad():
        wanted = body(Tensor(x)).numpy()
    assert np.array_equal(load(tmp_path / "again").signature()(x=x)["y"], wanted)
    assert not np.array_equal(load(tmp_path / "base").signature()(x=x)["y"], wanted)
    assert to_onnx(body).graph.output[0].name == "y"
    with pytest.raises(TypeError, match="LoadedModule has its own signatures"):
        save(tmp_path / "other", body, {"serve": IMAGES})
    with pytest.raises(TypeError, match="SavedModel has its own signatures"):
        save(tmp_path / "other", load(tmp_path / "base"), {"serve": IMAGES})


def test_a_part_with_a_loop_and_two_results(tmp_path: Path) -> None:
    model, x = Twice(), rng.standard_normal((3, 5)).astype(np.float32)
    rows = Signature({"x": TensorSpec(("batch", 5))})
    save(tmp_path / "part", model, {"serve": rows})
    part = load(tmp_path / "part").module()
    whole = function(lambda x: part(x=x)["rows"] + part(x)["total"][:, None])
    with no_grad():
        found = model(Tensor(x))
        wanted = (found["rows"] + found["total"][:, None]).numpy()
        assert np.array_equal(whole(Tensor(x)).numpy(), wanted)
    save(tmp_path / "whole", whole, {"serve": rows})
    assert np.array_equal(load(tmp_path / "whole").signature()(x=x)["output"], wanted)


def test_two_inputs_that_are_one_node(tmp_path: Path) -> None:
    graph = Graph()
    with graph:
        x = graph.placeholder((3,))
        y = ops.exp(x)
    with pytest.raises(TypeError, match="two inputs of serve are one node"):
        save(tmp_path / "model", graph, {"serve": Signature({"a": x, "b": x}, {"y": y})})


def test_an_input_may_have_the_name_of_an_argument(tmp_path: Path) -> None:
    save(tmp_path / "model", lambda self: self * 2, {"serve": Signature({"self": TensorSpec((3,))})})
    loaded, x = load(tmp_path / "model"), rng.standard_normal(3).astype(np.float32)
    assert np.array_equal(loaded.signature()(self=x)["output"], x * 2)
    assert np.array_equal(loaded.module()(self=Tensor(x)).numpy(), x * 2)


def test_a_copy_has_variables_of_its_own(tmp_path: Path) -> None:
    """Averaging weights and quantising copy a model; so do people."""
    model, x = base(tmp_path), images()
    model.train()
    model(Tensor(x))  # keeps what it prepared for this size
    copied, before = copy.deepcopy(model), model.values()
    assert np.array_equal(copied(Tensor(x)).detach().numpy(), model(Tensor(x)).detach().numpy())
    trained(copied, x, copied)
    assert [name for name, _ in copied.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert all((copied.values()[name] != before[name]).any() for name in ("0.weight", "4.bias"))
    assert all(np.array_equal(model.values()[name], value) for name, value in before.items())
    assert all(p.grad is None for p in model.parameters())


def test_a_loaded_model_has_no_layers_to_quantise(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="without layers; quantise it before it is saved"):
        compress.quantise_model(base(tmp_path), [images()])
