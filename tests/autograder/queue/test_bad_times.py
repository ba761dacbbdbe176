"""What can happen to a class at its deadline: nothing is lost, nothing is graded twice, and somebody is told why."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import psycopg
import pytest
from queue_work import LAB, hand_in, obey, said
from sqlalchemy import event, func, select
from sqlalchemy.engine import Engine

from autograder.gradebook import GradebookError, open_gradebook, queries, roster
from autograder.gradebook.models import Grade
from autograder.gradebook.scores import mark
from autograder.queue.executors.here import Here
from autograder.queue.views import counts, job_of, watch
from autograder.queue.worker import Worker

PATIENCE = 60.0


def until(true):
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.01)


@contextmanager
def worker(address, run=obey):
    """A worker in a thread, and what it tells."""
    told = []
    made = Worker(address, Here(2, run), poll=0.01, tell=told.append)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield told
    finally:
        made.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def grades(book):
    with book.reading() as session:
        return session.scalar(select(func.count(Grade.id)))


@pytest.mark.slow
def test_two_tabs_hand_in_the_same_at_once(book, address):
    """Of one learner, from eight windows: one submission, one job, one grade, and every attempt is counted."""
    together, errors = threading.Barrier(8), []

    def tab():
        try:
            with open_gradebook(address) as own:
                together.wait()
                hand_in(own, "ada", "the same")
        except Exception as error:  # noqa: BLE001  told below, in the test's own thread
            errors.append(error)

    tabs = [threading.Thread(target=tab) for _ in range(8)]
    for one in tabs:
        one.start()
    for one in tabs:
        one.join()
    assert errors == []
    assert queries.counts(book) == (1, 8)
    assert len(watch(book)) == 1
    with worker(address):
        until(lambda: counts(book)["done"] == 1)
    assert grades(book) == 1


@pytest.mark.slow
def test_renamed_or_gone_from_the_class_while_it_waits(book, address):
    roster.enrol(book, "ada", by="root", shown_as="Ada")
    roster.enrol(book, "bob", by="root", shown_as="Ada")
    for learner in ("ada", "bob"):
        hand_in(book, learner, learner)
    roster.rename(book, "ada", "lovelace", by="root")
    roster.leave(book, "bob", by="root")
    assert [one.learner for one in watch(book)] == ["lovelace", "bob"]
    with worker(address) as told:
        until(lambda: counts(book)["done"] == 2)
    assert told == ["submission 1 (lab05_tape, lovelace): graded", "submission 2 (lab05_tape, bob): graded"]
    assert mark(book, learner="lovelace", lab=LAB).submission == 1
    assert mark(book, learner="bob", lab=LAB).submission == 2


@pytest.mark.slow
def test_a_server_that_goes_away_in_the_middle(cluster, emptied_postgresql_book):
    """PostgreSQL ends every connection and takes no new one for a while; then all that was graded is recorded."""

    address = emptied_postgresql_book
    go, began = threading.Event(), threading.Event()

    def held(work):
        began.set()
        go.wait(PATIENCE)
        return said(work.data).to_json()

    def server(order):
        with psycopg.connect(cluster.format("postgres"), autocommit=True) as connection:
            connection.execute(order)

    with open_gradebook(address) as book:
        hand_in(book, "ada", "a")
        with worker(address, held) as told:
            try:
                assert began.wait(PATIENCE)
                server("ALTER DATABASE book ALLOW_CONNECTIONS false")
                server("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'book'")
                go.set()
                until(lambda: told)
                with pytest.raises(GradebookError, match="gradebook postgresql"):
                    hand_in(book, "bob", "b")
            finally:
                server("ALTER DATABASE book ALLOW_CONNECTIONS true")
            until(lambda: counts(book)["done"] == 1)
        assert grades(book) == 1
    assert "is kept and recorded as soon as that is put right" in told[0]
    assert told[1:] == ["submission 1 (lab05_tape, ada): graded", f"The gradebook {book.where} is there again."]


@pytest.mark.slow
def test_a_disk_that_is_full_in_the_middle(sqlite_template, tmp_path):
    """No page more for the file: who hands in is told that it is not stored; what is graded waits for space."""
    path = tmp_path / "gradebook.sqlite"
    path.write_bytes(sqlite_template.read_bytes())
    full, go, began = threading.Event(), threading.Event(), threading.Event()

    def limit(connection, record, proxy):
        pages = 1 if full.is_set() else 2**30  # 1: as many as there are
        connection.execute(f"PRAGMA max_page_count = {pages}")

    def held(work):
        began.set()
        go.wait(PATIENCE)
        return said(work.data, notes=["x" * 100_000]).to_json()

    event.listen(Engine, "checkout", limit)
    try:
        with open_gradebook(path) as book, worker(str(path), held) as told:
            hand_in(book, "ada", "a")
            assert began.wait(PATIENCE)
            full.set()
            with pytest.raises(GradebookError, match="could not store the submission: the disk is full"):
                hand_in(book, "bob", "b" * 100_000)
            go.set()
            until(lambda: told)
            full.clear()
            until(lambda: counts(book)["done"] == 1)
            assert queries.counts(book) == (1, 1)
            assert (grades(book), job_of(book, 1).tries) == (1, 1)
    finally:
        event.remove(Engine, "checkout", limit)
    assert "could not record the grade: the disk is full" in told[0]
