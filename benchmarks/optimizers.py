"""One step of each optimizer against torch's, one thread: python -m benchmarks.optimizers

The parameters are those of a perceptron; the gradients stay the same. Prints microseconds per step (medians) and the
median of the ratios ours / torch's of the rounds, in each of which both take a step.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from internals import Tensor, optim

SIZES = ((64, 128, 10), (784, 256, 10), (784, 1024, 1024, 10))
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"momentum": 0.9}),
    "AdaGrad": ("Adagrad", {}),
    "RMSProp": ("RMSprop", {}),
    "Adam": ("Adam", {}),
    "AdamW": ("AdamW", {}),
}


def timed(step: Any) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    for sizes in SIZES:
        shapes = [shape for n, m in pairwise(sizes) for shape in ((n, m), (m,))]
        for name, (theirs, settings) in PAIRS.items():
            mine, yours = [], []
            for shape in shapes:
                start, gradient = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
                mine.append(Tensor(start, requires_grad=True))
                mine[-1].grad = Tensor(gradient)
                yours.append(torch.tensor(start, requires_grad=True))
                yours[-1].grad = torch.tensor(gradient)
            one = getattr(optim, name)(mine, lr=1e-3, **settings)
            other = getattr(torch.optim, theirs)(yours, lr=1e-3, **settings)
            rounds = [(timed(one.step), timed(other.step)) for _ in range(20 if max(sizes) > 1000 else 200)]
            ours, torchs = (statistics.median(column) * 1e6 for column in zip(*rounds, strict=True))
            ratio = statistics.median(a / b for a, b in rounds)
            print(f"{'-'.join(map(str, sizes)):20} {name:8} {ours:8.0f} us  torch {torchs:8.0f} us  {ratio:.2f}")


if __name__ == "__main__":
    main()
