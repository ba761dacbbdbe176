"""The workloads in HIPS autograd: NumPy code, differentiated by running it with traced values.

LeNet's convolutions and pooling are written as in its example `convnet.py`, the LSTM as in `lstm.py`.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.workloads import HEADS, LR, UNITS, WIDTH


class Autograd:
    """A function is traced anew by every call of its gradient, so `add` is not recorded alone."""

    name = "autograd"

    def __init__(self) -> None:
        autograd: Any = importlib.import_module("autograd")
        self.np: Any = importlib.import_module("autograd.numpy")
        self.convolve: Any = importlib.import_module("autograd.scipy.signal").convolve
        self.erf: Any = importlib.import_module("autograd.scipy.special").erf
        self.grad = autograd.grad
        self.steps = {
            name: (autograd.value_and_grad(loss), getattr(workloads, name)())
            for name, loss in (
                ("perceptron", self._perceptron),
                ("lenet", self._lenet),
                ("lstm", self._lstm),
                ("transformer", self._transformer),
            )
        }

    def _step(self, name: str) -> float:
        value_and_grad, numbers = self.steps[name]
        value, gradients = value_and_grad(numbers.parameters, numbers.x, numbers.target)
        for w, g in zip(numbers.parameters, gradients, strict=True):
            w -= LR * g
        return float(value)

    def _cross_entropy(self, logits: Any, labels: np.ndarray) -> Any:
        shifted = logits - self.np.max(logits, axis=1, keepdims=True)
        rows = np.arange(len(labels))
        return self.np.mean(self.np.log(self.np.sum(self.np.exp(shifted), axis=1)) - shifted[rows, labels])

    def _perceptron(self, w: Any, x: np.ndarray, labels: np.ndarray) -> Any:
        return self._cross_entropy(self.np.maximum(x @ w[0] + w[1], 0) @ w[2] + w[3], labels)

    def _lenet(self, w: Any, x: Any, labels: np.ndarray) -> Any:
        for weight, bias in ((w[0], w[1]), (w[2], w[3])):
            flipped = weight[:, :, ::-1, ::-1]  # the weight here is not flipped; scipy's convolve flips it
            x = self.convolve(x, flipped, axes=([2, 3], [2, 3]), dot_axes=([1], [1]), mode="valid")
            x = self.np.maximum(x + bias[:, None, None], 0)
            n, channels, height, width = x.shape
            pooled = self.np.reshape(x, (n, channels, height // 2, 2, width // 2, 2))
            x = self.np.max(self.np.max(pooled, axis=3), axis=4)
        x = self.np.reshape(x, (len(x), -1))
        for i in (4, 6):
            x = self.np.maximum(x @ w[i] + w[i + 1], 0)
        return self._cross_entropy(x @ w[8] + w[9], labels)

    def _lstm(self, w: Any, x: np.ndarray, labels: np.ndarray) -> Any:
        def sigmoid(value: Any) -> Any:
            return 0.5 * (self.np.tanh(value * 0.5) + 1.0)

        h = c = np.zeros((len(x), UNITS), np.float32)
        for t in range(x.shape[1]):
            gates = x[:, t] @ w[0].T + h @ w[1].T + w[2]
            i, f, g, o = (gates[:, k * UNITS : (k + 1) * UNITS] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * self.np.tanh(g)
            h = sigmoid(o) * self.np.tanh(c)
        return self._cross_entropy(h @ w[3] + w[4], labels)

    def _transformer(self, w: Any, x: Any, target: np.ndarray) -> Any:
        np_ = self.np
        n, length, _ = x.shape
        depth = WIDTH // HEADS

        def normal(value: Any, weight: Any, bias: Any) -> Any:
            centred = value - np_.mean(value, axis=-1, keepdims=True)
            return centred / np_.sqrt(np_.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * weight + bias

        whole = np_.reshape(normal(x, w[8], w[9]) @ w[0] + w[1], (n, length, 3, HEADS, depth))
        turned = np_.transpose(whole, (2, 0, 3, 1, 4))
        q, k, v = turned[0], turned[1], turned[2]
        scores = np_.matmul(q, np_.swapaxes(k, -1, -2)) * depth**-0.5
        e = np_.exp(scores - np_.max(scores, axis=-1, keepdims=True))
        heads = np_.matmul(e / np_.sum(e, axis=-1, keepdims=True), v)
        x = x + np_.reshape(np_.transpose(heads, (0, 2, 1, 3)), (n, length, WIDTH)) @ w[2] + w[3]
        inner = normal(x, w[10], w[11]) @ w[4] + w[5]
        x = x + 0.5 * inner * (1 + self.erf(inner * 0.5**0.5)) @ w[6] + w[7]
        return np_.mean((x - target) ** 2)

    def mlp_step(self) -> float:
        return self._step("perceptron")

    def cnn_step(self) -> float:
        return self._step("lenet")

    def lstm_step(self) -> float:
        return self._step("lstm")

    def transformer_step(self) -> float:
        return self._step("transformer")

    def chain(self, length: int) -> float:
        def sums(x: Any) -> Any:
            y = x
            for _ in range(length):
                y = y + x
            return y

        return float(self.grad(sums)(np.float32(1.0)))
