"""Who may be in a class and what is decided: each change audited with it or not made at all, on each database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from classroom_work import DUE, LAB, hand_in

from autograder.gradebook import GradebookError, decisions, open_gradebook, roster
from autograder.gradebook.audit import trail
from autograder.gradebook.policy import LateRule, PolicyError
from autograder.gradebook.scores import mark

pytestmark = pytest.mark.slow


def decide(book):
    """One of each kind of change."""
    roster.enrol(book, "ada", by="grace", shown_as="Ada L.")
    roster.enrol(book, "ada", by="grace", roles=["grader"], why="helps out")
    key = hand_in(book, "ada", "a", 3)
    decisions.assign(book, LAB, by="grace", due=DUE, policy="last")
    decisions.extend(book, LAB, "ada", DUE + timedelta(days=1), by="grace", why="ill")
    number = decisions.adjust(book, LAB, "ada", 1, by="grace", reason="extra")
    decisions.withdraw(book, number, by="alan", reason="too much")
    decisions.score_by_hand(book, key, "task0", 2.0, by="grace", comment="neat")
    roster.rename(book, "ada", "ada2", by="root", why="another login")
    roster.leave(book, "ada2", by="root", why="gone")


def test_every_change_is_on_record(book):
    decide(book)
    found = [(one.who, one.what, one.learner, one.why) for one in reversed(trail(book))]
    assert found == [
        ("grace", "person", "ada2", ""),
        ("grace", "person", "ada2", "helps out"),
        ("grace", "assignment", "", ""),
        ("grace", "extension", "ada2", "ill"),
        ("grace", "adjustment", "ada2", "extra"),
        ("alan", "adjustment", "ada2", "too much"),
        ("grace", "hand score", "ada2", "neat"),
        ("root", "person", "ada2", "another login"),
        ("root", "person", "ada2", "gone"),
    ]
    role = trail(book, what="person")[2]
    assert (role.old["roles"], role.new["roles"]) == (["learner"], ["grader"])
    withdrawn = trail(book, lab=LAB, learner="ada2")[1]
    assert (withdrawn.old["points"], withdrawn.new) == (1.0, None)
    assert [one.id for one in trail(book)] == sorted((one.id for one in trail(book)), reverse=True)
    assert len(trail(book, limit=2)) == 2


def test_no_change_no_entry(book):
    decisions.assign(book, LAB, by="grace", due=DUE)
    decisions.assign(book, LAB, by="grace", due=DUE, why="once more")
    roster.enrol(book, "ada", by="grace")
    roster.enrol(book, "ada", by="grace")
    decisions.extend(book, LAB, "ada", None, by="grace", why="there was none")
    assert [one.what for one in trail(book)] == ["person", "assignment"]


def test_a_change_that_cannot_be_audited_is_not_made(book, monkeypatch):
    decisions.assign(book, LAB, by="grace", due=DUE)

    def broken(*arguments, **named):
        raise GradebookError("no room for the audit")

    monkeypatch.setattr(decisions, "note", broken)
    with pytest.raises(GradebookError, match="no room"):
        decisions.assign(book, LAB, by="grace", due=DUE + timedelta(days=1))
    with pytest.raises(GradebookError, match="no room"):
        decisions.assign(book, "lab06", by="grace", points=3.0)
    assert {name: terms.due for name, terms in decisions.assignments(book).items()} == {LAB: DUE}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda book: decisions.assign(book, LAB, by=" ", due=DUE), "who makes it"),
        (lambda book: decisions.assign(book, LAB, by="g", policy="mean"), "no policy 'mean'; there are best, last"),
        (lambda book: decisions.assign(book, LAB, by="g", points=0), "more than 0"),
        (lambda book: decisions.assign(book, LAB, by="g", points=float("nan")), "more than 0"),
        (lambda book: decisions.assign(book, LAB, by="g", due=DUE, released=DUE), "before it is released"),
        (lambda book: decisions.assign(book, "", by="g"), "name of a lab"),
        (lambda book: decisions.assign(book, "x" * 101, by="g"), "name of a lab"),
        (lambda book: decisions.assign(book, LAB, by="g", zone="Mars"), "time zone 'Mars'"),
        (lambda book: decisions.extend(book, LAB, "nobody", DUE, by="g", why="x"), "nobody is called 'nobody'"),
        (lambda book: decisions.extend(book, LAB, "ada", DUE, by="g", why=" "), "needs a reason"),
        (lambda book: decisions.adjust(book, LAB, "nobody", 1, by="g", reason="x"), "nobody is called"),
        (lambda book: decisions.adjust(book, LAB, "ada", 1, by="g", reason=""), "needs a reason"),
        (lambda book: decisions.adjust(book, LAB, "ada", float("inf"), by="g", reason="x"), "not a mark"),
        (lambda book: decisions.adjust(book, LAB, "ada", -1, by="g", reason="x", replaces=True), "not a mark"),
        (lambda book: decisions.withdraw(book, 99, by="g", reason="x"), "there is none"),
        (lambda book: decisions.score_by_hand(book, 99, "rules", 1, by="g"), "no submission 99"),
        (lambda book: roster.enrol(book, "", by="g"), "cannot be a person's name"),
        (lambda book: roster.enrol(book, "a\x1b[2J", by="g"), "cannot be a person's name"),
        (lambda book: roster.enrol(book, "x" * 256, by="g"), "cannot be a person's name"),
        (lambda book: roster.enrol(book, "eve", by="g", roles=["god"]), "no role 'god'"),
        (lambda book: roster.enrol(book, "eve", by="g", lti_id="7"), "already that of 'ada'"),
        (lambda book: roster.rename(book, "ada", "bob", by="g"), "somebody else is already"),
        (lambda book: roster.rename(book, "nobody", "x", by="g"), "nobody is called"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(book, change, words):
    roster.enrol(book, "ada", by="g", lti_id="7")
    roster.enrol(book, "bob", by="g")
    before = trail(book)
    with pytest.raises((GradebookError, PolicyError), match=words) as error:
        change(book)
    assert "\n" not in str(error.value)
    assert trail(book) == before
    assert decisions.assignments(book) == {}
    assert [one.name for one in roster.people(book, left=True)] == ["ada", "bob"]


def test_terms_are_kept_but_for_what_is_given(book):
    rule = LateRule.parse("10%/day max 50%")
    decisions.assign(book, LAB, by="grace", due=DUE, zone="Asia/Shanghai", late=rule, points=10.0)
    terms = decisions.assign(book, LAB, by="grace", policy="last", points=None)
    assert (terms.due, terms.zone, terms.late, terms.policy, terms.points) == (DUE, "Asia/Shanghai", rule, "last", None)
    assert decisions.assignments(book) == {LAB: terms}


def test_roles(book):
    roster.enrol(book, "grace", by="root", roles=["instructor"], lti_id="u-1")
    roster.enrol(book, "ada", by="grace")
    assert roster.may(book, "grace", "instructor", "grader")
    assert not roster.may(book, "ada", "instructor", "grader")
    assert not roster.may(book, "nobody", "learner", "instructor")
    assert [one.name for one in roster.people(book, role="learner")] == ["ada"]
    roster.leave(book, "grace", by="root")
    assert not roster.may(book, "grace", "instructor")
    assert roster.enrol(book, "grace", by="root").roles == ("instructor",)
    assert roster.person(book, "grace").lti_id == "u-1"


def test_a_renamed_learner_hands_in_as_before_and_one_who_left_loses_nothing(book):
    key = hand_in(book, "ada", "same", 3)
    roster.rename(book, "ada", "ada2", by="root")
    assert hand_in(book, "ada2", "same") == key
    roster.leave(book, "ada2", by="root")
    hand_in(book, "ada2", "more", 4)
    assert mark(book, learner="ada2", lab=LAB).points == 4


def test_changes_at_the_same_moment_are_all_kept(address):
    """Several instructors, each with a connection of their own, as two tabs have."""
    with open_gradebook(address) as book:
        roster.enrol(book, "ada", by="root")
        decisions.assign(book, LAB, by="root", due=DUE)

    def work(number):
        with open_gradebook(address) as book:
            for turn in range(5):
                decisions.adjust(book, LAB, "ada", 1, by=f"i{number}", reason="one more")
                decisions.extend(
                    book, LAB, "ada", DUE + timedelta(minutes=10 * number + turn + 1), by=f"i{number}", why="turn"
                )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    with open_gradebook(address) as book:
        assert mark(book, learner="ada", lab=LAB).points == 20
        entries = list(reversed(trail(book, what="extension")))
        assert len(entries) == 20
        # Each entry starts where the one before it ended: no change was made on what somebody else had overwritten.
        assert [one.old for one in entries[1:]] == [one.new for one in entries[:-1]]
