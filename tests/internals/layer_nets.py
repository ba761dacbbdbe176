"""Models written four ways: as a net of layers, eager, in torch and in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals import Tensor, ops
from internals.layers import batch_of
from internals.layers.networks import embedding, simple_img_conv_pool, simple_lstm
from internals.layers.sequence import table_of_steps

Run = Callable[[Any, dict[str, Any], dict[str, Any]], Any]
"""``run(framework, parameters, batch) -> loss``."""


@dataclass(frozen=True)
class Twin:
    """One model, four ways."""

    name: str
    config: Any
    batch: Callable[[np.random.Generator, int], dict[str, Any]]
    eager: Run
    torch: Run
    tensorflow: Run


MLP = """
name: "mlp"
layer { name: "x" type: "data" shape: 6 }
layer { name: "label" type: "data" ids: 4 }
layer { name: "hidden" type: "fc" bottom: "x" size: 8 act: "tanh" }
layer { name: "more" type: "fc" bottom: "hidden" size: 8 act: "relu" }
layer { name: "out" type: "fc" bottom: "more" size: 4 }
layer { name: "loss" type: "softmax_with_loss" bottom: "out" bottom: "label" }
"""

LENET = {
    "name": "lenet",
    "layer": [
        {"name": "x", "type": "data", "shape": [1, 10, 10]},
        {"name": "label", "type": "data", "ids": 4},
        *simple_img_conv_pool("one", "x", channels=3, window=3, pool=2, padding=1),
        *simple_img_conv_pool("two", "one", channels=5, window=2, pool=2, pool_type="average"),
        {"name": "fc", "type": "fc", "bottom": "two", "size": 7, "act": "sigmoid"},
        {"name": "out", "type": "fc", "bottom": "fc", "size": 4, "bias": False},
        {"name": "loss", "type": "softmax_with_loss", "bottom": ["out", "label"]},
    ],
}

NORMED = """
layer { name: "x" type: "data" shape: [2, 6, 6] }
layer { name: "y" type: "data" shape: 3 }
layer { name: "conv" type: "conv" bottom: "x" channels: 4 window: 3 stride: 2 bias: false }
layer { name: "norm" type: "batch_norm" bottom: "conv" act: "relu" }
layer { name: "left" type: "fc" bottom: "norm" size: 3 }
layer { name: "right" type: "fc" bottom: "norm" size: 3 act: "tanh" }
layer { name: "both" type: "sum" bottom: "left" bottom: "right" }
layer { name: "loss" type: "square_error" bottom: "both" bottom: "y" }
"""

TIED = """
name: "an autoencoder whose way back goes through the same matrix"
layer { name: "x" type: "data" shape: 5 }
layer { name: "code" type: "mixed" size: 3 act: "tanh" bias: true
  projection { type: "full_matrix" bottom: "x" weight { name: "W" } } }
layer { name: "back" type: "mixed" size: 5
  projection { type: "trans_full_matrix" bottom: "code" weight { name: "W" } }
  projection { type: "dotmul" bottom: "x" }
  projection { type: "identity" bottom: "x" } }
