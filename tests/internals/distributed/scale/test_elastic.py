"""Ranks die and others join; the run goes on with the same state on all, and ends where one process alone would."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from server_jobs import until

from internals import Tensor, nn, ops, optim
from internals.distributed.errors import DeadlineExceeded, DistributedError, PeerLost
from internals.distributed.group import Group, run_threads
from internals.distributed.launch.rendezvous import NAME, Rendezvous
from internals.distributed.scale.elastic import Member, Shards, State, average_gradients, run
from internals.distributed.transport import Network

EXAMPLES, BATCH, STEPS, WIDTH, CLASSES = 60, 12, 12, 5, 3


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((EXAMPLES, WIDTH)).astype(np.float32), rng.integers(CLASSES, size=EXAMPLES)


def fresh(seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    model = nn.Sequential(nn.Linear(WIDTH, 8, rng=rng), nn.Tanh(), nn.Linear(8, CLASSES, rng=rng))
    return State(model, optim.Adam(model.parameters(), lr=0.02))


def one_step(state: State, indices: np.ndarray, group: Group | None) -> None:
    x, y = data()
    state.model.zero_grad()
    if len(indices):
        ops.cross_entropy(state.model(Tensor(x[indices])), Tensor(y[indices])).backward()
    if group is not None:
        average_gradients(state.model, group, len(indices) / BATCH)
    state.optimizer.step()


def alone() -> dict[str, np.ndarray]:
    state, shards = fresh(), Shards(EXAMPLES, BATCH, seed=4)
    for step in range(STEPS):
        one_step(state, shards.whole(step), None)
    return state.model.state_dict()


class Job:
    """An elastic job of threads on one network; `at` is called before each step of each member."""

    def __init__(self, least: int, most: int, expected: int, at: Callable[[Job, str, int], None]) -> None:
        self.network = Network()
        self.rendezvous = Rendezvous(self.network.endpoint(NAME), least, most, expected=expected)
        self.at = at
        self.results: dict[str, Any] = {}
        self.sizes: dict[str, list[tuple[int, int]]] = {}
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        self.once: set[str] = set()

    def start(self, name: str, seed: int = 0) -> None:
        endpoint = self.network.endpoint(name)
        endpoint.connect(NAME, self.rendezvous.address)
        member = Member(endpoint, deadline=20.0, patience=20.0)
        shards = Shards(EXAMPLES, BATCH, seed=4)

        def train(this: Any) -> dict[str, np.ndarray]:
            while this.state.step < STEPS:
                self.at(self, name, this.state.step)
                one_step(this.state, shards.part(this.state.step, this.group.rank, this.group.size), this.group)
                self.sizes.setdefault(name, []).append((this.state.step, this.group.size))
                this.commit()
            return this.state.model.state_dict()

        def whole() -> None:
            try:
                self.results[name] = run(train, fresh(seed), member)
            except BaseException as error:  # noqa: BLE001  looked at by the test
                self.results[name] = error

        thread = threading.Thread(target=whole, daemon=True)
        self.threads.append(thread)
        thread.start()

    def first(self, what: str) -> bool:
        with self.lock:
            new = what not in self.once
            self.once.add(what)
            return new

    def wait(self) -> None:
        for thread in self.threads:  # the list itself: a newcomer may be added meanwhile
            thread.join(60.0)
            assert not thread.is_alive(), f"still running; so far {self.results}"
        self.rendezvous.close()


def run_job(
    names: list[str], least: int, most: int, at: Callable[[Job, str, int], None] = lambda job, name, step: None
) -> Job:
    job = Job(least, most, len(names), at)
    for seed, name in enumerate(names):
        job.start(name, seed)
    job.wait()
    return job


def same_state(job: Job, names: list[str], expected: dict[str, np.ndarray] | None = None) -> None:
    for name in names:
        assert isinstance(job.results[name], dict), job.results[name]
        for key, value in job.results[names[0]].items():
            np.testing.assert_array_equal(job.results[name][key], value)
            if expected is not None:
                np.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_without_any_death_it_is_ordinary_training(size: int) -> None:
    names = [f"m{i}" for i in range(size)]
    job = run_job(names, size, size)
    for name in names:
        assert job.sizes[name] == [(step, size) for step in range(STEPS)]
    same_state(job, names)
    if size == 1:
        same_state(job, names, alone())


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1, 5, STEPS - 1])
@pytest.mark.parametrize("victim", ["m0", "m1", "m2"])
def test_a_death_costs_no_step(victim: str, step: int) -> None:
    def at(job: Job, name: str, now: int) -> None:
        if name == victim and now == step:
            job.network.kill(name)

    job = run_job(["m0", "m1", "m2"], 1, 3, at)
    left = [name for name in ("m0", "m1", "m2") if name != victim]
    same_state(job, left)
    for name in left:
        steps = [at for at, _ in job.sizes[name]]
        assert sorted(set(steps)) == list(range(STEPS))
        assert dict(job.sizes[name])[STEPS - 1] == 2
    assert isinstance(job.results[victim], DistributedError)


@pytest.mark.slow
def test_leaving_and_joining_changes_no_number() -> None:
    """Three ranks, two, three again: the parameters are those of one process, since the batches are."""

    def at(job: Job, name: str, now: int) -> None:
        if name == "m0" and now == 3:
            job.network.kill(name)
        if now == 6 and job.first("newcomer"):
            job.start("m3", seed=99)
            until(lambda: "m3" in job.rendezvous._waiting)

    job = run_job(["m0", "m1", "m2"], 2, 3, at)
    left = ["m1", "m2", "m3"]
    same_state(job, left)
    assert dict(job.sizes["m1"])[4] == 2
    assert dict(job.sizes["m1"])[STEPS - 1] == dict(job.sizes["m3"])[STEPS - 1] == 3
    first = min(step for step, _ in job.sizes["m3"])
    assert 6 <= first < STEPS
    whole, shards = fresh(0), Shards(EXAMPLES, BATCH, seed=4)
    reference = [fresh(seed) for seed in range(3)]
    fits = []
    for start in [whole, *reference[1:]]:  # the run began with the state of whoever was rank 0
        for step in range(STEPS):
            one_step(start, shards.whole(step), None)
        found = start.model.state_dict()
        fits.append(all(np.allclose(found[key], job.results["m1"][key], rtol=1e-3, atol=1e-4) for key in found))
    assert sum(fits) == 1


@pytest.mark.slow
def test_too_few_members_is_an_error_not_a_wait_without_end() -> None:
    network = Network()
    rendezvous = Rendezvous(network.endpoint(NAME), 2, 2)
    endpoint = network.endpoint("m0")
    endpoint.connect(NAME, rendezvous.address)
    with pytest.raises(DeadlineExceeded):
        Member(endpoint, patience=0.2).regroup()
    rendezvous.close()


@pytest.mark.slow
def test_the_end_of_the_rendezvous_is_noticed() -> None:
    network = Network()
    Rendezvous(network.endpoint(NAME), 2, 2)
    endpoint = network.endpoint("m0")
    endpoint.connect(NAME, f"inproc://{NAME}")
    threading.Timer(0.1, lambda: network.kill(NAME)).start()
    with pytest.raises(PeerLost, match=NAME):
        Member(endpoint, patience=20.0).regroup()


def test_a_program_that_always_fails_is_not_repeated_for_ever() -> None:
    network = Network()
    rendezvous = Rendezvous(network.endpoint(NAME), 1, 1)
    endpoint = network.endpoint("m0")
    endpoint.connect(NAME, rendezvous.address)
    calls = []

    def train(this: Any) -> None:
        calls.append(this.generation)
        raise PeerLost("rank:1", "as always")

    with pytest.raises(PeerLost):
        run(train, fresh(), Member(endpoint))
    assert calls == list(range(1, len(calls) + 1))
    assert 2 <= len(calls) <= 10
    rendezvous.close()


def test_a_mistake_of_the_program_is_raised_at_once() -> None:
    network = Network()
    rendezvous = Rendezvous(network.endpoint(NAME), 1, 1)
    endpoint = network.endpoint("m0")
    endpoint.connect(NAME, rendezvous.address)
    with pytest.raises(ZeroDivisionError):
        run(lambda this: 1 // 0, fresh(), Member(endpoint))
    rendezvous.close()


@pytest.mark.parametrize("size", [1, 2, 5, 12, 17])
def test_shards_are_the_batch_however_it_is_cut(size: int) -> None:
    shards = Shards(EXAMPLES, BATCH, seed=3)
    for step in range(2 * shards.steps_per_epoch):
        parts = [shards.part(step, rank, size) for rank in range(size)]
        np.testing.assert_array_equal(np.concatenate(parts), shards.whole(step))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    epoch = np.concatenate([shards.whole(step) for step in range(shards.steps_per_epoch)])
    assert sorted(epoch) == list(range(EXAMPLES))
    assert list(shards.whole(0)) != list(shards.whole(shards.steps_per_epoch))


@pytest.mark.parametrize(("examples", "batch"), [(0, 1), (10, 0), (10, 11), (10, -1)])
def test_batches_that_are_none(examples: int, batch: int) -> None:
    with pytest.raises(ValueError, match="Shards: a batch of"):
        Shards(examples, batch)


def shared(group: Group) -> tuple[int, int, dict[str, np.ndarray], Any]:
    state = fresh(group.rank)
    if group.rank:
        state.step = group.rank
        one_step(state, Shards(EXAMPLES, BATCH).whole(group.rank), None)
        state.keep()
        one_step(state, Shards(EXAMPLES, BATCH).whole(0), None)  # done, but not kept
    source = state.share(group)
    return source, state.step, state.model.state_dict(), state.optimizer.state_dict()


def test_all_take_the_state_that_is_furthest() -> None:
    found = run_threads(3, shared)
    reference = fresh(2)
    one_step(reference, Shards(EXAMPLES, BATCH).whole(2), None)
    for source, step, model, optimizer in found:
        assert (source, step) == (2, 2)
        for key, value in reference.model.state_dict().items():
            np.testing.assert_array_equal(model[key], value)
        expected = reference.optimizer.state_dict()
        assert optimizer["param_groups"] == expected["param_groups"]
        for number, slots in expected["state"].items():
            for slot, value in slots.items():
                np.testing.assert_array_equal(optimizer["state"][number][slot], value)


def test_a_state_that_was_not_kept_is_not_taken_back() -> None:
    with pytest.raises(ValueError, match="nothing was kept yet"):
        fresh().take_back()


@pytest.mark.slow
def test_who_comes_after_the_end_has_nothing_to_do() -> None:
    network = Network()
    rendezvous = Rendezvous(network.endpoint(NAME), 1, 2)

    def member(name: str) -> Member:
        endpoint = network.endpoint(name)
        endpoint.connect(NAME, rendezvous.address)
        return Member(endpoint)

    assert run(lambda this: this.group.size, fresh(), member("m0")) == 1
    assert run(lambda this: this.group.size, fresh(), member("m1")) is None
    rendezvous.close()


def averaged(group: Group, size: int) -> list[np.ndarray]:
    state, (x, y) = fresh(), data()
    part = np.array_split(np.arange(size), group.size)[group.rank]
    if len(part):
        ops.cross_entropy(state.model(Tensor(x[part])), Tensor(y[part])).backward()
    average_gradients(state.model, group, len(part) / size)
    return [one.grad.numpy() for one in state.model.parameters()]


@pytest.mark.parametrize("size", [2, 7])
def test_gradients_of_uneven_parts_are_those_of_the_whole_batch(size: int) -> None:
    """With 2 examples on 3 ranks, one of them has none."""
    state, (x, y) = fresh(), data()
    ops.cross_entropy(state.model(Tensor(x[:size])), Tensor(y[:size])).backward()
    for found in run_threads(3, averaged, size):
        for mine, whole in zip(found, state.model.parameters(), strict=True):
            np.testing.assert_allclose(mine, whole.grad.numpy(), rtol=1e-4, atol=1e-6)
