"""Marks: what counts under each policy, what lateness takes, and how decisions move them, on each database."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from classroom_work import DUE, LAB, hand_in, task
from sqlalchemy import func, select

from autograder.gradebook import GradebookError, decisions, roster
from autograder.gradebook.models import Grade, TaskGrade
from autograder.gradebook.policy import LateRule
from autograder.gradebook.scores import mark, sheet

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TENTH = LateRule.parse("10%/day max 50% zero 7d")


def points(book, learner="ada"):
    return mark(book, learner=learner, lab=LAB).points


@pytest.mark.parametrize(
    ("policy", "work", "expected"),
    [
        ("best", [("a", 4, 0), ("b", 3, 0)], 4),
        ("last", [("a", 4, 0), ("b", 3, 0)], 3),
        ("best", [("a", 2, -1), ("b", 4, 25)], 3.2),
        ("best", [("a", 3.5, -1), ("b", 4, 25)], 3.5),
        ("last", [("a", 3.5, -1), ("b", 4, 25)], 3.2),
        ("last", [("b", 2, -2), ("a", 4, -1), ("b", 2, 30)], 2),
        ("last", [("a", 4, 24 * 8)], 0),
        ("last", [("a", 4, 24 * 6)], 2),
        ("best", [("a", 4, -5), ("b", 3, 24 * 8)], 4),
        ("last", [("a", 4, 5), ("b", 3, -5)], 3),
        ("best", [("a", 0, 0)], 0),
    ],
    ids=[
        "the best",
        "the last",
        "late but better still",
        "late and no better after it",
        "late and last",
        "bytes that came in time are in time again",
        "after all time",
        "at the cap",
        "too late costs nothing that was earned",
        "last by receipt, though the clock went back",
        "nothing earned is a mark",
    ],
)
def test_what_counts(book, policy, work, expected):
    decisions.assign(book, LAB, by="grace", due=DUE, policy=policy, late=TENTH)
    for text, earned, hours in work:
        hand_in(book, "ada", text, earned, late=hours * HOUR)
    assert points(book) == pytest.approx(expected)


@pytest.mark.slow
def test_marks_follow_a_moved_deadline_an_extension_and_another_rule(book):
    hand_in(book, "ada", "a", 4, late=25 * HOUR)
    seen = [points(book)]
    steps = [
        lambda: decisions.assign(book, LAB, by="grace", due=DUE, late=TENTH),
        lambda: decisions.extend(book, LAB, "ada", DUE + 2 * HOUR, by="grace", why="ill"),
        lambda: decisions.extend(book, LAB, "ada", DUE + 2 * DAY, by="grace", why="still ill"),
        lambda: decisions.extend(book, LAB, "ada", None, by="grace", why="a mistake"),
        lambda: decisions.assign(book, LAB, by="grace", late=LateRule.parse("1%/hour")),
        lambda: decisions.assign(book, LAB, by="grace", due=DUE + DAY),
        lambda: decisions.extend(book, LAB, "ada", DUE, by="grace", why="before the common deadline"),
        lambda: decisions.assign(book, LAB, by="grace", due=None),
    ]
    for step in steps:
        step()
        seen.append(points(book))
    assert seen == pytest.approx([4, 3.2, 3.6, 4, 3.2, 3, 3.96, 3.96, 4])
    with book.reading() as session:  # the grade itself never moved
        assert session.execute(select(Grade.points, Grade.max_points)).all() == [(4.0, 4.0)]


def test_full_marks_are_worth_the_same_whatever_was_deleted(book):
    decisions.assign(book, LAB, by="grace", points=10.0)
    hand_in(book, "ada", "all", tasks=[task("a", 4.0, 4.0), task("b", 4.0, 4.0)])
    hand_in(book, "bob", "half", tasks=[task("a", 4.0, 4.0), task("b", 0.0, 4.0, "missing")])
    found = sheet(book).marks
    assert [found[name, LAB].points for name in ("ada", "bob")] == [10.0, 5.0]
    assert {one.max_points for one in found.values()} == {10.0}


def test_official_counts_before_practice_and_the_newest_spec(book):
    hand_in(book, "ada", "a", 4, mode="practice")
    hand_in(book, "ada", "a", 1, spec_version="old")
    hand_in(book, "ada", "a", 2, spec_version="new")
    hand_in(book, "ada", "a", 3, mode="practice", spec_version="new")
    assert points(book) == 2


@pytest.mark.slow
def test_adjustments_come_after_the_rules_and_can_be_withdrawn(book):
    decisions.assign(book, LAB, by="grace", due=DUE, late=TENTH)
    hand_in(book, "ada", "a", 4, late=HOUR)
    more = decisions.adjust(book, LAB, "ada", 0.5, by="grace", reason="a good question")
    assert points(book) == pytest.approx(4.1)
    fixed = decisions.adjust(book, LAB, "ada", 2, by="grace", reason="copied in part", replaces=True)
    assert points(book) == 2
    decisions.adjust(book, LAB, "ada", -9, by="grace", reason="below nothing is nothing")
    assert points(book) == 0
    decisions.withdraw(book, fixed, by="grace", reason="it was not")
    decisions.withdraw(book, more, by="grace", reason="nor was that")
    assert points(book) == 0
    decisions.adjust(book, LAB, "ada", 3, by="grace", reason="settled", replaces=True)
    assert points(book) == 3
    assert mark(book, learner="ada", lab=LAB).adjusted == pytest.approx(3 - 3.6)
    with pytest.raises(GradebookError, match="withdrawn already"):
        decisions.withdraw(book, fixed, by="grace", reason="twice")


def test_a_mark_without_a_submission(book):
    roster.enrol(book, "ada", by="grace")
    assert mark(book, learner="ada", lab=LAB) is None
    decisions.adjust(book, LAB, "ada", 7, by="grace", reason="done orally", replaces=True)
    found = mark(book, learner="ada", lab=LAB)
    assert (found.points, found.submission, found.waiting) == (7, None, False)


def test_points_by_hand_stand_through_a_regrade(book):
    essay = [task("rules", 1.0, 4.0), task("essay", 0.0, 6.0, "ungraded")]
    key = hand_in(book, "ada", "a", tasks=essay)
    assert mark(book, learner="ada", lab=LAB).by_hand == ("essay",)
    decisions.score_by_hand(book, key, "essay", 5.0, by="grace", comment="clear")
    hand_in(book, "ada", "a", tasks=[task("rules", 4.0, 4.0), essay[1]], spec_version="two")
    found = mark(book, learner="ada", lab=LAB)
    assert (found.points, found.by_hand) == (9.0, ())
    decisions.score_by_hand(book, key, "essay", 6.0, by="grace", comment="on second thoughts")
    assert points(book) == 10.0
    with book.reading() as session:
        assert session.scalar(select(func.sum(TaskGrade.points)).where(TaskGrade.task == "essay")) == 0.0


@pytest.mark.parametrize(
    ("task_name", "given", "words"),
    [("essay", 1.0, "no task 'essay': it has task0"), ("task0", 4.5, "0 to 4 points"), ("task0", -1.0, "0 to 4")],
)
def test_points_by_hand_that_cannot_be(book, task_name, given, words):
    key = hand_in(book, "ada", "a", 3)
    with pytest.raises(GradebookError, match=words):
        decisions.score_by_hand(book, key, task_name, given, by="grace")
    with pytest.raises(GradebookError, match="0 to 4"):
        decisions.score_by_hand(book, key, "task0", float("nan"), by="grace")
    assert points(book) == 3


def test_work_that_is_not_graded_yet(book):
    hand_in(book, "ada", "a", 3)
    hand_in(book, "ada", "b")
    found = mark(book, learner="ada", lab=LAB)
    assert (found.points, found.waiting, found.submissions) == (3, True, 2)
    decisions.assign(book, LAB, by="grace", policy="last")
    found = mark(book, learner="ada", lab=LAB)
    assert (found.points, found.waiting) == (None, True)


@pytest.mark.slow
def test_who_is_on_the_sheet(book):
    for name in ("ada", "bob", "cyn", "dan"):
        hand_in(book, name, name, 2)
    roster.enrol(book, "eve", by="grace")
    roster.enrol(book, "bob", by="grace", roles=["instructor"])
    roster.enrol(book, "cyn", by="grace", roles=["grader", "learner"])
    roster.leave(book, "dan", by="grace", why="left")
    assert sheet(book).learners == ["ada", "cyn", "eve"]
    assert set(sheet(book).marks) == {("ada", LAB), ("cyn", LAB)}
    assert sheet(book, left=True).learners == ["ada", "cyn", "dan", "eve"]
    roster.rename(book, "ada", "zoe", by="grace", why="married")
    assert points(book, "zoe") == 2
    hand_in(book, "other", "o", 4, lab="lab06")
    assert sheet(book, lab="lab06").labs == ["lab06"]
    assert sheet(book).labs == [LAB, "lab06"]
    assert mark(book, learner="nobody", lab=LAB) is None


def test_zones_of_those_who_ask_make_no_difference(book):
    far = timezone(timedelta(hours=14))
    decisions.assign(book, LAB, by="grace", due=DUE.astimezone(far), zone="Pacific/Kiritimati", late=TENTH)
    hand_in(book, "ada", "a", 4, late=timedelta(0))
    found = mark(book, learner="ada", lab=LAB)
    assert (found.points, found.due, found.due.utcoffset()) == (4, DUE, timedelta(0))
    with pytest.raises(GradebookError, match="has no zone"):
        decisions.assign(book, LAB, by="grace", due=datetime(2026, 10, 5))
