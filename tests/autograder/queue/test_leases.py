"""Leases: a job has one holder, who is believed dead only if it stands still, whatever the clocks say."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from datetime import timedelta

import pytest
from classroom_samples import RIGHT, UNGRADED, report
from queue_work import SPEC, hand_in, said
from sqlalchemy import func, select

from autograder.gradebook import open_gradebook, queries
from autograder.gradebook.models import Grade, now
from autograder.queue import decisions, holders, taking
from autograder.queue.grading import Fault
from autograder.queue.leases import Watchman
from autograder.queue.states import REGRADE
from autograder.queue.taking import Patience
from autograder.queue.views import counts, job_of


def take(book, holder="me", **options):
    [lease] = taking.claim(book, holder, **options)
    return lease


class Stopwatch:
    """Shows what it is set to."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


def grades(book):
    with book.reading() as session:
        return session.scalar(select(func.count(Grade.id)))


def put_clock(monkeypatch, **ahead):
    """Set the clock by which the queue's moments are written."""
    monkeypatch.setattr(taking, "database_time", lambda session: now() + timedelta(**ahead))


@pytest.mark.slow
def test_workers_at_the_same_time_get_different_jobs(address):
    with open_gradebook(address) as book:
        for number in range(40):
            hand_in(book, f"learner{number % 7}", f"{number}")
    got, errors = Counter(), []
    together = threading.Barrier(4)

    def work(seed):
        draw = random.Random(seed)
        try:
            with open_gradebook(address) as book:
                together.wait()
                while leases := taking.claim(book, f"worker {seed}", limit=draw.randint(1, 3)):
                    for lease in leases:
                        assert taking.finish(book, lease, said(lease.work.data))
                        got[lease.job_id] += 1
        except Exception as error:  # noqa: BLE001  told below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert got == Counter(range(1, 41))
    with open_gradebook(address) as book:
        assert (grades(book), counts(book)["done"]) == (40, 40)


@pytest.mark.slow
def test_what_a_worker_gets(book):
    hand_in(book, "ada", "the bytes", mode="practice")
    work = take(book).work
    assert (work.submission_id, work.lab, work.learner) == (1, "lab05_tape", "ada")
    assert (work.filename, work.mode, work.data) == ("ada.ipynb", "practice", b"the bytes")
    assert work.sha256 == said("the bytes").sha256
    assert "the bytes" not in repr(work)


def test_who_stands_still_is_taken_for_dead_and_who_moves_is_not(book):
    for text in ("a", "b"):
        hand_in(book, "ada", text)
    still, moving = taking.claim(book, "elsewhere", limit=2, seconds=30)
    watch = Stopwatch()
    watchman = Watchman(watch)
    found = []
    for watch.seconds in (0.0, 20.0, 29.0, 40.0, 55.0):
        found.append(watchman.look(book))
        assert taking.beat(book, [moving]) == set()
    assert found == [[], [], [], [still.job_id], []]
    job = job_of(book, 1)
    assert (job.state, job.not_before) == ("waiting", None)
    assert job.fault == "The worker that had it (elsewhere) has not been heard of for 40 s."
    assert taking.beat(book, [still, moving]) == {still.job_id}


@pytest.mark.slow
def test_a_watchman_that_slept_itself_takes_nobody_for_dead(book):
    hand_in(book, "ada", "a")
    lease = take(book, seconds=30)
    watch = Stopwatch()
    watchman = Watchman(watch)
    for watch.seconds in (0.0, 1000.0, 2000.0):
        taking.beat(book, [lease])
        assert watchman.look(book) == []


