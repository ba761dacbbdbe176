"""What a learner sees: deadlines, late rules and penalties in words, results when they are out, in their language."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from class_pages import BASE, LAB, Class
from classroom_samples import RIGHT, WRONG
from classroom_work import DUE, hand_in

from autograder.feedback.catalogue import speaking
from autograder.gradebook import Gradebook, decisions, open_gradebook
from autograder.gradebook.models import now
from autograder.gradebook.policy import LateRule
from autograder.queue import enqueue, park
from autograder.spec import load_lab
from autograder.web import learning
from autograder.web.views import Links

pytestmark = pytest.mark.slow

LINKS = Links("/autograder/", "/lab", "/book/")


@pytest.fixture
def book(tmp_path: Path):
    with open_gradebook(tmp_path / "gradebook.sqlite") as opened:
        yield opened


def lab_view(book: Gradebook, lab: str = LAB, learner: str = "ada", **how) -> learning.LabView:
    views = learning.lab_views(book, learner, Path(), **({"open_by_default": True} | how))
    return next(view for view in views if view.name == lab)


def test_overview_tells_the_deadline_the_rule_and_what_lateness_cost(class_: Class):
    page = class_.as_("ada").get("").text
    assert "1.8 of 5 points, best of 2 submissions." in page
    assert "Due 2026-10-05 23:59 (Europe/Berlin)." in page
    assert "Earned: 2 of 5 points." in page
    assert "Handed in 1 day late: 90 % of it is left, which takes off 0.2 points." in page
    assert "Late work loses 10 % of what it earned for each day that has begun." in page
    assert "The first 15 minutes after the deadline cost nothing." in page
    assert "It loses 50 % at most. After 7 days it earns nothing." in page


def test_overview_tells_an_adjustment_with_its_reason_and_an_extension(class_: Class):
    assert "Your instructor added 0.5 points: =cmd" in class_.as_("bob").get("").text
    hostile = class_.as_("eve\"'<b><script>alert(1)</script>").get("").text
    assert "You have more time than the others, who have until 2026-10-05" in hostile
    assert "Due 2026-10-07 23:59 (Europe/Berlin)." in hostile


def test_a_submission_in_the_queue_says_its_place_and_that_the_page_looks(class_: Class):
    number = max(int(part.split('"')[0]) for part in class_.as_("bob").get("").body.split("/submission/")[1:])
    page = class_.as_("bob").get(f"submission/{number}")
    assert "It is next in the queue." in page.text
    assert f'data-state="{BASE}autograder/submission/{number}/state"' in page.body
    assert "connect-src 'self'" in page.headers["Content-Security-Policy"]
    told = json.loads(class_.as_("bob").get(f"submission/{number}/state").body)
    assert told == {"graded": False, "state": "waiting", "ahead": 0}
    assert json.loads(class_.as_("ada").get(f"submission/{class_.mine}/state").body) == {"graded": True}


def test_a_person_reads_the_language_they_choose(class_: Class):
    ada = class_.as_("ada")
    assert "实验与成绩" in ada.get("", Accept_Language="zh-CN,zh;q=0.9").body
    page = ada.done("language", {"language": "zh"})
    assert '<html lang="zh">' in page.body
    assert "1.8 / 5 分" in page.text
    feedback = ada.get(f"submission/{class_.mine}", Accept_Language="en").body
    assert "答案错误" in feedback
    assert "Wrong answer" not in feedback
    assert "你没有编号为 99999 的提交" in ada.get("submission/99999").body
    assert "Labs and grades" in ada.done("language", {"language": "en"}).body


@pytest.mark.parametrize(
    ("released", "by_default", "there"),
    [(None, True, True), (None, False, False), (-1, False, True), (1, False, False), (1, True, False)],
)
def test_a_lab_is_there_when_it_is_out(book, released, by_default, there):
    if released:
        decisions.assign(book, LAB, by="ines", released=now() + timedelta(hours=released))
    names = {view.name for view in learning.lab_views(book, "ada", Path(), open_by_default=by_default)}
    assert (LAB in names) == there


def test_a_lab_that_is_held_back_again_stays_with_who_handed_it_in(book):
    hand_in(book, "ada", "{}", 4.0)
    decisions.assign(book, LAB, by="ines", released=now() + timedelta(days=1))
    assert lab_view(book, open_by_default=False).mark.points == 4.0
    assert LAB not in {view.name for view in learning.lab_views(book, "bob", Path(), open_by_default=False)}


def test_a_lab_lists_its_questions_in_words_beside_its_tasks(book):
    lab = load_lab(LAB)
    assert lab.written
    view = lab_view(book)
    assert [name for name, _, _ in view.tasks] == [part.name for part in (*lab.tasks, *lab.written)]
    assert view.points == lab.points
    assert f"<td>– of {lab.written[0].points:g}</td>" in learning.overview(book, "ada", LINKS, Path())


def test_results_that_are_not_out_are_nowhere(book):
    number = hand_in(book, "ada", "{}", tasks=[RIGHT, WRONG])
    out = datetime(2200, 1, 2, 3, 4, tzinfo=UTC)
    decisions.adjust(book, LAB, "ada", 1.5, by="ines", reason="for a good question")
    decisions.assign(book, LAB, by="ines", results=out)
    view = lab_view(book)
    assert view.state() == "Handed in. The result is shown from 2200-01-02 03:04 UTC on."
    assert view.score() == []
    assert view.verdict("order") is None
    one = view.submissions[0]
    page, policy = learning.feedback(book, one, LINKS, out)
    whole = learning.overview(book, "ada", LINKS, Path()) + page
    assert "2200-01-02 03:04 UTC" in page
    for told in ("Right", "Wrong answer", "good question", RIGHT.title, "3.5", "2 of"):
        assert told not in page
    assert "good question" not in whole
    assert "2 of 5" not in whole
    assert "script-src" in policy
    decisions.assign(book, LAB, by="ines", results=now() - timedelta(seconds=1))
    assert lab_view(book).state() == "3.5 of 5 points, best of 1 submission."
    assert RIGHT.title in learning.feedback(book, one, LINKS)[0]
    assert number == one.id


@pytest.mark.parametrize(
    ("rule", "language", "said"),
    [
        ("none", "en", ["Handing in late costs nothing."]),
        ("zero 2h", "en", ["After 2 hours it earns nothing."]),
        (
            "5%/hour max 50%",
            "en",
            ["Late work loses 5 % of what it earned for each hour that has begun.", "It loses 50 % at most."],
        ),
        ("10%/day", "zh", ["每迟交一天（不足一天按一天计），扣除所得分数的 10%。"]),
        ("grace 90m zero 1d", "zh", ["超过 1 天 后不得分。", "截止后的前 1 小时 30 分钟 不扣分。"]),
    ],
)
def test_late_rules_in_words(book, rule, language, said):
    decisions.assign(book, LAB, by="ines", due=DUE, late=LateRule.parse(rule))
    with speaking(language):
        assert lab_view(book).rules()[1:] == said


@pytest.mark.parametrize(
    ("hours", "said"),
    [(50, "2 days and 2 hours left."), (1.5, "1 hour and 30 minutes left."), (-1, "The deadline has passed.")],
)
def test_time_that_is_left(book, hours, said):
    decisions.assign(book, LAB, by="ines", due=now() + timedelta(hours=hours, seconds=30))
    assert lab_view(book).time() == [said]


def test_every_way_to_change_a_mark_by_hand_is_said(book):
    hand_in(book, "ada", "{}", 3.0)
    for points, replaces, reason in (
        (1, False, "one"),
        (-2, False, "two"),
        (7, True, "three"),
        (9, False, "withdrawn"),
    ):
        number = decisions.adjust(book, LAB, "ada", points, by="ines", reason=reason, replaces=replaces)
    decisions.withdraw(book, number, by="ines", reason="a slip")
    assert lab_view(book).score() == [
        "Earned: 3 of 4 points.",
        "Your instructor added 1 point: one",
        "Your instructor took off 2 points: two",
        "Your instructor set the mark to 7 points: three",
    ]


def test_a_mark_without_work_is_said_to_be_given(book):
    hand_in(book, "bob", "{}", 4.0)
    hand_in(book, "ada", "x", lab="lab06_rules")
    decisions.adjust(book, LAB, "ada", 2.0, by="ines", reason="an oral exam")
    assert lab_view(book).state() == "2 of 4 points, given by your instructor."


def test_a_parked_submission_says_why_unless_a_person_parked_it(book):
    number = hand_in(book, "ada", "not a notebook")
    job = enqueue(book, number)
    one = lab_view(book).submissions[0]
    park(book, job.id, by="ines", reason="She asked me to.")
    page, policy = learning.feedback(book, one, LINKS)
    assert "Your instructor is told" in page.replace("your", "Your")
    assert "She asked me to" not in page
    assert "connect-src" not in policy
