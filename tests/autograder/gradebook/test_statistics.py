"""How a class does, on each database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from classroom_work import DUE, LAB, hand_in, task

from autograder.gradebook import decisions, roster
from autograder.gradebook.statistics import of_lab

HOUR = timedelta(hours=1)
ADDED = "The gradient was not summed. `y` has shape (3,)."
ADDED_AGAIN = "The gradient was not summed. `w` has shape (7, 2)."
ORDER = "The order is reversed."


@pytest.fixture
def course(book):
    """ada gets there in two steps, bob in one, late; cyn does not; dan waits; eve teaches; fay left."""
    decisions.assign(book, LAB, by="grace", due=DUE, points=10.0)
    wrong = [task("rules", 0.0, 4.0, diagnosis=ADDED), task("order", 4.0, 4.0)]
    right = [task("rules", 4.0, 4.0), task("order", 4.0, 4.0)]
    poor = [task("rules", 0.0, 4.0, diagnosis=ADDED_AGAIN), task("order", 1.0, 4.0, diagnosis=ORDER)]
    hand_in(book, "ada", "a1", tasks=wrong, late=-5 * HOUR)
    hand_in(book, "ada", "a2", tasks=right, late=-2 * HOUR)
    hand_in(book, "bob", "b1", tasks=right, late=HOUR)
    hand_in(book, "cyn", "c1", tasks=poor)
    hand_in(book, "cyn", "c2", tasks=poor)
    hand_in(book, "dan", "d1")
    hand_in(book, "eve", "e1", tasks=poor)
    hand_in(book, "fay", "f1", tasks=poor)
    roster.enrol(book, "eve", by="grace", roles=["instructor"])
    roster.leave(book, "fay", by="grace")
    return book


@pytest.mark.slow
def test_a_lab(course):
    found = of_lab(course, LAB)
    assert (found.handed_in, found.graded, found.full_marks, found.late) == (4, 3, 2, 1)
    assert (found.mean, found.median, found.max_points) == (pytest.approx(21.25 / 3), 10.0, 10.0)
    assert found.distribution == [0, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert found.to_full_marks == timedelta(hours=1.5)


@pytest.mark.slow
def test_its_tasks(course):
    rules, order = of_lab(course, LAB).tasks
    assert (rules.task, rules.learners, rules.mean, rules.max_points) == ("rules", 3, pytest.approx(8 / 3), 4.0)
    assert rules.verdicts == {"right": 2, "wrong": 1}
    # By its first sentence, and once for each learner: ada's earlier submission counts here, cyn's two are one.
    assert rules.diagnoses == [("The gradient was not summed.", 2)]
    assert order.diagnoses == [(ORDER, 1)]


@pytest.mark.slow
def test_a_regrade_is_seen_and_the_old_grade_is_not(course):
    hand_in(course, "cyn", "c2", tasks=[task("rules", 4.0, 4.0), task("order", 4.0, 4.0)], spec_version="two")
    found = of_lab(course, LAB)
    assert found.full_marks == 3
    assert [one.verdicts for one in found.tasks] == [{"right": 3}, {"right": 3}]


def test_a_lab_that_nobody_handed_in(book):
    found = of_lab(book, LAB)
    assert (found.handed_in, found.mean, found.to_full_marks, found.tasks) == (0, None, None, [])
    assert found.distribution == [0] * 10
