"""The workloads in internals."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.workloads import HEADS, INNER, LR, ROWS, UNITS, WIDTH
from internals import Tensor, nn, optim


class Reader(nn.Module):
    """An LSTM over an image's rows, and a linear layer on its last output."""

    def __init__(self) -> None:
        self.lstm = nn.LSTM(ROWS, UNITS, batch_first=True)
        self.out = nn.Linear(UNITS, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0][:, -1])


class Internals:
    name = "internals"

    def __init__(self) -> None:
        mlp, cnn, lstm, block = (getattr(workloads, one)() for one in ("perceptron", "lenet", "lstm", "transformer"))
        self.x, self.labels = Tensor(mlp.x), Tensor(mlp.target)
        self.w = [Tensor(w, requires_grad=True) for w in mlp.parameters]
        self.sgd = optim.SGD(self.w, lr=LR)
        self.a = Tensor(np.ones((3, 4), np.float32), requires_grad=True)
        self.b = Tensor(np.ones((3, 4), np.float32), requires_grad=True)
        lenet = nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )
        lenet.load_state_dict(dict(zip(lenet.state_dict(), cnn.parameters, strict=True)))
        reader = Reader()
        w_ih, w_hh, bias, *last = lstm.parameters
        reader.load_state_dict(
            dict(zip(reader.state_dict(), [w_ih, w_hh, bias, np.zeros_like(bias), *last], strict=True))
        )
        transformer = nn.TransformerBlock(WIDTH, HEADS, INNER, norm_first=True, activation="gelu")
        transformer.load_state_dict(dict(zip(transformer.state_dict(), block.parameters, strict=True)))
        self.cnn = self._trained(lenet, cnn, nn.cross_entropy)
        self.lstm = self._trained(reader, lstm, nn.cross_entropy)
        self.transformer = self._trained(transformer, block, nn.mse)

    def _trained(self, model: nn.Module, numbers: workloads.Numbers, loss: Any) -> tuple[Any, ...]:
        return model, Tensor(numbers.x), Tensor(numbers.target), loss, optim.SGD(model.parameters(), lr=LR)

    def mlp_step(self) -> float:
        w1, b1, w2, b2 = self.w
        loss = nn.cross_entropy(nn.relu(self.x @ w1 + b1) @ w2 + b2, self.labels)
        self.sgd.zero_grad()
        loss.backward()
        self.sgd.step()
        return float(loss.item())

    def _step(self, model: Any, x: Tensor, target: Tensor, measure: Any, sgd: Any) -> float:
        loss = measure(model(x), target)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        return float(loss.item())

    def cnn_step(self) -> float:
        return self._step(*self.cnn)

    def lstm_step(self) -> float:
        return self._step(*self.lstm)

    def transformer_step(self) -> float:
        return self._step(*self.transformer)

    def add(self) -> Any:
        return self.a + self.b

    def chain(self, length: int) -> float:
        x = Tensor(1.0, requires_grad=True)
        y = x
        for _ in range(length):
            y = y + x
        y.backward()
        return float(x.grad.item())  # type: ignore[union-attr]  # backward has just set it
