"""The same workloads written in each framework, from the same numbers.

Each class does one training step of a 784-256-10 perceptron (batch 128, float32, plain SGD), one recorded `add` of
two (3, 4) tensors, and a chain of additions, recorded and differentiated; internals and torch also one training step
of a LeNet (batch 64, 1 x 28 x 28). Each is written the way its own documentation does it.
"""

from __future__ import annotations

import builtins
import importlib
import os
from itertools import pairwise
from typing import Any

import numpy as np

BATCH, SIZES, LR, IMAGES = 128, (784, 256, 10), 0.1, 64


def numbers() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """A batch, its labels, and the starting weights; the same for every framework."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, SIZES[0])).astype(np.float32)
    labels = rng.integers(0, SIZES[-1], BATCH)
    weights: list[np.ndarray] = []
    for rows, columns in pairwise(SIZES):
        weights += [
            (rng.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32),
            np.zeros(columns, np.float32),
        ]
    return x, labels, weights


def images() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """A batch of images, their labels, and a LeNet's starting parameters, linear weights as (inputs, outputs)."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((IMAGES, 1, 28, 28)).astype(np.float32)
    labels = rng.integers(0, 10, IMAGES)
    parameters: list[np.ndarray] = []
    for shape in ((6, 1, 5, 5), (16, 6, 5, 5), (256, 120), (120, 84), (84, 10)):
        inputs, outputs = (int(np.prod(shape[1:])), shape[0]) if len(shape) == 4 else shape
        parameters += [
            (rng.standard_normal(shape) * inputs**-0.5).astype(np.float32),
            np.zeros(outputs, np.float32),
        ]
    return x, labels, parameters


class Internals:
    name = "internals"

    def __init__(self) -> None:
        from internals import Tensor, nn, optim

        x, labels, weights = numbers()
        self.nn, self.Tensor = nn, Tensor
        self.x, self.labels = Tensor(x), Tensor(labels)
        self.w = [Tensor(w, requires_grad=True) for w in weights]
        self.sgd = optim.SGD(self.w, lr=LR)
        self.a = Tensor(np.ones((3, 4), np.float32), requires_grad=True)
        self.b = Tensor(np.ones((3, 4), np.float32), requires_grad=True)
        pictures, classes, parameters = images()
        self.pictures, self.classes = Tensor(pictures), Tensor(classes)
        self.lenet = nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )
        self.lenet.load_state_dict(dict(zip(self.lenet.state_dict(), parameters, strict=True)))
        self.lenet_sgd = optim.SGD(self.lenet.parameters(), lr=LR)

    def mlp_step(self) -> float:
        w1, b1, w2, b2 = self.w
        loss = self.nn.cross_entropy(self.nn.relu(self.x @ w1 + b1) @ w2 + b2, self.labels)
        self.sgd.zero_grad()
        loss.backward()
        self.sgd.step()
        return loss.item()

    def cnn_step(self) -> float:
        loss = self.nn.cross_entropy(self.lenet(self.pictures), self.classes)
        self.lenet_sgd.zero_grad()
        loss.backward()
        self.lenet_sgd.step()
        return loss.item()

    def add(self) -> Any:
        return self.a + self.b

    def chain(self, length: int) -> float:
        x = self.Tensor(1.0, requires_grad=True)
        y = x
        for _ in range(length):
            y = y + x
        y.backward()
        return float(x.grad.item())  # type: ignore[union-attr]  # backward has just set it


class Torch:
    name = "torch"

    def __init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(threads())
        x, labels, weights = numbers()
        self.torch = torch
        self.x, self.labels = torch.from_numpy(x), torch.from_numpy(labels)
        self.w = [torch.tensor(w, requires_grad=True) for w in weights]
        self.sgd = torch.optim.SGD(self.w, lr=LR)
        self.a = torch.ones(3, 4, requires_grad=True)
        self.b = torch.ones(3, 4, requires_grad=True)
        pictures, classes, parameters = images()
        self.pictures, self.classes = torch.from_numpy(pictures), torch.from_numpy(classes)
        nn = torch.nn
        self.lenet = nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )
        with torch.no_grad():
            for mine, start in zip(self.lenet.parameters(), parameters, strict=True):
                mine.copy_(torch.from_numpy(start.T if start.ndim == 2 else start))
        self.lenet_sgd = torch.optim.SGD(self.lenet.parameters(), lr=LR)

    def mlp_step(self) -> float:
        w1, b1, w2, b2 = self.w
        loss = self.torch.nn.functional.cross_entropy(self.torch.relu(self.x @ w1 + b1) @ w2 + b2, self.labels)
        self.sgd.zero_grad()
        loss.backward()
        self.sgd.step()
        return float(loss.item())

    def cnn_step(self) -> float:
        loss = self.torch.nn.functional.cross_entropy(self.lenet(self.pictures), self.classes)
        self.lenet_sgd.zero_grad()
        loss.backward()
        self.lenet_sgd.step()
        return float(loss.item())

    def add(self) -> Any:
        return self.a + self.b

    def chain(self, length: int) -> float:
        x = self.torch.tensor(1.0, requires_grad=True)
        y = x
        for _ in range(length):
            y = y + x
        y.backward()
        return float(x.grad.item())