@pytest.mark.slow
def test_a_new_lease_is_not_held_to_account_for_an_old_one(book):
    hand_in(book, "ada", "a")
    take(book, seconds=30)
    watch = Stopwatch()
    watchman = Watchman(watch)
    assert watchman.look(book) == []
    watch.seconds = 31.0
    assert watchman.look(book) == [1]
    take(book, seconds=30)
    assert watchman.look(book) == []


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [{"days": 400}, {"days": -400}, {"hours": 1}, {"seconds": -1}], ids=str)
def test_a_clock_that_jumps_ends_no_lease(book, monkeypatch, ahead):
    hand_in(book, "ada", "a")
    lease = take(book, seconds=30)
    watchman = Watchman(lambda: 5.0)
    watchman.look(book)
    put_clock(monkeypatch, **ahead)
    assert watchman.look(book) == []
    assert taking.claim(book, "another") == []
    assert taking.beat(book, [lease]) == set()
    assert taking.finish(book, lease, said("a"))


@pytest.mark.slow
def test_a_delay_ends_where_the_clock_is_put_back(book, monkeypatch):
    hand_in(book, "ada", "a")
    put_clock(monkeypatch, days=400)
    taking.fail(book, take(book), Fault("no sandbox"), Patience(first=60))
    assert taking.claim(book, "me") == []
    put_clock(monkeypatch, days=0)
    assert take(book).tries == 2


def test_a_worker_that_comes_back_from_the_dead_changes_nothing(book):
    hand_in(book, "ada", "a")
    lost = take(book, seconds=1)
    assert taking.put_back(book, 1, lost.token, 0, "gone")
    new = take(book)
    assert (taking.beat(book, [lost]), taking.beat(book, [new])) == ({1}, set())
    assert not taking.fail(book, lost, Fault("late", final=True))
    assert not taking.give_back(book, lost)
    assert not taking.finish(book, lost, said("a", spec_version="late"))
    assert grades(book) == 0
    assert taking.finish(book, new, said("a"))
    assert not taking.finish(book, new, said("a"))
    assert grades(book) == 1


@pytest.mark.slow
def test_work_that_is_done_counts_while_nobody_else_has_begun_it(book):
    hand_in(book, "ada", "a")
    lease = take(book)
    taking.put_back(book, 1, lease.token, 0, "gone")
    assert taking.finish(book, lease, said("a"))
    assert (job_of(book, 1).state, job_of(book, 1).fault) == ("done", "")


@pytest.mark.slow
def test_a_holder_that_moves_keeps_its_job(book):
    hand_in(book, "ada", "a")
    lease = take(book)
    taking.beat(book, [lease])
    assert not taking.put_back(book, 1, lease.token, 0, "gone")
    assert job_of(book, 1).state == "leased"


@pytest.mark.slow
def test_a_person_who_parks_a_job_takes_it_from_its_worker(book):
    hand_in(book, "ada", "a")
    lease = take(book)
    decisions.park(book, 1, by="grace", reason="copied")
    assert taking.beat(book, [lease]) == {1}
    assert not taking.finish(book, lease, said("a"))
    assert (job_of(book, 1).state, grades(book)) == ("parked", 0)


def test_tried_less_and_less_often_and_then_parked_by_name(book, monkeypatch):
    hand_in(book, "ada", "a")
    patience, waits = Patience(tries=4, first=5, factor=4, most=60), []
    for days in range(4):  # each try a day later
        put_clock(monkeypatch, days=days)
        taking.fail(book, take(book), Fault("The sandbox is gone."), patience)
        job = job_of(book, 1)
        waits.append(job.not_before and round((job.not_before - job.since).total_seconds()))
    assert waits == [5, 20, 60, None]
    assert (job.state, job.parked_by) == ("parked", "")
    assert job.fault == "Given up after 4 tries. The sandbox is gone."
    assert decisions.retry(book, 1, by="grace").tries == 0
    assert take(book).tries == 1


@pytest.mark.slow
def test_what_can_never_be_graded_is_parked_at_once(book):
    hand_in(book, "ada", "a")
    taking.fail(book, take(book), Fault("a.ipynb: not\x1b[2J a notebook.", final=True))
    assert (job_of(book, 1).state, job_of(book, 1).fault) == ("parked", "a.ipynb: not\\x1b[2J a notebook.")


