"""What checkpointing costs and saves: python -m benchmarks.checkpointing

One forward and backward pass of a deep MLP, whole and in k segments: the most bytes alive at once beyond weights and
inputs, which the simulated accelerator counts, and the seconds it takes on the cpu (median of 9).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from internals import Tensor, device, ops
from internals.autodiff import checkpoint_sequential


@dataclass(frozen=True)
class Measured:
    """One way of going forward and back.

    Attributes
    ----------
    segments : int or None
        None: without checkpoints.
    peak : int
        Bytes alive at the worst moment, without those of weights and inputs.
    seconds : float
    gradient : array
        Of the first weight, to see that all ways agree.
    """

    segments: int | None
    peak: int
    seconds: float
    gradient: np.ndarray


def measure(
    depth: int = 64, width: int = 32, rows: int = 512, segments: tuple[int | None, ...] = (None, 2, 4, 8, 16, 32)
) -> list[Measured]:
    """Peak memory and time of a chain of `depth` layers ``tanh(h @ w)``, for each number of segments."""
    sim: Any = device("sim:0")
    peaks: dict[int | None, int] = {}
    gradients: dict[int | None, np.ndarray] = {}
    seconds: dict[int | None, list[float]] = {k: [] for k in segments}
    chain = _chain(depth, width, rows, "sim:0")
    for k in segments:
        sim.reset()
        before = sim.counters.allocated
        gradients[k] = np.array(chain(k).to("cpu").numpy())
        peaks[k] = int(sim.counters.peak - before)
    chain = _chain(depth, width, rows, "cpu")
    for _ in range(9):
        for k in segments:  # taken in turns, so that a busy moment of the machine is everybody's
            start = time.perf_counter()
            chain(k)
            seconds[k].append(time.perf_counter() - start)
    return [Measured(k, peaks[k], statistics.median(seconds[k]), gradients[k]) for k in segments]


def _chain(depth: int, width: int, rows: int, where: str) -> Callable[[int | None], Tensor]:
    """A function that goes forward and back once, in so many segments, and gives the first weight's gradient."""
    rng = np.random.default_rng(0)
    weights = [
        Tensor((rng.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32), device=where)
        for _ in range(depth)
    ]
    x = Tensor(rng.standard_normal((rows, width)).astype(np.float32), device=where)
    layers = [lambda h, weight=weight: ops.tanh(h @ weight) for weight in weights]
    for weight in weights:
        weight.requires_grad = True

    def run(k: int | None) -> Tensor:
        for weight in weights:
            weight.grad = None
        if k is None:
            h = x
            for one in layers:
                h = one(h)
        else:
            h = checkpoint_sequential(layers, k, x)
        (h * h).mean().backward()
        gradient = weights[0].grad
        assert gradient is not None
        return gradient

    return run


def main() -> None:
    found = measure()
    whole = found[0]
    for one in found:
        name = "no checkpoints" if one.segments is None else f"{one.segments} segments"
        print(
            f"{name:15} {one.peak / 1e6:6.2f} MB {one.peak / whole.peak:5.2f}x   {one.seconds * 1e3:6.1f} ms "
            f"{one.seconds / whole.seconds:5.2f}x"
        )


if __name__ == "__main__":
    main()
