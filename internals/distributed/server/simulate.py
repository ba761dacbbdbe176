"""A parameter server that nobody can start here: 10¹² numbers, hundreds of machines; from costs measured on this one.

Three kinds of question, three kinds of answer. How much memory, how many bytes: counted. How busy each part is: its
work in a step over its speed, for the busiest of many servers. How long a step takes when trainers are not equally
fast: played through, event by event, with the very rules that the servers use.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from internals.distributed.server.consistency import Consistency, Contribution, Synchronous
from internals.distributed.server.placement import mixed
from internals.distributed.server.table import SparseTable, TableSpec

INDEX_BYTES = 16 / 0.5 * 1.5
"""Of a row's id and slot in the hash table: at most half of its places are taken, as a rule three quarters of that."""
ROW_BYTES = 16
"""Of a row's id and when it was touched."""


@dataclass(frozen=True)
class Costs:
    """What things take.

    Attributes
    ----------
    row_pull, row_push : float
        Seconds a server takes for one row of one request; see `measure`.
    bandwidth : float
        Bytes a second into, and as many out of, one machine.
    latency : float
        Seconds from one machine to another.
    message : float
        Seconds of a processor for one message.
    memory : float
        Bytes of a server.
    """

    row_pull: float
    row_push: float
    bandwidth: float = 25e9 / 8
    latency: float = 50e-6
    message: float = 50e-6
    memory: float = 256e9

    @classmethod
    def measure(cls, dim: int, rows: int = 1_000_000, asked: int = 20_000, seed: int = 0) -> Costs:
        """Measure what a row costs on this machine, the best of several tries.

        The network's figures are not measured: they are those of an Ethernet of 25 Gbit/s.

        Parameters
        ----------
        dim : int
            Numbers in a row.
        rows : int
            In the table. It should be larger than the caches, as a real one is.
        asked : int
            Rows in a request.
        """
        rng = np.random.default_rng(seed)
        table = SparseTable(TableSpec(dim))
        table.pull(np.arange(rows))
        gradients = rng.standard_normal((asked, dim)).astype(np.float32)
        pulls, pushes = [], []
        for _ in range(7):
            ids = np.unique(rng.integers(0, rows, asked))
            began = time.perf_counter()
            table.pull(ids)
            between = time.perf_counter()
            table.push(ids, gradients[: ids.size])
            pulls.append((between - began) / ids.size)
            pushes.append((time.perf_counter() - between) / ids.size)
        return cls(row_pull=min(pulls), row_push=min(pushes))


@dataclass(frozen=True)
class Workload:
    """A model that is mostly one sparse table, and the job that trains it.

    Attributes
    ----------
    rows, dim : int
        Of the table; their product is the number of parameters.
    trainers, servers : int
    ids : int
        That one batch of one trainer looks up, repetitions among them.
    zipf : float
        Of all look-ups, the row of rank r gets a part proportional to ``1 / r ** zipf``.
    compute : float
        Seconds a trainer computes in a step: the median.
    spread : float
        Of the logarithm of that time; 0: all are equally fast.
    state : int
        Numbers that the optimizer keeps for each parameter: 1 for AdaGrad.
    copies : int
        Of each row, on different servers.
    """

    rows: int
    dim: int
    trainers: int
    servers: int
    ids: int
    zipf: float = 1.0
    compute: float = 0.1
    spread: float = 0.2
    state: int = 1
    copies: int = 1

    @property
    def parameters(self) -> int:
        return self.rows * self.dim


@dataclass(frozen=True)
class Prediction:
    """What a step of a workload asks of the machines.

    Attributes
    ----------
    unique : float
        Different rows in the batch of one trainer.
    memory : float
        Bytes on each server.
    hottest : float
        How much more the busiest server has to do than the average one.
    cpu, network, ingest : float
        Seconds of a step that the busiest server computes; that its network is busy one way; and that a trainer's is.
    stragglers : float
        Seconds from the median trainer's end to the slowest one's, on average.
    step : float
        Seconds of a synchronous step.
    """

    unique: float
    memory: float
    hottest: float
    cpu: float
    network: float
    ingest: float
    stragglers: float
    step: float

    def limits(self, workload: Workload, costs: Costs) -> list[str]:
        """What breaks, or holds everything up, in words; the worst first."""
        found = [
            (self.memory / costs.memory, "memory", f"{self.memory / 1e9:,.0f} GB needed on a server"),
            (self.cpu / workload.compute, "server cpu", f"{1e3 * self.cpu:,.0f} ms of the busiest server a step"),
            (self.network / workload.compute, "server network", f"{1e3 * self.network:,.0f} ms one way a step"),
            (self.hottest / 2, "hot rows", f"the busiest server has {self.hottest:.1f} times the average"),
            (
                self.stragglers / workload.compute,
                "stragglers",
                f"{1e3 * self.stragglers:,.0f} ms lost at the barrier",
            ),
        ]
        return [f"{name}: {text}" for part, name, text in sorted(found, reverse=True) if part > 1]


