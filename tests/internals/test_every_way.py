"""One program, every way: eagerly, traced, and as a graph in a session, beside torch and TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from frameworks import tf
from torch.nn import functional

from internals import Tensor, nn, ops
from internals.graph import Graph, Session, gradients
from internals.graph.passes import PASSES
from internals.trace import function
from internals.trace.recording import recording


@dataclass
class Program:
    """A model of ours, the loss that is computed with it, and the same by others."""

    model: Callable[[], nn.Module]
    loss: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    in_torch: Callable[..., Any]
    in_tensorflow: Callable[..., Any]
    """Of the parameters, in our order, and the inputs."""


rng = np.random.default_rng()


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


LABELS = np.array([0, 2, 1, 2, 0])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def classified(net: Any, x: Any, labels: Any) -> Any:
    return ops.cross_entropy(net(x), labels)


def mlp_torch(w: list[Any], x: Any, labels: Any) -> Any:
    return functional.cross_entropy(torch.tanh(x @ w[0] + w[1]) @ w[2] + w[3], labels)


def mlp_tensorflow(w: list[Any], x: Any, labels: Any) -> Any:
    logits = tf.tanh(x @ w[0] + w[1]) @ w[2] + w[3]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 3))


def cnn_torch(w: list[Any], x: Any, labels: Any) -> Any:
    h = functional.max_pool2d(functional.relu(functional.conv2d(x, w[0], w[1], padding=1)), 2)
    return functional.cross_entropy(h.flatten(1) @ w[2] + w[3], labels)


def cnn_tensorflow(w: list[Any], x: Any, labels: Any) -> Any:
    kernel = tf.transpose(w[0], (2, 3, 1, 0))
    h = tf.nn.relu(tf.nn.conv2d(tf.transpose(x, (0, 2, 3, 1)), kernel, 1, "SAME") + w[1])
    h = tf.transpose(tf.nn.max_pool2d(h, 2, 2, "VALID"), (0, 3, 1, 2))
    logits = tf.reshape(h, (h.shape[0], -1)) @ w[2] + w[3]
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def lstm() -> nn.Module:
    return nn.LSTM(3, 4, batch_first=True)


def summarised(net: Any, x: Any) -> Any:
    outputs, (hidden, cell) = net(x)
    return (outputs * outputs).sum() + (hidden * cell).sum()


def lstm_torch(w: list[Any], x: Any) -> Any:
    h = c = torch.zeros(x.shape[0], 4)
    total: Any = 0
    for t in range(x.shape[1]):
        i, f, g, o = (x[:, t] @ w[0].T + w[2] + h @ w[1].T + w[3]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        total = total + (h * h).sum()
    return total + (h * c).sum()


def lstm_tensorflow(w: list[Any], x: Any) -> Any:
    h = c = tf.zeros((x.shape[0], 4))
    total: Any = 0
    for t in range(x.shape[1]):
        gates = x[:, t] @ tf.transpose(w[0]) + w[2] + h @ tf.transpose(w[1]) + w[3]
        i, f, g, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        total = total + tf.reduce_sum(h * h)
    return total + tf.reduce_sum(h * c)


def transformer() -> nn.Module:
    return nn.TransformerBlock(4, 2, 6)


def squared(net: Any, x: Any) -> Any:
    y = net(x)
    return (y * y * y).sum()


def transformer_torch(w: dict[str, Any], x: Any) -> Any:
    block = torch.nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
    theirs = {key: value.T if value.ndim == 2 else value for key, value in w.items()}
    return (torch.func.functional_call(block, theirs, (x,)) ** 3).sum()


def transformer_tensorflow(w: dict[str, Any], x: Any) -> Any:
    def norm(x: Any, name: str) -> Any:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    qkv = x @ w["self_attn.in_proj_weight"] + w["self_attn.in_proj_bias"]
    q, k, v = (
        tf.transpose(tf.reshape(one, (x.shape[0], x.shape[1], 2, 2)), (0, 2, 1, 3)) for one in tf.split(qkv, 3, -1)
    )
    heads = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / tf.sqrt(2.0)) @ v
    x = norm(x + linear(tf.reshape(tf.transpose(heads, (0, 2, 1, 3)), x.shape), "self_attn.out_proj"), "norm1")
    y = norm(x + linear(tf.nn.relu(linear(x, "linear1")), "linear2"), "norm2")
    return tf.reduce_sum(y**3)


class Deciding(nn.Module):
    """Layers as many as the data asks for."""

    def __init__(self) -> None:
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 1)


def decided(net: Any, x: Any) -> Any:
    rounds = 0
    while (x * x).sum() > 1 and rounds < 4:
        x = ops.tanh(net.inner(x)) * 0.7
        rounds += 1
    if x.sum() > 0:
        y = net.out(x)
    else:
        y = net.out(x * x) * 2.0
    return (y * y).sum()


def decided_torch(w: list[Any], x: Any) -> Any:
    rounds = 0
    while (x * x).sum() > 1 and rounds < 4:
        x = torch.tanh(x @ w[0] + w[1]) * 0.7
        rounds += 1
    y = x @ w[2] + w[3] if x.sum() > 0 else (x * x @ w[2] + w[3]) * 2
    return (y * y).sum()


def decided_tensorflow(w: list[Any], x: Any) -> Any:
    rounds = 0
    while tf.reduce_sum(x * x) > 1 and rounds < 4:
        x = tf.tanh(x @ w[0] + w[1]) * 0.7
        rounds += 1
    if tf.reduce_sum(x) > 0:
        y = x @ w[2] + w[3]
    else:
        y = (x * x @ w[2] + w[3]) * 2
    return tf.reduce_sum(y * y)


PROGRAMS = {
    "mlp": Program(mlp, classified, (random(5, 6), LABELS), mlp_torch, mlp_tensorflow),
    "cnn": Program(cnn, classified, (random(5, 2, 4, 4), LABELS), cnn_torch, cnn_tensorflow),
    "lstm": Program(lstm, summarised, (random(2, 3, 3),), lstm_torch, lstm_tensorflow),
    "transformer": Program(transformer, squared, (random(2, 3, 4),), transformer_torch, transformer_tensorflow),
    "deciding": Program(Deciding, decided, (random(2, 4),), decided_torch, decided_tensorflow),
}


def eagerly(program: Program, net: nn.Module, *inputs: Any) -> list[np.ndarray]:
    return _by_tape(lambda *given: program.loss(net, *given), net, inputs)


def traced(program: Program, net: nn.Module, *inputs: Any) -> list[np.ndarray]:
    loss = program.loss

    def whole(*given: Any) -> Any:
        return inner(net, *given)

    inner = function(loss)
    run = function(whole)
    _by_tape(run, net, inputs)
    found = _by_tape(run, net, inputs)
    assert len(run.traces) == 1
    return found


def _by_tape(run: Callable[..., Any], net: nn.Module, inputs: Any) -> list[np.ndarray]:
    net.zero_grad()
    x = Tensor(inputs[0], requires_grad=True)
    loss = run(x, *map(Tensor, inputs[1:]))
    loss.backward()
    return [loss.detach().numpy(), x.grad.numpy(), *[p.grad.numpy() for p in net.parameters()]]


def in_a_session(passes: tuple[str, ...]) -> Callable[..., list[np.ndarray]]:
    def run(program: Program, net: nn.Module, *inputs: Any) -> list[np.ndarray]:
        graph = Graph()
        with recording(graph):  # parameters are variables, also where they meet no placeholder
            feeds = [graph.placeholder(one.shape, one.dtype) for one in inputs]
            variables = [graph.variable(p) for p in net.parameters()]
            kept = {id(p): (p, variable) for p, variable in zip(net.parameters(), variables, strict=True)}
            graph._captured.update(kept)
            loss = function(program.loss).body(net, *feeds)
            found = gradients([loss], [feeds[0], *variables])
        with Session(graph, passes=passes) as session:
            session.initialise()
            return session.run([loss, *found], dict(zip(feeds, inputs, strict=True)))

    return run


WAYS: dict[str, Callable[..., list[np.ndarray]]] = {
    "traced": traced,
    "session": in_a_session(()),
    **{f"session, {name}": in_a_session((name,)) for name in PASSES},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_way_is_the_eager_one(name: str, way: str) -> None:
    program = PROGRAMS[name]
    net = program.model()
    want, found = (run(program, net, *program.inputs) for run in (eagerly, WAYS[way]))
    assert len(found) == len(want)
    for one, other in zip(found, want, strict=True):
        if way in ("traced", "session"):
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_torch_and_tensorflow_agree(name: str) -> None:
    program = PROGRAMS[name]
    net = program.model()
    found = traced(program, net, *program.inputs)
    state = net.state_dict()
    named = name == "transformer"
    theirs = {key: torch.tensor(value, requires_grad=True) for key, value in state.items()}
    x, *rest = (torch.tensor(one) for one in program.inputs)
    x.requires_grad_()
    loss = program.in_torch(theirs if named else list(theirs.values()), x, *rest)
    want = torch.autograd.grad(loss, [x, *theirs.values()])
    for one, other in zip(found, [loss, *want], strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-3, atol=1e-4)
    variables = {key: tf.Variable(value) for key, value in state.items()}
    x, *rest = (tf.constant(one) for one in program.inputs)

    @tf.function
    def run() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = program.in_tensorflow(variables if named else list(variables.values()), x, *rest)
        return loss, tape.gradient(loss, [x, *variables.values()])

    loss, want = run()
    for one, other in zip(found, [loss, *want], strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-3, atol=1e-4)
