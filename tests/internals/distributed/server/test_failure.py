"""Trainers and servers that die, in one process: who takes over, and that the result is what it would have been."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from server_jobs import Job, Killed, parameters, until, work

from internals.distributed.errors import DeadlineExceeded, PeerLost, RemoteError
from internals.distributed.server import Checkpoints, Gradients, TableSpec
from internals.optim import Adam


def adam(tensors: Any) -> Adam:
    return Adam(tensors, lr=0.05)


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


# Trainers


def kill_at(one: Job, rank: int, step: int) -> Callable[..., Gradients]:
    """Work in which one trainer is killed while it computes."""

    def killed(values: dict[str, np.ndarray], shard: int, at: int) -> Gradients:
        if threading.current_thread().name == f"trainer {rank}" and at == step:
            one.network.kill(f"trainer:{rank}")
            raise Killed
        return work(values, shard, at)

    return killed


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("step", [0, 4])
def test_others_take_over_and_the_result_is_the_same(job: Callable[..., Job], rank: int, step: int) -> None:
    undisturbed = job(servers=2, shards=3, optimizer=adam).train(3, 8)
    one = job(servers=2, shards=3, optimizer=adam)
    left = one.train(3, 8, work=kill_at(one, rank, step))
    others = [trainer for number, trainer in enumerate(left) if number != rank]
    assert sorted(shard for trainer in others for shard in trainer.taken_over) == [rank]
    for trainer in others:
        assert same(trainer.client.values, undisturbed[0].client.values)
    assert one.servers[0].stats()["lost"].keys() == {f"trainer:{rank}"}


def test_two_die_and_the_last_one_does_all_the_work(job: Callable[..., Job]) -> None:
    undisturbed = job(servers=2, shards=3).train(3, 8)
    one = job(servers=2, shards=3)
    first, second = kill_at(one, 0, 2), kill_at(one, 2, 5)

    def killed(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        return (first if threading.current_thread().name == "trainer 0" else second)(values, shard, step)

    left = one.train(3, 8, work=killed)
    assert left[1].taken_over == [0, 2]
    assert same(left[1].client.values, undisturbed[0].client.values)


@pytest.mark.slow
@pytest.mark.parametrize("reached", [0, 1])
def test_a_trainer_dies_when_only_some_servers_have_its_gradient(job: Callable[..., Job], reached: int) -> None:
    """The step is over on one server and not on the other; who takes over repeats it with the values it had."""
    undisturbed = job(servers=3, shards=3, optimizer=adam).train(3, 8, split=4)
    one = job(servers=3, shards=3, optimizer=adam)

    def half_pushed(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        if threading.current_thread().name == "trainer 1" and step == 3:
            (client,) = (client for client in one.clients if client.name == "trainer:1")
            start, sent = client.endpoint.start, []

            def start_some(peer: str, message: Any, *more: Any) -> int:
                if len(sent) > reached:
                    one.network.kill("trainer:1")
                    raise Killed
                sent.append(peer)
                return start(peer, message, *more)

            client.endpoint.start = start_some  # type: ignore[method-assign]
        return work(values, shard, step)

    left = one.train(3, 8, work=half_pushed, split=4)
    for trainer in (left[0], left[2]):
        assert same(trainer.client.values, undisturbed[0].client.values)


@pytest.mark.parametrize(
    "settings", [{"mode": "async"}, {"mode": "ssp", "staleness": 0}, {"mode": "ssp", "staleness": 2}]
)
def test_without_a_barrier_too_all_shards_do_all_steps(job: Callable[..., Job], settings: dict) -> None:
    one = job(servers=2, shards=3, **settings)
    left = one.train(3, 8, work=kill_at(one, 1, 3))
    assert [server.stats()["clocks"] for server in one.servers] == [[8, 8, 8]] * 2
    done = {key for trainer in left for key in trainer.losses}
    assert {(shard, step) for shard in range(3) for step in range(8)} == done


def test_a_spare_takes_over(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=2)
    killed = kill_at(one, 0, 2)

    def with_a_spare(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        until(lambda: all("trainer:2" in server._trainers for server in one.servers))
        return killed(values, shard, step)

    left = one.train(3, 8, work=with_a_spare)
    assert left[2].taken_over == [0]
    assert left[1].taken_over == []


def test_a_trainer_that_comes_back_gets_its_shard_back(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=2)
    first, second = one.client(0), one.client(1)
    first.init(parameters())
    one.network.kill("trainer:1")
    first.refresh(["trainer:1"])
    assert first.shards == [0, 1]
    again = one.client(1)
    again.init()
    first.refresh()
    assert (first.shards, again.shards) == ([0], [1])
    assert second.name == again.name


def test_a_trainer_leaves_and_another_goes_on(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=2)
    first, second = one.client(0), one.client(1)
    first.init(parameters())
    second.close(done=False)
    first.refresh()
    assert first.shards == [0, 1]


# Servers


def restart_at(one: Job, index: int, step: int, *, wait: float = 0.0) -> Callable[..., Gradients]:
    """Work in which a server is killed, and comes back after that."""
    lock, done = threading.Lock(), []

    def killed(values: dict[str, np.ndarray], shard: int, at: int) -> Gradients:
        with lock:
            if at == step and not done:
                done.append(at)
                one.network.kill(f"server:{index}")
                threading.Timer(wait, lambda: one.servers.__setitem__(index, one.start_server(index))).start()
        return work(values, shard, at)

    return killed


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("step", "wait"), [(0, 0.1), (5, 0.0), (6, 0.2), (7, 0.1)])
def test_a_server_comes_back_and_the_result_is_the_same(
    job: Callable[..., Job], tmp_path: Path, index: int, step: int, wait: float
) -> None:
    settings = {"servers": 2, "shards": 2, "optimizer": adam, "every": 3}
    undisturbed = job(**settings).train(2, 10, split=6)
    one = job(**settings, checkpoint=tmp_path)
    done = one.train(2, 10, work=restart_at(one, index, step, wait=wait), split=6)
    for trainer in done:
        assert same(trainer.client.values, undisturbed[0].client.values)
        assert trainer.losses.keys() >= {(trainer.client.shards[0], step) for step in range(10)}
    assert [server.stats()["generation"] for server in one.servers] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_a_server_comes_back_when_a_trainer_is_gone(job: Callable[..., Job], tmp_path: Path, together: bool) -> None:
    """It knows nothing of who took over; or nobody has yet, since the trainer died while the server was away."""
    settings = {"servers": 1, "shards": 3, "optimizer": adam, "every": 2}
    undisturbed = job(**settings).train(3, 10)
    one = job(**settings, checkpoint=tmp_path, rejoin=0.3)
    server, trainer = restart_at(one, 0, 6, wait=0.1), kill_at(one, 1, 6 if together else 3)

    def both(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        server(values, shard, step)
        return trainer(values, shard, step)

    left = one.train(3, 10, work=both)
    for rank in (0, 2):
        assert same(left[rank].client.values, undisturbed[0].client.values)


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_without_a_barrier_a_server_and_a_trainer_die_at_once(
    job: Callable[..., Job], tmp_path: Path, index: int
) -> None:
    """The server that comes back has never seen the trainer, so it can't lose it; it wakes who waits all the same."""
    one = job(servers=2, shards=2, mode="ssp", staleness=1, checkpoint=tmp_path, every=3, rejoin=0.3)
    server, trainer = restart_at(one, index, 5, wait=0.1), kill_at(one, 1, 5)

    def both(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        server(values, shard, step)
        return trainer(values, shard, step)

    one.train(2, 10, work=both, split=6)
    assert [server.stats()["clocks"] for server in one.servers] == [[10, 10]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"mode": "async"}, {"mode": "ssp", "staleness": 1}])
