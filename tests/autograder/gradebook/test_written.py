"""Answers in words: which wait, who reads them, what they count, and that the same words are read once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from classroom_work import LAB, hand_in, task

from autograder.cli import run
from autograder.gradebook import GradebookError, audit, queries, written
from autograder.gradebook.decisions import assign
from autograder.gradebook.scores import mark
from autograder.report import TaskResult
from autograder.spec import Written

HOUR = timedelta(hours=1)
QUESTION = Written("why", "Why the tape runs backwards", 6.0, rubric="The chain rule, 3; the order, 3.")


@pytest.fixture(autouse=True)
def lab_with_a_question(monkeypatch):
    monkeypatch.setattr(written, "questions_of", lambda lab: (QUESTION,) if lab == LAB else ())


def words(text, verdict="pending"):
    return TaskResult("why", QUESTION.title, 0.0, 6.0, verdict, answer=text)


def answer(book, learner, text, code=4.0, note="", **given):
    tasks = [task("rules", code, 4.0), words(text, "pending" if text else "missing")]
    return hand_in(book, learner, f"{learner}{text}{code}{note}", tasks=tasks, **given)


def waiting(book):
    return [(one.learner, one.submission, one.task, one.max_points) for one in written.awaited(book)]


def test_an_answer_waits_until_it_is_read_and_then_counts(book):
    first = answer(book, "ada", "Because of the chain rule.")
    assert waiting(book) == [("ada", first, "why", 6.0)]
    before = mark(book, learner="ada", lab=LAB)
    assert (before.points, before.max_points, before.by_hand) == (4.0, 10.0, ("why",))
    assert written.score(book, first, "why", 4.5, by="grace", comment="And the order?") == [first]
    after = mark(book, learner="ada", lab=LAB)
    assert (after.points, after.by_hand) == (8.5, ())
    assert waiting(book) == []
    (read,) = written.answers(book, first)
    assert (read.text, read.rubric, read.title) == ("Because of the chain rule.", QUESTION.rubric, QUESTION.title)
    assert (read.score.points, read.score.comment, read.score.by) == (4.5, "And the order?", "grace")
    shown = queries.report(book, first)
    assert [one.verdict for one in shown.tasks] == ["right", "marked"]
    assert (shown.points, shown.tasks[1].comment, shown.tasks[1].marked_by) == (8.5, "And the order?", "grace")
    assert not shown.full_marks
    written.score(book, first, "why", 6, by="grace")
    assert queries.report(book, first).full_marks
    assert [change.new["points"] for change in audit.trail(book, what="hand score")] == [6.0, 4.5]


def test_the_same_words_are_read_once(book):
    first = answer(book, "ada", "The same words.", 1.0)
    second = answer(book, "ada", "The same words.", 2.0, late=HOUR)
    stranger = answer(book, "bob", "The same words.")
    assert written.score(book, first, "why", 3, by="grace", comment="Half.") == [first, second]
    third = answer(book, "ada", "The same words.", 4.0, late=2 * HOUR)
    other = answer(book, "ada", "Other words.", 4.0, late=3 * HOUR)
    assert [written.answers(book, one)[0].score is not None for one in (third, other, stranger)] == [True, False, False]
    assert written.answers(book, third)[0].score.comment == "Half."
    assert mark(book, learner="ada", lab=LAB).points == 7.0
    whys = [change.why for change in audit.trail(book, what="hand score", learner="ada")]
    assert whys[:2] == [f"The same words as in submission {second}.", f"The same words as in submission {first}."]


@pytest.mark.parametrize("policy", ["best", "last"])
def test_better_words_with_the_same_code_are_read_too(book, policy):
    assign(book, LAB, by="grace", policy=policy)
    first = answer(book, "ada", "Few words.", late=-2 * HOUR)
    middle = answer(book, "ada", "More words.", late=-HOUR)
    last = answer(book, "ada", "The best words.")
    numbers = [one.submission for one in written.awaited(book)]
    assert numbers == ([first, last] if policy == "best" else [last])
    assert middle not in numbers
    written.score(book, last, "why", 6, by="grace")
    assert mark(book, learner="ada", lab=LAB).points == 10.0


def test_a_newer_grade_without_the_question_asks_for_nothing(book):
    number = answer(book, "ada", "Words.")
    book.record(number, replaced(book, number, spec_version="two", tasks=[task("rules", 4.0, 4.0)]))
    assert waiting(book) == []


def replaced(book, number, **changed):
    from dataclasses import replace

    return replace(queries.report(book, number), **changed)


def test_nothing_written_does_not_wait_and_can_still_be_given_points(book):
    number = answer(book, "ada", "")
    assert waiting(book) == []
    written.score(book, number, "why", 1, by="grace", comment="As told in class.")
    assert mark(book, learner="ada", lab=LAB).points == 5.0
    assert queries.report(book, number).tasks[1].verdict == "marked"


def test_an_answer_worth_less_now_is_read_again(book):
    first = answer(book, "ada", "Words.")
    written.score(book, first, "why", 6, by="grace")
    small = [task("rules", 4.0, 4.0), TaskResult("why", "", 0.0, 2.0, "pending", answer="Words.")]
    second = hand_in(book, "ada", "other bytes", tasks=small, late=HOUR)
    assert written.answers(book, second)[0].score is None


@pytest.mark.parametrize(
    ("task_name", "points", "message"),
    [
        ("why", -1, "worth 0 to 6"),
        ("why", 7, "worth 0 to 6"),
        ("why", float("nan"), "not a number"),
        ("why", float("inf"), "not a number"),
        ("why", "six", "not a number"),
        ("why", True, "not a number"),
        ("rules", 1, "no answer in words 'rules'; it has why"),
        ("nothing", 1, "no answer in words 'nothing'"),
    ],
)
def test_points_that_cannot_be_given(book, task_name, points, message):
    number = answer(book, "ada", "Words.")
    with pytest.raises(GradebookError, match=message):
        written.score(book, number, task_name, points, by="grace")
    assert written.answers(book, number)[0].score is None


def test_what_is_not_there(book):
    with pytest.raises(GradebookError, match="no submission 7"):
        written.answers(book, 7)
    ungraded = hand_in(book, "ada", "bytes")
    assert written.answers(book, ungraded) == []
    with pytest.raises(GradebookError, match="not graded yet"):
        written.score(book, ungraded, "why", 1, by="grace")


@pytest.mark.slow
def test_the_commands(book, address, capsys):
    number = answer(book, "ada", "Because.\x1b[2J\nSecond line.")
    where = ["--gradebook", address]
    assert run(["written", "list", *where]) == 0
    out = capsys.readouterr().out
    assert f"{number}  {LAB}/why  ada  6 points" in out
    assert "1 to read." in out
    assert run(["written", "show", str(number), *where]) == 0
    out = capsys.readouterr().out
    assert "Because.?[2J\nSecond line." in out, "what a learner wrote steers no terminal"
    assert QUESTION.rubric in out
    assert run(["written", "score", str(number), "why", "5", "--comment", "Good.", "--by", "grace", *where]) == 0
    assert "the mark is 9 of 10" in capsys.readouterr().out
    assert run(["written", "list", *where]) == 0
    assert capsys.readouterr().out == "Nothing waits to be read.\n"
    assert run(["written", "score", str(number), "why", "50", *where]) == 2
    assert "worth 0 to 6" in capsys.readouterr().err
    assert run(["written", "show", "99", *where]) == 2
    assert run(["written", "list", "--lab", "lab77", *where]) == 2
