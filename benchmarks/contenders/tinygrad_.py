"""The workloads in tinygrad on its CPU device, each step compiled by TinyJit."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.workloads import HEADS, LR, ROWS, UNITS, WIDTH


class Tinygrad:
    """It computes when asked to, so `add` and a chain are not one to one."""

    name = "tinygrad"

    def __init__(self) -> None:
        os.environ.setdefault("DEV", "CPU")
        self.tinygrad: Any = importlib.import_module("tinygrad")
        self.nn: Any = importlib.import_module("tinygrad.nn")
        losses = {
            "perceptron": self._perceptron,
            "lenet": self._lenet,
            "lstm": self._lstm,
            "transformer": self._transformer,
        }
        self.steps = {name: self._compiled(loss, getattr(workloads, name)()) for name, loss in losses.items()}

    def _compiled(self, loss: Callable[..., Any], numbers: workloads.Numbers) -> Any:
        tinygrad = self.tinygrad
        tensors = [tinygrad.Tensor(w).realize() for w in numbers.parameters]
        x = tinygrad.Tensor(numbers.x).realize()
        integer = numbers.target.dtype.kind == "i"
        target = tinygrad.Tensor(numbers.target.astype(np.int32) if integer else numbers.target).realize()

        @tinygrad.TinyJit
        def step() -> Any:
            value = loss(tensors, x, target)
            for w, g in zip(tensors, value.gradient(*tensors), strict=True):
                w.assign(w - LR * g)
            tinygrad.Tensor.realize(value, *tensors)
            return value

        return step

    def _perceptron(self, w: Any, x: Any, labels: Any) -> Any:
        return ((x @ w[0] + w[1]).relu() @ w[2] + w[3]).sparse_categorical_crossentropy(labels)

    def _lenet(self, w: Any, x: Any, labels: Any) -> Any:
        for i in (0, 2):
            x = x.conv2d(w[i], w[i + 1]).relu().max_pool2d()
        x = x.flatten(1)
        for i in (4, 6):
            x = (x @ w[i] + w[i + 1]).relu()
        return (x @ w[8] + w[9]).sparse_categorical_crossentropy(labels)

    def _lstm(self, w: Any, x: Any, labels: Any) -> Any:
        cell = self.nn.LSTMCell(ROWS, UNITS, bias=True)
        cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh = w[0], w[1], w[2], None
        state: Any = None
        for t in range(x.shape[1]):
            state = cell(x[:, t], state)
        return (state[0] @ w[3] + w[4]).sparse_categorical_crossentropy(labels)

    def _transformer(self, w: Any, x: Any, target: Any) -> Any:
        n, length, _ = x.shape
        whole = (x.layernorm() * w[8] + w[9]) @ w[0] + w[1]
        parts = whole.reshape(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        heads = parts[0].scaled_dot_product_attention(parts[1], parts[2])
        x = x + heads.transpose(1, 2).reshape(n, length, WIDTH) @ w[2] + w[3]
        inner = (x.layernorm() * w[10] + w[11]) @ w[4] + w[5]
        x = x + (0.5 * inner * (1 + (inner * 0.5**0.5).erf())) @ w[6] + w[7]
        return ((x - target) ** 2).mean()

    def mlp_step(self) -> float:
        return float(self.steps["perceptron"]().item())

    def cnn_step(self) -> float:
        return float(self.steps["lenet"]().item())

    def lstm_step(self) -> float:
        return float(self.steps["lstm"]().item())

    def transformer_step(self) -> float:
        return float(self.steps["transformer"]().item())
