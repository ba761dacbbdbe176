"""Processes that die, do not start, or that nobody waits for: others take their place, and no request waits long."""

from __future__ import annotations

import asyncio
import gc
import os
import signal

import numpy as np
import pytest

from internals.deploy import Signature, TensorSpec
from internals.deploy.serve import bodies as bodies_module
from internals.deploy.serve import rest, workers
from internals.deploy.serve.batcher import Batcher, Request
from internals.deploy.serve.bodies import Bodies
from internals.deploy.serve.errors import BadRequest, ModelFailed, QueueFull, Unavailable
from internals.deploy.serve.joining import Joiner
from internals.deploy.serve.process import Process
from internals.deploy.serve.runner import Observed, Runner
from internals.deploy.serve.workers import Pool, Program, Worker

from .conftest import FEATURES, PATIENCE, save_version, weight

SPEC = {"serve": Signature({"x": TensorSpec(("batch", FEATURES))}, ("y",))}
ROWS = np.random.default_rng(8).normal(size=(2, FEATURES)).astype("f")


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, PATIENCE))


def read(bodies):
    return bodies.read(b"[]", rest.PREDICT, "m", SPEC)


def test_a_reader_that_always_dies_is_told_each_time_and_holds_nobody_up(monkeypatch):
    """Not once told, and then waited for until a limit is over."""

    class Dies(Process):
        def __init__(self, module, called, more):
            super().__init__("keyword", called)  # a module of Python's that does nothing

    monkeypatch.setattr(bodies_module, "Process", Dies)

    async def scenario():
        bodies = Bodies(1000)
        for _ in range(3):
            with pytest.raises(Unavailable, match="ended with exit code 0"):
                await asyncio.wait_for(read(bodies), PATIENCE / 4)
        bodies.close()

    run(scenario())


def test_a_reader_that_can_not_be_started_is_told_and_tried_again(monkeypatch):
    async def scenario():
        bodies = Bodies(1000)

        async def fails(process):
            raise OSError("no memory for a process")

        monkeypatch.setattr(Process, "begin", fails)
        for _ in range(2):
            with pytest.raises(Unavailable, match="no memory for a process"):
                await read(bodies)
        bodies.close()

    run(scenario())


def test_a_reader_that_takes_too_long_is_stopped_though_nobody_waits(monkeypatch):
    """It would hold up all others; and what nobody is there to hear is no error of the server's."""

    class Sleeps(Process):
        def __init__(self, module, called, more):
            super().__init__("keyword", called)

    async def scenario():
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: wrong.append(about))
        monkeypatch.setattr(bodies_module, "Process", Sleeps)
        bodies = Bodies(1000, limit=0.05)
        monkeypatch.setattr(Process, "_lost", lambda process: None)  # it is as if it were stopped
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(bodies), 0.01)
        with pytest.raises(BadRequest, match="took more than 0.05 s to read or write JSON and was stopped"):
            await read(bodies)
        bodies.close()

    wrong = []
    run(scenario())
    gc.collect()
    assert not wrong


def test_who_leaves_before_his_body_is_read_takes_it_along(monkeypatch):
    """Clients that send much and leave would else fill the memory, and hold up all that come after."""

    async def scenario():
        goes_on, given = asyncio.Event(), []

        class Reads:
            def __init__(self, module, called, more):
                pass

            async def begin(self):
                pass

            async def ask(self, data, what, limit):
                given.append(data)
                await goes_on.wait()
                return {"signature": "serve", "form": rest.ROW}, {"x": ROWS}

            def kill(self):
                pass

        monkeypatch.setattr(bodies_module, "Process", Reads)
        bodies = Bodies(1000)
        tasks = [asyncio.ensure_future(read(bodies)) for _ in range(6)]
        await asyncio.sleep(0.01)
        for left in tasks[:5]:
            left.cancel()
        await asyncio.sleep(0.01)
        assert len(given) == 1
        goes_on.set()
        name, arrays, _ = await tasks[5]
        assert (name, len(given)) == ("serve", 2)  # what was begun, and the one that waited
        np.testing.assert_array_equal(arrays["x"], ROWS)
        bodies.close()

    run(scenario())


