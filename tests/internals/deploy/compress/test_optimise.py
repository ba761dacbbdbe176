"""A rewritten model computes the same, in fewer nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from digits_nets import accuracy, cnn, digits, fit, logits, mlp

from internals import Tensor, nn, ops
from internals.deploy import Signature, TensorSpec, load, save
from internals.deploy.compress import fold_norm, fold_norms, optimise
from internals.graph import Graph

RNG = np.random.default_rng(4)


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def seen(model: nn.Module, *shape: int) -> nn.Module:
    """In evaluation, with running statistics of something that was seen."""
    for _ in range(3):
        model(Tensor(3 * values(*shape) + 1))
    return model.eval()


def moved(norm: Any) -> Any:
    norm.weight = Tensor(values(*norm.weight.shape), requires_grad=True)
    norm.bias = Tensor(values(*norm.bias.shape), requires_grad=True)
    return norm


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "conv and norm": (lambda: nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), moved(nn.BatchNorm2d(5)), nn.ReLU()),
                      (4, 3, 6, 6)),
    "no bias": (lambda: nn.Sequential(nn.Conv2d(4, 6, (3, 1), stride=2, groups=2, bias=False),
                                      moved(nn.BatchNorm2d(6))), (4, 4, 7, 6)),
    "linear and norm": (lambda: nn.Sequential(nn.Linear(7, 5), moved(nn.BatchNorm1d(5)), nn.ReLU(), nn.Linear(5, 2)),
                        (8, 7)),
    "linear without bias": (lambda: nn.Sequential(nn.Linear(7, 5, bias=False), moved(nn.BatchNorm1d(5))), (8, 7)),
    "two norms": (lambda: nn.Sequential(nn.Conv2d(3, 5, 3), moved(nn.BatchNorm2d(5)), moved(nn.BatchNorm2d(5))),
                  (4, 3, 6, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_norms_fold_in_modules_and_in_graphs(name: str) -> None:
    make, shape = MODELS[name]
    model = seen(make(), *shape)
    x = values(*shape)
    want = logits(model, x)
    folded = fold_norms(model)
    assert not [part for part in folded.modules() if "BatchNorm" in type(part).__name__]
    np.testing.assert_allclose(logits(folded, x), want, rtol=1e-4, atol=1e-5)
    found = optimise(model, {"serve": Signature({"x": TensorSpec(("batch", *shape[1:]))})})
    kinds = [node.op.name for node in found.model.graph.nodes]
    assert not {"mul", "rsqrt", "sub", "broadcast_to"} & set(kinds)
    assert found.nodes[1] < found.nodes[0]
    assert found.nbytes[1] < found.nbytes[0]
    for batch in (x, x[:1]):
        (out,) = found.model.signature()(x=batch).values()
        np.testing.assert_allclose(out, logits(model, batch), rtol=1e-4, atol=1e-5)


def in_graph(build: Any, *shape: int | None) -> tuple[Any, Any]:
    graph = Graph()
    with graph:
        x = graph.placeholder(shape, np.float32, name="x")
        y = build(graph, x)
    found = optimise(graph, {"f": Signature({"x": x}, {"y": y})})
    return found, lambda given: found.model.signature()(x=given)["y"]


W, B, S = values(6, 4), values(4), values(4)


@pytest.mark.parametrize(("build", "left"), [
    (lambda g, x: ops.linear(x, g.constant(W), g.constant(B)) * S + B, ["linear"]),
    (lambda g, x: (ops.linear(x, g.constant(W), 0.0) - B) * 2.0, ["linear"]),
    (lambda g, x: S * ops.matmul(x, g.constant(W)), ["matmul"]),
    (lambda g, x: ops.exp(g.constant(S)) + ops.linear(x, g.constant(W), g.constant(B)), ["linear"]),
    (lambda g, x: ops.matmul(x, g.constant(W)) * values(5, 1), ["matmul", "mul"]),  # by rows: not the weight's
    (lambda g, x: 2.0 - ops.linear(x, g.constant(W), g.constant(B)), ["linear", "sub"]),
    (lambda g, x: (ops.relu(x) + 1.0) + 2.0, ["relu", "add"]),
    (lambda g, x: ops.exp(x) + ops.exp(x), ["exp", "add"]),
    (lambda g, x: ops.mul(ops.add(x, 0.0), 1.0) * x, ["mul"]),
], ids=range(9))  # fmt: skip
def test_what_is_left(build: Any, left: list[str]) -> None:
    state = RNG.bit_generator.state
    found, run = in_graph(build, 5, 6)
    assert [n.op.name for n in found.model.graph.nodes if n.op.name not in ("placeholder", "constant")] == left
    RNG.bit_generator.state = state
    graph, x = Graph(), values(5, 6)
    RNG.bit_generator.state = state
    with graph:
        plain = build(graph, graph.constant(x))
    from internals.graph import Session

    with Session(graph, passes=()) as session:
        np.testing.assert_allclose(run(x), session.run(plain), rtol=1e-5, atol=1e-5)


def test_a_layer_that_others_read_stays() -> None:
    def build(g: Graph, x: Any) -> Any:
        y = ops.linear(x, g.constant(W), g.constant(B))
        return y * S + ops.tanh(y)

    found, run = in_graph(build, 5, 6)
    x = values(5, 6)
    y = x @ W + B
    np.testing.assert_allclose(run(x), y * S + np.tanh(y), rtol=1e-5, atol=1e-5)
    assert found.steps["norms"] == 0


def test_what_no_signature_needs_is_gone() -> None:
    def build(g: Graph, x: Any) -> Any:
        ops.exp(x) @ g.constant(values(6, 1000))
        return ops.relu(x)

    found, _ = in_graph(build, 5, 6)
    assert len(found.model.graph.nodes) == 2


def test_only_evaluation_is_folded() -> None:
    with pytest.raises(ValueError, match="training mode, where it has no fixed scale"):
        fold_norms(MODELS["conv and norm"][0]())
    with pytest.raises(ValueError, match="5 outputs meet a normalisation of 3"):
        fold_norm(nn.Linear(2, 5), nn.BatchNorm1d(3).eval())
    with pytest.raises(TypeError, match="give signatures"):
        optimise(nn.Linear(2, 2))


@pytest.mark.slow
@pytest.mark.parametrize("make", [mlp, cnn])
def test_real_digits(make: Any, tmp_path: Any) -> None:
    model = fit(make(), epochs=3)
    _, _, x, y = digits()
    found = optimise(model, {"serve": Signature({"x": TensorSpec(("batch", 1, 8, 8))})})
    save(tmp_path / "m", found.model)
    (out,) = load(tmp_path / "m").signature()(x=x).values()
    np.testing.assert_allclose(out, logits(model, x), rtol=1e-4, atol=1e-4)
    assert np.mean(out.argmax(1) == y) == accuracy(model)
    assert optimise(load(tmp_path / "m")).steps == {}
