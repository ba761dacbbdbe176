"""The simulation, held against what small jobs really do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from server_jobs import Job

from internals.distributed.server import Gradients, SparseTable, TableSpec, server_of_rows
from internals.distributed.server.consistency import Asynchronous, BoundedStaleness, Consistency, Synchronous
from internals.distributed.server.simulate import Costs, Workload, growing, play, predict, slowest_of, touched
from internals.optim import SGD

COSTS = Costs(row_pull=2e-7, row_push=5e-7)
SMALL = Workload(rows=100_000, dim=8, trainers=4, servers=3, ids=2000, zipf=1.1)


@pytest.mark.slow
@pytest.mark.parametrize("zipf", [0.0, 0.7, 1.0, 1.4])
@pytest.mark.parametrize("exact", [500, 1 << 16])
def test_the_rows_of_a_batch(zipf: float, exact: int) -> None:
    """Drawn batches have as many different rows as predicted, and load servers as predicted."""
    rng = np.random.default_rng(0)
    rows, ids, servers = 40_000, 3000, 5
    weight = np.arange(1.0, rows + 1) ** -zipf
    found, load = [], np.zeros(servers)
    for _ in range(20):
        batch = np.unique(rng.choice(rows, ids, p=weight / weight.sum()))
        found.append(batch.size)
        load += np.bincount(server_of_rows(batch, servers), minlength=servers)
    unique, hottest = touched(rows, ids, zipf, servers, exact=exact)
    assert unique == pytest.approx(np.mean(found), rel=0.02)
    assert hottest == pytest.approx(load.max() / load.mean(), abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["adagrad", "sgd"])
def test_the_memory_of_a_server(rule: str) -> None:
    rows = 50_000
    table = SparseTable(TableSpec(8, rule=rule, capacity=rows))
    for begin in range(0, rows, 5000):
        table.pull(np.arange(begin, begin + 5000))
    workload = replace(SMALL, rows=rows, servers=1, state=int(rule == "adagrad"))
    assert predict(workload, COSTS).memory == pytest.approx(table.nbytes, rel=0.25)


def test_the_bytes_of_a_step() -> None:
    """What really goes to the busiest of three servers is what its network is said to carry."""
    rng = np.random.default_rng(1)
    one = Job(servers=3, shards=1)
    client = one.client()
    client.create_table("rows", TableSpec(SMALL.dim))
    weight = np.arange(1.0, SMALL.rows + 1) ** -SMALL.zipf
    sent = dict.fromkeys(range(3), 0)
    start = client.endpoint.start

    def counted(peer: str, message: object, *more: object) -> int:
        if message.kind == "push":  # type: ignore[attr-defined]
            sent[int(peer[-1])] += message.nbytes  # type: ignore[attr-defined]
        return start(peer, message, *more)  # type: ignore[arg-type]

    client.endpoint.start = counted  # type: ignore[method-assign]
    for step in range(8):
        ids = rng.choice(SMALL.rows, SMALL.ids, p=weight / weight.sum())
        client.push({}, step=step, rows={"rows": (ids, np.ones((SMALL.ids, SMALL.dim), np.float32))})
    one.close()
    expected = predict(replace(SMALL, trainers=1), COSTS).network * COSTS.bandwidth
    assert max(sent.values()) / 8 == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("trainers", [1, 7, 300])
def test_the_slowest_of_many(spread: float, trainers: int) -> None:
    drawn = np.exp(spread * np.random.default_rng(2).standard_normal((4000, trainers))).max(axis=1).mean()
    assert slowest_of(trainers, spread) == pytest.approx(drawn, rel=0.05)


RULES: dict[str, Callable[[], Consistency]] = {
    "sync": lambda: Synchronous(3),
    "backup": lambda: Synchronous(3, 1),
    "ssp0": lambda: BoundedStaleness(3, 0),
    "ssp2": lambda: BoundedStaleness(3, 2),
    "async": lambda: Asynchronous(3),
}


def seconds(shard: int, step: int) -> float:
    """One shard is slow in every step, another in one."""
    return 3.0 if shard == 2 else 7.5 if (shard, step) == (1, 2) else 1.0


def test_runs_that_can_be_worked_out() -> None:
    steps = 6
    played = {name: play(rule(), steps, seconds) for name, rule in RULES.items()}
    slowest = [max(seconds(shard, step) for shard in range(3)) for step in range(steps)]
    assert played["sync"].seconds == played["ssp0"].seconds == sum(slowest)
    assert played["async"].seconds == max(sum(seconds(shard, s) for s in range(steps)) for shard in range(3)) == 18
    assert [ends[-1] for ends in played["async"].ends] == [6.0, 12.5, 18.0]
    assert played["sync"].staleness == []
    assert len(played["async"].staleness) == 3 * steps
    for name, ends in ((name, one.ends) for name, one in played.items()):
        bound = {"sync": 0, "ssp0": 0, "ssp2": 2}.get(name)
        for shard in range(3):
            for step in range(steps if bound is not None else 0):
                begun = ends[shard][step] - seconds(shard, step)
                assert all(sum(end <= begun for end in other) >= step - bound for other in ends)
    assert played["backup"].seconds < played["sync"].seconds
    assert played["backup"].late > 0


@pytest.mark.parametrize("name", ["ssp0", "ssp2"])
def test_a_real_run_is_what_was_played(name: str) -> None:
    """Threads that take their turns as the played events do: who may go on when is the same, event for event."""
    steps = 4
    played = play(RULES[name](), steps, seconds)
    order = sorted((end, shard, step) for shard, ends in enumerate(played.ends) for step, end in enumerate(ends))
    turns = {(shard, step): number for number, (_, shard, step) in enumerate(order)}
    turn, seen = threading.Condition(), []

    def work(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        with turn:
            # It waits for the end of its computation; what must be over before that has been pushed by others.
            assert turn.wait_for(lambda: len(seen) == turns[shard, step], 20)
            seen.append((shard, step))
            turn.notify_all()
        return Gradients(0.0, {"w": np.zeros(2)})

    staleness = int(name[-1])
    job = Job(servers=1, shards=3, optimizer=lambda p: SGD(p, lr=1.0), mode="ssp", staleness=staleness)
    job.train(3, steps, work=work, start={"w": np.zeros(2)})
    stats = job.servers[0].stats()
    job.close()
    assert [(shard, step) for _, shard, step in order] == seen
    assert sum(stats["staleness"].values()) == len(played.staleness) == 3 * steps


def test_what_breaks_first() -> None:
    huge = Workload(rows=10**12 // 64, dim=64, trainers=300, servers=300, ids=200_000, compute=0.2)
    assert huge.parameters == 10**12
    broken = {
        "memory": replace(huge, servers=20),
        "server cpu": replace(huge, trainers=5000),
        "hot rows": replace(huge, zipf=2.0, ids=100),
        "stragglers": replace(huge, spread=0.5),
        "server network": replace(huge, trainers=3000, dim=640, rows=10**12 // 640),
    }
    for name, workload in broken.items():
        costs = replace(COSTS, row_pull=1e-9, row_push=1e-9, message=0.0) if name == "server network" else COSTS
        assert name in [limit.split(":")[0] for limit in predict(workload, costs).limits(workload, costs)], name
    easy = replace(huge, ids=2000, spread=0.05)
    assert predict(easy, COSTS).limits(easy, COSTS) == []


def test_more_servers_help_until_messages_cost_more() -> None:
    steps = [one.step for _, one in growing(replace(SMALL, ids=50_000), COSTS, "servers", [1, 4, 16, 4096])]
    assert steps[0] > steps[1] > steps[2]
    assert steps[3] > steps[2]


@pytest.mark.slow
def test_measured_costs_are_costs() -> None:
    costs = Costs.measure(8, rows=20_000, asked=2000)
    assert 0 < costs.row_pull < 1e-3
    assert 0 < costs.row_push < 1e-3


@pytest.mark.parametrize("change", [{"servers": 0}, {"ids": -1}, {"zipf": -1.0}, {"compute": 0.0}, {"spread": -0.1}])
def test_workloads_that_make_no_sense(change: dict) -> None:
    with pytest.raises(ValueError, match=f"predict: .*{next(iter(change))}"):
        predict(replace(SMALL, **change), COSTS)
