"""Servers that die while trainers stand in their barrier: those wait on, or are told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from server_jobs import Job, parameters, until, work

from internals.distributed.errors import PeerLost
from internals.distributed.server import Gradients
from internals.optim import Adam

pytestmark = pytest.mark.slow


def adam(tensors: Any) -> Adam:
    return Adam(tensors, lr=0.05)


def standing(one: Job, index: int) -> set[str]:
    """Who has pushed to a server and waits there for the others."""
    return {waiting.message.source for waiting in one.servers[index]._waiting}


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("step", [0, 5])
def test_a_server_dies_while_trainers_stand_in_its_barrier_and_comes_back(
    job: Callable[..., Job], tmp_path: Path, index: int, step: int
) -> None:
    """At step 0 too: it has nothing to come back from but what it began with."""
    settings = {"servers": 2, "shards": 3, "optimizer": adam, "every": 2}
    undisturbed = job(**settings).train(3, 8, split=6)
    one, killed = job(**settings, checkpoint=tmp_path), []

    def last(values: dict[str, np.ndarray], shard: int, at: int) -> Gradients:
        if threading.current_thread().name == "trainer 2" and at == step and not killed:
            until(lambda: standing(one, index) == {"trainer:0", "trainer:1"})
            killed.append(at)
            one.network.kill(f"server:{index}")
            one.servers[index] = one.start_server(index)
        return work(values, shard, at)

    done = one.train(3, 8, work=last, split=6)
    assert killed == [step]
    assert [server.stats()["generation"] for server in one.servers] == [1, 1]
    for trainer in done:
        for name, value in undisturbed[0].client.values.items():
            assert (trainer.client.values[name] == value).all()


@pytest.mark.parametrize("index", [0, 1])
def test_a_server_dies_for_good_and_everybody_in_its_barrier_is_told(job: Callable[..., Job], index: int) -> None:
    one = job(servers=2, shards=3)
    clients = [one.client(rank, patience=0.2) for rank in range(2)]
    for client in clients:
        client.init(parameters())
        client._links._patience = 0.2
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.pushpull, {}, shard=rank, step=0) for rank, client in enumerate(clients)]
        until(lambda: all(standing(one, server) == {"trainer:0", "trainer:1"} for server in range(2)))
        one.network.kill(f"server:{index}")
        for call in waiting:
            with pytest.raises(PeerLost, match=f"server:{index} at .* did not come back within 0.2 s") as raised:
                call.result(60)
            assert raised.value.peer == f"server:{index}"
