"""Three decisions on plain data: what runs, where, and where the graph is cut."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from distributed_graphs import TASKS, perceptron

from internals.distributed import runtime
from internals.distributed.errors import RemoteError
from internals.distributed.runtime import Record, cut, place, prune
from internals.graph import GraphError


def drawn(seed: int, size: int = 30, devices: int = 3) -> tuple[dict[str, Record], dict[str, str]]:
    rng = random.Random(seed)
    graph: dict[str, Record] = {}
    for i in range(size):
        earlier = list(graph)
        inputs = tuple(rng.choices(earlier, k=rng.randrange(3))) if earlier else ()
        controls = tuple(rng.sample(earlier, k=min(len(earlier), rng.randrange(2))))
        graph[f"n{i}"] = Record("add", inputs, controls)
    return graph, {name: f"d{rng.randrange(devices)}" for name in graph}


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_runs_in_order_with_receives_that_block(seed: int) -> None:
    """Each device does its steps one after the other; whoever receives waits. All come to their end, in any order."""
    graph, places = drawn(seed)
    parts = cut(graph, places)
    rng = random.Random(seed)
    done: dict[str, set[str]] = {device: set() for device in parts}
    wire: set[tuple[str, str]] = set()
    at = dict.fromkeys(parts, 0)
    while any(at[device] < len(parts[device]) for device in parts):
        able = []
        for device in parts:
            if at[device] < len(parts[device]):
                kind, name, *_ = parts[device][at[device]]
                if kind != "recv" or (name, device) in wire:
                    able.append(device)
        assert able, "every device waits: a deadlock"
        device = rng.choice(able)
        kind, name, *other = parts[device][at[device]]
        at[device] += 1
        if kind == "send":
            assert name in done[device]
            assert (name, other[0]) not in wire, "sent once"
            wire.add((name, other[0]))
        elif kind == "run":
            assert places[name] == device
            assert {*graph[name].inputs, *graph[name].controls} <= done[device]
        done[device].add(name)
    assert sum(step[0] == "run" for steps in parts.values() for step in steps) == len(graph)
    sends = {(step[1], step[2]) for steps in parts.values() for step in steps if step[0] == "send"}
    wanted = {
        (source, places[name])
        for name, record in graph.items()
        for source in (*record.inputs, *record.controls)
        if places[source] != places[name]
    }
    assert sends == wanted


@pytest.mark.parametrize("seed", range(20))
def test_pruning(seed: int) -> None:
    graph, _ = drawn(seed)
    fetches = random.Random(seed).sample(list(graph), 3)
    found = prune(graph, fetches)
    assert set(fetches) <= found
    needed = set(fetches)
    for name in reversed(graph):
        if name in needed:
            needed.update(graph[name].inputs, graph[name].controls)
    assert found == needed
    assert prune(graph, []) == set()


def test_a_long_chain() -> None:
    graph = {f"n{i}": Record("add", (f"n{i - 1}",) if i else (), device=f"d{i % 2}") for i in range(5000)}
    assert len(prune(graph, ["n4999"])) == 5000
    assert sum(map(len, cut(graph, place(graph, "d0")).values())) == 5000 + 2 * 4999


def test_places() -> None:
    graph = {
        "v": Record("variable", device="ps"),
        "slot": Record("variable", device="cpu of nobody", beside="v"),
        "c": Record("constant"),
        "x": Record("add", ("v", "c"), device="worker"),
        "y": Record("add", ("x",)),
        "assign": Record("assign", ("v", "x"), device="worker", beside="v"),
        "loose": Record("variable"),
        "more": Record("assign", ("loose", "x"), device="worker", beside="loose"),
    }
    assert place(graph, "default") == {
        "v": "ps", "slot": "ps", "c": "default", "x": "worker", "y": "default", "assign": "ps", "loose": "default",
        "more": "default",
    }  # fmt: skip


# --- other pieces -------------------------------------------------------------------------------------


def a_send_per_reader(graph: Any, places: Any) -> Any:
    twice = {"send": 2, "recv": 2, "run": 1}
    return {d: [s for step in steps for s in [step] * twice[step[0]]] for d, steps in cut(graph, places).items()}


def without(kind: str) -> Callable[..., Any]:
    return lambda graph, places: {
        d: [step for step in steps if step[0] != kind] for d, steps in cut(graph, places).items()
    }


def moved(graph: Any, places: Any) -> Any:
    parts = cut(graph, places)
    names = list(parts)
    return {name: parts[names[number - 1]] for number, name in enumerate(names)}


def late(graph: Any, places: Any) -> Any:
    return {d: sorted(steps, key=lambda step: step[0] == "recv") for d, steps in cut(graph, places).items()}


@pytest.mark.parametrize(
    ("piece", "told"),
    [
        ({"cut": a_send_per_reader}, "once is enough for all readers"),
        ({"cut": without("send")}, "would wait for ever"),
        ({"cut": without("recv")}, "where nobody receives it"),
        ({"cut": without("run")}, "which does not run there"),
        ({"cut": moved}, "it was placed on"),
        ({"cut": late}, "has run or been received there"),
        ({"prune": lambda graph, fetches: set(fetches)}, "was left out, and .* needs it"),
        ({"prune": lambda graph, fetches: {name for name in prune(graph, fetches) if name not in fetches}}, "left out"),
        ({"place": lambda graph, default: {}}, "was given no device|KeyError"),
        ({"place": lambda graph, default: {n: f"/job:ps/task:{i % 2}/cpu:0" for i, n in enumerate(graph)}}, "beside"),
    ],
)  # fmt: skip
def test_pieces_that_are_wrong_are_found_out(piece: dict[str, Any], told: str) -> None:
    built = perceptron(True, np.random.default_rng(0))

    def train() -> None:
        with cluster.session(built[0], deadline=20.0) as session:
            session.initialise()
            session.run(built[1], built[2])

    with (
        runtime.InprocCluster(TASKS) as cluster,
        runtime.swap(**piece),
        pytest.raises((GraphError, RemoteError), match=told),
    ):
        train()


def test_a_piece_is_asked() -> None:
    asked: list[str] = []

    def mine(graph: Any, places: Any) -> Any:
        asked.append("cut")
        return cut(graph, places)

    built = perceptron(True, np.random.default_rng(0))
    with runtime.InprocCluster(TASKS) as cluster, runtime.swap(cut=mine), cluster.session(built[0]) as session:
        session.initialise()
        session.run(built[1], built[2])
        session.run(built[1], built[2])
    assert asked == ["cut"], "once for each set of fetches"
    with pytest.raises(ValueError, match="no piece called glue"), runtime.swap(glue=len):
        pass
