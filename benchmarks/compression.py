"""What compression saves and costs: ``python -m benchmarks.compression [--quick] [--write]``.

Two tables. Models that learned scikit-learn's digits: bytes of their numbers, accuracy, and the time of 256 images,
side by side in this process. And one matrix product in float32, int8 and with a weight of four bits, beside torch's:
NumPy's BLAS has no integer product, so ours is exact floats, and can only lose. BLAS and torch have one thread each.
``--write`` puts the tables into ``benchmarks/results/compression.md``.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is loaded

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from internals import Tensor, nn, no_grad, ops, optim
from internals.deploy.compress import (
    Linear4,
    Pruner,
    Recipe,
    convert,
    cubic_schedule,
    distillation_loss,
    low_rank,
    nbytes,
    prepare_training,
    quantise_model,
    share,
    shrink,
    sparse_nbytes,
)

RESULTS = Path(__file__).parent / "results" / "compression.md"
Row = tuple[str, int, float, Callable[[], Any]]


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32), y[order]
    return x[:1300], y[:1300], x[1300:], y[1300:]


def perceptron(width: int) -> nn.Sequential:
    rng = np.random.default_rng(0)
    return nn.Sequential(
        nn.Linear(64, width, rng=rng), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width, rng=rng), nn.ReLU(),
        nn.Linear(width, 10, rng=rng),
    )  # fmt: skip


def fit(
    model: Any, epochs: int, lr: float = 3e-3, after: Callable[[int], Any] = lambda step: None, teacher: Any = None
) -> Any:
    x, y, _, _ = digits()
    known = None if teacher is None else Tensor(logits(teacher, x))
    optimizer = optim.Adam(model.parameters(), lr=lr)
    model.train()
    step = 0
    for _ in range(epochs):
        for start in range(0, len(x), 100):
            part = slice(start, start + 100)
            out, labels = model(Tensor(x[part])), Tensor(y[part])
            loss = ops.cross_entropy(out, labels) if known is None else distillation_loss(out, known[part], labels)
            model.zero_grad()
            loss.backward()
            optimizer.step()
            after(step)
            step += 1
    return model.eval()


def logits(model: Any, x: np.ndarray) -> np.ndarray:
    with no_grad():
        found: np.ndarray = model(Tensor(x)).numpy()
    return found


def models(epochs: int) -> list[Row]:
    x, _, test, labels = digits()
    batches = [x[:200], x[200:400]]
    width = 256
    model = fit(perceptron(width), epochs)
    rows: list[Row] = []

    def row(name: str, one: Any, size: int | None = None) -> None:
        accuracy = float((logits(one, test).argmax(1) == labels).mean())
        rows.append((name, nbytes(one) if size is None else size, accuracy, lambda: logits(one, test[:256])))

    row("float32", model)
    row("int8 per channel, calibrated", quantise_model(model, batches))
    row("int8 per tensor, calibrated", quantise_model(model, batches, Recipe(per_channel=False)))
    row("int8, range of each batch", quantise_model(model, recipe=Recipe(dynamic=True)))
    row("int8, trained with the rounding", convert(fit(prepare_training(model), max(epochs // 4, 1), 1e-3)))
    four = [Linear4(part) if isinstance(part, nn.Linear) else part for part in model.parts]
    row("4-bit weights", nn.Sequential(*four).eval())
    thin = [low_rank(part, 16) if isinstance(part, nn.Linear) and part.weight.shape[1] > 10 else part
            for part in model.parts]  # fmt: skip
    row("rank 16", fit(nn.Sequential(*thin), max(epochs // 4, 1), 1e-3))
    row("half of the channels", fit(shrink(model, 0.5), max(epochs // 4, 1), 1e-3))
    sparse = fit(perceptron(width), epochs)
    pruner, steps = Pruner(sparse), 13 * epochs
    schedule = cubic_schedule(0, max(steps // 2, 1), 0.9)
    fit(sparse, epochs, 3e-3, after=lambda step: pruner.step(schedule(step)))
    size = sum(sparse_nbytes(one.detach().numpy()) if one.ndim == 2 else 4 * one.size for one in sparse.parameters())
    size += nbytes(sparse) - 4 * sparse.num_parameters()
    row("nine in ten weights zero (as CSR)", sparse, size)
    shared = [share(part.weight.detach().numpy(), 16) for part in model.parts if isinstance(part, nn.Linear)]
    rest = nbytes(model) - sum(4 * one.indices.size for one in shared)
    layers = [part for part in model.parts if isinstance(part, nn.Linear)]
    held = {id(part): one for part, one in zip(layers, shared, strict=True)}
    row("16 shared values", shared_copy(model, held), rest + sum(one.nbytes for one in shared))
    small = nn.Sequential(nn.Linear(64, 32, rng=np.random.default_rng(1)), nn.ReLU(),
                          nn.Linear(32, 10, rng=np.random.default_rng(2)))  # fmt: skip
    row("a small one, taught", fit(small, epochs, 0.01, teacher=model))
    return rows


def shared_copy(model: nn.Sequential, held: dict[int, Any]) -> nn.Sequential:
    import copy

    parts = []
    for part in model.parts:
        one: Any = copy.copy(part)
        if id(part) in held:
            one.weight = Tensor(held[id(part)].dequantise())
        parts.append(one)
    return nn.Sequential(*parts).eval()


def seconds(runs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The median of each, taken in turns so that what else the machine does meets all."""
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds + 1):
        for run, taken in zip(runs, times, strict=True):
            began = time.perf_counter()
            run()
            if turn:
                taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