def test_without_a_barrier_a_server_comes_back_and_training_ends(
    job: Callable[..., Job], tmp_path: Path, settings: dict
) -> None:
    one = job(servers=2, shards=2, checkpoint=tmp_path, every=4, **settings)
    done = one.train(2, 12, work=restart_at(one, 1, 6, wait=0.05), split=6)
    assert [server.stats()["clocks"] for server in one.servers] == [[12, 12]] * 2
    assert all(np.isfinite(value).all() for value in done[0].client.values.values())


@pytest.mark.slow
def test_all_start_again_from_their_checkpoints(job: Callable[..., Job], tmp_path: Path) -> None:
    """As after a power cut; one server had come further than the other when it ended."""
    settings = {"servers": 2, "shards": 2, "optimizer": adam, "every": 2}
    undisturbed = job(**settings).train(2, 10)
    first = job(**settings, checkpoint=tmp_path)
    first.train(2, 5)
    first.close()
    Checkpoints(tmp_path, 1, 2).path(4).unlink()

    second = job(**settings, checkpoint=tmp_path, together=True)
    done = second.train(2, 10)
    assert same(done[0].client.values, undisturbed[0].client.values)
    assert min(step for _, step in done[0].losses) == 2


@pytest.mark.slow
def test_a_server_comes_back(job: Callable[..., Job], tmp_path: Path) -> None:
    undisturbed = job(shards=1, every=2).train(1, 6)
    one = job(shards=1, every=2, checkpoint=tmp_path)
    done = one.train(1, 6, work=restart_at(one, 1, 3))
    assert same(done[0].client.values, undisturbed[0].client.values)