def started(tmp_path, *, count=1, lost=None):
    """A runner whose processes are only said to be ready."""
    runner = Runner(Program(tmp_path), count, Batcher(), observed=Observed(lost=lost or pytest.fail))
    for worker in runner.pool.workers:
        worker.busy, worker.is_loaded, worker.labels, worker.signatures = False, True, ["ant", "bee"], SPEC

    async def start():
        pass

    runner.pool.start = start
    return runner


@pytest.mark.parametrize("error", [OSError("no memory for a process"), Unavailable("it died")])
def test_a_version_whose_last_process_can_not_be_started_again_has_failed(tmp_path, monkeypatch, error):
    async def fails(worker):
        tries.append(worker)
        raise error

    async def scenario():
        runner = started(tmp_path, count=2, lost=lost.append)
        first, second = runner.pool.workers
        runner.pool._replace(first)
        while len(tries) < 3 * len(pauses):
            await asyncio.sleep(0)
        assert not lost  # the other one answers, and this one is tried on and on
        runner.pool._replace(second)
        while not lost:
            await asyncio.sleep(0)
        with pytest.raises(Unavailable, match=str(error)):
            runner.submit("serve", {"x": ROWS}, np.inf, print)
        runner.close()
        await asyncio.sleep(0)

    tries, lost, pauses = [], [], (0.0, 0.0, 0.0)
    monkeypatch.setattr(workers, "PATIENCE", pauses)
    monkeypatch.setattr(Worker, "start", fails)
    run(scenario())
    assert len(set(map(id, tries))) == len(tries)  # each time another process
    assert str(error) in lost[0]


def test_labels_stay_while_all_processes_are_started_again(tmp_path, monkeypatch):
    """An answer that is in hand is written with them."""

    async def scenario():
        runner = started(tmp_path)
        await runner.start()
        monkeypatch.setattr(Worker, "start", lambda worker: asyncio.Event().wait())
        runner.pool._replace(runner.pool.workers[0])
        assert runner.labels == ["ant", "bee"]
        runner.close()
        await asyncio.sleep(0)

    run(scenario())


def test_a_batch_that_can_not_be_sent_leaves_its_process_free(tmp_path):
    async def scenario():
        runner = started(tmp_path)
        runner.joiners = {name: Joiner(one) for name, one in SPEC.items()}
        (worker,) = runner.pool.workers

        def fails(*given):
            raise MemoryError("no room for the frame")

        worker.run = fails
        answer = asyncio.get_running_loop().create_future()
        runner.submit("serve", {"x": ROWS}, np.inf, answer.set_result)
        outcome = await answer
        assert isinstance(outcome, ModelFailed)
        assert "no room for the frame" in str(outcome)
        assert (worker.busy, runner.running, len(runner._jobs)) == (False, 0, 0)
        runner.close()

    run(scenario())


def crowded(runner, requests, **settings):
    """A batcher that has found so many together, of the key that one row has."""
    batcher = Batcher(**settings)
    key = ("serve", runner.joiners["serve"].key({"x": ROWS[:1]}))
    for _ in range(requests):
        batcher.submit(0.0, Request(1, key))
    assert len(batcher.take(PATIENCE)) == requests
    return batcher


