"""The deadline hour: arrivals as they are meant, waits that follow from them, and the real queue behind it."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from queue_work import LAB

from autograder import cli, loadtest
from autograder.gradebook import open_gradebook, queries
from autograder.loadtest import HOUR, Load, Queue, Real, needed, percentile, run
from autograder.queue.views import counts
from autograder.spec import load_lab


def test_the_class_hands_in_near_the_end():
    arrivals = Load(200, 3, seed=5).arrivals()
    times = [when for when, _ in arrivals]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] <= HOUR
    assert set(Counter(learner for _, learner in arrivals).values()) == {3}
    assert 0.58 < sum(when > HOUR - loadtest.NEAR for when in times) / len(times) < 0.72
    assert arrivals == Load(200, 3, seed=5).arrivals() != Load(200, 3, seed=6).arrivals()


def test_with_enough_workers_nobody_waits_and_with_one_the_last_waits_for_all():
    load, draw = Load(40, 3), random.Random(3)
    seconds = [draw.uniform(20, 40) for _ in range(30)]
    many, one = (run(load, workers, seconds, Queue()) for workers in (200, 1))
    assert max(many.waits) <= loadtest.POLL
    assert one.end > sum(seconds) / 30 * 120 * 0.8
    assert one.throughput <= 3
    for outcome in (many, one):
        assert len(outcome.waits) == len(outcome.answers) == 120
        assert min(outcome.waits) >= 0


def test_the_fewest_workers_that_keep_the_wait():
    load, seconds = Load(60, 3), [30.0, 50.0]
    found = needed(load, seconds, wait=60)
    assert percentile(found.waits, 0.95) <= 60
    assert found.workers > 1
    assert percentile(run(load, found.workers - 1, seconds, Queue()).waits, 0.95) > 60


def test_a_queue_that_is_itself_too_slow():
    with pytest.raises(ValueError, match="the queue takes 30000 ms for each submission"):
        needed(Load(50, 3), [1.0], wait=60, each=30.0)


@pytest.mark.parametrize(("part", "expected"), [(0.95, 7), (0.5, 3), (0.01, 1), (1.0, 7)])
def test_percentiles(part, expected):
    assert percentile([7, 1, 3, 5, 2], part) == expected


@pytest.mark.slow
def test_the_real_queue_grades_everything_once(book):
    load, lab = Load(6, 2), load_lab(LAB)
    outcome = run(load, 2, [1.0, 2.0], Real(book, lab, b"{}"))
    assert len(outcome.waits) == 12
    assert outcome.queue > 0
    assert (queries.counts(book), counts(book)["done"]) == ((12, 12), 12)
    graded = queries.submissions(book)
    assert len({one.learner for one in graded}) == 6
    assert all(one.full_marks for one in graded)


@pytest.mark.slow
def test_the_command(capsys, tmp_path):
    where = ["--gradebook", str(tmp_path / "g.sqlite")]
    assert cli.run(["loadtest", "--learners", "8", "--seconds", "1.5,2", "--workers", "1", *where]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "A grading takes 1.75 s at the median, 2.00 s at the 95th percentile."
    assert told[1] == "8 learners, 3 submissions each in the hour before the deadline, 1 workers, real queue:"
    assert re.fullmatch(r"  throughput: \d+ graded in the best minute; all 24 were graded \d+ s after .*", told[2])
    assert [row.split(" | ")[0] for row in told[-5:]] == ["| 8", "| 30", "| 100", "| 300", "| 1000"]
    with open_gradebook(tmp_path / "g.sqlite") as book:
        assert counts(book)["done"] == 24
    assert cli.run(["loadtest", "--learners", "8", "--seconds", "1.5", *where]) == 2
    assert "is in use; name an empty gradebook" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seconds", "1,a"], "give seconds, as 1.5,2,0.8"),
        (["--seconds", "0"], "more than 0 s and less than a day"),
        (["--seconds", "nan"], "more than 0 s"),
        (["--lab", "lab98_gone"], "there is no lab 'lab98_gone'"),
    ],
)
def test_what_cannot_be_tried(capsys, arguments, words):
    assert cli.run(["loadtest", *arguments]) == 2
    assert words in capsys.readouterr().err