layer { name: "loss" type: "square_error" bottom: "back" bottom: "x" }
"""

LSTM = {
    "layer": [
        {"name": "words", "type": "data", "ids": 9, "sequence": True},
        {"name": "label", "type": "data", "ids": 3},
        *embedding("vectors", "words", size=4),
        *simple_lstm("memory", "vectors", size=5),
        {"name": "last", "type": "sequence_pool", "bottom": "memory", "pool": "last"},
        {"name": "best", "type": "sequence_pool", "bottom": "memory", "pool": "max"},
        {"name": "both", "type": "concat", "bottom": ["last", "best"]},
        {"name": "out", "type": "fc", "bottom": "both", "size": 3},
        {"name": "loss", "type": "softmax_with_loss", "bottom": ["out", "label"]},
    ]
}

CONTEXT = """
layer { name: "words" type: "data" ids: 9 sequence: true }
layer { name: "label" type: "data" ids: 3 }
layer { name: "vectors" type: "mixed" size: 4 projection { type: "table" bottom: "words" } }
layer { name: "windows" type: "mixed" size: 12 projection { type: "context" bottom: "vectors" start: -1 length: 3 } }
layer { name: "hidden" type: "fc" bottom: "windows" size: 6 act: "relu" }
layer { name: "mean" type: "sequence_pool" bottom: "hidden" pool: "average" }
layer { name: "p" type: "fc" bottom: "mean" size: 3 act: "softmax" }
layer { name: "loss" type: "cross_entropy" bottom: "p" bottom: "label" }
"""


def _numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _labelled(*shape: int) -> Any:
    return lambda rng, n: {"x": _numbers(rng, n, *shape), "label": rng.integers(0, 4, n)}


def _text(rng: np.random.Generator, n: int) -> dict[str, Any]:
    words = [rng.integers(0, 9, length) for length in rng.integers(1, 6, n)]
    return {"words": batch_of(words, ids=True), "label": rng.integers(0, 3, n)}


# eager


def _linear(p: Any, x: Any, name: str) -> Any:
    return ops.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias", 0.0))


def _mlp_eager(_: Any, p: Any, batch: Any) -> Any:
    x = ops.tanh(_linear(p, batch["x"], "hidden"))
    return ops.cross_entropy(_linear(p, ops.relu(_linear(p, x, "more")), "out"), batch["label"])


def _lenet_eager(_: Any, p: Any, batch: Any) -> Any:
    x = batch["x"]
    for name, padding, pool in (("one", 1, ops.max_pool2d), ("two", 0, ops.avg_pool2d)):
        bias = ops.reshape(p[f"{name}.conv.bias"], shape=(-1, 1, 1))
        x = pool(ops.relu(ops.conv2d(x, p[f"{name}.conv.weight"], padding=padding) + bias), window=2)
    x = ops.reshape(x, shape=(x.shape[0], -1))
    return ops.cross_entropy(_linear(p, ops.sigmoid(_linear(p, x, "fc")), "out"), batch["label"])


def _normed_eager(_: Any, p: Any, batch: Any) -> Any:
    x = ops.conv2d(batch["x"], p["conv.weight"], stride=2)
    x = ops.relu(ops.batch_norm(x, p["norm.weight"], p["norm.bias"]))
    x = ops.reshape(x, shape=(x.shape[0], -1))
    return ops.mse(_linear(p, x, "left") + ops.tanh(_linear(p, x, "right")), batch["y"])


def _tied_eager(_: Any, p: Any, batch: Any) -> Any:
    x, weight = batch["x"], p["W"]
    code = ops.tanh(x @ weight + p["code.bias"])
    return ops.mse(code @ weight.T + x * p["back.1.weight"] + x, x)


def _words_eager(p: Any, batch: Any) -> tuple[Any, Any]:
    return ops.take(p["vectors.0.weight"], Tensor(batch["words"].ids)), batch["words"]


def _behind(rows: Any) -> Any:
    return ops.concat([rows, Tensor(np.zeros((1, rows.shape[1]), np.float32))], axis=0)


def _lstm_eager(_: Any, p: Any, batch: Any) -> Any:
    x, words = _words_eager(p, batch)
    gates = x @ p["memory.gates.0.weight"] + p["memory.bias"]
    steps = table_of_steps(words.lengths, words.starts)
    zeros = Tensor(np.zeros((words.examples, 5), np.float32))
    hidden = ops.lstm(ops.take(_behind(gates), Tensor(steps)), zeros, zeros, p["memory.weight"]).hidden
    places = np.concatenate([np.arange(n) * words.examples + i for i, n in enumerate(words.lengths)])
    rows = ops.take(ops.reshape(hidden, shape=(-1, 5)), Tensor(places))
    last = ops.take(rows, Tensor(words.starts[1:] - 1))
    best = ops.max(ops.take(rows, Tensor(table_of_steps(words.lengths, words.starts, last=True))), axis=0)
    return ops.cross_entropy(_linear(p, ops.concat([last, best], axis=1), "out"), batch["label"])


def _context_eager(_: Any, p: Any, batch: Any) -> Any:
    x, words = _words_eager(p, batch)
    sequence = np.repeat(np.arange(words.examples), words.lengths)
    steps, pieces = np.arange(len(sequence)), []
    for offset in (-1, 0, 1):
        there = steps + offset
        inside = (there >= words.starts[sequence]) & (there < words.starts[sequence + 1])
        pieces.append(ops.take(_behind(x), Tensor(np.where(inside, there, len(steps)))))
    hidden = ops.relu(_linear(p, ops.concat(pieces, axis=1), "hidden"))
    total = ops.sum(ops.take(_behind(hidden), Tensor(table_of_steps(words.lengths, words.starts))), axis=0)
    mean = total * Tensor((1 / words.lengths).astype(np.float32)[:, None])
    return ops.nll(ops.log(ops.softmax(_linear(p, mean, "p"), axis=-1)), batch["label"])


# torch


def _line(p: Any, x: Any, name: str) -> Any:
    product = x @ p[f"{name}.weight"]
    return product + p[f"{name}.bias"] if f"{name}.bias" in p else product


def _mlp_torch(torch: Any, p: Any, batch: Any) -> Any:
    x = torch.relu(_line(p, torch.tanh(_line(p, batch["x"], "hidden")), "more"))
    return torch.nn.functional.cross_entropy(_line(p, x, "out"), batch["label"])


def _lenet_torch(torch: Any, p: Any, batch: Any) -> Any:
    f = torch.nn.functional
    x = f.conv2d(batch["x"], p["one.conv.weight"], p["one.conv.bias"], padding=1)
    x = f.conv2d(f.max_pool2d(torch.relu(x), 2), p["two.conv.weight"], p["two.conv.bias"])
    x = torch.flatten(f.avg_pool2d(torch.relu(x), 2), 1)
    return f.cross_entropy(_line(p, torch.sigmoid(_line(p, x, "fc")), "out"), batch["label"])


def _normed_torch(torch: Any, p: Any, batch: Any) -> Any:
    f = torch.nn.functional
    x = f.batch_norm(
        f.conv2d(batch["x"], p["conv.weight"], stride=2), None, None, p["norm.weight"], p["norm.bias"], training=True
    )
    x = torch.flatten(torch.relu(x), 1)
    return f.mse_loss(_line(p, x, "left") + torch.tanh(_line(p, x, "right")), batch["y"])


def _tied_torch(torch: Any, p: Any, batch: Any) -> Any:
    x, weight = batch["x"], p["W"]
    code = torch.tanh(x @ weight + p["code.bias"])
    return torch.nn.functional.mse_loss(code @ weight.T + x * p["back.1.weight"] + x, x)


def _lstm_torch(torch: Any, p: Any, batch: Any) -> Any:
    memory = torch.nn.LSTM(4, 5)
    used = {
        "weight_ih_l0": p["memory.gates.0.weight"].T,
        "weight_hh_l0": p["memory.weight"],
        "bias_ih_l0": p["memory.bias"],
        "bias_hh_l0": torch.zeros(20),
    }
    rows = []
    words = batch["words"]
    for begin, end in zip(words.starts, words.starts[1:], strict=False):
        x = p["vectors.0.weight"][torch.tensor(words.ids[begin:end])][:, None]
        hidden = torch.func.functional_call(memory, used, (x,))[0][:, 0]
        rows.append(torch.cat([hidden[-1], hidden.amax(0)]))
    return torch.nn.functional.cross_entropy(_line(p, torch.stack(rows), "out"), batch["label"])


def _context_torch(torch: Any, p: Any, batch: Any) -> Any:
    rows, words = [], batch["words"]
    for begin, end in zip(words.starts, words.starts[1:], strict=False):
        x = torch.nn.functional.pad(p["vectors.0.weight"][torch.tensor(words.ids[begin:end])], (0, 0, 1, 1))
        rows.append(torch.relu(_line(p, torch.cat([x[:-2], x[1:-1], x[2:]], 1), "hidden")).mean(0))
    logits = _line(p, torch.stack(rows), "p")
    return torch.nn.functional.cross_entropy(logits, batch["label"])


# TensorFlow


def _loss_tf(tf: Any, logits: Any, label: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))


def _mlp_tf(tf: Any, p: Any, batch: Any) -> Any:
    x = tf.nn.relu(_line(p, tf.tanh(_line(p, batch["x"], "hidden")), "more"))
    return _loss_tf(tf, _line(p, x, "out"), batch["label"])


def _conv_tf(tf: Any, x: Any, weight: Any, stride: int = 1, padding: str = "VALID") -> Any:
    return tf.nn.conv2d(x, tf.transpose(weight, (2, 3, 1, 0)), stride, padding)


def _rows_tf(tf: Any, x: Any) -> Any:
    return tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (x.shape[0], -1))


def _lenet_tf(tf: Any, p: Any, batch: Any) -> Any:
    x = tf.transpose(batch["x"], (0, 2, 3, 1))
    x = tf.nn.relu(_conv_tf(tf, x, p["one.conv.weight"], padding="SAME") + p["one.conv.bias"])
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    x = tf.nn.relu(_conv_tf(tf, x, p["two.conv.weight"]) + p["two.conv.bias"])
    x = _rows_tf(tf, tf.nn.avg_pool2d(x, 2, 2, "VALID"))
    return _loss_tf(tf, _line(p, tf.sigmoid(_line(p, x, "fc")), "out"), batch["label"])


def _normed_tf(tf: Any, p: Any, batch: Any) -> Any:
    x = _conv_tf(tf, tf.transpose(batch["x"], (0, 2, 3, 1)), p["conv.weight"], stride=2)
    mean, variance = tf.nn.moments(x, (0, 1, 2))
    x = tf.nn.batch_normalization(x, mean, variance, p["norm.bias"], p["norm.weight"], 1e-5)
    x = _rows_tf(tf, tf.nn.relu(x))
    return tf.reduce_mean((_line(p, x, "left") + tf.tanh(_line(p, x, "right")) - batch["y"]) ** 2)


def _tied_tf(tf: Any, p: Any, batch: Any) -> Any:
    x, weight = batch["x"], p["W"]
    code = tf.tanh(x @ weight + p["code.bias"])
    return tf.reduce_mean((code @ tf.transpose(weight) + x * p["back.1.weight"]) ** 2)


def _lstm_tf(tf: Any, p: Any, batch: Any) -> Any:
    rows, words = [], batch["words"]
    for begin, end in zip(words.starts, words.starts[1:], strict=False):
        h = c = tf.zeros((1, 5))
        steps = []
        for word in words.ids[begin:end]:
            a = tf.gather(p["vectors.0.weight"], [word]) @ p["memory.gates.0.weight"] + p["memory.bias"]
            i, f, g, o = tf.split(a + h @ tf.transpose(p["memory.weight"]), 4, axis=1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            steps.append(h)
        rows.append(tf.concat([h, tf.reduce_max(tf.concat(steps, 0), 0, keepdims=True)], 1))
    return _loss_tf(tf, _line(p, tf.concat(rows, 0), "out"), batch["label"])


def _context_tf(tf: Any, p: Any, batch: Any) -> Any:
    rows, words = [], batch["words"]
    for begin, end in zip(words.starts, words.starts[1:], strict=False):
        x = tf.pad(tf.gather(p["vectors.0.weight"], words.ids[begin:end]), ((1, 1), (0, 0)))
        hidden = tf.nn.relu(_line(p, tf.concat([x[:-2], x[1:-1], x[2:]], 1), "hidden"))
        rows.append(tf.reduce_mean(hidden, 0, keepdims=True))
    return _loss_tf(tf, _line(p, tf.concat(rows, 0), "p"), batch["label"])


TWINS = [
    Twin("MLP", MLP, _labelled(6), _mlp_eager, _mlp_torch, _mlp_tf),
    Twin("LeNet", LENET, _labelled(1, 10, 10), _lenet_eager, _lenet_torch, _lenet_tf),
    Twin(
        "batch norm and two branches",
        NORMED,
        lambda rng, n: {"x": _numbers(rng, n, 2, 6, 6), "y": _numbers(rng, n, 3)},
        _normed_eager,
        _normed_torch,
        _normed_tf,
    ),
    Twin("tied autoencoder", TIED, lambda rng, n: {"x": _numbers(rng, n, 5)}, _tied_eager, _tied_torch, _tied_tf),
    Twin("LSTM over ragged text", LSTM, _text, _lstm_eager, _lstm_torch, _lstm_tf),
    Twin("context windows", CONTEXT, _text, _context_eager, _context_torch, _context_tf),
]
