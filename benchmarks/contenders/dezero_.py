"""The workloads in DeZero. Its matmul takes no batches, so it has no transformer block."""

from __future__ import annotations

import builtins
import importlib
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.workloads import LR, ROWS, UNITS


class DeZero:
    name = "dezero"
    lacks = {"transformer_step": "its matmul takes no batches, and it has no erf"}

    def __init__(self) -> None:
        # It was written for a NumPy that had np.int and its kin as other names of Python's own types.
        for old in ("int", "float", "bool", "object"):
            if old not in np.__dict__:
                setattr(np, old, getattr(builtins, old))
        dezero: Any = importlib.import_module("dezero")
        self.dezero, self.F = dezero, importlib.import_module("dezero.functions")
        self.layers: Any = importlib.import_module("dezero.layers")
        mlp, self.cnn, lstm = workloads.perceptron(), workloads.lenet(), workloads.lstm()
        self.x, self.labels = dezero.Variable(mlp.x), mlp.target
        self.w = [dezero.Parameter(w) for w in mlp.parameters]
        self.cnn_w = [dezero.Parameter(w) for w in self.cnn.parameters]
        self.lstm_layer, self.rows, self.classes = self._lstm(lstm), lstm.x, lstm.target
        self.out = [dezero.Parameter(w) for w in lstm.parameters[3:]]
        self.a = dezero.Variable(np.ones((3, 4), np.float32))
        self.b = dezero.Variable(np.ones((3, 4), np.float32))

    def _lstm(self, numbers: workloads.Numbers) -> Any:
        layer = self.layers.LSTM(UNITS, in_size=ROWS)
        for k, gate in enumerate("ifuo"):
            part = slice(k * UNITS, (k + 1) * UNITS)
            w_ih, w_hh, bias = (w[part] for w in numbers.parameters[:3])
            for name, values in (("x2", w_ih), ("h2", w_hh)):
                getattr(layer, name + gate).W.data = np.ascontiguousarray(values.T)
            getattr(layer, f"x2{gate}").b.data = bias.copy()
        return layer

    def _trained(self, loss: Any, parameters: list[Any]) -> float:
        for w in parameters:
            w.cleargrad()
        loss.backward()
        for w in parameters:
            w.data -= LR * w.grad.data
        return float(loss.data)

    def mlp_step(self) -> float:
        w1, b1, w2, b2 = self.w
        hidden = self.F.relu(self.F.linear(self.x, w1, b1))
        return self._trained(self.F.softmax_cross_entropy(self.F.linear(hidden, w2, b2), self.labels), self.w)

    def cnn_step(self) -> float:
        F, w = self.F, self.cnn_w
        x = self.dezero.Variable(self.cnn.x)
        for i in (0, 2):
            x = F.pooling(F.relu(F.conv2d(x, w[i], w[i + 1])), 2, 2)
        x = F.reshape(x, (x.shape[0], -1))
        for i in (4, 6):
            x = F.relu(F.linear(x, w[i], w[i + 1]))
        return self._trained(F.softmax_cross_entropy(F.linear(x, w[8], w[9]), self.cnn.target), w)

    def lstm_step(self) -> float:
        self.lstm_layer.reset_state()
        for t in range(self.rows.shape[1]):
            h = self.lstm_layer(self.dezero.Variable(self.rows[:, t]))
        loss = self.F.softmax_cross_entropy(self.F.linear(h, *self.out), self.classes)
        return self._trained(loss, [*self.lstm_layer.params(), *self.out])

    def add(self) -> Any:
        return self.a + self.b

    def chain(self, length: int) -> float:
        x = self.dezero.Variable(np.array(1.0, np.float32))
        y = x
        for _ in range(length):
            y = y + x
        y.backward()
        return float(x.grad.data)