class Autograd:
    """HIPS autograd: a function is traced anew by every call of its gradient, so `add` is not recorded alone."""

    name = "autograd"

    def __init__(self) -> None:
        autograd: Any = importlib.import_module("autograd")
        anp: Any = importlib.import_module("autograd.numpy")
        self.anp = anp
        x, labels, self.w = numbers()
        rows = np.arange(len(labels))

        def loss(w: list[np.ndarray]) -> Any:
            logits = anp.maximum(x @ w[0] + w[1], 0) @ w[2] + w[3]
            shifted = logits - anp.max(logits, axis=1, keepdims=True)
            return anp.mean(anp.log(anp.sum(anp.exp(shifted), axis=1)) - shifted[rows, labels])

        self.value_and_grad = autograd.value_and_grad(loss)
        self.grad = autograd.grad

    def mlp_step(self) -> float:
        value, gradients = self.value_and_grad(self.w)
        for w, g in zip(self.w, gradients, strict=True):
            w -= LR * g
        return float(value)

    def chain(self, length: int) -> float:
        def sums(x: Any) -> Any:
            y = x
            for _ in range(length):
                y = y + x
            return y

        return float(self.grad(sums)(np.float32(1.0)))


class DeZero:
    name = "dezero"

    def __init__(self) -> None:
        # It was written for a NumPy that had np.int and its kin as other names of Python's own types.
        for old in ("int", "float", "bool", "object"):
            if old not in np.__dict__:
                setattr(np, old, getattr(builtins, old))
        dezero: Any = importlib.import_module("dezero")
        self.F: Any = importlib.import_module("dezero.functions")
        x, labels, weights = numbers()
        self.Variable = dezero.Variable
        self.x, self.labels = dezero.Variable(x), labels
        self.w = [dezero.Parameter(w) for w in weights]
        self.a = dezero.Variable(np.ones((3, 4), np.float32))
        self.b = dezero.Variable(np.ones((3, 4), np.float32))

    def mlp_step(self) -> float:
        w1, b1, w2, b2 = self.w
        loss = self.F.softmax_cross_entropy(
            self.F.linear(self.F.relu(self.F.linear(self.x, w1, b1)), w2, b2), self.labels
        )
        for w in self.w:
            w.cleargrad()
        loss.backward()
        for w in self.w:
            w.data -= LR * w.grad.data
        return float(loss.data)

    def add(self) -> Any:
        return self.a + self.b

    def chain(self, length: int) -> float:
        x = self.Variable(np.array(1.0, np.float32))
        y = x
        for _ in range(length):
            y = y + x
        y.backward()
        return float(x.grad.data)


class Tinygrad:
    """tinygrad on its CPU device, the step compiled by TinyJit.

    It computes when asked to, so `add` and a chain are not one to one.
    """

    name = "tinygrad"

    def __init__(self) -> None:
        os.environ.setdefault("DEV", "CPU")
        tinygrad: Any = importlib.import_module("tinygrad")
        x, labels, weights = numbers()
        tensors = [tinygrad.Tensor(w).realize() for w in weights]
        batch, classes = tinygrad.Tensor(x).realize(), tinygrad.Tensor(labels.astype(np.int32)).realize()

        @tinygrad.TinyJit
        def step() -> Any:
            w1, b1, w2, b2 = tensors
            loss = ((batch @ w1 + b1).relu() @ w2 + b2).sparse_categorical_crossentropy(classes)
            for w, g in zip(tensors, loss.gradient(*tensors), strict=True):
                w.assign(w - LR * g)
            tinygrad.Tensor.realize(loss, *tensors)
            return loss

        self.step = step

    def mlp_step(self) -> float:
        return float(self.step().item())


ALL = (Internals, Torch, Autograd, DeZero, Tinygrad)


def threads() -> int:
    """How many threads each library may use: OMP_NUM_THREADS, or all cores."""
    return int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
