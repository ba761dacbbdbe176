"""The commands of the queue: what they say, what they change, and one line for what they refuse."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from queue_work import LAB, hand_in, said

from autograder import cli
from autograder.gradebook import open_gradebook, queries
from autograder.gradebook.audit import trail
from autograder.queue import taking
from autograder.queue.adding import enqueue, version_of
from autograder.queue.grading import Fault, Work, grade
from autograder.queue.views import counts, job_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def where(sqlite_template, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_USER", "grace")
    path = tmp_path / "gradebook.sqlite"
    path.write_bytes(sqlite_template.read_bytes())
    return path


def typed(capsys, where, *arguments):
    code = cli.run([*arguments, "--gradebook", str(where)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_watching_parking_and_trying_again(capsys, where):
    with open_gradebook(where) as book:
        for learner in ("ada", "bob", "eve\x1b[2J"):
            hand_in(book, learner, learner)
        [lease] = taking.claim(book, '["host", "boot", "pid", 7, "1"]')
        taking.fail(book, taking.claim(book, "x")[0], Fault("Another lab's notebook.", final=True))
    assert typed(capsys, where, "queue", "watch") == (
        0,
        "1 waiting, 1 being graded, 0 done, 1 parked\n"
        f"job 1: submission 1, {LAB}, ada: being graded by host, process 7\n"
        f"job 3: submission 3, {LAB}, eve?[2J: waiting\n"
        f"job 2: submission 2, {LAB}, bob: parked. Another lab's notebook.\n",
        "",
    )
    assert typed(capsys, where, "queue", "retry", "2", "--reason", "let's see") == (0, "job 2: waiting\n", "")
    assert typed(capsys, where, "queue", "park", "3", "2", "--reason", "copied") == (
        0,
        "job 3: parked\njob 2: parked\n",
        "",
    )
    _, told, _ = typed(capsys, where, "queue", "watch", "--learner", "bob")
    assert told.splitlines()[1:] == [f"job 2: submission 2, {LAB}, bob: parked by grace. copied"]
    with open_gradebook(where) as book:
        taking.finish(book, lease, said("ada"))
        assert [change.who for change in trail(book, what="queue")] == ["grace"] * 3
    _, told, _ = typed(capsys, where, "queue", "watch", "--done", "--limit", "0")
    assert told.splitlines()[0] == "0 waiting, 0 being graded, 1 done, 2 parked"
    assert len(told.splitlines()) == 4


REFUSED = [
    (["queue", "retry", "9"], r"there is no job 9"),
    (["queue", "park", "9", "--reason", "x"], r"there is no job 9"),
    (["queue", "park", "1"], r"(?i)missing option '--reason'"),
    (["queue", "park", "1", "--reason", " "], r"needs a reason"),
    (["queue", "retry", "one"], r"JOB.*valid integer"),
    (["regrade"], r"give --lab, --learner or both, or else --all"),
    (["regrade", "--all", "--lab", LAB], r"give --lab, --learner or both, or else --all"),
    (["regrade", "--lab", "lab05"], r"there is no lab 'lab05'"),
    (["regrade", "--learner", "nobody"], r"nobody is called 'nobody'"),
    (
        ["worker", "--executor", "grid"],
        r"--executor grid: there is no such; there are pool, process, dask and kubernetes",
    ),
    (["worker", "--scheduler", "tcp://127.0.0.1:1"], r"--scheduler is for --executor dask"),
    (["worker", "--slots", "-1"], r"--slots.*greater than or equal to 0"),
    (["worker", "--executor", "dask", "--scheduler", "nonsense://x"], r"Dask: no scheduler answers at nonsense://x"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_refused_in_one_line(capsys, where, arguments, words):
    code, out, err = typed(capsys, where, *arguments)
    assert (code, out) == (2, "")
    assert re.search(words, err)
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_regrade(capsys, where):
    with open_gradebook(where) as book:
        for learner in ("ada", "bob"):
            hand_in(book, learner, learner, spec_version=version_of(book, LAB))
        book.record(1, said("ada", spec_version=version_of(book, LAB)))
        book.record(2, said("bob", spec_version="old"))
        book.submit(b"old", lab="lab98_gone", learner="ada", filename="a.ipynb", source="test")
    said_now = "0 to be graded, 1 graded by the present spec already, 1 in the queue already, 0 parked.\n"
    assert typed(capsys, where, "regrade", "--lab", LAB, "--reason", "fixed") == (0, said_now, "")
    code, told, _ = typed(capsys, where, "regrade", "--all")
    assert code == 2
    assert told.splitlines()[1] == "Left as they are: lab98_gone, which this autograder does not have."


FOREIGN = [
    (b"", "the file is empty"),
    (b"{", "not a notebook|not JSON|cut off|ends"),
    (b"\x00\xff\xfe", "not JSON|not text|UTF-8"),
    (json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"autograder": {"lab": "lab01_tensor"}}, "cells": []}),
     "lab01_tensor"),
    (json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"language": "julia", "name": "j"}},
                 "cells": []}), "(?i)julia"),
    (json.dumps({"nbformat": 3, "worksheets": []}), "format"),
    (b"[" * 3_000_000, "too many parts"),
    (b" " * (51 << 20), "more than 50 MB"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("data", "words"), FOREIGN, ids=[words for _, words in FOREIGN])
def test_what_is_not_this_labs_notebook_is_said_once_and_for_all(data, words):
    """Parked at the first try, in words for the learner, without a sandbox."""
    raw = data.encode() if isinstance(data, str) else data
    outcome = grade(Work(1, LAB, "ada", "a.ipynb", said(raw).sha256, "official", raw))
    assert outcome.final
    assert outcome.words.startswith("It was handed in for lab05_tape, but cannot be graded as that:")
    assert re.search(words, outcome.words)


def test_bytes_that_changed_in_the_store_are_not_graded():
    raw = (ROOT / "labs/lab05_tape.ipynb").read_bytes()
    outcome = grade(Work(1, LAB, "ada", "a.ipynb", "0" * 64, "official", raw))
    assert outcome == Fault("The bytes that were stored have another SHA-256 than 000000000000.", final=True)


def test_a_lab_that_this_worker_lacks_may_be_on_another():
    outcome = grade(Work(1, "lab98_gone", "ada", "a.ipynb", "0" * 64, "official", b"{}"))
    assert not outcome.final
    assert "lab98_gone" in outcome.words


@pytest.mark.slow
def test_a_real_worker_grades_a_real_notebook(where):
    """The command as an instructor starts it, ended as a supervisor ends it; attachments and outputs do no harm."""
    solution = json.loads((ROOT / "labs/solutions/lab05_tape.ipynb").read_text())
    solution["cells"][0]["attachments"] = {"a.png": {"image/png": "iVBORw0KGgo="}}
    with open_gradebook(where) as book:
        for learner, data in (("ada", json.dumps(solution).encode()), ("bob", b"{}")):
            receipt = book.submit(data, lab=LAB, learner=learner, filename="a.ipynb", source="test")
            enqueue(book, receipt.submission_id, mode="practice")
    command = [sys.executable, "-m", "autograder", "worker", "--slots", "1", "--gradebook", str(where)]
    worker = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    try:
        lines = [worker.stdout.readline() for _ in range(3)]
        worker.send_signal(signal.SIGTERM)
        rest, _ = worker.communicate(timeout=120)
    finally:
        worker.kill()
        worker.wait()
    assert lines[0] == "Grading with 1 at a time (pool).\n"
    assert lines[1] == f"submission 1 ({LAB}, ada): graded\n"
    assert lines[2].startswith(f"submission 2 ({LAB}, bob): It was handed in for {LAB}, but")
    assert (worker.returncode, rest) == (0, "1 graded, 1 not.\n")
    with open_gradebook(where) as book:
        assert counts(book) == {"waiting": 0, "leased": 0, "done": 1, "parked": 1}
        assert (queries.report(book, 1).nothing_lost, job_of(book, 2).tries) == (True, 1)
