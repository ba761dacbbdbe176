"""Collectives and data parallel training in real processes, over shared memory and over sockets."""

from __future__ import annotations

from pathlib import Path

import collective_jobs
import numpy as np
import pytest

from internals.distributed import collectives
from internals.distributed.errors import PeerLost
from internals.distributed.group import run_processes, run_threads

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("transport", "ranks"), [("shm", 4), ("tcp", 3)])
def test_the_same_bits_on_every_rank(transport: str, ranks: int) -> None:
    answers = run_processes(ranks, collective_jobs.reductions, transport=transport, deadline=200.0)
    for answer in answers:
        assert answer == answers[0]
        assert set(answer) == set(collectives.ALGORITHMS)
        assert all(worst < 1e-5 for found in answer.values() for _, worst in found)


@pytest.mark.parametrize(("transport", "algorithm"), [("shm", "pairwise"), ("tcp", "ring"), ("shm", "tree")])
def test_a_killed_rank_is_named_by_all_others(
    tmp_path: Path, transport: str, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("internals.distributed.group.processes.REST", 60.0)  # all others have the time to find out
    with pytest.raises(PeerLost, match="rank:2|rank 2"):
        run_processes(4, collective_jobs.one_dies, str(tmp_path), algorithm, transport=transport, deadline=100.0)
    told = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert told == dict.fromkeys("013", "PeerLost rank:2")


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_mismatch_is_named_by_every_rank(transport: str) -> None:
    for told in run_processes(3, collective_jobs.they_disagree, transport=transport, deadline=100.0):
        assert told.startswith("MismatchError")
        assert "rank 1 called all_reduce(sum, float32 (100001,), ring)" in told
        assert "float32 (100000,)" in told


@pytest.mark.parametrize("way", ["ddp", "zero-1", "zero-2", "fsdp"])
def test_training_in_processes_is_training_in_one(way: str) -> None:
    alone = run_threads(1, collective_jobs.trained, "alone")[0]
    for state in run_processes(2, collective_jobs.trained, way, deadline=100.0):
        for name, value in alone.items():
            np.testing.assert_allclose(state[name], value, atol=2e-5)