@pytest.mark.slow
def test_a_job_that_ends_its_workers_is_parked_in_the_end(book):
    hand_in(book, "ada", "a")
    for _ in range(3):
        lease = take(book)
        taking.put_back(book, 1, lease.token, 0, "The worker ended.", Patience(tries=3))
    assert (job_of(book, 1).state, job_of(book, 1).fault) == ("parked", "Given up after 3 tries. The worker ended.")


@pytest.mark.slow
def test_what_is_given_back_was_not_tried(book):
    hand_in(book, "ada", "a")
    for _ in range(5):
        assert taking.give_back(book, take(book))
    assert take(book).tries == 1


@pytest.mark.slow
def test_what_the_grader_could_not_finish_is_shown_and_tried_again(book, monkeypatch):
    hand_in(book, "ada", "a")
    part = report(RIGHT, UNGRADED, mode="official", sha256=said("a").sha256)
    for days in range(2):
        put_clock(monkeypatch, days=days)
        taking.finish(book, take(book), part, Patience(tries=3))
    job = job_of(book, 1)
    assert (job.state, queries.submission(book, 1).points) == ("waiting", RIGHT.points)
    assert job.fault == "1 of 2 tasks could not be graded: The TensorFlow oracle did not answer."
    put_clock(monkeypatch, days=3)
    taking.finish(book, take(book), said("a"))
    assert (job_of(book, 1).state, queries.report(book, 1).tasks[1].verdict) == ("done", "wrong")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("priority", "state", "version"), [(0, "done", "newer"), (REGRADE, "waiting", SPEC)], ids=["new work", "a regrade"]
)
def test_a_worker_of_another_version(book, priority, state, version):
    """New work is served by whatever grades; a regrade asked for a version, and a worker that lacks it says so."""
    hand_in(book, "ada", "a", priority=priority)
    taking.finish(book, take(book), said("a", spec_version="newer"))
    job = job_of(book, 1)
    assert (job.state, job.spec_version, grades(book)) == (state, version, 1)
    assert ("version newer of lab05_tape" in job.fault) == (state == "waiting")


@pytest.mark.slow
def test_a_version_that_has_its_own_job_keeps_it(book):
    hand_in(book, "ada", "a")
    hand_in(book, "ada", "a", spec_version="newer", priority=REGRADE)
    taking.finish(book, take(book), said("a", spec_version="newer"))
    assert counts(book) == {"waiting": 1, "leased": 0, "done": 1, "parked": 0}


@pytest.mark.parametrize("given", [{"tries": 0}, {"first": -1}, {"factor": 0.5}, {"first": 9, "most": 1}], ids=str)
def test_a_patience_that_cannot_be_meant(given):
    with pytest.raises(ValueError, match="give at least 1 try"):
        Patience(**given)


def test_no_number_of_tries_is_too_large():
    assert Patience(tries=10**6).wait(10**6) == 600


@pytest.mark.slow
def test_a_holder_on_this_machine_is_known_to_be_gone():
    command = [sys.executable, "-c", "from autograder.queue.holders import me; print(me(), flush=True); input()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        name = process.stdout.readline().strip()
        assert not holders.is_gone(name)
        process.kill()
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT) is None:
            pass
        assert holders.is_gone(name)  # dead, though nobody has taken note of it
    finally:
        process.kill()
        process.communicate()
    assert holders.is_gone(name)
    host, boot, numbering, pid, born = json.loads(name)
    for other in (
        [host, boot, "pid:[1]", pid, born],
        [host, "", numbering, pid, born],
        ["far", boot, numbering, pid, born],
    ):
        assert not holders.is_gone(json.dumps(other))


@pytest.mark.parametrize("name", ["", "elsewhere", "[]", "{", '["a"]', "3", '["h", "b", "p", "x", "y"]', "null"])
def test_a_holder_that_names_itself_otherwise(name):
    assert not holders.is_gone(name)
    assert isinstance(holders.shown(name), str)


def test_this_process_lives():
    assert not holders.is_gone(holders.me())
    assert holders.shown(holders.me()).endswith(f"process {os.getpid()}")
