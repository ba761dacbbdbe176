"""Servers and trainers in one process: what comes out is what one process would have computed, or within its bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from server_jobs import Job, alone, loss_and_gradients, parameters, plain_sgd, work
from server_jobs import batch as batch_of

from internals.distributed.server import EightBit, Gradients, TableSpec, TopK
from internals.distributed.transport import Faults
from internals.optim import SGD, Adam

OPTIMIZERS = {
    "sgd": plain_sgd,
    "momentum": lambda tensors: SGD(tensors, lr=0.1, momentum=0.9),
    "adam": lambda tensors: Adam(tensors, lr=0.05),
}


def test_the_gradients_of_these_tests_are_right() -> None:
    values, (x, y) = parameters(), batch_of(0, 0)
    _, gradients = loss_and_gradients(values, x, y)
    for name, value in values.items():
        direction = np.random.default_rng(1).standard_normal(value.shape)
        up, down = ({**values, name: value + sign * 1e-6 * direction} for sign in (1, -1))
        slope = (loss_and_gradients(up, x, y)[0] - loss_and_gradients(down, x, y)[0]) / 2e-6
        assert slope == pytest.approx((gradients[name] * direction).sum(), rel=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("servers", "trainers", "how"), [(1, 1, "hash"), (2, 3, "hash"), (3, 2, "range")])
def test_in_step_is_one_process_on_the_joined_batch(
    job: Callable[..., Job], name: str, servers: int, trainers: int, how: str
) -> None:
    one = job(servers=servers, shards=trainers, optimizer=OPTIMIZERS[name])
    done = one.train(trainers, 8, how=how, split=6)
    expected = alone(trainers, 8, OPTIMIZERS[name])
    for trainer in done:
        for parameter, value in expected.items():
            np.testing.assert_allclose(trainer.client.values[parameter], value, rtol=1e-12, atol=1e-13)
    assert max(abs(expected[name] - start).max() for name, start in parameters().items()) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_in_step_is_torch_on_the_joined_batch(job: Callable[..., Job], name: str) -> None:
    torch = pytest.importorskip("torch")
    done = job(servers=2, shards=3, optimizer=OPTIMIZERS[name]).train(3, 20, split=6)
    tensors = {key: torch.tensor(value, requires_grad=True) for key, value in parameters().items()}
    made = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.05),
    }[name](list(tensors.values()))
    for step in range(20):
        batches = [batch_of(shard, step) for shard in range(3)]
        x, y = (torch.tensor(np.concatenate(parts)) for parts in zip(*batches, strict=True))
        product = torch.tanh(x @ tensors["w"] + tensors["b"]) @ tensors["v"]
        made.zero_grad()
        ((tensors["scale"] * product - y) ** 2).mean().backward()
        made.step()
    for key, tensor in tensors.items():
        np.testing.assert_allclose(done[0].client.values[key], tensor.detach().numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_two_runs_in_step_agree_to_the_last_bit(job: Callable[..., Job]) -> None:
    """Float32 sums depend on their order; the order does not depend on who is first."""
    start = parameters(np.float32)
    found = []
    for seed in (1, 2):
        one = job(servers=2, shards=4, faults=Faults(jitter=0.004, seed=seed))
        found.append(one.train(4, 5, start=start)[seed].client.values)
    assert all((found[0][name] == found[1][name]).all() for name in start)


# A parameter that counts: each shard's gradient is -1 in its own entry, and the step size is 1.


def count(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
    gradient = np.zeros_like(values["count"])
    gradient[:, shard] = -1
    return Gradients(0.0, {"count": gradient})


def by_one(tensors: Any) -> SGD:
    return SGD(tensors, lr=1.0)


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_the_bound_of_staleness(job: Callable[..., Job], staleness: int) -> None:
    """A trainer that is held up: the others go on for `staleness` steps more, exactly, and see what they must."""
    shards = 3
    one = job(servers=2, shards=shards, optimizer=by_one, mode="ssp", staleness=staleness)
    held, released, seen = threading.Event(), threading.Event(), []

    def held_up(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        seen.append((shard, step, values["count"].copy()))
        if shard == 2 and step == 2:
            held.set()
            assert released.wait(20)
        return count(values, shard, step)

    def release() -> None:
        assert held.wait(20)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            asked = {w.message.source: w.message.fields["next_step"] for w in list(one.servers[0]._waiting)}
            if len(asked) == 2:
                blocked.update(asked)
                break
            time.sleep(0.005)
        released.set()

    blocked: dict[str, int] = {}
    watcher = threading.Thread(target=release, daemon=True)
    watcher.start()
    done = one.train(shards, 8, work=held_up, start={"count": np.zeros((2, shards))}, how="range")
    watcher.join(20)
    # Shard 2 has pushed two steps, so its clock is 2: the others stop before step 2 + staleness + 1.
    assert blocked == {"trainer:0": 3 + staleness, "trainer:1": 3 + staleness}
    for shard, step, values in seen:
        assert values.min() >= step - staleness
        assert (values[:, shard] == step).all()
    assert all((trainer.client.values["count"] == 8).all() for trainer in done)


def test_without_a_bound_nobody_waits(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=2, optimizer=by_one, mode="async")
    pulled, finished = threading.Event(), threading.Event()

    def held_up(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        if shard == 1 and step == 0:
            pulled.set()
            assert finished.wait(20)
        if shard == 0 and step == 0:
            assert pulled.wait(20)
        if shard == 0 and step == 29:
            finished.set()
        return count(values, shard, step)

    done = one.train(2, 30, work=held_up, start={"count": np.zeros((1, 2))})
    assert all((trainer.client.values["count"] == 30).all() for trainer in done)
    stats = one.servers[0].stats()
    assert stats["version"] == sum(stats["staleness"].values()) == 60
    assert max(int(apart) for apart in stats["staleness"]) >= 29


@pytest.mark.slow
def test_messages_that_overtake_each_other_break_nothing(job: Callable[..., Job]) -> None:
    for settings in ({"mode": "ssp", "staleness": 1}, {"mode": "async"}, {"mode": "sync"}):
        one = job(servers=2, shards=3, optimizer=by_one, faults=Faults(jitter=0.003, seed=5), **settings)
        seen = []

        def noted(values: dict[str, np.ndarray], shard: int, step: int, seen: list = seen) -> Gradients:
            seen.append((shard, step, values["count"].copy()))
            return count(values, shard, step)

        one.train(3, 6, work=noted, start={"count": np.zeros((2, 3))}, how="range")
        for shard, step, values in seen:
            if settings["mode"] == "sync":
                np.testing.assert_allclose(values, step / 3)
            else:
                assert (values[:, shard] == step).all()


def test_backup_drops_what_is_late_and_counts_it(job: Callable[..., Job]) -> None:
    """One of three is held up until the others are done: they never wait, and what it sends then changes nothing."""
    one = job(servers=2, shards=3, optimizer=by_one, backup=1)
    begun, finished = threading.Event(), threading.Event()

    def held_up(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        if shard == 2:
            begun.set()
            assert finished.wait(20)
        elif step == 0:
            assert begun.wait(20)  # else it may come when all is done, and never be late
        elif step == 9:
            finished.set()
        return count(values, shard, step)

    done = one.train(3, 10, work=held_up, start={"count": np.zeros((2, 3))}, how="range")
    stats = [server.stats() for server in one.servers]
    assert [one["version"] for one in stats] == [10, 10]
    # Step 9 may be taken with shard 2 or without: it was let go while the others computed it.
    assert all(done[0].client.values["count"][:, 2] <= 0.5)
    assert done[0].client.values["count"].sum(axis=1) == pytest.approx(10)
    assert all(one["late"] >= 1 for one in stats)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_push_says_whether_it_was_in_time(job: Callable[..., Job], mode: str) -> None:
    one = job(servers=1, shards=2, backup=int(mode == "sync"), mode=mode)
    first, second = one.client(0), one.client(1)
    first.init(parameters())
    second.init(parameters())
    values = first.pull()
    gradients = loss_and_gradients(values, *batch_of(0, 0))[1]
    assert first.push(gradients, shard=0, step=0)
    assert second.push(gradients, shard=1, step=0) is (mode == "async")


@pytest.mark.slow
@pytest.mark.parametrize("how", [TopK(0.2), EightBit(), TopK(1.0)], ids=["topk", "8bit", "all"])
def test_compressed_gradients_train(job: Callable[..., Job], how: TopK | EightBit) -> None:
    """With feedback, the loss goes where it goes without compression."""
    x, y = batch_of(0, 0, 40)

    def same_batch(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        return Gradients(*loss_and_gradients(values, x, y))

    compressed = job(servers=2, shards=1).train(1, 60, work=same_batch, compression=how, split=6)[0]
    plain = job(servers=2, shards=1).train(1, 60, work=same_batch, split=6)[0]
    gained = [trainer.losses[0, 0] - trainer.losses[0, 59] for trainer in (compressed, plain)]
    assert gained[0] > 0.9 * gained[1] > 0.5
    if how.name == "topk" and how.ratio == 1:
        assert all((compressed.client.values[name] == value).all() for name, value in plain.client.values.items())


@pytest.mark.parametrize("mode", [{"mode": "sync"}, {"mode": "ssp", "staleness": 2}])
@pytest.mark.parametrize("how", ["hash", "range"])
def test_rows_of_a_table(job: Callable[..., Job], mode: dict, how: str) -> None:
    """Rows move as one process would move them: the mean over shards, an id once however often it is there."""
    spec = TableSpec(3, lr=0.5, rule="sgd", seed=4, rows=50, how=how)
    one = job(servers=3, shards=2, **mode)
    clients = [one.client(rank) for rank in range(2)]
    for client in clients:
        client.create_table("words", spec)
    rng = np.random.default_rng(0)
    expected = spec.initial(np.arange(50)).astype(np.float64)
    for step in range(5):
        pushes = []
        for shard, client in enumerate(clients):
            ids = rng.integers(0, 50, (2, 6))
            rows = client.pull_rows({"words": ids}, step=step)["words"]
            assert rows.shape == (2, 6, 3)
            if mode["mode"] == "sync":
                np.testing.assert_allclose(rows, expected[ids], rtol=1e-5, atol=1e-6)
            pushes.append((ids, rng.standard_normal((2, 6, 3)).astype(np.float32), 1 + shard))
        for shard, client in enumerate(clients):
            ids, gradients, examples = pushes[shard]
            client.push({}, shard=shard, step=step, examples=examples, rows={"words": (ids, gradients)})
        for ids, gradients, examples in pushes:
            weight = examples / 3 if mode["mode"] == "sync" else 1
            np.subtract.at(expected, ids.reshape(-1), 0.5 * weight * gradients.reshape(-1, 3))
    everything = clients[0].pull_rows({"words": np.arange(50)}, step=5, create=False)["words"]
    np.testing.assert_allclose(everything, expected, rtol=1e-5, atol=1e-6)
    tables = [server.stats()["tables"]["words"] for server in one.servers]
    assert 0 < sum(table["rows"] for table in tables) < 50
    assert min(table["rows"] for table in tables) > 0


def test_only_touched_rows_travel(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=1)
    client = one.client()
    client.create_table("users", TableSpec(8))
    client.pull_rows({"users": np.arange(1000)})
    sent = []
    start = client.endpoint.start
    client.endpoint.start = lambda peer, message, *more: sent.append(message.nbytes) or start(peer, message, *more)  # type: ignore
    client.push({}, rows={"users": (np.array([5, 9, 5, 700]), np.ones((4, 8), np.float32))})
    assert sum(sent) == 3 * (8 + 8 * 4)


def test_a_spare_trainer_waits_and_gets_the_same(job: Callable[..., Job]) -> None:
    one = job(servers=2, shards=2)
    done = one.train(3, 6)
    assert done[2].losses == {}
    assert all((done[2].client.values[name] == done[0].client.values[name]).all() for name in parameters())


def test_gradients_that_are_not_finite(job: Callable[..., Job]) -> None:
    def broken(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        found = work(values, shard, step)
        if (shard, step) == (1, 3):
            found.dense["v"][1, 2] = np.nan
        return found

    with pytest.raises(ValueError, match=r"push: trainer:1: the gradient of parameter 'v' has 1 entries of 12 that"):
        job(shards=2).train(2, 5, work=broken)
    accepted = job(shards=2).train(2, 5, work=broken, nonfinite="accept")
    assert np.isnan(accepted[0].client.values["v"]).any()
    dropped = job(shards=2).train(2, 5, work=broken, nonfinite="drop")
    assert [one.client.dropped for one in dropped] == [0, 1]

    def without(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        return Gradients(0.0, {}, 0.0) if (shard, step) == (1, 3) else work(values, shard, step)

    expected = job(shards=2).train(2, 5, work=without)
    for name, value in expected[0].client.values.items():
        assert (dropped[0].client.values[name] == value).all()


def test_a_parameter_without_a_gradient_stays(job: Callable[..., Job]) -> None:
    def partly(values: dict[str, np.ndarray], shard: int, step: int) -> Gradients:
        found = work(values, shard, step)
        return Gradients(found.loss, {name: g for name, g in found.dense.items() if name != "w"}, found.examples)

    done = job(shards=2).train(2, 3, work=partly)
    assert (done[0].client.values["w"] == parameters()["w"]).all()
    assert (done[0].client.values["v"] != parameters()["v"]).all()
