"""Workers: whatever happens to them, to their processes or to the database, nothing is lost or recorded twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest
from queue_work import LOG, begun, hand_in, obey, said
from sqlalchemy import func, select

from autograder.gradebook import GradebookError, open_gradebook, store
from autograder.gradebook.models import Grade
from autograder.queue import decisions
from autograder.queue.executors.here import Here
from autograder.queue.executors.pool import Pool
from autograder.queue.grading import Fault, Work
from autograder.queue.taking import Patience
from autograder.queue.views import counts, job_of, watch
from autograder.queue.worker import Worker

SHARED = str(Path(__file__).resolve().parents[1])
PATIENCE = 60.0
AT_ONCE = Patience(tries=3, first=0, most=0)


def until(true, seconds=PATIENCE):
    """Wait until `true()` is."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.01)
    return found


def grades(book):
    """How many grades each submission has."""
    with book.reading() as session:
        return Counter(
            dict(session.execute(select(Grade.submission_id, func.count()).group_by(Grade.submission_id)).all())
        )


def work(address, executor=None, **options):
    """Have a worker empty the queue; what it told."""
    told = []
    options = {"poll": 0.01, "patience": AT_ONCE, "until_empty": True} | options
    worker = Worker(address, executor or Here(2, obey), tell=told.append, **options)
    worker.run()
    return told


@pytest.fixture
def told_what_to_do(monkeypatch, tmp_path):
    """The graders of a pool do as their submissions say, and keep a log of what they began."""
    monkeypatch.setenv("PYTHONPATH", SHARED)
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    return tmp_path / "log"


def test_everything_is_graded_and_what_cannot_be_is_parked(book, address):
    texts = ["right", "fault", "final", "raise", "sleep 0.01"]
    for number, text in enumerate(texts):
        hand_in(book, f"learner{number}", text)
    told = work(address)
    jobs = [job_of(book, number) for number in range(1, 6)]
    assert [(job.state, job.tries) for job in jobs] == [
        ("done", 1),
        ("parked", 3),
        ("parked", 1),
        ("parked", 3),
        ("done", 1),
    ]
    assert jobs[1].fault == "Given up after 3 tries. no sandbox today"
    assert "RecursionError: deep inside" in jobs[3].fault
    assert grades(book) == {1: 1, 5: 1}
    assert len(told) == 2 + 3 + 1 + 3


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["worker", "grader"])
def test_killed_in_the_middle_nothing_is_lost_and_nothing_graded_twice(book, address, told_what_to_do, killed):
    """SIGKILL while two gradings are at work and others wait; another worker is there."""
    for number in range(8):
        hand_in(book, f"learner{number % 3}", f"sleep {0.3 + number / 1000}")
    command = [sys.executable, str(Path(__file__).with_name("worker_process.py")), address, "2"]
    first = subprocess.Popen(command)
    second = None
    try:
        until(lambda: len(begun(told_what_to_do)) >= 3)
        if killed == "worker":
            first.kill()
            second = subprocess.Popen(command)
        else:
            grader = int(told_what_to_do.read_text().split()[-1])
            os.kill(grader, signal.SIGKILL)
            fault = "The process that graded it ended in the middle of it: SIGKILL."
            [again] = until(lambda: [one for one in watch(book) if one.fault == fault])
            decisions.retry(book, again.id, by="grace")  # by itself it would wait for some seconds
        until(lambda: counts(book)["done"] == 8)
        assert grades(book) == Counter(range(1, 9))
        repeated = {one: times for one, times in Counter(begun(told_what_to_do)).items() if times > 1}
        assert 1 <= len(repeated) <= 2  # what was at work, and nothing else
        assert set(repeated.values()) == {2}
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.wait()
    until(lambda: not graders_of())


