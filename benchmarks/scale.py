"""What the cost model predicts, beside what is measured: ``python -m benchmarks.scale [--quick] [--ranks 2 4]``.

For each number of ranks, in one job of processes joined by shared memory, in turn and again:

- the costs of messages are measured (`internals.distributed.costs.measure`);
- all-reduces by four algorithms, all-gather, reduce-scatter and broadcast, of 4 KB to 8 MB;
- pushes of gradients to servers that add them, one server and two where there are ranks enough;
- a data parallel step of a perceptron, against the same step without sending;
- a pipeline of as many stages as ranks, by both schedules, against its schedule run with the times of single actions.

A row gives the lower quartile over the turns, of the prediction from that turn's costs and of the measurement, and
their ratio: what others do on the machine only adds to a time, and the model knows nothing of it. In brackets, the
same of the medians. Rows that are not within 25 % are marked. One thread of linear algebra for each rank.
"""

# ruff: noqa: E402 - BLAS reads its number of threads when it is loaded

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from internals import Tensor, nn, ops
from internals.distributed import costs as predicted
from internals.distributed.collectives import all_gather, all_reduce, barrier, broadcast, chosen, reduce_scatter
from internals.distributed.costs import Costs
from internals.distributed.group import Group, run_processes
from internals.distributed.parallel import DistributedDataParallel
from internals.distributed.scale.pipeline import SCHEDULES, Pipeline, simulate

ALGORITHMS = ("flat", "tree", "halving_doubling", "ring")
SIZES = {"4 KB": 1 << 12, "64 KB": 1 << 16, "1 MB": 1 << 20, "8 MB": 8 << 20}
WITHIN = 1.25

Pairs = dict[str, list[tuple[float, float]]]
"""By what is done: for each turn, seconds predicted and measured."""


TRIES = 2


def timed(group: Group, action: Callable[[], object], count: int, tries: int = TRIES) -> float:
    """Seconds of one of `count` in a row, after another, as the slowest rank sees them; the best of some tries."""
    best = []
    for _ in range(tries):
        barrier(group=group)
        action()
        start = time.perf_counter()
        for _ in range(count):
            action()
        best.append((time.perf_counter() - start) / count)
    return float(all_reduce(np.array(best), "max", group=group).min())


