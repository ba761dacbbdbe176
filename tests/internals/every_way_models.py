"""Models that are run in every style of ours, and as others write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import every_way_layers as layers
import numpy as np
import torch
from frameworks import tf
from layer_nets import TWINS, Twin
from torch.nn import functional

from internals import Tensor, nn, ops
from internals.layers import Argument, Net


@dataclass
class Program:
    """A model of ours and what it loses, and the same by others; parameters are known by their names in the module."""

    model: Callable[[], nn.Module]
    loss: Callable[..., Any]
    """``loss(net, x, target)``: a mean over examples."""
    x: np.ndarray | None
    """None where the input is ids, and is part of the loss."""
    target: np.ndarray
    torch_loss: Callable[..., Any]
    """``torch_loss(parameters, x, target)``."""
    tensorflow_loss: Callable[..., Any]
    as_layers: layers.AsLayers | str
    """Or why the layer style has no such model."""
    not_folded: str = ""
    """Why it is not folded; empty if it is."""
    rounded: str = ""
    """Why sums are taken in another order in a graph; empty if they are not."""


rng = np.random.default_rng()


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def classified(net: Any, x: Any, target: Any) -> Any:
    return ops.cross_entropy(net(x), target)


def regressed(net: Any, x: Any, target: Any) -> Any:
    return ops.mse(net(x), target)


def torch_loss(predict: Callable[..., Any]) -> Callable[..., Any]:
    def loss(w: Any, x: Any, target: Any) -> Any:
        measured = functional.mse_loss if target.is_floating_point() else functional.cross_entropy
        return measured(predict(w, x), target)

    return loss


def tensorflow_loss(predict: Callable[..., Any]) -> Callable[..., Any]:
    def loss(w: Any, x: Any, target: Any) -> Any:
        found = predict(w, x)
        if target.dtype.is_floating:
            return tf.reduce_mean((found - target) ** 2)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, found))

    return loss


# An MLP


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def mlp_torch(w: Any, x: Any) -> Any:
    return torch.tanh(x @ w["0.weight"] + w["0.bias"]) @ w["2.weight"] + w["2.bias"]


def mlp_tensorflow(w: Any, x: Any) -> Any:
    return tf.tanh(x @ w["0.weight"] + w["0.bias"]) @ w["2.weight"] + w["2.bias"]


# A CNN


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 3))


def cnn_torch(w: Any, x: Any) -> Any:
    h = functional.max_pool2d(functional.relu(functional.conv2d(x, w["0.weight"], w["0.bias"], padding=1)), 2)
    return h.flatten(1) @ w["4.weight"] + w["4.bias"]


def cnn_tensorflow(w: Any, x: Any) -> Any:
    kernel = tf.transpose(w["0.weight"], (2, 3, 1, 0))
    h = tf.nn.relu(tf.nn.conv2d(tf.transpose(x, (0, 2, 3, 1)), kernel, 1, "SAME") + w["0.bias"])
    h = tf.transpose(tf.nn.max_pool2d(h, 2, 2, "VALID"), (0, 3, 1, 2))
    return tf.reshape(h, (h.shape[0], -1)) @ w["4.weight"] + w["4.bias"]


# An LSTM


class Memory(nn.Module):
    """Gates from the input, long short-term memory, and scores from its last step."""

    def __init__(self) -> None:
        self.gates, self.out = nn.Linear(3, 16), nn.Linear(4, 3)
        self.recurrent = Tensor(random(16, 4) / 2, requires_grad=True)

    def forward(self, x: Any) -> Any:
        batch, time = x.shape[:2]
        gates = self.gates(ops.reshape(x, shape=(batch * time, 3)))
        steps = ops.swapaxes(ops.reshape(gates, shape=(batch, time, 16)), 0, 1)
        zeros = Tensor(np.zeros((batch, 4), np.float32))
        return self.out(ops.lstm(steps, zeros, zeros, self.recurrent).hidden[-1])


def lstm_torch(w: Any, x: Any) -> Any:
    h = c = torch.zeros(x.shape[0], 4)
    for t in range(x.shape[1]):
        gates = x[:, t] @ w["gates.weight"] + w["gates.bias"] + h @ w["recurrent"].T
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h @ w["out.weight"] + w["out.bias"]


def lstm_tensorflow(w: Any, x: Any) -> Any:
    h = c = tf.zeros((x.shape[0], 4))
    for t in range(x.shape[1]):
        gates = x[:, t] @ w["gates.weight"] + w["gates.bias"] + h @ tf.transpose(w["recurrent"])
        i, f, g, o = tf.split(gates, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
    return h @ w["out.weight"] + w["out.bias"]


# A transformer block


def transformer() -> nn.Module:
    return nn.TransformerBlock(4, 2, 6)


def transformer_torch(w: Any, x: Any) -> Any:
    block = torch.nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
    return torch.func.functional_call(block, {k: v.T if v.ndim == 2 else v for k, v in w.items()}, (x,))


def transformer_tensorflow(w: Any, x: Any) -> Any:
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
    return norm(x + linear(tf.nn.relu(linear(x, "linear1")), "linear2"), "norm2")


# A model that decides by its data


class Deciding(nn.Module):
    """Layers as many as the data asks for."""

    def __init__(self) -> None:
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        rounds = 0
        while (x * x).sum() > 1 and rounds < 4:
            x = ops.tanh(self.inner(x)) * 0.7
            rounds += 1
        if x.sum() > 0:
            y = self.out(x)
        else:
            y = self.out(x * x) * 2.0
        return y


class DecidingEach(Deciding):
    """The same, asked by each example."""

    def forward(self, x: Any) -> Any:
        return ops.concat([super(DecidingEach, self).forward(x[i : i + 1]) for i in range(x.shape[0])])


def decided_torch(w: Any, x: Any) -> Any:
    rounds = 0
    while (x * x).sum() > 1 and rounds < 4:
        x = torch.tanh(x @ w["inner.weight"] + w["inner.bias"]) * 0.7
        rounds += 1
    one = x.sum() > 0
    y = (x if one else x * x) @ w["out.weight"] + w["out.bias"]
    return y if one else y * 2


def each_in_torch(w: Any, x: Any) -> Any:
    return torch.cat([decided_torch(w, x[i : i + 1]) for i in range(x.shape[0])])


def decided_tensorflow(w: Any, x: Any) -> Any:
    rounds = 0
    while tf.reduce_sum(x * x) > 1 and rounds < 4:
        x = tf.tanh(x @ w["inner.weight"] + w["inner.bias"]) * 0.7
        rounds += 1
    if tf.reduce_sum(x) > 0:
        y = x @ w["out.weight"] + w["out.bias"]
    else:
        y = (x * x @ w["out.weight"] + w["out.bias"]) * 2
    return y


def each_in_tensorflow(w: Any, x: Any) -> Any:
    return tf.concat([decided_tensorflow(w, x[i : i + 1]) for i in range(x.shape[0])], 0)


# Nets of layers that are written in the other styles


class Twinned(nn.Module):
    """The parameters of a net of layers, by their names there."""

    def __init__(self, config: Any) -> None:
        for name, one in Net(config, rng=rng).parameters.items():
            if not one.static:
                start = one.value + random(*one.value.shape) / 8  # biases that start at 0 would hide a forgotten one
                setattr(self, name, Tensor(start, requires_grad=True))


def twinned(twin: Twin) -> Program:
    batch = twin.batch(rng, 6)
    names = [name for name, _ in Twinned(twin.config).named_parameters()]
    text = {name: batch.pop(name) for name in list(batch) if isinstance(batch[name], Argument)}
    x = batch.get("x")
    labelled = next((name for name in batch if name != "x"), "")
    target = batch[labelled] if labelled else np.zeros(6, np.int64)

    def whole(x: Any, target: Any) -> dict[str, Any]:
        return text | ({} if x is None else {"x": x}) | ({labelled: target} if labelled else {})

    def loss(net: Any, x: Any, target: Any) -> Any:
        return twin.eager(None, {name: getattr(net, name) for name in names}, whole(x, target))

    alike = "batch norm" in twin.name
    return Program(
        lambda: Twinned(twin.config),
        loss,
        x,
        target,
        lambda w, x, target: twin.torch(torch, w, whole(x, target)),
        lambda w, x, target: twin.tensorflow(tf, w, whole(x, target)),
        layers.AsLayers(twin.config, {name: name for name in names}, labelled=labelled, text=text),
        "batch normalisation needs the examples of a batch together" if alike else ALREADY if text else "",
    )


ALREADY = "its eager form lays sequences of any lengths into one table by hand, which is what folding would do"
LABELS = np.array([0, 2, 1, 2, 0])

PROGRAMS = {
    "MLP": Program(
        mlp, classified, random(5, 6), LABELS, torch_loss(mlp_torch), tensorflow_loss(mlp_tensorflow), layers.MLP
    ),
    "CNN": Program(
        cnn, classified, random(5, 2, 4, 4), LABELS, torch_loss(cnn_torch), tensorflow_loss(cnn_tensorflow), layers.CNN
    ),
    "LSTM": Program(
        Memory, classified, random(5, 3, 3), LABELS, torch_loss(lstm_torch), tensorflow_loss(lstm_tensorflow),
        layers.LSTM,
    ),
    "transformer": Program(
        transformer, regressed, random(2, 3, 4), random(2, 3, 4), torch_loss(transformer_torch),
        tensorflow_loss(transformer_tensorflow), layers.TRANSFORMER,
    ),
    "deciding": Program(
        Deciding, regressed, random(4, 4), random(4, 1), torch_loss(decided_torch),
        tensorflow_loss(decided_tensorflow), layers.NO_DECISIONS, not_folded="the examples decide together",
    ),
    "each deciding": Program(
        DecidingEach, regressed, random(4, 4), random(4, 1), torch_loss(each_in_torch),
        tensorflow_loss(each_in_tensorflow), layers.NO_DECISIONS,
        rounded="a loop sums the gradients by what it uses before it hands them on, a tape as they come",
    ),
    **{f"net of layers: {twin.name}": twinned(twin) for twin in TWINS},
}  # fmt: skip