def test_tables_come_back_too(job: Callable[..., Job], tmp_path: Path) -> None:
    one = job(servers=1, shards=1, checkpoint=tmp_path)
    client = one.client()
    client.create_table("users", TableSpec(3, capacity=50))
    rng = np.random.default_rng(0)
    for step in range(12):
        ids = rng.integers(0, 100, 9)
        client.push({}, step=step, rows={"users": (ids, rng.standard_normal((9, 3)).astype(np.float32))})
    rows = client.pull_rows({"users": np.arange(100)}, create=False)["users"]
    (step,) = client.checkpoint()
    assert step == 12
    client.push({}, step=12, rows={"users": (np.arange(40), np.ones((40, 3), np.float32))})
    one.network.kill("server:0")
    one.servers[0] = one.start_server(0)
    again = one.client(1)
    again.create_table("users", TableSpec(3, capacity=50))
    assert (again.pull_rows({"users": np.arange(100)}, create=False)["users"] == rows).all()


@pytest.mark.slow
def test_a_server_that_stays_away_is_named(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=1)
    client = one.client()
    client.init(parameters())
    client._links._patience = 0.1
    one.network.kill("server:1")
    with pytest.raises(PeerLost, match=r"server:1 at inproc://server:1 did not come back within 0.1 s"):
        client.pull()


def test_a_server_that_comes_back_empty_is_named(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=1)
    client = one.client(patience=3)
    client.init(parameters())
    one.network.kill("server:1")
    one.servers[1] = one.start_server(1)
    with pytest.raises(PeerLost, match="server:1.*came back without its parameters.*checkpoint="):
        client.pull()


@pytest.mark.slow
def test_who_is_waited_for_is_named(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=3)
    client, other = one.client(0), one.client(1)
    client.init(parameters())
    other.init(parameters())
    client._links._deadline = 0.1
    with pytest.raises(
        DeadlineExceeded,
        match=r"trainer:0: server:[01] .* 0.1 s: it waits for step 1 of data shard 1 of trainer:1, data shard 2 of no ",
    ):
        client.pushpull({}, shard=0, step=0)


# Disks