def test_a_request_is_not_refused_for_those_that_linger_while_a_worker_is_free(tmp_path):
    async def scenario():
        runner = started(tmp_path)
        runner.joiners = {name: Joiner(one) for name, one in SPEC.items()}
        runner.batcher = crowded(runner, 9, linger=PATIENCE, queue=9)
        ran = []

        def running(worker, signature, arrays, done):
            worker.busy = True
            ran.append(len(arrays["x"]))

        runner.pool.run = running
        rows = np.zeros((5, FEATURES), np.float32)
        runner.submit("serve", {"x": rows[:4]}, np.inf, lambda outcome: None)
        runner.submit("serve", {"x": rows[:2]}, np.inf, lambda outcome: None)
        assert ran == []
        runner.submit("serve", {"x": rows[:4]}, np.inf, lambda outcome: None)
        assert (ran, runner.batcher.rows, len(runner._jobs)) == ([6], 4, 3)
        runner.submit("serve", {"x": rows[:5]}, np.inf, lambda outcome: None)
        with pytest.raises(QueueFull):
            runner.submit("serve", {"x": rows[:1]}, np.inf, lambda outcome: None)
        assert (ran, runner.batcher.rows, len(runner._jobs)) == ([6], 9, 4)
        runner.close()
        await asyncio.sleep(0)

    run(scenario())


def test_a_runner_lingers_until_as_many_wait_as_lately_did_and_for_no_more(tmp_path):
    """The time that it might linger for is longer than the test may take."""

    async def scenario():
        runner = started(tmp_path)
        results = {"y": TensorSpec(("batch", 1))}
        runner.joiners = {"serve": Joiner(Signature(SPEC["serve"].inputs, ("y",), None, results))}
        runner.batcher = crowded(runner, 4, linger=PATIENCE)
        ran = []
        runner.pool.run = lambda worker, signature, arrays, done: ran.append((arrays["x"].shape, done))
        for number in range(4):
            assert ran == []
            runner.submit("serve", {"x": ROWS[:1]}, np.inf, answers.append)
            assert runner.batcher.crowd == 4, number
        ((shape, done),) = ran
        assert shape == (4, FEATURES)
        done({"y": np.arange(4.0)[:, None]})
        assert [answer["y"].item() for answer in answers] == [0.0, 1.0, 2.0, 3.0]
        runner.close()
        await asyncio.sleep(0)

    answers = []
    run(scenario())


def test_a_runner_that_lingered_in_vain_answers_and_lingers_no_more(tmp_path):
    async def scenario():
        runner = started(tmp_path)
        runner.joiners = {name: Joiner(one) for name, one in SPEC.items()}
        runner.batcher = crowded(runner, 9, linger=0.01)
        ran = []
        runner.pool.run = lambda worker, signature, arrays, done: ran.append(done)
        runner.submit("serve", {"x": ROWS[:1]}, np.inf, lambda outcome: None)
        assert not ran
        while not ran:
            await asyncio.sleep(0.001)
        runner.submit("serve", {"x": ROWS[:1]}, np.inf, lambda outcome: None)
        assert len(ran) == 2
        runner.close()
        await asyncio.sleep(0)

    run(scenario())


@pytest.mark.slow
def test_processes_come_back_when_what_they_load_does(tmp_path, monkeypatch):
    """The first attempts find nothing to load; a later one does, and one of two that lives answers meanwhile."""
    pauses = (0.0, 0.05, 0.1, 0.1)
    monkeypatch.setattr(workers, "PATIENCE", pauses)
    save_version(tmp_path, 1)
    there, away = tmp_path / "1", tmp_path / "away"

    async def scenario():
        runner = Runner(Program(there), 2, Batcher(), observed=Observed(lost=pytest.fail))
        await runner.start()
        there.rename(away)
        failed = []
        in_place_of = Pool._in_place_of
        monkeypatch.setattr(Pool, "_in_place_of", lambda *given: failed.append(given) or in_place_of(*given))
        os.kill(runner.pool.workers[0].pid, signal.SIGKILL)
        while len(failed) < len(pauses) + 2:
            answer = await runner.predict("serve", {"x": ROWS})
            np.testing.assert_allclose(answer["scores"], ROWS @ weight(1), rtol=1e-5)
            await asyncio.sleep(0.01)
        away.rename(there)
        while not all(one.is_loaded for one in runner.pool.workers):
            await asyncio.sleep(0.01)
        assert runner.pool.restarts == 1
        runner.close()

    run(scenario())