def graders_of():
    """The processes that grade for the tests of this one of pytest's workers, and still live."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        line, environment = process.info["cmdline"] or [], process.info["environ"] or {}
        ours = environment.get("PYTEST_XDIST_WORKER") == os.environ.get("PYTEST_XDIST_WORKER")
        if "queue_work" in line and ours and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@pytest.mark.slow
def test_a_grading_that_never_returns_is_ended_and_parked(sqlite_address, told_what_to_do):
    with open_gradebook(sqlite_address) as book:
        hand_in(book, "ada", "hang")
        work(sqlite_address, Pool(1, "queue_work"), limit=0.5, patience=Patience(tries=2, first=0))
        fault = "Given up after 2 tries. Its grading did not end within 0.5 s, and was ended."
        assert (job_of(book, 1).state, job_of(book, 1).fault) == ("parked", fault)
    until(lambda: not graders_of())


class Held:
    """An executor whose gradings end when the test says so."""

    slots = 1

    def __init__(self):
        self.futures, self.cancelled = [], []

    def submit(self, work: Work):
        future = Future()
        future.set_running_or_notify_cancel()
        self.futures.append((future, work))
        return future

    def cancel(self, future):
        self.cancelled.append(future)

    def close(self):
        self.closed = True


def running(worker):
    thread = threading.Thread(target=worker.run)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_job_that_is_taken_away_is_dropped(book, address):
    hand_in(book, "ada", "a")
    held, told = Held(), []
    worker = Worker(address, held, poll=0.01, lease=0.2, tell=told.append)
    thread = running(worker)
    try:
        [(future, _)] = until(lambda: held.futures)
        decisions.park(book, 1, by="grace", reason="copied")
        until(lambda: held.cancelled == [future])
        assert told == ["job 1: it was taken from this worker; its grading is ended."]
    finally:
        worker.stop()
        thread.join(PATIENCE)
    assert (held.closed, job_of(book, 1).state) == (True, "parked")


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [False, True], ids=["finishes", "gives back"])
def test_a_worker_that_is_told_to_stop(book, address, at_once):
    for text in ("a", "b"):
        hand_in(book, "ada", text)
    held = Held()
    worker = Worker(address, held, poll=0.01)
    thread = running(worker)
    [(future, given)] = until(lambda: held.futures)
    worker.stop(at_once=at_once)
    if at_once:
        thread.join(PATIENCE)
        assert held.cancelled == [future]
        assert [(job_of(book, n).state, job_of(book, n).tries) for n in (1, 2)] == [("waiting", 0)] * 2
    else:
        time.sleep(0.05)
        assert thread.is_alive()
        future.set_result(said(given.data).to_json())
        thread.join(PATIENCE)
        assert [job_of(book, n).state for n in (1, 2)] == ["done", "waiting"]
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_database_that_is_locked_for_long_costs_nothing(sqlite_address, monkeypatch):
    """What was graded meanwhile is kept, told once, and recorded when the lock is gone."""
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.05)
    with open_gradebook(sqlite_address) as book:
        hand_in(book, "ada", "a")
    held, told = Held(), []
    worker = Worker(sqlite_address, held, poll=0.01, lease=0.1, tell=told.append)
    thread = running(worker)
    try:
        [(future, given)] = until(lambda: held.futures)
        lock = sqlite3.connect(sqlite_address.removeprefix("sqlite:///"), isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        until(lambda: told)
        future.set_result(said(given.data).to_json())
        time.sleep(0.3)
        lock.execute("ROLLBACK")
        lock.close()
        until(lambda: worker.graded)
    finally:
        worker.stop()
        thread.join(PATIENCE)
    assert len(told) == 3
    assert "another program has kept it locked for too long" in told[0]
    assert told[1:] == [
        "submission 1 (lab05_tape, ada): graded",
        f"The gradebook {Path(sqlite_address[10:])} is there again.",
    ]


@pytest.fixture
def sqlite_address(sqlite_template, tmp_path):
    (tmp_path / "gradebook.sqlite").write_bytes(sqlite_template.read_bytes())
    return f"sqlite:///{tmp_path / 'gradebook.sqlite'}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    ["no JSON", "{}", "[1]", "null", said("other bytes").to_json()],
    ids=["text", "empty", "list", "null", "others'"],
)
def test_what_is_no_report_of_these_bytes_is_not_recorded(sqlite_address, sent):
    with open_gradebook(sqlite_address) as book:
        hand_in(book, "ada", "a")
        work(sqlite_address, Here(1, lambda given: sent))
        assert (job_of(book, 1).state, grades(book)) == ("parked", {})
        assert "report" in job_of(book, 1).fault


@pytest.mark.parametrize("given", [{"lease": 0}, {"limit": -1}, {"poll": 0}], ids=str)
def test_a_worker_that_cannot_be_meant(given):
    with pytest.raises(ValueError, match="seconds, more than 0"):
        Worker("x", Here(), **given)


def test_no_gradebook_is_told_at_the_start(tmp_path):
    (tmp_path / "a.sqlite").write_bytes(b"no database at all, and long enough to be read as one" * 20)
    with pytest.raises(GradebookError, match="not a gradebook"):
        Worker(str(tmp_path / "a.sqlite"), Here()).run()


@pytest.mark.slow
def test_a_pool_starts_anew_what_has_ended(told_what_to_do):
    with_pool = Pool(1, "queue_work")
    try:
        outcomes = [with_pool.submit(given(text)).result(PATIENCE) for text in ("right", "die", "raise", "right")]
    finally:
        with_pool.close()
    assert isinstance(outcomes[0], str)
    assert outcomes[1] == Fault("The process that graded it ended in the middle of it: SIGKILL.")
    assert outcomes[2] == Fault("A fault in the autograder: RecursionError: deep inside")
    assert isinstance(outcomes[3], str)
    assert len({line.split()[1] for line in told_what_to_do.read_text().splitlines()}) == 2
    assert "closed" in with_pool.submit(given("right")).result(PATIENCE).words
    until(lambda: not graders_of())


def given(text):
    data = text.encode()
    return Work(1, "lab05_tape", "ada", "a.ipynb", said(data).sha256, "official", data)


@pytest.mark.slow
def test_a_pool_that_cannot_start_says_so(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    outcome = Pool(1).submit(given("right")).result(PATIENCE)
    assert outcome.words.startswith("No process could be started to grade it:")
    assert not outcome.final


@pytest.mark.parametrize("kind", [Here, Pool])
def test_no_slots(kind):
    with pytest.raises(ValueError, match="slots 0: give at least 1"):
        kind(0)


@pytest.mark.slow
def test_dask_grades_ends_and_hears_of_its_dead(sqlite_address, told_what_to_do, monkeypatch):
    """On a cluster of one process: what is right, what raises, what kills its worker, what never returns."""
    distributed = pytest.importorskip("distributed")
    from dask import config

    from autograder.queue.executors import dask

    monkeypatch.setattr(dask, "grade", obey)
    options = {"threads_per_worker": 2, "host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with (
        config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, **options) as cluster,
        open_gradebook(sqlite_address) as book,
    ):
        for texts, limit in ((["right", "raise", "sleep 0.1"], PATIENCE), (["die"], PATIENCE), (["hang"], 1.0)):
            for text in texts:
                hand_in(book, f"learner {text}", text)
            executor = dask.Dask(cluster.scheduler_address)
            assert text != "sleep 0.1" or executor.slots == 2
            work(sqlite_address, executor, limit=limit, patience=Patience(tries=1))
        jobs = [job_of(book, number) for number in range(1, 6)]
        assert [job.state for job in jobs] == ["done", "parked", "done", "parked", "parked"]
        assert grades(book) == {1: 1, 3: 1}
    assert "RecursionError: deep inside" in jobs[1].fault
    assert "KilledWorker" in jobs[3].fault
    assert "did not end within 1 s" in jobs[4].fault


def test_dask_without_a_scheduler(monkeypatch):
    dask_config = pytest.importorskip("dask").config
    from autograder.queue.executors.dask import Dask

    with dask_config.set({"scheduler-address": None}), pytest.raises(ConnectionError, match="no scheduler is named"):
        Dask()