def products(n: int, rounds: int) -> list[tuple[str, float]]:
    """Milliseconds of (n, n) @ (n, n)."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, n, n)).astype(np.float32)
    qa, qb = (rng.integers(-127, 128, (n, n)).astype(np.int8) for _ in range(2))
    zero = np.int8(0)
    layer = nn.Linear(n, n, bias=False, rng=rng)
    four, x = Linear4(layer), Tensor(a)
    ta, tb, tqa, tqb = (torch.tensor(one) for one in (a, b, qa, qb))
    runs: dict[str, Callable[[], Any]] = {
        "float32, NumPy": lambda: a @ b,
        "float32, torch": lambda: ta @ tb,
        "int8 to int32, ours (exact floats)": lambda: ops.matmul_integer(qa, qb, zero, zero),
        "int8 to int32, NumPy's own": lambda: np.matmul(qa, qb, dtype=np.int32),
        "int8 to int32, torch._int_mm": lambda: torch._int_mm(tqa, tqb),
        "4-bit weight, ours (unpacked each time)": lambda: logits_of(four, x),
    }
    return list(zip(runs, [1e3 * one for one in seconds(list(runs.values()), rounds)], strict=True))


def logits_of(layer: Any, x: Tensor) -> Any:
    with no_grad():
        return layer(x)


def report(quick: bool) -> str:
    rows = models(2 if quick else 16)
    times = seconds([run for *_, run in rows], 5 if quick else 30)
    base = rows[0][1], times[0]
    lines = [
        "| model | bytes | of float32 | accuracy | ms for 256 images | times float32's |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for (name, size, accuracy, _), taken in zip(rows, times, strict=True):
        lines.append(
            f"| {name} | {size:,} | {size / base[0]:.2f} | {accuracy:.1%} | {1e3 * taken:.2f} | {taken / base[1]:.2f} |"
        )
    n = 128 if quick else 512
    lines += ["", f"| product of two {n} x {n} matrices | ms | times NumPy's float32 |", "|---|---:|---:|"]
    found = products(n, 3 if quick else 9)
    lines += [f"| {name} | {taken:.2f} | {taken / found[0][1]:.2f} |" for name, taken in found]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, a small product")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/compression.md")
    given = parser.parse_args()
    text = report(given.quick)
    print(text)
    if given.write:
        RESULTS.write_text(
            "# Compression\n\nMade by `python -m benchmarks.compression --write`, one thread each. Times are medians, "
            f"taken in turns in one process.\n\n{text}\n"
        )


if __name__ == "__main__":
    main()
