"""Folded against one by one, a batch of 64 syntax trees: python -m benchmarks.fold

One training step (forward, loss, backward) of a Tree-LSTM on functions of Python's standard library, in seconds of
processor time (medians of 5, one thread), so that a busy machine does not count. "cells" notes each cell as one call,
"rows" notes every row of the op table. Scheduling alone is shown apart. The last column is torch, one by one.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals import Tensor, fold, ops
from internals.data.syntax import KINDS, functions_of
from internals.fold.tree_lstm import TreeLSTM

CLASSES = 4


@dataclass(frozen=True)
class Measured:
    """A training step, one way.

    Attributes
    ----------
    way : str
    seconds : float
        Processor time of the step.
    scheduling : float
        Of that, what went to finding the schedule.
    calls, launches : int
        What was noted, and in how many batches it ran; 0 for one by one.
    loss : float
    """

    way: str
    seconds: float
    scheduling: float
    calls: int
    launches: int
    loss: float


def trees_of(batch: int, seed: int = 0) -> list[Any]:
    """So many functions of the standard library, of up to 100 nodes each."""
    found = [tree for module in ("asyncio", "email", "unittest", "_pydecimal") for tree in functions_of(module)]
    chosen = np.random.default_rng(seed).permutation(len(found))[:batch]
    return [found[i] for i in chosen]


def timed(step: Callable[[], Any], rounds: int = 5) -> tuple[float, Any]:
    """The median processor time of a step, and what it gave last."""
    step()
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        result = step()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds), result


def measure(hidden: int = 128, batch: int = 64, rounds: int = 5, torch: bool = True) -> list[Measured]:
    """A step one by one, and folded at two grains and under two schedules."""
    trees, rng = trees_of(batch), np.random.default_rng(1)
    classes = rng.integers(0, CLASSES, batch)
    target = Tensor(classes)
    results = []
    for grain in ("cells", "rows"):
        model = TreeLSTM(len(KINDS), hidden, CLASSES, whole_cells=grain == "cells", rng=np.random.default_rng(2))

        def alone(model: Any = model) -> float:
            loss = ops.cross_entropy(ops.stack([model(tree, Tensor) for tree in trees]), target)
            loss.backward()
            return float(loss.item())

        if grain == "cells":
            seconds, loss = timed(alone, rounds)
            results.append(Measured("one by one", seconds, 0.0, 0, 0, loss))
        for schedule in fold.SCHEDULES:

            def folded(model: Any = model, schedule: str = schedule) -> tuple[float, fold.Batch]:
                with fold.Batch(schedule) as notes:
                    scores = [model(tree) for tree in trees]
                loss = ops.cross_entropy(fold.stacked(scores), target)
                loss.backward()
                return float(loss.item()), notes

            seconds, (loss, notes) = timed(folded, rounds)
            calls = sum(launch.size for launch in notes.launches)
            way = f"folded, {grain}, {schedule}"
            results.append(Measured(way, seconds, notes.scheduling, calls, len(notes.launches), loss))
    if torch:
        results.append(_torch(model, trees, classes, rounds))
    return results


def _torch(model: Any, trees: list[Any], classes: np.ndarray, rounds: int) -> Measured:
    """The same network in torch, one example at a time."""
    import torch

    torch.set_num_threads(1)
    names = ("table", "gates.weight", "gates.bias", "scores.weight", "scores.bias")
    held = dict(model.named_parameters())
    table, weight, bias, weight_out, bias_out = (
        torch.tensor(held[name].detach().numpy().copy(), requires_grad=True) for name in names
    )
    n = model.hidden

    def encode(tree: Any) -> Any:
        h, c = table[tree.kind][:n], table[tree.kind][n:]
        for child in tree.children:
            below, c_below = encode(child)
            gates = torch.cat([h, below]) @ weight + bias
            i, f, g, o = gates[: 4 * n].sigmoid().chunk(4)
            c = i * gates[4 * n :].tanh() + f * c + g * c_below
            h = o * c.tanh()
        return h, c

    def step() -> float:
        scores = torch.stack([encode(tree)[0] @ weight_out + bias_out for tree in trees])
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(classes))
        loss.backward()
        return float(loss.detach())

    seconds, loss = timed(step, rounds)
    return Measured("torch, one by one", seconds, 0.0, 0, 0, loss)


def main() -> None:
    results = measure()
    base = results[0]
    print(f"{'':26}{'ms':>8}{'trees/s':>9}{'speed-up':>10}{'scheduling ms':>15}{'calls':>8}{'launches':>10}")
    for one in results:
        assert abs(one.loss - base.loss) < 1e-4, (one, base)
        print(
            f"{one.way:26}{one.seconds * 1e3:8.0f}{64 / one.seconds:9.0f}{base.seconds / one.seconds:9.1f}x"
            f"{one.scheduling * 1e3:15.1f}{one.calls:8,}{one.launches:10,}"
        )


if __name__ == "__main__":
    main()
