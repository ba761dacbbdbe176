"""Collectives beside gloo, data parallel beside one process: ``python -m benchmarks.all_reduce [--quick]``.

Three tables, each measured side by side on this machine; every rank is a process, and has one thread for BLAS:

- an all-reduce of 4 KB to 100 MB on 4 processes, ours and torch.distributed's on gloo, in turn, in the same processes;
- every algorithm at every size: where each is the fastest (``--sweep``);
- a training step of a compute-bound perceptron: two processes with half of the batch each, and one with all of it
  (``--train``). Two processes can't be faster than one on a machine with one core, or with one that others leave free:
  so the processor time of each rank is given too, and what the cost model says of a core for each.

Times are those of the slowest rank, medians over rounds; a load of others adds to some rounds, so that the quickest
quarter's is given beside.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is loaded

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from internals import Tensor, nn, ops, optim
from internals.distributed import collectives, costs
from internals.distributed.group import Group, run_processes
from internals.distributed.parallel import DistributedDataParallel

RANKS = 4
SIZES = (4 << 10, 64 << 10, 1 << 20, 100_000_000)
SWEEP = (256, 4 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 16 << 20, 64 << 20)
FEATURES, HIDDEN, CLASSES, BATCH = 784, 1024, 10, 2048


def slowest(seconds: float, group: Group) -> float:
    """The most that any rank took."""
    return float(collectives.all_reduce(np.array([seconds]), "max", group=group)[0])


def beside_gloo(group: Group, store: str, rounds: int) -> dict[int, dict[str, list[float]]]:
    """Seconds of ours and of gloo's all-reduce, by size."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=group.rank, world_size=group.size)
    found: dict[int, dict[str, list[float]]] = {}
    for nbytes in SIZES:
        array = np.zeros(nbytes // 4, np.float32)
        tensor = torch.from_numpy(array)
        calls = 1 if nbytes > 10 << 20 else 20
        ways: dict[str, Callable[[], Any]] = {
            "internals": partial(collectives.all_reduce, array, group=group),
            "gloo": partial(dist.all_reduce, tensor),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name in sorted(ways, reverse=bool(turn % 2)):
                array[...] = group.rank + 1
                collectives.barrier(group=group)
                began = time.perf_counter()
                ways[name]()
                if turn == 0:  # the first warms up, and is checked
                    assert (array == sum(range(1, group.size + 1))).all(), name
                    continue
                for _ in range(calls - 1):
                    ways[name]()
                times[name].append(slowest((time.perf_counter() - began) / calls, group))
        found[nbytes] = times
    dist.barrier()
    dist.destroy_process_group()
    return found


def swept(group: Group, rounds: int, sizes: Sequence[int] = SWEEP) -> dict[int, dict[str, float]]:
    """Median seconds of each algorithm, by size."""
    found: dict[int, dict[str, float]] = {}
    for nbytes in sizes:
        array = np.zeros(nbytes // 4, np.float32)
        calls = max(1, min(20, (4 << 20) // nbytes))
        times: dict[str, list[float]] = {name: [] for name in collectives.ALGORITHMS}
        for _ in range(rounds):
            for name in times:
                collectives.barrier(group=group)
                began = time.perf_counter()
                for _ in range(calls):
                    collectives.all_reduce(array, group=group, algorithm=name)
                times[name].append(slowest((time.perf_counter() - began) / calls, group))
        found[nbytes] = {name: statistics.median(taken) for name, taken in times.items()}
    return found


def perceptron() -> nn.Sequential:
    rng = np.random.default_rng(0)
    return nn.Sequential(
        nn.Linear(FEATURES, HIDDEN, rng=rng), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN, rng=rng), nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES, rng=rng),
    )  # fmt: skip


def trained(group: Group, rounds: int) -> tuple[dict[str, list[tuple[float, float]]], int, float]:
    """Seconds of a step, and of processor time; bytes of gradients; and what the cost model says that a step takes.

    Of rank 0 alone on the whole batch; of all ranks on their shares; of all ranks on their shares without sending.
    """
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((BATCH, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, BATCH)
    each = BATCH // group.size
    share = slice(group.rank * each, (group.rank + 1) * each)
    module = perceptron()
    parallel = DistributedDataParallel(perceptron(), group, bucket_bytes=2 << 20)

    def step(model: nn.Module, x: Tensor, y: Tensor, optimizer: optim.Optimizer) -> None:
        optimizer.zero_grad()
        ops.cross_entropy(model(x), y).backward()
        optimizer.step()

    whole, part = (Tensor(x), Tensor(y)), (Tensor(x[share]), Tensor(y[share]))
    optimizer, other = optim.SGD(module.parameters(), 0.01), optim.SGD(parallel.parameters(), 0.01)
    ways: dict[str, Callable[[], None]] = {
        "one process": lambda: step(module, *whole, optimizer) if group.rank == 0 else None,
        "data parallel": lambda: step(parallel, *part, other),
        "a share": lambda: step(module, *part, optimizer),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, run in ways.items():
            collectives.barrier(group=group)
            began, worked = time.perf_counter(), time.process_time()
            run()
            taken = time.perf_counter() - began, time.process_time() - worked
            wall, processor = (slowest(seconds, group) for seconds in taken)  # a rank that rests takes next to nothing
            if turn:
                times[name].append((wall, processor))
    one = np.zeros(1, np.float32)

    def smallest(some: Group, algorithm: str) -> None:
        collectives.all_reduce(one, group=some, algorithm=algorithm)

    found = costs.measure(group, smallest=smallest)
    nbytes, buckets = sum(parameter.nbytes for parameter in module.parameters()), len(parallel.buckets)
    compute = statistics.median(processor for _, processor in times["a share"])
    algorithm = collectives.chosen(nbytes // buckets, group.size)
    expected = costs.data_parallel_step(
        found, nbytes, group.size, compute=compute, buckets=buckets, algorithm=algorithm
    )  # fmt: skip
    return times, nbytes, expected


def report(rounds: int) -> None:
    """Print what two processes make of a step."""
    times, nbytes, expected = run_processes(2, trained, rounds, deadline=300.0)[0]
    operations = 6 * BATCH * (FEATURES * HIDDEN + HIDDEN * HIDDEN + HIDDEN * CLASSES)
    print(
        f"a step on {BATCH} examples, {operations / 1e9:.0f} GFLOP and {nbytes / 1e6:.1f} MB of gradients, "
        f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}:"
    )
    alone, together = times["one process"], times["data parallel"]
    for place, meaning in enumerate(("as fast", "less processor time for each rank")):
        one, two = (sorted(pair[place] for pair in several) for several in (alone, together))
        ratio = statistics.median(a[place] / b[place] for a, b in zip(alone, together, strict=True))
        quick = one[len(one) // 4] / two[len(two) // 4]
        print(
            f"  one process {statistics.median(one) * 1e3:.1f} ms, two {statistics.median(two) * 1e3:.1f} ms: "
            f"{ratio:.2f}x {meaning}; the quickest quarter {quick:.2f}x"
        )
    alone_processor = statistics.median(processor for _, processor in alone)
    ratio = alone_processor / expected
    print(f"  by the cost model, with a core for each rank: {expected * 1e3:.1f} ms, {ratio:.2f}x as fast")


def shown(nbytes: int) -> str:
    if nbytes < 1 << 20:
        return f"{nbytes} B" if nbytes < 1024 else f"{nbytes >> 10} KiB"
    return f"{nbytes / 1e6:.0f} MB" if nbytes % (1 << 20) else f"{nbytes >> 20} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--sweep", action="store_true", help="only the algorithms")
    parser.add_argument("--train", action="store_true", help="only the training step")
    given = parser.parse_args()
    everything = not (given.sweep or given.train)
    if everything:
        with tempfile.TemporaryDirectory() as directory:
            found = run_processes(RANKS, beside_gloo, f"{directory}/store", 5 if given.quick else 15, deadline=300.0)[0]
        print(f"all-reduce on {RANKS} processes: internals, gloo, and the median ratio of neighbouring rounds")
        for nbytes, times in found.items():
            ours, gloo = (statistics.median(times[name]) for name in ("internals", "gloo"))
            ratio = statistics.median(a / b for a, b in zip(times["internals"], times["gloo"], strict=True))
            print(f"  {shown(nbytes):>8}  {ours * 1e3:9.3f} ms  {gloo * 1e3:9.3f} ms  {ratio:5.2f}x")
    if everything or given.sweep:
        table = run_processes(RANKS, swept, 5 if given.quick else 11, deadline=300.0)[0]
        print(f"all-reduce on {RANKS} processes, ms, by algorithm; * the fastest, > the one that is chosen")
        print("  " + " " * 8 + "".join(f"{name:>19}" for name in collectives.ALGORITHMS))
        for nbytes, row in table.items():
            best, chosen = min(row, key=lambda name: row[name]), collectives.chosen(nbytes, RANKS)
            cells = "".join(
                f"{('>' if name == chosen else '') + ('*' if name == best else '') + f'{seconds * 1e3:.3f}':>19}"
                for name, seconds in row.items()
            )
            print(f"  {shown(nbytes):>8}{cells}")
    if everything or given.train:
        report(10 if given.quick else 30)


if __name__ == "__main__":
    main()
