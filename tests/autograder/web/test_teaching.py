"""What an instructor does on the pages of the class, form by form, and what comes of it in the gradebook."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from class_pages import BASE, FORMULA, HOSTILE, LAB, SCRIPT, Class, Person
from classroom_samples import RIGHT
from classroom_work import hand_in

from autograder.gradebook import audit, decided, decisions
from autograder.gradebook.scores import mark
from autograder.queue import counts, watch
from autograder.report import TaskResult

pytestmark = pytest.mark.slow

TERMS = {
    "do": "terms",
    "lab": "lab06_rules",
    "zone": "Asia/Shanghai",
    "released": "2026-09-01T08:00",
    "due": "2026-10-01T23:59",
    "results": "2026-10-02T08:00",
    "late": "10%/day",
    "policy": "last",
    "points": "12.5",
    "line_item": "",
    "why": "as planned",
}


def last(class_: Class) -> audit.Change:
    with class_.book() as book:
        return audit.trail(book, limit=1)[0]


def test_overview_has_labs_marks_and_what_waits(class_: Class):
    page = class_.as_("ines").get("class/").text
    assert "3 learners" in page
    assert "1 in the queue" in page
    assert "2.24 of 5" in page
    assert "1.8 L" in page
    assert "1.93 A" in page
    found = class_.as_("ines").get("class/?q=AD")
    assert "1 learner whose name has AD in it" in found.text
    assert class_.as_("ines").get("class/?page=99999999999").status == 200
    assert "Page 1 of" not in class_.as_("ines").get("class/?page=2").text


def test_many_learners_are_shown_a_page_at_a_time(tmp_path):
    from autograder.web.classes import Page

    rows = list(range(120))
    assert [Page.of(rows, number).rows[0] for number in (0, 1, 2, 3, 9)] == [0, 0, 50, 100, 100]
    assert Page.of([], 1).pages == 1


def test_terms_are_set_in_the_zone_they_are_given_in(fresh: Class):
    ines = fresh.as_("ines")
    page = ines.done("class/lab/lab06_rules", TERMS)
    assert "The terms are set." in page.text
    assert "Due 2026-10-01 23:59 (Asia/Shanghai)." in page.text
    with fresh.book() as book:
        terms = decisions.assignments(book)["lab06_rules"]
    assert terms.due == datetime(2026, 10, 1, 15, 59, tzinfo=UTC)
    assert terms.results == datetime(2026, 10, 2, 0, 0, tzinfo=UTC)
    assert (terms.policy, terms.points, str(terms.late)) == ("last", 12.5, "10%/day")
    change = last(fresh)
    assert (change.who, change.what, change.why) == ("ines", "assignment", "as planned")


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("zone", "Mars/Base", "Mars/Base"),
        ("zone", "", "time zone is missing"),
        ("due", "tomorrow", "not a date and time"),
        ("due", "2026-08-01T00:00", "before it is released"),
        ("late", "a lot", "not understood"),
        ("late", "200%/day", "0 % to 100 %"),
        ("points", "-3", "give more than 0"),
        ("points", "nan", "not a number"),
        ("points", "many", "not a number"),
        ("policy", "worst", "no rule"),
        ("lab", "lab99_none", "There is no lab"),
        ("line_item", "javascript:alert(1)", "https"),
        ("due", "2026-03-29T02:30", "skip this time"),
    ],
)
def test_terms_that_cannot_be_meant_change_nothing_and_what_was_typed_stays(class_: Class, field, typed, said):
    before = last(class_)
    form = TERMS | {field: typed} | ({"zone": "Europe/Berlin", "released": ""} if "03-29" in typed else {})
    answer = class_.as_("ines").post("class/lab/lab06_rules", form)
    assert answer.status == 400
    assert said in answer.text.replace("&#39;", "'")
    assert 'role="alert"' in answer.body
    assert 'value="as planned"' in answer.body
    assert last(class_) == before


def test_release_hold_back_and_show_results(fresh: Class):
    ines, bob = fresh.as_("ines"), fresh.as_("ada")
    assert "Tensors" not in bob.get("").text
    assert (
        "released: learners get it"
        in ines.done("class/lab/lab01_tensor", {"do": "release", "lab": "lab01_tensor"}).text
    )
    assert "Tensors" in bob.get("").text
    assert "held back" in ines.done("class/lab/lab01_tensor", {"do": "hold", "lab": "lab01_tensor"}).text
    assert "Tensors" not in bob.get("").text
    with fresh.book() as book:
        decisions.assign(book, LAB, by="ines", results=datetime(2200, 1, 1, tzinfo=UTC))
    assert "1.8 of 5" not in bob.get("").text
    assert bob.get(f"submission/{fresh.mine}.json").status == 404
    assert json.loads(bob.get(f"submission/{fresh.mine}/state").body) == {"graded": False}
    assert "1.8 L" in ines.get("class/").text
    ines.done(f"class/lab/{LAB}", {"do": "show_results", "lab": LAB})
    assert "1.8 of 5" in bob.get("").text


def test_one_learner_gets_more_time_and_it_can_be_taken_back(fresh: Class):
    ines = fresh.as_("ines")
    form = {"do": "extend", "lab": LAB, "learner": "ada", "until": "2026-10-09T12:00", "zone": "UTC", "why": "ill"}
    page = ines.done(f"class/lab/{LAB}", form)
    assert "The extension is set." in page.text
    with fresh.book() as book:
        assert mark(book, learner="ada", lab=LAB).points == 2.0
    assert "2 of 5 points" in fresh.as_("ada").get("").text
    with fresh.book() as book:
        decisions.assign(book, LAB, by="ines", zone="Asia/Shanghai")
    ines.done(f"class/lab/{LAB}", form | {"zone": ""})
    with fresh.book() as book:
        assert [one.until.hour for one in decided.extensions(book, lab=LAB) if one.learner == "ada"] == [4]
    ines.done(f"class/lab/{LAB}", form | {"until": ""})
    with fresh.book() as book:
        assert [one.learner for one in decided.extensions(book, lab=LAB)] == [HOSTILE]
    for wrong, said in (({"learner": "nobody"}, "nobody is called"), ({"why": " "}, "A reason is missing")):
        answer = ines.post(f"class/lab/{LAB}", form | wrong)
        assert answer.status == 400
        assert said in answer.text


def test_a_mark_is_adjusted_by_hand_and_the_adjustment_withdrawn(fresh: Class):
    gus = fresh.as_("gus")
    form = {"do": "adjust", "lab": LAB, "learner": "ada", "way": "take", "points": "0,5", "why": "shared code"}
    page = gus.done("class/learner?name=ada", form)
    assert "The mark is adjusted." in page.text
    with fresh.book() as book:
        assert mark(book, learner="ada", lab=LAB).points == pytest.approx(1.3)
        number = decided.adjustments(book, learner="ada")[0].id
    assert f"{number}: {LAB}, -0.5, by gus" in page.text
    assert last(fresh).who == "gus"
    assert "Your instructor took off 0.5 points: shared code" in fresh.as_("ada").get("").text
    page = gus.done("class/learner?name=ada", {"do": "withdraw", "number": str(number), "why": "it was not"})
    assert "It stays on record" in page.text
    with fresh.book() as book:
        assert mark(book, learner="ada", lab=LAB).points == pytest.approx(1.8)
    answer = gus.post("class/learner?name=ada", form | {"why": ""})
    assert answer.status == 400
    assert 'value="0,5"' in answer.body


def test_points_by_hand_stand_and_are_read_by_the_learner(fresh: Class):
    form = {
        "do": "score",
        "submission": str(fresh.mine),
        "task": "rules",
        "points": "2",
        "comment": "The idea is right.",
    }
    page = fresh.as_("gus").done(f"class/submission/{fresh.mine}", form)
    assert "They stand through every regrade." in page.text
    with fresh.book() as book:
        assert mark(book, learner="ada", lab=LAB).earned == 4.0
    ada = fresh.as_("ada")
    assert "The idea is right." in ada.get(f"submission/{fresh.mine}").text
    assert "4 of 5 points, counts" in ada.get("").text
    for wrong, said in (({"points": "9"}, "0 to 3"), ({"task": "none"}, "no task"), ({"comment": ""}, "is missing")):
        answer = fresh.as_("gus").post(f"class/submission/{fresh.mine}", form | wrong)
        assert answer.status == 400
        assert said in answer.text
        assert "sqlite" not in answer.text


def test_the_queue_is_watched_parked_and_retried(fresh: Class):
    ines = fresh.as_("ines")
    with fresh.book() as book:
        [job] = watch(book)
    assert "waiting, 0 before it" in ines.get("class/queue").text
    page = ines.done("class/queue", {"do": "park", "job": str(job.id), "why": "the spec is wrong"})
    assert "parked" in page.text
    assert "the spec is wrong" in page.text
    assert ines.post("class/queue", {"do": "park", "job": str(job.id), "why": ""}).status == 400
    ines.done("class/queue", {"do": "retry", "job": str(job.id)})
    with fresh.book() as book:
        assert counts(book)["waiting"] == 1
    assert "Nothing waits that fits." in ines.get("class/queue?lab=lab01_tensor").text


def test_one_lab_or_one_learner_is_graded_again(fresh: Class):
    ines = fresh.as_("ines")
    ines.done("class/learner?name=ada", {"do": "regrade", "learner": "ada", "lab": "", "why": "asked"})
    with fresh.book() as book:
        assert {job.learner for job in watch(book) if job.lab == LAB} == {"ada"}
    form = {"do": "regrade", "lab": LAB, "why": "the spec was wrong"}
    page = ines.done(f"class/lab/{LAB}", form)
    assert "is in the queue." in page.text
    with fresh.book() as book:
        assert {job.learner for job in watch(book) if job.lab == LAB} == {"ada", "bob", HOSTILE}
        assert {job.lab for job in watch(book)} == {LAB, "lab06_rules"}
        jobs = [job.id for job in watch(book) if job.lab == LAB]
    for job in jobs:
        ines.done("class/queue", {"do": "park", "job": str(job), "why": "the spec is wrong"})
    assert "Nothing was put into the queue" in ines.done(f"class/lab/{LAB}", form).text


def test_statistics_have_a_plot_with_words_and_the_most_frequent_diagnosis(class_: Class):
    page = class_.as_("ines").get(f"class/lab/{LAB}")
    assert 'aria-label="Learners by mark, in tenths of full marks. 0%: 0; 10%: 0; 20%: 0; 30%: 2;' in page.body
    assert "The gradient was not summed over the axes that broadcasting added. (1 learner)" in page.text
    assert "Did not finish: 1" in page.text


def test_every_submission_is_read_as_plain_text(class_: Class):
    page = class_.as_("gus").get(f"class/submission/{class_.hostile}/notebook")
    assert "Cell 2: code" in page.text
    assert "shown &lt;script&gt;" in page.body
    file = class_.as_("gus").get(f"class/submission/{class_.mine}/file")
    assert json.loads(file.body)["cells"]


def test_changes_are_listed_with_before_and_after(class_: Class):
    page = class_.as_("ines").get(f"class/audit?lab={LAB}&learner=bob").text
    assert "adjustment" in page
    assert "points: 0.5" in page
    assert "extension" not in page


@pytest.mark.parametrize(
    "path", ["marks.csv", f"marks.csv?lab={LAB}", f"tasks.csv?lab={LAB}", "submissions.csv", "audit.csv"]
)
def test_tables_are_taken_elsewhere(class_: Class, path):
    answer = class_.as_("gus").get(f"class/export/{path}")
    assert answer.headers["Content-Type"] == "text/csv; charset=UTF-8"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="')
    rows = list(csv.reader(io.StringIO(answer.body)))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])}


def test_scores_for_a_platform_are_for_instructors(class_: Class):
    told = json.loads(class_.as_("ines").get(f"class/export/{LAB}-lti.json").body)
    assert sorted(told["withoutId"]) == sorted(["ada", "bob", HOSTILE])
    assert class_.as_("gus").get(f"class/export/{LAB}-lti.json").status == 404


@pytest.mark.parametrize("path", ["marks", "nothing.csv", "tasks.csv", "../class/", "marks.csv/x"])
def test_no_other_table(class_: Class, path):
    assert class_.as_("ines").get(f"class/export/{path}").status in (301, 404)


def test_a_broken_gradebook_is_not_the_fault_of_who_typed(fresh: Class, monkeypatch: pytest.MonkeyPatch):
    from sqlalchemy.exc import OperationalError

    from autograder.gradebook.faults import one_line

    def broken(*_: object, **__: object) -> None:
        with one_line(fresh.url, "change it"):
            raise OperationalError("x", {}, Exception("database is locked"))

    monkeypatch.setattr(decisions, "adjust", broken)
    form = {"do": "adjust", "lab": LAB, "learner": "ada", "points": "1", "why": "x"}
    answer = fresh.as_("ines").post("class/learner?name=ada", form)
    assert answer.status == 503
    assert "kept it locked" in answer.text


def test_the_page_after_a_form_can_be_loaded_again(fresh: Class):
    ines = fresh.as_("ines")
    form = {"do": "adjust", "lab": LAB, "learner": "ada", "way": "add", "points": "1", "why": "x"}
    answer = ines.post("class/learner?name=ada", form)
    assert answer.headers["Location"] == f"{BASE}autograder/class/learner?name=ada&said=adjusted"
    for _ in range(3):
        ines.ask("GET", answer.headers["Location"])
    with fresh.book() as book:
        assert len(decided.adjustments(book, learner="ada")) == 1
    assert FORMULA not in answer.body


def test_who_no_longer_teaches_is_out_at_once(fresh: Class):
    from autograder.gradebook import roster

    ines: Person = fresh.as_("ines")
    assert ines.get("class/").status == 200
    with fresh.book() as book:
        roster.leave(book, "ines", by="root", why="moved on")
    assert ines.get("class/").status == 404
    assert ines.post("class/queue", {"do": "retry", "job": "1"}).status == 404


def test_a_deadline_that_moves_moves_every_mark(fresh: Class):
    form = TERMS | {"lab": LAB, "due": "2026-10-08T00:00", "results": "", "policy": "best", "points": "", "zone": "UTC"}
    fresh.as_("ines").done(f"class/lab/{LAB}", form)
    with fresh.book() as book:
        found = mark(book, learner="ada", lab=LAB)
    assert (found.points, found.late) == (2.0, timedelta(0))


def test_an_answer_in_words_is_read_and_scored(fresh: Class):
    answer = TaskResult("why", "Why it works", 0.0, 4.0, "pending", answer=f"Because of {SCRIPT}.")
    with fresh.book() as book:
        number = hand_in(book, "ada", "words", tasks=[RIGHT, answer], late=-timedelta(days=1))
        decisions.assign(book, LAB, by="ines", policy="last")
    gus = fresh.as_("gus")
    assert "1 answer waits" in gus.get("class/written").text
    page = gus.get(f"class/submission/{number}")
    assert "Read and score: why" in page.text
    assert f"Because of {SCRIPT}" not in page.body
    assert "Because of &lt;script&gt;" in page.body
    assert "Still to be read by your instructor: why." in fresh.as_("ada").get("").text
    form = {"do": "score", "submission": str(number), "task": "why", "points": "3.5", "comment": "Say which sum."}
    assert "The points are recorded." in gus.done(f"class/submission/{number}", form).text
    assert "0 answers wait" in gus.get("class/written").text
    seen = fresh.as_("ada").get(f"submission/{number}").text
    assert "Say which sum." in seen
    assert "3.5 of 4 points" in seen
    assert gus.post(f"class/submission/{number}", form | {"points": "4.5"}).status == 400


def test_a_lab_that_nobody_knows_any_more_does_no_harm(fresh: Class):
    with fresh.book() as book:
        hand_in(book, "ada", "old", 2.0, lab="Old lab <b>\"'/../x")
    ines = fresh.as_("ines")
    for path in ("class/", "class/learner?name=ada", f"class/submission/{fresh.mine}", "class/audit"):
        assert ines.get(path).status == 200
    assert "Old lab" in fresh.as_("ada").get("").text