def predict(workload: Workload, costs: Costs, *, seed: int = 0) -> Prediction:
    """What a step of this workload takes.

    Raises
    ------
    ValueError
        A number that must be positive is not.
    """
    for name in ("rows", "dim", "trainers", "servers", "ids", "compute", "copies"):
        if not getattr(workload, name) > 0:
            raise ValueError(f"predict: {name} must be positive, got {getattr(workload, name)!r}")
    if workload.zipf < 0 or workload.spread < 0 or workload.state < 0:
        raise ValueError("predict: zipf, spread and state must not be negative")
    unique, hottest = touched(workload.rows, workload.ids, workload.zipf, workload.servers)
    row_bytes = 4 * workload.dim * (1 + workload.state) + ROW_BYTES + INDEX_BYTES
    memory = workload.copies * workload.rows * row_bytes / workload.servers
    busiest = workload.trainers * unique * hottest / workload.servers
    wire = 8 + 4 * workload.dim
    cpu = busiest * (costs.row_pull + costs.row_push * workload.copies) + 2 * workload.trainers * costs.message
    network = busiest * wire / costs.bandwidth
    ingest = unique * wire / costs.bandwidth + 2 * workload.servers * costs.message
    waited = workload.compute * (slowest_of(workload.trainers, workload.spread) - 1)
    # Rows come in, gradients go out; a server's processor and network work side by side, on other trainers' requests.
    step = workload.compute + waited + max(cpu, 2 * network) + 2 * ingest + 4 * costs.latency
    return Prediction(unique, memory, hottest, cpu, network, ingest, waited, step)


def touched(rows: int, ids: int, zipf: float, servers: int, *, exact: int = 1 << 16) -> tuple[float, float]:
    """Of `ids` look-ups by Zipf's law: how many rows are different, and the busiest server's part over the average.

    Row r is in the batch with probability ``1 - (1 - p_r) ** ids``. The first `exact` rows are summed one by one and
    placed by the same hash as on real servers; the rest is integrated, and spread evenly.

    Returns
    -------
    unique, hottest : float
    """
    ranks = np.arange(1, min(rows, exact) + 1, dtype=np.float64)
    total = float((ranks**-zipf).sum()) + _power_sum(len(ranks), rows, zipf)
    inside = -np.expm1(ids * np.log1p(-np.minimum(ranks**-zipf / total, 1 - 1e-12)))
    owner = (mixed(np.arange(len(ranks))) % np.uint64(servers)).astype(np.int64)
    load = np.bincount(owner, weights=inside, minlength=servers).astype(np.float64)
    # A row beyond these is so rare that p is small, but there are many: on a grid, even in the logarithm.
    rest = 0.0
    if rows > len(ranks):
        edges = np.geomspace(len(ranks) + 0.5, rows + 0.5, 2001)
        middle = np.sqrt(edges[1:] * edges[:-1])
        rest = float((np.diff(edges) * -np.expm1(-ids * middle**-zipf / total)).sum())
    loads = load + rest / servers
    return float(loads.sum()), float(loads.max() / loads.mean())


def _power_sum(begin: int, end: int, zipf: float) -> float:
    """``sum(r ** -zipf)`` for r in (begin, end], by the integral with its ends half-way between numbers."""
    low, high = begin + 0.5, end + 0.5
    if high <= low:
        return 0.0
    return math.log(high / low) if zipf == 1 else (high ** (1 - zipf) - low ** (1 - zipf)) / (1 - zipf)


def slowest_of(trainers: int, spread: float, *, seed: int = 0, rounds: int = 2000) -> float:
    """The mean of the largest of so many log-normal times of median 1."""
    if not spread:
        return 1.0
    # The largest of n uniform numbers is the n-th root of one: no need to draw n.
    uniform = np.random.default_rng(seed).random(rounds) ** (1 / trainers)
    normal = NormalDist()
    return float(np.mean([math.exp(spread * normal.inv_cdf(min(one, 1 - 1e-15))) for one in uniform]))


@dataclass(frozen=True)
class Played:
    """How a run went that was played through.

    Attributes
    ----------
    seconds : float
        Until the last step of the last shard.
    ends : list of list of float
        For each shard, when it finished each step.
    staleness : list of int
        For each gradient that was applied: how often the parameters had moved since its values were given.
    late : int
        Gradients that came when nobody waited for them.
    """

    seconds: float
    ends: list[list[float]]
    staleness: list[int]
    late: int


def play(rule: Consistency, steps: int, compute: Callable[[int, int], float], *, turn: float = 0.0) -> Played:
    """Play a run through under one of the servers' own rules, event by event.

    Parameters
    ----------
    rule : Consistency
        A new one.
    steps : int
        Of each shard.
    compute : callable
        ``compute(shard, step)``: seconds.
    turn : float
        Seconds from the end of a computation to the gradient at the server, and from there back.
    """
    events: list[tuple[float, int, int, int]] = []
    given: dict[int, int] = {}
    waiting: dict[int, int] = dict.fromkeys(range(rule.shards), 0)
    version, staleness = 0, []
    ends: list[list[float]] = [[] for _ in range(rule.shards)]

    def let_go(now: float) -> None:
        for shard, step in sorted(waiting.items()):
            if rule.is_open(shard, step):
                del waiting[shard]
                # A straggler that was not waited for goes on with the newest values, not with those it missed.
                at = max(step, rule.version) if isinstance(rule, Synchronous) else step
                if at < steps:
                    given[shard] = version
                    begin = now + (turn if step else 0.0)
                    heapq.heappush(events, (begin + compute(shard, at), shard, at, 0))

    let_go(0.0)
    now = 0.0
    while events:
        now, shard, step, arrived = heapq.heappop(events)
        if not arrived:
            ends[shard].append(now)
            heapq.heappush(events, (now + turn, shard, step, 1))
            continue
        for together in rule.take(Contribution(shard, step)):
            staleness += [version - given[one.shard] for one in together] if not isinstance(rule, Synchronous) else []
            version += 1
        waiting[shard] = step + 1
        let_go(now)
    return Played(now, ends, staleness, rule.late)


def growing(workload: Workload, costs: Costs, name: str, values: list[int]) -> list[tuple[Workload, Prediction]]:
    """The same workload at several sizes: ``growing(w, costs, "servers", [10, 100])``."""
    return [(w, predict(w, costs)) for w in (replace(workload, **{name: value}) for value in values)]