def collectives(group: Group, costs: Costs, found: Pairs) -> None:
    size = group.size
    for name, nbytes in SIZES.items():
        x = np.random.default_rng(0).standard_normal(nbytes // 4 // size * size).astype(np.float32)
        count = 6 if nbytes < 1 << 20 else 2
        for _ in range(3):  # the memory that messages of this size go through is made
            all_reduce(x, "mean", group=group, algorithm="flat")
        for algorithm in ALGORITHMS:
            seconds = timed(group, partial(all_reduce, x, "mean", group=group, algorithm=algorithm), count)
            expected = predicted.all_reduce(costs, x.nbytes, size, algorithm)
            found[f"all-reduce {name}, {algorithm}"].append((expected, seconds))
        part = x[group.rank * (x.size // size) :][: x.size // size]
        sources = itertools.count(0, -1)

        def next_broadcast(x: np.ndarray = x, sources: Iterator[int] = sources) -> None:
            # From who was last to have the one before: a source that has waited for nobody would run ahead.
            broadcast(x, next(sources) % size, group=group)

        others: dict[str, tuple[Callable[[], object], Callable[[Costs, float, int], float]]] = {
            "all-gather": (partial(all_gather, part, group=group, into=x), predicted.all_gather),
            "reduce-scatter": (partial(reduce_scatter, x, "mean", group=group), predicted.reduce_scatter),
            "broadcast": (next_broadcast, predicted.broadcast),
        }
        for what, (action, expect) in others.items():
            found[f"{what} {name}"].append((expect(costs, x.nbytes, size), timed(group, action, count)))


def pushes(group: Group, costs: Costs, found: Pairs, servers: int) -> None:
    """The first ranks add up what the others, each with a gradient of 4 MB, push to them, and send a word back."""
    trainers = group.size - servers
    held = np.zeros((4 << 20) // 4 // servers, np.float32)
    parts = [np.ones_like(held) for _ in range(servers)]

    def push() -> None:
        if group.rank < servers:
            for trainer in range(servers, group.size):
                for _ in range(-(-held.nbytes // predicted.SEGMENT)):
                    piece = group.receive(trainer, "push")
                    place = held[piece.fields["at"] :][: piece.arrays[0].size]
                    np.add(place, piece.arrays[0], out=place)
            for trainer in range(servers, group.size):
                group.send(trainer, "added")
            return
        step = predicted.SEGMENT // 4
        for begin in range(0, held.size, step):
            for server, part in enumerate(parts):
                group.send(server, "push", part[begin : begin + step], at=begin)
        for server in range(servers):
            group.receive(server, "added")

    expected = predicted.push(costs, 4 << 20, trainers, servers) + costs.alone.start
    found[f"push 4 MB, {trainers} to {servers}"].append((expected, timed(group, push, 3)))


def data_parallel(group: Group, costs: Costs, found: Pairs) -> None:
    def model() -> nn.Sequential:
        rng = np.random.default_rng(0)
        widths = [784, 1024, 1024, 10]
        layers = [nn.Linear(*pair, rng=rng) for pair in itertools.pairwise(widths)]
        return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])

    rng = np.random.default_rng(group.rank)
    x, y = Tensor(rng.standard_normal((64, 784)).astype(np.float32)), Tensor(rng.integers(10, size=64))

    def step(module: nn.Module) -> None:
        module.zero_grad()
        ops.cross_entropy(module(x), y).backward()

    alone = model()
    together = DistributedDataParallel(model(), group, bucket_bytes=2 << 20)
    compute, seconds = np.min(
        [[timed(group, partial(step, one), 1, 1) for one in (alone, together)] for _ in range(4)], axis=0
    )
    nbytes, buckets = sum(parameter.nbytes for parameter in alone.parameters()), len(together.buckets)
    algorithm = chosen(nbytes // buckets, group.size)
    expected = predicted.data_parallel_step(
        costs, nbytes, group.size, compute=compute, buckets=buckets, algorithm=algorithm
    )
    found[f"data parallel step, {nbytes / 2**20:.0f} MB of gradients"].append((expected, seconds))


def pipelines(group: Group, costs: Costs, found: Pairs) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 1024)).astype(np.float32)
    last = group.size - 1
    for name in SCHEDULES:
        stages = [nn.Sequential(nn.Linear(1024, 1024, rng=rng), nn.Tanh()) for _ in range(group.size)]
        pipeline = Pipeline(stages, group, loss=ops.mse, schedule=name)

        def step(pipeline: Pipeline = pipeline) -> None:
            pipeline.stage.zero_grad()
            pipeline.step(None if group.rank else x, x if group.rank == last else None, micro_batches=8)

        step()
        seconds = timed(group, step, 2)
        spans = pipeline.timeline()
        forward, backward = (
            [
                statistics.mean(span.end - span.start for span in spans if span.action[::2] == (stage, kind))
                for stage in range(group.size)
            ]
            for kind in "FB"
        )
        message = predicted.send(costs, x.nbytes / 8)
        # Who sends and who takes a message are busy with it too.
        ran = simulate(
            SCHEDULES[name](group.size, 8),
            forward=[seconds + message for seconds in forward],
            backward=[seconds + message for seconds in backward],
            transfer=message,
        )
        found[f"pipeline of {group.size} stages, {name}"].append((max(span.end for span in ran), seconds))


def member(group: Group, turns: int) -> tuple[Pairs, str]:
    """What one rank does; all return the same."""
    found: Pairs = defaultdict(list)
    one = np.zeros(1, np.float32)

    def smallest(group: Group, algorithm: str) -> None:
        all_reduce(one, group=group, algorithm=algorithm)

    for _ in range(turns):
        costs = predicted.measure(group, rounds=2, smallest=smallest)
        collectives(group, costs, found)
        for servers in range(1, min(2, group.size - 1) + 1):
            pushes(group, costs, found, servers)
        data_parallel(group, costs, found)
        pipelines(group, costs, found)
    return dict(found), repr(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    given = parser.parse_args()
    turns = 12 if given.quick else 36
    for size in given.ranks:
        rows, costs = run_processes(size, member, turns, deadline=600.0)[0]
        print(f"{size} ranks: {costs}")
        good = 0
        for what, pairs in rows.items():
            columns = [sorted(column) for column in zip(*pairs, strict=True)]
            expected, seconds = (column[turns // 4] for column in columns)
            ratio, typical = expected / seconds, columns[0][turns // 2] / columns[1][turns // 2]
            close = 1 / WITHIN <= ratio <= WITHIN
            good += close
            print(
                f"  {what:42} predicted {expected * 1e3:8.2f} ms, measured {seconds * 1e3:8.2f} ms, "
                f"{ratio:.2f}x [{typical:.2f}x] {'' if close else '!'}"
            )
        print(f"  {good} of {len(rows)} within 25 %")


if __name__ == "__main__":
    main()