def test_a_full_disk_is_an_error_and_the_last_checkpoint_is_whole(
    job: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = job(servers=1, shards=1, checkpoint=tmp_path)
    client = one.client()
    client.init(parameters())
    client.checkpoint()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    client.push({}, step=0)
    with pytest.raises(
        RemoteError,
        match=r"server:0.*OSError.*checkpoint of step 1: .*server-0-of-1-0000000001.npz "
        r"\(0.0 MB\) could not be written: No space left on device; the last whole one is of step 0",
    ):
        client.checkpoint()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert "No space left" in client.stats()[0]["unsaved"]
    client.push({}, step=1)  # training goes on
    monkeypatch.undo()
    assert client.checkpoint() == [2]
    assert client.stats()[0]["unsaved"] is None


def test_what_a_killed_writer_left_is_no_checkpoint(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, 0, 1)
    kept.save(3, {"version": 3}, {"a": np.arange(5)})
    kept.path(4).with_suffix(".part").write_bytes(b"half")
    assert kept.steps() == [3]
    again = Checkpoints(tmp_path, 0, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["server-0-of-1-0000000003.npz"]
    assert again.load(3)[1]["a"].tolist() == [0, 1, 2, 3, 4]


def test_old_checkpoints_go_and_those_of_other_servers_stay(tmp_path: Path) -> None:
    mine, other = Checkpoints(tmp_path, 1, 2), Checkpoints(tmp_path, 11, 12)
    other.save(1, {}, {})
    for step in range(6):
        mine.save(step, {}, {})
    assert mine.steps() == [3, 4, 5]
    assert other.steps() == [1]
    mine.forget_after(3)
    assert mine.steps() == [3]


@pytest.mark.parametrize("cut", [0, 10, 200, -1])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, cut: int) -> None:
    kept = Checkpoints(tmp_path, 0, 1)
    path = kept.save(1, {"version": 1}, {"a": np.random.default_rng(0).standard_normal(1000)})
    data = bytearray(path.read_bytes())
    if cut < 0:
        data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data) if cut < 0 else data[:cut])
    with pytest.raises(ValueError, match=r"server-0-of-1-0000000001.npz is damaged"):
        kept.load(1)


@pytest.mark.slow
def test_any_bit_of_a_checkpoint_that_flips_is_found_or_of_no_matter(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, 0, 1)
    rng = np.random.default_rng(0)
    arrays, complaints = {"a": rng.standard_normal(3)}, []
    path = kept.save(1, {"version": 1}, arrays)
    whole = path.read_bytes()
    directory = whole.index(b"PK\x01\x02")  # zip's, which has no checksum of its own
    flips = [(place, int(rng.integers(8))) for place in range(0, directory, 3)]
    flips += [(place, bit) for place in range(directory, len(whole)) for bit in range(8)]
    for place, bit in flips:
        data = bytearray(whole)
        data[place] ^= 1 << bit
        path.write_bytes(data)
        try:
            plain, found = kept.load(1)
        except ValueError as error:
            complaints.append(str(error))
            continue
        assert plain == {"version": 1}
        assert found.keys() == arrays.keys()
        np.testing.assert_array_equal(found["a"], arrays["a"])
    assert len(complaints) > len(flips) / 3
    assert all("server-0-of-1-0000000001.npz is damaged" in one for one in complaints)


def test_a_checkpoint_of_another_optimizer_or_mode_is_refused(job: Callable[..., Job], tmp_path: Path) -> None:
    one = job(servers=1, shards=1, checkpoint=tmp_path)
    one.client().init(parameters())
    one.servers[0].close()
    with pytest.raises(ValueError, match="made with SGD, this server trains 'b' with Adam"):
        job(servers=1, shards=1, checkpoint=tmp_path, optimizer=adam)
    with pytest.raises(ValueError, match="of mode 'sync', this server runs 'async'"):
        job(servers=1, shards=1, checkpoint=tmp_path, mode="async")
    with pytest.raises(ValueError, match="of 1 data shards, this server of 2"):
        job(servers=1, shards=2, checkpoint=tmp_path)


def test_there_is_no_directory_for_checkpoints(job: Callable[..., Job]) -> None:
    client = job(servers=2, shards=1).client()
    client.init(parameters())
    with pytest.raises(RemoteError, match="server:0.*without a directory for checkpoints; pass checkpoint="):
        client.checkpoint()
