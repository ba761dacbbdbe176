"""The workloads in PyTorch, eager."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks import workloads
from benchmarks.workloads import HEADS, INNER, LR, ROWS, UNITS, WIDTH, threads


class Torch:
    name = "torch"

    def __init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(threads())
        self.torch, nn = torch, torch.nn
        mlp, cnn, lstm, block = (getattr(workloads, one)() for one in ("perceptron", "lenet", "lstm", "transformer"))
        self.x, self.labels = torch.from_numpy(mlp.x), torch.from_numpy(mlp.target)
        self.w = [torch.tensor(w, requires_grad=True) for w in mlp.parameters]
        self.sgd = torch.optim.SGD(self.w, lr=LR)
        self.a = torch.ones(3, 4, requires_grad=True)
        self.b = torch.ones(3, 4, requires_grad=True)
        lenet = nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )

        class Reader(nn.Module):  # type: ignore[name-defined]  # torch is imported where it is used
            def __init__(self) -> None:
                super().__init__()
                self.lstm = nn.LSTM(ROWS, UNITS, batch_first=True)
                self.out = nn.Linear(UNITS, 10)

            def forward(self, x: Any) -> Any:
                return self.out(self.lstm(x)[0][:, -1])

        w_ih, w_hh, bias, w, b = lstm.parameters
        transformer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        F = nn.functional
        turned = [p.T if p.ndim == 2 else p for p in cnn.parameters]
        self.cnn = self._trained(lenet, cnn, turned, F.cross_entropy)
        self.lstm = self._trained(Reader(), lstm, [w_ih, w_hh, bias, 0 * bias, w.T, b], F.cross_entropy)
        turned = [p.T if p.ndim == 2 else p for p in block.parameters]
        self.transformer = self._trained(transformer, block, turned, F.mse_loss)

    def _trained(self, model: Any, numbers: workloads.Numbers, parameters: Any, loss: Any) -> tuple[Any, ...]:
        torch = self.torch
        with torch.no_grad():
            for mine, start in zip(model.parameters(), parameters, strict=True):
                mine.copy_(torch.tensor(start))
        sgd = torch.optim.SGD(model.parameters(), lr=LR)
        return model, torch.from_numpy(numbers.x), torch.from_numpy(numbers.target), loss, sgd

    def mlp_step(self) -> float:
        w1, b1, w2, b2 = self.w
        loss = self.torch.nn.functional.cross_entropy(self.torch.relu(self.x @ w1 + b1) @ w2 + b2, self.labels)
        self.sgd.zero_grad()
        loss.backward()
        self.sgd.step()
        return float(loss.item())

    def _step(self, model: Any, x: Any, target: Any, measure: Any, sgd: Any) -> float:
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
        x = self.torch.tensor(1.0, requires_grad=True)
        y = x
        for _ in range(length):
            y = y + x
        y.backward()
        return float(x.grad.item())
